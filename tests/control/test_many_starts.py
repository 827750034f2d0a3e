"""Collocation from many starts: a wheel reaches an angle in either direction and with different numbers of turns."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._many_starts import _coarse_mesh, _many_starts, _side_by_side
from jaxhamel.control._many_starts._many_starts import optima_of
from jaxhamel.mechanics import Constant
from tests.control.ctrl_c import interrupt_at


class Wheel(jaxhamel.System):
    space = jaxhamel.SO2()

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v)


def solved_from_five_starts():
    """½∫ω² in unit time to the angle 2 has the local optima ½ (2 + 2π k)²; a start with constant ω reaches the nearest
    one."""
    problem = control.ControlProblem(
        jaxhamel.Kinematic(Wheel()), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]), Constant(jnp.zeros(1)),
        (control.ControlEnergy(),), (control.StateAtEnd(q=jnp.full(1, 2.0)),),
    )  # fmt: skip
    starts = jnp.array([[2.3], [-4.0], [8.0], [1.0], [-3.9]])
    return control.solve_many(problem, starts, control.Collocation(intervals=8, degree=2))


def check_optima(result):
    assert result.certificate is not None
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, 2.0, rtol=1e-12)
    assert result.certificate.optima is not None
    costs, counts = zip(*result.certificate.optima, strict=True)
    exact = [0.5 * (2 + 2 * np.pi * k) ** 2 for k in (0, -1, 1)]
    np.testing.assert_allclose(costs, exact, rtol=1e-9)
    assert counts == (2, 2, 1)
    assert f"2 (2×), {exact[1]:.8g} (2×)" in result.certificate.words


def test_each_number_of_turns_is_an_optimum(monkeypatch):
    """Two searches run in one batch, further ones take the places of finished ones, and the last ones run alone."""
    for name, value in {"STARTS_AT_ONCE": 2, "FEW": 2, "FEW_SEARCHES": 0}.items():
        monkeypatch.setattr(_side_by_side, name, value)
    alone, more_iterations = [], _side_by_side.more_iterations
    monkeypatch.setattr(
        _side_by_side, "more_iterations", lambda *given: alone.append(1) or more_iterations(*given)
    )
    check_optima(solved_from_five_starts())
    assert len(alone) <= 2


def recorded(monkeypatch):
    """The numbers of intervals and of searches, one pair for each call that searches."""
    calls, one_by_one = [], _side_by_side.searched_one_by_one

    class Recorded(_side_by_side.SideBySide):
        def __init__(self, transcriptions, states, *given, **options):
            calls.append((states.w.X.shape[1], states.mu.size))
            super().__init__(transcriptions, states, *given, **options)

    def alone(transcriptions, states, *given):
        calls.append((states.w.X.shape[1], states.mu.size))
        return one_by_one(transcriptions, states, *given)

    for module in (_side_by_side, _many_starts):
        monkeypatch.setattr(module, "SideBySide", Recorded)
    monkeypatch.setattr(_side_by_side, "searched_one_by_one", alone)
    return calls


def test_searches_begin_on_a_coarse_mesh(monkeypatch):
    """Four searches on two intervals, and one on eight intervals for each of their two optima. From the start with an
    angle of 4 in half the time, more than half a turn, the search begins on eight intervals."""
    monkeypatch.setattr(_side_by_side, "FEW_SEARCHES", 3)
    monkeypatch.setattr(_coarse_mesh, "FEWEST_POINTS", 4)
    calls = recorded(monkeypatch)
    check_optima(solved_from_five_starts())
    assert calls == [(2, 4), (8, 2), (8, 1)]


def test_the_table_counts_equal_costs_once():
    costs = np.array([3.0, 1.0 + 1e-9, np.nan, 1.0, 7.0])
    counts = np.array([1, 4, 1, 1, 2])
    table = optima_of(costs, np.array([True, True, False, True, False]), counts)
    assert table.found == ((1.0, 5), (3.0, 1))
    assert table.unconverged == 3


def lines(*ends):
    """Straight paths of two coordinates, whose second one is still."""
    nodes = np.linspace(0.0, 1.0, 3)[:, None]
    return np.stack([nodes * np.array([end, 0.0]) for end in ends])


def test_equal_costs_on_different_paths_are_different_optima(monkeypatch):
    """Mirror images have equal costs; each of them is found anew on the given mesh."""
    monkeypatch.setattr(_coarse_mesh, "_coordinates", lambda mesh, w: w)
    states = SimpleNamespace(w=lines(1.0, -1.0, 1.0 + 1e-4, 2.0))
    found = _coarse_mesh.of_one_path(None, states, [np.array([0, 1, 2]), np.array([3])])
    assert [group.tolist() for group in found] == [[0, 2], [1], [3]]


def test_an_optimum_far_from_that_of_the_coarse_mesh_is_another(monkeypatch):
    """The cost or the path differs: searches from these starts begin anew."""
    monkeypatch.setattr(_coarse_mesh, "_coordinates", lambda mesh, w: w)
    monkeypatch.setattr(
        _coarse_mesh, "_distances", lambda *given: np.max(np.abs(given[1] - given[3]), axis=1)
    )
    before = SimpleNamespace(cost=np.array([1.0, 1.0, 1.0]), w=lines(1.0, 1.0, 1.0))
    after = SimpleNamespace(cost=np.array([1.001, 1.1, 1.0]), w=lines(1.01, 1.0, 1.3))
    assert _coarse_mesh.are_same(None, before, None, after).tolist() == [True, False, False]


@pytest.mark.parametrize("together", [False, True])
def test_ctrl_c_keeps_what_is_found(together, monkeypatch):
    """Ctrl-C after the first turns, or during the second search of those that run alone: the best point so far is returned,
    and its certificate does not hold."""
    monkeypatch.setattr(_side_by_side, "FEW_SEARCHES", 0 if together else 32)
    monkeypatch.setattr(_side_by_side, "STARTS_AT_ONCE", 2)
    name, call = ("take_turns", 2) if together else ("more_iterations", 3)
    interrupt_at(name, call, monkeypatch)
    result = solved_from_five_starts()
    assert "interrupted" in result.status
    assert not result.converged
    assert result.certificate is not None
    assert not result.certificate.holds
