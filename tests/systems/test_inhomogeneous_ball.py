"""Müller's rolling ball (2021, section 6.5): frame, Hamel coefficients, equation, momentum about the contact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import distribution, frobenius, hamel_coefficients, quaternion_matrix
from jaxhamel.mechanics import constraint_force, velocity
from jaxhamel.systems import ChaplyginSphere, InhomogeneousBall, RollingBall
from tests.reference.ball import rotation
from tests.reference.runs import CHAPLYGIN_SPHERE
from tests.systems.motion import inertias, states
from tests.systems.nonholonomic import (
    assert_kept,
    assert_parameter_gradients_agree,
    assert_routes_agree,
    first,
    kept,
    random_states,
)

EPSILON = np.zeros((3, 3, 3))
for _i, _j, _k in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]:
    EPSILON[_i, _j, _k], EPSILON[_i, _k, _j] = 1, -1


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def test_frame_and_coefficients(rng):
    """(128) on the velocities of points, (129); (133) γ^K_IJ = −ε_KIJ, (135) γ^α_IJ = −ε_αkl ρ_k ε_lIJ; (25) in words."""
    system = InhomogeneousBall(1.4, 0.8, inertias(rng))
    q, _ = jax.tree.map(jnp.asarray, first(random_states(rng)))
    v = rng.normal(size=6)
    omega = rotation(np.asarray(q[0])) @ v[:3]
    u = system.frame(0.0, q) @ v
    contact = v[3:] + np.cross(omega, [0, 0, -1.4])  # the velocity of the lowest point
    np.testing.assert_allclose(u, np.concatenate([contact, omega]), atol=1e-13)
    product = system.frame(0.0, q) @ system.inverse_frame(0.0, q)
    np.testing.assert_allclose(product, np.eye(6), atol=1e-14)
    frame = lambda q: system.frame(0.0, q)
    gamma = jax.jit(lambda q: hamel_coefficients(frame, q, system.space))(q)
    expected = -np.einsum("akl,k,lij->aij", EPSILON, [0, 0, 1.4], EPSILON)
    np.testing.assert_allclose(gamma[3:, 3:, 3:], -EPSILON, atol=1e-13)
    np.testing.assert_allclose(gamma[:3, 3:, 3:], expected, atol=1e-13)
    rows = lambda q: system.frame(0.0, q)[:3]
    allowed = distribution(rows, q, system.space)
    assert allowed.growth == (3, 5, 5)
    assert "1 of 3 constraints integrate" in str(allowed)  # the height
    assert np.max(np.abs(frobenius(rows, q, system.space)[2])) < 1e-13


@pytest.fixture(scope="module")
def rolling():
    """The run of REFERENCES 3.9: I = (1, 2, 3), m = r = 1, from the identity with Ω = (0.7, 0.2, −0.5)."""
    start = (jnp.array([1.0, 0, 0, 0]), jnp.array([0.0, 0, 1])), jnp.array([0.7, 0.2, -0.5])
    system = InhomogeneousBall(1.0, 1.0, [1.0, 2.0, 3.0])
    return system, states(system, *start, jnp.array([0.0, 1, 10]), steps=300)


def test_numbers_of_chaplygins_sphere(rolling):
    _, ((q, r), u) = rolling
    for i, (wanted_q, wanted_u, wanted_z) in enumerate(CHAPLYGIN_SPHERE.values(), start=1):
        np.testing.assert_allclose(q[i], wanted_q, rtol=0, atol=1e-11)
        omega = rotation(np.asarray(wanted_q)) @ np.asarray(wanted_u)
        np.testing.assert_allclose(u[i], omega, rtol=0, atol=1e-11)
        np.testing.assert_allclose(r[i, :2], wanted_z, rtol=0, atol=1e-11)


def test_momentum_about_the_contact_is_kept(rolling):
    """(141), (142): L_P = (1.4, 0.6, −1.5), E = 0.925 + m g r, and the ball stays on the plane."""
    system, path = rolling
    assert_kept(system, path, 1e-11)
    found = kept(system, path)
    np.testing.assert_allclose(found["momentum about the contact"][2], [1.4, 0.6, -1.5], atol=1e-11)
    np.testing.assert_allclose(found["energy"], 0.925 + 9.81, rtol=1e-12)


def test_momentum_about_the_contact_is_not_kept_off_the_centre(rng):
    """With the centre of mass at χ from the centre L̇_P = m (ω × R χ) × ż, even without weight: zero only for χ = 0."""
    com = np.array([0.1, 0.0, 0.05])
    ball = RollingBall(1.0, 0.7, inertias(rng), com, [], gravity=0.0)
    (q, z), u = jax.tree.map(jnp.asarray, first(random_states(rng)))

    def about_contact(q, u):
        turn = quaternion_matrix(q)
        arm = turn @ ball.shell_com + jnp.array(
            [0, 0, 1.0]
        )  # from the contact to the centre of mass
        speed = jnp.cross(turn @ u, arm)
        return turn @ ball.shell_inertia @ u + ball.shell_mass * jnp.cross(arm, speed)

    rate, q_dot = ball.closed_form(0.0, (q, z[:2]), u), ball.space.spaces[0].rate(q, u)
    _, change = jax.jit(lambda *x: jax.jvp(about_contact, x[:2], x[2:]))(q, u, q_dot, rate)
    turn = rotation(np.asarray(q))
    omega = turn @ np.asarray(u)
    wanted = 0.7 * np.cross(np.cross(omega, turn @ com), np.cross(omega, [0, 0, 1.0]))
    assert np.max(np.abs(wanted)) > 1e-3
    np.testing.assert_allclose(change, wanted, rtol=0, atol=1e-12)


def test_it_is_chaplygins_sphere(rng):
    """ω̇ = R Ω̇; the multipliers are m r̈ and the weight."""
    inertia, (qs, us) = inertias(rng), random_states(rng)
    system, sphere = InhomogeneousBall(1.2, 0.8, inertia), ChaplyginSphere(1.2, 0.8, inertia)
    for i in range(2):
        q, u = (jnp.asarray(qs[0][i]), jnp.asarray(qs[1][i])), jnp.asarray(us[i])
        turn = rotation(qs[0][i])
        wanted = turn @ sphere.closed_form(0.0, (q[0], q[1][:2]), jnp.asarray(turn.T @ us[i]))
        np.testing.assert_allclose(system.closed_form(0.0, q, u), wanted, rtol=0, atol=1e-12)
    force = constraint_force(system, 0.0, q, u)
    wanted = 0.8 * (np.cross(wanted, [0, 0, 1.2]) + 9.81 * np.eye(3)[2])
    np.testing.assert_allclose(force, wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(system.contact_force(0.0, q, u), wanted, rtol=0, atol=1e-12)
    slip = velocity(system, 0.0, q, u)[3:] - np.cross(us[1], [0, 0, 1.2])
    np.testing.assert_allclose(slip, 0.0, atol=1e-13)


def test_routes_and_gradients(rng):
    """(141) from the general formula (22), by every route."""
    system, at = InhomogeneousBall(1.2, 0.8, inertias(rng)), random_states(rng)
    assert_routes_agree(system, *at)
    assert_parameter_gradients_agree(system, *first(at))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InhomogeneousBall(0.0, 1.0, [1.0, 1, 1]), "`radius` is 0.*positive"),
        (lambda: InhomogeneousBall(1.0, -1.0, [1.0, 1, 1]), "`mass` is -1.*positive"),
        (lambda: InhomogeneousBall(1.0, 1.0, [1.0, 1, 3]), "`inertia` .*triangle"),
        (lambda: InhomogeneousBall(1.0, 1.0, [1.0, 1, 1], np.nan), "`gravity` .*finite"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_horizontal_symmetry_keeps_the_vertical_momentum(rng):
    """Müller 2023, remark 4.4: a turn about the normal lies in the constraint distribution and leaves T as it is, so that
    (Θ_c ω)_3 = ∂T/∂ω_3 stays, of an inhomogeneous ball, too; the other components change."""
    ball = InhomogeneousBall(1.4, 0.8, inertias(rng))
    q, u = jax.tree.map(jnp.asarray, first(random_states(rng)))
    upright = jnp.array([0.0, 0.0, 1.0])

    @jax.jit
    def look(q, u):
        turning = ball.inverse_frame(0.0, q) @ jnp.concatenate(
            [jnp.zeros(3), upright]
        )  # v of ω = e_3
        velocity = ball.inverse_frame(0.0, q) @ jnp.concatenate([jnp.zeros(3), u])
        rate = ball.closed_form(0.0, q, u)

        def spin_momentum(q, u):
            rotation = quaternion_matrix(q[0])
            return rotation @ ball.inertia @ rotation.T @ u

        def along_the_turn(q):
            return ball.lagrangian(
                0.0, q, ball.inverse_frame(0.0, q) @ jnp.concatenate([jnp.zeros(3), u])
            )

        # the flow of the symmetry turns ω as well: T(h q, h ω) = T(q, ω)
        by_q = jax.jvp(along_the_turn, (q,), (ball.space.rate(q, turning),))[1]
        by_u = spin_momentum(q, u) + ball.mass * 1.4**2 * (u - u[2] * upright)
        _, change = jax.jvp(spin_momentum, (q, u), (ball.space.rate(q, velocity), rate))
        return turning, by_q + by_u @ jnp.cross(upright, u), spin_momentum(q, u), change

    turning, of_energy, momentum, change = look(q, u)
    np.testing.assert_allclose(turning[3:], 0.0, atol=1e-15)  # the centre stays where it is
    np.testing.assert_allclose(of_energy, 0.0, atol=1e-12)
    np.testing.assert_allclose(change[2], 0.0, atol=1e-12)
    assert np.max(np.abs(change[:2])) > 1e-2
    assert abs(momentum[2]) > 1e-2
