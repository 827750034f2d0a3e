"""Priors on initial states, weights of rows, correlated residuals and predictions by age, against linear algebra.

The place of a particle with constant acceleration, x = x₀ + v₀ t + a t²/2, is linear in the unknowns, so every estimate
and standard error solves normal equations.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import identify
from jaxhamel.identify._noise import correlation_time as time_of
from tests.identify.systems import PLACE, Particle

TS = np.linspace(0.0, 2.0, 21)
SIGMA = 0.1  # the noise of PLACE
START, WIDTH = 0.3, 0.04  # the prior of x₀
COLUMNS = np.column_stack([np.ones_like(TS), TS, TS**2 / 2])


def made_up(seed, start):
    """A run with a = 1.4 and errors correlated from one row to the next, so that τ is several samples."""
    rng = np.random.default_rng(seed)
    error = np.convolve(rng.normal(size=TS.size + 4), np.ones(5) / np.sqrt(5), "valid")
    weights = np.linspace(0.2, 1.5, TS.size)
    place = COLUMNS @ [start, -0.2, 1.4] + SIGMA * error
    return identify.Run(TS, {"place": place}, name=f"run {seed}", weights=weights)


RUNS = [made_up(seed, start) for seed, start in enumerate((0.2, 0.45))]
PRIOR = identify.StatePrior(PLACE, START, WIDTH)


def fitted(runs, *parameters, priors=(PRIOR,), **options):
    problem = identify.Problem(
        Particle(1.0, 1.0), parameters, [PLACE], runs, segments=3, priors=priors
    )
    return identify.fit(problem, **options)


def normal_equations(tau):
    """The solution (x₀ and v₀ of both runs, a), and the covariance if the data's information is divided by τ."""
    data, rows, known = [], [], np.zeros((2, 5))
    for i, run in enumerate(RUNS):
        J = np.zeros((TS.size, 5))
        J[:, 2 * i : 2 * i + 2], J[:, 4] = COLUMNS[:, :2], COLUMNS[:, 2]
        share = np.sqrt(run.weights) / SIGMA
        data.append(J * share[:, None])
        rows.append(run.values["place"][:, 0] * share)
        known[i, 2 * i] = 1 / WIDTH
    J = np.vstack([*data, known])
    solution = np.linalg.lstsq(J, np.concatenate([*rows, [START / WIDTH] * 2]), rcond=None)[0]
    data = np.vstack(data)
    return solution, np.linalg.inv(data.T @ data / tau + known.T @ known)


def correlation_time(errors):
    """The correlation time 1 + 2 Σ ρ, summed up to the first negative autocorrelation ρ."""
    apart = errors - errors.mean()
    total = 1.0
    for lag in range(1, len(apart)):
        rho = np.sum(apart[lag:] * apart[:-lag]) / np.sum(apart**2)
        if rho < 0:
            break
        total += 2 * rho
    return total


@pytest.mark.parametrize("correlated", [False, True])
def test_priors_weights_and_correlation(correlated):
    """A fit in three segments equals the normal equations. With `correlated`, the data's information is divided by τ,
    but not the prior's."""
    found = fitted(RUNS, identify.Free("thrust", unit="m/s²"), correlated=correlated)
    x = normal_equations(1.0)[0]
    errors = [
        run.values["place"][:, 0] - COLUMNS @ [x[2 * i], x[2 * i + 1], x[4]]
        for i, run in enumerate(RUNS)
    ]
    tau = np.mean([correlation_time(error) for error in errors])
    assert found.converged
    assert found.correlated == correlated
    assert found.correlation_time == pytest.approx(tau, rel=1e-4)
    assert tau > 2
    assert found.to_dict()["correlation_time"] == found.correlation_time
    std = np.sqrt(normal_equations(tau if correlated else 1.0)[1][4, 4])
    np.testing.assert_allclose(found.values, x[4:], rtol=1e-6)
    np.testing.assert_allclose(found.errors, [std], rtol=1e-4)
    starts = identify.initial_values(found, PLACE)[:, 0]
    np.testing.assert_allclose(starts, x[[0, 2]], atol=1e-4)  # small beside the standard errors
    prior = identify.prior_over_runs(found, PLACE)
    np.testing.assert_allclose(prior.mean, [np.mean(starts)], rtol=1e-12)
    np.testing.assert_allclose(prior.std, [abs(starts[1] - starts[0]) / np.sqrt(2)], rtol=1e-12)
    weights = np.concatenate([run.weights for run in RUNS])
    rms = np.sqrt(np.sum(weights * np.concatenate(errors) ** 2) / weights.sum())
    assert found.rms["place"] == pytest.approx(rms, rel=1e-4)
    assert found.counts["place"] == 2 * TS.size


def test_prediction_with_weights_by_age():
    """The state is estimated from the first 1.2 s by weighted least squares with a prior and a steady clock; from there
    the motion is simulated."""
    late = TS + 0.03 * (np.arange(TS.size) % 7 == 2)
    run = identify.Run(late, {"place": RUNS[0].values["place"]}, name="late")
    system = Particle(1.0, 1.4)
    found = identify.predict(
        system, [PLACE], run, 1.25, memory=0.2, priors=[PRIOR], clock="steady", rtol=1e-9, atol=1e-9
    )
    used = 13
    weights = np.exp((TS[:used] - TS[used - 1]) / 0.2)
    J = np.vstack([COLUMNS[:used, :2] * np.sqrt(weights)[:, None] / SIGMA, [1 / WIDTH, 0]])
    rest = run.values["place"][:used, 0] - 1.4 * COLUMNS[:used, 2]
    right = np.append(rest * np.sqrt(weights) / SIGMA, START / WIDTH)
    q0, u0 = np.linalg.lstsq(J, right, rcond=None)[0]
    np.testing.assert_allclose(found.initial.x.q[0], [q0], atol=2e-4)
    np.testing.assert_allclose(found.initial.x.u[0], [u0], atol=1e-3)
    times = np.concatenate([TS[:used], late[used:]])
    exact = q0 + u0 * times + 0.7 * times**2
    np.testing.assert_allclose(found.shown["place"][:, 0], exact, atol=2e-3)
    error = exact - run.values["place"][:, 0]
    assert found.rms["place"] == pytest.approx(np.sqrt(np.mean(error[used:] ** 2)), rel=1e-2)


def test_a_part_of_a_run_keeps_its_guess_and_weights():
    guess = (TS[:, None] + 5.0, TS[:, None] - 5.0)
    run = identify.Run(TS, {"place": TS}, guess=guess, weights=TS + 1.0)
    part = run.until(0.55)
    np.testing.assert_array_equal(part.weights, TS[:6] + 1.0)
    np.testing.assert_array_equal(part.guess[0], guess[0][:6])
    moved = run.at(TS + 3.0)
    np.testing.assert_array_equal(moved.ts, TS + 3.0)
    np.testing.assert_array_equal(moved.weights, run.weights)
    np.testing.assert_array_equal(moved.values["place"], run.values["place"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: identify.StatePrior("x", 0.0, 1.0), r"`quantity`.*it must be a measurement"),
        (
            lambda: identify.StatePrior(PLACE, [0.0, 1.0], 1.0),
            r"`mean` of the prior has shape \(2,\)",
        ),
        (
            lambda: identify.StatePrior(PLACE, 0.0, 0.0),
            r"`std` is \[0\.\]; it must be a positive.*a small standard deviation",
        ),
        (lambda: fitted(RUNS, priors=[identify.Prior(0.0, 1.0)]), r"`priors` holds.*StatePrior"),
        (lambda: fitted(RUNS, correlated="yes"), r"`correlated`.*it must be True or False"),
        (
            lambda: fitted(RUNS, priors=[identify.StatePrior(identify.Coordinate(3), 0.0, 1.0)]),
            r"'coordinate'.* takes entries \(3,\) of 1",
        ),
        (
            lambda: identify.Run(TS, {"place": TS}, weights=[1.0]),
            r"run: `weights` has shape \(1,\); it must be \(21,\)",
        ),
        (lambda: identify.Run(TS, {"place": TS}, weights=-TS), r"`weights of run`.*negative"),
        (lambda: identify.Run(TS, {"place": TS}, weights=0 * TS), r"all `weights` are zero"),
        (lambda: identify.steady_clock(TS[::-1]), r"`ts` is out of order"),
        (lambda: predicted(clock="exact"), r"`clock` is 'exact'; it must be \"stamps\" or"),
        (lambda: predicted(memory=0.0), r"`memory` is 0.*positive"),
    ],
)
def test_messages(wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        wrong()


def predicted(**options):
    return identify.predict(Particle(1.0, 1.4), [PLACE], RUNS[0], 0.5, **options)


def test_correlated_errors_widen_the_standard_errors():
    """τ = (1 + a) / (1 − a) for AR(1) noise with coefficient a, and 1 for white noise. Missing values change it little."""
    rng = np.random.default_rng(0)
    white = rng.normal(size=6_000)
    red = np.zeros_like(white)
    for i in range(1, len(red)):
        red[i] = 0.8 * red[i - 1] + white[i]
    gaps = np.where(rng.uniform(size=len(red)) < 0.01, np.nan, red)
    np.testing.assert_allclose(np.sqrt(time_of([white])), 1.0, atol=0.06)
    np.testing.assert_allclose(np.sqrt(time_of([red])), 3.0, rtol=0.12)
    np.testing.assert_allclose(time_of([gaps]), time_of([red]), rtol=0.05)


class Wheel(eqx.Module):
    load: jax.Array
    radius: jax.Array = jaxhamel.parameter("of the wheel", "m")


class Bogie(eqx.Module):
    wheels: tuple[Wheel, ...]
    stiffness: jax.Array = jaxhamel.parameter("of the springs", "N/m", ("n",))


@pytest.mark.parametrize(
    ("path", "given", "units"),
    [
        ("stiffness", "", ["N/m", "N/m"]),
        ("stiffness", "kN/m", ["kN/m", "kN/m"]),
        ("wheels.1.radius", "", ["m"]),
        ("wheels.1.load", "", [""]),
    ],
)
def test_a_parameter_has_the_unit_of_its_field(path, given, units):
    """The class states the unit by `jaxhamel.parameter`, also in an object inside the system; a unit that is given to
    the parameter comes first."""
    bogie = Bogie((Wheel(jnp.ones(()), 0.4), Wheel(jnp.ones(()), 0.5)), np.ones(2))
    for kind in (identify.Positive, identify.Free):
        assert kind(path, unit=given).resolved(bogie).units() == units
    bounded = identify.Bounded(path, lower=0.1, upper=2.0, unit=given)
    assert bounded.resolved(bogie).units() == units
