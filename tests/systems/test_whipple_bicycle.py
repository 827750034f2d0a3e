"""The Whipple bicycle: the linear benchmark, Basu-Mandal's state at large angles, ground forces, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

from jaxhamel.mechanics import acceleration, velocity
from jaxhamel.systems import WhippleBicycle
from tests.reference.ball import rotation

# Meijaard et al. 2007, (5.4)–(5.7)
MASS = [[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]]
DAMPING = [[0, 33.86641391492494], [-0.85035641456978, 1.6854039739756]]
GRAVITY = [[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]]
SPEED = [[0, 76.59734589573222], [0, 2.65431523794604]]

# table 2 there: speed: eigenvalues (real ones, then one of a complex pair)
EIGENVALUES = {
    0: (-5.53094371765394, -3.13164324790656, 3.13164324790656, 5.53094371765394),
    1: (-7.11008014637441, -3.13423125066578, 3.52696170990070 + 0.80774027519931j),
    2: (-8.67387984831737, -3.07158645641514, 2.68234517512745 + 1.68066296590676j),
    3: (-10.3510146724592, -2.63366137253665, 1.70675605663973 + 2.31582447384325j),
    4: (-12.1586142657644, -1.42944427361326, 0.413253315211239 + 3.07910818603206j),
    5: (-14.0783896927982, -0.322866429004087, -0.775341882195845 + 4.46486771378823j),
    6: (-16.0853712309803, -0.00406690076970624, -1.52644486584142 + 5.87673060598709j),
}


BENCHMARK = WhippleBicycle.benchmark()


@pytest.fixture(scope="module")
def canonical():
    return [np.asarray(m) for m in jax.jit(WhippleBicycle.canonical_matrices)(BENCHMARK)]


def state_matrix(canonical, speed):
    mass, damping, gravity, stiffness = canonical
    lower = np.hstack([9.81 * gravity + speed**2 * stiffness, speed * damping])
    return np.vstack([np.eye(4)[2:], -np.linalg.solve(mass, lower)])


def test_canonical_matrices(canonical):
    """The benchmark's matrices, by differentiating the nonlinear equations, agree to all published digits."""
    for found, wanted in zip(canonical, (MASS, DAMPING, GRAVITY, SPEED), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-12)


def test_state_matrix_of_sympy(canonical):
    for speed in (0.0, 1.0, 4.6):
        wanted = [
            [
                9.48977444677355,
                -0.891197738059089 * speed**2 - 0.571523173729245,
                -0.105522449805691 * speed,
                -0.330515398992311 * speed,
            ],
            [
                11.7194768719633,
                30.9087533932407 - 1.97171508499972 * speed**2,
                3.67680523332152 * speed,
                -3.08486552743311 * speed,
            ],
        ]
        np.testing.assert_allclose(state_matrix(canonical, speed)[2:], wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("speed", EIGENVALUES)
def test_eigenvalues(canonical, speed):
    found = np.linalg.eigvals(state_matrix(canonical, speed)).astype(complex)
    for wanted in EIGENVALUES[speed]:
        assert np.min(np.abs(found - wanted)) < 1e-11 * max(1, abs(wanted))


def test_speeds_of_stability(canonical):
    """Between the weave and capsize speeds the upright motion is stable."""

    def weave(speed):
        values = np.linalg.eigvals(state_matrix(canonical, speed))
        return np.max(np.real(values[np.abs(np.imag(values)) > 1]))

    def capsize(speed):
        return np.linalg.det(state_matrix(canonical, speed))

    np.testing.assert_allclose(brentq(weave, 4.0, 5.0, xtol=1e-14), 4.2923825363411, atol=2e-12)
    np.testing.assert_allclose(brentq(capsize, 5.0, 7.0, xtol=1e-14), 6.0242620153884, atol=2e-12)


# --- large angles ---------------------------------------------------------------------------------


@jax.jit
def motion(system, q, u):
    """v, u̇, v̇ and the forces of the ground on the wheels."""
    u_dot = acceleration(system, 0.0, q, u)
    v = velocity(system, 0.0, q, u)
    tangent = (system.space.rate(q, v), u_dot)
    _, v_dot = jax.jvp(lambda q, u: velocity(system, 0.0, q, u), (q, u), tangent)
    return v, u_dot, v_dot, system.contact_forces(0.0, q, u)


def axes_of(yaw, roll, pitch):
    """Rz Rx Ry, and Ω of the rates of the three angles, body frame."""

    def turn(axis, angle):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        matrix = np.eye(3, dtype=np.result_type(angle, 1.0))
        matrix[[i, j, i, j], [i, j, j, i]] = (
            np.cos(angle),
            np.cos(angle),
            -np.sin(angle),
            np.sin(angle),
        )
        return matrix

    matrix = turn(2, yaw) @ turn(0, roll) @ turn(1, pitch)
    rates = np.stack([matrix[2], turn(1, pitch)[0], [0, 1.0, 0]], axis=1)
    return matrix, rates


def test_basu_mandals_state():
    """Table 1 of Basu-Mandal, Chatterjee and Papadopoulos 2007: velocities and all nine accelerations.

    There the bicycle heads along −x; ψ = π/2 − lean, φ = π + pitch, ψ_f = −steer.
    """
    z, psi, phi, steer = 0.2440472102925, 0.9501292851472, 3.1257073014894, -0.2311385135743
    hub_dot = np.array([-2.8069345714545, -0.1480982396001, 0.1058778746261])
    theta_d, psi_d, phi_d = 0.7830033527065, 0.6068425835418, -0.0119185528069
    steer_d, rear_d, front_d = -0.4859824687093, 8.9129896614890, 8.0133620584155
    q = BENCHMARK.configuration(np.pi / 2 - psi, steer)
    to_ours = np.array([-1, -1, 1])
    matrix, axes = axes_of(0.0, np.pi / 2 - psi, phi - np.pi)
    np.testing.assert_allclose(rotation(np.asarray(q[0])), matrix, rtol=0, atol=1e-12)
    np.testing.assert_allclose(q[1][2], z, rtol=0, atol=1e-12)
    u = jnp.array([-psi_d, steer_d, rear_d])
    v, u_dot, v_dot, _ = motion(BENCHMARK, q, u)
    omega = axes @ [theta_d, -psi_d, phi_d]
    wanted = [*omega, *(to_ours * hub_dot), steer_d, rear_d, front_d]
    np.testing.assert_allclose(v, wanted, rtol=0, atol=2e-12)

    accelerations = {
        "x": (-v_dot[3], -0.5041626315047),
        "y": (-v_dot[4], -0.3449706619454),
        "z": (v_dot[5], -1.4604528332980),
        "psi": (-u_dot[0], -7.8555281128244),
        "psi_f": (-u_dot[1], -4.6198904039403),
        "beta_r": (u_dot[2], 1.8472554144217),
        "beta_f": (v_dot[8], 2.4548072904550),
    }
    for name, (found, given) in accelerations.items():
        np.testing.assert_allclose(found, given, rtol=0, atol=2e-11, err_msg=name)
    # Ω̇ = axes (θ̈, −ψ̈, φ̈) + (d axes/dt)(θ̇, −ψ̇, φ̇), the derivative by a complex step
    h = 1e-30j
    ahead = axes_of(theta_d * h, np.pi / 2 - psi - psi_d * h, phi - np.pi + phi_d * h)[1]
    turning = (ahead / 1e-30).imag @ [theta_d, -psi_d, phi_d]
    angles = np.linalg.solve(axes, np.asarray(v_dot[:3]) - turning)
    np.testing.assert_allclose(
        angles, [0.8353281706379, 7.8555281128244, 0.1205543897884], rtol=0, atol=2e-11
    )


def test_wheels_carry_the_bicycle():
    """Straight on at any speed there is no acceleration; the loads follow the lever rule, without friction."""
    q = BENCHMARK.configuration(0.0, 0.0, 0.7, [1.0, 2.0])
    v, u_dot, _, force = motion(BENCHMARK, q, jnp.array([0.0, 0.0, 15.0]))
    np.testing.assert_allclose(u_dot, 0.0, atol=1e-12)
    np.testing.assert_allclose(
        v[3:], [4.5 * np.cos(0.7), 4.5 * np.sin(0.7), 0, 0, 15, 4.5 / 0.35], atol=1e-13
    )
    front = 9.81 * (85 * 0.3 + 4 * 0.9 + 3 * 1.02) / 1.02
    wanted = [[0, 0, 9.81 * 94 - front], [0, 0, front]]
    np.testing.assert_allclose(force, wanted, rtol=0, atol=1e-10)


def test_configuration_is_on_the_ground():
    q = BENCHMARK.configuration(0.4, -0.9, 0.3, [1.0, 2.0], [0.5, 0.6])
    contacts = BENCHMARK.contact_points(q)
    np.testing.assert_allclose(contacts[0], [1, 2, 0], rtol=0, atol=1e-14)
    np.testing.assert_allclose(contacts[1, 2], 0.0, atol=1e-14)
    np.testing.assert_array_equal(q[2], [-0.9, 0.5, 0.6])
    np.testing.assert_allclose(rotation(np.asarray(q[0]))[2, 1], np.sin(0.4), rtol=1e-14)
    product = BENCHMARK.frame(0.0, q) @ BENCHMARK.inverse_frame(0.0, q)
    np.testing.assert_allclose(product, np.eye(9), rtol=0, atol=1e-14)


def test_pitch_has_derivatives():
    """Forward mode, reverse mode and central differences agree; upright and straight the derivative is zero by mirror
    symmetry."""
    pitch = lambda x: BENCHMARK.pitch(x[0], x[1])
    x = jnp.array([0.3, 0.2])
    forward, reverse = jax.jit(lambda x: (jax.jacfwd(pitch)(x), jax.grad(pitch)(x)))(x)
    np.testing.assert_allclose(forward, reverse, rtol=1e-13)
    h = 1e-4
    steps = [(pitch(x.at[i].add(h)) - pitch(x.at[i].add(-h))) / (2 * h) for i in range(2)]
    np.testing.assert_allclose(forward, steps, rtol=0, atol=1e-8)
    np.testing.assert_allclose(jax.grad(pitch)(jnp.zeros(2)), 0.0, atol=1e-15)
