"""Nodes at the times at which a limited control reaches or leaves its bound without a jump."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import root

import jaxhamel
from jaxhamel import control
from jaxhamel.control._certificate._cost_error import _between_points, on_kinks
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._mesh._junctions import _on, _Side
from tests.control.cart import least_energy

B = 0.15**0.5  # |f| ≤ 5 binds for |t − 1/2| > B


def force(t, q, u, control):
    return control(t)


def test_a_limited_force_is_exact_on_a_coarse_mesh():
    """The cart from rest to rest with |f| ≤ 5: f is ±5, then a straight line. Without nodes at the kinks the polynomials
    overshoot the bound, and bounds moved inwards raise the cost by 1e-5 of it."""
    limits = control.PathLimit(force, -5.0, 5.0, name="force")
    end = control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1))
    result = control.solve(
        least_energy(8, constraints=(end, limits)), control.Collocation(intervals=8)
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


def test_a_junction_is_the_zero_of_the_distance_from_the_bound():
    """The distance t² − 0.3² has its zero at 0.3, whether that lies within an interval or at a node."""
    points = np.array([0.1, 0.4, 0.6, 0.9])
    for nodes in (np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 11)):
        times = nodes[:-1, None] + np.diff(nodes)[:, None] * points
        distance = np.maximum(times**2 - 0.09, 0.0)
        found = _on(_Side(0, True, times, distance, distance == 0.0), ())
        np.testing.assert_allclose(found, [0.3], atol=1e-9)


def test_a_limit_that_binds_nowhere_has_no_junction():
    times = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    assert _on(_Side(0, True, times, 1.0 + times, np.zeros((3, 4), bool)), ()) == []


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
    assert "raise it by about 1.0e+00" in on_kinks(1.0, 6.0)
    assert not on_kinks(1e-9, 6.0)
