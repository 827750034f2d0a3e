"""Arcs of limits of controls and states that meet, and the times at which they do, against closed forms.

A train with drag, v̇ = f − k v², |f| ≤ 1, v ≤ V, from rest to rest over a distance L in the least time: it accelerates until
its speed is V, keeps it, and brakes. With a = √k V the three parts take

    t₁ = artanh(a)/√k ,  t₂ = (L − x₁ − x₃)/V ,  t₃ = arctan(a)/√k ,  x₁ = −ln(1 − a²)/(2k) ,  x₃ = ln(1 + a²)/(2k) .
"""

from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._collocation._at_solution import frees_arcs, has_free_arcs
from jaxhamel.control._mesh._boundary_arcs import Side, controls_of, on_bound
from jaxhamel.control._mesh._free_arcs import FreeArcs
from jaxhamel.control._mesh._meeting_arcs import _meeting, _Run

DRAG, FASTEST, LENGTH = 0.3, 1.0, 3.0


def least_time(fastest):
    """(t₁, t₁ + t₂, T)."""
    root = jnp.sqrt(DRAG)
    a = root * fastest
    first, last = jnp.arctanh(a) / root, jnp.arctan(a) / root
    way = (jnp.log(1 + a**2) - jnp.log(1 - a**2)) / (2 * DRAG)
    middle = (LENGTH - way) / fastest
    return jnp.stack([first, first + middle, first + middle + last])


def train(fastest=FASTEST):
    constraints = (
        control.StateAtEnd(q=jnp.array([LENGTH, 0.0])), control.FreeEndTime(1.0, 20.0),
        control.PathLimit(lambda t, q, u, control: control(t), -1.0, 1.0, name="force"),
        control.PathLimit(lambda t, q, u, control: q[1], upper=fastest, name="speed"),
    )  # fmt: skip
    rate = lambda t, y, c: jnp.stack([y[1], c[0] - DRAG * y[1] ** 2])
    return control.ControlProblem(
        jaxhamel.ODE(rate, 2), jnp.zeros(2), jnp.zeros(0), jnp.array([0.0, 4.0]), lambda t: jnp.zeros(1),
        (control.FinalCost(lambda t, q, u, control: t),), constraints,
    )  # fmt: skip


@pytest.fixture(scope="module")
def fast():
    return control.solve(train(), control.Collocation(20))


def test_the_least_time_with_limits_of_force_and_speed(fast):
    """The mesh of 20 intervals has an error of the transcription of about 1e-7."""
    times = np.asarray(least_time(FASTEST))
    assert fast.certificate.holds, fast.certificate.words
    assert fast.cost == pytest.approx(times[-1], rel=3e-8)
    assert fast.certificate.multipliers_unique
    assert fast.certificate.violation < 1e-12


def test_a_force_that_jumps_to_a_bound_that_was_close_before():
    """Down a grade that accelerates by 0.9: on the speed limit the brake is at 0.9 of its bound, and jumps to it."""
    fastest, drop, length = 0.2, 0.9, 1.0
    limits = (
        control.PathLimit(lambda t, q, u, control: control(t), -1.0, 1.0, name="force"),
        control.PathLimit(lambda t, q, u, control: q[1], upper=fastest, name="speed"),
    )
    ends = control.StateAtEnd(q=jnp.array([length, 0.0])), control.FreeEndTime(1.0, 20.0)
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: jnp.stack([y[1], c[0] + drop]), 2), jnp.zeros(2), jnp.zeros(0),
        jnp.array([0.0, 6.0]), lambda t: jnp.zeros(1), (control.FinalCost(lambda t, q, u, control: t),), (*ends, *limits),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(20))
    first, last = fastest / (1 + drop), fastest / (1 - drop)
    known = length / fastest + (first + last) / 2
    assert result.certificate.holds, result.certificate.words
    assert result.cost == pytest.approx(known, rel=1e-9)


def test_nodes_are_where_arcs_meet(fast):
    nodes = np.asarray(fast.ts)
    for time in np.asarray(least_time(FASTEST))[:2]:
        assert np.min(np.abs(nodes - time)) < 1e-6


def test_the_force_keeps_the_speed_between(fast):
    """It is 1, k V² and −1, also between the points."""
    first, second, last = np.asarray(least_time(FASTEST))
    for begin, end, force in (
        (0.0, first, 1.0),
        (first, second, DRAG * FASTEST**2),
        (second, last, -1.0),
    ):
        times = begin + (end - begin) * np.linspace(0.01, 0.99, 40)
        values = jax.vmap(fast.control)(jnp.asarray(times))
        assert np.max(np.abs(np.asarray(values)[:, 0] - force)) < 1e-4


def test_the_least_time_falls_with_the_speed_allowed(fast):
    """dT/dV from the multipliers, beside that of the closed form."""
    slope = jax.grad(lambda fastest: least_time(fastest)[-1])(FASTEST)
    found = control.sensitivity(fast).constraints[3].upper
    assert float(found) == pytest.approx(float(slope), rel=1e-7)


def test_a_search_whose_iterations_end_beside_a_solution_has_it(fast):
    """The budget ends while the times of arcs are unknowns; the solution before that counts."""
    last = len(fast.history["cost"]) - 3
    few = control.solve(train(), control.Collocation(20, max_iterations=last))
    assert len(few.history["cost"]) == last
    assert few.status.startswith(f"out of iterations ({last}): best so far; met at the")
    assert few.cost == pytest.approx(fast.cost, rel=1e-4)


def test_a_length_at_its_bound_is_not_the_best_one():
    arcs = FreeArcs(1e-7)
    arcs.nodes = (3, 5)
    for high, confined in (([9.0, 1e-9, 1e-8], False), ([0.0, 1e-9, 0.08], True)):
        duals = SimpleNamespace(p_low=np.full(3, 1e-9), p_high=np.array(high))
        assert arcs.is_confined(cast(Any, SimpleNamespace(duals=duals))) == confined


def test_no_further_program_without_time_for_it():
    """The problem with fixed times is compiled once more; without time for that the solution before counts."""
    taken, solution = [], object()
    arcs = SimpleNamespace(
        before=solution, give_up=lambda: solution, is_confined=lambda state: False
    )
    search = SimpleNamespace(
        free_arcs=arcs, state=SimpleNamespace(done=True, stuck=0), parts=None, tolerance=1e-9, since=0,
        rows=[{"cost": 1.0}], has_time=lambda: False, take_solution=taken.append,
        finer_mesh=SimpleNamespace(may_begin=True),
    )  # fmt: skip
    assert not has_free_arcs(cast(Any, search))
    assert taken == [solution]


@pytest.mark.parametrize("chooses", [True, False])
def test_arcs_are_looked_for_on_gauss_points_if_the_search_chooses_the_points(chooses):
    """After points have changed and changed back, too. `Collocation(points="gauss")` keeps its points."""
    begun = []
    yes = SimpleNamespace(may_align=True, rounds=0, arcs=[])
    search = SimpleNamespace(
        tight=SimpleNamespace(rule=SimpleNamespace(points=(0.2, 0.8))), refinement=yes, tightening=yes, arcs=yes,
        may_change_points=False, chooses_points=chooses, is_solved=lambda: True, go_on=begun.append, transcription=None,
        state=None, parts=None, free_arcs=SimpleNamespace(begin=lambda solved: solved),
    )  # fmt: skip
    assert frees_arcs(cast(Any, search)) == bool(begun) == chooses


def run(row, first, last, is_upper=True):
    return _Run(row, 0 if row == 0 else 1, is_upper, first, last)


TIMES = np.linspace(0.0, 1.0, 40)


def test_arcs_meet_halfway_between_their_points():
    """A force from its upper bound to a limit of the speed and to its lower bound, with points on neither between."""
    found = [run(0, 0, 9), run(1, 12, 25), run(0, 28, 39, is_upper=False)]
    middle = [(TIMES[9] + TIMES[12]) / 2, (TIMES[25] + TIMES[28]) / 2]
    expected = {(0, False): 0.0, (0, True): middle[0], (1, False): middle[0]}
    expected |= {(1, True): middle[1], (2, False): middle[1], (2, True): 1.0}
    assert _meeting(found, TIMES, longest=8) == pytest.approx(expected)


def test_an_end_meets_the_closest_beginning():
    """Two controls change places along a limit of the state: the first one leaves its bound where the second reaches its
    own, although its other bound is nearby."""
    found = [
        run(0, 0, 19),
        run(0, 27, 39, is_upper=False),
        run(2, 21, 39),
        run(1, 10, 26),
        run(2, 0, 8),
    ]
    known = _meeting(found, TIMES, longest=8)
    assert known is not None
    assert known[0, True] == known[2, False]
    assert known[3, True] == known[1, False]


def test_arcs_meet_that_one_control_drives():
    """A torque (row 0) keeps a turn rate (row 2), a thrust (row 1) a speed (row 3); they change at almost the same time."""
    found = [run(2, 0, 19), run(1, 0, 21), run(0, 23, 39), run(3, 22, 39)]
    known = _meeting(found, TIMES, longest=8, driven_by=[{0}, {1}, {0}, {1}])
    assert known is not None
    assert known[0, True] == known[2, False]
    assert known[1, True] == known[3, False]
    assert _meeting(found, TIMES, longest=8, driven_by=[{1}, {1}, {0}, {1}]) is None


def test_controls_that_drive_limits_together():
    """Rows: three controls, and two states that controls 0 and 1 drive, each its own, or both the first one."""

    def found(by_controls):
        rates = np.array([by_controls])[:, None]  # of two states by three controls
        limits = (
            np.concatenate([np.zeros((3, 2)), np.eye(2)]),
            np.concatenate([np.eye(3), np.zeros((2, 3))]),
        )
        jacobian = np.concatenate(
            [np.concatenate([np.zeros((1, 1, 2, 2)), rates], axis=3), np.concatenate(limits, axis=1)[None, None]], axis=2
        )  # fmt: skip
        size = SimpleNamespace(size=2, n_controls=3)
        parts = SimpleNamespace(points=SimpleNamespace(jacobian=jacobian))
        return controls_of(cast(Any, size), cast(Any, parts))

    assert found([[1.0, 0, 0], [0, 1.0, 0]]) == [{0}, {1}, {2}, {0}, {1}]
    assert found([[1.0, 0.1, 0], [0, 1.0, 0]]) == [{0, 1}, {0, 1}, {2}, {0, 1}, {0, 1}]


@pytest.mark.parametrize(
    "found", [[run(0, 0, 9), run(1, 12, 25)], [run(0, 0, 9), run(1, 20, 39)], [run(0, 5, 39)]]
)
def test_arcs_that_end_alone_do_not_meet(found):
    assert _meeting(found, TIMES, longest=8) is None


def test_points_at_the_bound_beside_those_that_bind():
    """Where a control jumps its multiplier is zero, so that a point on the bound does not count as binding."""
    binds = np.array([True, True, False, False, False, False])
    distances = np.array([0.0, 1e-9, 1e-5, 1.0, 1e-5, 1.0])
    side = Side(np.arange(6.0), distances, np.zeros(6), binds)
    assert on_bound(side, beside=True).tolist() == [True, True, True, False, False, False]
    assert on_bound(side).tolist() == binds.tolist()
