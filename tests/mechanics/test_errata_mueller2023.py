"""Counter-examples to printed equations of Müller 2023: the printed form, the corrected form, and the one that gives
the motion.

The right values come from closed forms of systems, which their own tests derive and compare with every route.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import SE3, SO3, curvature, distribution, hamel_coefficients
from jaxhamel.mechanics import acceleration
from jaxhamel.systems import FreeRigidBody, NonSpinningBall, Satellite, SatelliteMixed
from tests.mechanics.printed_systems import Particle

EPSILON = np.asarray(jax.jit(SO3().structure_constants)())


class PushedParticle(Particle):
    """The particle with a force along x."""

    def force(self, t, q, v, control):
        return jnp.stack([jnp.zeros_like(control), control, jnp.zeros_like(control)])


def test_trivial_bundle():
    """(3.12), (3.14), (3.15): ẍ at y = 0.8, (ẋ, ẏ) = (1.2, 0.7), g = 9.81 and a force F along x."""
    y, xd, yd, g = 0.8, 1.2, 0.7, 9.81
    q, rdot = jnp.asarray([0.3, -1.0, y]), jnp.asarray([xd, yd])

    def motion(F):
        return acceleration(PushedParticle(jnp.asarray(g)), 0.0, q, rdot, jnp.asarray(F))[0]

    A, B, momentum, by_s = -y, -1.0, y * xd, -g  # ∂L/∂ṡ, ∂L/∂s
    inertia, rate = 1 + y * y, 2 * y * xd * yd  # d/dt ∂ℒ/∂ẋ = inertia ẍ + rate
    right = -(rate + momentum * B * yd + A * by_s) / inertia
    np.testing.assert_allclose(motion(0.0), right, rtol=1e-13)
    np.testing.assert_allclose(right, -5.19512, atol=1e-5)
    printed_3_12 = -(rate + by_s * B * yd) / inertia  # ∂ℒ/∂s for ∂ℒ/∂ṡ, and no A ∂ℒ/∂s
    np.testing.assert_allclose(printed_3_12, -5.00671, atol=1e-5)
    printed_3_14 = -(rate + A * by_s + by_s * B * yd) / inertia
    np.testing.assert_allclose(printed_3_14, -9.79207, atol=1e-5)
    # (3.15): ẍ ∓ A (s̈ + g) = 0 with s̈ = y ẍ + ẏ ẋ
    right_3_15 = A * (xd * yd + g) / (1 - A * y)
    printed_3_15 = -A * (xd * yd + g) / (1 + A * y)
    np.testing.assert_allclose(right_3_15, right, rtol=1e-13)
    np.testing.assert_allclose(printed_3_15, 23.66667, atol=1e-5)
    # right sides: A^a_I Q_a of (3.12), A^α_I Q_α of (3.15) know nothing of F; F^a_I Q_a = Q_I − A^α_I Q_α does
    np.testing.assert_allclose(motion(2.0) - motion(0.0), 2.0 / inertia, rtol=1e-12)


def test_order_of_the_structure_constants():
    """(1.1) prints +∂ℓ/∂Ω^β c^β_αλ Ω^λ, where (5.12) has −: a free body would turn the wrong way."""
    inertia, Omega = np.array([1.0, 2.0, 3.0]), np.array([0.3, -0.2, 0.5])
    body = FreeRigidBody(inertia)
    right = acceleration(body, 0.0, SO3().identity(), jnp.asarray(Omega))
    printed = np.einsum("b,bal,l->a", inertia * Omega, EPSILON, Omega) / inertia
    np.testing.assert_allclose(right, [0.1, 0.15, 0.02], atol=1e-15)
    np.testing.assert_allclose(printed, -right, atol=1e-15)


RADIUS, MASS = 0.4, 1.3
A_BALL = np.array([[0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]]) / RADIUS
B_BALL = np.array([[0.0, -1.0], [1.0, 0.0]]) / RADIUS**2  # B^3_IJ


def test_ball_connection():
    """ω = −A ṙ with A^α_I = −ε_{α3I}/R keeps the contact point at rest; with the sign of (4.12) it slips at 2 |ṙ|."""
    rdot, rho = np.array([0.6, 0.8]), np.array([0.0, 0.0, RADIUS])
    slip = lambda A: np.array([*rdot, 0.0]) + np.cross(rho, -A @ rdot)
    np.testing.assert_allclose(slip(A_BALL), 0.0, atol=1e-15)
    printed = np.stack([EPSILON[:, 2, 0], EPSILON[:, 2, 1]], axis=1) / RADIUS
    np.testing.assert_allclose(printed, -A_BALL)
    np.testing.assert_allclose(np.linalg.norm(slip(printed)), 2.0, rtol=1e-14)
    curvature = -np.einsum("abm,bi,mj->aij", EPSILON, A_BALL, A_BALL)
    np.testing.assert_allclose(curvature[2], B_BALL)
    # (4.13): γ^3_IJ = A^Ī_J/R with the printed A, so −A^Ī_J/R with the right one
    np.testing.assert_allclose(curvature[2], -A_BALL[:2] / RADIUS)


def test_ball_equations():
    """(4.9): the curvature's term is −∂ℓ/∂u B ṙ on the right; (4.15): the metric is m δ + Θ A A."""
    ball = NonSpinningBall(RADIUS, MASS, [0.05, 0.08, 0.1])
    turn = SO3().exp(jnp.asarray([0.3, -1.0, 0.4]))
    rdot = np.array([1.5, -2.0])
    rotation = np.asarray(SO3().matrix(turn))
    theta = rotation @ np.diag(ball.inertia) @ rotation.T
    omega = -A_BALL @ rdot
    metric = MASS * np.eye(2) + A_BALL.T @ theta @ A_BALL
    metric_rate = A_BALL.T @ rate_of_inertia(theta, omega) @ A_BALL
    # −E_I(ℓ) at fixed u, ṙ: Θ changes along −A_I in space
    along = [omega @ rate_of_inertia(theta, -A_BALL[:, i]) @ omega / 2 for i in range(2)]
    bias = metric_rate @ rdot - np.array(along)
    turning = (theta @ omega)[2] * B_BALL @ rdot
    right = ball.closed_form(0.0, (turn, jnp.zeros(2)), jnp.asarray(rdot))
    np.testing.assert_allclose(np.linalg.solve(metric, -bias - turning), right, atol=1e-13)
    printed = np.linalg.solve(metric, -bias + turning)
    np.testing.assert_allclose(right, [-0.93052, -0.69842], atol=1e-5)
    np.testing.assert_allclose(printed, [-2.79155, -2.09525], atol=1e-5)

    homogeneous = NonSpinningBall(RADIUS, MASS, [0.1] * 3)
    push = jnp.asarray([0.3, 0.1])
    found = homogeneous.closed_form(0.0, (turn, jnp.zeros(2)), jnp.asarray(rdot), push)
    np.testing.assert_allclose(found, push / (MASS + 0.1 / RADIUS**2), rtol=1e-13)
    np.testing.assert_allclose(push / (MASS - 0.1 / RADIUS**2), [0.444444, 0.148148], atol=1e-6)


def rate_of_inertia(theta, omega):
    """Θ̇ = ω̂ Θ − Θ ω̂ for a body rotating with ω, in space axes."""
    turning = np.einsum("aib,i->ab", EPSILON, omega)
    return turning @ theta - theta @ turning


WHEELS = np.array([0.3, 0.4, 0.5])
THETA = np.array([[2.0, 0.1, 0.0], [0.1, 2.5, 0.2], [0.0, 0.2, 1.7]])
MIXED = SatelliteMixed(np.eye(3), WHEELS, mass=20.0, inertia=THETA)
OMEGA, SPIN = np.array([0.3, -0.2, 0.5]), np.array([10.0, -4.0, 6.0])


def mixed_acceleration(angle, torque):
    q = ((SO3().identity(), jnp.zeros(3)), jnp.asarray(angle))
    u = jnp.concatenate([OMEGA, jnp.zeros(3), SPIN])
    found = np.asarray(MIXED.closed_form(0.0, q, u, jnp.asarray(torque)))
    return found[:3], found[6:]


def test_dots_of_the_satellite():
    """(5.18), (5.21) as extracted: θ φ̇ + ω × θ φ. With φ̈ and φ̇ they are the motion; with angles and rates not."""
    angle = np.array([0.7, -1.0, 0.2])
    omega_dot, spin_dot = mixed_acceleration(angle, np.array([0.1, -0.2, 0.3]))
    gyroscopic = np.cross(OMEGA, THETA @ OMEGA)
    right = np.linalg.solve(THETA, -gyroscopic - WHEELS * spin_dot - np.cross(OMEGA, WHEELS * SPIN))
    np.testing.assert_allclose(right, omega_dot, atol=1e-14)
    printed = np.linalg.solve(THETA, -gyroscopic - WHEELS * SPIN - np.cross(OMEGA, WHEELS * angle))
    np.testing.assert_allclose(omega_dot, [-0.17980, -0.17332, -0.32528], atol=1e-5)
    np.testing.assert_allclose(printed, [-1.64161, 0.80216, -1.81614], atol=1e-5)


def test_sign_of_the_locked_velocity():
    """Θ ω_loc is the angular momentum Θ ω + θ φ̇ with ω_loc = ω + A φ̇ (5.5), not with the minus below (5.22)."""
    A = np.linalg.solve(THETA, np.diag(WHEELS))
    momentum = THETA @ OMEGA + WHEELS * SPIN
    np.testing.assert_allclose(THETA @ (OMEGA + A @ SPIN), momentum, atol=1e-14)
    np.testing.assert_allclose(momentum, [3.58, -1.97, 3.81], atol=1e-14)
    np.testing.assert_allclose(THETA @ (OMEGA - A @ SPIN), [-2.42, 1.23, -2.19], atol=1e-14)


def test_shape_equations_with_momentum():
    """Section 6(c): with a momentum, (6.3) lacks γ^β_Iα Ω^α; (6.4) has the curvature with the other sign as well."""
    torque = np.array([0.1, -0.2, 0.3])
    _, right = mixed_acceleration(np.zeros(3), torque)
    A = np.linalg.solve(THETA, np.diag(WHEELS))
    B = np.einsum("abm,bi,mj->aij", EPSILON, A, A)
    E = np.einsum("bad,di->bai", EPSILON, A)
    Omega = OMEGA + A @ SPIN
    Pi = THETA @ Omega
    inertia = np.diag(WHEELS) - A.T @ THETA @ A
    by_curvature, by_locked = (
        np.einsum("b,bij,j->i", Pi, B, SPIN),
        np.einsum("b,bai,a->i", Pi, E, Omega),
    )
    full = np.linalg.solve(inertia, torque - by_curvature - by_locked)
    np.testing.assert_allclose(full, right, atol=1e-12)
    printed_6_3 = np.linalg.solve(inertia, torque - by_curvature)
    printed_6_4 = np.linalg.solve(inertia, torque + by_curvature)
    np.testing.assert_allclose(right, [0.51314, -0.32668, 0.92528], atol=1e-5)
    np.testing.assert_allclose(printed_6_3, [0.16751, -0.99893, 0.92702], atol=1e-5)
    np.testing.assert_allclose(printed_6_4, [0.63142, -0.24941, 0.81437], atol=1e-5)


def test_spinning_wheel_beside_the_origin():
    """(5.26)–(5.27): a wheel about e_3 with its centre at d has no linear momentum, and the angular momentum J e_3, summed
    over a ring of points; K_i = M^i (e_i, 0) gives −m d × e_3 and J + m d² instead."""
    mass, rim, d = 2.0, 0.1, np.array([0.3, 0.0, 0.0])
    angles = 2 * np.pi * np.arange(12) / 12
    arm = rim * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    velocity = np.cross([0.0, 0.0, 1.0], arm)  # at φ̇ = 1, the hull at rest
    linear = mass / 12 * np.sum(velocity, axis=0)
    angular = mass / 12 * np.sum(np.cross(d + arm, velocity), axis=0)
    inertia = mass * rim**2
    satellite = Satellite(
        [[0.0, 0.0, 1.0]],
        [inertia],
        mass=20.0,
        inertia=[1.0, 1.2, 0.9],
        wheel_masses=[mass],
        wheel_positions=[d],
        wheel_transverse_inertias=[inertia / 2],
    )
    coupling = np.asarray(satellite.coupling())[:, 0]
    np.testing.assert_allclose(coupling, [*angular, *linear], atol=1e-15)
    lever = np.cross(d, np.eye(3)).T  # d̂
    about_origin = np.diag([inertia / 2, inertia / 2, inertia]) - mass * lever @ lever
    axis = np.array([0.0, 0.0, 1.0])
    printed = np.concatenate([about_origin @ axis, -mass * lever @ axis])
    np.testing.assert_allclose(printed, [0, 0, inertia + mass * 0.09, 0, 0.6, 0], atol=1e-15)


def test_coupling_of_translation_and_rotation():
    """(5.30), (5.32): the Coriolis term is −m (ω × v) × d; ω̃ ṽ d as printed is ω × (v × d)."""
    body = Satellite(
        [[0.0, 0.0, 1.0]],
        [0.02],
        mass=20.0,
        inertia=[1.0, 1.2, 0.9],
        com=[0.1, -0.2, 0.3],
        wheel_masses=[0.0],
        wheel_positions=[[0.0, 0.0, 0.0]],
        wheel_transverse_inertias=[0.01],
    )
    omega, v = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -0.7])
    L = np.asarray(body.locked_inertia())
    q = (jnp.asarray([1.0, 0, 0, 0, 0, 0, 0]), jnp.zeros(1))
    u = jnp.asarray([*omega, *v, -omega[2]])  # the wheel's own momentum is zero: a rigid body
    rate = np.asarray(body.closed_form(0.0, q, u))
    m, d, theta = 20.0, np.asarray(body.com), L[:3, :3] - 0.02 * np.diag([0, 0, 1])
    common = theta @ rate[:3] + m * np.cross(d, rate[3:6]) + np.cross(omega, theta @ omega)
    right = common - m * np.cross(np.cross(omega, v), d)
    printed = common - m * np.cross(omega, np.cross(v, d))
    np.testing.assert_allclose(right, 0.0, atol=1e-12)
    np.testing.assert_allclose(printed, [2.16, -0.24, 2.4], atol=1e-12)


class ScaledParticle(PushedParticle):
    """The same constraint with A_1 = 2: u = 2 (ṡ − y ẋ)."""

    def frame(self, t, q):
        return super().frame(t, q).at[0].multiply(2.0)


def test_equations_before_a_connection_is_chosen():
    """(3.6): the derivative is by u^α, not ṡ^α, where A_1 ≠ 1, and + B^α_I ∂ℒ/∂s^α is missing: ẍ = 0 as printed."""
    y, xd, yd, g = 0.8, 1.2, 0.7, 9.81
    q, rdot = jnp.asarray([0.3, -1.0, y]), jnp.asarray([xd, yd])
    system = ScaledParticle(jnp.asarray(g))
    found = acceleration(system, 0.0, q, rdot, jnp.asarray(0.0))[0]
    gamma = float(hamel_coefficients(lambda q: system.frame(0.0, q), q)[0, 1, 2])
    np.testing.assert_allclose(gamma, -2.0, atol=1e-14)
    inertia, rate, by_sdot, by_s, B_x = 1 + y * y, 2 * y * xd * yd, y * xd, -g, y
    by_u = by_sdot / 2  # ∂ℒ/∂u = ∂L/∂ṡ A_1⁻¹
    right = -(rate - by_s * B_x + by_u * gamma * yd) / inertia
    np.testing.assert_allclose(found, right, rtol=1e-13)
    np.testing.assert_allclose(right, -5.19512, atol=1e-5)
    np.testing.assert_allclose(-(rate + by_sdot * gamma * yd) / inertia, 0.0, atol=1e-14)
    without_fibre = -(rate + by_u * gamma * yd) / inertia
    np.testing.assert_allclose(without_fibre, -0.40976, atol=1e-5)


def test_integrability_is_in_the_greek_coefficients():
    """After (2.12): integrable iff γ^α_IJ = 0. γ^K_IJ, as printed, is zero for ṡ = y ẋ, which is not integrable; and the
    kernel of the whole regular A is zero, the distribution is that of its rows A^α."""
    q = jnp.asarray([0.3, -1.0, 0.8])
    system = PushedParticle(jnp.asarray(9.81))
    gamma = np.asarray(hamel_coefficients(lambda q: system.frame(0.0, q), q))
    np.testing.assert_allclose(gamma[1:, 1:, 1:], 0.0, atol=1e-15)  # γ^K_IJ
    np.testing.assert_allclose(gamma[0, 1, 2], -1.0, atol=1e-15)  # γ^α_IJ
    rows = lambda q: system.frame(0.0, q)[:1]
    assert not distribution(rows, q).holonomic
    assert np.linalg.matrix_rank(system.frame(0.0, q)) == 3


def test_curvature_without_coordinates():
    """Sections 3(b), 4(b): d𝒜(X, Y) − [𝒜(X), 𝒜(Y)] is −γ_IJ X^I Y^J; with γ of (4.3) it is −d𝒜 + [𝒜, 𝒜]."""
    weights = jnp.asarray(np.random.default_rng(4).normal(size=(3, 2, 2)))
    connection = lambda r: jnp.tensordot(weights, jnp.sin(r), axes=1)
    r, X, Y = jnp.asarray(np.random.default_rng(5).normal(size=(3, 2)))
    along = lambda field, by: jax.jvp(lambda r: connection(r) @ field, (r,), (by,))[1]
    exterior = along(Y, X) - along(X, Y)  # d𝒜(X, Y) of constant fields
    bracket = np.cross(connection(r) @ X, connection(r) @ Y)
    gamma = np.asarray(curvature(connection, r, SO3()))
    of_fields = np.einsum("aij,i,j->a", gamma, X, Y)
    np.testing.assert_allclose(-exterior + bracket, of_fields, atol=1e-13)
    np.testing.assert_allclose(exterior - bracket, -of_fields, atol=1e-13)
    assert np.max(np.abs(of_fields)) > 0.1


def test_dot_of_the_wheels():
    """(5.20) as extracted: θ·ω̇ + Θ_ii φ̇; the rate of ∂T/∂φ̇ has φ̈, and is the motor's torque."""
    torque = np.array([0.1, -0.2, 0.3])
    omega_dot, spin_dot = mixed_acceleration(np.zeros(3), torque)
    np.testing.assert_allclose(WHEELS * omega_dot + WHEELS * spin_dot, torque, atol=1e-14)
    printed = WHEELS * omega_dot + WHEELS * SPIN
    np.testing.assert_allclose(printed, [2.94606, -1.66933, 2.83736], atol=1e-5)


def test_coordinates_of_the_pose_after_5_36():
    """Ẋ = dexp⁻¹_{−X} V_b for the body's twist, as in (4.11) and after (5.21); dexp⁻¹_X, as printed, has V_b for ġg⁻¹."""
    space = SE3()
    X, V = jnp.asarray([[0.4, -0.7, 0.5, 0.3, 1.0, -0.2], [0.6, -1.2, 0.8, 0.5, 0.2, -0.4]])

    @jax.jit
    def twist(X, rate):
        g, moved = jax.jvp(space.exp, (X,), (rate,))
        return space.velocity(g, moved), space.Ad(g) @ space.velocity(g, moved)

    np.testing.assert_allclose(twist(X, space.dexpinv(-X) @ V)[0], V, atol=1e-13)
    of_printed, in_space = twist(X, space.dexpinv(X) @ V)
    np.testing.assert_allclose(in_space, V, atol=1e-13)
    assert np.max(np.abs(of_printed - V)) > 0.5
