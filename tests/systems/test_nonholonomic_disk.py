"""The rolling disk: published accelerations, steady circles, contact force, stability."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.mechanics import acceleration, velocity
from jaxhamel.systems import RollingDisk
from tests.reference.ball import rotation
from tests.systems.motion import inertias, states, unit_quaternions
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    first,
)

COIN = {"radius": 0.05, "mass": 0.3048, "gravity": 9.81}  # Le Saux, Leine and Glocker's disk


@pytest.fixture
def rng():
    return np.random.default_rng(11)


# --- SymPy's rolling disc -------------------------------------------------------------------------

# Its angles turn about z, x', y''; its axis is y of the body; u are components in the body.
CASES = [
    (
        (0.3, 0.1, 1.97, -0.35, 2.27, -0.2, 1.3, 0.15),
        (0.126603940595934, 0.215942571601660, 1.28736069604936, 0.319764288376543),
        (0.0989146857254898, -0.925848952664489, -0.0181350656532944, 2.91695398184589),
        (-0.00992793421754526, 0.0412861634829171),
    ),
    (
        (3.97, -0.28, 8.2, -0.35, 2.27, -0.25, -2.2, 0.62),
        (0.0259159090798597, 0.668041660387416, -2.19283799213811, 0.385441810852219),
        (0.420109283790573, 1.45030568179066, -0.0110924422400793, -8.35617840186040),
        (-0.154098542632173, -0.146102664410010),
    ),
]
OUR_AXES = np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])  # columns: our e_1, e_2, e_3 in theirs


def their_rotation(angles):
    """R_z(q1) R_x(q2) R_y(q3)."""
    turn = lambda i, a: rotation(np.insert(np.sin(a / 2) * np.eye(3)[i], 0, np.cos(a / 2)))
    return turn(2, angles[0]) @ turn(0, angles[1]) @ turn(1, angles[2])


def quaternion_of(matrix):
    """The unit quaternion of a rotation matrix, by its largest component."""
    trace = np.trace(matrix)
    square = np.append(1 + trace, 1 + 2 * np.diag(matrix) - trace) / 4
    skew = np.array([matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], 0.0]) / 4
    skew[2] = (matrix[1, 0] - matrix[0, 1]) / 4
    sums = (matrix + matrix.T) / 4
    table = sums - np.diag(np.diag(sums)) + np.diag(square[1:])
    whole = np.block([[square[:1, None], skew[None]], [skew[:, None], table]])
    largest = np.argmax(square)
    return whole[largest] / np.sqrt(square[largest])


def rates_of_angles(angles, omega):
    """(q1, q2, q3)̇ from the body components: ω = q̇1 e_z + q̇2 e_x' + q̇3 e_y''."""
    sin2, cos2, sin3, cos3 = (f(a) for a in angles[1:] for f in (np.sin, np.cos))
    axes = np.array([[-cos2 * sin3, cos3, 0], [sin2, 0, 1], [cos2 * cos3, sin3, 0]])
    return np.linalg.solve(axes, omega)


@jax.jit
def of_contact(system, q, u):
    """Velocity and acceleration of the contact point on the ground, and u̇ of the body."""

    def rate_of_contact(q, u):
        q_dot = system.space.rate(q, velocity(system, 0.0, q, u))
        return jax.jvp(system.contact_point, (q,), (q_dot,))[1][:2]

    u_dot = acceleration(system, 0.0, q, u)
    q_dot = system.space.rate(q, velocity(system, 0.0, q, u))
    return *jax.jvp(rate_of_contact, (q, u), (q_dot, u_dot)), u_dot


@pytest.mark.parametrize("case", CASES, ids=["A", "B"])
def test_sympys_accelerations(case):
    """q̇ (three angles, contact x, y) and u̇ (three of the body, contact x, y), to 1e-10."""
    state, *published = case
    angles, contact, omega = np.array(state[:3]), jnp.array(state[3:5]), np.array(state[5:])
    system = RollingDisk(0.26, 3.43)
    matrix = their_rotation(angles) @ OUR_AXES
    q = system.configuration(jnp.asarray(quaternion_of(matrix)), contact)
    u = jnp.asarray(omega @ OUR_AXES)
    np.testing.assert_allclose(rotation(np.asarray(q[0])), matrix, atol=1e-14)

    moving, accelerated, u_dot = of_contact(system, q, u)
    found = [*rates_of_angles(angles, omega), *moving, *(OUR_AXES @ u_dot), *accelerated]
    np.testing.assert_allclose(found, np.concatenate(published), rtol=0, atol=1e-10)


# --- steady circles -------------------------------------------------------------------------------

TILT, PATH = np.deg2rad(5.0), 0.5


@pytest.fixture(scope="module")
def circle():
    system = RollingDisk(**COIN)
    q, u = system.steady_rolling(TILT, PATH)
    times = jnp.linspace(0.0, 5.8521737829563, 5)
    return states(system, q, u, times, steps=500)


def test_steady_rate_is_the_published_one():
    """Le Saux et al. (5.10): spin 10.7364981632612 rad/s, ρ of it about the vertical."""
    rate = RollingDisk(**COIN).steady_rate(TILT, PATH)
    np.testing.assert_allclose(rate, 1.0736498163261, rtol=1e-12)
    ratio = 0.05 / 0.5
    spin = 4 * 9.81 / 0.05 * np.sin(TILT) / ((6 - 5 * ratio * np.sin(TILT)) * ratio * np.cos(TILT))
    np.testing.assert_allclose(rate, ratio * np.sqrt(spin), rtol=1e-13)


def test_steady_circle_closes(circle):
    """The centre starts at (R − r sin β, 0, r cos β), stays on its circle and returns after a period."""
    (_, centre), u = circle
    start = np.array([0.5 - 0.05 * np.sin(TILT), 0.0, 0.05 * np.cos(TILT)])
    np.testing.assert_allclose(centre[0], start, atol=1e-15)
    np.testing.assert_allclose(centre[-1], start, rtol=0, atol=1e-9)
    np.testing.assert_allclose(centre[1], [0, start[0], start[2]], rtol=0, atol=1e-9)
    system = RollingDisk(**COIN)
    q, u = first(circle[0]), u[0]
    speed = np.linalg.norm(np.asarray(velocity(system, 0.0, q, u))[3:])
    np.testing.assert_allclose(speed, 0.5321461708034, rtol=1e-12)


def test_steady_circle_contact_force():
    """0.17414401702752 N towards the centre of the circle, N = m g."""
    system = RollingDisk(**COIN)
    force = system.contact_force(0.0, *system.steady_rolling(TILT, PATH))
    np.testing.assert_allclose(force, [-0.17414401702752, 0, 2.990088], rtol=0, atol=1e-11)


def test_steady_rolling_of_a_hoop():
    """For any I = (A, A, C) the lean is constant, and Ω̇ only follows the rotation of the body's axes."""
    system = RollingDisk(0.3, 1.2, [0.054, 0.054, 0.108])
    q, u = system.steady_rolling(0.4, 0.9)
    rate, spin = system.steady_rate(0.4, 0.9), -0.9 / 0.3
    wanted = np.cross(np.asarray(u), float(rate) * spin * np.array([0, 0, 1.0]))
    np.testing.assert_allclose(acceleration(system, 0.0, q, u), wanted, rtol=0, atol=1e-11)


# --- stability ------------------------------------------------------------------------------------


@jax.jit
def leaning_rate(system, x):
    """ẋ of x = (Γ_3, Ω) in axes that lean with the disk but do not turn about its axis, for Γ_1 = 0.

    Steady motions are equilibria there; those axes turn at (Ω_1, Ω_2, Γ_3 Ω_2/Γ_2).
    """
    lean, omega = x[0], x[1:]
    tall = jnp.sqrt(1 - lean * lean)
    turn = jnp.stack([1 + lean, tall, jnp.zeros_like(lean), jnp.zeros_like(lean)])
    q = turn / jnp.sqrt(jnp.sum(turn * turn)), jnp.zeros(3)
    spin = jnp.zeros(3).at[2].set(omega[2] - lean * omega[1] / tall)
    omega_dot = system.closed_form(0.0, q, omega) + jnp.cross(spin, omega)
    return jnp.concatenate([-tall * omega[:1], omega_dot])


linearised = jax.jit(jax.jacfwd(leaning_rate, argnums=1))


def growth(system, omega):
    """The largest real part of an eigenvalue of the upright disk's steady motion at Ω."""
    x = jnp.asarray([0.0, *omega])
    np.testing.assert_allclose(leaning_rate(system, x), 0.0, atol=1e-12)
    return np.max(np.real(np.linalg.eigvals(np.asarray(linearised(system, x)))))


def test_straight_rolling_is_stable_above_g_over_3r():
    critical = np.sqrt(9.81 / (3 * 0.05))
    assert growth(RollingDisk(**COIN), [0, 0, 0.98 * critical]) > 0.5
    assert growth(RollingDisk(**COIN), [0, 0, 1.02 * critical]) < 1e-4


def test_upright_spin_is_stable_above_4g_over_5r():
    critical = np.sqrt(4 * 9.81 / (5 * 0.05))
    assert growth(RollingDisk(**COIN), [0, 0.98 * critical, 0]) > 0.5
    assert growth(RollingDisk(**COIN), [0, 1.02 * critical, 0]) < 1e-4


# --- in general -----------------------------------------------------------------------------------


def random_states(rng):
    return (unit_quaternions(rng, STATES), rng.normal(size=(STATES, 3))), rng.normal(
        size=(STATES, 3)
    )


def test_disk_keeps_energy_and_stays_on_the_ground():
    system = RollingDisk(0.3, 1.2)
    q = system.configuration(jnp.array([0.8, 0.5, 0.2, np.sqrt(0.07)]), jnp.array([0.1, -0.2]))
    path = states(system, q, jnp.array([0.4, 0.9, 6.0]), jnp.linspace(0.0, 2, 5), steps=200)
    assert_kept(system, path, 1e-10)
    lowest = jax.vmap(system.contact_point)(path[0])
    np.testing.assert_allclose(lowest[:, 2], 0.0, atol=1e-11)
    np.testing.assert_allclose(lowest[0], [0.1, -0.2, 0], atol=1e-15)
    assert np.ptp(path[0][1][:, 2]) > 0.01  # the disk leans over and comes back


def test_contact_force_turns_and_carries_the_disk(rng):
    """Newton and Euler in space: m z̈ = F − m g e_3, d(Λ I Ω)/dt = (contact − centre) × F."""
    inertia = inertias(rng)
    system = RollingDisk(0.4, 1.5, inertia, 9.0)
    q, u = jax.tree.map(jnp.asarray, first(random_states(rng)))
    force = np.asarray(system.contact_force(0.0, q, u))
    u_dot = np.asarray(acceleration(system, 0.0, q, u))
    v = velocity(system, 0.0, q, u)
    tangent = (system.space.rate(q, v), u_dot)
    _, v_dot = jax.jvp(lambda q, u: velocity(system, 0.0, q, u), (q, u), tangent)
    np.testing.assert_allclose(1.5 * v_dot[3:], force - [0, 0, 13.5], rtol=0, atol=1e-11)
    omega = np.asarray(u)
    moment = rotation(np.asarray(q[0])) @ (inertia @ u_dot + np.cross(omega, inertia @ omega))
    arm = np.asarray(system.contact_point(q) - q[1])
    np.testing.assert_allclose(moment, np.cross(arm, force), rtol=0, atol=1e-11)
    np.testing.assert_allclose(np.linalg.norm(arm), 0.4, rtol=1e-13)


def test_disk_parameter_gradients(rng):
    system, at = RollingDisk(0.4, 1.5, inertias(rng), 9.0), random_states(rng)
    assert_parameter_gradients_agree(system, *first(at))


def test_default_inertia_is_that_of_a_thin_disk(rng):
    given, default = RollingDisk(0.4, 2.0, [0.08, 0.08, 0.16]), RollingDisk(0.4, 2.0)
    np.testing.assert_allclose(default.inertia_matrix(), given.inertia_matrix(), rtol=1e-15)
    by_mass = jax.grad(lambda system: system.inertia_matrix()[2, 2])(default).mass
    np.testing.assert_allclose(by_mass, 0.08, rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RollingDisk(-1.0, 1.0), "`radius` is -1.*positive"),
        (lambda: RollingDisk(1.0, 0.0), "`mass` is 0.*positive"),
        (lambda: RollingDisk(1.0, 1.0, [1.0, 1, 3]), "`inertia` .*triangle"),
        (lambda: RollingDisk(1.0, 1.0, gravity=np.nan), "`gravity` .*finite"),
        (lambda: RollingDisk(1.0, 1.0, gravity=[0.0, 0, 1]), r"`gravity` has shape \(3,\)"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()
