"""A pendulum with friction: statements about undetermined parameters, robust losses, predictions, error messages."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import identify
from tests.identify.systems import ANGLE, Pendulum, pendulum_run

START = Pendulum(2.0, 0.7, 0.2)


def parameters(*more, **length):
    damping = identify.Positive("damping", unit="N m s")
    return [identify.Positive("length", unit="m", **length), damping, *more]


@pytest.fixture(scope="module")
def estimate():
    runs = [pendulum_run(0), pendulum_run(1, start=0.6)]
    return identify.fit(identify.Problem(START, parameters(), [ANGLE], runs, segments=6))


def test_finds_length_and_friction_within_their_errors(estimate):
    assert estimate.converged
    assert np.all(np.abs(estimate.values - [0.5, 0.1]) < 4 * estimate.errors)
    assert np.all(estimate.errors < [2e-3, 5e-3])
    assert estimate.rms["angle"] == pytest.approx(0.01, rel=0.2)
    assert float(estimate.system.length) == estimate.values[0]


def test_table_and_files_say_it(estimate, tmp_path):
    assert "± " in str(estimate)
    estimate.to_csv(tmp_path / "parameters.csv")
    rows = (tmp_path / "parameters.csv").read_text().splitlines()
    assert rows[0] == "parameter,estimate,standard_error,unit,frozen,remark"
    name, value, error, unit, frozen, remark = rows[1].split(",")
    assert (name, unit, frozen, remark) == ("length", "m", "false", "")
    assert float(value) == estimate.values[0]
    assert float(error) == estimate.errors[0]


def test_only_the_ratio_of_friction_and_mass_is_determined():
    """m cancels in the pendulum's equation: l phi'' = -g sin phi - (d/m) phi'/l."""
    more = identify.Positive("mass", unit="kg")
    runs = [pendulum_run(0), pendulum_run(1, start=0.6)]
    found = identify.fit(identify.Problem(START, parameters(more), [ANGLE], runs, segments=6))
    assert [flat.words for flat in found.flat] == [
        "Only the ratio of damping and mass is determined, not each of them."
    ]
    assert np.isfinite(found.errors[0])
    assert np.isinf(found.errors[1:]).all()
    assert "not determined" in str(found)
    assert found.values[1] / found.values[2] == pytest.approx(0.05, rel=0.05)
    frozen = np.abs(found.correlation[0, 1:])
    assert np.all(frozen <= 1 + 1e-9)


def test_frozen_and_bounded():
    kept = identify.Positive("length", unit="m", frozen=True)
    narrow = identify.Bounded("damping", unit="N m s", lower=0.15, upper=0.3)
    problem = identify.Problem(
        Pendulum(2.0, 0.5, 0.2), [kept, narrow], [ANGLE], [pendulum_run(0)], segments=6
    )
    found = identify.fit(problem)
    assert found.values[0] == 0.5
    assert found.errors[0] == 0.0
    assert found.frozen == [True, False]
    assert found.values[1] == pytest.approx(0.15, abs=1e-3)
    assert "damping is at its lower bound" in str(found)


@pytest.mark.parametrize("loss", [identify.Huber(), identify.Cauchy()])
def test_outliers_pull_little_under_a_robust_loss(loss):
    run = pendulum_run(0)
    wrong = run.values["angle"].copy()
    wrong[5::10] += 0.5
    bad = identify.Run(run.ts, {"angle": wrong})
    start = Pendulum(2.0, 0.55, 0.15)
    fit = lambda loss: identify.fit(
        identify.Problem(start, parameters(), [ANGLE], [bad], segments=6, loss=loss)
    )
    plain, robust = fit(None), fit(loss)
    off = lambda found: np.abs(found.values - [0.5, 0.1])
    assert np.all(off(robust) < [3e-3, 6e-3])
    assert np.all(off(robust) < off(plain))


def test_losses_are_what_they_say():
    r = jnp.linspace(-6, 6, 41)
    for loss in (identify.Squares(), identify.Huber(), identify.SoftL1(), identify.Cauchy()):
        s = loss.transformed(r)
        np.testing.assert_allclose(s**2 / 2, loss.rho(r), rtol=1e-9, atol=1e-9)
        step = 1e-6
        slope = (loss.rho(r + step) - loss.rho(r - step)) / (2 * step)
        np.testing.assert_allclose(loss.psi(r), slope, atol=1e-6)
        bend = (loss.psi(r + step) - loss.psi(r - step)) / (2 * step)
        np.testing.assert_allclose(loss.slope(r), bend, atol=1e-6)


def test_prediction_uses_only_the_first_moments(estimate):
    unseen = pendulum_run(7, start=-0.8)
    measurements = identify.with_noise([ANGLE], estimate.noise)
    found = identify.predict(estimate.system, measurements, unseen, seconds=1.0)
    assert found.rms["angle"] < 0.03
    assert bool(found.trajectory.succeeded)
    assert re.fullmatch(
        r"Prediction of .* after its first 1 s: reached the end\n  initial state: found, .*\n  angle .*  RMS error  rad",
        str(found),
    )
    # values after 1 s do not change the estimated initial state
    later = np.where(unseen.ts[:, None] > 1.0, 0.0, unseen.values["angle"])
    other = identify.predict(
        estimate.system, measurements, identify.Run(unseen.ts, {"angle": later}), seconds=1.0
    )
    np.testing.assert_array_equal(found.initial.x.q, other.initial.x.q)
    after = unseen.ts > 1.0
    error = other.shown["angle"][after, 0]
    assert other.rms["angle"] == pytest.approx(np.sqrt(np.mean(error**2)))


def test_best_of_many_starts(estimate):
    runs = [pendulum_run(0), pendulum_run(1, start=0.6)]
    problem = identify.Problem(START, parameters(), [ANGLE], runs, segments=6)
    import jax

    starts = identify.perturbed_starts(problem, jax.random.key(0), 2, 0.3)
    found = identify.fit_many(problem, starts)
    assert found.others.shape == (2,)
    np.testing.assert_allclose(found.values, estimate.values, rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"parameters": [identify.Positive("lenght")]},
            ValueError,
            "it has mass, length, damping, gravity",
        ),
        ({"parameters": ["length"]}, TypeError, "`parameters` holds an object of type str"),
        (
            {"parameters": [identify.Positive("length"), identify.Free("length")]},
            ValueError,
            "has length more than once",
        ),
        (
            {"parameters": [identify.Bounded("length", lower=1.0, upper=2.0)]},
            ValueError,
            "must start inside its bounds, 1 to 2",
        ),
        ({"measurements": [ANGLE, ANGLE]}, ValueError, "each must be another one"),
        (
            {"measurements": [ANGLE, identify.Coordinate(0, name="tip", columns=("angle",))]},
            ValueError,
            "'angle' and 'tip' both have the column `angle`",
        ),
        ({"runs": []}, ValueError, "`runs` is empty"),
        ({"segments": 0}, ValueError, "`segments` is 0; it must be a whole number, 1 or more"),
        (
            {"runs": [identify.Run([0.0, 1.0], {"place": [0.0, 1.0]})]},
            ValueError,
            "`place` is none of the measurements, which are angle",
        ),
        (
            {"runs": [identify.Run([0.0, 1.0], {"angle": np.zeros((2, 2))})]},
            ValueError,
            "`angle` has 2 columns; the measurement of that name has 1 component",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(change, error, message):
    given = {"parameters": parameters(), "measurements": [ANGLE], "runs": [pendulum_run(0)]}
    with pytest.raises(error, match=message):
        identify.Problem(START, **(given | change))


@pytest.mark.parametrize(
    ("ts", "values", "message"),
    [
        ([0.0, 2.0, 1.0], {"a": [0.0, 0, 0]}, r"out of order: ts\[1\] = 2"),
        ([0.0, 1.0], {"a": [0.0]}, r"`a` has shape \(1, 1\); it must be \(2, d\)"),
        ([0.0, 1.0], {}, "`values` is empty"),
        ([0.0, 1.0], {"a": [np.nan, np.nan]}, "every value is NaN"),
        ([0.0, 1.0], {"a": [np.inf, 0.0]}, "`a` is infinite at t = 0 s"),
    ],
)
def test_runs_that_cannot_be_are_refused(ts, values, message):
    with pytest.raises(ValueError, match=message):
        identify.Run(ts, values)


def test_other_bad_arguments():
    with pytest.raises(ValueError, match=r"`std` is 0.*; it must be a positive standard deviation"):
        identify.Prior(1.0, 0.0)
    with pytest.raises(TypeError, match="`solver` is of type str; it must be an optimistix"):
        identify.fit(identify.Problem(START, parameters(), [ANGLE], [pendulum_run(0)]), "lm")
    with pytest.raises(ValueError, match=r"`seconds` is 0.001: 1 of the 120 times"):
        identify.predict(START, [ANGLE], pendulum_run(0), 0.001)


@pytest.mark.parametrize(("dt", "right"), [(None, True), (1.0, False)])
def test_steps_are_halved_until_their_error_is_small(dt, right):
    """With nearly exact data, one integration step between neighbouring times would bias the estimate, so steps are
    halved; a fixed `dt` of 1 s does bias it."""
    exact = identify.Coordinate(0, name="angle", columns=("angle",), noise=1e-6)
    runs = [pendulum_run(0, noise=1e-6), pendulum_run(1, start=0.6, noise=1e-6)]
    found = identify.fit(identify.Problem(START, parameters(), [exact], runs, segments=6, dt=dt))
    assert found.converged
    assert (found.refinement > 1) == right
    assert np.all(np.abs(found.values - [0.5, 0.1]) < 4 * found.errors) == right
