"""Helpers for the tests of systems: motions to high accuracy, and random parameters.

The integrator belongs to the tests, so that a fault of `simulate` makes no test of a system fail, and only the
right-hand side is compiled.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxhamel.mechanics import as_control, vector_field
from tests.reference.integrator import STAGES, table


@eqx.filter_jit
def states(system, q0, u0, ts, control=None, steps=100):
    """(q, u) at the times ts, with `steps` steps of order 8 between neighbouring times."""
    state, unravel = ravel_pytree((q0, u0))
    control = as_control(control)

    def rate(t, x):
        return ravel_pytree(vector_field(t, unravel(x), (system, control)))[0]

    def onward(x, times):
        h = (times[1] - times[0]) / steps
        x = jax.lax.fori_loop(0, steps, lambda n, x: _step(rate, times[0] + n * h, x, h), x)
        return x, x

    _, found = jax.lax.scan(onward, state, jnp.stack([ts[:-1], ts[1:]], axis=1))
    return jax.vmap(unravel)(jnp.concatenate([state[None], found]))


def _step(rate, t, x, h):
    """One step of Dormand and Prince's method of order 8. The loop over stages compiles a single body."""
    a, b, c = (jnp.asarray(entries) for entries in (table.A[:STAGES, :STAGES], table.B, table.C))

    def stage(i, slopes):
        return slopes.at[i].set(rate(t + c[i] * h, x + h * (a[i] @ slopes)))

    slopes = jnp.zeros((STAGES, x.size), x.dtype)
    return x + h * (b @ jax.lax.fori_loop(0, STAGES, stage, slopes))


def end_state(system, q0, u0, t, control=None, steps=100):
    """(q, u) at time t, from 0."""
    found = states(system, q0, u0, jnp.array([0.0, t]), control, jnp.asarray(steps))
    return jax.tree.map(lambda x: x[-1], found)


def unit_pairs(rng, *shape):
    """Pairs of unit vectors perpendicular to each other, each (*shape, 3)."""
    first = rng.normal(size=(*shape, 3))
    first = first / np.linalg.norm(first, axis=-1, keepdims=True)
    second = np.cross(first, rng.normal(size=(*shape, 3)))
    return first, second / np.linalg.norm(second, axis=-1, keepdims=True)


def unit_quaternions(rng, *shape):
    """Unit quaternions, uniform, (*shape, 4)."""
    q = rng.normal(size=(*shape, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def inertias(rng, *shape):
    """Inertias of rigid bodies, (*shape, 3, 3), in axes that are not principal."""
    sides = rng.uniform(0.2, 1.0, size=(*shape, 3))  # second moments; I = tr(S) 1 − S
    axes = np.linalg.qr(rng.normal(size=(*shape, 3, 3)))[0]
    second = np.einsum("...ij,...j,...kj->...ik", axes, sides, axes)
    trace = np.sum(sides, axis=-1)[..., None, None]
    tensor = trace * np.eye(3) - second
    return (tensor + np.swapaxes(tensor, -1, -2)) / 2
