"""Reverse mode over intervals of many steps: the gradient with all states stored, in memory that grows with the square
root of the steps."""

from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.ensemble._equal_steps._equal_steps import lengths
from jaxhamel.systems import FreeRigidBody

Y0 = jnp.linspace(0.5, 1.5, 64)


def swing(t, y, p):
    """A pendulum whose support shakes, so that the rate depends on time."""
    angle, rate = y
    return jnp.stack([rate, -(p + jnp.cos(3.0 * t)) * jnp.sin(angle)])


def swung(y0, p, *, steps, method="rk4", checkpoint: bool | None = True):
    start = jnp.stack([y0, jnp.zeros_like(y0)], axis=1)
    options = {"dt": 1.0001 / steps, "in_axes": (0, None), "checkpoint": checkpoint}
    states = ensemble.integrate(swing, start, [0.5, 1.5], p, method=method, **options)
    return jnp.mean(states[:, -1] ** 2)


def turned(u0, _, *, steps, method):
    """The mean of u³ for a body advanced by a Lie-group method, for which JAX chooses what each step stores."""
    body, axes = FreeRigidBody([1.0, 2.0, 2.5]), (None, None, 0, None)
    u0 = jnp.stack([u0, 1.0 + u0, u0], axis=1)
    options = {"dt": 1.0001 / steps, "in_axes": axes, "method": method, "checkpoint": True}
    _, u = ensemble.rollout(body, body.space.identity(), u0, [0.0, 1.0], **options)
    return jnp.mean(u[:, -1] ** 3)


@pytest.mark.parametrize(
    ("steps", "method"), [(37, "rk4"), (50, "rk4"), (37, diffrax.Dopri8()), (1000, "rk4")]
)
def test_the_same_motion_and_gradient_as_with_all_states(steps, method):
    """Value and gradient with checkpoints equal those with all states stored; 37 steps, for example, are six pieces of
    six steps and one more step."""
    found, wanted = (
        jax.jit(
            jax.value_and_grad(partial(swung, steps=steps, method=method, checkpoint=c), (0, 1))
        )(Y0, 2.0)
        for c in (True, False)
    )
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(
    ("cost", "method"),
    [(swung, "rk4"), (swung, diffrax.Tsit5()), (turned, jaxhamel.CommutatorFree2())],
)
def test_memory_grows_like_the_square_root(cost, method):
    """For 16 times as many steps the compiled program needs two to five times the memory; all states would need 16
    times."""

    def bytes_of(steps):
        gradient = jax.grad(partial(cost, steps=steps, method=method))
        return jax.jit(gradient).lower(Y0, 2.0).compile().memory_analysis().temp_size_in_bytes

    assert 2.0 < bytes_of(6400) / bytes_of(400) < 5.0


def test_lengths_of_pieces():
    """The length of the pieces is a divisor near the square root if there is one, so that all pieces share one program."""
    wanted = {1: (1, 0), 32: (32, 0), 100: (10, 0), 1000: (25, 0), 37: (6, 1), 101: (10, 1)}
    assert {n: lengths(n, n) for n in wanted} == wanted
    assert [lengths(n, 10_000) for n in (100, 200, 1000)] == [(100, 0), (100, 0), (100, 0)]
