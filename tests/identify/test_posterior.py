"""The posterior of a linear problem is the normal distribution of least squares."""

import equinox as eqx
import jax
import numpy as np
import pytest

from jaxhamel import identify
from jaxhamel._compiled import compilations
from tests.identify.systems import PLACE, Particle

TS = np.linspace(0.0, 2.0, 21)
DRAWS = 1500


@pytest.fixture(scope="module")
def estimate():
    rng = np.random.default_rng(4)
    place = 0.3 - 0.2 * TS + 0.5 * 1.4 * TS**2 + 0.1 * rng.normal(size=TS.shape)
    runs = [identify.Run(TS, {"place": place})]
    sought = [identify.Free("thrust", unit="m/s²")]
    return identify.fit(identify.Problem(Particle(1.0, 1.0), sought, [PLACE], runs, segments=3))


@pytest.fixture(scope="module")
def found(estimate):
    return identify.posterior(estimate, jax.random.key(0), draws=DRAWS, warmup=150)


def test_is_the_normal_distribution_of_least_squares(estimate, found):
    """Mean and standard deviation of a in x = x₀ + v₀ t + a t²/2 with unknown start, within the sampling error of the
    draws."""
    place = estimate.problem.runs[0].values["place"][:, 0]
    columns = np.column_stack([np.ones_like(TS), TS, TS**2 / 2])
    mean = np.linalg.lstsq(columns, place, rcond=None)[0][2]
    std = 0.1 * np.sqrt(np.linalg.inv(columns.T @ columns)[2, 2])
    assert found.samples.shape == (2, DRAWS, 1)
    assert found.divergent == 0
    assert abs(found.mean[0] - mean) < 5 * std / np.sqrt(found.effective[0])
    assert found.effective[0] > 300
    np.testing.assert_allclose(found.std, [std], rtol=4 / np.sqrt(2 * found.effective[0]))
    np.testing.assert_allclose(found.fisher, [std], rtol=1e-3)
    assert found.r_hat[0] < 1.02
    assert "thrust" in str(found)


def test_widths_of_starts_offsets_and_parameter():
    """The chains scale (x₀, v₀) of both runs, the sensor's offsets and a by their standard deviations."""
    from jaxhamel.identify._posterior import _Target

    rng = np.random.default_rng(5)
    runs = [identify.Run(TS, {"place": 0.7 * TS**2 + 0.1 * rng.normal(size=TS.size)}) for _ in "ab"]
    sensor = eqx.tree_at(lambda m: m.offset, PLACE, 0.5, is_leaf=lambda x: x is None)
    sought = [identify.Free("thrust", unit="m/s²")]
    estimate = identify.fit(identify.Problem(Particle(1.0, 1.0), sought, [sensor], runs))
    one, none = np.ones_like(TS)[:, None], np.zeros((TS.size, 2))
    start = np.column_stack([one, TS])
    a = TS[:, None] ** 2 / 2
    rows = [[start, none, one, 0 * one, a], [none, start, 0 * one, one, a]]
    prior = np.hstack([np.zeros((2, 4)), np.eye(2) / 0.5, np.zeros((2, 1))])
    J = np.vstack([np.block(rows) / 0.1, prior])
    widths = np.sqrt(np.diagonal(np.linalg.inv(J.T @ J)))
    np.testing.assert_allclose(_Target.of(estimate).scale, widths, rtol=1e-4)


def test_other_numbers_compile_nothing_again(estimate, found):
    """With other data and another key of the same shapes, the chains' program is not compiled again."""
    from jaxhamel.identify._posterior import _chains

    before = compilations(_chains)
    run = estimate.problem.runs[0]
    moved = identify.Run(run.ts, {"place": run.values["place"] + 0.1})
    sought = [identify.Free("thrust", unit="m/s²")]
    other = identify.Problem(Particle(1.0, 1.0), sought, [PLACE], [moved], segments=3)
    again = identify.posterior(identify.fit(other), jax.random.key(1), draws=DRAWS, warmup=150)
    assert compilations(_chains) == before
    assert again.mean[0] == pytest.approx(
        found.mean[0], abs=0.05
    )  # the shift of the data changes the start and not the thrust


def test_messages(estimate):
    flat = estimate._replace(
        flat=[identify.Flat("The data do not determine mass.", np.ones(1), 1.0)]
    )
    with pytest.raises(
        ValueError, match=r"The data do not determine mass\. Freeze some, or give priors"
    ):
        identify.posterior(flat, jax.random.key(0))
    problem = identify.Problem(
        Particle(1.0, 1.0),
        [identify.Free("thrust")],
        [PLACE],
        estimate.problem.runs,
        loss=identify.Huber(),
    )
    with pytest.raises(ValueError, match="`draws` is 0; it must be a whole number, 1 or more"):
        identify.posterior(estimate, jax.random.key(0), draws=0)
    with pytest.raises(TypeError, match="`estimate` is of type Problem"):
        identify.posterior(problem, jax.random.key(0))
    with pytest.raises(ValueError, match="the fit's loss is Huber; a posterior needs a density"):
        identify.posterior(estimate._replace(problem=problem), jax.random.key(0))
