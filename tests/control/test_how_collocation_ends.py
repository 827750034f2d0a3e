"""Endings of a collocation if there is no optimum, or if its certificate cannot hold."""

from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel._search._loop import Verdict
from jaxhamel.control._certificate import _certificate, _multipliers, _second_order, _violation
from jaxhamel.control._certificate._endings import between_the_points, not_finite
from jaxhamel.control._certificate._motion_error import transcription_error
from jaxhamel.control._certificate._smoothness import has_infinite_derivative, has_jump
from jaxhamel.control._collocation import _tightening
from jaxhamel.control._collocation._before_solution import begin_elastic
from jaxhamel.control._collocation._collocation_search import STALL, CollocationSearch
from jaxhamel.control._collocation._new_start import (
    SLOW_ITERATIONS,
    comes_no_closer,
    moved_by_own_control,
)
from jaxhamel.control._collocation._start import bent
from jaxhamel.control._interior_point._riccati import _border, _border_solve
from jaxhamel.mechanics import Constant


def only_zero(rate, cost):
    """A problem that starts at 0 and must return to 0 in unit time under `rate`."""
    return control.ControlProblem(
        jaxhamel.ODE(rate, 1), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]), Constant(jnp.full(1, 0.5)),
        (cost,), (control.StateAtEnd(q=jnp.zeros(1)),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("after", "nearby", "effect", "words"),
    [
        (2e5, 5e4, 0.0, "multipliers: none were found, they grow from 5.0e+04 to 2.0e+05"),
        (5e4, 5e4, 0.0, ""),
        (5e4, 1e3, 0.0, "multipliers: none were found, they grow from 1.0e+03 to 5.0e+04"),
        (5e4, 5e4, 1e-5, "multipliers: none were found, with those up to 5.0e+04 the violations"),
    ],
)
def test_multipliers_with_other_tolerances(monkeypatch, after, nearby, effect, words):
    """The multiplier of the condition x² = 0 grows as ε^(−1/2); that of the path limit x² ≤ 0 was 1e32 already, so that
    rounding changed the cost. The searches run in `benchmarks/control_verdicts.py`."""
    states: Any = [
        SimpleNamespace(duals=(np.array([0.0, x]),), cost=0.5, w=None) for x in (5e4, after)
    ]
    monkeypatch.setattr(_multipliers, "_tighter", lambda *_: states[1])
    monkeypatch.setattr(_multipliers, "cost_error", lambda *_: effect)
    monkeypatch.setattr(_multipliers, "_multipliers_nearby", lambda *_: nearby)
    found = _multipliers.unbounded_multipliers(None, states[0], jnp.asarray(1e-9))  # pyright: ignore[reportArgumentType]
    assert found.startswith(words)
    assert bool(found) == bool(words)


@pytest.mark.parametrize(("cost", "hopeless"), [(1.0, True), (-1e-3, False)])
def test_whole_steps_that_gain_nothing_are_hopeless(cost, hopeless):
    """With two contradicting targets, Newton's steps are full steps and change neither the violation nor the cost."""
    falling = [1.0 + min(cost, 0.0) * k for k in range(SLOW_ITERATIONS)]
    rows = [{"cost": value, "violation": 0.5, "step": 1.0} for value in falling]
    assert comes_no_closer(rows, 1e-9, 1.0) == hopeless


def test_no_time_at_all_returns_the_guess():
    """Without time nothing is compiled and the guess c = ½ is returned: its cost is ½∫c² = 1/8, and y ends at ½ instead
    of 0."""
    problem = only_zero(lambda t, y, c: c, control.ControlEnergy(weight=1.0))
    search = CollocationSearch(control.Collocation(intervals=1, degree=1, max_seconds=0.0), problem)
    assert search.run().status.startswith(
        "out of time (0 s) after 0 iterations, before its program"
    )
    assert search.parts is None
    np.testing.assert_allclose(search.rows[0]["cost"], 0.125)
    np.testing.assert_allclose(search.rows[0]["violation"], 0.5)


@pytest.fixture(scope="module")
def search():
    """A search whose equations of motion are not finite at the guess."""
    problem = only_zero(lambda t, y, c: jnp.sqrt(y - 1) + c, control.ControlEnergy())
    return CollocationSearch(control.Collocation(intervals=1, degree=1), problem)


def test_functions_that_are_not_finite_are_named(search):
    row = {"cost": 1.0, "violation": np.nan, "gradient_norm": np.nan}
    words = not_finite(search.transcription, search.state.w, row)
    assert words.startswith("not finite where the search starts: the equations of motion; look")
    later = search.transcription, search.state.w, row | {"violation": 0.0}, np.nan
    assert not_finite(*later).startswith("a derivative of the equations of motion is not finite")
    assert not_finite(*later, may_compile=False).startswith("a derivative is not finite")
    assert not not_finite(search.transcription, search.state.w, dict.fromkeys(row, 0.0))
    assert "units" in not_finite(
        search.transcription, search.state.w, row | {"violation": 0.0}, 1.0
    )


def test_functions_with_a_kink_are_named(search):
    """The gradient of |y| jumps at y = 0 by 2, and its derivatives are finite; those of |y|^½ are not."""
    at, w = search.transcription, search.state.w
    costs = [
        control.RunningCost(lambda t, q, u, c, f=f: f(q[0]) + 0.5 * c(t)[0] ** 2)
        for f in (jnp.abs, lambda y: jnp.sqrt(jnp.abs(y)), jnp.square)
    ]
    y = jax.tree.map(jnp.zeros_like, (w.x, w.X, w.c, w.p))
    alone = [eqx.tree_at(lambda t: t.costs, at, (cost,)) for cost in costs]
    w = w._replace(slack=jnp.zeros(()))
    assert [has_jump(x, "cost", y, w) for x in alone] == [True, True, False]
    assert [has_infinite_derivative(x, "cost", y, w) for x in alone] == [False, True, False]


@pytest.mark.parametrize(("last", "stalls"), [(0.09, True), (0.01, False)])
def test_a_feasible_search_that_comes_no_closer_is_examined_once(search, monkeypatch, last, stalls):
    rows = [{"gradient_norm": 0.1, "violation": 0.0, "barrier": 0.0} for _ in range(STALL)]
    rows[-1]["gradient_norm"] = last
    monkeypatch.setattr(search, "rows", rows)
    assert search._stalls() == stalls
    monkeypatch.setattr(search, "examined_kinks", True)
    assert not search._stalls()


def test_conditions_met_by_parameters_alone():
    """S y − C p = e, Cᵀ y + T₀ p = −g, where S has rank one, so that both conditions can be met only through p."""
    rng = np.random.default_rng(0)
    S, T, C = np.ones((2, 2)), np.diag([1.0, 2.0, 0.3]), rng.normal(size=(2, 3))
    e, g = rng.normal(size=2), rng.normal(size=3)

    @jax.jit
    def solved(S, T, C, e, g):
        S, T, across, positive = _border(S, T, C)
        factored = SimpleNamespace(S=S, T=T, across=across, C=C)
        return *_border_solve(factored, e, g), positive  # pyright: ignore[reportArgumentType]

    y, p, positive = solved(S, T, C, e, g)
    exact = np.linalg.solve(np.block([[S, -C], [C.T, T]]), np.concatenate([e, -g]))
    np.testing.assert_allclose(
        np.concatenate([y, p]), exact, rtol=1e-7
    )  # regularisation adds ε^0.6 to the diagonal
    assert positive


def test_a_parameter_of_small_curvature_beside_stiff_equations():
    """T₀ = Σ a aᵀ + κ b bᵀ with Σ = 2.5e9 and κ = 0.6, as equations along the path make it: the solution along b is r/κ."""
    a, b = np.array([100.0, 30.0]), np.array([-30.0, 100.0]) / np.hypot(100.0, 30.0)
    T = jnp.asarray(2.5e9 * np.outer(a, a) + 0.6 * np.outer(b, b))
    S, T, across, convex = _border(jnp.zeros((0, 0)), T, jnp.zeros((0, 2)))
    factored: Any = SimpleNamespace(S=S, T=T, C=jnp.zeros((0, 2)), across=across)
    _, p = _border_solve(factored, jnp.zeros(0), jnp.asarray(-1e-3 * b))
    assert convex
    assert float(b @ np.asarray(p)) == pytest.approx(1e-3 / 0.6, rel=0.1)


def test_a_straight_guess_is_bent(search):
    """A constant guess gets a wave with another phase in each control, as large as the largest control: 0.5 (sin π +
    1), 0.5 (sin 3π/2 + 1)."""
    w = search.first._replace(c=jnp.full((1, 1, 2), 0.5))
    np.testing.assert_allclose(bent(search.transcription, w).c, [[[0.5, 0.0]]], atol=1e-15)


def test_states_of_the_motion_under_the_guessed_control(search):
    """From 0 under ẏ = c = ½ the state is t/2, which is ¼ at the midpoint, where the straight guess to 0 has 0."""
    problem = only_zero(lambda t, y, c: c, control.ControlEnergy())
    own = CollocationSearch(control.Collocation(intervals=1, degree=1), problem)
    assert own.first.X[0, 0, 0] == 0.0
    moved = moved_by_own_control(own.transcription, problem, own.first)
    np.testing.assert_allclose(moved.X[0, 0, 0], 0.25, rtol=1e-14)
    np.testing.assert_array_equal(moved.c, own.first.c)


def test_the_cost_along_the_motion_is_compared_with_its_quadrature():
    """½∫ t⁴ dt = 1/10; by the midpoint rule it is ½ (½)⁴ = 1/32."""
    cost = control.Running(lambda t, q, u, control: (t**2)[None])
    problem = only_zero(lambda t, y, c: 0 * c, cost)
    own = CollocationSearch(control.Collocation(intervals=1, degree=1), problem)
    error, change = transcription_error(own.transcription, own.first, own.state.duals.costates)
    assert error == 0.0
    np.testing.assert_allclose(own.cost_unit * change, 1 / 10 - 1 / 32, rtol=1e-14)


def limited(upper, rows=1):
    """ẏ = c from 0 to 1 below a wall; the limit as many times as there are `rows`."""
    wall = control.PathLimit(lambda t, q, u, control: jnp.repeat(q, rows), upper=upper, name="wall")
    target = control.StateAtEnd(q=jnp.ones(1))
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: c, 1), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]),
        Constant(jnp.full(1, 1.0)), (control.ControlEnergy(),), (target, wall),
    )  # fmt: skip
    return CollocationSearch(control.Collocation(intervals=1, degree=1), problem)


def test_a_target_outside_of_a_limit_is_named():
    with pytest.raises(
        ValueError, match=r"`wall` is \[1\.\] at the state of `StateAtEnd`.* to 0\.5"
    ):
        limited(0.5)


def test_limits_that_hold_at_the_points_only_are_named():
    """The line from 0 to 1 is ½ at the midpoint, the only point, and above the wall by 1e-6 at the end."""
    search = limited(1 - 1e-6)
    words = between_the_points(search.transcription, search.first)
    assert "`wall` is violated by 1e-06 between them or at an end" in words
    state = search.state._replace(done=jnp.asarray(True))
    search.rows, search.state, search.refinement.error = [{}], state, None
    verdict = search.verdict()
    assert verdict is not None
    assert (verdict.converged, verdict.status) == (False, words)


def test_a_search_that_ends_while_the_limits_are_elastic_has_a_certificate():
    """The elastic problem has both bounds of two limits as four, with multipliers of their own."""
    search = limited(1.0, rows=2)
    search.look_at_start()
    begin_elastic(search)
    assert search.state.duals.low.shape[-1] == 2 * search.tight.lower.shape[-1] == 4
    result = search.result(Verdict(False, "stopped"))
    assert result.certificate is not None
    assert (result.certificate.holds, result.status) == (False, "stopped")
    np.testing.assert_allclose(result.states[0][-1], 1.0, rtol=1e-14)


@pytest.mark.parametrize(
    ("kind", "known", "violation", "words"),
    [
        ("not a minimum", True, 0.0, "not a minimum"),
        ("undecided", False, 0.0, "cost not determined, curvature undecided"),
        ("strict minimum", True, 1.0, "not feasible"),
    ],
)
def test_a_certificate_begins_with_the_reasons_for_which_it_does_not_hold(
    kind, known, violation, words
):
    checks = (
        _certificate.Criterion("stationary", "not stationary", 0.0, 1e-8),
        _certificate.Criterion("feasible", "not feasible", violation, 1e-7),
    )
    found = _second_order.SecondOrder(kind, True, "")
    assert _certificate._failures(checks, found, known) == words


def test_bounds_move_by_the_secant_method(monkeypatch):
    """An excess e = 4e-3 − b/2 that falls by half of the move b of its bound is gone after four moves: by 1.1 e each it
    would fall to 45 % each time."""
    search = limited(1.0)
    original = search.transcription
    tight, before = original, None
    for _ in range(4):
        moved = float(original.upper[0, 0, 0] - tight.upper[0, 0, 0])
        excess = max(4e-3 - moved / 2, 0.0), 1e-3 * (moved == 0)
        over = [np.full((1, 1), x) for x in excess[::-1]]
        monkeypatch.setattr(_tightening, "excesses", lambda *_, over=over: over)
        found = _tightening.tightened(original, tight, search.state, 1e-7, False, before)
        if found is None:
            break
        tight, before = found
    assert excess == (0.0, 0.0)
    assert 8e-3 < moved < 1.1 * 8e-3


@pytest.mark.parametrize(("second", "binds"), [(1e-10, False), (1e-3, True)])
def test_a_limit_that_was_moved_inwards_binds(monkeypatch, second, binds):
    """Its multiplier times its distance from the problem's bound is not the barrier parameter, 1e-10."""
    monkeypatch.setattr(_violation, "names_of_limits", lambda *_: ["force"])
    slack, far = np.zeros((1, 2, 1)), np.full((1, 2, 1), np.inf)
    bounds = SimpleNamespace(lower=slack - 0.1, upper=far, sizes=None)
    duals = SimpleNamespace(low=np.array([[[1e-9], [10 * second]]]), high=np.zeros((1, 2, 1)))
    found = _violation.binding_limits(bounds, SimpleNamespace(slack=slack), duals)  # pyright: ignore[reportArgumentType]
    assert found == (["force"] if binds else [])


def test_numbers_beyond_rounding_leave_the_curvature_undecided(search, monkeypatch):
    def singular(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(_second_order, "reduced_matrices", singular)
    found = _second_order.second_order(search.transcription, search.state, search.parts)
    assert (found.kind, found.examined) == ("undecided", False)
    assert "differ too much in size" in found.words
