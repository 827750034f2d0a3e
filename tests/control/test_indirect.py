"""Pontryagin's conditions solved by multiple shooting, against closed forms and known optima."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import control
from tests.control.cart import Cart, least_energy


def certificate_of(result):
    assert result.certificate is not None
    return result.certificate


def end_time(t, q, u, control):
    return t


def test_cart_with_a_free_end_time():
    """T + 6 m² d²/T³ is least at T⁴ = 18 m² d²; λ_0 = (−12 m² d/T³, −6 m² d/T²), and H = −1."""
    m = 1.3
    end = control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1))
    problem = least_energy(
        system=Cart(jnp.array(m)),
        costs=(control.ControlEnergy(), control.FinalCost(end_time)),
        constraints=(end, control.FreeEndTime(0.5, 10.0)),
    )
    direct = control.Collocation(intervals=3, degree=3)
    result = control.solve(problem, control.Indirect(direct))
    assert result.converged
    assert certificate_of(result).holds
    T = (18 * m**2) ** 0.25
    np.testing.assert_allclose(result.ts[-1], T, rtol=1e-10)
    np.testing.assert_allclose(result.cost, T + 6 * m**2 / T**3, rtol=1e-11)
    exact = [-12 * m**2 / T**3, -6 * m**2 / T**2]
    np.testing.assert_allclose(result.costates[0], exact, rtol=1e-9)
    np.testing.assert_allclose(result.control(0.25 * T), [3 * m / T**2], rtol=1e-9)


def test_unicycle_on_a_coarse_mesh_differs_from_the_indirect_solution():
    """Indirect shooting reproduces the known cost to 1e-10, so the certificate reports that the coarse direct solution
    differs from it."""
    result = control.solve(
        control.problems.unicycle_sideways(), control.Indirect(control.Collocation(intervals=6))
    )
    assert result.converged
    np.testing.assert_allclose(result.cost, 11.1581587152, atol=1e-10)
    np.testing.assert_allclose(result.trajectory.q[-1], [0.0, 0.0, 1.0], atol=1e-8)
    certificate = certificate_of(result)
    assert not certificate.holds
    assert certificate.agreement is not None
    assert 1e-8 < certificate.agreement < 1e-3
    assert "differs from the indirect solution" in certificate.words


def test_what_the_indirect_method_cannot_keep_is_refused():
    problem = least_energy(constraints=(control.ControlAt(value=jnp.zeros(1)),))
    with pytest.raises(TypeError, match="`ControlAt`, a condition on the control"):
        control.solve(problem, control.Indirect())
    with pytest.raises(TypeError, match=r"`direct` is .*; it must be a control.Collocation"):
        control.Indirect(direct=control.MultipleShooting())  # pyright: ignore[reportArgumentType]
