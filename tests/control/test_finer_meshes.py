"""The mesh of `Collocation()`: 20 intervals and, as long as the certificate would not hold because of the mesh, more.

½∫ v² + f² over a long time with v = 1 at both ends and v̇ = f − 3 v costs ω = √10 up to e^{−ωT}: the layers exp(∓ω t) at both
ends are shorter than one of 20 equal intervals.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import control
from jaxhamel.control._collocation import _at_solution as at_solution
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._mesh import _finer_mesh as finer_mesh
from tests.control.test_refinement import OMEGA, Damped, speed

LONG = control.ControlProblem(
    Damped(jnp.array(3.0)), jnp.zeros(1), jnp.ones(1), jnp.array([0.0, 60.0]), lambda t: jnp.zeros(1),
    (control.ControlEnergy(), control.Running(speed)), (control.StateAtEnd(u=jnp.ones(1)),),
)  # fmt: skip


@pytest.fixture(scope="module")
def coarse():
    return control.solve(LONG, control.Collocation(intervals=20))


def test_a_mesh_becomes_finer_until_the_certificate_holds(coarse):
    result = control.solve(LONG, control.Collocation())
    assert not coarse.certificate.holds
    assert coarse.certificate.transcription_error > 1e-4
    assert result.certificate.holds, result.certificate.words
    np.testing.assert_allclose(result.cost, OMEGA, rtol=1e-7)
    assert len(result.ts) > len(coarse.ts)


def stopped_on_finer_mesh(coarse, monkeypatch, interrupt):
    """The result of a search that ends after its first iteration on another mesh, or after one on each of two: the first
    with moved nodes, the second with more of them."""
    first = len(coarse.history["cost"])

    def stop(progress):
        if progress.iteration > first:
            raise KeyboardInterrupt

    if not interrupt:
        monkeypatch.setattr(at_solution, "FINER_ITERATIONS", 1)
    return control.solve(LONG, control.Collocation(), progress=stop if interrupt else None)


@pytest.mark.parametrize("interrupt", [False, True])
def test_the_solution_before_counts_if_the_finer_mesh_has_none(coarse, monkeypatch, interrupt):
    """Ctrl-C, or too many iterations on finer meshes."""
    result = stopped_on_finer_mesh(coarse, monkeypatch, interrupt)
    assert len(result.history["cost"]) == len(coarse.history["cost"]) + (1 if interrupt else 2)
    assert result.cost == coarse.cost
    np.testing.assert_array_equal(result.ts, coarse.ts)
    assert result.converged is (not interrupt)
    assert (
        "interrupted" if interrupt else "no better solution was found on a finer mesh"
    ) in result.status
    assert not result.certificate.holds


def test_no_finer_mesh_without_time_for_it(coarse, monkeypatch):
    """The search ends at its first solution if less time is left than that took: here 100 of 300 s."""
    search = CollocationSearch(control.Collocation(), LONG)
    monkeypatch.setattr(search, "elapsed", lambda: 200.0)
    while search.verdict() is None:
        search.make_iterations()
    assert search.is_solved()
    assert len(search.transcription.shares) == len(coarse.ts)


def test_the_search_leaves_time_for_the_certificate():
    """A tenth of the limit may be exceeded; a certificate that takes longer to compile is paid for by the search."""
    search = CollocationSearch(control.Collocation(max_seconds=20.0), LONG)
    search.rows = [{"seconds": 10.0}]
    assert search.seconds_of_result() == pytest.approx(3.0)
    says = "out of time (20 s) after 1 iteration: best so far; too little is left to compile its next program"
    assert search.not_compiled_in_time() == (False, says)
    search.seconds = 60.0
    assert search.seconds_of_result() == 0.0


class Mesh(NamedTuple):
    """A mesh of a fictitious search: its needed and its aimed defect, and whether the curvature decides there."""

    needed: float
    aimed: float
    decided: bool = True


@pytest.fixture
def finer(monkeypatch):
    """A part of a search that reads its defects from a `Mesh`."""

    def by_limits(mesh, most):
        return mesh.aimed if most == finer_mesh.AIMED_EXCESS else mesh.needed

    monkeypatch.setattr(finer_mesh, "by_errors", lambda solved: 0.0)
    monkeypatch.setattr(finer_mesh, "by_limits", lambda found, most: by_limits(found.solved, most))
    monkeypatch.setattr(finer_mesh, "is_decided", lambda solved: solved.decided)
    return finer_mesh.FinerMesh(True)


def on(mesh):
    return finer_mesh.OnMesh(None, mesh, None)  # pyright: ignore[reportArgumentType]


def test_a_mesh_that_suffices_becomes_finer_until_limits_raise_the_cost_little(finer):
    assert finer.is_asked(on(Mesh(0.5, 5.0)))
    assert not finer.is_asked(last := on(Mesh(0.05, 0.5)))
    assert not finer.was_better_than(last)


@pytest.mark.parametrize("decided", [True, False])
def test_a_mesh_that_suffices_counts_if_none_of_the_finer_ones_does(finer, decided):
    """Unless the curvature leaves the kind of the point open on that mesh."""
    first = on(Mesh(0.5, 5.0, decided))
    assert finer.is_asked(first)
    assert finer.is_asked(on(Mesh(3.0, 4.0)))
    assert not finer.is_asked(last := on(Mesh(3.0, 4.0)))
    assert finer.was_better_than(last) is decided
    if decided:
        assert finer.go_back(ends=True) is first


@pytest.mark.parametrize("done", [True, False])
def test_a_finer_mesh_may_follow_where_tighter_bounds_have_no_solution(done):
    """The search goes back to the solution with the least excess; without one the later changes were not tried."""
    taken = SimpleNamespace(done=done, stuck=0)
    tightening = SimpleNamespace(best=(0.5, None), began=0, give_up=lambda: ("bounds", taken, None))
    stuck = SimpleNamespace(done=False, stuck=at_solution.STUCK)
    search = SimpleNamespace(tightening=tightening, state=stuck, rows=[{"cost": 1.0}])
    assert at_solution.stays_with_tighter_bounds(cast(Any, search)) is not done
    assert search.state is taken
