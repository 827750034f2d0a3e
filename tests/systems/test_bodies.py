"""Free rigid body, heavy top and Suslov's problem: published numbers, closed forms, invariants, all routes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipj

from jaxhamel.mechanics import ROUTES, acceleration, constraint_force, energy, quasi_velocity
from jaxhamel.systems import FreeRigidBody, HeavyTop, Suslov
from tests.reference import bodies as reference_bodies
from tests.reference.ball import rotation
from tests.systems.motion import end_state, inertias, states, unit_quaternions

IDENTITY = jnp.array([1.0, 0, 0, 0])


def turned(tilt):
    """The quaternion of a rotation by `tilt` about e_1."""
    return jnp.array([jnp.cos(tilt / 2), jnp.sin(tilt / 2), 0.0, 0.0])


# --- the heavy top of Brüls, Cardona, Arnold (2012) -----------------------------------------------


@pytest.fixture(scope="module")
def top():
    return HeavyTop(mass=15.0, inertia=[15.234375, 0.46875, 15.234375], com=[0, 1, 0], gravity=9.81)


SPIN = jnp.array([0.0, 150.0, -4.61538])


@pytest.mark.parametrize("route", ROUTES)
def test_top_initial_acceleration(top, route):
    """Published: Ω̇ = (661.3461692307692, 0, 0), ẍ = (0, −21.3017325444, −30.9608307692308)."""
    rate = acceleration(top, 0.0, IDENTITY, SPIN, route=route)
    np.testing.assert_allclose(rate, [661.3461692307692, 0, 0], rtol=1e-13, atol=1e-11)
    com = np.asarray(top.com)
    of_com = np.cross(rate, com) + np.cross(SPIN, np.cross(SPIN, com))
    np.testing.assert_allclose(of_com, [0, -21.3017325444, -30.9608307692308], atol=1e-9)


def test_top_energy(top):
    np.testing.assert_allclose(energy(top, 0.0, IDENTITY, SPIN), 5435.696790865547, rtol=1e-14)


def test_top_published_spatial_velocity(top):
    """ω_y in space at t = 0.01 is 149.8473939540758, converged to 14 digits."""
    q, omega = end_state(top, IDENTITY, SPIN, 0.01, steps=40)
    np.testing.assert_allclose((rotation(np.asarray(q)) @ omega)[1], 149.8473939540758, rtol=1e-12)


# converged states: time: (quaternion, centre of mass in space)
TOP = {
    0.2: (
        (-0.7082791529743, 0.4387810881266, 0.5457283961454, 0.0893997528240),
        (0.6055505613771, 0.5989576817949, -0.5239830274300),
    ),
    0.8: (
        (-0.1811812487445, 0.2147573338205, -0.9595714351087, -0.0165922752219),
        (-0.4181624243169, 0.9072079679466, -0.0459770571445),
    ),
    1.0: (
        (0.7329439806796, -0.2782857193377, 0.5318246113341, -0.3201761427363),
        (0.1733439640983, 0.6400885920703, -0.7484907911338),
    ),
    2.0: (
        (0.1229471350413, -0.4910798925503, 0.3504300303435, -0.7879868875504),
        (-0.1504168227461, -0.7241655916372, -0.6730222695600),
    ),
}


@pytest.fixture(scope="module")
def spinning(top):
    times = jnp.array([0.0, *TOP])
    return states(top, IDENTITY, SPIN, times, None, jnp.asarray(1300))


def test_top_at_all_times(top, spinning):
    """The converged states at 0.2, 0.8, 1 and 2 s."""
    q, omega = spinning
    for i, (attitude, position) in enumerate(TOP.values(), start=1):
        np.testing.assert_allclose(q[i], attitude, rtol=0, atol=1e-10)
        np.testing.assert_allclose(top.centre_of_mass(q[i]), position, rtol=0, atol=1e-10)
    of_body = (-2.6915909121429, 150, 4.9172609898943)
    np.testing.assert_allclose(omega[1], of_body, rtol=0, atol=1e-8)


def test_top_after_two_seconds(spinning):
    """ω_y in space −106.16380414 (published), and the converged angular velocity."""
    q, omega = jax.tree.map(lambda x: np.asarray(x[-1]), spinning)
    np.testing.assert_allclose(omega, [0.12223321949, 150, -5.8556245892], rtol=0, atol=1e-8)
    in_space = rotation(q) @ omega
    np.testing.assert_allclose(in_space[1], -106.16380414, rtol=0, atol=5e-9)
    wanted = (-27.6585155259, -106.1638041432, -102.4624638053)
    np.testing.assert_allclose(in_space, wanted, rtol=0, atol=2e-8)


def test_top_invariants(top):
    """Energy and vertical angular momentum are conserved, and so is Ω_y, since the top is symmetric (Lagrange's top)."""
    q, omega = states(top, IDENTITY, SPIN, jnp.linspace(0.0, 1.0, 11), steps=120)
    kept = jax.vmap(lambda q, u: top.invariants(0.0, q, u, None))(q, omega)
    np.testing.assert_allclose(kept["energy"], 5435.696790865547, rtol=1e-11)
    vertical = kept["vertical angular momentum"]
    np.testing.assert_allclose(vertical, vertical[0], rtol=1e-10)
    np.testing.assert_allclose(omega[:, 1], 150.0, rtol=1e-12)


def test_simo_wong_top():
    """Simo and Wong 1991: H = 1269.975; the states at t = 1 and 10."""
    top = HeavyTop(mass=20.0, inertia=[5, 5, 1], com=[0, 0, 1], gravity=1.0)
    start, omega = turned(0.05), jnp.array([0.0, 0, 50])
    np.testing.assert_allclose(energy(top, 0.0, start, omega), 1269.9750052078991, rtol=1e-14)
    q, spin = states(top, start, omega, jnp.array([0.0, 1.0, 10.0]), None, jnp.asarray(4000))
    wanted = {
        1: (0.9908733218746, 0.0233724054258, 0.0139837107575, -0.1320160842291),
        2: (0.2438016485942, 0.0195997964217, -0.0187249229593, -0.9694462240801),
    }
    position = {
        1: (0.0215411049743, -0.0500103354834, 0.9985163729961),
        2: (-0.047132231442, 0.0267486863587, 0.9985304504808),
    }
    for i in (1, 2):
        np.testing.assert_allclose(q[i], wanted[i], rtol=0, atol=1e-10)
        np.testing.assert_allclose(top.centre_of_mass(q[i]), position[i], rtol=0, atol=1e-10)
        last = energy(top, 0.0, q[i], spin[i])
        np.testing.assert_allclose(last, 1269.9750052078991, rtol=1e-11)


def test_steady_precession():
    """A cone with the spin C ω_s = m g l/ω_p + (A − C) ω_p cos β keeps its lean."""
    tall, base = 0.1, 0.05
    mass = 2700 * np.pi * base**2 * tall / 3
    pivot = 3 / 80 * mass * (4 * base**2 + tall**2) + mass * (0.75 * tall) ** 2
    axial, tilt, rate = 0.3 * mass * base**2, np.pi / 3, 10.0
    spin = (mass * 9.81 * 0.75 * tall / rate + (pivot - axial) * rate * np.cos(tilt)) / axial
    omega = jnp.array([0.0, rate * np.sin(tilt), rate * np.cos(tilt) + spin])
    top = HeavyTop(mass, [pivot, pivot, axial], [0, 0, 0.75 * tall])
    q, _ = end_state(top, turned(tilt), omega, 0.4, steps=400)
    axis = rotation(np.asarray(q))[:, 2]
    start = np.array([0, -np.sin(tilt), np.cos(tilt)])
    turn = np.array([[np.cos(4), -np.sin(4), 0], [np.sin(4), np.cos(4), 0], [0, 0, 1]])
    np.testing.assert_allclose(axis, turn @ start, rtol=0, atol=1e-11)


def test_top_against_the_reference_at_random(rng):
    inertia = inertias(rng)
    top = HeavyTop(2.0, inertia, [0.1, 0.2, -0.3])
    q, omega = unit_quaternions(rng), 3 * rng.normal(size=3)
    push = 2.0 * 9.81 * np.array([0.1, 0.2, -0.3])
    wanted = reference_bodies.heavy_top_rate(inertia, push, q, omega)
    for route in ROUTES:
        got = acceleration(top, 0.0, jnp.asarray(q), jnp.asarray(omega), route=route)
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


# --- the free rigid body --------------------------------------------------------------------------


def test_symmetric_free_body_turns_uniformly():
    """Ω_1 + i Ω_2 turns about e_3 at (C − A) Ω_3/A."""
    body = FreeRigidBody([2.0, 2.0, 3.0])
    _, omega = end_state(body, IDENTITY, jnp.array([0.3, 0.0, 1.2]), 5.0)
    phase = (3 - 2) * 1.2 / 2 * 5
    wanted = [0.3 * np.cos(phase), 0.3 * np.sin(phase), 1.2]
    np.testing.assert_allclose(omega, wanted, rtol=0, atol=1e-12)


def test_free_body_in_elliptic_functions():
    """y′ = (y_2 y_3, −y_1 y_3, −0.51 y_1 y_2) from (0, 1, 1): y = (sn, cn, dn)(t | 0.51) for 20 s.

    It is I = (2, 3, 1) with Ω = (√1.53 y_1, √0.51 y_2, √3 y_3).
    """
    scale = jnp.sqrt(jnp.array([1.53, 0.51, 3.0]))
    times = jnp.linspace(0.0, 20.0, 11)
    start = scale * jnp.array([0.0, 1.0, 1.0])
    _, omega = states(FreeRigidBody([2.0, 3, 1]), IDENTITY, start, times, None, jnp.asarray(60))
    wanted = np.stack(ellipj(np.asarray(times), 0.51)[:3], axis=1)
    np.testing.assert_allclose(omega / scale[None], wanted, rtol=0, atol=1e-12)


def test_free_body_keeps_energy_and_spatial_momentum(rng):
    inertia = inertias(rng)
    body = FreeRigidBody(inertia)
    start, omega = jnp.asarray(unit_quaternions(rng)), jnp.asarray(rng.normal(size=3))
    first = body.invariants(0.0, start, omega, None)
    last = body.invariants(10.0, *end_state(body, start, omega, 10.0, steps=300), None)
    for name in ("energy", "angular momentum"):
        np.testing.assert_allclose(last[name], first[name], rtol=0, atol=1e-11)


@pytest.mark.parametrize("route", ROUTES)
def test_free_body_is_a_top_without_weight(rng, route):
    inertia = inertias(rng)
    q, omega = jnp.asarray(unit_quaternions(rng)), jnp.asarray(rng.normal(size=3))
    wanted = reference_bodies.heavy_top_rate(inertia, np.zeros(3), np.asarray(q), np.asarray(omega))
    got = acceleration(FreeRigidBody(inertia), 0.0, q, omega, route=route)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


# --- Suslov ---------------------------------------------------------------------------------------

SUSLOV = np.array([[1, 0, 0.3], [0, 2.0, 0], [0.3, 0, 1.5]])


def test_suslov_exact_solution():
    """For I_11 = 1, I_22 = 2, I_13 = 0.3 the solution is in tanh and sech."""
    body, start = Suslov(SUSLOV, [0, 0, 1]), jnp.array([0.5, 0.2])
    _, omega = end_state(body, IDENTITY, start, 5.0)
    np.testing.assert_allclose(omega, [0.3310492170565, 0.3319686851845], rtol=0, atol=1e-12)
    twice_energy = 0.5**2 + 2 * 0.2**2
    width = np.sqrt(twice_energy / 2)
    k = 0.3 * width
    at = k * 5 + np.arctanh(0.2 / width)
    exact = [np.sqrt(twice_energy) / np.cosh(at), width * np.tanh(at)]
    np.testing.assert_allclose(omega, exact, rtol=0, atol=1e-12)


def turning(t):
    return jnp.stack([jnp.sin(t), 0.3 * jnp.cos(2 * t), 1.0 + 0.2 * t])


def turning_rate(t):
    return np.array([np.cos(t), -0.6 * np.sin(2 * t), 0.2])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("moving", [False, True])
def test_suslov_rate_and_multiplier(rng, route, moving):
    """(A.38) and the multiplier (A.37), with constant and with moving ξ."""
    inertia = inertias(rng)
    t = 0.7
    xi = np.asarray(turning(t)) if moving else np.array([0.3, -0.5, -0.4])
    xi_dot = turning_rate(t) if moving else np.zeros(3)
    body = Suslov(inertia, turning if moving else xi)
    q, u = jnp.asarray(unit_quaternions(rng)), jnp.asarray(rng.normal(size=2))
    frame = lambda t: body.frame(t, q)
    across, turning_of_frame = jax.jvp(frame, (t,), (1.0,))
    omega = np.asarray(u @ across[1:])
    omega_dot, multiplier = reference_bodies.suslov_rate(inertia, xi, xi_dot, omega)
    wanted = across[1:] @ omega_dot + turning_of_frame[1:] @ omega
    np.testing.assert_allclose(acceleration(body, t, q, u, route=route), wanted, rtol=1e-11)
    np.testing.assert_allclose(constraint_force(body, t, q, u), [multiplier], rtol=1e-11)


def test_suslov_frame_is_orthonormal_across_xi(rng):
    for xi in [*rng.normal(size=(20, 3)), np.array([1.0, 0, 0]), np.array([0, 0.1, -1])]:
        body = Suslov(SUSLOV, xi)
        frame = np.asarray(body.frame(0.0, IDENTITY))
        np.testing.assert_array_equal(frame[0], xi)
        np.testing.assert_allclose(frame[1:] @ xi, 0, atol=1e-13)
        np.testing.assert_allclose(frame[1:] @ frame[1:].T, np.eye(2), atol=1e-13)
        inverse = body.inverse_frame(0.0, IDENTITY)
        np.testing.assert_allclose(frame @ inverse, np.eye(3), atol=1e-13)


def test_suslov_energy_stays_while_xi_moves(rng):
    body = Suslov(inertias(rng), turning)
    start, u = jnp.asarray(unit_quaternions(rng)), jnp.array([0.8, -0.3])
    q, end = end_state(body, start, u, 3.0)
    first, last = (body.invariants(*s, None)["energy"] for s in ((0.0, start, u), (3.0, q, end)))
    np.testing.assert_allclose(last, first, rtol=1e-11)
    omega = body.inverse_frame(3.0, q)[:, 1:] @ end
    np.testing.assert_allclose(omega @ turning(3.0), 0, atol=1e-13)
    np.testing.assert_allclose(quasi_velocity(body, 3.0, q, omega), end, rtol=1e-13)


# --- all of them ----------------------------------------------------------------------------------


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FreeRigidBody([1.0, 1, 3]), "`inertia` .*triangle inequality.*units"),
        (lambda: FreeRigidBody(-np.eye(3)), "`inertia` .*positive definite"),
        (lambda: FreeRigidBody([0.0, 1, 1]), "`inertia` .*must be positive"),
        (lambda: FreeRigidBody([[1, 1, 0], [0, 1, 0], [0, 0, 1]]), "`inertia` is not symmetric"),
        (lambda: FreeRigidBody(np.eye(2)), r"`inertia` has shape \(2, 2\)"),
        (lambda: FreeRigidBody([1.0, np.nan, 1]), "`inertia` .*finite"),
        (lambda: HeavyTop(0.0, [1, 1, 1], [0, 0, 1]), "`mass` is 0.*positive"),
        (lambda: HeavyTop([1.0], [1, 1, 1], [0, 0, 1]), r"`mass` has shape \(1,\)"),
        (lambda: HeavyTop(1.0, [1, 1, 3], [0, 0, 1]), "`inertia` .*triangle"),
        (lambda: HeavyTop(1.0, [1, 1, 1], [0, 1]), r"`com` has shape \(2,\).*\(3,\)"),
        (lambda: HeavyTop(1.0, [1, 1, 1], [0, 0, 1], np.inf), "`gravity` .*finite"),
        (lambda: Suslov([1.0, 1, 1], [0.0, 0, -1]), "`xi` .*the same constraint"),
        (lambda: Suslov([1.0, 1, 1], [0.0, 0, 0]), "`xi` .*neither zero"),
        (lambda: Suslov([1.0, 1, 1], [0.0, 1]), r"`xi` has shape \(2,\)"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_thin_disk_and_rod_like_inertias_are_accepted():
    FreeRigidBody([1.0, 1.0, 2.0])  # a thin disk, exactly on the triangle inequality
    FreeRigidBody(np.float32([0.1, 0.2, 0.3]))
    FreeRigidBody([1e-6, 1.0, 1.0])


def test_checks_let_tracers_and_placeholders_pass():
    made = jax.jit(lambda inertia: HeavyTop(1.0, inertia, [0, 0, 1]))(jnp.array([1.0, 1, 3]))
    assert jax.tree.map(lambda _: None, made).mass is None


def test_single_precision(float32):
    top = HeavyTop(15.0, [15.234375, 0.46875, 15.234375], [0, 1, 0])
    rate = acceleration(top, 0.0, jnp.array([1.0, 0, 0, 0]), jnp.array([0.0, 150, -4.61538]))
    assert rate.dtype == jnp.float32
    np.testing.assert_allclose(rate, [661.34617, 0, 0], rtol=1e-6, atol=1e-3)
