"""Losses: ρ(0) = 0, ρ′ = ψ, ψ′ = slope, and the closed forms of the literature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.identify import Cauchy, Huber, SoftL1, Squares

LOSSES = [Squares(), Huber(), Huber(0.7), SoftL1(), SoftL1(2.0), Cauchy(), Cauchy(1.0)]
R = np.concatenate([-np.geomspace(9.0, 1e-2, 12), np.geomspace(1e-2, 9.0, 12)])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_loss_is_the_integral_of_its_influence(loss):
    """ρ(r) = ∫₀^r ψ by quadrature, split at the corner of Huber's ψ at k. Least squares gets sign(r) √(2ρ)."""
    corner = np.clip(R, -getattr(loss, "k", 1.0), getattr(loss, "k", 1.0))

    def integral(a, b):
        at = a[:, None] + (b - a)[:, None] * (NODES + 1) / 2
        return (b - a) / 2 * (np.asarray(loss.psi(at)) @ WEIGHTS)

    wanted = integral(np.zeros_like(R), corner) + integral(corner, R)
    np.testing.assert_allclose(loss.rho(R), wanted, rtol=1e-12)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(loss.psi))(R), loss.slope(R), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(loss.transformed(R), np.sign(R) * np.sqrt(2 * wanted), rtol=1e-12)
    np.testing.assert_allclose(loss.rho(jnp.array(1e-4)), 0.5e-8, rtol=1e-7)


def test_closed_forms():
    """Huber 1964: k |r| − k²/2 beyond k, 3k²/2 at 2k; k² (√2 − 1) and k²/2 log 2 at k."""
    np.testing.assert_allclose(Huber(0.8).rho(np.array([-1.6, 1.6])), 1.5 * 0.64, rtol=1e-15)
    np.testing.assert_allclose(SoftL1(0.8).rho(np.array(0.8)), 0.64 * (np.sqrt(2) - 1), rtol=1e-14)
    np.testing.assert_allclose(Cauchy(0.8).rho(np.array(0.8)), 0.32 * np.log(2), rtol=1e-15)
