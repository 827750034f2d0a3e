"""Nodes at the times at which a limited control reaches or leaves its bound without a jump."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np

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


def test_a_junction_is_the_zero_of_the_distance_from_the_bound():
    """The distance t² − 0.3² has its zero at 0.3, whether that lies within an interval or at a node."""
    points = np.array([0.1, 0.4, 0.6, 0.9])
    for nodes in (np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 11)):
        times = nodes[:-1, None] + np.diff(nodes)[:, None] * points
        distance = np.maximum(times**2 - 0.09, 0.0)
        found = _on(_Side(times, distance, distance == 0.0))
        np.testing.assert_allclose(found, [0.3], atol=1e-9)


def test_a_limit_that_binds_nowhere_has_no_junction():
    times = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    assert _on(_Side(times, 1.0 + times, np.zeros((3, 4), bool))) == []


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
