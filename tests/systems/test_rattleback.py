"""The rattleback: Kane and Levinson's numbers, reversal, limits to the ball and the disk, contact force, routes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import quaternion_multiply
from jaxhamel.mechanics import acceleration, velocity
from jaxhamel.systems import Rattleback, RollingBall, RollingDisk
from tests.one_by_one import of_each
from tests.reference.ball import rotation
from tests.systems.motion import inertias, states, unit_quaternions
from tests.systems.nonholonomic import (
    assert_kept,
    assert_parameter_gradients_agree,
    first,
    random_states,
)

# In cm and s, everything divided by the mass; the third axis points down, the centre of mass lies 1 cm below the centre.
INERTIA = np.array([[2, -0.2, 0], [-0.2, 16, 0], [0, 0, 17]])
TILT = np.deg2rad(0.5)
TIMES = np.linspace(0.0, 10.0, 10001)


def stone(damping=None, inertia=INERTIA):
    return Rattleback([20.0, 3, 2], 1.0, inertia, [0, 0, 1], damping, 980.665)


def turn(axis, angle):
    return np.append(np.cos(angle / 2), np.sin(angle / 2) * np.eye(3)[axis])


def start():
    """Axes turned by (γ, α, β) = (0, 0.5°, 0.5°) about the vertical, x′, y″, from the third axis down."""
    tilted = quaternion_multiply(jnp.asarray(turn(0, TILT)), jnp.asarray(turn(1, TILT)))
    down = jnp.asarray(turn(0, np.pi))
    return stone().configuration(quaternion_multiply(down, tilted), jnp.zeros(2))


@pytest.fixture
def rng():
    return np.random.default_rng(8)


# --- Kane and Levinson's rattleback ---------------------------------------------------------------


@pytest.fixture(scope="module")
def runs():
    """(σ, ω_3(0)) = (0, −5), (0, 5), (1, −5), (1, 5): the motion over 10 s, every millisecond."""
    q, spin = start(), jnp.array([0.0, 0, 1])

    @of_each
    def run(damping, rate):
        return states(stone(damping), q, rate * spin, jnp.asarray(TIMES), steps=2)

    return run(jnp.array([0.0, 0, 1, 1]), jnp.array([-5.0, 5, -5, 5]))


def first_reversal(rate):
    """The first zero of ω_3 by linear interpolation between milliseconds, or None."""
    (changes,) = np.nonzero(np.diff(np.sign(rate)))
    if not len(changes):
        return None
    i = changes[0]
    return TIMES[i] + 1e-3 * rate[i] / (rate[i] - rate[i + 1])


def test_reversal(runs):
    """Spun at −5 rad/s the stone reverses at 2.353 s, with damping at 2.390 s; spun at 5 rad/s it does not."""
    spin = np.asarray(runs[1][..., 2])
    reversals = [first_reversal(rate) for rate in spin]
    np.testing.assert_allclose([reversals[0], reversals[2]], [2.353, 2.390], rtol=0, atol=5e-4)
    assert reversals[1] is None
    assert reversals[3] is None
    wanted = [4.55318, 1.16283, 2.85408, 2.38411]
    np.testing.assert_allclose(spin[:, -1], wanted, rtol=0, atol=5e-6)
    extremes = [np.min(spin[0]), np.max(spin[0])]
    np.testing.assert_allclose(extremes, [-5.3183, 5.3950], rtol=0, atol=5e-5)


def test_state_after_a_second(runs):
    """α, β, γ and ω at t = 1."""
    (q, _), u = jax.tree.map(lambda x: np.asarray(x[0, 1000]), runs)
    matrix = np.diag([1, -1, -1]) @ rotation(q)
    alpha, beta = np.arcsin(matrix[2, 1]), np.arctan2(-matrix[2, 0], matrix[2, 2])
    gamma = (
        np.arctan2(-matrix[0, 1], matrix[1, 1]) - 2 * np.pi
    )  # the stone has turned by more than half a turn
    wanted = (
        (-0.0068917443105, 0.0228464230177, -4.2662146746688),
        (5.010993654936, 1.8007037281282, -3.1353553489846),
    )
    np.testing.assert_allclose([alpha, beta, gamma], wanted[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(u, wanted[1], rtol=0, atol=1e-8)


def test_energy(runs):
    path = jax.tree.map(lambda x: x[0, ::50], runs)
    kept = jax.jit(jax.vmap(lambda q, u: stone().invariants(0.0, q, u, None)))(*path)
    np.testing.assert_allclose(kept["energy"], 1238.515558795, rtol=1e-10)
    np.testing.assert_allclose(kept["energy"][0], 1238.515558795, rtol=0, atol=5e-10)
    np.testing.assert_allclose(kept["height"], 0.0, rtol=0, atol=1e-9)


def test_damping_takes_energy_away(runs):
    path = jax.tree.map(lambda x: x[2, ::100], runs)
    assert set(stone(1.0).invariants(0.0, *first(path), None)) == {"height"}
    assert_kept(stone(1.0), path, 1e-9)
    energy = jax.vmap(lambda q, u: stone().invariants(0.0, q, u, None)["energy"])(*path)
    assert np.max(np.diff(energy)) < 0.0


# --- chirality ------------------------------------------------------------------------------------


def with_vertical(gamma):
    """A configuration with the vertical Γ in the body, Γ_3 < 0."""
    q = jnp.stack([gamma[1], 1 - gamma[2], jnp.zeros_like(gamma[0]), gamma[0]])
    q = q / jnp.sqrt(jnp.sum(q * q))
    return q, jnp.zeros(3)


@jax.jit
def linearised(inertia, rate):
    """∂ẋ/∂x of x = (Γ_1, Γ_2, Ω) at the steady spin about the vertical, and ẋ there."""

    def motion(x):
        lean, omega = x[:2], x[2:]
        gamma = jnp.append(lean, -jnp.sqrt(1 - jnp.dot(lean, lean)))
        omega_dot = stone(inertia=inertia).closed_form(0.0, with_vertical(gamma), omega)
        return jnp.concatenate([jnp.cross(gamma, omega)[:2], omega_dot])

    x = jnp.zeros(5).at[4].set(rate)
    return jax.jacfwd(motion)(x), motion(x)


def test_the_given_vertical_is_the_vertical(rng):
    gamma = rng.normal(size=3)
    gamma = gamma / np.linalg.norm(gamma) * [1, 1, np.sign(-gamma[2])]
    q, _ = with_vertical(jnp.asarray(gamma))
    np.testing.assert_allclose(rotation(np.asarray(q))[2], gamma, rtol=0, atol=1e-14)


def test_one_sense_of_spin_is_unstable():
    """Bondi 1986: askew axes make −5 rad/s grow and 5 rad/s decay; D and the spin enter by their product."""
    mirrored = INERTIA * [[1, -1, 1], [-1, 1, 1], [1, 1, 1]]
    growth = {}
    for name, inertia, rate in (
        ("against", INERTIA, -5.0),
        ("with", INERTIA, 5.0),
        ("mirrored", mirrored, 5.0),
        ("straight", np.diag(np.diag(INERTIA)), -5.0),
    ):
        matrix, rest = linearised(jnp.asarray(inertia), rate)
        np.testing.assert_allclose(rest, 0.0, atol=1e-12)
        growth[name] = np.sort(np.real(np.linalg.eigvals(np.asarray(matrix))))
    assert growth["against"][-1] > 0.5
    assert growth["with"][0] < -0.5
    np.testing.assert_allclose(growth["with"], -growth["against"][::-1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(growth["mirrored"], growth["against"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(growth["straight"], 0.0, rtol=0, atol=1e-7)


# --- other surfaces -------------------------------------------------------------------------------


def test_a_sphere_is_a_rolling_ball(rng):
    """For a sphere with its centre of mass off the centre, Ω̇ and the ground's force follow Putkaradze and Rogers'
    (3.23)."""
    inertia, com = inertias(rng), np.array([0.1, -0.2, 0.15])
    system = Rattleback([0.7, 0.7, 0.7], 1.3, inertia, com)
    ball = RollingBall(0.7, 1.3, inertia, com, [])
    q, u = jax.tree.map(jnp.asarray, first(random_states(rng)))
    on_plane = q[0], q[1][:2]
    np.testing.assert_allclose(
        system.closed_form(0.0, q, u), ball.closed_form(0.0, on_plane, u), rtol=0, atol=1e-12
    )
    wanted = ball.contact_force(0.0, on_plane, u, None)
    np.testing.assert_allclose(system.contact_force(0.0, q, u), wanted, rtol=0, atol=1e-11)


def rim(normal):
    return 0.4 * jnp.sqrt(normal[0] * normal[0] + normal[1] * normal[1])


def test_a_flat_surface_is_a_disk(rng):
    """h = r √(n_1² + n_2²), the support function of a circle, gives the rolling disk."""
    inertia = inertias(rng)
    system = Rattleback(jax.tree_util.Partial(rim), 1.5, inertia, gravity=9.0)
    disk = RollingDisk(0.4, 1.5, inertia, 9.0)
    q, u = jax.tree.map(jnp.asarray, first(random_states(rng)))
    wanted = disk.closed_form(0.0, q, u)
    np.testing.assert_allclose(acceleration(system, 0.0, q, u), wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(system.contact_point(q), disk.contact_point(q), rtol=0, atol=1e-15)


def test_a_support_function_needs_unit_vectors_only(rng):
    """The ellipsoid's support function gives the same motion if it is continued in another way off the unit sphere."""
    axes, normal = np.array([0.5, 0.3, 0.2]), rng.normal(size=3)
    normal = jnp.asarray(normal / np.linalg.norm(normal))

    def support(n):
        return jnp.sqrt(jnp.sum((axes * n) ** 2)) * jnp.exp(3.0 * (jnp.dot(n, n) - 1.0))

    made = Rattleback(jax.tree_util.Partial(support), 1.0, [1, 1, 1])
    wanted = axes**2 * normal / np.linalg.norm(axes * normal)
    np.testing.assert_allclose(made.support_point(normal), wanted, rtol=0, atol=1e-14)
    known = Rattleback(axes, 1.0, [1, 1, 1]).support_point(normal)
    np.testing.assert_allclose(known, wanted, rtol=0, atol=1e-15)


# --- in general -----------------------------------------------------------------------------------


def askew(rng, damping=0.3):
    return Rattleback([0.6, 0.4, 0.3], 1.5, inertias(rng), [0.02, -0.03, 0.05], damping, 9.0)


def test_contact_force_turns_and_carries_the_body(rng):
    """Newton and Euler in space: m ẍ = F − m g e_3, d(Λ I Ω)/dt = (contact − x) × F − σ ω; the contact is on the surface."""
    system = askew(rng)
    q, u = jax.tree.map(jnp.asarray, first(random_states(rng)))
    force = np.asarray(system.contact_force(0.0, q, u))
    u_dot = np.asarray(acceleration(system, 0.0, q, u))
    v = velocity(system, 0.0, q, u)
    tangent = (system.space.rate(q, v), u_dot)
    _, v_dot = jax.jvp(lambda q, u: velocity(system, 0.0, q, u), (q, u), tangent)
    np.testing.assert_allclose(1.5 * v_dot[3:], force - [0, 0, 13.5], rtol=0, atol=1e-11)
    omega, inertia, matrix = np.asarray(u), np.asarray(system.inertia), rotation(np.asarray(q[0]))
    moment = matrix @ (inertia @ u_dot + np.cross(omega, inertia @ omega) + 0.3 * omega)
    arm = np.asarray(system.contact_point(q) - q[1])
    np.testing.assert_allclose(moment, np.cross(arm, force), rtol=0, atol=1e-11)
    from_centre = matrix.T @ arm + [0.02, -0.03, 0.05]
    scaled = from_centre / [0.6, 0.4, 0.3]
    np.testing.assert_allclose(np.linalg.norm(scaled), 1.0, rtol=1e-13)
    outward = scaled / [0.6, 0.4, 0.3]  # the gradient of |x/a|²: down
    np.testing.assert_allclose(matrix @ outward / np.linalg.norm(outward), [0, 0, -1], atol=1e-13)


def test_configuration_is_on_the_ground(rng):
    system = askew(rng)
    q = system.configuration(jnp.asarray(unit_quaternions(rng)), jnp.array([0.3, -0.2]))
    np.testing.assert_allclose(system.contact_point(q), [0.3, -0.2, 0], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(system.centre(q), q[1])


def test_parameter_gradients(rng):
    assert_parameter_gradients_agree(askew(rng), *first(random_states(rng)))


def test_inverse_frame(rng):
    q = jax.tree.map(jnp.asarray, first(random_states(rng))[0])
    system = askew(rng)
    product = system.frame(0.0, q) @ system.inverse_frame(0.0, q)
    np.testing.assert_allclose(product, np.eye(6), atol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rattleback([1.0, 2.0], 1.0, [1, 1, 1]), r"`surface` has shape \(2,\).*semi-axes"),
        (lambda: Rattleback([1.0, 2.0, -1.0], 1.0, [1, 1, 1]), "`surface` .*positive"),
        (lambda: Rattleback([1.0, 2, 1], 0.0, [1, 1, 1]), "`mass` is 0.*positive"),
        (lambda: Rattleback([1.0, 2, 1], 1.0, [1, 1, 3]), "`inertia` .*triangle"),
        (lambda: Rattleback([1.0, 2, 1], 1.0, [1, 1, 1], [0, 1]), r"`com` has shape \(2,\)"),
        (lambda: Rattleback([1.0, 2, 1], 1.0, [1, 1, 1], damping=-1), "`damping` .*negative"),
        (lambda: Rattleback([1.0, 2, 1], 1.0, [1, 1, 1], gravity=np.nan), "`gravity` .*finite"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()
