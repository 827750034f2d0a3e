"""The rolling ball's rates: every route, its closed form and the NumPy reference agree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import quaternion_matrix, quaternion_rate
from jaxhamel.mechanics import ROUTES, acceleration, constraint_force, velocity
from jaxhamel.systems import RollingBall
from jaxhamel.systems._rolling import friction_needed
from tests.reference import ball as rb
from tests.systems.ball import CircularRails, package_of, random_balls, reference_of, two_mass_ball

STATES = 1000
TIME = 0.37


def largest_error(got, wanted):
    """Largest difference of a batch of vectors, relative to the vector's own largest entry."""
    return np.max(np.max(np.abs(got - wanted), axis=-1) / np.max(np.abs(wanted), axis=-1))


def wave(offset, amplitude, frequency, phase):
    return lambda t: offset + amplitude * jnp.sin(frequency * t + phase)


@pytest.mark.parametrize(
    ("n", "kind", "principal", "pushed"),
    [
        (0, "none", True, False),
        (1, "circular", False, True),
        (2, "elliptic", True, False),
        (3, "figure-eight", True, True),
        (4, "straight", False, False),
        (4, "mixed", False, True),
    ],
)
def test_all_routes_equal_closed_form_and_reference(n, kind, principal, pushed):
    rng = np.random.default_rng(n)
    ball, rails, waves, state = random_balls(rng, STATES, n, kind, principal, pushed)

    @jax.jit
    @jax.vmap
    def rates(ball, rails, waves, state):
        system, control = package_of(ball, rails, kind), wave(*waves)
        at = (system, TIME, state[:2], state[2], control)
        found = {route: acceleration(*at, route=route) for route in ROUTES}
        found["closed form"] = system.closed_form(*at[1:])
        return found, system.contact_force(*at[1:]), constraint_force(*at)

    found, contact, multiplier = rates(*jax.tree.map(jnp.asarray, (ball, rails, waves, state)))
    reference, motion = reference_of(ball, rails, waves, kind)
    at = (reference, state[0], state[2], motion(TIME))
    wanted = rb.omega_rate(*at)
    for route, rate in found.items():
        assert largest_error(rate, wanted) < 1e-12, route
    force = rb.contact_force(*at)
    assert largest_error(contact, force) < 1e-12
    # The third axis only sets the scale: the friction can be small where the weight is not.
    both = np.concatenate([multiplier, force[:, 2:]], axis=1)
    assert largest_error(both, force) < 1e-12


# --- one ball, looked at closely ------------------------------------------------------------------


@pytest.fixture
def at():
    """Time, q, u and the control of the two-mass ball in the middle of a motion."""
    rng = np.random.default_rng(5)
    q = rng.normal(size=4)
    position, omega = jnp.array([0.3, -0.2]), jnp.array([0.4, -0.7, 1.1])
    return 0.8, (jnp.asarray(q / np.linalg.norm(q)), position), omega, two_waves


def two_waves(t):
    return 0.3 * jnp.sin(2 * t + jnp.array([0.0, 0.5])) - jnp.pi / 2


def test_rolls_without_slipping(at):
    """The material point of contact is at rest: ż + ω × (−r e_3) = 0."""
    t, q, omega, _ = at
    v = velocity(two_mass_ball(), t, q, omega)
    np.testing.assert_array_equal(v[:3], omega)
    spatial = rb.rotation(np.asarray(q[0])) @ omega
    slip = np.append(v[3:], 0) + np.cross(spatial, [0, 0, -1.0])
    np.testing.assert_allclose(slip, 0, atol=1e-15)


def test_order_of_masses_does_not_matter(at):
    t, q, omega, _ = at
    rails = two_mass_ball().rails
    turned = CircularRails(rails.radius[::-1], rails.normal[::-1], rails.zero[::-1])
    one = two_mass_ball(masses=[1.0, 3.0])
    other = two_mass_ball(masses=[3.0, 1.0], rails=turned)
    wanted = acceleration(one, t, q, omega, two_waves)
    got = acceleration(other, t, q, omega, lambda t: two_waves(t)[::-1])
    np.testing.assert_allclose(got, wanted, rtol=1e-13)


def test_a_mass_of_zero_is_no_mass(at):
    t, q, omega, _ = at
    rails = two_mass_ball().rails
    first = CircularRails(rails.radius[:1], rails.normal[:1], rails.zero[:1])
    with_zero = two_mass_ball(masses=[1.0, 0.0])
    without = two_mass_ball(masses=[1.0], rails=first)
    for rate in (acceleration, RollingBall.closed_form, RollingBall.contact_force):
        wanted = rate(without, t, q, omega, lambda t: two_waves(t)[:1])
        np.testing.assert_allclose(rate(with_zero, t, q, omega, two_waves), wanted, rtol=1e-13)


def test_a_mass_at_rest_is_part_of_the_shell(at):
    """Shell and masses at rest are one rigid ball with their total mass, centre and inertia."""
    t, q, omega, _ = at
    angle = jnp.array([0.4, -1.3])
    ball = two_mass_ball()
    m = np.array([4.0, 1, 1])
    x = np.concatenate([ball.shell_com[None], ball.mass_positions(t, lambda t: angle)])
    com = m @ x / m.sum()
    away = x - com
    square = np.sum(away * away, axis=1)
    inertia = (
        np.diag([1, 1.1, 1.2]) + np.eye(3) * (m @ square) - np.einsum("i,ij,ik->jk", m, away, away)
    )
    rigid = two_mass_ball(
        shell_mass=6.0, shell_inertia=inertia, shell_com=com, masses=np.zeros(0), rails=None
    )
    got = acceleration(ball, t, q, omega, angle)
    np.testing.assert_allclose(got, acceleration(rigid, t, q, omega), rtol=1e-13)


def test_power_of_the_masses(at):
    """dE/dt = Σ θ̇_i ζ_i′ · (force of the ball on mass i) + F_e · ż, with E = T + V of all parts."""
    t, q, omega, control = at
    ball = two_mass_ball(external_force=[0.7, -0.4, 0.3])
    moving = lambda t: ball.mass_positions(t, control)
    rates = lambda t: jax.jvp(moving, (t,), (1.0,))

    def energy(t, q, omega):
        gamma = quaternion_matrix(q)[2][None]
        chi, chi_dot = (jnp.concatenate([x, y[None]]) for x, y in zip(rates(t), shell, strict=True))
        velocity = jnp.cross(jnp.broadcast_to(omega, chi.shape), chi + gamma) + chi_dot
        squared = jnp.sum(velocity * velocity, axis=1)
        mass = jnp.array([1.0, 1.0, 4.0])
        spin = 0.5 * omega @ (ball.shell_inertia * omega)
        return spin + mass @ (0.5 * squared + 9.81 * jnp.sum(chi * gamma, axis=1))

    shell = (ball.shell_com, jnp.zeros(3))
    omega_dot = acceleration(ball, t, q, omega, control)
    q_dot = quaternion_rate(q[0], omega)
    push = jax.jit(lambda x, dx: jax.jvp(energy, x, dx))
    _, rate = push((t, q[0], omega), (1.0, q_dot, omega_dot))

    (chi, first), (_, second) = jax.tree.map(np.asarray, jax.jvp(rates, (t,), (1.0,)))
    rotation = rb.rotation(np.asarray(q[0]))
    gamma, omega, omega_dot = rotation[2], np.asarray(omega), np.asarray(omega_dot)
    inertial = np.cross(omega, np.cross(omega, chi) + 2 * first) + second
    push = 9.81 * gamma + np.cross(omega_dot, chi + gamma) + inertial  # on masses of 1 kg
    centre = rotation @ np.cross(omega, gamma)
    power = np.sum(first * push) + np.dot([0.7, -0.4, 0.3], centre)
    np.testing.assert_allclose(rate, power, rtol=1e-12)


def test_a_constant_control_keeps_the_masses_where_they_are(at):
    t, q, omega, _ = at
    angle = jnp.array([0.1, 0.2])
    got = acceleration(two_mass_ball(), t, q, omega, angle)
    wanted = acceleration(two_mass_ball(), t, q, omega, lambda t: angle)
    np.testing.assert_array_equal(got, wanted)


def test_contact_summary(at):
    """N and |f|/N from the force; finite derivatives where the friction vanishes."""
    ball = two_mass_ball()
    force = np.asarray(ball.contact_force(*at))
    normal, friction = ball.contact(*at)
    np.testing.assert_allclose(normal, force[2], rtol=1e-15)
    np.testing.assert_allclose(friction, np.hypot(force[0], force[1]) / force[2], rtol=1e-14)
    np.testing.assert_allclose(ball.contact_point(at[1]), [0.3, -0.2, 0], atol=0)


def test_a_ball_that_leaves_the_ground_does_not_roll():
    """With a weight above the centre and a spin about the y axis, N = m (g − ρ ω²); where N ≤ 0, no friction
    coefficient is large enough."""
    ball = RollingBall(1.0, 2.0, [0.5, 0.6, 0.7], [0.0, 0.0, 0.4], [], None, 9.81)
    q = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2))

    @jax.jit
    @jax.vmap
    def contact(rate):
        found = lambda w: ball.contact(0.0, q, jnp.stack([0.3 * w, w, 0.2 * w]))
        return *found(rate), jax.grad(lambda w: found(w).friction)(rate)

    h, rates = 1e-3, np.array([2.0, 3.0, 4.0, 6.0, 30.0])
    _, below, _ = contact(jnp.asarray(rates - h))
    _, above, _ = contact(jnp.asarray(rates + h))
    normal, friction, slope = contact(jnp.asarray(rates))
    np.testing.assert_allclose(normal, 2.0 * (9.81 - 0.4 * 1.09 * rates**2), rtol=1e-12)
    touches = rates**2 < 9.81 / (0.4 * 1.09)
    np.testing.assert_array_equal(touches, [True, True, True, False, False])
    assert np.all(np.isfinite(friction[touches]))
    np.testing.assert_allclose(
        slope[touches], (above[touches] - below[touches]) / (2 * h), rtol=1e-5
    )
    np.testing.assert_array_equal(friction[~touches], np.inf)
    np.testing.assert_array_equal(slope[~touches], 0.0)


def test_friction_needed_at_its_edges():
    """Forces upward and zero need no friction; for N = 0 and N < 0 no coefficient is enough; the derivatives are finite
    in all cases."""
    force = jnp.array(
        [[3.0, -4.0, 2.0], [0.0, 0.0, 2.0], [3, 4, 0], [0, 0, 0], [3, 4, -2], [0, 0, -2]]
    )
    np.testing.assert_array_equal(friction_needed(force), [2.5, 0.0, *[np.inf] * 4])
    slopes = jax.jit(jax.vmap(jax.grad(friction_needed)))(force)
    np.testing.assert_allclose(slopes[0], [0.3, -0.4, -1.25], rtol=1e-15)
    np.testing.assert_array_equal(slopes[1:], 0.0)


class CountingRails(eqx.Module):
    """Rails that count how often they are traced."""

    radius: jax.Array
    calls: list = eqx.field(static=True)

    def __call__(self, theta):
        self.calls.append(1)
        ring = jnp.stack([jnp.cos(theta), jnp.zeros_like(theta), jnp.sin(theta)], axis=1)
        return self.radius[:, None] * ring


def test_new_values_compile_nothing(at):
    """Parameters may be lists, integers, NumPy or JAX arrays; new values compile nothing."""
    t, q, omega, _ = at
    calls = []
    angle = jnp.array([0.1, 0.2])

    def rate(**changes):
        ball = two_mass_ball(rails=CountingRails(jnp.array([0.7, 0.8]), calls), **changes)
        return acceleration(ball, t, q, omega, angle)

    first = rate()
    traced = len(calls)
    assert traced > 0
    for changes in (
        {"radius": 2, "masses": [1, 2]},
        {"shell_mass": np.float64(3.0), "shell_com": np.array([0.0, 0.1, 0.2])},
        {"gravity": jnp.array(1.6), "shell_inertia": (1, 1, 1)},
    ):
        assert np.any(rate(**changes) != first)
    assert len(calls) == traced


def test_single_precision(float32):
    ball = two_mass_ball()
    q = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))
    omega = jnp.array([0.4, -0.7, 1.1])
    rate = acceleration(ball, 0.8, q, omega, two_waves)
    closed = ball.closed_form(0.8, q, omega, two_waves)
    assert rate.dtype == closed.dtype == jnp.float32
    np.testing.assert_allclose(rate, closed, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 0.0}, "`radius` .*positive"),
        ({"shell_mass": -1.0}, "`shell_mass` .*positive"),
        ({"shell_inertia": [1.0, 1.0, 3.0]}, "`shell_inertia` .*triangle"),
        ({"shell_inertia": np.ones((2, 2))}, r"`shell_inertia` has shape \(2, 2\)"),
        ({"shell_com": [0.0, 0.0]}, r"`shell_com` has shape \(2,\)"),
        ({"masses": [1.0, -1.0]}, "`masses` .*negative"),
        ({"masses": [1.0, np.nan]}, "`masses` .*finite"),
        ({"masses": 1.0}, r"`masses` has shape \(\)"),
        ({"gravity": np.nan}, "`gravity` .*finite"),
        ({"external_force": [1.0]}, r"`external_force` has shape \(1,\)"),
        ({"rails": None}, "`rails` .*callable"),
        ({"masses": [1.0] * 3}, "`rails` carry 2 masses but `masses` has 3 entries"),
        ({"radius": [1.0, 2.0]}, r"`radius` has shape \(2,\)"),
    ],
)
def test_messages(changes, message):
    with pytest.raises(ValueError, match=message):
        two_mass_ball(**changes)
