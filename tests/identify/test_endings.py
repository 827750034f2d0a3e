"""Fits that cannot go on, and invalid input, each with one message that gives a remedy."""

import functools
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxhamel import identify
from tests.identify.systems import ANGLE, PLACE, Particle, Pendulum, pendulum_run

START = Pendulum(1.0, 0.6, 0.2)


@functools.cache
def the_run():
    """A cached run, simulated only when a test needs it, since every worker imports this file."""
    return pendulum_run(0)


def problem(system=START, **changes):
    given = {
        "parameters": [identify.Positive("length"), identify.Positive("damping")],
        "measurements": [ANGLE],
        "runs": [the_run()],
    } | changes
    return identify.Problem(system, **given)


def interrupt_at(iteration):
    def progress(state):
        if state.iteration == iteration:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("budget", [{"max_seconds": 0}, {"max_iterations": 1}])
def test_no_time_at_all_returns_the_start(budget):
    estimate = identify.fit(problem(), **budget)
    assert not estimate.converged
    assert estimate.status.startswith("out of")
    np.testing.assert_allclose(estimate.values, [0.6, 0.2])
    assert np.isfinite(estimate.cost)
    assert "NOT converged, out of" in str(estimate)


def test_an_interrupted_fit_keeps_what_it_has():
    # interrupts the stage that weighs only the first part of each segment
    estimate = identify.fit(problem(), progress=interrupt_at(14))
    assert estimate.status == "interrupted after 14 iterations: best so far"
    assert not estimate.converged
    assert estimate.counts["angle"] == np.isfinite(the_run().values["angle"]).sum()
    motion, _, errors = identify.compared(estimate)
    assert bool(motion.succeeded)
    assert np.isfinite(errors["angle"]).sum() == estimate.counts["angle"]
    whole = identify.fit(problem())
    assert whole.converged
    assert whole.cost < estimate.cost


def test_an_interrupted_fit_from_many_starts_returns_the_best():
    starts = identify.perturbed_starts(problem(), jax.random.key(0), 3, 0.1)
    told, lock = [], threading.Lock()

    def progress(state):
        with lock:
            told.append(state.iteration)
            if len(told) > 3:
                raise KeyboardInterrupt

    estimate = identify.fit_many(problem(), starts, progress=progress)
    assert estimate.status.startswith("interrupted after")
    assert len(told) <= 3 + 3  # the other fits finish their current iteration
    assert estimate.others.shape == (3,)
    assert estimate.cost == np.min(estimate.others)


def test_the_cost_is_that_of_the_values():
    """The reported cost belongs to the returned values and not to a rejected trial."""
    estimate = identify.fit(problem(), max_iterations=20)
    again = identify.fit(problem(system=estimate.system), max_seconds=0)
    assert estimate.cost <= again.cost * (1 + 1e-9)
    errors = identify.compared(estimate)[2]["angle"] / estimate.noise
    if estimate.gap < 1e-6:
        np.testing.assert_allclose(estimate.cost, np.nansum(errors**2) / 2, rtol=1e-6)


def test_motion_that_breaks_down_at_the_start_is_said():
    estimate = identify.fit(problem(), start=jnp.array([-400.0, 0.0]))
    assert not estimate.converged
    assert estimate.status.startswith("the motion broke down in round 'states': look for a NaN")
    assert np.isnan(estimate.errors).all()
    assert "unknown" in str(estimate)
    assert estimate.rows()[0]["remark"] == "unknown: the motion broke down"


def test_a_step_into_motion_that_breaks_down_is_refused():
    """The thrust of x'' = a is NaN above a = 3. Steps beyond are shortened, and the fit reaches a = 2."""

    class Walled(Particle):
        def force(self, t, q, v, control):
            wall = jnp.where(self.thrust > 3.0, jnp.nan, 1.0)
            return wall * super().force(t, q, v, control)

    ts = np.linspace(0.0, 4.0, 41)
    place = ts**2 + 0.1 * np.random.default_rng(0).normal(size=41)
    run = identify.Run(ts, {"place": place})
    given = {"parameters": [identify.Bounded("thrust", lower=-50.0, upper=50.0)], "runs": [run]}
    start = Walled(1.0, -40.0)
    estimate = identify.fit(problem(system=start, measurements=[PLACE], **given))
    assert not np.isfinite(estimate.history["cost"]).all()
    assert estimate.converged, estimate.status
    np.testing.assert_allclose(estimate.values, 2.0, atol=4 * float(estimate.errors[0]))


def test_an_optimiser_that_steps_into_nothing_leaves_what_was_before():
    estimate = identify.fit(problem(), optax.sgd(1e9))
    assert estimate.status.startswith("the motion broke down")
    assert np.isfinite(estimate.values).all()
    assert np.isfinite(estimate.cost)


def test_a_sensor_that_failed_in_one_run_is_no_matter():
    """A column may have no value at all, or no three values in a row from which to guess its noise."""
    silent = identify.Run(
        the_run().ts, {"angle": the_run().values["angle"], "rate": np.full(120, np.nan)}
    )
    rate = np.where(np.arange(120) % 3 > 1, np.nan, 0.1)
    sparse = identify.Run(the_run().ts, {"angle": the_run().values["angle"], "rate": rate})
    measured = [ANGLE, identify.Coordinate(0, rate=True, name="rate", columns=("rate",))]
    for runs in ([silent], [sparse], [silent, sparse]):
        asked = problem(measurements=measured, runs=runs)
        assert np.isfinite(identify.fit(asked, max_iterations=2).cost)


TWO = "the configuration of this system has 2 factors. Give `part` from 0 to 1"


@pytest.mark.parametrize(
    "kind", [functools.partial(identify.Coordinate, 0), identify.Position, identify.Orientation]
)
@pytest.mark.parametrize("part", [2, -3, "x", True])
def test_parts_that_a_configuration_does_not_have(kind, part):
    q, u = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)), jnp.zeros(3)
    with pytest.raises(ValueError, match=f"takes part {part!r}; {TWO}"):
        kind(part=part)(None, 0.0, q, u, None)


def test_parts_of_a_configuration_that_is_one_array():
    measured: Any = identify.Coordinate(0, part=1)
    with pytest.raises(ValueError, match=r"takes part 1; .* is one array. Leave `part` out"):
        measured(None, 0.0, jnp.ones(4), jnp.zeros(3), None)
    measured = identify.Coordinate(0)
    with pytest.raises(ValueError, match=f"takes part None; {TWO}"):
        measured(None, 0.0, (jnp.ones(4), jnp.ones(2)), jnp.zeros(3), None)


MEASURED = identify.Measured(lambda s, t, q, u, c: jnp.concatenate([q, u]), ("angle",), "angle")

REFUSED = {
    "`dt` is 0": lambda: problem(dt=0.0),
    "`dt` is nan": lambda: problem(dt=np.nan),
    "`segments` is 2.5": lambda: problem(segments=2.5),
    "`segments` has 2 numbers and `runs` 1 run": lambda: problem(segments=[1, 2]),
    "`loss.k` is -1": lambda: problem(loss=identify.Huber(-1.0)),
    "`system.gravity` is nan": lambda: problem(Pendulum(1.0, 0.6, 0.2, np.nan)),
    "`lower` of `length` is -inf": lambda: problem(
        parameters=[identify.Bounded("length", lower=-np.inf)]
    ),
    "`mean` of the prior of `length` has shape (2,)": lambda: problem(
        parameters=[identify.Positive("length", prior=identify.Prior([1.0, 1.0], 0.1))]
    ),
    "`noise of angle` has shape (3,)": lambda: problem(measurements=[sensor(noise=[1.0, 1, 1])]),
    "`offset of angle` is -1": lambda: problem(measurements=[sensor(offset=-1.0)]),
    "measurement 'angle' gives an array of shape (2,) and has 1 column": lambda: problem(
        measurements=[MEASURED]
    ),
    "measurement 'angle' takes entries (3,) of 1": lambda: problem(measurements=[sensor(index=3)]),
    "run: `guess` has shapes": lambda: problem(
        runs=[
            identify.Run(the_run().ts, the_run().values, guess=(np.zeros((3, 1)), np.zeros((3, 1))))
        ]
    ),
    "`start` has shape (1,); it must have shape (2,)": lambda: identify.fit(problem(), start=[0.0]),
    "`start` is [nan nan]": lambda: identify.fit(problem(), start=[np.nan] * 2),
    "`max_seconds` is -1": lambda: identify.fit(problem(), max_seconds=-1),
    "`max_seconds` is nan": lambda: identify.fit(problem(), max_seconds=np.nan),
    "`max_iterations` is 0": lambda: identify.fit(problem(), max_iterations=0),
    "`starts` has no row": lambda: identify.fit_many(problem(), np.zeros((0, 2))),
    "`at_once` is 0": lambda: identify.fit_many(problem(), np.zeros((1, 2)), at_once=0),
    "`count` is 0": lambda: identify.perturbed_starts(problem(), jax.random.key(0), 0),
    "`noise` has shape (2,); it must have shape (1,)": lambda: identify.with_noise(
        [ANGLE], np.ones(2)
    ),
}

WRONG = {
    "`unit` of `length` is 0.1; it must be text": lambda: problem(
        parameters=[identify.Bounded("length", *(0.1, 2.0))]
    ),
    "`system` is the class Pendulum": lambda: problem(Pendulum),
    "`system.mass` is traced": lambda: jax.jit(lambda m: problem(Pendulum(m, 0.6, 0.2)).dt)(1.0),
    "`parameters` is one Positive; give it in a list": lambda: problem(
        parameters=identify.Positive("length")
    ),
    "`measurements` holds the class Coordinate": lambda: problem(
        measurements=[identify.Coordinate]
    ),
    "`runs` is one Run": lambda: problem(runs=the_run()),
    "`loss` is the class Huber": lambda: problem(loss=identify.Huber),
    "`prior` of `length` is of type tuple": lambda: problem(
        parameters=[identify.Positive("length", prior=(1.0, 0.1))]
    ),
    "`problem` is of type Pendulum": lambda: identify.fit(START),
    "`progress` is of type bool": lambda: identify.fit(problem(), progress=True),
    "run: `values` is of type ndarray": lambda: identify.Run(
        the_run().ts, the_run().values["angle"]
    ),
    "run: `angle` has dtype complex128": lambda: identify.Run([0.0, 1], {"angle": [0.0, 1j]}),
    "run: `angle` has dtype <U1": lambda: identify.Run([0.0, 1], {"angle": ["0", "a"]}),
}


def sensor(index=0, **changes):
    return identify.Coordinate(index, name="angle", columns=("angle",), **changes)


@pytest.mark.parametrize("message", [*REFUSED, *WRONG])
def test_one_message_says_what_to_do(message):
    kind, make = (ValueError, REFUSED[message]) if message in REFUSED else (TypeError, WRONG[message])  # fmt: skip
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_whole_number_says_how_to_make_it_an_array_and_a_float_becomes_one():
    class Plain(Particle):
        share: float = 0.5
        label: int = 1

    plain = Plain(1.0, 2.0)
    found = problem(plain, parameters=[identify.Free("share")]).model.system
    assert isinstance(found.share, jax.Array)
    with pytest.raises(ValueError, match=r"`label` of Plain is of type int; .* jnp.asarray\(1, float\)"):  # fmt: skip
        problem(plain, parameters=[identify.Free("label")])
