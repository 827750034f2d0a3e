"""Multipliers in new charts: with them, a step of Newton's method leaves an error of second order on groups, too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import control
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._transcription import InCharts, along, rebased
from jaxhamel.control._interior_point._interior_point import more_iterations
from jaxhamel.control._interior_point._state import resumed


@pytest.fixture(scope="module", params=["satellite_turn", "unicycle_sideways"])
def solved(request):
    """A search at the solution of a problem on a group: rotations of a satellite, motions of a unicycle in the plane."""
    problem = getattr(control.problems, request.param)()
    search = CollocationSearch(control.Collocation(8, 4), problem)
    assert search.run(None).converged
    return search


def displaced(search, size, key=0):
    """The iterate with random displacements of nodes and stages, in their charts."""
    w, keys = search.state.w, jax.random.split(jax.random.key(key), 2)
    x = w.x.at[1:].add(size * jax.random.normal(keys[0], w.x[1:].shape, w.x.dtype))
    return w._replace(x=x, X=w.X + size * jax.random.normal(keys[1], w.X.shape, w.X.dtype))


def test_pairings_with_tangent_vectors_stay(solved):
    """λ·r = λ′·r′ for residuals r of nodes and stages, r′ = dφ·r by forward mode through the change of the charts."""
    space, n = solved.transcription.system.space, solved.transcription.system.space.dim
    w, duals = displaced(solved, 0.3), solved.state.duals
    moved = rebased(solved.transcription, InCharts(w, duals.costates, duals.stages))
    new = moved.w

    def pushed(base, node, at, residual):
        change = lambda xi: space.local(node, space.retract(base, xi))
        return jax.jvp(change, (at[:n],), (residual[:n],))[1]

    for i in range(1, w.X.shape[0]):
        base, node = along(w.q, i), along(new.q, i)
        pairs = [(w.x[i], duals.costates[i], moved.costates[i])]
        pairs += [(w.X[i, j], duals.stages[i, j], moved.stages[i, j]) for j in range(4)]
        for k, (at, old, now) in enumerate(pairs):
            r = jax.random.normal(jax.random.key(10 * i + k), at.shape, at.dtype)
            after = now[:n] @ pushed(base, node, at, r) + now[n:] @ r[n:]
            np.testing.assert_allclose(after, old @ r, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(moved.stages[0], duals.stages[0])  # the first chart stays
    np.testing.assert_array_equal(moved.costates[0], duals.costates[0])


def test_states_stay_where_they_are(solved):
    """The change of the charts moves no node, and no stage."""
    space, n = solved.transcription.system.space, solved.transcription.system.space.dim
    w = displaced(solved, 0.3)
    duals = solved.state.duals
    new, _, _ = rebased(solved.transcription, InCharts(w, duals.costates, duals.stages))
    for i in range(w.X.shape[0]):
        for at, then in [(w.x[i], new.x[i]), (w.X[i, 1], new.X[i, 1])]:
            before = space.retract(along(w.q, i), at[:n])
            after = space.retract(along(new.q, i), then[:n])
            np.testing.assert_allclose(space.local(before, after), 0.0, atol=1e-12)


def after_a_step(search, size):
    """The scaled gradient of the Lagrangian after one whole step from displaced points.

    The bases of the charts are these points, so that the step moves the charts.
    """
    duals = search.state.duals
    old = InCharts(displaced(search, size), duals.costates, duals.stages)
    w, costates, stages = rebased(search.transcription, old)
    duals = duals._replace(costates=costates, stages=stages)
    state = resumed(search.state._replace(w=w, duals=duals))
    given = search.transcription, state, search.tolerance, jnp.asarray(2)
    _, _, rows, _ = more_iterations(*given)
    assert rows.step[0] == 1.0
    return float(rows.gradient_norm[1])


@pytest.mark.parametrize("size", [1e-4, 1e-5])
def test_steps_leave_a_gradient_of_second_order(solved, size):
    """The gradient after a step is far smaller than the step, and not a share of it that stays.

    Of first order is only the error of the transcription, by which the polynomials in two charts differ.
    """
    assert after_a_step(solved, size) < 100 * size**2 + 1e-3 * size
