"""Problems without a solution: a search names the constraints that cannot be met together, and the least violation.

More of them, with closed forms: `benchmarks/control_infeasible.py`.
"""

import re
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._certificate._endings import on_coarse_mesh
from jaxhamel.control._collocation._adaptive_search import MOST_BENDS
from jaxhamel.control._collocation._before_solution import begin_elastic
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._elastic import reach
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._contradictions import _at_contradiction, _crossings
from jaxhamel.control._contradictions._crossings import Contradiction, TrialOfBounds, lesser


def to_the_other_side(limit, name="wall"):
    """ẏ = c from 0 to 1 in unit time with the least ½∫c² dt, and the path limit."""
    wall = control.PathLimit(lambda t, q, u, c: limit(q), name=name, lower=0.0)
    return control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: c, 1), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]),
        lambda t: jnp.zeros(1), (control.ControlEnergy(),), (control.StateAtEnd(q=jnp.ones(1)), wall),
    )  # fmt: skip


def from_rest_to_rest(weight, *limits):
    """A particle is to move by 1 in unit time from rest to rest, with the least weight/2 · ∫f² dt and path limits."""
    end = control.StateAtEnd(q=jnp.array([1.0, 0.0]))
    return control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: jnp.stack([y[1], c[0]]), 2), jnp.zeros(2), jnp.zeros(0), jnp.array([0.0, 1.0]),
        lambda t: jnp.zeros(1), (control.ControlEnergy(weight),), (end, *limits),
    )  # fmt: skip


def force_up_to(most):
    return control.PathLimit(lambda t, q, u, c: c(t), -most, most, name="force")


def named(status):
    """The violations that a status states, by the names of their constraints."""
    return {name: float(x) for name, x in re.findall(r"`([^`]*)` by ([0-9.e-]+\d)", status)}


def test_a_wall_that_a_motion_would_jump_over_between_two_points():
    """(y − ½)² ≥ 0.01 on the way from 0 to 1: at y = ½ the limit is violated by 0.01, and no motion avoids this point. A
    motion that is there between two points met the limit at all of them; its search ended after some 250 iterations without
    a word on the constraints."""
    problem = to_the_other_side(lambda q: (q - 0.5) ** 2 - 0.01)
    result = control.solve(problem, control.Collocation(intervals=5, degree=3))
    assert not result.converged
    assert result.status.startswith("infeasible: constraints cannot be met together")
    np.testing.assert_allclose(named(result.status)["wall"], 0.01, rtol=1e-3)
    assert len(result.history["cost"]) < 200
    assert not result.certificate.holds


def test_a_limit_that_holds_between_the_points_too_is_not_named():
    """With v ≤ 0.9 the particle is 1 − 0.9 short, and by 0.45 h more in the first and in the last of eight intervals of
    length h, in which v grows and falls evenly. With two points on each of four intervals v exceeded 0.9 between them, and
    the excess was stated as a violation of its own."""
    speed = control.PathLimit(lambda t, q, u, c: q[1:], upper=0.9, name="speed")
    method = control.Collocation(intervals=4, degree=2, points="gauss")
    status = control.solve(from_rest_to_rest(2.0, speed), method).status
    assert status.startswith("infeasible")
    assert "while `speed` holds" in status
    found = named(status)
    assert set(found) == {"StateAtEnd"}
    np.testing.assert_allclose(found["StateAtEnd"], 0.1 + 0.9 / 8, rtol=1e-3)


@pytest.mark.parametrize("weight", [2e4, 9e5])
def test_the_cost_has_no_share_in_the_least_violation(weight):
    """|f| ≤ 3 brings the particle as far as 3/4. With large costs a motion that hardly begins was cheaper than the
    violation: 0.958 and 0.999 were stated in place of 1/4."""
    problem = from_rest_to_rest(weight, force_up_to(3.0))
    result = control.solve(problem, control.Collocation(intervals=10, degree=3))
    assert "`StateAtEnd` by 0.25, while `force` holds" in result.status


def test_a_costly_motion_is_found_behind_a_contradiction():
    """|f| ≤ 4.2 is enough, but with the weight 1e5 of the cost a motion that hardly begins was cheaper. For the least ∫f²
    f = F on [0, a] and f = −F on [1 − a, 1], linear between them: ∫f² = 2 F² a + F² (1 − 2a)/3 and the distance is
    F (1 + 2a − 2a²)/6 = 1."""
    F = 4.2
    search = CollocationSearch(
        control.Collocation(intervals=10, degree=3), from_rest_to_rest(1e5, force_up_to(F))
    )
    search.bends = MOST_BENDS
    begin_elastic(search)
    result = search.result(search.run())
    a = (1 - np.sqrt(3 - 12 / F)) / 2
    assert result.converged
    np.testing.assert_allclose(result.cost, 0.5e5 * F**2 * (1 + 4 * a) / 3, rtol=1e-6)
    assert search.contradiction is None


@pytest.mark.parametrize(("total", "back"), [(0.01, True), (0.005, False)])
def test_a_lesser_sum_counts_all_violations_between_the_points(monkeypatch, total, back):
    """With a smaller weight of the cost a motion jumped over the ring of `control_infeasible.py` and met it at all points:
    the violation between them was as large as before."""
    monkeypatch.setattr(_at_contradiction, "_sum_of_all", lambda _: total)
    elastic, taken = object(), []
    search: Any = SimpleNamespace(
        lesser_sum=SimpleNamespace(elastic=elastic), elastic=elastic, contradiction=SimpleNamespace(total=0.01),
        has_elastic_end=lambda: True, take_contradiction=lambda: taken.append(True),
    )  # fmt: skip
    assert not _at_contradiction.goes_back(search)
    assert bool(taken) == back


@pytest.mark.parametrize("degree", [1, 2, 4])
@pytest.mark.parametrize("kind", ["gauss", "radau"])
def test_tangents_reach_half_way_to_the_next_point(kind, degree):
    """From a point to the one before and after it half of the distance, and the whole of it to an end of the interval."""
    points = np.asarray(rule(kind, degree).points)
    before, after = (np.polyval(x, points) for x in reach(rule(kind, degree)))
    np.testing.assert_allclose(before[0], points[0], atol=1e-14)
    np.testing.assert_allclose(after[-1], 1 - points[-1], atol=1e-14)
    np.testing.assert_allclose(points[:-1] + after[:-1], points[1:] - before[1:], atol=1e-14)


def test_the_least_contradiction_counts():
    """Of three starts the second one found the least sum; a difference within rounding leaves the later one."""
    sums = [Contradiction(x, *3 * (None,)) for x in (0.846, 0.4, 0.4 * (1 + 1e-6))]  # pyright: ignore[reportArgumentType]
    best = None
    for found in sums:
        best = lesser(best, found)
    assert best is sums[2]
    assert lesser(sums[1], sums[0]) is sums[1]
    assert lesser(sums[0], sums[1]) is sums[1]


@pytest.mark.parametrize(
    ("left", "done", "jumps"), [(1.0, True, True), (0.1, True, False), (1.0, False, False)]
)
def test_what_a_trial_of_tighter_bounds_tells(monkeypatch, left, done, jumps):
    """A jump only becomes faster if bounds move inwards: of its violation, here 1, all is left. Of an overshoot, a tenth.
    A trial without a solution tells nothing."""
    before: Any = SimpleNamespace(state="before")
    monkeypatch.setattr(
        _crossings, "largest_excess", lambda _, state: 1.0 if state == "before" else left
    )
    trial = TrialOfBounds()
    trial.before = before
    state: Any = SimpleNamespace(done=jnp.asarray(done))
    assert trial.end(None, state) == (before, jumps)  # pyright: ignore[reportArgumentType]
    assert trial.before is None


def test_midpoints_hold_as_many_points_as_the_mesh():
    """Five intervals of three points become fifteen with one each, whose nodes divide the intervals evenly."""
    problem = to_the_other_side(lambda q: q + 1.0)
    own = CollocationSearch(control.Collocation(intervals=5, degree=3), problem).transcription
    found = _crossings.at_midpoints(own)
    np.testing.assert_allclose(found.shares, np.linspace(0.0, 1.0, 16), atol=1e-14)
    assert found.rule.points == (0.5,)
    assert jax.tree.leaves(found.costs) == jax.tree.leaves(own.costs)


@pytest.mark.parametrize(
    ("rate", "words"), [(-300.0, "300 time constants"), (-5.0, ""), (np.nan, "")]
)
def test_a_mesh_that_is_too_coarse_for_the_motion(rate, words):
    """A motor of 0.1 mH on 80 intervals of 50 ms: its current changes within 0.2 ms."""
    found = on_coarse_mesh(np.array([[[[0.0, 1.0], [0.0, rate]]]]))
    assert words in found
    assert bool(found) == bool(words)
