"""Continuation past a fold: Bratu's problem as an optimal control problem.

    min ∫_0^1 ½ẏ² − a e^y dt ,  y(0) = y(1) = 0     has the extremals     ÿ + a e^y = 0 ,

with y(t) = −2 log(cosh((t − ½) θ/2) / cosh(θ/4)), ẏ(0) = θ tanh(θ/4), a = θ²/(2 cosh²(θ/4)) (Ascher, Mattheij and Russell
1995, section 3.1). At the fold a is largest: (θ/4) tanh(θ/4) = 1, a = 3.513830719125.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import jaxhamel
from jaxhamel import control

FOLD = 3.513830719125


class Line(jaxhamel.System):
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v)


class Exponential(eqx.Module):
    a: jax.Array

    def __call__(self, t, q, u, control):
        return -self.a * jnp.exp(q[0])


def bratu(a):
    end = control.StateAtEnd(q=jnp.zeros(1))
    return control.ControlProblem(
        jaxhamel.Kinematic(Line()), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]), lambda t: jnp.zeros(1),
        (control.ControlEnergy(), control.RunningCost(Exponential(jnp.array(a)))), (end,),
    )  # fmt: skip


def strength(problem):
    return problem.costs[1].function.a


METHOD = control.Indirect(control.Collocation(intervals=6))


@pytest.fixture(scope="module")
def branches():
    follow = lambda to, points: control.continuation(
        bratu(2.0), strength, to, METHOD, step=0.5, longest=2.0, points=points
    )
    return follow(1.0, 20), follow(4.0, 14)


def test_points_on_both_sides_of_the_fold_are_exact(branches):
    for branch in branches:
        slopes = -branch.costates[:, 0]  # c = ẏ = −λ
        theta = [brentq(lambda x, s=s: x * np.tanh(x / 4) - s, 0.0, 60.0) for s in slopes]
        exact = 0.5 * np.square(theta) / np.cosh(np.divide(theta, 4)) ** 2
        np.testing.assert_allclose(branch.values, exact, rtol=1e-8)
    beyond = branches[1]
    assert beyond.status == "14 points"
    assert beyond.slopes[0] > 0 > beyond.slopes[-1]
    assert np.all(np.diff(-beyond.costates[:, 0]) > 0)


def test_the_fold_is_where_it_is_known(branches):
    np.testing.assert_allclose(branches[1].folds, [FOLD], atol=1e-9)


def test_the_last_value_is_reached_exactly(branches):
    down = branches[0]
    assert down.status == "reached 1"
    assert down.values[-1] == 1.0
    assert np.all(np.diff(down.values) < 0)
    assert down.folds.size == 0


def test_a_parameter_without_effect_is_refused():
    problem = bratu(2.0)
    with pytest.raises(TypeError, match="it must select one number of the problem itself"):
        control.continuation(problem, lambda p: p.q0, 1.0)
    with pytest.raises(ValueError, match="`to` is inf"):
        control.continuation(problem, strength, np.inf)
