"""The second-order condition beside limits that nearly bind, and costs compared beside violations."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._certificate._isolation import End, _kind_of_point
from jaxhamel.control._certificate._reduced_matrices import ReducedMatrices
from jaxhamel.control._certificate._second_order import _by_curvature, second_order
from jaxhamel.control._certificate._violation import largest_effect
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._interior_point._derivatives import parts_of

METHOD = control.Collocation(intervals=2, degree=2)


def pushed(costs, *constraints):
    """ẏ = c from y = 0 in unit time."""
    return control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: c, 1), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]),
        lambda t: jnp.zeros(1), costs, constraints,
    )  # fmt: skip


@pytest.mark.parametrize(("distance", "kind"), [(1e-2, "undecided"), (0.5, "not a minimum")])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_negative_curvature_beside_limits_that_nearly_bind(distance, kind, dtype):
    """The cost −½∫c² dt has the curvature −1, the barrier −μ log s of a limit at the distance s the curvature μ/s² for each
    point. With μ = 5e-5 it prevails for s = 0.01, and a limit that is not known to bind leaves the kind open; a limit far
    away does not."""
    falls = control.RunningCost(lambda t, q, u, c: -0.5 * c(t)[0] ** 2)
    limit = control.PathLimit(lambda t, q, u, c: c(t), upper=1.0, name="rate")
    search = CollocationSearch(METHOD, pushed((falls,), limit))
    state = search.state
    slack, zero = jnp.full_like(state.w.slack, 1.0 - distance), jnp.zeros_like(state.w.slack)
    state = state._replace(
        w=state.w._replace(slack=slack),
        duals=state.duals._replace(low=zero, high=5e-5 / (1.0 - slack)),
    )
    at, state = jax.tree.map(
        lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, (search.transcription, state)
    )
    found = second_order(at, state, eqx.filter_jit(parts_of)(at, state.w, state.duals))
    assert found.kind == kind, found.words
    assert ("positive with the barrier" in found.words) == (kind == "undecided")
    assert not (found.falls and kind == "undecided")


def test_violations_may_explain_a_lower_cost():
    """y(1) = 1 costs ½, and y(1) = 1 − ε costs ε less, to first order: no more than the violation explains."""
    search = CollocationSearch(
        METHOD, pushed((control.ControlEnergy(),), control.StateAtEnd(q=jnp.ones(1)))
    )
    search.run()
    at, duals = search.transcription, search.state.duals
    assert largest_effect(at, search.state.w, duals) < 1e-12
    moved = largest_effect(at, search.state.w._replace(c=search.state.w.c - 1e-4), duals)
    np.testing.assert_allclose(moved, 1e-4, rtol=1e-6)
    kinds = [
        _kind_of_point(2 * [End(-2e-4, 1.0, done=True, doubt=doubt)], 1e-5, 1e-6)
        for doubt in (0.0, 3e-4)
    ]
    assert kinds == ["not a minimum", "undecided"]


@pytest.mark.parametrize(
    ("change", "doubt", "kind"),
    [
        (2e-9, 3e-9, "minimum, not isolated"),  # a closed way of Heisenberg's system, turned
        (2e-9, 0.0, "undecided"),
        (1e-7, 1.0, "undecided"),  # violations explain only so much
    ],
)
def test_violations_may_explain_another_cost_of_a_family(change, doubt, kind):
    ends = 2 * [End(change, 1.0, done=True, doubt=doubt)]
    assert _kind_of_point(ends, 1e-7, 1e-9) == kind


@pytest.mark.parametrize(
    ("curvature", "kind"),
    [(1e-13, "strict minimum"), (-1e-13, "not a minimum"), (0.0, "undecided")],
)
def test_curvatures_by_controls_of_different_sizes(curvature, kind):
    """½∫ c₁² + k c₂² dt: k decides, however small it is beside the other curvature."""
    weights = jnp.array([1.0, curvature])
    cost = control.RunningCost(lambda t, q, u, c: 0.5 * jnp.sum(weights * c(t) ** 2))
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: c, 2), jnp.zeros(2), jnp.zeros(0), jnp.array([0.0, 1.0]),
        lambda t: jnp.zeros(2), (cost,),
    )  # fmt: skip
    search = CollocationSearch(METHOD, problem)
    state = search.state
    parts = parts_of(search.transcription, state.w, state.duals)
    assert second_order(search.transcription, state, parts).kind == kind


@pytest.mark.parametrize("flat", [False, True])
def test_singular_arcs_of_order_two(flat):
    """∫ x² dt + 50 p² with ẍ = c, 99 steps: per ∫|δc|² dt the least curvature is lost in rounding, per ∫|∬δc|² dt it is 2.

    It is zero in both if the cost does not change along a smooth control.
    """
    n = 99
    integrals = np.eye(n + 1)
    integrals[:n, :n] = np.tril(np.ones((n, n))) / n
    twice = integrals @ integrals
    H = 2 * twice.T @ twice
    H[n, n] = 100.0
    if flat:
        smooth = np.append(np.sin(np.linspace(0.0, np.pi, n)), 0.0)
        across = np.eye(n + 1) - np.outer(smooth, smooth) / (smooth @ smooth)
        H = across @ H @ across
    zeros = np.zeros_like(H)
    terms = np.full_like(H, 1e3)
    found = ReducedMatrices(H, terms, zeros[:0], zeros, np.eye(n, n + 1), zeros[:68], integrals)
    w = SimpleNamespace(c=np.zeros((33, 3, 1)), x=np.zeros((34, 2)))
    outcome = _by_curvature(found, np.eye(n + 1), True, SimpleNamespace(w=w))  # pyright: ignore[reportArgumentType]
    assert outcome.kind == ("undecided" if flat else "strict minimum")
    assert ("per unit of its double integral" in outcome.words) is (not flat)
