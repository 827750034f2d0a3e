"""One rigid body in five choices of quasi-velocities: the equations that Müller (2021) and Massa and Vignolo print."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxhamel.geometry import SO3, Euclidean, quaternion_multiply, spatial_frame
from jaxhamel.mechanics import ROUTES, System, acceleration, momentum
from jaxhamel.systems import FreeRigidBody, RigidBody
from tests.reference.ball import rotation
from tests.systems.motion import inertias, states, unit_quaternions
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    first,
)

REPRESENTATIONS = ("body", "spatial", "hybrid", "mixed", "euler")
by_representation = pytest.mark.parametrize("representation", REPRESENTATIONS)
WRENCH = np.array([0.3, -0.8, 0.5, 1.1, 0.4, -0.7])
MASS, COM = 1.3, np.array([0.2, -0.4, 0.3])
INERTIA = inertias(np.random.default_rng(8))


@pytest.fixture
def rng():
    return np.random.default_rng(21)


def body(representation, gravity=0.0, com=COM):
    return RigidBody(MASS, INERTIA, com, gravity, representation)


def random_states(rng):
    pose = np.concatenate([unit_quaternions(rng, STATES), rng.normal(size=(STATES, 3))], axis=1)
    return pose, rng.normal(size=(STATES, 6))


def tilde(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def euler_matrix(turn):
    """E of Ω = E (φ̇, θ̇, ψ̇) by the matrix R = R_z(φ) R_x(θ) R_z(ψ) it comes from."""
    gamma = turn[2]
    nodes = np.array([gamma[1], -gamma[0], 0]) / np.hypot(gamma[0], gamma[1])
    return np.column_stack([gamma, nodes, [0, 0, 1.0]])


def body_twist(representation, turn, p, u):
    """(Ω, V) and the wrench about the reference point in body axes, from u and W: by geometry."""
    angular, linear, torque, force = u[:3], u[3:], WRENCH[:3], WRENCH[3:]
    if representation == "body":
        return angular, linear, torque, force
    if representation == "spatial":
        p_dot = linear + np.cross(angular, p)
        about_point = torque - np.cross(p, force)
        return turn.T @ angular, turn.T @ p_dot, turn.T @ about_point, turn.T @ force
    if representation == "hybrid":
        return turn.T @ angular, turn.T @ linear, turn.T @ torque, turn.T @ force
    if representation == "mixed":
        return angular, turn.T @ linear, torque, turn.T @ force
    E = euler_matrix(turn)
    return E @ angular, turn.T @ linear, np.linalg.solve(E.T, torque), turn.T @ force


def newton_euler(representation, pose, u, u_dot):
    """The left sides less the right sides as printed: (91), (110)–(111), (124); mixed by Massa and Vignolo."""
    turn, p = rotation(pose[:4]), pose[4:]
    torque, force = WRENCH[:3], WRENCH[3:]
    w, v, w_dot, v_dot = u[:3], u[3:], u_dot[:3], u_dot[3:]
    d, W, turning = COM, tilde(w), tilde(w_dot) + tilde(w) @ tilde(w)
    if representation == "spatial":
        d = turn @ COM + p
        at_origin = turn @ INERTIA @ turn.T - MASS * tilde(d) @ tilde(d)
    elif representation == "hybrid":
        d = turn @ COM
        at_origin = turn @ INERTIA @ turn.T - MASS * tilde(d) @ tilde(d)
    else:
        at_origin = INERTIA - MASS * tilde(d) @ tilde(d)
    spin = at_origin @ w_dot + W @ at_origin @ w
    if representation in ("body", "spatial"):  # (91); (110) and (111) with d + r for d
        angular = spin + MASS * tilde(d) @ (v_dot + W @ v) - torque
        return angular, MASS * (v_dot + W @ v + turning @ d) - force
    if representation == "hybrid":  # (124)
        return spin + MASS * tilde(d) @ v_dot - torque, MASS * (v_dot + turning @ d) - force
    # mixed: dQ/dt = R_ext; dΓ/dt|_body + Ω × Γ + v × Q = M_O, with Q and Γ differentiated by hand
    V = turn.T @ v
    V_dot = turn.T @ v_dot - W @ V
    Q = MASS * (V + W @ d)
    moment = at_origin @ w + MASS * np.cross(d, V)
    moment_rate = at_origin @ w_dot + MASS * np.cross(d, V_dot)
    angular = moment_rate + np.cross(w, moment) + np.cross(V, Q) - torque
    return angular, MASS * (v_dot + turn @ (turning @ d)) - force


@by_representation
def test_newton_euler_as_printed(representation, rng):
    """The general formula's u̇ closes the printed equations, whose reference point is not the centre of mass.

    Under weight, too, u̇ is that of the two laws at the centre of mass; in space by every route.
    """
    names = ROUTES if representation == "spatial" else ("boltzmann-hamel",)
    control = jnp.asarray(WRENCH)

    def rates(state):
        q, u, gravity = state
        system = body(representation, gravity)
        found = [acceleration(system, 0.0, q, u, control, route=name) for name in names]
        return found, system.closed_form(0.0, q, u, control)

    poses, velocities = random_states(rng)
    gravity = np.array([0.0, 0.0, 9.81, -3.0])
    every = jax.jit(
        lambda states: jax.lax.map(rates, states)
    )  # one body: half of vmap's compilation
    found, wanted = every(tuple(map(jnp.asarray, (poses, velocities, gravity))))
    size = 1.0 + np.max(np.abs(wanted))
    for name, rate in zip(names, found, strict=True):
        np.testing.assert_allclose(rate, wanted, rtol=0, atol=1e-12 * size, err_msg=name)
    for i in (0, 1) if representation != "euler" else ():
        u_dot = np.asarray(found[0][i])
        angular, linear = newton_euler(representation, poses[i], velocities[i], u_dot)
        np.testing.assert_allclose(angular, 0.0, atol=1e-12)
        np.testing.assert_allclose(linear, 0.0, atol=1e-12)


@by_representation
def test_one_motion_by_five_choices(representation, rng):
    """Ω̇ and the acceleration of the centre of mass, from u by geometry, are those of one body under one wrench."""
    system = body(representation)
    (pose,), (u,) = (x[:1] for x in random_states(rng))
    turn, p = rotation(pose[:4]), pose[4:]
    omega, _, torque, force = body_twist(representation, turn, p, u)

    def spin_and_momentum(q, u):
        """(R I Ω, m ẋ) about the centre of mass, by the system's own momenta about the origin of space."""
        whole = system.spatial_momentum(q, u)
        x = system.centre_of_mass(q)
        return jnp.concatenate([whole[:3] - jnp.cross(x, whole[3:]), whole[3:]])

    @jax.jit
    def along(q, u):
        v = system.inverse_frame(0.0, q) @ u
        rate = system.closed_form(0.0, q, u, jnp.asarray(WRENCH))
        _, found = jax.jvp(spin_and_momentum, (q, u), (system.space.rate(q, v), rate))
        product = system.frame(0.0, q) @ system.inverse_frame(0.0, q)
        return v, found, product

    v, found, product = along(jnp.asarray(pose), jnp.asarray(u))
    np.testing.assert_allclose(product, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(v[:3], omega, atol=1e-13)
    about_com = turn @ (torque - np.cross(COM, force))
    np.testing.assert_allclose(found, np.concatenate([about_com, turn @ force]), atol=1e-12)


def test_the_reference_point_may_be_anywhere():
    """Another reference point of the body gives the same Ω̇ and the same motion of the centre of mass."""
    system = lambda com: body("body", 2.0, com)
    both = jax.jit(lambda com, q, u: acceleration(system(com), 0.0, q, u, route="boltzmann-hamel"))

    @given(seed=st.integers(0, 10**6))
    def check(seed):
        rng = np.random.default_rng(seed)
        shift = rng.normal(size=3)
        pose, u = (x[0] for x in random_states(rng))
        turn, omega = rotation(pose[:4]), u[:3]
        there = np.concatenate([pose[:4], pose[4:] + turn @ shift])
        u_there = np.concatenate([omega, u[3:] + np.cross(omega, shift)])
        here = both(*map(jnp.asarray, (COM, pose, u)))
        moved = both(*map(jnp.asarray, (COM - shift, there, u_there)))
        expected = here[3:] + np.cross(here[:3], shift)  # V̇' = V̇ + Ω̇ × shift
        np.testing.assert_allclose(moved[:3], here[:3], atol=1e-10)
        np.testing.assert_allclose(moved[3:], expected, atol=1e-10)

    check()


class InEulerAngles(System):
    """The same body in coordinates (φ, θ, ψ, p) of R^6: plain Lagrange's equations, u = q̇."""

    system: RigidBody
    space = Euclidean(6)

    def lagrangian(self, t, q, v):
        s, c = jnp.sin(q[:3]), jnp.cos(q[:3])
        omega = jnp.stack(
            [
                v[0] * s[1] * s[2] + v[1] * c[2],
                v[0] * s[1] * c[2] - v[1] * s[2],
                v[0] * c[1] + v[2],
            ]
        )
        columns = (
            [c[0] * c[2] - s[0] * c[1] * s[2], -c[0] * s[2] - s[0] * c[1] * c[2], s[0] * s[1]],
            [s[0] * c[2] + c[0] * c[1] * s[2], -s[0] * s[2] + c[0] * c[1] * c[2], -c[0] * s[1]],
            [s[1] * s[2], s[1] * c[2], c[1]],
        )
        turn = jnp.stack([jnp.stack(row) for row in columns])
        com = self.system.com
        of_com = v[3:] + turn @ jnp.cross(omega, com)
        spin = jnp.dot(omega, self.system.inertia @ omega)
        height = q[5] + jnp.dot(turn[2], com)
        kinetic = 0.5 * (self.system.mass * jnp.dot(of_com, of_com) + spin)
        return kinetic - self.system.mass * self.system.gravity * height


def test_lagrange_in_coordinates():
    """Massa and Vignolo's jet coordinates: the euler representation on SE(3) is Lagrange's equations on R^6."""
    system = body("euler", 9.81)
    angles, p, u = [0.4, 1.1, -0.7], [0.3, -0.2, 1.0], jnp.array([0.6, -1.2, 0.8, 0.1, 0.5, -0.4])
    about = lambda angle, axis: jnp.array(
        [np.cos(angle / 2), *(np.sin(angle / 2) * np.eye(3)[axis])]
    )
    q = quaternion_multiply(about(angles[0], 2), about(angles[1], 0))
    q = jnp.concatenate([quaternion_multiply(q, about(angles[2], 2)), jnp.array(p)])
    wanted = acceleration(InEulerAngles(system), 0.0, jnp.array([*angles, *p]), u)
    np.testing.assert_allclose(system.closed_form(0.0, q, u), wanted, rtol=0, atol=1e-11)


@by_representation
def test_momenta(representation, rng):
    """∂T/∂u is the linear momentum and the angular momentum about the reference point (Massa and Vignolo, (17), (19))."""
    system = body(representation)
    pose, u = (x[0] for x in random_states(rng))
    turn, p = rotation(pose[:4]), pose[4:]
    omega, V, *_ = body_twist(representation, turn, p, u)
    Q = MASS * (V + np.cross(omega, COM))
    moment = INERTIA @ omega + np.cross(COM, Q)  # about the reference point, body axes
    expected = {
        "body": [moment, Q],
        "spatial": [turn @ moment + np.cross(p, turn @ Q), turn @ Q],
        "hybrid": [turn @ moment, turn @ Q],
        "mixed": [moment, turn @ Q],
        "euler": [euler_matrix(turn).T @ moment, turn @ Q],
    }[representation]
    found = momentum(system, 0.0, jnp.asarray(pose), jnp.asarray(u))
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-12)
    about_origin = np.concatenate([turn @ moment + np.cross(p, turn @ Q), turn @ Q])
    own = system.spatial_momentum(jnp.asarray(pose), jnp.asarray(u))
    np.testing.assert_allclose(own, about_origin, atol=1e-12)


def test_invariants_and_spatial_momentum(rng):
    """(113): Π̇_s = W_s = 0 for a free body; under weight the centre of mass falls, the spin stays."""
    pose, u = map(jnp.asarray, first(random_states(rng)))
    times = jnp.linspace(0.0, 2.0, 3)
    free, heavy = body("spatial"), body("spatial", 9.81)
    path = states(free, pose, u, times, steps=80)
    assert_kept(free, path, 1e-10)
    whole = jax.vmap(free.spatial_momentum)(*path)
    np.testing.assert_allclose(whole, whole[:1] + 0 * whole, rtol=0, atol=1e-10)
    q, u = jax.tree.map(lambda x: x[-1], states(heavy, pose, u, times, steps=80))
    start, end = heavy.centre_of_mass(pose), heavy.centre_of_mass(q)
    v_com = whole[0, 3:] / MASS
    np.testing.assert_allclose(
        end, start + 2.0 * v_com - jnp.array([0, 0, 2 * 9.81]), rtol=0, atol=1e-9
    )
    before = heavy.invariants(0.0, pose, path[1][0], None)
    after = heavy.invariants(2.0, q, u, None)
    for name, value in after.items():
        np.testing.assert_allclose(value, before[name], rtol=0, atol=1e-9, err_msg=name)
    assert heavy.invariants(0.0, q, u, WRENCH) == {}


class InSpace(FreeRigidBody):
    """Euler's body in the spatial angular velocity."""

    def frame(self, t, q):
        return spatial_frame(SO3())(q)

    def force(self, t, q, v, control):
        return self.frame(t, q).T @ control

    def bodies(self, t, q, v, control):
        (spins,) = super().bodies(t, q, v, control)
        return (type(spins)(spins.inertia, spins.omega, self.force(t, q, v, control(t))[None]),)


def test_fixed_point_in_space(rng):
    """(66): Θ_s ω̇ + ω × Θ_s ω = τ_s, Θ_s = R Θ Rᵀ, by every route; and (67), d(Θ_s ω)/dt = τ_s."""
    q, omega, torque = unit_quaternions(rng), rng.normal(size=3), rng.normal(size=3)
    turn = rotation(q)
    in_space = turn @ INERTIA @ turn.T
    system = InSpace(INERTIA)
    wanted = np.linalg.solve(in_space, torque - np.cross(omega, in_space @ omega))
    state = [jnp.asarray(x) for x in (q, omega, torque)]
    found = jax.jit(lambda *x: [acceleration(system, 0.0, *x, route=name) for name in ROUTES])
    for rate in found(*state):
        np.testing.assert_allclose(rate, wanted, atol=1e-12)
    q_dot = system.space.rate(jnp.asarray(q), turn.T @ omega)
    _, rate = jax.jvp(
        lambda q, w: system.frame(0.0, q) @ INERTIA @ system.frame(0.0, q).T @ w,
        (jnp.asarray(q), jnp.asarray(omega)),
        (q_dot, jnp.asarray(wanted)),
    )
    np.testing.assert_allclose(rate, torque, atol=1e-12)


def test_gradients(rng):
    assert_parameter_gradients_agree(body("spatial", 9.81), *first(random_states(rng)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RigidBody(0.0, [1.0, 1, 1]), "`mass` is 0.*positive"),
        (lambda: RigidBody(1.0, [1.0, 1, 3]), "`inertia` .*triangle"),
        (lambda: RigidBody(1.0, [1.0, 1, 1], [1.0, 2.0]), r"`com` has shape \(2,\)"),
        (lambda: RigidBody(1.0, [1.0, 1, 1], gravity=np.inf), "`gravity` .*finite"),
        (
            lambda: RigidBody(1.0, [1.0, 1, 1], representation="screw"),
            "`representation` is 'screw'; it must be one of 'body', 'spatial'",
        ),
        (
            lambda: acceleration(body("body"), 0.0, jnp.eye(7)[0], jnp.ones(6), jnp.ones(3)),
            r"`control` has values of shape \(3,\).*wrench",
        ),
        (
            lambda: acceleration(body("euler"), 0.0, jnp.eye(7)[0], jnp.ones(6)),
            r"frame\(t, q\)",
        ),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_single_precision(float32):
    system = RigidBody(1.3, [0.3, 0.4, 0.5], representation="hybrid")
    q, u = jnp.eye(7, dtype=jnp.float32)[0], jnp.array([1.0, 2, 3, 0, 0, 1], jnp.float32)
    rate = acceleration(system, 0.0, q, u)
    assert rate.dtype == jnp.float32
    np.testing.assert_allclose(rate, [-2.0, 1.5, -0.4, 0, 0, 0], rtol=1e-5, atol=1e-6)
