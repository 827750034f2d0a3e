"""Statistics of a few numbers by hand, merging, stopping rules and progress: errors that averages over many random
numbers would hide."""

import jax
import numpy as np
import pytest
from scipy import stats

from jaxhamel.ensemble import Distribution, Samples, monte_carlo
from jaxhamel.ensemble._study._progress import Goal, Moments, Progress, Target, statistics_of
from jaxhamel.ensemble._study._sampling import Probabilities
from jaxhamel.ensemble._study._statistics import probability, quantiles, summarise

X, Y = np.array([0.0, 0.0, 0.0, 10.0]), np.array([1.0, 2.0, 3.0, 4.0])
SPREAD = {
    "a": Distribution("normal", mean=[1.0, 2.0], std=0.5),
    "b": Distribution("uniform", low=0.0, high=1.0),
}


def test_four_numbers_by_hand():
    """Moments and their errors of four numbers. The deviations of x are −2.5 (three times) and 7.5, so Σd² = 75.
    Leaving one number out gives σ = √(100/3) (three times) and 0, and the jackknife error √(25 · 3/4). With y, Σ d_x
    d_y = 15 and the mean square of the products is 35.9375."""
    found = summarise({"x": X, "y": Y})
    x = found["quantities"]["x"]
    assert (x["n"], x["min"], x["max"], x["mean"], x["std"]) == (4, 0.0, 10.0, 2.5, 5.0)
    assert x["mean_error"] == 2.5
    np.testing.assert_allclose(x["std_error"], np.sqrt(25 * 3 / 4), rtol=1e-14)
    for a, b in (("x", "y"), ("y", "x")):
        np.testing.assert_allclose(found["covariance"][a][b], 5.0, rtol=1e-14)
        error = np.sqrt((35.9375 - 3.75**2) / 4)
        np.testing.assert_allclose(found["covariance_error"][a][b], error, rtol=1e-14)
    np.testing.assert_allclose(found["covariance"]["x"]["x"], 25.0, rtol=1e-14)


def test_quantiles_of_evenly_spaced_numbers():
    """Of 0 … 100 the quantile is 100 p, and its error √(101 p (1 − p)), since values equal positions."""
    mixed = np.random.default_rng(0).permutation(101.0 - np.arange(101)) - 1.0
    found = quantiles(mixed, (0.05, 0.25, 0.5, 0.95))
    for p in (0.05, 0.25, 0.5, 0.95):
        np.testing.assert_allclose(found[str(p)]["value"], 100 * p, rtol=1e-13)
        np.testing.assert_allclose(found[str(p)]["error"], np.sqrt(101 * p * (1 - p)), rtol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 50])
def test_errors_of_few_numbers(n):
    """The errors stated for few normal numbers are never 0, equal in both tails, and near the scatter over 1,000 runs.

    The error of a tail quantile is stated too small by a factor of three at most. The error of a deviation is within 20
    % of its scatter; for two numbers it is NaN.
    """
    runs = np.random.default_rng(4).normal(size=(1000, n))
    found = [summarise({"x": x})["quantities"]["x"] for x in runs]
    tails = []
    for p in ("0.05", "0.5", "0.95"):
        errors = [run["quantiles"][p]["error"] for run in found]
        assert min(errors) > 0
        tails.append(np.mean(errors))
        assert 1 / 3 < tails[-1] / np.std([run["quantiles"][p]["value"] for run in found]) < 1.25
    np.testing.assert_allclose(tails[0], tails[2], rtol=0.15)
    stated = np.array([run["std_error"] for run in found])
    if n == 2:
        both = summarise({"x": runs[0], "y": runs[1]})
        assert np.isnan([*stated, both["covariance_error"]["x"]["y"]]).all()
    else:
        assert stated.min() > 0
        scatter = np.std([run["std"] for run in found])
        np.testing.assert_allclose(stated.mean(), scatter, rtol=0.2)


@pytest.mark.parametrize(("happened", "n"), [(0, 10), (8, 10), (10, 10), (3, 1000)])
def test_wilsons_interval_is_scipys(happened, n):
    found = probability(np.arange(n) < happened)
    wanted = stats.binomtest(happened, n).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose([found["low"], found["high"]], wanted, rtol=1e-12, atol=1e-15)
    assert 0.0 <= found["low"] <= found["probability"] <= found["high"] <= 1.0
    p = happened / n
    np.testing.assert_allclose(found["error"], np.sqrt(p * (1 - p) / n), rtol=1e-14)


def test_of_nothing_nothing_is_known():
    found = probability(np.zeros(0, bool))
    assert (found["low"], found["high"]) == (0.0, 1.0)
    assert summarise({"x": np.zeros(0)})["covariance"] == {}
    assert np.isinf(Moments.of(np.array([[1.0]])).mean_error).all()


def test_a_row_that_is_not_whole_is_left_out_of_the_moments():
    moments = Moments.of(np.array([[1.0, 2.0], [np.nan, 5.0], [3.0, np.inf], [3.0, 6.0]]))
    assert moments.n == 2
    np.testing.assert_array_equal(moments.mean, [2.0, 4.0])
    np.testing.assert_array_equal(moments.covariance, [[2.0, 4.0], [4.0, 8.0]])
    np.testing.assert_allclose(moments.mean_error, [1.0, 2.0])


def columns(x, failed=()):
    bad = np.isin(np.arange(len(x)), failed).astype(float)
    return {"x": np.where(bad != 0, np.nan, x), "failed": bad}


def test_a_run_stops_when_all_targets_are_reached():
    values = columns(np.arange(100.0), failed=[7])
    moments = Moments.of(values["x"][:, None])
    easy, hard = Target("x", None, 10.0), Target("x", 0.5, 1e-3)
    assert Goal([easy]).reached(values, moments)
    assert not Goal([easy, hard]).reached(values, moments)
    assert not Goal([hard, easy]).reached(values, moments)
    assert Goal([easy, Target("x", 0.5, 10.0)]).reached(
        values, moments
    )  # of the trajectories that did not fail
    half_failed = columns(np.arange(100.0), failed=np.arange(0, 100, 2))
    assert Goal([Target("x", 0.5, 10.0)]).reached(half_failed, moments)
    assert not Goal([]).reached(values, moments)
    found = probability(values["failed"] != 0)
    half = (found["high"] - found["low"]) / (2 * stats.norm.ppf(0.975))
    assert Goal([Target("failed", None, half * 1.001)]).reached(values, moments)
    assert not Goal([Target("failed", None, half * 0.999)]).reached(values, moments)


def test_quantiles_are_looked_at_again_after_some_more():
    """Quantiles are checked again after 2 % more trajectories: sorting all values after each block would take longer
    than the motions."""
    goal = Goal([Target("x", 0.5, 1e-9)])
    for done, again in ((100, 102), (101, 102), (102, 105)):
        values = columns(np.arange(float(done)))
        assert not goal.reached(values, Moments.of(values["x"][:, None]))
        assert goal._next == again


def test_progress_counts_what_failed_and_the_time_that_is_left():
    """This run computed 40 trajectories in 4 s; 60 are missing, which take 6 s."""
    values = columns(np.arange(50.0), failed=[3, 4])
    now = Progress(values, 110, Moments.of(values["x"][:, None]), 5.0, 4.0, 40, 60)
    assert (now.done, now.failed, now.rate, now.left) == (50, 2, 10.0, 6.0)
    assert now.failure["probability"] == 2 / 50
    assert now.statistics == statistics_of(values)
    assert now.statistics["quantities"]["x"]["n"] == 48
    assert np.isnan(Progress(values, 110, Moments.none(1), 5.0, 0.0, 0, 60).left)
    error = f"{now.means['x'][1]:.1g}"
    assert str(now) == (
        "50 of 110 trajectories, 2 failed   10/s, about 6 s left   "
        f"x: mean {now.means['x'][0]:.4g} ± {error}, 95 % below 46.65"
    )
    nothing = columns(np.arange(3.0), failed=[0, 1, 2])
    at = Progress(nothing, 6, Moments.of(nothing["x"][:, None]), 1.0, 0.0, 0, 3)
    assert str(at) == "3 of 6 trajectories, 3 failed   x: mean 0 ± inf, 95 % below nan"


def test_the_check_sees_the_smallest_and_the_largest_of_each_number():
    """The check gets them also from beyond the 65,536 samples that are drawn together."""
    samples, seen = Samples(SPREAD, 100_000, 3), []
    drawn = samples[:]
    samples.check(lambda sample: seen.append((sample["a"][0], sample["a"][1], sample["b"])))
    numbers = np.column_stack([drawn["a"], drawn["b"]])
    rows = {*numbers.argmin(axis=0).tolist(), *numbers.argmax(axis=0).tolist()}
    assert max(rows) > 65_536  # otherwise this seed tests nothing
    np.testing.assert_array_equal(seen, numbers[sorted(rows)])


def test_every_sample_is_finite():
    """Samples are finite even if the generator returns 0 or 1, which happens once in 2⁵³."""
    points = Probabilities(1, 3, 0, "latin-hypercube")
    points._strata = np.array([[0.0], [0.5], [1.0]])
    p = points[0:3]
    assert ((p > 0) & (p < 1)).all()
    assert np.isfinite(Distribution("normal", mean=0.0, std=1.0).quantile(p)).all()


@pytest.mark.parametrize("sampler", ["random", "latin-hypercube", "sobol"])
def test_another_seed_gives_other_samples(sampler):
    one, same, other = (Samples(SPREAD, 64, seed, sampler)[:]["b"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.isin(one, other).any()


def test_a_run_in_another_precision_is_another_run(tmp_path):
    def model(sample):
        return {"b": sample["b"]}

    monte_carlo(model, SPREAD, 10, folder=tmp_path)
    with jax.enable_x64(False), pytest.raises(ValueError, match="its `precision` is 'float64'"):
        monte_carlo(model, SPREAD, 10, folder=tmp_path, resume=True)


def test_the_precision_of_a_context_is_that_of_every_thread():
    """A model that returns its samples gets them exactly in double precision, and rounded in single precision."""
    for double in (True, False):
        with jax.enable_x64(double):
            study = monte_carlo(lambda sample: {"b": sample["b"]}, SPREAD, 10)
        drawn = study.samples[:]["b"]
        wanted = drawn if double else drawn.astype(np.float32).astype(float)
        np.testing.assert_array_equal(study.values["b"], wanted)


@pytest.mark.parametrize("n", [1, 2, 7, 50, 4000])
def test_the_interval_is_wilsons(n):
    """The interval equals SciPy's from 0 to n events."""
    for k in {0, 1, n // 3, n - 1, n}:
        found = probability(np.arange(n) < k)
        wanted = stats.binomtest(k, n).proportion_ci(method="wilson")
        np.testing.assert_allclose([found["low"], found["high"]], wanted, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(found["error"], np.sqrt(k * (n - k) / n**3), rtol=1e-12)
        assert found["low"] <= found["probability"] == k / n <= found["high"]
