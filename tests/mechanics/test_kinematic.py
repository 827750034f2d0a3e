"""Kinematic systems against closed forms of the geometry and constrained dynamics driven by the same velocities."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxhamel
from jaxhamel import Feedback, Kinematic, ensemble, simulate
from jaxhamel.mechanics import ZeroMomentum
from jaxhamel.systems import (
    BallOnTurntable,
    ChaplyginSleigh,
    KnifeEdge,
    NonSpinningBall,
    SatelliteMixed,
)
from tests.systems.ball import two_mass_ball

NONE = jnp.zeros(0)
UNICYCLE = Kinematic(KnifeEdge(mass=1.0, inertia=1.0, slope=0.0))
BALL = Kinematic(NonSpinningBall(radius=1.0, mass=1.0, inertia=jnp.array([0.4, 0.5, 0.6])))
START = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2))


class Interpolated(eqx.Module):
    """Some of the quasi-velocities of a motion, as a control."""

    trajectory: jaxhamel.Trajectory
    first: int = eqx.field(static=True, default=0)

    def __call__(self, t):
        return self.trajectory.evaluate(t)[1][self.first :]


class Round(eqx.Module):
    """The centre's velocity around a circle with the period 2π."""

    radius: jax.Array

    def __call__(self, t):
        return self.radius * jnp.stack([-jnp.sin(t), jnp.cos(t)])


def in_turns(system, q, controls):
    """The configuration after one unit of time under each of the constant controls in turn."""
    for control in np.asarray(controls, float):
        q = simulate(system, q, NONE, jnp.linspace(0.0, 1.0, 2), control).q_end
    return q


def rotation(quaternion):
    return Rotation.from_quat(np.roll(np.asarray(quaternion), -1))


def test_unicycle_goes_round_circles():
    """x = v/ω sin ωt, y = v/ω (1 − cos ωt) for one motion and for an ensemble, and derivatives by the control."""
    ts = jnp.linspace(0.0, 2.0, 5)
    controls = jnp.array([[1.0, 0.5], [-0.7, 2.0], [0.3, -1.1]])

    def exact(c):
        v, w = c
        return np.stack([w * ts, v / w * np.sin(w * ts), v / w * (1 - np.cos(w * ts))], axis=1)

    for options in ({}, {"dt": 0.02}):
        many = ensemble.simulate(
            UNICYCLE, jnp.zeros(3), NONE, ts, controls, in_axes=(None, None, None, 0), **options
        )
        assert many.u.shape == (3, 5, 0)
        np.testing.assert_allclose(many.q, [exact(c) for c in np.asarray(controls)], atol=1e-8)

    def end(c):
        return simulate(UNICYCLE, jnp.zeros(3), NONE, ts, c).q[-1]

    c = controls[1]
    step = 1e-6 * np.eye(2)
    wanted = [(exact(c + h)[-1] - exact(c - h)[-1]) / 2e-6 for h in step]
    np.testing.assert_allclose(jax.jacfwd(end)(c).T, wanted, atol=1e-7)
    by_reverse = jax.grad(lambda c: end(c)[1])(c)
    np.testing.assert_allclose(by_reverse, np.transpose(wanted)[1], atol=1e-7)


def test_feedback_steers_a_unicycle():
    """φ̇ = −k φ at unit speed: φ = φ_0 e^{−kt}, and x + i y is an exponential integral, by quadrature."""
    turn_back = Feedback(lambda t, q, u: jnp.stack([jnp.ones_like(q[0]), -1.5 * q[0]]))
    ts = jnp.linspace(0.0, 2.0, 3)
    found = simulate(UNICYCLE, jnp.array([0.8, 0.0, 0.0]), NONE, ts, turn_back)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    place = np.sum(weights * np.exp(0.8j * np.exp(-1.5 * (nodes + 1.0))))
    exact = [0.8 * np.exp(-3.0), place.real, place.imag]
    np.testing.assert_allclose(found.q[-1], exact, atol=1e-8)
    A, B = jaxhamel.mechanics.linearise(UNICYCLE, 0.0, found.q[0], NONE, turn_back)
    np.testing.assert_allclose(A[0], [-1.5, 0.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(B, np.eye(3)[:, [1, 0]], atol=1e-14)


def test_ball_rolled_by_a_plate():
    """Around a square of side π/2 the ball makes four quarter turns; around a circle it rotates about a tilted axis by
    the known angle."""
    sides = np.pi / 2 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    square = in_turns(BALL, START, sides)
    exact = Rotation.identity()
    for axis in [(0, 1, 0), (-1, 0, 0), (0, -1, 0), (1, 0, 0)]:  # ω = e_3 × ż
        exact = Rotation.from_rotvec(np.pi / 2 * np.array(axis)) * exact
    turned = rotation(square[0])
    assert (turned * exact.inv()).magnitude() < 1e-7
    assert exact.magnitude() > 1.0  # the holonomy
    np.testing.assert_allclose(square[1], 0.0, atol=1e-12)

    circle = simulate(BALL, START, NONE, jnp.linspace(0, 2 * jnp.pi, 3), Round(jnp.array(0.7)))
    angle = float(BALL.system.turn_of_circle(jnp.array(0.7)))
    turned = rotation(circle.q[0][-1])
    np.testing.assert_allclose(turned.magnitude(), abs(angle - 2 * np.pi), atol=1e-7)


def test_sleigh_follows_its_own_motion():
    """Driven by the velocities of its free motion, known in closed form, the sleigh moves as in the free motion."""
    sleigh = ChaplyginSleigh(mass=1.3, inertia=0.4, offset=0.3)
    q0, u0, ts = jnp.array([0.4, 1.0, -2.0]), jnp.array([-0.6, 1.1]), jnp.linspace(0.0, 3.0, 4)
    free = simulate(sleigh, q0, u0, ts)

    class Exact(eqx.Module):
        def __call__(self, t):
            return sleigh.solution(t, u0)

    driven = simulate(Kinematic(sleigh), q0, NONE, ts, Exact())
    np.testing.assert_allclose(driven.q, free.q, atol=1e-8)
    # the forces: none is needed to drive it, and the ground's is that of the dynamics
    at = (ts[2], driven.q[2])
    found = jaxhamel.constraint_force(Kinematic(sleigh), *at, NONE, Exact())
    np.testing.assert_allclose(found[1:], 0.0, atol=1e-9)
    np.testing.assert_allclose(
        found[:1], jaxhamel.constraint_force(sleigh, *at, free.u[2]), atol=1e-7
    )
    energy = jaxhamel.energy(Kinematic(sleigh), *at, NONE, Exact())
    np.testing.assert_allclose(energy, jaxhamel.energy(sleigh, *at, free.u[2]), atol=1e-7)


def test_affine_constraints():
    """On a turntable the drift of the constraints adds to the prescribed velocities."""
    ball = BallOnTurntable(radius=0.1, mass=1.0, inertia=0.004, turn_rate=0.7)
    q0, ts = (START[0], jnp.array([0.5, -0.2])), jnp.linspace(0.0, 1.5, 3)
    free = simulate(ball, q0, jnp.array([0.3, -0.1, 0.2]), ts, dense=True)
    driven = simulate(Kinematic(ball), q0, NONE, ts, Interpolated(free))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-7), driven.q, free.q)


def test_satellite_at_zero_momentum():
    """ω = −A φ̇ with constant A: wheels turned one after the other give a product of rotations, and the dynamics give
    the same motion."""
    satellite = SatelliteMixed(
        mass=jnp.array(5.0),
        inertia=jnp.array([0.9, 1.1, 1.4]),
        wheel_axes=jnp.eye(3)[:2],
        wheel_inertias=jnp.array([0.08, 0.05]),
    )
    zero = ZeroMomentum(satellite)
    q0 = satellite.space.identity()
    K = np.asarray(satellite.coupling())
    A = np.linalg.solve(np.asarray(satellite.locked_inertia()), K)[:3]
    rates_in_turn = [(3, 0), (0, 4), (-3, 0), (0, -4)]
    found = in_turns(Kinematic(zero), q0, rates_in_turn)
    exact = Rotation.identity()
    for rates in rates_in_turn:
        exact = exact * Rotation.from_rotvec(-A @ np.array(rates, float))
    quaternion = jax.tree.leaves(found)[0]
    assert (rotation(quaternion) * exact.inv()).magnitude() < 1e-8
    assert exact.magnitude() > 1e-2

    torque = jnp.array([0.2, -0.1])
    ts = jnp.linspace(0.0, 2.0, 3)
    rest = jnp.zeros(satellite.n_independent)
    free = simulate(satellite, q0, rest, ts, torque, dense=True)
    driven = simulate(Kinematic(zero), q0, NONE, ts, Interpolated(free, 6))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-7), driven.q, free.q)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: simulate(UNICYCLE, jnp.zeros(3), NONE, [0.0, 1.0]), ValueError, "`control` is missing"),
        (
            lambda: simulate(UNICYCLE, jnp.zeros(3), jnp.zeros(2), [0.0, 1.0], jnp.ones(2)),
            ValueError,
            r"`u0` has shape \(2,\); it must have shape \(0,\).*Kinematic has 0 independent",
        ),
        (
            lambda: simulate(UNICYCLE, jnp.zeros(3), NONE, [0.0, 1.0], jnp.ones(3)),
            ValueError,
            r"`control` has values of shape \(3,\).*\(2,\): the independent quasi-velocities of KnifeEdge",
        ),
        (lambda: jaxhamel.velocity(UNICYCLE, 0.0, jnp.zeros(3), NONE), TypeError, "pass `control`"),
        (lambda: Kinematic(KnifeEdge), TypeError, "the class KnifeEdge; it must be a jaxhamel.System"),
        (
            lambda: jaxhamel.energy(
                Kinematic(two_mass_ball()), 0.0, START, NONE, jnp.zeros(3)
            ),
            ValueError,
            "no control prescribes that motion",
        ),
    ],
)  # fmt: skip
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
