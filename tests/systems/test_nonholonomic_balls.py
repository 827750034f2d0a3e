"""Chaplygin's sphere, the ball on a turntable, the ball that does not spin: exact motions, invariants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import hamel_coefficients
from jaxhamel.mechanics import constraint_force, energy, power_balance, velocity
from jaxhamel.systems import BallOnTurntable, ChaplyginSphere, NonSpinningBall, RollingBall
from tests.reference.ball import rotation
from tests.reference.runs import CHAPLYGIN_SPHERE
from tests.systems.motion import inertias, states, unit_quaternions
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    first,
    kept,
)

IDENTITY = jnp.array([1.0, 0, 0, 0])
UP = np.array([0.0, 0, 1])
HERE = jnp.zeros(2)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def random_states(rng, k=3):
    q = unit_quaternions(rng, STATES), rng.normal(size=(STATES, 2))
    return q, rng.normal(size=(STATES, k))


# --- Chaplygin's sphere ---------------------------------------------------------------------------

SPHERE = {"radius": 1.0, "mass": 1.0, "inertia": [1.0, 2.0, 3.0]}


@pytest.fixture(scope="module")
def rolling():
    start = ((IDENTITY, HERE), jnp.array([0.7, 0.2, -0.5]))
    return states(ChaplyginSphere(**SPHERE), *start, jnp.array([0.0, 1, 10]), steps=300)


def test_sphere_numbers(rolling):
    (q, z), u = rolling
    wanted_q, wanted_u, wanted_z = zip(*CHAPLYGIN_SPHERE.values(), strict=True)
    np.testing.assert_allclose(q[1:], wanted_q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(u[1:], wanted_u, rtol=0, atol=1e-11)
    np.testing.assert_allclose(z[1:], wanted_z, rtol=0, atol=1e-11)


def test_sphere_keeps_energy_and_momentum_about_the_contact(rolling):
    system = ChaplyginSphere(**SPHERE)
    found = kept(system, rolling)
    np.testing.assert_allclose(found["energy"], 0.925, rtol=0, atol=1e-12)
    momentum = found["momentum about the contact"]
    np.testing.assert_allclose(momentum, [[1.4, 0.6, -1.5]] * 3, rtol=0, atol=1e-11)


def test_sphere_keeps_its_density(rng):
    """div(μ X) = 0 for the motion X of (Ω, Γ); without μ it is not zero."""
    system = ChaplyginSphere(1.2, 0.8, inertias(rng))

    def with_vertical(gamma):
        """A configuration with the vertical Γ in the body: e_3 turned to Γ backwards, any scale."""
        w = jnp.sqrt(jnp.sum(gamma * gamma)) + gamma[2]
        q = jnp.stack([w, gamma[1], -gamma[0], jnp.zeros_like(w)])
        return q / jnp.sqrt(jnp.sum(q * q)), HERE

    def motion(x, weigh):
        u, gamma = x[:3], x[3:]
        q = with_vertical(gamma)
        rate = jnp.concatenate([system.closed_form(0.0, q, u), jnp.cross(gamma, u)])
        return rate * (system.density(q) if weigh else 1.0)

    gamma = rng.normal(size=3)
    x = jnp.asarray(np.concatenate([rng.normal(size=3), gamma / np.linalg.norm(gamma)]))
    matrix = rotation(np.asarray(with_vertical(x[3:])[0]))
    np.testing.assert_allclose(matrix[2], x[3:], atol=1e-14)
    divergence = jax.jit(
        lambda x: [jnp.trace(jax.jacfwd(motion)(x, weigh)) for weigh in (True, False)]
    )(x)
    assert abs(divergence[0]) < 1e-12
    assert abs(divergence[1]) > 1e-2


def test_sphere_is_an_empty_rolling_ball(rng):
    """The system of Putkaradze and Rogers without masses, its centre of mass in its centre."""
    inertia, at = inertias(rng), random_states(rng)
    empty = RollingBall(1.3, 0.7, inertia, [0, 0, 0], [])
    for q, u in ((jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), at)) for i in range(2)):
        wanted = empty.closed_form(0.0, q, u)
        got = ChaplyginSphere(1.3, 0.7, inertia).closed_form(0.0, q, u)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def test_sphere_parameter_gradients(rng):
    system, at = ChaplyginSphere(1.2, 0.8, inertias(rng)), random_states(rng)
    assert_parameter_gradients_agree(system, *first(at))


# --- the ball on a turntable ----------------------------------------------------------------------

SOLID = {"radius": 0.5, "mass": 2.0, "inertia": 0.4 * 2.0 * 0.25, "turn_rate": 3.0}


@pytest.fixture(scope="module")
def orbit():
    """A solid ball on a table at n = 3 rad/s, over one of its circles, of period 2π/(2n/7)."""
    start = ((IDENTITY, jnp.array([0.4, -0.3])), jnp.array([0.6, -1.1, 0.8]))
    times = jnp.linspace(0.0, 7 * 2 * jnp.pi / (2 * 3.0), 8)
    return times, states(BallOnTurntable(**SOLID), *start, times, steps=60)


def test_turntable_two_sevenths(orbit):
    """Weltner 1979: a closed circle after 7/2 turns of the table, whatever the start."""
    _, ((_, z), _) = orbit
    np.testing.assert_allclose(z[-1], z[0], rtol=0, atol=1e-11)
    assert np.max(np.abs(z[1:-1] - z[:1])) > 0.5
    chord = np.linalg.norm(np.diff(z, axis=0), axis=1)
    np.testing.assert_allclose(chord, chord[0], rtol=1e-10)
    np.testing.assert_allclose(BallOnTurntable(**SOLID).orbit_rate(), 3.0 * 2 / 7, rtol=1e-15)
    shell = BallOnTurntable(0.5, 2.0, 2 / 3 * 2.0 * 0.25, 3.0)
    np.testing.assert_allclose(shell.orbit_rate(), 3.0 * 2 / 5, rtol=1e-15)


def test_turntable_solution_and_invariants(orbit):
    system, (times, path) = BallOnTurntable(**SOLID), orbit
    (_, z), _ = path
    start = first(path)
    wanted = np.array([system.solution(t, *start) for t in times])
    np.testing.assert_allclose(z, wanted, rtol=0, atol=1e-11)
    assert_kept(system, path, 1e-11)


def test_turntable_velocity_does_not_slip(orbit):
    """The lowest point of the ball moves with the table."""
    system, (_, path) = BallOnTurntable(**SOLID), orbit
    q, u = jax.tree.map(lambda x: x[3], path)
    v = np.asarray(velocity(system, 0.0, q, u))
    omega = rotation(np.asarray(q[0])) @ v[:3]
    lowest = np.append(v[3:], 0.0) + np.cross(omega, -0.5 * UP)
    table = np.cross(3.0 * UP, np.append(q[1], 0.0))
    np.testing.assert_allclose(lowest, table, atol=1e-13)
    np.testing.assert_allclose(system.centre_velocity(q, u), v[3:], atol=1e-13)


def test_turntable_power_and_friction(orbit):
    """Friction m z̈ = m κ e_3 × ż; its power at the table's velocity is all that changes the energy."""
    system, (_, path) = BallOnTurntable(**SOLID), orbit
    q, u = jax.tree.map(lambda x: x[2], path)
    z_dot = np.asarray(system.centre_velocity(q, u))
    friction = 2.0 * (3.0 * 2 / 7) * np.array([-z_dot[1], z_dot[0]])
    np.testing.assert_allclose(constraint_force(system, 0.0, q, u), friction, atol=1e-12)
    balance = power_balance(system, 0.0, q, u)
    table = 3.0 * np.array([-q[1][1], q[1][0]])
    assert abs(friction @ table) > 0.1
    np.testing.assert_allclose(balance.rate, friction @ table, rtol=1e-11)
    np.testing.assert_allclose(balance.constraint, friction @ table, rtol=1e-11)
    np.testing.assert_allclose(balance.force, 0.0, atol=1e-13)


def test_turntable_at_rest_is_a_table(rng):
    system = BallOnTurntable(0.5, 2.0, 0.2, 0.0)
    q, u = first(random_states(rng))
    rate = system.closed_form(0.0, jax.tree.map(jnp.asarray, q), jnp.asarray(u))
    np.testing.assert_allclose(rate, 0.0, atol=1e-14)


def test_turntable_parameter_gradients(rng):
    system, at = BallOnTurntable(0.5, 2.0, 0.3, -1.7), random_states(rng)
    assert_parameter_gradients_agree(system, *first(at))


# --- the ball that does not spin ------------------------------------------------------------------


def homogeneous(radius=0.5, mass=2.0):
    return NonSpinningBall(radius, mass, [0.4 * mass * radius**2] * 3)


def centripetal(size, rate, t):
    return -size * jnp.stack([jnp.cos(rate * t), jnp.sin(rate * t)])


def round_a_circle(system, radius, rate=1.0):
    """The state after one round, under the force that keeps a homogeneous ball on a circle about the origin."""
    inert = system.mass + system.inertia[0] / system.radius**2
    force = jax.tree_util.Partial(centripetal, inert * rate**2 * radius, jnp.asarray(rate))
    start = (IDENTITY, jnp.array([radius, 0.0])), jnp.array([0.0, radius * rate])
    times = jnp.array([0.0, 2 * jnp.pi / rate])
    return jax.tree.map(lambda x: x[-1], states(system, *start, times, force, jnp.asarray(150)))


def test_non_spinning_ball_round_a_circle():
    """Λ = exp(2π ê_3) exp(T (ω_0 − e_3 rate)^): a turn by 2π √(1 + (R/r)²) about that axis."""
    system = homogeneous()
    (q, z), _ = round_a_circle(system, 0.8)
    np.testing.assert_allclose(z, [0.8, 0.0], rtol=0, atol=1e-10)
    axis = np.array([-0.8 / 0.5, 0, 0]) - UP  # ω_0 = e_3 × ż/r
    angle = 2 * np.pi * np.sqrt(1 + (0.8 / 0.5) ** 2)
    np.testing.assert_allclose(system.turn_of_circle(0.8), angle, rtol=1e-14)
    quaternion = np.append(np.cos(angle / 2), np.sin(angle / 2) * axis / np.linalg.norm(axis))
    np.testing.assert_allclose(rotation(np.asarray(q)), rotation(quaternion), rtol=0, atol=1e-10)


def test_non_spinning_ball_area_rule():
    """A small loop turns the ball by −S/r² about the vertical, to higher order in the radius."""
    for small in (0.01, 0.02):
        (q, _), _ = round_a_circle(homogeneous(), small)
        turn = 2 * np.arctan2(float(q[3]), float(q[0]))
        wanted = -np.pi * small**2 / 0.5**2
        np.testing.assert_allclose(turn, wanted, rtol=2 * (small / 0.5) ** 2)
        assert (
            abs(float(q[1])) < 20 * small**3
        )  # the other components of the rotation are of third order


def test_non_spinning_ball_curvature():
    """Müller 2023, (4.13): γ^3_54 = 1/R² for the one-forms of (4.12), here in the space frame."""
    system = homogeneous(radius=0.7)
    q = IDENTITY, HERE

    def frame(q):
        """(ω + A ż, ż), from the package's slip: ω_y − ẋ/R = −slip_x/R, ω_x + ẏ/R = slip_y/R."""
        to_spin = jnp.array([[0, 1 / 0.7, 0], [-1 / 0.7, 0, 0], [0, 0, 1.0]])
        rows = system.frame(0.0, q)
        return jnp.concatenate([to_spin @ rows[:3], rows[3:]])

    gamma = jax.jit(lambda q: hamel_coefficients(frame, q, system.space))(q)
    np.testing.assert_allclose(gamma[2, 4, 3], 1 / 0.7**2, rtol=1e-13)
    np.testing.assert_allclose(gamma[2, 3, 4], -1 / 0.7**2, rtol=1e-13)
    np.testing.assert_allclose(gamma[:2, 3:, 3:], 0.0, atol=1e-13)


def test_non_spinning_ball_goes_straight():
    system, u = homogeneous(), jnp.array([0.3, -0.4])
    (_, z), end = states(system, (IDENTITY, HERE), u, jnp.array([0.0, 2.0]), steps=50)
    np.testing.assert_allclose(end[-1], u, atol=1e-13)
    np.testing.assert_allclose(z[-1], 2 * u, atol=1e-13)


def test_non_spinning_ball_does_not_spin_and_keeps_energy(rng):
    """For an unbalanced ball ω_3 = 0, nothing slips, the energy is conserved, and the path is not straight."""
    system = NonSpinningBall(0.8, 1.1, inertias(rng))
    path = states(system, (IDENTITY, HERE), jnp.array([0.6, -0.9]), jnp.linspace(0.0, 6, 4))
    assert_kept(system, path, 1e-11)
    q, u = jax.tree.map(lambda x: x[2], path)
    v = np.asarray(velocity(system, 0.0, q, u))
    omega = rotation(np.asarray(q[0])) @ v[:3]
    np.testing.assert_allclose(omega, np.cross(UP, np.append(u, 0)) / 0.8, atol=1e-13)
    np.testing.assert_allclose(system.angular_velocity(u), omega, atol=1e-13)
    assert abs(path[1][-1, 0] - 0.6) > 1e-2
    own = system.invariants(0.0, q, u, None)["energy"]
    np.testing.assert_allclose(own, energy(system, 0.0, q, u), rtol=1e-13)


def test_non_spinning_ball_is_chaplygins_sphere_held_by_a_torque(rng):
    """With λ_3 about the vertical put into the equation of the sphere, its Ω̇ is the ball's."""
    inertia = inertias(rng)
    system, sphere = NonSpinningBall(0.8, 1.1, inertia), ChaplyginSphere(0.8, 1.1, inertia)
    q = jnp.asarray(unit_quaternions(rng)), HERE
    u = jnp.array([0.6, -0.9])
    torque = constraint_force(system, 0.0, q, u)[2]
    matrix = rotation(np.asarray(q[0]))
    omega = matrix.T @ np.asarray(system.angular_velocity(u))
    about = inertia + 1.1 * 0.64 * (np.eye(3) - np.outer(matrix[2], matrix[2]))
    rate = sphere.closed_form(0.0, q, jnp.asarray(omega))
    in_space = matrix @ (rate + np.linalg.solve(about, torque * matrix[2]))
    z_ddot = np.asarray(system.closed_form(0.0, q, u))
    assert abs(torque) > 1e-2
    np.testing.assert_allclose(in_space, np.cross(UP, np.append(z_ddot, 0)) / 0.8, atol=1e-12)


def test_non_spinning_ball_parameter_gradients(rng):
    system, at = NonSpinningBall(0.8, 1.1, inertias(rng)), random_states(rng, 2)
    assert_parameter_gradients_agree(system, *first(at))


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ChaplyginSphere(0.0, 1.0, [1.0, 1, 1]), "`radius` is 0.*positive"),
        (lambda: ChaplyginSphere(1.0, -1.0, [1.0, 1, 1]), "`mass` is -1.*positive"),
        (lambda: ChaplyginSphere(1.0, 1.0, [1.0, 1, 3]), "`inertia` .*triangle"),
        (lambda: BallOnTurntable(1.0, 1.0, 0.0, 1.0), "`inertia` is 0.*positive"),
        (lambda: BallOnTurntable(1.0, 1.0, [1.0, 1, 1], 1.0), r"`inertia` has shape \(3,\)"),
        (lambda: BallOnTurntable(1.0, 1.0, 1.0, np.nan), "`turn_rate` .*finite"),
        (lambda: NonSpinningBall(1.0, 0.0, [1.0, 1, 1]), "`mass` is 0.*positive"),
        (lambda: NonSpinningBall(1.0, 1.0, 0.4), r"`inertia` has shape \(\)"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_control_that_is_no_force_is_refused():
    with pytest.raises(ValueError, match="horizontal force"):
        homogeneous().check_control(0.0, lambda t: jnp.zeros(3))


def test_inverse_frames(rng):
    q = jax.tree.map(jnp.asarray, first(random_states(rng))[0])
    for system in (ChaplyginSphere(**SPHERE), BallOnTurntable(**SOLID), homogeneous()):
        product = system.frame(0.0, q) @ system.inverse_frame(0.0, q)
        np.testing.assert_allclose(product, np.eye(5), atol=1e-14)
