"""Derivatives at collocation points, computed in lanes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.control._interior_point._point_derivatives import derivatives_in_lanes

KEY = jax.random.PRNGKey(3)


def value_and_cost(at, y):
    """Rates and limit of a pendulum-like system in (angle, rate, torque), and a cost."""
    rate = jnp.stack([y[1], -jnp.sin(y[0]) / (1.0 + at * y[0] ** 2) + y[2]])
    return jnp.append(rate, y[2] * y[1]), at * y[2] ** 2 * jnp.exp(y[0])


@pytest.mark.parametrize("points", [24, 100])
def test_they_are_those_of_each_point(points):
    """Values, first and second derivatives equal JAX's at each point; 100 points are two blocks of 96."""
    at = jnp.linspace(0.5, 1.5, points)
    y, multiplier = jax.random.normal(KEY, (2, points, 3))
    found = jax.jit(lambda *given: derivatives_in_lanes(value_and_cost, *given, 0))(
        at, y, multiplier
    )

    def expected(at, y, multiplier):
        def lagrangian(y):
            value, cost = value_and_cost(at, y)
            return cost + multiplier @ value

        slopes = jax.jacfwd(lambda y: value_and_cost(at, y))(y)
        return *value_and_cost(at, y), *slopes, jax.hessian(lagrangian)(y)

    by_jax = jax.jit(jax.vmap(expected))(at, y, multiplier)
    for ours, theirs in zip(found, by_jax, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)


def test_operations_without_a_rule_are_left_to_arrays():
    """Lanes have no rule for eigenvalues, so `derivatives_in_lanes` returns None."""

    def with_eigenvalues(at, y):
        return jnp.linalg.eigvalsh(jnp.outer(y, y) + at * jnp.eye(3)), y[0]

    y = jnp.ones((24, 3))
    jax.eval_shape(
        lambda y: _is_none(derivatives_in_lanes(with_eigenvalues, jnp.ones(24), y, y, 0)), y
    )


def test_short_programs_have_all_directions_in_a_lane():
    """A short program is left to the variant with all directions in one lane: `derivatives_in_lanes` returns None."""
    y = jnp.ones((24, 3))
    jax.eval_shape(lambda y: _is_none(derivatives_in_lanes(value_and_cost, jnp.ones(24), y, y)), y)


def _is_none(found):
    assert found is None
    return 0.0
