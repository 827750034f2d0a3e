"""The snakeboard: all routes, exact motions, and the momentum equation by three independent ways."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import SE2, System
from jaxhamel.geometry import curvature
from jaxhamel.mechanics import acceleration, constraint_force, energy, velocity
from jaxhamel.systems import CoupledSnakeboard, Snakeboard
from jaxhamel.systems._snakeboard import board_shapes
from tests.systems.motion import states
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    assert_routes_agree,
    first,
)

PARAMETERS = (3.0, 0.11, 0.05, 0.013, 0.3)  # I ≠ m ℓ²
EQUAL = (2.0, 0.1, 0.05, 0.015, 0.3)  # I = J + J_r + 2 J_w = m ℓ²
TORQUES = jnp.array([0.4, -0.3, 0.2])


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def random_states(rng, shape):
    pose, angles = rng.normal(size=(STATES, 3)), rng.uniform(-1.3, 1.3, size=(STATES, shape))
    return (pose, angles), rng.normal(size=(STATES, 1 + shape))


# --- free steering --------------------------------------------------------------------------------


def test_routes_and_gradients(rng):
    system, at = Snakeboard(*PARAMETERS), random_states(rng, 3)
    assert_routes_agree(system, *at, lambda t: TORQUES, TORQUES)
    assert_parameter_gradients_agree(system, *first(at))


def test_ellipsograph():
    """With trucks fixed in space at right angles, the centre runs around a circle and the board turns the other way.

    Both wheels then run along straight lines, x and y, which is checked separately.
    """
    system, rate = Snakeboard(*PARAMETERS), jnp.asarray(0.7)
    times = jnp.array([0.0, 1.0, 3.0, 2 * np.pi / 0.7])
    q, u = states(system, *system.ellipsograph(0.0, rate), times, steps=40)
    for i, t in enumerate(times):
        wanted = system.ellipsograph(t, rate)
        for got, want in zip(((q[0][i], q[1][i]), u[i]), wanted, strict=True):
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), got, want)
    along = 0.3 * np.stack([np.cos(q[0][:, 0]), np.sin(q[0][:, 0])], axis=1)
    np.testing.assert_allclose((q[0][:, 1:] + along)[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose((q[0][:, 1:] - along)[:, 0], 0, atol=1e-12)


def test_free_board_keeps_energy_and_spins():
    system = Snakeboard(*PARAMETERS)
    q = (jnp.array([0.2, 0.1, -0.3]), jnp.array([0.5, 0.3, -0.4]))
    u = jnp.array([0.6, 0.3, -0.2, 0.25])
    path = states(system, q, u, jnp.array([0.0, 0.3, 0.7]), steps=40)
    assert np.ptp(path[1][:, 0]) > 1e-2  # the speed changes
    assert_kept(system, path, 1e-12)
    total = jax.vmap(lambda q, u: energy(system, 0.0, q, u))(*path)
    np.testing.assert_allclose(total, total[0], rtol=1e-12)
    kept = system.invariants(0.0, q, u, None)
    spins = 0.05 * kept["spin of the rotor"] ** 2 + 0.013 * (
        kept["spin of the back truck"] ** 2 + kept["spin of the front truck"] ** 2
    )
    np.testing.assert_allclose(total[0], kept["energy of the board"] + spins / 2, rtol=1e-13)
    assert system.invariants(0.0, q, u, lambda t: TORQUES) == {}


def test_wheels_do_not_slip(rng):
    """The velocity of either axle has no component along the axle; straight wheels are included."""
    system = Snakeboard(*PARAMETERS)
    (pose, angles), u = random_states(rng, 3)
    angles[0, 1:] = 0.0  # straight
    for q0, r, w in zip(pose, angles, u, strict=True):
        v = velocity(system, 0.0, (jnp.asarray(q0), jnp.asarray(r)), jnp.asarray(w))
        for sign, phi in ((-1, r[1]), (1, r[2])):
            axle = np.array([v[1], v[2] + sign * 0.3 * v[0]])
            assert abs(np.dot(axle, [-np.sin(phi), np.cos(phi)])) < 1e-15
        speed = np.sqrt((0.3 * v[0]) ** 2 + v[1] ** 2 + v[2] ** 2)
        np.testing.assert_allclose(speed, abs(w[0]), rtol=1e-14)
    straight = velocity(system, 0.0, (jnp.zeros(3), jnp.zeros(3)), jnp.array([0.7, 0.0, 0, 0]))
    np.testing.assert_allclose(straight[:3], [0, 0.7, 0], atol=1e-16)


def test_side_forces_turn_the_board():
    """On a circle, φ_f = −φ_b, steered at no torque, the wheels' forces are m σ²/ρ along the radius."""
    system = Snakeboard(3.0, 0.11, 1e-9, 1e-9, 0.3)
    phi, sigma = 0.5, 0.8
    q = (jnp.zeros(3), jnp.array([0.0, -phi, phi]))
    force = constraint_force(system, 0.0, q, jnp.array([sigma, 0.0, 0, 0]))
    omega, forward = sigma * np.sin(phi) / 0.3, sigma * np.cos(phi)
    across = force @ np.array([np.cos(phi), np.cos(phi)])  # along e_2 of the board
    np.testing.assert_allclose(across, 3.0 * omega * forward, rtol=1e-6)


def test_drawing():
    """The deck connects the trucks, which are half a length in front of and behind the centre."""
    deck, *_ = board_shapes(0.3)
    np.testing.assert_allclose(deck.lines[0], [[0.3, 0.0, 0.0], [-0.3, 0.0, 0.0]])


def test_trucks_across_the_board_are_named():
    q = (jnp.zeros(3), jnp.array([0.0, np.pi / 2, np.pi / 2]))
    with pytest.raises(ValueError, match=r"first 2 rows of `frame\(t, q\)` are dependent"):
        acceleration(Snakeboard(*PARAMETERS), 0.0, q, jnp.ones(4))


# --- coupled trucks -------------------------------------------------------------------------------


def test_coupled_routes_and_gradients(rng):
    system, at = CoupledSnakeboard(*PARAMETERS), random_states(rng, 2)
    assert_routes_agree(system, *at, lambda t: TORQUES[:2], TORQUES[:2])
    assert_parameter_gradients_agree(system, *first(at))


def test_coupled_is_the_free_one_held_together(rng):
    """Torques τ_φ/2 ± J_w ω̇ on the trucks keep φ_b + φ_f = 0; all other coordinates then move equally."""
    free, coupled = Snakeboard(*PARAMETERS), CoupledSnakeboard(*PARAMETERS)
    (pose, shape), u = first(random_states(rng, 2))
    q = (jnp.asarray(pose), jnp.asarray(shape))
    rate = acceleration(coupled, 0.0, q, jnp.asarray(u), TORQUES[:2])
    turn_up = -(np.sin(shape[1]) * rate[0] + np.cos(shape[1]) * u[2] * u[0]) / 0.3
    hold = 0.013 * turn_up
    torques = jnp.stack([TORQUES[0], TORQUES[1] / 2 + hold, -TORQUES[1] / 2 + hold])
    q_free = (q[0], jnp.array([shape[0], shape[1], -shape[1]]))
    u_free = jnp.array([u[0], u[1], u[2], -u[2]])
    found = acceleration(free, 0.0, q_free, u_free, torques)
    np.testing.assert_allclose(found, [rate[0], rate[1], rate[2], -rate[2]], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("phi", [0.0, 0.4, np.pi / 2, 2.0])
def test_coupled_board_glides_round_a_circle(phi):
    """Curvature −tan φ/ℓ; straight on at φ = 0, on the spot at φ = π/2."""
    system = CoupledSnakeboard(*PARAMETERS)
    q0, u0 = (jnp.array([0.3, 0.1, 0.2]), jnp.array([0.1, phi])), jnp.array([0.5, 0.2, 0.0])
    q, u = states(system, q0, u0, jnp.array([0.0, 2.0]), steps=40)
    wanted, still = system.glide(2.0, q0, u0)
    np.testing.assert_allclose(q[0][-1], wanted[0], atol=1e-12)
    np.testing.assert_allclose(q[1][-1], wanted[1], atol=1e-12)
    np.testing.assert_allclose(u[-1], still, atol=1e-12)
    turned, path = wanted[0][0] - 0.3, 0.5 * np.cos(phi) * 2.0
    np.testing.assert_allclose(turned * np.cos(phi), -np.sin(phi) / 0.3 * path, atol=1e-12)
    assert_kept(system, (q, u), 1e-12)


def test_coupled_board_without_torque_keeps_its_invariants():
    system = CoupledSnakeboard(*PARAMETERS)
    q, u = (jnp.zeros(3), jnp.array([0.1, -0.4])), jnp.array([0.6, 0.3, 0.9])
    path = states(system, q, u, jnp.array([0.0, 1.0, 2.0]), steps=60)  # φ passes π/4
    assert np.ptp(path[1][:, 0]) > 1e-2
    assert_kept(system, path, 1e-12)


# --- a prescribed shape: the momentum equation -----------------------------------------------------


class Driven(System):
    """The coupled board with ψ(t), φ(t) prescribed, on SE(2), for the general equations to solve."""

    board: CoupledSnakeboard
    size: jax.Array

    space = SE2()
    n_constraints = 2

    def shape(self, t):
        return jnp.stack(
            [self.size[0] * jnp.sin(1.1 * t), 0.2 + self.size[1] * jnp.sin(1.7 * t + 0.4)]
        )

    def lagrangian(self, t, q, v):
        r, rdot = jax.jvp(self.shape, (t,), (jnp.ones_like(t),))
        return self.board.lagrangian(t, (q, r), jnp.concatenate([v, rdot]))

    def frame(self, t, q):
        return self.board.frame(t, (q, self.shape(t)))[:3, :3]


DRIVEN = Driven(CoupledSnakeboard(*PARAMETERS), jnp.array([0.9, 0.7]))


@eqx.filter_jit
def momentum_and_rate(system, t, sigma):
    """(p, ṗ from σ̇ of the general equations, ṗ of the momentum equation, ξ of both)."""
    board, q = system.board, jnp.zeros(3)

    def momentum(t, sigma):
        r, rdot = jax.jvp(system.shape, (t,), (jnp.ones_like(t),))
        return board.momentum((q, r), jnp.concatenate([sigma, rdot]))

    sigma_dot = acceleration(system, t, q, sigma)
    p, p_dot = jax.jvp(momentum, (t, sigma), (jnp.ones_like(t), sigma_dot))
    r, rdot = jax.jvp(system.shape, (t,), (jnp.ones_like(t),))
    xi = board.momentum_velocity(r) @ p - board.connection(r) @ rdot
    return p, p_dot, board.momentum_rate(r, rdot, p), xi, velocity(system, t, q, sigma)


@pytest.mark.parametrize("t", [0.0, 0.7, 2.3])
def test_momentum_equation_is_the_general_one(t):
    _, p_dot, stated, xi, v = momentum_and_rate(DRIVEN, jnp.asarray(t), jnp.array([0.8]))
    assert abs(p_dot[0]) > 1e-3
    np.testing.assert_allclose(stated, p_dot, rtol=1e-12)
    np.testing.assert_allclose(xi, v, rtol=1e-13, atol=1e-14)


def test_momentum_equation_of_the_literature():
    """Bloch et al.: ṗ = 2 J_r cos² φ φ̇ψ̇ − tan φ φ̇ p, for I = m ℓ², p along −2 ℓ cos φ of our direction."""
    board = CoupledSnakeboard(*EQUAL)
    r, rdot, p = jnp.array([0.3, 0.6]), jnp.array([0.7, -0.4]), jnp.array([0.9])
    scale, scale_dot = -2 * 0.3 * np.cos(0.6), 2 * 0.3 * np.sin(0.6) * -0.4
    theirs = scale * board.momentum_rate(r, rdot, p) + scale_dot * p
    printed = 2 * 0.05 * np.cos(0.6) ** 2 * -0.4 * 0.7 - np.tan(0.6) * -0.4 * scale * p
    np.testing.assert_allclose(theirs, printed, rtol=1e-13)


def test_prescribed_shape_integrates():
    """√M σ = √M_0 σ_0 + (J_r/ℓ) ∫ sin φ ψ̈/√M dt, by Gauss–Legendre, against the general equations."""
    _, u = states(DRIVEN, jnp.zeros(3), jnp.array([0.8]), jnp.array([0.0, 2.0]), steps=60)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    t = 1 + nodes
    m, J, J_r, J_w, length = PARAMETERS
    phi = lambda t: 0.2 + 0.7 * np.sin(1.7 * t + 0.4)
    M = lambda t: m * np.cos(phi(t)) ** 2 + (J + J_r + 2 * J_w) / length**2 * np.sin(phi(t)) ** 2
    psi_ddot = -0.9 * 1.1**2 * np.sin(1.1 * t)
    gained = J_r / length * np.sum(weights * np.sin(phi(t)) * psi_ddot / np.sqrt(M(t)))
    wanted = (np.sqrt(M(0.0)) * 0.8 + gained) / np.sqrt(M(2.0))
    np.testing.assert_allclose(u[-1], [wanted], rtol=1e-11)


def test_curvature_of_the_nonholonomic_connection():
    """I = m ℓ²: B_ψφ = (J_r/m ℓ²) (sin 2φ, −ℓ cos 2φ, 0); A_φ = 0 leaves no bracket."""
    board = CoupledSnakeboard(*EQUAL)
    for phi in (-0.7, 0.0, 1.1):
        B = curvature(board.connection, jnp.array([0.4, phi]), SE2())[:, 0, 1]
        scale = 0.05 / (2.0 * 0.09)
        wanted = [scale * np.sin(2 * phi), -scale * 0.3 * np.cos(2 * phi), 0]
        np.testing.assert_allclose(B, wanted, atol=1e-15)


# --- both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Snakeboard, CoupledSnakeboard])
def test_messages(kind):
    good = dict(
        zip(
            ("mass", "inertia", "rotor_inertia", "wheel_inertia", "half_length"),
            PARAMETERS,
            strict=True,
        )
    )
    for name in good:
        with pytest.raises(ValueError, match=f"`{name}` is -1.*positive"):
            kind(**{**good, name: -1.0})
    with pytest.raises(ValueError, match=r"`mass` has shape \(2,\)"):
        kind(**{**good, "mass": [1.0, 2.0]})
    system = kind(*PARAMETERS)
    q, u = system.space.identity(), jnp.zeros(system.n_independent)
    with pytest.raises(ValueError, match=r"`control` has values of shape.*torques"):
        acceleration(system, 0.0, q, u, jnp.zeros(5))


@pytest.mark.parametrize("kind", [Snakeboard, CoupledSnakeboard])
def test_single_precision(float32, kind):
    system = kind(*PARAMETERS)
    k = system.n_independent
    q, u = (jnp.zeros(3), 0.1 + jnp.arange(k - 1) / 4), 0.3 + jnp.arange(k) / k
    rate = acceleration(system, 0.0, q, u)
    assert rate.dtype == jnp.float32
    np.testing.assert_allclose(rate, system.closed_form(0.0, q, u), rtol=2e-5, atol=1e-5)
    assert {x.dtype for x in jax.tree.leaves(system.invariants(0.0, q, u, None))} == {
        np.dtype("float32")
    }
