"""A fit that is linear in its unknowns: estimates, standard errors and priors against the normal equations."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import identify
from jaxhamel._compiled import compilations
from tests.identify.systems import PLACE, Particle

SIGMA, A = 0.1, 0.7


def runs(seed=0):
    """Two runs of x = x0 + v0 t + a t²/2 with uneven times, missing values and noise σ."""
    rng, found = np.random.default_rng(seed), []
    for x0, v0, count in ((0.3, -1.0, 40), (-0.2, 0.5, 25)):
        ts = np.concatenate([[0.0], np.sort(rng.uniform(0.01, 3.0, count - 1))])
        place = x0 + v0 * ts + A * ts**2 / 2 + SIGMA * rng.normal(size=count)
        place[rng.uniform(size=count) < 0.2] = np.nan
        found.append(identify.Run(ts, {"place": place}))
    return found


def by_normal_equations(data, prior=None, offset=None):
    """(a, σ_a) by linear least squares with the unknowns (x0 and v0 of each run, offsets, a)."""
    rows, right = [], []
    unknowns = 2 * len(data) + (len(data) if offset else 0) + 1
    for i, run in enumerate(data):
        for t, (y,) in zip(run.ts, run.values["place"], strict=True):
            if np.isfinite(y):
                row = np.zeros(unknowns)
                row[2 * i], row[2 * i + 1], row[-1] = 1, t, t**2 / 2
                if offset:
                    row[2 * len(data) + i] = 1
                rows.append(row / SIGMA)
                right.append(y / SIGMA)
    if prior:
        rows.append(np.eye(unknowns)[-1] / prior[1])
        right.append(prior[0] / prior[1])
    for i in range(len(data) if offset else 0):
        rows.append(np.eye(unknowns)[2 * len(data) + i] / offset)
        right.append(0.0)
    rows, right = np.array(rows), np.array(right)
    inverse = np.linalg.pinv(rows.T @ rows)
    return (inverse @ rows.T @ right)[-1], np.sqrt(inverse[-1, -1])


def fitted(data, prior=None, segments=1, measurement=PLACE, **options):
    thrust = identify.Free("thrust", unit="m/s²", prior=prior)
    system = Particle(1.0, 0.1)
    return identify.fit(
        identify.Problem(system, [thrust], [measurement], data, segments=segments), **options
    )


@pytest.fixture(scope="module")
def single():
    return fitted(runs())


def test_estimate_and_standard_error_are_those_of_the_normal_equations(single):
    a, error = by_normal_equations(runs())
    assert single.converged
    assert single.values[0] == pytest.approx(a, abs=1e-2 * error)
    assert single.errors[0] == pytest.approx(error, rel=1e-6)
    assert single.flat == []
    known = sum(np.isfinite(run.values["place"]).sum() for run in runs())
    assert single.counts == {"place": known}


def test_segments_change_nothing():
    a, error = by_normal_equations(runs())
    several = fitted(runs(), segments=3)
    assert several.converged
    assert several.values[0] == pytest.approx(a, abs=1e-2 * error)
    assert several.errors[0] == pytest.approx(error, rel=1e-6)
    assert several.gap < 0.1


def test_other_data_of_the_same_shape_compile_nothing_again(single):
    from jaxhamel.identify._linearised._objective import linearised

    before = compilations(linearised)
    other = fitted(runs(), prior=None)
    assert compilations(linearised) == before
    assert other.values == pytest.approx(single.values)


def test_prior_is_one_more_measurement():
    mean, width = 0.2, 0.05
    found = fitted(runs(), prior=identify.Prior(mean, width))
    a, error = by_normal_equations(runs(), prior=(mean, width))
    assert found.values[0] == pytest.approx(a, abs=1e-2 * error)
    assert found.errors[0] == pytest.approx(error, rel=1e-6)


def test_relative_prior_is_one_of_the_logarithm():
    prior = identify.Prior([2.0, 4.0], 0.1, relative=True)
    np.testing.assert_allclose(prior.residual(np.array([2 * np.e, 4.0])), [10.0, 0.0], rtol=1e-12)


def test_offset_that_nothing_tells_from_the_start_leaves_the_rest_as_it_is():
    """Only the sum of x0 and the sensor's offset is determined; the estimate of the acceleration is unaffected."""
    with_offset = identify.Coordinate(
        0, name="place", columns=("place",), unit="m", noise=SIGMA, offset=0.5, limit=np.inf
    )
    found = fitted(runs(), measurement=with_offset)
    a, error = by_normal_equations(runs(), offset=0.5)
    assert found.values[0] == pytest.approx(a, abs=1e-2 * error)
    assert found.errors[0] == pytest.approx(error, rel=1e-6)
    np.testing.assert_allclose(
        found.x.offsets, 0.0, atol=5e-3
    )  # a hundredth of the prior's deviation of 0.5


def test_covariance_is_the_scatter_of_estimates(single):
    """40 experiments: the mean of ((a − A)/σ)² is 1 within 4 standard deviations of a χ²."""
    scores = []
    for seed in range(40):
        data = [
            identify.Run(run.ts, {"place": fresh(run, seed + 100 * i)})
            for i, run in enumerate(runs())
        ]
        found = fitted(data)
        scores.append((found.values[0] - A) / found.errors[0])
    assert abs(np.mean(np.square(scores)) - 1) < 4 * np.sqrt(2 / len(scores))


def fresh(run, seed):
    noise = SIGMA * np.random.default_rng(seed + 1).normal(size=len(run.ts))
    exact = 0.4 - 0.6 * run.ts + A * run.ts**2 / 2 + noise
    return np.where(np.isfinite(run.values["place"][:, 0]), exact, np.nan)


def test_noise_is_estimated_where_it_is_not_given():
    unknown = identify.Coordinate(0, name="place", columns=("place",), unit="m", limit=np.inf)
    found = fitted(runs(), measurement=unknown)
    a, error = by_normal_equations(runs())
    count = found.counts["place"]
    squares = found.rms["place"] ** 2 * count
    # unbiased estimate of the noise with five unknowns
    assert found.noise[0] == pytest.approx(np.sqrt(squares / (count - 5)), rel=0.02)
    assert found.values[0] == pytest.approx(a, abs=1e-2 * error)
    assert found.errors[0] == pytest.approx(error * found.noise[0] / SIGMA, rel=1e-3)
    assert not any("noise" in remark for remark in found.remarks)


@pytest.mark.parametrize(("factor", "size"), [(3.0, "large"), (0.3, "small"), (1.0, None)])
def test_given_noise_that_is_wrong_is_said(factor, size):
    """Standard errors are by the given noise; residuals of another size contradict it."""
    place = eqx.tree_at(lambda m: m.noise, PLACE, factor * SIGMA)
    found = fitted(runs(), measurement=place)
    said = [remark for remark in found.remarks if "Correct `noise`, leave it out" in remark]
    assert [f"errors are too {size}" in words for words in said] == ([] if size is None else [True])
    assert "RMS residual  m" in str(found)


def test_optax_finds_the_same():
    import optax

    found = fitted(runs(), solver=optax.adam(0.3), max_iterations=600)
    a, error = by_normal_equations(runs())
    assert found.values[0] == pytest.approx(a, abs=0.05 * error)


def test_running_out_of_iterations_is_said_and_keeps_what_there_is():
    told = []
    found = fitted(runs(), max_iterations=2, progress=told.append)
    assert not found.converged
    assert found.status == "out of iterations (2)"
    assert "NOT converged" in str(found)
    assert [state.iteration for state in told] == [1, 2]
    assert "at most" in str(told[0])
    np.testing.assert_array_equal(told[0].z, found.problem.model.coordinates())
    assert jnp.isfinite(found.cost)


def test_offset_of_a_speedometer_beside_a_position_is_found():
    """v is measured with a constant offset b, x without: the normal equations in (x0, v0, b, a)."""
    rng, ts, b = np.random.default_rng(4), np.linspace(0.0, 2.0, 21), 0.4
    place = 0.3 - ts + A * ts**2 / 2 + SIGMA * rng.normal(size=21)
    speed = -1 + A * ts + b + 0.2 * rng.normal(size=21)
    meter = identify.Coordinate(
        0, rate=True, name="speed", columns=("speed",), unit="m/s", noise=0.2, offset=np.inf
    )
    run = identify.Run(ts, {"place": place, "speed": speed})
    thrust = identify.Free("thrust", unit="m/s²")
    found = identify.fit(
        identify.Problem(Particle(1.0, 0.1), [thrust], [PLACE, meter], [run], segments=2)
    )
    one, none = np.ones(21), np.zeros(21)
    rows = np.concatenate(
        [
            np.stack([one, ts, none, ts**2 / 2], axis=1) / SIGMA,
            np.stack([none, one, one, ts], axis=1) / 0.2,
        ]
    )
    inverse = np.linalg.inv(rows.T @ rows)
    best = inverse @ rows.T @ np.concatenate([place / SIGMA, speed / 0.2])
    errors = np.sqrt(np.diagonal(inverse))
    assert found.values[0] == pytest.approx(best[3], abs=1e-2 * errors[3])
    assert found.errors[0] == pytest.approx(errors[3], rel=1e-5)
    assert found.x.offsets[0, 0] == pytest.approx(best[2], abs=2e-2 * errors[2])
