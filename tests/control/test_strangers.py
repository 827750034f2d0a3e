"""Problems of books and papers whose searches failed once: robots in corridors, linear costs, limits that meet at a switch.

Known costs are published ones or closed forms; more of these problems: `benchmarks/strangers_control.py`.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import jaxhamel
from jaxhamel import control
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from tests.control.cart import Cart


def value(t, q, u, control):
    return control(t)


def unicycle(t, y, c):
    return jnp.stack([c[1], c[0] * jnp.cos(y[0]), c[0] * jnp.sin(y[0])])


ENERGY = (control.ControlEnergy(2.0),)


def robot(start, end, *constraints, costs=ENERGY, duration=1.0):
    """A unicycle (angle, x, y) with the least ∫ v² + ω², from the straight line with the control zero."""
    return control.ControlProblem(
        jaxhamel.ODE(unicycle, 3), jnp.asarray(start), jnp.zeros(0), jnp.array([0.0, duration]),
        lambda t: jnp.zeros(2), costs, (control.StateAtEnd(q=jnp.asarray(end)), *constraints),
    )  # fmt: skip


def corridor(start, end, wall):
    walls = control.PathLimit(lambda t, q, u, c: q[2:], -wall, wall, name="walls")
    return robot(start, end, walls)


@settings(max_examples=20, deadline=None)
@given(st.integers(-8, 8), st.integers(-8, 8), st.integers(-3, 3))
def test_states_that_the_first_order_does_not_join_get_no_size(angle, course, exponent):
    """Across its course a unicycle moves in the second order only: at a straight guess, x changes with the angle by the
    cosine's 1 − θ²/2. Such a difference quotient once counted as a derivative of 6e-5, and x got this size; sin π = 1e-16,
    as a target or a derivative, made one of 1e-16."""
    scale, angle, course = 2.0**exponent, angle * np.pi / 8, course * np.pi / 8
    end = [angle, scale * np.cos(course), scale * np.sin(course)]
    problem = robot([angle, 0.0, 0.0], end)
    sizes = CollocationSearch(control.Collocation(), problem).transcription.sizes
    if sizes is not None:
        assert np.all(np.asarray(sizes.x) >= 2.0**-10)


@pytest.mark.parametrize(
    ("start", "end", "wall", "cost"),
    [
        # straight backwards: v = -1
        ([jnp.pi, 0.0, 0.0], [jnp.pi, 1.0, 0.0], 0.1, 1.0),
        # to its side, with walls that the cusp of the way without them, 11.1581587, touches
        ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], 1.05, None),
        ([jnp.pi / 2, 0.0, 0.0], [jnp.pi / 2, 1.0, 0.0], 0.1, None),
    ],
)
def test_a_unicycle_in_a_corridor(start, end, wall, cost):
    """No search from a straight guess ended before within 250 iterations with a certificate that held."""
    result = control.solve(corridor(start, end, wall), control.Collocation())
    assert result.certificate.holds, result.certificate.words
    assert len(result.history["cost"]) < 100
    if cost is not None:
        np.testing.assert_allclose(result.cost, cost, rtol=1e-10)
    else:  # wider walls cost less, and the way without walls is a lower bound
        assert 11.1581587152 < result.cost < 13.2


def test_a_unicycle_that_is_too_slow():
    """At a speed of at most 1 it comes no further than 1 in unit time: 1 of the distance of 2 is missing."""
    speeds = control.PathLimit(value, -1.0, 1.0, name="speeds")
    result = control.solve(robot([0.0] * 3, [0.0, 2.0, 0.0], speeds), control.Collocation())
    assert not result.converged
    assert not result.certificate.holds
    assert "`StateAtEnd` by 1, while `speeds` holds" in result.status


def test_a_car_that_drives_in_both_directions():
    """Reeds and Shepp 1990: |v|, |ω| ≤ 1, one turning radius to its side. Of four arcs of one length φ the outer two turn
    one way and the inner two, joined in a cusp, the other way: the car ends 4 (1 − cos φ) to its side: cos φ = ¾."""
    speeds = control.PathLimit(value, -1.0, 1.0, name="speeds")
    costs = (control.FinalCost(lambda t, q, u, c: t),)
    given = speeds, control.FreeEndTime(0.5, 10.0)
    problem = robot([0.0] * 3, [0.0, 0.0, 1.0], *given, costs=costs, duration=3.0)
    result = control.solve(problem, control.Collocation())
    assert result.certificate.holds, result.certificate.words
    np.testing.assert_allclose(result.cost, 4 * np.arccos(0.75), rtol=1e-7)


@pytest.mark.parametrize("force", [22.5, 24.0, 28.0])
def test_full_force_for_less_than_an_interval(force):
    """A cart from rest to rest over 1 in unit time, with a speed of at most 1.05: full force for a time s, a ramp to zero
    for a time r, and the largest speed. With 28 N it lasts 0.0024, less than until the first point of 16 intervals."""
    speed = 1.05

    def ramp(s):
        return 2 * (speed / force - s)

    def short_of(s):
        r = ramp(s)
        way = force * (s * s / 2 + s * r + r * r / 3)
        return 2 * way + speed * (1 - 2 * (s + r)) - 1

    s = brentq(short_of, 0.0, speed / force)
    fast = control.PathLimit(lambda t, q, u, c: u, upper=speed, name="speed")
    strong = control.PathLimit(value, -force, force, name="force")
    problem = control.ControlProblem(
        Cart(jnp.array(1.0)), jnp.zeros(1), jnp.zeros(1), jnp.linspace(0.0, 1.0, 21), lambda t: jnp.zeros(1),
        ENERGY, (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)), fast, strong),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(intervals=16))
    assert result.certificate.holds, result.certificate.words
    np.testing.assert_allclose(result.cost, 2 * force**2 * (s + ramp(s) / 3), rtol=1e-8)


def test_a_cost_that_is_linear_in_a_state():
    """min ∫ 30,000 y + c² dt, ẏ = −c y from y = 1/40 with 0 ≤ c ≤ 1: the second difference of such a cost is rounding, from
    which y once got a size of 1e10, so that no violation was seen."""
    limit = control.PathLimit(value, 0.0, 1.0, name="effort")
    costs = control.ControlEnergy(), control.RunningCost(lambda t, q, u, c: 3e4 * q[0])
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: -c * y, 1), jnp.full(1, 0.025), jnp.zeros(0), jnp.array([0.0, 1.0]),
        lambda t: jnp.full(1, 0.5), costs, (limit,),
    )  # fmt: skip
    sizes = CollocationSearch(control.Collocation(), problem).transcription.sizes
    assert sizes is None or float(jnp.max(sizes.x)) <= 1.0
