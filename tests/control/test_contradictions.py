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
from jaxhamel.control._collocation import _crossings
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._crossings import Contradiction, TrialOfBounds, lesser
from jaxhamel.control._collocation._elastic import reach
from jaxhamel.control._collocation._points import rule


def to_the_other_side(limit, name="wall"):
    """ẏ = c from 0 to 1 in unit time with the least ½∫c² dt, and the path limit."""
    wall = control.PathLimit(lambda t, q, u, c: limit(q), name=name, lower=0.0)
    return control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: c, 1), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]),
        lambda t: jnp.zeros(1), (control.ControlEnergy(),), (control.StateAtEnd(q=jnp.ones(1)), wall),
    )  # fmt: skip


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
    found = _crossings.at_midpoints(problem, own)
    np.testing.assert_allclose(found.shares, np.linspace(0.0, 1.0, 16), atol=1e-14)
    assert found.rule.points == (0.5,)
    assert jax.tree.leaves(found.costs) == jax.tree.leaves(own.costs)
