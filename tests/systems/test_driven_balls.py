"""Balls driven by pendula and by rotors: free bodies with hinges, rails with prescribed motion, momenta, limits."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import simulate
from jaxhamel.mechanics import ROUTES, acceleration, as_control, power_balance
from jaxhamel.systems import (
    ChaplyginSphere,
    CircularRails,
    RollingBall,
    RollingPendulumBall,
    RollingRotorBall,
)
from tests.one_by_one import of_each
from tests.reference import driven_ball as rd
from tests.reference.ball import rotation
from tests.systems.motion import inertias, states, unit_pairs, unit_quaternions
from tests.systems.nonholonomic import (
    assert_kept,
    assert_parameter_gradients_agree,
    first,
)

STATES, N = 4, 2


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def pendulum_parameters(rng, n=N):
    """A shell and n pendula, none of them on an axis of symmetry."""
    return {
        "radius": 0.7,
        "shell_mass": 1.3,
        "shell_inertia": inertias(rng),
        "shell_com": 0.1 * rng.normal(size=3),
        "masses": rng.uniform(0.3, 1.0, n),
        "inertias": inertias(rng, n),
        "pivots": 0.2 * rng.normal(size=(n, 3)),
        "axes": unit_pairs(rng, n)[0],
        "coms": 0.4 * rng.normal(size=(n, 3)),
        "gravity": 3.0,
    }


def rotor_parameters(rng, n=N):
    """The same ball in two descriptions: a shell with rotors on their axes, and one body with n rotors."""
    parts = pendulum_parameters(rng, n)
    axial, across = rng.uniform(0.2, 0.4, n), rng.uniform(0.3, 0.5, n)
    axes = parts["axes"]
    along = axes[:, :, None] * axes[:, None, :]
    own = across[:, None, None] * np.eye(3) + (axial - across)[:, None, None] * along
    parts |= {"coms": np.zeros((n, 3)), "inertias": own}
    mass = np.append(parts["shell_mass"], parts["masses"])
    places = np.concatenate([parts["shell_com"][None], parts["pivots"]])
    com = mass @ places / np.sum(mass)
    arm = places - com
    square = np.sum(arm * arm, axis=1)[:, None, None] * np.eye(3)
    steiner = np.einsum("i,ijk->jk", mass, square - arm[:, :, None] * arm[:, None, :])
    whole = parts["shell_inertia"] + np.sum(own, axis=0) + steiner
    body = {
        "radius": parts["radius"],
        "mass": np.sum(mass),
        "inertia": whole,
        "axes": axes,
        "rotor_inertias": axial,
        "com": com,
        "gravity": parts["gravity"],
    }
    return parts, body


def random_states(rng, n=N):
    q = unit_quaternions(rng, STATES), rng.normal(size=(STATES, 2)), rng.normal(size=(STATES, n))
    return q, rng.normal(size=(STATES, 3 + n))


def one(at, i):
    return jax.tree.map(lambda x: jnp.asarray(x[i]), at)


def assert_every_route_is_the_hinged_model(system, parts, at, torques):
    """Each route, the closed form and the ground's force equal those of free bodies with hinges."""

    @of_each
    def of_system(q, u):
        found = {name: acceleration(system, 0.0, q, u, torques, route=name) for name in ROUTES}
        found["closed form"] = system.closed_form(0.0, q, u, torques)
        return found, system.contact_force(0.0, q, u, torques)

    rates, force = of_system(*jax.tree.map(jnp.asarray, at))
    (quaternion, _, angles), u = at
    for i in range(STATES):
        numbers = (quaternion[i], angles[i], u[i, :3], u[i, 3:], np.asarray(torques))
        omega_dot, seconds, wanted = rd.accelerations(rd.Hinged(**parts), *numbers)
        for name, rate in rates.items():
            error = np.max(np.abs(rate[i] - np.concatenate([omega_dot, seconds])))
            assert error < 1e-11 * (1 + np.max(np.abs(rate[i]))), name
        np.testing.assert_allclose(force[i], wanted, rtol=1e-10, atol=1e-10)


# --- pendula --------------------------------------------------------------------------------------


def test_pendula_are_bodies_on_hinges(rng):
    parts, at = pendulum_parameters(rng), random_states(rng)
    system, torques = RollingPendulumBall(**parts), jnp.array([0.8, -1.3])
    assert_every_route_is_the_hinged_model(system, parts, at, torques)


def test_pendula_gradients(rng):
    at = first(random_states(rng))
    assert_parameter_gradients_agree(RollingPendulumBall(**pendulum_parameters(rng)), *at)


def point_pendula(rng):
    """Two point masses on arms perpendicular to their axes, and the circular rails that they follow."""
    axis, across = unit_pairs(rng, N)
    length = np.array([0.3, 0.45])
    parts = pendulum_parameters(rng) | {
        "axes": axis,
        "coms": length[:, None] * across,
        "inertias": np.zeros((N, 3)),
    }
    shared = ("radius", "shell_mass", "shell_inertia", "shell_com", "masses", "gravity")
    rails = CircularRails(length, axis, across, parts["pivots"])
    ball = RollingBall(**{name: parts[name] for name in shared}, rails=rails)
    return RollingPendulumBall(**parts), ball


def test_point_pendula_that_follow_angles_are_masses_on_circles(rng):
    """Torques from inverse dynamics give the motion of `RollingBall` with prescribed θ(t), and its contact force."""
    system, ball = point_pendula(rng)
    theta = lambda t: jnp.sin(jnp.array([1.3, -0.8]) * t + 0.4) * 1.5
    rate = jax.jacfwd(theta)
    t, (q, u) = 0.6, random_states(rng)

    @of_each
    def both(orientation, position, omega):
        q = (orientation, position, theta(t))
        u = jnp.concatenate([omega, rate(t)])
        torques = system.drive_torques(q, u, jax.jacfwd(rate)(t))
        driven = (
            acceleration(system, t, q, u, torques),
            system.contact_force(t, q, u, torques),
        )
        at = (t, q[:2], omega, theta)
        return driven, (ball.closed_form(*at), ball.contact_force(*at))

    (found, force), wanted = both(*map(jnp.asarray, (q[0], q[1], u[:, :3])))
    np.testing.assert_allclose(found[:, :3], wanted[0], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found[:, 3:], [jax.jacfwd(rate)(t)] * STATES, rtol=1e-11)
    np.testing.assert_allclose(force, wanted[1], rtol=1e-11, atol=1e-11)


def test_held_pendula_are_frozen_masses(rng):
    """With θ̇ = θ̈ = 0 the pendula are masses at rest, with their own inertias added to the shell's."""
    parts = pendulum_parameters(rng)
    system, (q, u) = RollingPendulumBall(**parts), one(random_states(rng), 1)
    u = u.at[3:].set(0.0)
    torques = system.drive_torques(q, u, jnp.zeros(N))
    turned = [rd._turned(a, th) for a, th in zip(parts["axes"], np.asarray(q[2]), strict=True)]
    held = np.sum([r @ j @ r.T for r, j in zip(turned, parts["inertias"], strict=True)], axis=0)
    places = np.asarray(system.pendulum_positions(q[2]))
    ball = RollingBall(
        parts["radius"],
        parts["shell_mass"],
        parts["shell_inertia"] + held,
        parts["shell_com"],
        parts["masses"],
        lambda theta: places + 0.0 * theta[:, None],
        parts["gravity"],
    )
    rate = acceleration(system, 0.0, q, u, torques)
    wanted = acceleration(ball, 0.0, q[:2], u[:3], jnp.zeros(N))
    np.testing.assert_allclose(rate[:3], wanted, rtol=1e-11)
    np.testing.assert_allclose(rate[3:], 0, atol=1e-12)


def test_small_swings_of_a_free_pendulum():
    """ω² = (g/l) A/(A − m), A = M + I/r² + m, since the ball recoils."""
    r, shell, inertia, m, length = 0.5, 2.0, 0.3, 0.7, 0.35
    ball = RollingPendulumBall(
        r,
        shell,
        [inertia] * 3,
        [0, 0, 0],
        [m],
        [[0, 0, 0]],
        [[0, 0, 0]],
        [[0, 1, 0]],
        [[0, 0, -length]],
    )

    def swing(angle):
        q = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2), angle[None])
        rate = ball.closed_form(0.0, q, jnp.zeros(4))
        return rate[1] + rate[3]  # angular acceleration of the pendulum in space

    whole = shell + inertia / r**2 + m
    stiffness = -jax.grad(swing)(0.0)
    np.testing.assert_allclose(stiffness, 9.81 / length * whole / (whole - m), rtol=1e-12)


def test_power_of_the_drives(rng):
    """dE/dt = τ·θ̇, and the ground does no work."""
    system, (q, u) = RollingPendulumBall(**pendulum_parameters(rng)), one(random_states(rng), 2)
    torques = jnp.array([0.8, -1.3])
    power = power_balance(system, 0.0, q, u, torques)
    np.testing.assert_allclose(power.rate, torques @ u[3:], rtol=1e-11)
    np.testing.assert_allclose(power.force, torques @ u[3:], rtol=1e-14)


TIMES = jnp.array([0.0, 0.5, 1.0])


def test_pendula_keep_their_energy(rng):
    """`simulate` conserves E − τ·θ with constant torques and E without torques."""
    system, (q, u) = RollingPendulumBall(**pendulum_parameters(rng)), one(random_states(rng), 3)
    for torques in (jnp.zeros(N), jnp.array([0.8, -1.3])):
        found = simulate(system, q, u, TIMES, torques, rtol=1e-11, atol=1e-13)
        assert np.max(np.abs(found.u[-1] - u)) > 0.1
        assert_kept(system, (found.q, found.u), 1e-8, as_control(torques))
    assert set(system.invariants(0.0, q, u, None)) == {"energy"}


# --- rotors ---------------------------------------------------------------------------------------


def test_rotors_are_bodies_on_hinges(rng):
    (parts, body), at = rotor_parameters(rng), random_states(rng)
    system, torques = RollingRotorBall(**body), jnp.array([0.8, -1.3])
    assert_every_route_is_the_hinged_model(system, parts, at, torques)


def test_rotors_gradients(rng):
    assert_parameter_gradients_agree(
        RollingRotorBall(**rotor_parameters(rng)[1]), *first(random_states(rng))
    )


def test_rotors_are_pendula_without_an_arm(rng):
    parts, body = rotor_parameters(rng)
    q, u = one(random_states(rng), 0)
    torques = jnp.array([0.2, 0.3])
    wanted = RollingPendulumBall(**parts).closed_form(0.0, q, u, torques)
    got = RollingRotorBall(**body).closed_form(0.0, q, u, torques)
    np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)


class Shaking(eqx.Module):
    """Torques that change with time."""

    size: jax.Array

    def __call__(self, t):
        return self.size * jnp.sin(3.0 * t + jnp.array([0.0, 1.0]))


def centred(rng):
    body = rotor_parameters(rng)[1]
    return RollingRotorBall(**(body | {"com": None}))


def driven(system, q, u, size):
    """The path under torques of the given size."""
    return states(system, q, u, TIMES, Shaking(jnp.asarray(size)), steps=40)


def test_torques_cannot_change_the_momentum_about_the_contact(rng):
    """The momentum K of the whole about the contact, in space, is conserved while the rotors are driven."""
    system, (q, u) = centred(rng), one(random_states(rng), 1)
    control = Shaking(jnp.zeros(N))
    path = driven(system, q, u, [0.7, 1.1])
    assert set(system.invariants(0.0, q, u, control)) == {"momentum about the contact"}
    assert_kept(system, path, control=control)
    own = path[1][:, :3] @ system.axes.T + path[1][:, 3:]
    assert np.max(np.abs(own[-1] - own[0])) > 0.1  # the drives change the rotors' momenta
    # the momentum in numbers, from the velocities of the parts
    turn = rotation(np.asarray(q[0]))
    arm = float(system.radius) * turn[2]
    own = system.inertia @ u[:3] + (system.rotor_inertias * u[3:]) @ system.axes
    whole = turn @ (own + system.mass * np.cross(arm, np.cross(u[:3], arm)))
    np.testing.assert_allclose(system.contact_momentum(q, u), whole, rtol=1e-13)


def test_free_rotors_keep_energy_and_every_momentum(rng):
    system, (q, u) = centred(rng), one(random_states(rng), 2)
    assert set(system.invariants(0.0, q, u, None)) == {
        "energy",
        "rotors' momenta",
        "momentum about the contact",
    }
    assert_kept(system, driven(system, q, u, [0.0, 0.0]))


def test_held_rotors_leave_chaplygins_sphere(rng):
    system, (q, u) = centred(rng), one(random_states(rng), 0)
    u = u.at[3:].set(0.0)
    torques = system.drive_torques(q, u, jnp.zeros(N))
    sphere = ChaplyginSphere(system.radius, system.mass, system.inertia)
    wanted = sphere.closed_form(0.0, q[:2], u[:3])
    np.testing.assert_allclose(system.closed_form(0.0, q, u, torques)[:3], wanted, rtol=1e-11)


def test_a_rotor_rolls_the_ball_by_what_its_angle_is_worth():
    """A rotor about y in a homogeneous ball at rest rolls it by the angle φ with (I − j + m r²) φ = −j (ψ + φ)."""
    r, m, inertia, j = 0.4, 1.5, 0.2, 0.05
    ball = RollingRotorBall(r, m, inertia * np.eye(3), [[0, 1.0, 0], [0, 0, 1.0]], [j, j])
    start = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2), jnp.zeros(N))
    (_, place, angle), u = driven(ball, start, jnp.zeros(3 + N), [0.3, 0.0])
    roll = place[:, 0] / r
    turned = j * (angle[:, 0] + roll)
    np.testing.assert_allclose((inertia - j + m * r * r) * roll, -turned, rtol=0, atol=1e-13)
    # the rotor's own momentum is the integral of the torque 0.3 sin 3t
    wanted = 0.1 * (1 - np.cos(3 * TIMES))
    np.testing.assert_allclose(j * (u[:, 1] + u[:, 3]), wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(place[:, 1], 0, atol=1e-15)


def test_only_the_direction_of_an_axis_counts(rng):
    """The derivative by an axis vanishes along the axis itself."""
    system, (q, u) = centred(rng), one(random_states(rng), 0)
    slope = jax.jit(jax.grad(lambda s: jnp.sum(s.closed_form(0.0, q, u))))(system).axes
    assert np.max(np.abs(slope)) > 1e-2
    np.testing.assert_allclose(np.sum(slope * system.axes, axis=1), 0, atol=1e-13)


# --- both -----------------------------------------------------------------------------------------


def test_inverse_dynamics_gives_the_torques_back(rng):
    """θ̈ by Gauss' principle from torques τ, put into Newton's and Euler's equations, returns τ at every state."""
    torques, at = jnp.array([0.8, -1.3]), jax.tree.map(jnp.asarray, random_states(rng))
    pendula = RollingPendulumBall(**pendulum_parameters(rng))
    for system in (RollingRotorBall(**rotor_parameters(rng)[1]), pendula):

        def there_and_back(q, u, system=system):
            return system.drive_torques(q, u, acceleration(system, 0.0, q, u, torques)[3:])

        found = jax.jit(jax.vmap(there_and_back))(*at)
        np.testing.assert_allclose(found, [torques] * STATES, rtol=1e-10)


def test_new_values_compile_nothing(rng):
    parts = pendulum_parameters(rng)
    q, u = one(random_states(rng), 0)
    traces = []

    @jax.jit
    def rate(system, torques):
        traces.append(1)
        return system.closed_form(0.0, q, u, torques)

    one_rate = rate(RollingPendulumBall(**parts), jnp.zeros(N))
    changed = parts | {"radius": 1, "masses": [1, 2], "coms": np.ones((N, 3)), "gravity": 2}
    assert np.any(rate(RollingPendulumBall(**changed), jnp.ones(N)) != one_rate)
    assert len(traces) == 1


def test_single_precision(float32):
    rng = np.random.default_rng(3)
    q, u = jax.tree.map(lambda x: jnp.float32(x[0]), random_states(rng))
    pendula = RollingPendulumBall(**pendulum_parameters(rng))
    rotors = RollingRotorBall(**rotor_parameters(rng)[1])
    torques = jnp.array([0.1, 0.2])
    for system in (pendula, rotors):
        for f in (system.closed_form, partial(acceleration, system)):
            assert jax.eval_shape(lambda f=f: f(0.0, q, u, torques)).dtype == jnp.float32
    wanted = acceleration(rotors, 0.0, q, u, torques)
    np.testing.assert_allclose(rotors.closed_form(0.0, q, u, torques), wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 0.0}, "`radius` .*positive"),
        ({"masses": [1.0, 0.0]}, "`masses` .*positive"),
        ({"axes": np.ones((2, 3))}, "`axes` .*unit vector"),
        ({"pivots": np.ones((1, 3))}, r"`pivots` has shape \(1, 3\).*\(2, 3\)"),
        ({"coms": [0.0, 0, 1]}, r"`coms` has shape \(3,\)"),
        ({"inertias": np.ones((2, 2))}, r"`inertias` has shape \(2, 2\).*\(2, 3\).*point mass"),
        ({"inertias": [[1.0, 1, 1], [1, 1, 3]]}, r"`inertias\[1\]` .*triangle"),
        ({"inertias": [[1.0, 1, 1], [-1, 1, 1]]}, r"`inertias\[1\]` .*negative"),
        ({"inertias": np.zeros((2, 3)), "coms": np.zeros((2, 3))}, "`coms` .*off the axis"),
        ({"shell_inertia": [1.0, 1.0, 3.0]}, "`shell_inertia` .*triangle"),
    ],
)
def test_pendulum_messages(rng, changes, message):
    with pytest.raises(ValueError, match=message):
        RollingPendulumBall(**(pendulum_parameters(rng) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": -1.0}, "`mass` .*positive"),
        ({"rotor_inertias": [0.1, -0.1]}, "`rotor_inertias` .*positive"),
        ({"rotor_inertias": [10.0, 0.1]}, "`inertia` less the rotors'.*held"),
        ({"axes": np.zeros((2, 3))}, "`axes` .*unit vector"),
        ({"com": [0.0]}, r"`com` has shape \(1,\)"),
        ({"gravity": np.inf}, "`gravity` .*finite"),
    ],
)
def test_rotor_messages(rng, changes, message):
    with pytest.raises(ValueError, match=message):
        RollingRotorBall(**(rotor_parameters(rng)[1] | changes))


def test_a_control_that_is_no_torque_is_refused(rng):
    system, (q, u) = centred(rng), one(random_states(rng), 0)
    with pytest.raises(ValueError, match=r"`control` has values of shape \(3,\).*torques"):
        acceleration(system, 0.0, q, u, jnp.zeros(3))
