"""Lagrange–d'Alembert–Poincaré equations of principal kinematic constraints, left and right, against the general routes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SO3, AbstractSpace
from jaxhamel.mechanics import (
    System,
    acceleration,
    lagrange_dalembert_poincare,
    principal_connection,
)
from jaxhamel.systems import NonSpinningBall
from tests.mechanics.random_bundles import Bundle, random_bundle

CONTROL = 0.4
OUTER = jnp.asarray(np.random.default_rng(7).normal(size=(3, 2, 4)))
INNER = jnp.asarray(np.random.default_rng(8).normal(size=(4, 2)))


class Principal(System):
    """A random bundle system with the constraints C (X ξ + A(r) ṙ) = 0, X = 1 or Ad_g, C not the identity."""

    base: Bundle
    space: AbstractSpace
    right: bool = eqx.field(static=True)
    n_constraints: int = eqx.field(static=True)

    def lagrangian(self, t, q, v):
        return self.base.lagrangian(t, q, v)

    def frame(self, t, q):
        A = (1 + 0.1 * t) * jnp.tensordot(OUTER, jnp.sin(INNER @ q[1] + 0.3), axes=1)
        X = SO3().Ad(q[0]) if self.right else jnp.eye(3)
        mixing = jnp.eye(3) + 0.3 * jnp.eye(3, k=1)
        rows = mixing @ jnp.concatenate([X, A], axis=1)
        return jnp.concatenate([rows, jnp.eye(5)[3:]])

    def force(self, t, q, v, control):
        return self.base.force(t, q, v, control)


def principal(group, right):
    base, t, q, v = random_bundle(21, group)
    system = Principal(base=base, space=base.space, right=right, n_constraints=3)
    return system, t, q, v[3:]


@pytest.mark.parametrize(("group", "right"), [(SE2(), False), (SO3(), True)], ids=["left", "right"])
def test_random_systems(group, right):
    """r̈ by (4.9) is u̇ by the multiplier route; L, V and Q may depend on g and t, A on t."""
    system, t, q, rdot = principal(group, right)

    @jax.jit
    def both(t, q, rdot):
        found = lagrange_dalembert_poincare(system, t, q, rdot, CONTROL, right=right)
        return found, acceleration(system, t, q, rdot, CONTROL, route="multipliers")

    found, wanted = both(t, q, rdot)
    assert np.max(np.abs(wanted)) > 0.1
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_ball_without_spin():
    """(4.12)–(4.15): A^1_5 = 1/R, A^2_4 = −1/R in space; r̈ is the closed form, an inhomogeneous ball's too."""
    ball = NonSpinningBall(0.4, 1.3, [0.05, 0.08, 0.1])
    q = (SO3().exp(jnp.asarray([0.3, -1.0, 0.4])), jnp.asarray([1.0, 2.0]))
    rdot, push = jnp.asarray([0.7, -0.5]), jnp.asarray([0.3, 0.1])
    found = lagrange_dalembert_poincare(ball, 0.0, q, rdot, push, right=True)
    np.testing.assert_allclose(found, ball.closed_form(0.0, q, rdot, push), atol=1e-14)
    A = SO3().Ad(q[0]) @ principal_connection(ball, 0.0, q)
    np.testing.assert_allclose(A, np.array([[0, 1], [-1, 0], [0, 0]]) / 0.4, atol=1e-14)
    derivative = jax.jit(
        jax.grad(
            lambda m: lagrange_dalembert_poincare(
                NonSpinningBall(0.4, m, [0.1] * 3), 0.0, q, rdot, push, right=True
            )[0]
        )
    )
    # homogeneous: r̈ = F/(m + I/R²)
    np.testing.assert_allclose(derivative(1.3), -0.3 / (1.3 + 0.1 / 0.16) ** 2, rtol=1e-12)


def test_what_does_not_fit_is_named():
    base, t, q, v = random_bundle(21, SE2())
    with pytest.raises(ValueError, match=r"has 0 constraints.*must have 3"):
        lagrange_dalembert_poincare(base, t, q, v[3:])
    system, t, q, rdot = principal(SO3(), right=True)
    with pytest.raises(ValueError, match=r"not left-invariant.*Say `right=True`"):
        lagrange_dalembert_poincare(system, t, q, rdot)
