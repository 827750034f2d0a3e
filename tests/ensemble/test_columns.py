"""Lanes that are added so that columns spread over the cache: enough sets, few lanes, no effect on results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxhamel._lanes._columns import lanes_for, spare_lanes, widened
from jaxhamel.ensemble import _paths, integrate
from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.simulate._solvers._runge_kutta import RK4

TS = [0.0, 0.5, 1.0]


@given(size=st.integers(256, 10**6), itemsize=st.sampled_from([4, 8]))
def test_columns_begin_in_many_sets_of_the_cache(size, itemsize):
    lanes = lanes_for(size, itemsize)
    lines = -(-lanes * itemsize // 64)
    begins = {n * lines % 64 for n in range(64)}
    assert len(begins) >= 8
    assert size <= lanes < size + 2 * 64 / itemsize


@pytest.mark.parametrize("size", [1, 7, 100, 255, 1000])
def test_few_lanes_and_those_that_lie_well_are_left_alone(size):
    assert lanes_for(size, 8) == size


def test_the_lanes_added_are_the_last_trajectory_and_have_no_derivative():
    x = jnp.asarray(np.linspace(1.0, 2.0, 512))
    columns = lambda x: widened((x,), spare_lanes((x,)))
    np.testing.assert_array_equal(columns(x)[0][:512], x)
    np.testing.assert_array_equal(columns(x)[0][512:], np.full(8, x[-1]))
    np.testing.assert_array_equal(jax.grad(lambda x: jnp.sum(columns(x)[0]))(x), 1.0)


def cost(length, lengths, angles):
    """Cost and paths of pendulums, each with its own length in addition to a shared one."""
    rate = lambda t, y, args: jnp.stack([y[1], -(args[0] + args[1]) * jnp.sin(y[0])])
    y0 = jnp.stack([angles, jnp.zeros_like(angles)], axis=1)
    path = integrate(rate, y0, TS, (length, lengths), dt=0.1, in_axes=(0, (None, 0)))
    assert path.shape == (len(angles), len(TS), 2)
    return jnp.sum(path[:, -1] ** 2), path


def test_nobody_sees_the_lanes_added():
    """512 trajectories run in 520 lanes; 300 and 212 trajectories need no added lanes. Paths and gradients agree."""
    assert [lanes_for(n, 8) for n in (512, 300, 212)] == [520, 300, 212]
    angles, lengths = np.linspace(0.1, 2.0, 512), np.linspace(0.0, 1.0, 512)
    run = jax.value_and_grad(cost, (0, 1, 2), has_aux=True)
    at = lambda part: (jnp.asarray(1.3), jnp.asarray(lengths[part]), jnp.asarray(angles[part]))
    (value, path), bars = run(*at(slice(None)))
    parts = [run(*at(slice(300))), run(*at(slice(300, None)))]
    joined = np.concatenate([path for (_, path), _ in parts])
    np.testing.assert_allclose(path, joined, rtol=0, atol=4e-15)
    np.testing.assert_allclose(value, sum(value for (value, _), _ in parts), rtol=1e-13)
    np.testing.assert_allclose(bars[0], sum(bars[0] for _, bars in parts), rtol=1e-13)
    for n in (1, 2):
        apart = np.concatenate([bars[n] for _, bars in parts])
        np.testing.assert_allclose(bars[n], apart, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_blocks_of_lanes_are_the_whole_ensemble(monkeypatch, checkpoint):
    """70 pendulums run at once and in blocks of 24 lanes: the motion is the same, and so are the derivatives by own and
    shared numbers."""
    rate = lambda t, y, own, shared: (y[1], -(own[0] + shared) * jnp.sin(y[0]))
    plan = Plan.of(TS, 0.25, RK4, checkpoint, False)
    own = jnp.linspace(0.1, 2.0, 70)

    def cost(own, shared):
        motion = SteppedMotion(rate, lambda y, shared: y, (own, 0.3 * own), (own,), shared)
        found = _paths.paths(motion, jnp.asarray(TS), plan)
        assert found[0].shape == (3, 70)
        return jnp.sum(found[0][1:] ** 2 + found[1][1:]), found

    run = lambda: jax.jit(jax.value_and_grad(cost, (0, 1), has_aux=True))(own, jnp.asarray(1.3))
    (value, path), slopes = run()
    for name, number in (("MANY", 50), ("BLOCK", 24), ("LONGEST_PIECE", 1)):
        monkeypatch.setattr(_paths, name, number)
    (in_blocks, parts), found = run()
    np.testing.assert_allclose(parts, path, rtol=0, atol=1e-14)
    np.testing.assert_allclose(in_blocks, value, rtol=1e-13)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), found, slopes)
