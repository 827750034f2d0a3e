"""The unit in which a search measures cost: a power of two, from the cost of a solution and the barrier's effect on it."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import control
from jaxhamel.control._certificate._cost_error import is_determined, on_small_cost
from jaxhamel.control._collocation._at_solution import gives_up_unit
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._start import on_mesh
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._mesh._transfer import carried_over
from jaxhamel.control._scaling import _cost_unit
from jaxhamel.control._scaling._cost_unit import (
    CHANGES,
    PATIENCE,
    Scaling,
    Solution,
    smaller_by,
)
from tests.control.test_sizes import pushed


def solution(cost, gap):
    """A state with one limit 0 ≤ s whose slack is 1 and whose multiplier is `gap`."""
    transcription = SimpleNamespace(lower=np.zeros((1, 1, 1)), upper=np.full((1, 1, 1), np.inf))
    w = SimpleNamespace(slack=np.ones((1, 1, 1)))
    duals = SimpleNamespace(low=np.full((1, 1, 1), gap), high=np.zeros((1, 1, 1)))
    state = SimpleNamespace(cost=cost, w=w, duals=duals, mu=jnp.zeros(()), stuck=0, done=False)
    return Solution(transcription, transcription, state)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("cost", "gap", "factor"),
    [
        (-3.0, 2e-8, 1.0),  # the barrier changes the cost by less than 1e-8
        (0.0, 1e-3, 1.0),  # a cost of zero gives no scale
        (2.0**-10, 0.0, 2.0**-10),
        (0.5, 0.5 * 2.0**-7, 0.5 * 2.0 ** np.round(np.log2(1e-8 * 2**7))),
        (1e-30, 0.0, 2.0**-40),
    ],
)
def test_by_which_factor_the_unit_becomes_smaller(cost, gap, factor):
    found = solution(cost, gap)
    assert smaller_by(found.tight, found.state) == factor


def test_a_search_without_an_end_returns_to_the_unit_before(monkeypatch):
    monkeypatch.setattr(_cost_unit, "in_unit", lambda transcription, factor: transcription)
    monkeypatch.setattr(_cost_unit, "magnified", lambda state, by: state)
    monkeypatch.setattr(_cost_unit, "resumed", lambda state: state)
    scaling, found = Scaling(), solution(1e-4, 0.0)
    assert scaling.changed(found, 7) is not None
    assert scaling.given_up(found.state, 7 + PATIENCE - 1) is None
    assert scaling.given_up(found.state, 7 + PATIENCE) == found
    assert scaling.changes == CHANGES
    assert scaling.failed
    assert scaling.changed(found, 50) is None  # not again


@pytest.mark.parametrize(
    ("gap", "cost", "may_be_zero", "known"),
    [(1e-7, -1.0, True, True), (1e-5, 1.0, True, False), (1e-9, 1e-10, True, True), (1e-9, 1e-10, False, False)],
)  # fmt: skip
def test_costs_that_the_barrier_leaves_open(gap, cost, may_be_zero, known):
    """A cost is determined if the barrier changes it by at most 1e-6 of itself, or if the cost is below the barrier's
    effect and thus counts as 0. It does not count as 0 if the search failed in a smaller unit of the cost."""
    assert is_determined(gap, cost, 1e-6, may_be_zero) == known
    assert ("units" in on_small_cost(gap, cost, may_be_zero)) == (not may_be_zero)


def test_a_search_on_another_mesh_does_not_return_to_the_unit_before():
    """The solution in that unit is one of the mesh before, on whose bounds other numbers of intervals depend."""
    search = CollocationSearch(control.Collocation(intervals=4), pushed(1.0, 1.0, 1.0))
    coarse = search.transcription
    search.scaling.before = Solution(coarse, coarse, search.state)
    finer = on_mesh(coarse, jnp.linspace(0.0, 1.0, 7), coarse.rule)
    search.takes_mesh((finer, carried_over(coarse, search.state, finer)))
    search.state = search.state._replace(stuck=jnp.asarray(STUCK))
    assert not gives_up_unit(search)
    assert search.transcription is finer
