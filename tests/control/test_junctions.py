"""Nodes at the times at which a limited control reaches or leaves its bound."""

import re
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq, root

import jaxhamel
from jaxhamel import control
from jaxhamel.control._certificate._cost_error import _between_points, on_kinks
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._mesh._junctions import _excess_at_nodes, _of_bound, _Side
from tests.control.cart import least_energy

B = 0.15**0.5  # |f| ≤ 5 binds for |t − 1/2| > B


def force(t, q, u, control):
    return control(t)


@pytest.mark.parametrize("degree", [3, 4])
def test_a_limited_force_is_exact_on_a_coarse_mesh(degree):
    """The cart from rest to rest with |f| ≤ 5: f is ±5, then a straight line. Without nodes at the kinks the polynomials
    overshoot the bound, and bounds moved inwards raise the cost by 1e-5 of it. With three points the kink, at 0.1127, lies
    between the last point of the first interval, 0.1109, and its node: all points bind, and no polynomial overshoots."""
    limits = control.PathLimit(force, -5.0, 5.0, name="force")
    end = control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1))
    result = control.solve(
        least_energy(8, constraints=(end, limits)), control.Collocation(intervals=8, degree=degree)
    )
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, 12.5 - 50 * B / 3, rtol=1e-8)
    nodes = np.asarray(result.ts)
    for time in (0.5 - B, 0.5 + B):
        assert np.min(np.abs(nodes - time)) < 1e-7


def swing_up(duration, most):
    """A pendulum of 1 kg and 1 m from rest to upright with the least ∫τ² and |τ| ≤ most."""
    ode = jaxhamel.ODE(lambda t, y, c: jnp.stack([y[1], c[0] - 9.81 * jnp.sin(y[0])]), 2)
    limits = control.PathLimit(force, -most, most, name="torque")
    end = control.StateAtEnd(q=jnp.array([jnp.pi, 0.0]))
    given = (control.ControlEnergy(weight=2.0),), (end, limits)
    ts = jnp.array([0.0, duration])
    return control.ControlProblem(
        ode, jnp.zeros(2), jnp.zeros(0), ts, lambda t: jnp.zeros(1), *given
    )


def cost_by_shooting(costates, duration, most):
    """∫τ² of the motion that satisfies Pontryagin's conditions, τ = clip(−λ₂/2, ±most), by a search for λ(0)."""

    def rates(t, y):
        torque = np.clip(-y[3] / 2, -most, most)
        gravity = 9.81 * np.array([np.sin(y[0]), np.cos(y[0])])
        return [y[1], torque - gravity[0], gravity[1] * y[3], -y[2], torque**2]

    def end(guess):
        y0 = [0.0, 0.0, *guess, 0.0]
        method = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11, "max_step": 0.02}
        return solve_ivp(rates, (0.0, duration), y0, **method).y[:, -1]

    found = root(lambda guess: end(guess)[:2] - [np.pi, 0.0], costates, tol=1e-10)
    assert found.success
    return end(found.x)[4]


@pytest.mark.parametrize(
    ("duration", "most", "intervals"), [(2.5, 5.0, 20), (4.0, 3.0, 20), (2.0, 8.0, 10)]
)
def test_steep_crossings_have_two_junctions(duration, most, intervals):
    """The torque crosses from bound to bound in less than an interval, and binds on both sides; with 8 N m it comes to its
    bound within the first interval, after one point.

    With a node in the place of a switch, in the middle of the crossing, the meshes went round in a circle.
    """
    result = control.solve(swing_up(duration, most), control.Collocation(intervals=intervals))
    assert result.certificate.holds, result.certificate.words
    cost = cost_by_shooting(np.asarray(result.costates[0]), duration, most)
    np.testing.assert_allclose(result.cost, cost, rtol=1e-7)


def dubins():
    """The least time of a car with the speed 1 and |turn rate| ≤ 1 from (0, 0, 0) to (4, 4, π): an arc, a straight line, on
    which the turn rate is singular, and an arc; the circles' centres are (0, 1) and (4, 3)."""
    ode = jaxhamel.ODE(lambda t, y, c: jnp.stack([jnp.cos(y[2]), jnp.sin(y[2]), c[0]]), 3)
    end = jnp.array([4.0, 4.0, jnp.pi])
    conditions = control.StateAtEnd(q=end), control.FreeEndTime(3.0, 20.0)
    time = control.FinalCost(lambda t, q, u, control: t)
    ts = jnp.linspace(0.0, 7.0, 3)
    guess = jnp.linspace(jnp.zeros(3), end, 3), jnp.zeros((3, 0))
    limits = control.PathLimit(force, -1.0, 1.0, name="turn rate")
    problem = control.ControlProblem(
        ode, jnp.zeros(3), jnp.zeros(0), ts, lambda t: jnp.array([0.4]), (time,),
        (*conditions, limits), guess,
    )  # fmt: skip
    first = np.arctan2(2.0, 4.0)
    least = np.pi + np.hypot(4.0, 2.0)
    return problem, least, (first / least, 1.0 - (np.pi - first) / least)


def follower(fixed_end=True):
    """ẋ = c, |c| ≤ 1, from x = 1 to 0.1, or to anywhere, in 3 s with the least ∫(x − r)² dt, r = 0.45 sin 2t: x comes to r
    at full speed, follows it under a singular control, and leaves it at full speed."""

    def reference(t, library=np):
        return 0.45 * library.sin(2.0 * t)

    ode = jaxhamel.ODE(lambda t, y, c: c, 1)
    ts = jnp.array([0.0, 3.0])
    limits = control.PathLimit(force, -1.0, 1.0, name="speed")
    cost = control.RunningCost(lambda t, q, u, control: (q[0] - reference(t, jnp)) ** 2, 1.0)
    end = control.StateAtEnd(q=jnp.array([0.1]))
    given = (cost,), (end, limits) if fixed_end else (limits,)
    problem = control.ControlProblem(
        ode, jnp.ones(1), jnp.zeros(0), ts, lambda t: jnp.zeros(1), *given
    )

    def late(t):
        return 1.0 - t - reference(t)

    def early(t):
        return 0.1 - (3.0 - t) - reference(t)

    comes, leaves = brentq(late, 0.0, 1.0, xtol=1e-14), brentq(early, 2.0, 3.0, xtol=1e-14)
    parts = [(late, 0.0, comes), (early, leaves, 3.0)][: 1 + fixed_end]
    least = sum(quad(lambda t, f=f: f(t) ** 2, *ends, epsabs=1e-13)[0] for f, *ends in parts)
    return problem, least, (comes / 3.0, leaves / 3.0)


@pytest.mark.parametrize(("make", "intervals"), [(dubins, 20), (follower, 20), (follower, 40)])
def test_singular_arcs_begin_and_end_at_nodes(make, intervals):
    """Without nodes there, the values at the points of the singular arc swing, and the cost is 2e-4 to 1e-3 too high."""
    problem, least, junctions = make()
    result = control.solve(problem, control.Collocation(intervals=intervals))
    assert result.certificate.holds, result.certificate.words
    np.testing.assert_allclose(result.cost, least, rtol=1e-7)
    nodes = np.asarray(result.ts) / float(result.ts[-1])
    for junction in junctions:
        assert np.min(np.abs(nodes - junction)) < 1e-3


def test_a_singular_arc_to_a_free_end_is_a_strict_minimum():
    """The second variation is ∫2 δx² dt = 2 T² ∫|∫δc dt|² dt / T², so that the curvature is 18 in the unit of the cost, a
    power of 2; per ∫δc² dt it is 0 in the limit of short intervals."""
    problem, least, _ = follower(fixed_end=False)
    result = control.solve(problem, control.Collocation(intervals=40))
    assert result.certificate.holds, result.certificate.words
    assert result.certificate.second_order == "strict minimum"
    np.testing.assert_allclose(result.cost, least, rtol=1e-7)
    found = re.search(r"([\d.e+]+) per unit of its integral", result.certificate.words)
    assert found, result.certificate.words
    power = np.log2(float(found[1]) / 18.0)
    np.testing.assert_allclose(power, np.round(power), atol=0.01)


def side(times, distance, binds, multiplier=None, curvature=1.0):
    """A bound of a limit of the control, with its multipliers and the curvature of the Hamiltonian."""
    multiplier = np.where(binds, 1.0, 0.0) if multiplier is None else multiplier
    return _Side(0, True, times, distance, binds, multiplier, np.full(times.shape, curvature))


@pytest.mark.parametrize("growth", [0.0, 1.0, -0.6])
def test_a_jump_onto_a_singular_arc_is_the_double_zero_of_the_multiplier(growth):
    """The multiplier (t − 0.3)² (1 + growth t) has its zero at 0.3; the distance jumps from 0 to values that swing."""
    nodes = np.linspace(0.0, 1.0, 11) + 0.02 * np.sin(3.0 * np.linspace(0.0, 1.0, 11))
    times = nodes[:-1, None] + np.diff(nodes)[:, None] * np.array([0.07, 0.33, 0.67, 0.93])
    for free in (times < 0.3, times > 0.3):
        multiplier = np.where(free, 0.0, (times - 0.3) ** 2 * (1.0 + growth * times))
        distance = np.where(free, 0.5 + 0.3 * np.cos(99.0 * times), 0.0)
        found = _of_bound(side(times, distance, ~free, multiplier, 0.0), ())
        np.testing.assert_allclose(found, [0.3], atol=1e-3)


def test_a_junction_is_the_zero_of_the_distance_from_the_bound():
    """The distance t² − 0.3² has its zero at 0.3, whether that lies within an interval or at a node."""
    points = np.array([0.1, 0.4, 0.6, 0.9])
    for nodes in (np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 11)):
        times = nodes[:-1, None] + np.diff(nodes)[:, None] * points
        distance = np.maximum(times**2 - 0.09, 0.0)
        found = _of_bound(side(times, distance, distance == 0.0, 9.0 - 9.0 * times), ())
        np.testing.assert_allclose(found, [0.3], atol=1e-9)


@pytest.mark.parametrize(("kink", "counts"), [(0.48, True), (0.35, False), (0.5, False)])
def test_what_a_control_costs_that_leaves_its_bound_at_a_node_instead_of_earlier(kink, counts):
    """At the node ½ the control jumps off its bound to 2 (t − t₁) where it would have left it at t₁: with the curvature 3 of
    the Hamiltonian this costs ∫ ½ 3 (2 (t − t₁))² dt = 2 (½ − t₁)³. A bound that holds at 0.45 is not left at 0.35."""
    times = np.array([[0.05, 0.25, 0.45], [0.55, 0.75, 0.95]])
    distance = np.array([np.zeros(3), 2 * (times[1] - kink)])
    found = side(times, distance, np.array([[True] * 3, [False] * 3]), curvature=3.0)
    cost = _excess_at_nodes(found, np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(cost, 2 * (0.5 - kink) ** 3 if counts else 0.0, atol=1e-12)
    mirrored = side(
        1 - times[::-1, ::-1],
        distance[::-1, ::-1],
        np.array([[False] * 3, [True] * 3]),
        curvature=3.0,
    )
    np.testing.assert_allclose(
        _excess_at_nodes(mirrored, np.array([0.0, 0.5, 1.0])), cost, atol=1e-12
    )


def test_a_limit_that_binds_nowhere_has_no_junction():
    times = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    assert _of_bound(side(times, 1.0 + times, np.zeros((3, 4), bool)), ()) == []


def test_cost_of_a_bound_that_is_not_reached():
    """Along one interval of the length 1, a multiplier of 2 per time and the distance t from the bound change the cost by
    ∫ 2 t dt = 1; a distance of 0 changes nothing."""
    points = rule("gauss", 3)
    transcription = SimpleNamespace(rule=points, shares=np.array([0.0, 1.0]))
    multipliers = 2.0 * np.reshape(points.weights, (1, 3, 1))
    for distance, change in (
        (np.reshape(points.points, (1, 3, 1)), 1.0),
        (np.zeros((1, 3, 1)), 0.0),
    ):
        found = _between_points(transcription, multipliers, distance)
        np.testing.assert_allclose(found, change, rtol=1e-12)
    assert "raise it by up to about 1.0e+00" in on_kinks(1.0, 6.0)
    assert not on_kinks(1e-9, 6.0)


def test_an_impulse_at_a_node_costs_nothing():
    """The last Radau point is a node. A multiplier that is alone there is an impulse, at a distance of 0; with others in its
    interval it is part of a function of time, as Gauss points' always are."""
    distance = np.array([0.5, 0.2, 0.0]).reshape(1, 3, 1)
    for kind, multipliers, is_impulse in (
        ("radau", [0.0, 0.005, 1.0], True),
        ("radau", [0.0, 0.1, 1.0], False),
        ("gauss", [0.0, 0.005, 1.0], False),
    ):
        transcription = SimpleNamespace(rule=rule(kind, 3), shares=np.array([0.0, 1.0]))
        found = _between_points(transcription, np.reshape(multipliers, (1, 3, 1)), distance)
        assert (abs(found) < 3e-3) == is_impulse
