"""A search that makes only short steps starts again, on a coarse mesh if its own is fine."""

import jax.numpy as jnp
import numpy as np

from jaxhamel import control
from jaxhamel.control._collocation import _before_solution, _collocation_search, _new_start
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._new_start import MANY_SHORT, creeps
from jaxhamel.control._collocation._tightening import largest_nearby
from tests.control.cart import least_energy

TOLERANCE = 1e-9


def rows(steps, violation=1.0):
    return [{"step": step, "violation": violation} for step in steps]


def test_what_counts_as_short_steps_only():
    """A search restarts after MANY_SHORT consecutive short steps, unless its point is nearly feasible or not finite."""
    assert creeps(rows([1e-3] * MANY_SHORT), TOLERANCE)
    assert not creeps(rows([1e-3] * (MANY_SHORT - 1)), TOLERANCE)
    assert not creeps(rows([1e-3] * (MANY_SHORT - 1) + [0.5]), TOLERANCE)
    assert not creeps(rows([1e-3] * MANY_SHORT, violation=1e-8), TOLERANCE)
    assert not creeps(rows([1e-3] * MANY_SHORT, violation=np.nan), TOLERANCE)


def test_the_coarse_solution_is_the_start_on_the_fine_mesh(monkeypatch):
    """If the first part of the search counts as short steps, it restarts with two intervals and ends with four. The
    limit x ≤ 1.5 is inactive."""
    monkeypatch.setattr(_new_start, "COARSE", 2)
    calls = iter([True])
    monkeypatch.setattr(_before_solution, "creeps", lambda *_: next(calls, False))
    limit = control.PathLimit(lambda t, q, u, control: q, upper=1.5, name="wall")
    constraints = (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)), limit)
    problem = least_energy(constraints=constraints)
    search = CollocationSearch(control.Collocation(intervals=4, degree=3), problem)
    meshes = []
    while (ending := search.verdict()) is None:
        search.make_iterations()
        meshes.append(search.transcription.shares.shape[0] - 1)
        saved = search.to_arrays()["shares"].shape[0] - 1
        assert saved == 4
    assert (meshes[0], meshes[-1]) == (2, 4)
    assert ending.converged
    assert abs(float(search.state.cost) - 6.0) < 1e-8


def test_the_search_does_not_depend_on_the_speed_of_the_machine(monkeypatch):
    """With one iteration in a call, as on a slow machine, the search changes after the same iterations as with many. Here it
    starts anew at the first check with at least two iterations, which is the one after the third."""
    monkeypatch.setattr(_collocation_search, "CHECK_EVERY", 2)
    monkeypatch.setattr(_before_solution, "creeps", lambda rows, _: len(rows) >= 2)
    limit = control.PathLimit(lambda t, q, u, control: q, upper=1.5, name="wall")
    constraints = (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)), limit)
    problem = least_energy(constraints=constraints)
    histories = []
    for seconds in (0.0, 10.0):
        monkeypatch.setattr(_collocation_search, "BURST_SECONDS", seconds)
        search = CollocationSearch(control.Collocation(intervals=4, degree=3), problem)
        anew = len(search.rows)
        while search.verdict() is None:
            search.make_iterations()
            anew = anew or search.since
        assert anew == 3
        histories.append(search.history["cost"])
    np.testing.assert_array_equal(*histories)


def test_excesses_of_neighbours():
    excess = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [0.0, 3.0]])
    expected = [[2.0, 1.0], [2.0, 1.0], [2.0, 3.0], [0.0, 3.0]]
    np.testing.assert_array_equal(largest_nearby(excess), expected)


def test_a_search_ends_at_the_iterate_that_violates_constraints_least(monkeypatch):
    """The search starts anew after its third iteration, with motions that meet the constraints, and may make one more."""
    monkeypatch.setattr(_collocation_search, "CHECK_EVERY", 2)
    monkeypatch.setattr(_before_solution, "creeps", lambda rows, _: len(rows) >= 2)
    limit = control.PathLimit(lambda t, q, u, control: q, upper=1.5, name="wall")
    constraints = (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)), limit)
    problem = least_energy(constraints=constraints)
    result = control.solve(problem, control.Collocation(4, 3, max_iterations=4))
    violations = result.history["violation"]
    assert violations[3] > 0.1 > 1e-6 > violations[2]
    assert not result.converged
    assert result.status.startswith("out of iterations (4)")
    assert "earlier iterate, which violates constraints by" in result.status
    assert result.certificate.violation < 1e-6
