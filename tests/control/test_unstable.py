"""Motions on which small changes of the control or the state grow beyond rounding error before the end."""

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
from jaxhamel.control._certificate._second_order import second_order
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._from_nodes import replayed
from jaxhamel.control._interior_point._derivatives import parts_of
from jaxhamel.control._methods._method import AbstractMethod


class Growing(eqx.Module):
    """The unstable system y'' = k² y + c."""

    k: float

    def __call__(self, t, y, c):
        return jnp.stack([y[1], self.k**2 * y[0] + c[0]])


def examined(k, weight):
    """Second-order test of ½ ∫ c² + w y² dt, from rest at 0 to rest at 1 in 6 s, at the first iterate."""
    problem = control.ControlProblem(
        jaxhamel.ODE(Growing(k), 2), jnp.zeros(2), jnp.zeros(0), jnp.array([0.0, 6.0]), lambda t: jnp.zeros(1),
        (control.RunningCost(lambda t, y, u, c: 0.5 * (c(t)[0] ** 2 + weight * y[0] ** 2)),),
        (control.StateAtEnd(q=jnp.array([1.0, 0.0])),),
    )  # fmt: skip
    search = CollocationSearch(control.Collocation(intervals=12, degree=3), problem)
    at, state = search.transcription, search.state
    parts = eqx.filter_jit(parts_of)(at, state.w, state.duals)
    return second_order(at, state, parts)


@pytest.mark.parametrize("k", [5.0, 0.3])
def test_a_motion_that_grows_by_thirteen_powers_of_ten(k):
    """Deviations grow by exp(5 · 6) = 1e13, yet the two conditions at the end count as independent and the minimum as
    strict."""
    found = examined(k, 0.0)
    assert found.kind == "strict minimum", found.words
    assert found.unique
    if k < 1:  # the Hessian of ½ ∫ c² is 1 in each direction
        assert "least curvature 1.00e+00" in found.words


def test_a_saddle_is_seen_where_the_motion_grows():
    """For w < −k⁴ = −625 the cost is unbounded below, since c = −k² y holds y at rest."""
    assert examined(5.0, -700.0).kind == "not a minimum"
    assert examined(5.0, -500.0).kind == "strict minimum"


class Known(AbstractMethod):
    """A method that returns given states at the times of the problem, and the control that it begins with."""

    states: tuple[jax.Array, jax.Array]

    def search(self, problem, p):
        found: Any = SimpleNamespace(
            run=lambda _: Verdict(True, "known"), found=lambda: (p, 0.0, 0.0), nodes=lambda: (self.states, 1e-9),
            history={"cost": np.zeros(1)}, began=0.0,
        )  # fmt: skip
        return found


def test_a_motion_from_node_to_node_where_the_open_loop_leaves_it():
    """y = exp(−k t) needs no control, but an open-loop simulation amplifies rounding errors by exp(5 · 8) = 2e17. The
    result simulates from node to node."""
    exact = lambda t: np.stack([np.exp(-5 * t), -5 * np.exp(-5 * t)], axis=-1)
    nodes = jnp.linspace(0.0, 8.0, 11)
    problem = control.ControlProblem(
        jaxhamel.ODE(Growing(5.0), 2), jnp.array([1.0, -5.0]), jnp.zeros(0), nodes,
        control.Spline.constant(jnp.zeros(1), 0.0, 8.0, 4, 3), (control.ControlEnergy(),),
    )  # fmt: skip
    states = jnp.asarray(exact(np.asarray(nodes))), jnp.zeros((11, 0))
    result = Known(states).run(problem)
    found = result.trajectory
    assert result.open_loop_departure is not None
    assert result.open_loop_departure > 1.0
    assert bool(found.succeeded)
    np.testing.assert_allclose(found.q, exact(np.asarray(found.ts)), atol=1e-8)
    np.testing.assert_allclose(found.q_end, exact(8.0), atol=1e-8)
    not_solved, _ = replayed(problem, problem.curve, nodes, states, 1.0)
    assert abs(float(not_solved.q[-1, 0])) > 1.0
