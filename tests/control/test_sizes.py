"""Problems in units that are far from the size of their numbers: micrometres, meganewtons, orbits in metres.

A change of units multiplies the optimal cost by a known factor and leaves the verdict: the certificates of all problems here
must hold, with the costs of the closed forms.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control import problems
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._scaling._sizes import KnownSizes, related
from tests.control.cart import Cart

COLLOCATION = control.Collocation(intervals=8)


def value(t, q, u, control):
    return control(t)


def pushed(mass, distance, duration, *constraints):
    """A cart from rest to rest with the least ∫ f²/2, which is 6 m² L² / T³ without limits."""
    return control.ControlProblem(
        Cart(jnp.array(mass)), jnp.zeros(1), jnp.zeros(1), jnp.linspace(0.0, duration, 9),
        lambda t: jnp.zeros(1), (control.ControlEnergy(),),
        (control.StateAtEnd(q=jnp.full(1, distance), u=jnp.zeros(1)), *constraints),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mass", "distance", "duration"), [(1e-6, 1.0, 1.0), (1e6, 1.0, 1.0), (1.0, 1e6, 3600.0)]
)
def test_a_cart_of_any_size(mass, distance, duration):
    result = control.solve(pushed(mass, distance, duration), COLLOCATION)
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, 6 * mass**2 * distance**2 / duration**3, rtol=1e-10)
    assert len(result.history["cost"]) < 10


@pytest.mark.parametrize(("mass", "distance"), [(1e-6, 1.0), (1e6, 1.0), (1.0, 1e6)])
def test_limited_force_in_any_unit(mass, distance):
    """|f| ≤ 5 m L / T² binds for |t − T/2| > b T, b² = 3/20, and the cost is (12.5 − 50 b / 3) m² L² / T³."""
    most = 5 * mass * distance
    limit = control.PathLimit(value, -most, most, name="force")
    result = control.solve(pushed(mass, distance, 1.0, limit), COLLOCATION)
    least = (12.5 - 50 * 0.15**0.5 / 3) * mass**2 * distance**2
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, least, rtol=1e-8)
    np.testing.assert_allclose(
        result.costates[0, 1], -(mass**2) * distance * 2.5 / 0.15**0.5, rtol=1e-6
    )


def test_an_orbit_in_metres():
    """A circular orbit is raised from 7,000 to 8,000 km with the least ∫ a²/2. In the units of the first orbit the cost is
    that in SI units divided by the square of the acceleration and the time of these units."""
    gravity, radius = 3.986004418e14, 7e6
    unit_time = (radius**3 / gravity) ** 0.5
    costs, scaled, errors = [], [], []
    for length, time in ((1.0, 1.0), (radius, unit_time)):
        result = control.solve(
            raised_orbit(gravity * time**2 / length**3, length, time), COLLOCATION
        )
        assert result.certificate.holds
        costs.append(result.cost * length**2 / time**3)
        scaled.append(result.optimum[0].sizes is not None)
        errors.append(np.max(result.mesh_errors))
    assert scaled == [True, False]  # numbers of moderate size are left
    # errors are multiples of the sizes: 2²³ m for a radius of 1, which was the unit, and powers of two for velocities
    assert 0.25 < errors[0] / errors[1] < 4.0
    np.testing.assert_allclose(costs[0], costs[1], rtol=1e-9)


def test_shooting_on_the_costates_of_an_orbit_in_metres():
    """Without sizes Newton's steps stay at residuals of 1.5e-9."""
    method = control.Indirect(COLLOCATION, tolerance=1e-12)
    result = control.solve(raised_orbit(3.986004418e14, 1.0, 1.0), method)
    assert result.converged, result.status
    assert len(result.history["cost"]) < 5
    np.testing.assert_allclose(result.cost, 51.22875973388, rtol=1e-12)  # in units of the orbit


def raised_orbit(gravity, length, time):
    """The problem in units of `length` [m] and `time` [s], with the gravitational parameter in these units."""
    radii, duration = np.array([7e6, 8e6]) / length, 4000.0 / time

    def rate(t, y, c):
        cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
        return jnp.concatenate([y[2:], c - gravity * y[:2] / cube])

    shares = np.linspace(0.0, 1.0, 9)
    speeds = np.sqrt(gravity / radii)
    r, v = (x[0] + (x[1] - x[0]) * shares for x in (radii, speeds))
    angle = np.mean(speeds / radii) * duration * shares
    states = np.stack(
        [r * np.cos(angle), r * np.sin(angle), -v * np.sin(angle), v * np.cos(angle)], 1
    )
    return control.ControlProblem(
        jaxhamel.ODE(rate, 4), jnp.asarray(states[0]), jnp.zeros(0), jnp.asarray(duration * shares),
        lambda t: jnp.zeros(2), (control.ControlEnergy(),), (control.StateAtEnd(q=jnp.asarray(states[-1])),),
        (jnp.asarray(states), jnp.zeros((9, 0))),
    )  # fmt: skip


def of_states(x, rates):
    """The measured sizes of a system with two states and a force, of which only those of the states, x, are known."""
    none, no_rows = np.zeros(0), np.zeros((0, 3))
    return KnownSizes(x, none, none, np.zeros(2), none, rates, no_rows, no_rows)


def test_sizes_follow_the_chain_of_integrators():
    """x′ = v, v′ = f/m over T = 10 s, with x of 1e4 m and m = 1e3 kg: v is of 1e3 m/s and f of 1e5 N."""
    rates = np.array([[0.0, 10.0, 0.0], [0.0, 0.0, 1e-2]])
    sizes = related(of_states(np.array([1e4, 0.0]), rates), np.float64)
    assert sizes is not None
    np.testing.assert_allclose(np.concatenate(sizes[:2]), [1e4, 1e3, 1e5], rtol=0.5)


def test_a_velocity_beside_a_place_of_1e12():
    """The velocity's effect on the rates is found though the residuals at the guess are 1e12: all sizes are 2^40."""
    search = CollocationSearch(COLLOCATION, pushed(1.0, 1e12, 1.0))
    sizes = search.transcription.sizes
    assert sizes is not None
    np.testing.assert_array_equal(np.concatenate([sizes.x, sizes.c]), 2.0**40)


def test_fast_states_count_with_their_own_time():
    """An oscillator of ω = 1e3 /s during 10 s: v has the size ω x, whatever the duration."""
    rates = 10.0 * np.array([[0.0, 1.0, 0.0], [1e6, 0.0, 1.0]])
    sizes = related(of_states(np.array([1.0, 0.0]), rates), np.float64)
    assert sizes is not None
    np.testing.assert_allclose(sizes.x, [1.0, 1e3], rtol=0.5)


@pytest.mark.parametrize("problem", [problems.ball_to_point, problems.ball_obstacle])
def test_problems_in_metres_and_seconds_have_no_sizes(problem):
    """The guess misses their conditions by rounding only. Such residuals are no sizes of states: the search would divide by
    1e-10, and the obstacle's would not converge."""
    search = CollocationSearch(control.Collocation(intervals=6), problem())
    assert search.transcription.sizes is None


@pytest.mark.parametrize(("angle", "size"), [(1e-3, 1.0), (2.5, 1.0), (1.0, 1e6), (1.0, 1e-6)])
def test_a_turn_about_a_principal_axis(angle, size):
    """A body that turns in 1 s with the least ∫ |τ|²/2, which is 6 I² θ². The polynomials about its nodes have rounding
    errors in the rotations about the other axes, whose difference quotients are not derivatives. The torques about these
    axes do no work, and have the size of the torque that turns the body by 1 rad."""
    turned = jnp.array([jnp.cos(angle / 2), 0.0, 0.0, jnp.sin(angle / 2)])
    problem = control.ControlProblem(
        Body(size * jnp.array([1.0, 1.2, 1.5])), jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(3), jnp.array([0.0, 1.0]),
        lambda t: jnp.zeros(3), (control.ControlEnergy(),), (control.StateAtEnd(q=turned, u=jnp.zeros(3)),),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation())
    assert result.certificate.holds
    assert result.certificate.second_order == "strict minimum"
    np.testing.assert_allclose(result.cost, 6 * (1.5 * size * angle) ** 2, rtol=1e-9)
    sizes = result.optimum[0].sizes
    if sizes is not None:
        np.testing.assert_array_equal(sizes.x[:2], 1.0)
        np.testing.assert_allclose(sizes.c[:2], size, rtol=0.5)


def test_weak_relations_give_no_size():
    """A state that moves alone has the size 1e-6. Two pairs of integrators beside it, joined by 1e-8, have the size 1."""
    rates = np.zeros((5, 7))
    rates[0, 2] = rates[1, 3] = rates[2, 5] = rates[3, 6] = 1.0
    rates[0, 3] = rates[1, 2] = 1e-8
    x = np.array([0.0, 0.0, 0.0, 0.0, 1e-6])
    none, no_rows = np.zeros(0), np.zeros((0, 7))
    known = KnownSizes(x, none, none, np.zeros(5), none, rates, no_rows, no_rows, coordinates=2)
    sizes = related(known, np.float64)
    assert sizes is not None
    np.testing.assert_array_equal(np.concatenate([sizes.x[:4], sizes.c]), 1.0)


class Body(jaxhamel.System):
    """A rigid body with torques about its principal axes."""

    inertia: jnp.ndarray
    space = jaxhamel.SO3()
    n_controls = 3

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(self.inertia * v * v)

    def force(self, t, q, v, control):
        return control
