"""Recorded controls: motions in closed form, steps that end at the record's times, derivatives, messages."""

import itertools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxhamel
from jaxhamel.simulate._tape._tape_adjoint import TapeAdjoint
from jaxhamel.systems import CircularRails, RollingBall
from tests.control.cart import DrivenCart


def moved(record_ts, values, between, ts, mass=2.0):
    """The exact motion (x, v) of the cart from rest at ts[0]: on each interval of the record a polynomial."""
    slopes = np.append(np.diff(values) / np.diff(record_ts), 0.0) * (between == "linear")
    inside = record_ts[(record_ts > ts[0]) & (record_ts < ts[-1])]
    x, v, grid, out = 0.0, 0.0, np.union1d(inside, ts), [(0.0, 0.0)]
    for t0, t1 in itertools.pairwise(grid):
        k = max(np.searchsorted(record_ts, t0, side="right") - 1, 0)
        c, slope, h = (
            (values[k] + slopes[k] * (t0 - record_ts[k])) / mass,
            slopes[k] / mass,
            t1 - t0,
        )
        x, v = x + v * h + c * h**2 / 2 + slope * h**3 / 6, v + c * h + slope * h**2 / 2
        out.append((x, v))
    return np.array(out)[np.searchsorted(grid, ts)]


TIMES = np.arange(21) * 0.1
VALUES = np.cos(1.7 * np.arange(21) ** 2)
CART = DrivenCart(jnp.array(2.0))
REST = jnp.zeros(1), jnp.zeros(1)
# Times of the motion that skip some of the record's; as many as those, so that all share a program.
SEVENTHS = np.append(np.arange(6) * 2 / 7, np.linspace(12 / 7, 2.0, 15))
LATER = np.append([0.3, 0.71], np.linspace(1.7, 1.9, 19))


@pytest.mark.parametrize("between", ["held", "linear"])
@pytest.mark.parametrize("steps", [{}, {"dt": 0.04}, {"dt": 0.5}, {"solver": diffrax.Dopri8()}])
@pytest.mark.parametrize("ts", [TIMES, SEVENTHS, LATER])
def test_motion_is_exact(between, steps, ts):
    # On each interval the motion is a polynomial that the methods integrate exactly. A stage that saw the value after
    # a jump would be wrong by some hundredths.
    record = jaxhamel.Recorded(TIMES, VALUES, between)
    motion = jaxhamel.simulate(CART, *REST, jnp.asarray(ts), record, **steps)
    found = np.concatenate([motion.q, motion.u], axis=1)
    np.testing.assert_allclose(found, moved(TIMES, VALUES, between, ts), atol=1e-12)


def test_no_step_is_rejected_at_a_jump():
    record = jaxhamel.Recorded(TIMES, VALUES, "held")
    motion = jaxhamel.simulate(CART, *REST, jnp.array([0.0, 2.0]), record, solver=diffrax.Dopri8())
    assert int(motion.stats["num_rejected_steps"]) == 0
    assert int(motion.stats["num_accepted_steps"]) <= 25


def test_single_precision_loses_no_time_at_jumps():
    record = jaxhamel.Recorded(TIMES.astype(np.float32), VALUES.astype(np.float32), "held")
    cart, rest = DrivenCart(jnp.float32(2.0)), (jnp.zeros(1, jnp.float32),) * 2
    ts = jnp.asarray(TIMES, jnp.float32)
    expected = moved(TIMES, VALUES, "held", TIMES)[:, 0]
    for steps in ({}, {"dt": 0.02}):
        motion = jaxhamel.simulate(cart, *rest, ts, record, **steps)
        np.testing.assert_allclose(motion.q[:, 0], expected, atol=3e-6)


GAPS = st.lists(st.floats(1e-5, 0.7), min_size=8, max_size=8)


@settings(max_examples=25, deadline=None)
@given(gaps=GAPS, start=st.floats(-3.0, 50.0), ulps=st.integers(-2, 2), fixed=st.booleans())
def test_any_times_of_record_and_motion(gaps, start, ulps, fixed):
    times = start + np.cumsum([0.0, *gaps])
    values = np.sin(np.arange(9) * 2.3)
    # times of the motion that differ from the record's by rounding mean the same
    ts = np.array([times[1], times[3], (times[4] + times[5]) / 2, times[6], times[8]])
    ts = ts + ulps * np.spacing(ts)
    record = jaxhamel.Recorded(times, values, "held")
    steps = {"dt": 0.05} if fixed else {}
    motion = jaxhamel.simulate(CART, *REST, jnp.asarray(ts), record, **steps)
    assert bool(motion.succeeded)
    expected = moved(times, values, "held", ts)
    np.testing.assert_allclose(motion.q[:, 0], expected[:, 0], atol=1e-10)


@pytest.mark.parametrize("between", ["held", "linear"])
@pytest.mark.parametrize("steps", [{}, {"dt": 0.03}])
def test_derivatives_by_values_and_mass(between, steps):
    def end(values, mass):
        record = jaxhamel.Recorded(TIMES, values, between)
        ts = jnp.array([0.0, 0.77, 1.93])
        return jaxhamel.simulate(DrivenCart(mass), *REST, ts, record, **steps).q[-1, 0]

    at = jnp.asarray(VALUES), jnp.array(2.0)
    value, reverse = jax.jit(jax.value_and_grad(end, (0, 1)))(*at)
    forward = jax.jit(jax.jacfwd(end, (0, 1)))(*at)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-13), reverse, forward)
    # linear in the values, and in 1/mass
    one = np.eye(21)[7]
    exact = moved(TIMES, one, between, np.array([0.0, 1.93]))[-1, 0]
    np.testing.assert_allclose(reverse[0][7], exact, atol=1e-12)
    np.testing.assert_allclose(reverse[1], -value / 2.0, atol=1e-12)


def test_tape_and_checkpoints_agree():
    class Hanging(DrivenCart):
        def lagrangian(self, t, q, v):
            return 0.5 * self.mass * v[0] ** 2 + 3.0 * jnp.cos(q[0])

    def end(mass, adjoint):
        record = jaxhamel.Recorded(TIMES, 4 * VALUES, "held")
        ts = jnp.array([0.0, 1.9])
        return jaxhamel.simulate(Hanging(mass), *REST, ts, record, adjoint=adjoint).q[-1, 0]

    # named, since the default adjoint takes columns for a single number
    taped = jax.jit(jax.value_and_grad(lambda mass: end(mass, TapeAdjoint())))
    stored = jax.jit(jax.grad(lambda mass: end(mass, diffrax.RecursiveCheckpointAdjoint())))
    gradient = taped(2.0)[1]
    np.testing.assert_allclose(gradient, stored(2.0), rtol=1e-12)
    step = 1e-5
    slope = (taped(2.0 + step)[0] - taped(2.0 - step)[0]) / (2 * step)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6)


def test_record_inside_of_a_feedback():
    class Push(eqx.Module):
        ahead: jaxhamel.Recorded

        def __call__(self, t, q, u):
            return self.ahead(t) - 0.0 * u

    record = jaxhamel.Recorded(TIMES, VALUES, "held")
    law = jaxhamel.Feedback(Push(record))
    motion = jaxhamel.simulate(CART, *REST, jnp.asarray(TIMES), law)
    np.testing.assert_allclose(
        motion.q[:, 0], moved(TIMES, VALUES, "held", TIMES)[:, 0], atol=1e-12
    )


def test_records_with_times_of_their_own_inside_of_a_feedback():
    class Push(eqx.Module):
        first: jaxhamel.Recorded
        second: jaxhamel.Recorded

        def __call__(self, t, q, u):
            return self.first(t) + self.second(t)

    other = np.array([0.0, 0.33, 1.01, 2.5])
    law = Push(jaxhamel.Recorded(TIMES, VALUES, "held"), jaxhamel.Recorded(other, other**2, "held"))
    ts = np.array([0.0, 0.5, 1.9])
    motion = jaxhamel.simulate(CART, *REST, jnp.asarray(ts), jaxhamel.Feedback(law))
    expected = moved(TIMES, VALUES, "held", ts) + moved(other, other**2, "held", ts)
    np.testing.assert_allclose(motion.q[:, 0], expected[:, 0], atol=1e-12)


def test_other_values_and_times_compile_nothing():
    traces = []

    class Counted(DrivenCart):
        def force(self, t, q, v, control):
            traces.append(1)
            return control

    cart = Counted(jnp.array(2.0))
    for scale in (1.0, 2.0, 3.0):
        record = jaxhamel.Recorded(scale * TIMES, VALUES + scale, "held")
        jaxhamel.simulate(cart, *REST, jnp.array([0.0, 1.0]), record)
        if scale == 1.0:
            first = len(traces)
    assert len(traces) == first


@settings(max_examples=50, deadline=None)
@given(t=st.floats(-0.5, 2.0), h=st.floats(0.0, 1.5))
def test_mean_over_a_step(t, h):
    record = jaxhamel.Recorded(TIMES, VALUES, "held")
    found = record.over(jnp.array(t), jnp.array(h))(t)
    grid = t + h * (np.arange(20_000) + 0.5) / 20_000
    places = np.clip(np.searchsorted(np.asarray(record.edges), grid, side="right") - 1, 0, 20)
    np.testing.assert_allclose(found, [VALUES[places].mean()], atol=2e-3)


def test_messages():
    record = jaxhamel.Recorded(TIMES, VALUES, "held")
    with pytest.raises(
        ValueError, match=r"record from 0 s to 2\.1 s, and `ts` goes from 0 s to 3 s"
    ):
        jaxhamel.simulate(CART, *REST, jnp.array([0.0, 3.0]), record)
    linear = jaxhamel.Recorded(TIMES, VALUES, "linear")
    with pytest.raises(
        ValueError, match=r"record from 0 s to 2 s, and `ts` goes from 0 s to 2\.05 s"
    ):
        jaxhamel.simulate(CART, *REST, jnp.array([0.0, 2.05]), linear)
    with pytest.raises(ValueError, match=r'`between` of Recorded is \'cubic\'; it must be "held"'):
        jaxhamel.Recorded(TIMES, VALUES, "cubic")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"`values` of Recorded has shape \(20,\); for 21 times"):
        jaxhamel.Recorded(TIMES, VALUES[:-1], "held")
    with pytest.raises(ValueError, match=r"out of order: ts\[1\] = 0\.2 and ts\[2\] = 0\.1"):
        jaxhamel.Recorded([0.0, 0.2, 0.1], [1.0, 2.0, 3.0], "held")
    with pytest.raises(ValueError, match=r"not finite in row 1: nan\. Leave the row out"):
        jaxhamel.Recorded([0.0, 0.1, 0.2], [1.0, np.nan, 3.0], "held")
    with pytest.raises(ValueError, match=r"`ts` of Recorded has shape \(1,\)"):
        jaxhamel.Recorded([0.0], [1.0], "held")
    with pytest.raises(TypeError, match=r"`values` of Recorded is 'a'"):
        jaxhamel.Recorded(TIMES, "a", "held")  # pyright: ignore[reportArgumentType]


def test_refuses_systems_that_need_rates():
    rails = CircularRails([0.07], [[0.0, -1.0, 0.0]], [[1.0, 0.0, 0.0]])
    ball = RollingBall(0.1, 1.0, [6e-3] * 3, [0.0, 0.0, 0.0], [0.5], rails)
    q0 = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)
    record = jaxhamel.Recorded(TIMES, VALUES, "linear")
    with pytest.raises(
        TypeError, match=r"needs the motion of its parts with two rates.*Spline\.fit"
    ):
        jaxhamel.simulate(ball, q0, jnp.zeros(3), jnp.array([0.0, 1.0]), record)
    driven = jaxhamel.MovingParts(ball)
    start = driven.state(q0, jnp.zeros(3), jnp.array([-1.5]), jnp.zeros(1))
    motion = jaxhamel.simulate(driven, *start, jnp.asarray(TIMES), record)
    exact = moved(TIMES, VALUES, "linear", TIMES, mass=1.0)[:, 0]  # θ¨ = c(t)
    np.testing.assert_allclose(motion.q[-1][:, 0], exact - 1.5, atol=1e-11)
