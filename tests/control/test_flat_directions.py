"""Stationary points with a direction of zero curvature: terms of higher order decide whether they are minima."""

import jax
import jax.numpy as jnp
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.mechanics import Constant


def final_cost(coefficients, t, q, u, control):
    quadratic, cubic, quartic = coefficients
    y = q[0]
    return quadratic * y**2 + cubic * y**3 + quartic * y**4


def certified(cubic, quartic):
    """The certificate of c = 0 for ẏ = c, y(0) = 0 and J = ½∫c² dt − ½y² + a y³ + b y⁴ at t = 1.

    J = a y³ + b y⁴ for constant c = y, the cheapest way to y.
    """
    cost = jax.tree_util.Partial(final_cost, jnp.array([-0.5, cubic, quartic]))
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: c, 1), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]),
        Constant(jnp.zeros(1)), (control.ControlEnergy(), control.FinalCost(cost)), (),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(intervals=1, degree=2))
    assert result.certificate is not None
    return result.certificate


@pytest.mark.parametrize(
    ("cubic", "quartic", "kind"),
    [
        (0.0, 0.0, "minimum, not isolated"),
        (0.0, 1.0, "strict minimum"),
        (0.0, -1.0, "not a minimum"),
        (1.0, 0.0, "not a minimum"),
    ],
)
def test_terms_of_third_and_fourth_order_decide(cubic, quartic, kind):
    certificate = certified(cubic, quartic)
    assert certificate.second_order == kind
    assert certificate.holds == (kind != "not a minimum")


def test_a_family_of_initial_states():
    """ẏ = c with a free y(0) = y(1) and J = ½∫c² + (y² − 1)² dt: y = 1 is a minimum; without the second term each y is one.
    The searches on both sides begin with the initial state displaced, too."""
    for weight, kind in ((0.0, "minimum, not isolated"), (1.0, "strict minimum")):
        cost = control.Running(lambda t, q, u, c: q**2 - 1.0, weight)
        problem = control.ControlProblem(
            jaxhamel.ODE(lambda t, y, c: c, 1), jnp.full(1, 0.8), jnp.zeros(0), jnp.array([0.0, 1.0]),
            Constant(jnp.zeros(1)), (control.ControlEnergy(), cost), (control.FreeInitialState(), control.Periodic()),
        )  # fmt: skip
        result = control.solve(problem, control.Collocation(intervals=1, degree=2))
        assert (result.certificate.second_order, result.certificate.holds) == (kind, True)


def test_a_family_of_geodesics():
    """A sphere rolls, without slipping or spinning, until its south pole is on top: along a great circle in any direction.

    The control across the given circle is zero, and no size of it follows from the guess. A displaced search that begins
    with the motion of the circle, and not with that of the displaced control, comes back to the circle.
    """
    below = control.ConditionsAtEnd(
        lambda q, u: jnp.stack([q[0] * q[1] + q[2] * q[3], q[0] * q[2] - q[1] * q[3]])
    )
    ts = jnp.linspace(0.0, 1.0, 11)
    half = jnp.pi * ts / 2
    circle = jnp.stack([jnp.cos(half), jnp.sin(half), 0 * ts, 0 * ts], axis=1)
    rolling = jaxhamel.ODE(lambda t, q, c: jnp.concatenate([c, jnp.zeros(1)]), jaxhamel.SO3())
    problem = control.ControlProblem(
        rolling, circle[0], jnp.zeros(0), ts, Constant(jnp.array([jnp.pi, 0.0])),
        (control.ControlEnergy(2.0),), (below,), (circle, jnp.zeros((11, 0))),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(intervals=10))
    assert result.cost == pytest.approx(float(jnp.pi) ** 2, rel=1e-12)
    assert result.certificate.second_order == "minimum, not isolated"
    assert result.certificate.holds


def test_a_motion_that_touches_a_limit_at_one_point_is_in_no_family():
    """A particle from rest to rest over the distance 1 in the time 1, ∫|c|² least, past a round obstacle of radius 1/5 in
    the middle: 12 + 192/25 as it touches the top. With the limit at one collocation point the cost is the same wherever
    the motion touches at this time, but the motion then crosses the obstacle beside the point.
    """
    away = control.PathLimit(
        lambda t, q, u, control: jnp.sum((q[:2] - jnp.array([0.5, 0.0])) ** 2)[None],
        0.04,
        name="obstacle",
    )
    rest = jnp.array([1.0, 0.0, 0.0, 0.0])
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: jnp.concatenate([y[2:], c]), 4), jnp.zeros(4), jnp.zeros(0),
        jnp.array([0.0, 1.0]), lambda t: jnp.array([6.0 - 12.0 * t, 4.0 * jnp.cos(2.0 * jnp.pi * t)]),
        (control.ControlEnergy(2.0),), (control.StateAtEnd(q=rest), away),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(20))
    assert result.cost == pytest.approx(12 + 192 / 25, rel=1e-3)
    assert result.certificate.second_order != "minimum, not isolated"
