"""Bounds that move inwards: how far at once, and how a search ends that finds no solution with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel._search._loop import Verdict
from jaxhamel.control._collocation import _tightening
from jaxhamel.control._collocation._at_solution import TIGHT_ITERATIONS
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.mechanics import Constant


@pytest.fixture
def search():
    """A cart from rest to rest with the least ∫ f² dt and |f| ≤ 5, on given nodes, while its bounds are tighter for the
    first time: without the limit the force falls from 6 to −6."""
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, force: jnp.stack([y[1], force[0]]), 2),
        jnp.zeros(2), jnp.zeros(0), jnp.linspace(0.0, 1.0, 5), Constant(jnp.zeros(1)),
        (control.ControlEnergy(weight=2.0),),
        (
            control.StateAtEnd(q=jnp.array([1.0, 0.0])),
            control.PathLimit(lambda t, q, u, control: control(t), -5.0, 5.0, name="force"),
        ),
    )  # fmt: skip
    found = CollocationSearch(control.Collocation(intervals=None), problem)
    while found.tightening.rounds == 0:
        found.make_iterations()
        assert len(found.rows) < 100
    return found


def test_a_search_that_ends_with_tighter_bounds_returns_the_solution_before(search):
    _, best = search.tightening.best
    search.iterations = len(search.rows) + 1
    search.make_iterations()
    assert not bool(search.state.done)
    assert search.state is not best.state
    result = search.result(Verdict(False, "stopped"))
    assert result.cost == float(best.state.cost) * search.cost_unit
    assert result.certificate.stationarity < 1e-8


@pytest.mark.parametrize("reason", ["short steps", "not finite", "iterations"])
def test_a_search_that_finds_nothing_with_tighter_bounds_goes_back(search, reason):
    """The problem itself has a solution, so that neither another start nor the elastic problem follows."""
    _, best = search.tightening.best
    if reason == "short steps":
        search.state = search.state._replace(stuck=jnp.asarray(STUCK))
    elif reason == "not finite":
        search.rows[-1]["cost"] = np.nan
    else:
        search.rows += search.rows[-1:] * TIGHT_ITERATIONS
    search.change_problem()
    assert search.state is best.state
    assert search.elastic is None
    verdict = search.verdict()
    assert not verdict.converged
    assert verdict.status.startswith("met at the collocation points only: `force` is violated by")


def test_a_search_with_tighter_bounds_goes_on_although_it_comes_no_closer(search, monkeypatch):
    monkeypatch.setattr(CollocationSearch, "is_hopeless", lambda self: True)
    before = search.state
    search.change_problem()
    assert search.state is before
    assert search.elastic is None


def test_bounds_move_by_a_quarter_of_their_distance_at_most(search, monkeypatch):
    """An excess as large as the distance of both bounds would leave nothing between them."""
    own, shape = search.transcription, (search.transcription.shares.shape[0] - 1, 1)
    monkeypatch.setattr(
        _tightening, "excesses", lambda *_: [np.full(shape, 0.1), np.full(shape, 9.0)]
    )
    tight, _ = _tightening.tightened(own, own, search.state, 1e-7, False)  # pyright: ignore[reportGeneralTypeIssues]
    moves = jax.tree.map(
        lambda a, b: np.abs(np.asarray(a - b)), (tight.lower, tight.upper), (own.lower, own.upper)
    )
    np.testing.assert_allclose(moves[0], 1.1 * 0.1, rtol=1e-12)
    np.testing.assert_allclose(moves[1], 2.5, rtol=1e-12)
