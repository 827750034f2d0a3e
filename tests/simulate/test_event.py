"""Events located within a step, for each kind of condition, against closed forms; the event that occurred is named."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel.geometry as geo
from jaxhamel.mechanics import System
from jaxhamel.simulate import RESULTS, simulate

SPEED, GRAVITY = 3.0, 10.0


class Thrown(System):
    """A mass with ẍ = −g: x = v₀ t − ½ g t², which each method of order 2 integrates exactly."""

    gravity: jax.Array
    space = geo.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 - self.gravity * q[0]


def thrown(event, x=0.0, speed=SPEED, gravity=GRAVITY, ts=(0.0, 0.1, 2.0), **options):
    system = Thrown(jnp.asarray(gravity))
    return simulate(
        system,
        jnp.stack([jnp.asarray(x)]),
        jnp.stack([jnp.asarray(speed)]),
        list(ts),
        event=event,
        **({"dt": 0.23} | options),
    )


def reaches(x, speed=SPEED, gravity=GRAVITY):
    """The first and the second time at which the mass is at height x."""
    root = np.sqrt(speed**2 - 2 * gravity * x)
    return (speed - root) / gravity, (speed + root) / gravity


HIGH = 0.2
UP, DOWN = reaches(HIGH)
GROUND = 2 * SPEED / GRAVITY


def above(t, q, u):
    return q[0] > HIGH


class Boolean(eqx.Module):
    """One of several Boolean conditions, selected by index so that all share one program."""

    which: jax.Array

    def __call__(self, t, q, u):
        falls = (u[0] < 0) & (q[0] < HIGH)
        conditions = jnp.stack([q[0] > HIGH, falls, t > 0.5, u[0] <= 0.0, q[0] < 0.1, q[0] > 9.0])
        return conditions[self.which]


class Real(eqx.Module):
    height: jax.Array
    sign: jax.Array

    def __call__(self, t, q, u):
        return self.sign * (q[0] - self.height)


def check(path, time):
    """Compares time and state at the end to rounding error, and checks which rows are valid."""
    np.testing.assert_allclose(path.t_end, time, rtol=1e-14)
    np.testing.assert_allclose(path.q_end[0], SPEED * time - 0.5 * GRAVITY * time**2, atol=1e-14)
    np.testing.assert_allclose(path.u_end[0], SPEED - GRAVITY * time, atol=1e-13)
    assert path.result == RESULTS.event_occurred
    assert bool(path.event)
    np.testing.assert_array_equal(path.valid, np.array([0.0, 0.1, 2.0]) <= time)


@pytest.mark.parametrize(("which", "time"), [*enumerate([UP, DOWN, 0.5, SPEED / GRAVITY, 0.0])])
def test_booleans(which, time):
    """Conditions on height, velocity and time are located in steps of 0.1 s and 0.2 s; the last one holds from the
    start."""
    check(thrown(Boolean(jnp.array(which))), time)


@pytest.mark.parametrize(
    ("height", "sign", "time"),
    [(HIGH, 1.0, UP), (HIGH, -1.0, UP), (0.0, 1.0, GROUND), (0.0, -1.0, GROUND)],
)
def test_real_functions(height, sign, time):
    """A zero is found in either direction. The ground, where the throw starts, counts only on return."""
    check(thrown(Real(jnp.asarray(height), jnp.asarray(sign))), time)


def test_a_motion_goes_on_after_its_event():
    """Bounces on a floor at any height, each begun where the last one ended: the mass is at the floor but for rounding, on
    either side of it. The times of flight are a geometric series."""
    keep, first = 0.8, np.sqrt(2 / GRAVITY)
    for floor in (0.0, 0.3, -1000.0):
        x, speed, time = floor + 1.0, 0.0, 0.0
        for _ in range(6):
            path = thrown(Real(jnp.array(floor), jnp.array(1.0)), x, speed, ts=(0.0, 0.1, 3.0))
            x, speed, time = path.q_end[0], -keep * path.u_end[0], time + path.t_end
        exact = first * (1 + 2 * sum(keep**k for k in range(1, 6)))
        np.testing.assert_allclose(time, exact, atol=1e-12)


def test_released_at_rest_at_its_zero():
    """A mass that starts at rest at the height has no event there; its second derivative gives the side."""
    path = thrown(Real(jnp.array(0.0), jnp.array(1.0)), speed=0.0)
    assert path.result == RESULTS.successful
    assert path.t_end == 2.0


@pytest.mark.parametrize("low", [-1.0, 0.1])
def test_a_condition_that_is_not_a_number_is_a_failure(low):
    """√(low − x) is NaN at the start, or where its zero has been passed."""
    path = thrown(lambda t, q, u: jnp.sqrt(low - q[0]), gravity=-GRAVITY)
    assert path.result == RESULTS.undefined_event
    with pytest.raises(RuntimeError, match=r"`event` is NaN there.*both sides of the event"):
        path.raise_if_failed()


@pytest.mark.parametrize(
    ("event", "name"),
    [(lambda t, q: q[0], "event"), ({"floor": lambda q: q[0]}, r"event\['floor'\]")],
)
def test_a_condition_of_other_arguments_is_named(event, name):
    with pytest.raises(
        TypeError, match=rf"`{name}` is of type function that cannot be called as \(t, q, u\)"
    ):
        thrown(event)


@pytest.mark.parametrize(("direction", "time"), [(False, DOWN), (True, UP)])
def test_events_of_diffrax(direction, time):
    check(thrown(diffrax.Event(lambda t, y, args, **_: y[0][0] - HIGH, direction=direction)), time)


def test_a_boolean_is_true_at_its_time_and_false_just_before():
    path = thrown(above, dense=True)
    before = np.nextafter(np.nextafter(path.t_end, 0.0), 0.0)
    assert path.q_end[0] > HIGH
    assert path.evaluate(before)[0][0] <= HIGH
    assert np.isnan(path.evaluate(path.t_end + 1e-3)[0][0])  # after the end the dense output is NaN


def test_of_several_events_in_a_step_the_first_counts():
    """Of three events, two in the same step, the earliest ends the motion, whatever their order and kind."""
    events = {
        "late": lambda t, q, u: q[0] > 0.3,
        "early": lambda t, q, u: q[0] - HIGH,
        "never": lambda t, q, u: q[0] > 9.0,
    }
    path = thrown(events)
    np.testing.assert_allclose(path.t_end, UP, rtol=1e-14)
    assert {name: bool(yes) for name, yes in path.event.items()} == {
        "late": False,
        "early": True,
        "never": False,
    }
    assert "by early" in str(path)


def test_no_event():
    path = thrown(Boolean(jnp.array(5)))
    assert path.result == RESULTS.successful
    assert not path.event
    assert path.t_end == 2.0


def test_other_first_times_and_batches():
    """A batch of throws with other initial times and adaptive steps; one has no event."""

    def end(speed, start):
        path = thrown(above, speed=speed, ts=jnp.stack([start, start + 0.2]), dt=None, rtol=1e-9)
        return path.t_end - start, path.event

    speeds = jnp.array([2.5, 3.0, 5.0, 1.0])
    times, happened = jax.jit(jax.vmap(end))(speeds, jnp.array([-1.0, 0.0, 7.0, 3.0]))
    expected = [*(reaches(HIGH, float(v))[0] for v in speeds[:3]), 0.2]
    np.testing.assert_allclose(times, expected, atol=4e-15)
    np.testing.assert_array_equal(happened, [True, True, True, False])


def test_single_precision(float32):
    path = thrown(above)
    assert path.t_end.dtype == jnp.float32
    np.testing.assert_allclose(path.t_end, UP, rtol=1e-6)


def test_single_precision_while_double_is_on():
    """A real function, a Boolean that becomes true and one that holds from the start, each in single precision."""
    single = lambda x: jnp.asarray(x, jnp.float32)

    def end(height, which):
        events = Real(single(height), single(1.0)), Boolean(jnp.array(which))
        path = thrown(events, single(0.0), single(SPEED), single(GRAVITY))
        assert path.t_end.dtype == path.q_end.dtype == jnp.float32
        return path.t_end, *path.event

    np.testing.assert_allclose(end(HIGH, 5), [UP, True, False], rtol=1e-6)
    np.testing.assert_allclose(end(9.0, 1), [DOWN, False, True], rtol=1e-6)
    np.testing.assert_array_equal(end(HIGH, 4), [0.0, False, True])


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (3, r"`event` is .*int; .*event\(t, q, u\)"),
        ({"a": above, "b": 3}, r"`event` is .*dict; .*tuple of such functions"),
        (lambda t, q, u: q, r"`event` returned shape \(1,\) of float64; it must return one real number"),
        ({"up": lambda t, q, u: 1}, r"`event\['up'\]` returned shape \(\) of int64"),
    ],
)  # fmt: skip
def test_what_is_no_condition_is_named(event, message):
    with pytest.raises((ValueError, TypeError), match=message):
        thrown(event)
