"""`lanes_if_short` gives the values and derivatives of `jax.vmap`, in lanes or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._one_lane import lanes_if_short

X = jnp.linspace(0.1, 1.0, 40).reshape(20, 2)
SCALE = jnp.asarray(1.7)


def short(x, scale):
    return jnp.array([scale * x[0] * x[1] ** 2, jnp.sin(x[0])]), x[0] + scale


def endless(x, scale):
    """A loop with a computed number of iterations, which lanes cannot write out."""
    doubled = jax.lax.while_loop(lambda y: jnp.sum(y) < 5.0, lambda y: 2.0 * y, x)
    return doubled * scale, jnp.sum(x)


@pytest.mark.parametrize(("f", "in_lanes"), [(short, True), (endless, False)])
def test_values_of_both_forms(f, in_lanes):
    """Both functions capture a traced scale that all lanes share; only the short one runs in lanes."""
    run = lambda x, scale: lanes_if_short(lambda x: f(x, scale))(x)
    wanted = jax.vmap(lambda x: f(x, SCALE))(X)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14), run(X, SCALE), wanted)
    assert ("own_derivative" in str(jax.make_jaxpr(run)(X, SCALE))) is in_lanes


def test_gradients_by_lanes_and_by_what_they_share():
    def total(run):
        return jax.grad(lambda x, scale: jnp.sum(run(x, scale)[0]), argnums=(0, 1))(X, SCALE)

    found = total(lambda x, scale: lanes_if_short(lambda x: short(x, scale))(x))
    wanted = total(lambda x, scale: jax.vmap(lambda x: short(x, scale))(x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), found, wanted)


def test_more_lanes_by_vmap():
    """`vmap` around it adds lanes, also over the shared number."""
    scales = jnp.array([1.0, 2.0, 3.0])
    run = lambda scale: lanes_if_short(lambda x: short(x, scale))(X)
    wanted = jax.vmap(lambda scale: jax.vmap(lambda x: short(x, scale))(X))(scales)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14), jax.vmap(run)(scales), wanted
    )
