"""Searches that cannot go on return the best point so far, and their status gives the reason."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxhamel import control
from jaxhamel._search import _stepwise
from jaxhamel.control._methods._multiple_shooting_search import MultipleShootingSearch, best_start
from jaxhamel.control._problem._curves import free_parameters
from tests.control.cart import Cart, error_of_force, least_energy

BROKEN = control.Running(lambda t, q, u, control: jnp.sqrt(-1 - u))
METHODS = {
    "multiple shooting": control.MultipleShooting(),
    "descent": control.GradientDescent(optax.adam(0.1)),
    "single shooting": control.SingleShooting(),
}


def interrupt(state):
    if state.iteration == 3:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["multiple shooting", "descent"])
def test_an_interrupted_search_keeps_what_it_has(name):
    result = control.solve(least_energy(), METHODS[name], progress=interrupt)
    assert not result.converged
    assert result.status.startswith("interrupted after 3 iterations: best so far")
    assert len(result.history["cost"]) >= 3
    assert np.isfinite(result.cost)
    assert bool(result.trajectory.succeeded)


def at_once(monkeypatch, seconds):
    """Sets the duration after which a search by optimistix returns to the host."""
    monkeypatch.setattr(_stepwise, "BURST_SECONDS", seconds)


@contextmanager
def nothing_compiled():
    compiled = []
    record = lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
    jax.monitoring.register_event_duration_secs_listener(record)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(record)
    assert compiled == []


def test_single_shooting_in_pieces(monkeypatch):
    """The length of the bursts changes no step and compiles nothing. Ctrl-C during the search returns the best point so
    far."""
    at_once(monkeypatch, 0.0)  # one step each
    method = control.SingleShooting(options={"dt": 0.125})
    told = []
    whole = control.solve(least_energy(), method, progress=told.append)
    assert whole.converged
    assert whole.status == f"converged after {len(told)} steps"
    assert [state.iteration for state in told] == list(range(1, len(told) + 1))
    assert all(state.time_left >= 0 and "left" in str(state) for state in told[:-1])
    np.testing.assert_array_equal([state.cost for state in told], whole.history["cost"])
    np.testing.assert_allclose(whole.history["cost"][-1], whole.cost, rtol=1e-12)
    assert np.all(np.diff(whole.history["cost"]) <= 0)
    cut = control.solve(least_energy(), method, progress=interrupt)
    assert not cut.converged
    assert cut.status == "interrupted after 3 steps: best so far"
    np.testing.assert_array_equal(cut.history["cost"], whole.history["cost"][:3])
    np.testing.assert_allclose(cut.cost, cut.history["cost"][-1], rtol=1e-12)
    at_once(monkeypatch, 10.0)
    with nothing_compiled():
        together = control.solve(least_energy(), method)
        others = [eqx.tree_at(lambda m: m.max_steps, method, few) for few in (1, 3)]
        shorter = [control.solve(least_energy(), other) for other in others]
    np.testing.assert_array_equal(together.history["cost"], whole.history["cost"])
    for few, short in zip((1, 3), shorter, strict=True):
        assert short.status == f"out of steps after {few} step{'s'[few == 1 :]}"
        assert short.cost == whole.history["cost"][few - 1]


def test_an_interrupt_before_the_first_step_is_one(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_stepwise, "_after_steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        control.solve(least_energy(), METHODS["single shooting"])


@pytest.mark.parametrize("name", METHODS)
def test_a_cost_that_is_not_finite_is_said(name):
    result = control.solve(least_energy(costs=(BROKEN,)), METHODS[name])
    assert not result.converged
    assert np.isnan(result.cost)
    assert "finite" in result.status
    assert "\n" not in result.status


@pytest.mark.parametrize("name", ["multiple shooting", "descent"])
def test_no_time_at_all_returns_the_start(name):
    method = eqx.tree_at(lambda m: m.max_seconds, METHODS[name], 0.0)
    result = control.solve(least_energy(), method)
    assert not result.converged
    assert result.status.startswith("out of time (0 s): best so far")


def test_constraints_that_contradict_each_other_are_said():
    at = lambda x: control.ControlAt(value=[x])
    problem = least_energy(constraints=(at(0.0), at(1.0)))
    result = control.solve(problem, control.MultipleShooting(max_iterations=30))
    assert not result.converged
    assert "the constraints are missed by 5.0e-01: they contradict" in result.status


def test_a_start_that_breaks_down_does_not_hide_the_others():
    costs, gaps = np.array([1.0, np.nan, 2.0]), np.array([1.0, np.nan, 0.5])
    assert best_start(costs, gaps, 1e-2) == 2
    assert best_start(costs, np.full(3, 1e-3), 1e-2) == 0


def test_nothing_tracked_is_not_told_as_zero():
    told = []
    found = control.solve(least_energy(), control.MultipleShooting(goal=1e-3), progress=told.append)
    np.testing.assert_array_equal(told[-1].p, free_parameters(found.control)[0])
    assert all(np.isnan(state.tracking_rms) for state in told)
    assert "tracking" not in str(told[0])
    assert len(told) > 3  # a tracking goal does not count as met if nothing is tracked
    assert found.open_loop_departure is not None
    assert found.open_loop_departure < 1e-8


def test_nodes_are_those_of_the_best_start():
    many = lambda *shape: np.arange(float(np.prod(shape))).reshape(shape)
    point = SimpleNamespace(q=many(3, 5, 2), u=many(3, 5, 1), p=many(3, 4))
    search: Any = SimpleNamespace(
        iterate=SimpleNamespace(point=point), best=1, rows=[{"defect": 1e-12}]
    )
    states, gap = MultipleShootingSearch.nodes(search)
    assert gap == 1e-12
    np.testing.assert_array_equal(states[0], point.q[1])
    np.testing.assert_array_equal(states[1], point.u[1])


@pytest.mark.parametrize("name", ["multiple shooting", "single shooting"])
def test_single_precision_finds_the_optimum(name):
    with jax.enable_x64(False):
        single = lambda tree: jax.tree.map(
            lambda x: jnp.asarray(x, jnp.float32) if jnp.asarray(x).dtype == float else x, tree
        )
        problem = single(least_energy(system=Cart(jnp.asarray(1.0))))
        result = control.solve(problem, METHODS[name])
        assert result.trajectory.u.dtype == jnp.float32
        assert error_of_force(result.control) < 0.2  # of 6
    assert result.converged


@pytest.mark.parametrize("starts", [1, 3])
def test_a_search_of_multiple_shooting_goes_on_from_its_arrays(starts):
    """A search stopped after four iterations, whose gaps are then closed, and resumed from its arrays makes the
    iterations of a search that was not stopped. Arrays that do not fit are refused."""
    problem = least_energy(q0=jnp.full(1, 0.3))
    p = free_parameters(problem.curve)[0]
    p = p if starts == 1 else jnp.stack([p + 0.1 * i for i in range(starts)])

    def search(iterations):
        method = control.MultipleShooting(max_iterations=iterations, damping=1.0, goal=None)
        return method.search(problem, p)

    whole, begun, resumed = search(9), search(4), search(5)
    whole.run()
    begun.run()
    assert len(begun.rows) > 4
    saved = begun.to_arrays()
    resumed.resume(saved)
    resumed.run()
    costs = [np.array([row["cost"] for row in found.rows]) for found in (whole, begun, resumed)]
    np.testing.assert_allclose([*costs[1][:4], *costs[2][1:5]], costs[0][:8], rtol=1e-9)
    first = jax.tree.leaves(resumed.iterate.point.q)[0][..., 0, :]
    assert np.all(first == 0.3)
    name = next(iter(saved))
    for wrong in ({}, saved | {name: saved[name][..., :-1]}, saved | {name: saved[name] * np.nan}):
        with pytest.raises(
            ValueError, match="the saved search is damaged, or one of another problem"
        ):
            search(5).resume(wrong)
