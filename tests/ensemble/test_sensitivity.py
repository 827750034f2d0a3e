"""Sobol indices and derivative bounds against closed forms: Ishigami's function, Sobol's g-function and linear models."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.ensemble import Distribution, derivative_bounds, sobol_indices
from jaxhamel.ensemble._study._sensitivity import _bound, _of_tables, _saltelli_indices

ANGLES = {"x": Distribution("uniform", low=[-np.pi] * 3, high=[np.pi] * 3)}
A, B = 7.0, 0.1


def ishigami(sample):
    """sin x₁ + a sin² x₂ + b x₃⁴ sin x₁ (Ishigami and Homma 1990)."""
    x = sample["x"]
    return {"f": jnp.sin(x[0]) + A * jnp.sin(x[1]) ** 2 + B * x[2] ** 4 * jnp.sin(x[0])}


def ishigami_exact():
    """Variance, first-order indices and total indices."""
    pi4 = np.pi**4
    first = np.array([0.5 * (1 + B * pi4 / 5) ** 2, A**2 / 8, 0.0])
    both = 8 * B**2 * pi4**2 / 225
    variance = first.sum() + both
    return variance, first / variance, (first + np.array([both, 0.0, both])) / variance


WEIGHTS = np.array([0.0, 1.0, 4.5, 9.0])
UNIT = {"x": Distribution("uniform", low=[0.0] * 4, high=[1.0] * 4)}


def g_function(sample):
    """Π (|4 x_i − 2| + a_i)/(1 + a_i) (Saltelli and Sobol 1995)."""
    return {"g": jnp.prod((jnp.abs(4 * sample["x"] - 2) + WEIGHTS) / (1 + WEIGHTS))}


def g_exact():
    each = 1 / (3 * (1 + WEIGHTS) ** 2)
    variance = np.prod(1 + each) - 1
    return variance, each / variance, each * np.prod(1 + each) / (1 + each) / variance


# a 95 % interval misses one time in twenty, so the test doubles its width and allows 0.02 for the estimate
@pytest.mark.parametrize(
    ("model", "spread", "exact"),
    [(ishigami, ANGLES, ishigami_exact), (g_function, UNIT, g_exact)],
)
def test_sobol_indices_are_the_closed_forms(model, spread, exact):
    found = sobol_indices(model, spread, 4096, seed=2)
    ((name, kinds),) = found.indices.items()
    variance, first, total = exact()
    np.testing.assert_allclose(found.variance[name], variance, rtol=0.02)
    for kind, wanted in {"first": first, "total": total}.items():
        np.testing.assert_allclose(kinds[kind], wanted, atol=0.02)
        low, high = found.low[name][kind], found.high[name][kind]
        assert np.all(low - (high - low) / 2 <= wanted)
        assert np.all(wanted <= high + (high - low) / 2)
        assert np.all(high - low < 0.2)
    assert (found.used, found.failed) == (4096, 0)
    assert found.parameters == [f"x[{i}]" for i in range(len(first))]
    assert "x[0]  first" in str(found)


NORMAL = {
    "a": Distribution("normal", mean=1.0, std=2.0),
    "b": Distribution("lognormal", median=[1.0, 3.0], sigma=[0.5, 0.1]),
}


def linear(sample):
    """3 a + 2 log b₁ + log b₂ with normal a and log b, whose terms have the variances 36, 1 and 0.01."""
    return {"f": 3 * sample["a"] + 2 * jnp.log(sample["b"][0]) + jnp.log(sample["b"][1])}


def test_bounds_are_the_indices_of_a_linear_model():
    """The gradient is constant, so the bounds times the variance are c_i² σ_i² exactly."""
    found = derivative_bounds(linear, NORMAL, 500, seed=2)
    wanted = np.array([36.0, 1.0, 0.01])
    np.testing.assert_allclose(found.indices["f"]["bound"] * found.variance["f"], wanted, rtol=1e-6)
    np.testing.assert_allclose(found.variance["f"], 37.01, rtol=0.15)
    assert found.parameters == ["a", "b[0]", "b[1]"]
    indices = sobol_indices(linear, NORMAL, 1024, seed=2).indices["f"]
    for kind in ("first", "total"):
        np.testing.assert_allclose(indices[kind], wanted / 37.01, atol=0.03)


def test_the_parameters_keep_their_names():
    """For f = 10 b + a of standard normals with b given first, both methods assign 100 to b and 1 to a."""
    spread = {name: Distribution("normal", mean=0.0, std=1.0) for name in ("b", "a")}
    steep = lambda s: {"f": 10 * s["b"] + s["a"]}
    for found, kind in (
        (derivative_bounds(steep, spread, 32), "bound"),
        (sobol_indices(steep, spread, 256), "total"),
    ):
        shares = dict(
            zip(found.parameters, found.indices["f"][kind] * found.variance["f"], strict=True)
        )
        assert shares == {"b": pytest.approx(100.0, rel=0.1), "a": pytest.approx(1.0, rel=0.1)}


def test_bounds_are_not_below_the_total_indices():
    """The bounds of Ishigami's function are above its total indices; that of x₂ agrees with E[(∂f/∂x₂ · 2π φ(z))²] by
    quadrature."""
    found = derivative_bounds(ishigami, ANGLES, 4096, seed=2)
    _, _, total = ishigami_exact()
    assert np.all(found.indices["f"]["bound"] > total)
    from scipy import stats

    p = (np.arange(200) + 0.5) / 200
    x, weight = 2 * np.pi * p - np.pi, (2 * np.pi * stats.norm.pdf(stats.norm.ppf(p))) ** 2
    by_x2 = np.mean((A * np.sin(2 * x)) ** 2 * weight)
    np.testing.assert_allclose(
        found.indices["f"]["bound"][1] * found.variance["f"], by_x2, rtol=0.05
    )


def test_a_batched_model_and_samples_that_fail():
    """A base sample is left out if one of its trajectories fails. A batched model has the bounds of the linear model."""

    def batched(samples):
        a = samples["a"]
        return {"f": 3 * a + 2 * jnp.log(samples["b"][:, 0]), "failed": a > 5.0}

    found = sobol_indices(batched, NORMAL, 256, seed=2, batched=True)
    assert 0 < found.failed < 40
    assert found.used + found.failed == 256
    assert np.isfinite(found.indices["f"]["first"]).all()
    slopes = derivative_bounds(batched, NORMAL, 64, seed=2, batched=True)
    np.testing.assert_allclose(
        slopes.indices["f"]["bound"] * slopes.variance["f"], [36.0, 1.0, 0.0], rtol=1e-6
    )


def test_indices_of_a_small_table():
    """The estimators for a table of three rows by hand: columns A, B, and A with one number from B. A shift by 100
    changes nothing."""
    a, b, mixed = np.array([1.0, -1.0, 2.0]), np.array([0.0, 1.0, -3.0]), np.array([1.5, 1.0, -2.0])
    for middle in (0.0, 100.0):
        variance, found = _saltelli_indices(middle + np.column_stack([a, b, mixed]))
        assert variance == pytest.approx(
            16 / 6
        )  # the variance of all six values of A and B, whose mean is 0
        # 0 (1.5 − 1) + 1 (1 + 1) − 3 (−2 − 2), a third of it; 0.5² + 2² + 4², a sixth
        assert found["first"] == pytest.approx([14 / 3 / (16 / 6)])
        assert found["total"] == pytest.approx([20.25 / 6 / (16 / 6)])
    variance, found = _bound(np.column_stack([a, b, mixed]))
    assert variance == pytest.approx(7 / 3)  # Σ (a − 2/3)²/2
    assert found["bound"] == pytest.approx(np.array([10 / 3, 7.25 / 3]) / (7 / 3))


def test_intervals_by_drawing_again():
    """The bootstrap interval of a mean of N normal numbers is ±1.96 σ/√N; a seed always gives the same interval."""
    spread = {"x": Distribution("normal", mean=[0.0, 0.0], std=1.0)}
    rows = np.random.default_rng(5).normal([1.0, 2.0], [1.0, 3.0], (400, 2))

    def intervals(seed):
        means = lambda table: (1.0, {"mean": table.mean(axis=0)})
        found = _of_tables(means, {"f": rows}, spread, 410, 2000, seed)
        assert (found.used, found.failed) == (400, 10)
        return np.stack([found.low["f"]["mean"], found.high["f"]["mean"]])

    wide = 1.96 * rows.std(axis=0) / np.sqrt(400)
    exact = rows.mean(axis=0) + np.array([[-1.0], [1.0]]) * wide
    first = intervals(3)
    np.testing.assert_allclose(first, exact, atol=0.1 * wide.max())
    np.testing.assert_allclose(first[:, 0], exact[:, 0], atol=0.1 * wide[0])
    np.testing.assert_array_equal(first, intervals(3))
    assert (first != intervals(4)).any()


def test_messages():
    for indices in (sobol_indices, derivative_bounds):
        with pytest.raises(ValueError, match="`samples` is 0; it must be a whole number"):
            indices(linear, NORMAL, 0)
        with pytest.raises(ValueError, match="`samples` is 1; sensitivity needs at least 2"):
            indices(lambda sample: 1 / 0, NORMAL, 1)
        with pytest.raises(ValueError, match="`bootstrap` is 0; it must be a whole number"):
            indices(lambda sample: 1 / 0, NORMAL, 8, bootstrap=0)  # before anything runs
    with pytest.raises(ValueError, match="gives 'f' of dtype bool, which has no derivative"):
        derivative_bounds(lambda s: {"f": s["a"] > 0}, NORMAL, 8)
    with pytest.raises(ValueError, match="of 64 base samples only 0 had no trajectory that failed"):
        sobol_indices(lambda s: {"f": s["a"], "failed": True}, NORMAL, 64)
