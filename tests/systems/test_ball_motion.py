"""The rolling ball in motion: the regression trajectory, its contact forces, conserved quantities."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import quaternion_rotate
from jaxhamel.mechanics import energy
from jaxhamel.simulate import simulate
from jaxhamel.systems import RollingBall
from tests.reference.ball import rotation
from tests.reference.runs import CHAPLYGIN_SPHERE, RUN
from tests.systems.ball import two_mass_ball
from tests.systems.motion import end_state, states

START = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))


def two_waves(t):
    return 0.3 * jnp.sin(2 * t + jnp.array([0.0, 0.5])) - jnp.pi / 2


@pytest.fixture(scope="module")
def run():
    """The regression trajectory, every 10 ms."""
    ts = jnp.linspace(0.0, 5.0, 501)
    return ts, *states(two_mass_ball(), START, jnp.zeros(3), ts, two_waves, jnp.asarray(1))


@pytest.mark.parametrize("t", RUN)
def test_regression_trajectory(run, t):
    quaternion, omega, position, force = RUN[t]
    at = round(t / 0.01)
    q, u = jax.tree.map(lambda x: x[at], run[1:])
    np.testing.assert_allclose(q[0], quaternion, rtol=0, atol=1e-11)
    np.testing.assert_allclose(u, omega, rtol=0, atol=1e-11)
    np.testing.assert_allclose(q[1], position, rtol=0, atol=1e-11)
    got = two_mass_ball().contact_force(t, q, u, two_waves)
    np.testing.assert_allclose(got, force, rtol=0, atol=1e-9)


class CountedWaves(eqx.Module):
    """The motion of the masses, with its numbers as leaves. It counts its traces for compilation.

    Checks of the control's values, at a number or under `vmap` alone, compile nothing and are not counted.
    """

    frequency: jax.Array
    calls: list = eqx.field(static=True)

    def __call__(self, t):
        if isinstance(t, jax.core.Tracer) and "Batch" not in type(t).__name__:
            self.calls.append(1)
        return 0.3 * jnp.sin(self.frequency * t + jnp.array([0.0, 0.5])) - jnp.pi / 2


def test_simulate_finds_the_regression_trajectory_and_other_values_compile_nothing():
    calls, ts = [], jnp.array([0.0, 1.0, 5.0])

    def run(frequency, **changes):
        control = CountedWaves(jnp.asarray(frequency), calls)
        return simulate(
            two_mass_ball(**changes), START, jnp.zeros(3), ts, control, rtol=1e-11, atol=1e-12
        )

    found = run(2.0)
    traced = len(calls)
    assert traced > 0
    for row, t in enumerate(RUN, start=1):
        q, u = jax.tree.map(lambda x, row=row: x[row], (found.q, found.u))
        got = np.concatenate([q[0], u, q[1]])
        np.testing.assert_allclose(got, np.concatenate(RUN[t][:3]), rtol=0, atol=1e-9)
        force = two_mass_ball().contact_force(t, q, u, two_waves)
        np.testing.assert_allclose(force, RUN[t][3], rtol=0, atol=1e-8)
    other = run(1.7, radius=1.1, masses=[1, 2], shell_inertia=(1.2, 1.1, 1.0), gravity=1.6)
    assert np.all(np.isfinite(other.u))
    assert np.any(other.u[-1] != found.u[-1])
    assert len(calls) == traced


def test_smallest_normal_force_and_largest_friction(run):
    """Over [0, 5]: min N = 55.31414, max |f|/N = 0.1925682 at t = 4.899."""
    contact = jax.vmap(lambda t, q, u: two_mass_ball().contact(t, q, u, two_waves))
    normal, friction = contact(*run)
    np.testing.assert_allclose(np.min(normal), 55.31414, rtol=0, atol=2e-3)  # every 10 ms only
    np.testing.assert_allclose(np.max(friction), 0.1925682, rtol=0, atol=1e-5)
    assert abs(run[0][np.argmax(friction)] - 4.899) < 0.006


def test_force_moves_the_centre_of_mass(run):
    """Newton: F_c = M (r̈_CM + g e_3), r̈_CM by differences of the trajectory."""
    ts, q, u = run
    ball = two_mass_ball()

    def centre_of_mass(t, q):
        chi = jnp.concatenate([ball.shell_com[None], ball.mass_positions(t, two_waves)])
        mean = jnp.array([4.0, 1, 1]) @ chi / 6.0
        return ball.centre(q) + quaternion_rotate(q[0], mean)

    path = np.asarray(jax.jit(jax.vmap(centre_of_mass))(ts, q))
    h, at = 0.01, 250
    weights = np.array([2, -27, 270, -490, 270, -27, 2]) / (180 * h * h)
    second = weights @ path[at - 3 : at + 4]
    force = ball.contact_force(ts[at], *jax.tree.map(lambda x: x[at], (q, u)), two_waves)
    np.testing.assert_allclose(force, 6.0 * (second + np.array([0, 0, 9.81])), atol=1e-6)


def empty(inertia, mass=1.0, com=(0.0, 0.0, 0.0)):
    return RollingBall(1.0, mass, inertia, com, [], None, 9.81)


@pytest.mark.parametrize("t", CHAPLYGIN_SPHERE)
def test_chaplygin_sphere(t):
    """For I = (1, 2, 3) and a central centre of mass, K = Λ [I Ω + m r² (Ω − Γ Γ·Ω)] and the energy are conserved."""
    quaternion, omega, position = CHAPLYGIN_SPHERE[t]
    ball, start = empty([1.0, 2, 3]), jnp.array([0.7, 0.2, -0.5])
    q, u = end_state(ball, START, start, t, steps=int(40 * t))
    np.testing.assert_allclose(q[0], quaternion, rtol=0, atol=1e-11)
    np.testing.assert_allclose(u, omega, rtol=0, atol=1e-11)
    np.testing.assert_allclose(q[1], position, rtol=0, atol=1e-11)
    gamma = rotation(np.asarray(q[0]))[2]
    body = np.array([1.0, 2, 3]) * u + u - gamma * (gamma @ u)
    kept = rotation(np.asarray(q[0])) @ body
    np.testing.assert_allclose(kept, [1.4, 0.6, -1.5], rtol=0, atol=1e-11)
    # 0.925 is the kinetic energy, without the constant potential of the centre's height.
    rise = energy(ball, t, q, u) - energy(ball, t, q, jnp.zeros(3))
    np.testing.assert_allclose(rise, 0.925, rtol=1e-12)


def test_homogeneous_ball_keeps_its_spatial_velocity():
    start = jnp.array([0.7, 0.2, -0.5])
    q, u = end_state(empty([0.4, 0.4, 0.4]), START, start, 3.0)
    np.testing.assert_allclose(quaternion_rotate(q[0], u), start, rtol=0, atol=1e-12)
    np.testing.assert_allclose(q[1], 3 * np.array([0.2, -0.7]), rtol=0, atol=1e-12)


def test_energy_stays_where_the_masses_stand_still():
    ball, angle = two_mass_ball(), jnp.array([0.4, -1.3])
    start = jnp.array([0.7, 0.2, -0.5])
    first = energy(ball, 0.0, START, start, angle)
    q, u = end_state(ball, START, start, 5.0, angle, steps=400)
    np.testing.assert_allclose(energy(ball, 5.0, q, u, angle), first, rtol=1e-12)
    assert abs(energy(ball, 5.0, q, jnp.zeros(3), angle) - first) > 0.1  # the state does move
