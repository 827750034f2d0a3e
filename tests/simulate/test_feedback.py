"""Feedback controls: closed forms, lanes, gains as leaves, systems with moving parts, error messages."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import Feedback, MovingParts, ensemble, examine, simulate
from jaxhamel.mechanics import linearise
from jaxhamel.systems import ActuatedDisk, CircularRails
from tests.control.cart import Cart
from tests.systems.ball import two_mass_ball

TS = jnp.linspace(0.0, 2.0, 5)
START = jnp.array([0.7]), jnp.array([-0.4])


class Spring(eqx.Module):
    """The control −K (q − place, u)."""

    gains: jax.Array
    place: jax.Array

    def __call__(self, t, q, u):
        return -(self.gains @ jnp.concatenate([q - self.place, u]))[None]


CALLS = []


class Counting(Spring):
    """A spring that counts how often it is traced."""

    def __call__(self, t, q, u):
        CALLS.append(0)
        return super().__call__(t, q, u)


class Waves(eqx.Module):
    """The motion θ_i(t) = b_i + a_i sin(ω_i t)."""

    base: jax.Array
    size: jax.Array
    speed: jax.Array

    def __call__(self, t):
        return self.base + self.size * jnp.sin(self.speed * t)


class Follow(eqx.Module):
    """Acceleration θ̈ of a given motion with the correction −k² e − 2k ė for the error e of θ, which is the last factor
    of q."""

    motion: Waves
    gain: jax.Array

    def __call__(self, t, q, u):
        value, rate = jax.jvp(self.motion, (t,), (jnp.ones_like(t),))
        second = self.motion.base - value
        error, slope = q[-1] - value, u[-value.size :] - rate
        return second * self.motion.speed**2 - self.gain * (self.gain * error + 2.0 * slope)


def spring(k, c, place=0.0):
    return Feedback(Spring(jnp.array([k, c]), jnp.array([place])))


def of_spring(k, c, t):
    """The state (x, ẋ) of ẍ = −k x − c ẋ at time t, by the two complex roots."""
    roots = np.roots([1.0, c, k]).astype(complex)
    start = np.concatenate(START)
    weights = np.linalg.solve(np.array([[1, 1], roots]), start)
    return np.real(
        [np.sum(weights * np.exp(roots * t)), np.sum(weights * roots * np.exp(roots * t))]
    )


def test_a_spring_is_a_feedback():
    """One trajectory and three with gains of their own follow the closed form, with fixed and adaptive steps; lanes
    raise no warning."""
    cart, gains = Cart(jnp.array(1.0)), np.array([[2.0, 0.3], [5.0, 1.0], [1.0, 2.5]])
    wanted = np.array([[of_spring(*g, t) for t in np.asarray(TS)] for g in gains])
    one = simulate(cart, *START, TS, spring(*gains[0]))
    np.testing.assert_allclose(jnp.concatenate([one.q, one.u], 1), wanted[0], atol=1e-8)
    many = jax.vmap(lambda g: Feedback(Spring(g, jnp.zeros(1))))(jnp.asarray(gains))
    for options in ({"dt": 0.01}, {}):
        found = ensemble.rollout(cart, *START, TS, many, in_axes=(None, None, None, 0), **options)
        np.testing.assert_allclose(jnp.concatenate(found, 2), wanted, atol=1e-8)


def test_gains_are_leaves():
    """Other gains cause no new trace; derivatives by the gains in both modes equal differences of the closed form."""
    cart = Cart(jnp.array(1.0))

    def shared(gains):
        q0 = jnp.stack([START[0], START[0]])
        law = Feedback(Spring(gains, jnp.zeros(1)))
        return ensemble.simulate(
            cart, q0, START[1], TS, law, in_axes=(None, 0, None, None), dt=0.02
        ).q[1, -1, 0]

    gains, step = jnp.array([2.0, 0.3]), 1e-6 * np.eye(2)
    wanted = [(of_spring(*(gains + h), 2.0) - of_spring(*(gains - h), 2.0))[0] / 2e-6 for h in step]
    np.testing.assert_allclose(jax.grad(shared)(gains), wanted, atol=1e-7)
    np.testing.assert_allclose(jax.jacfwd(shared)(gains), wanted, atol=1e-7)

    for k in (2.0, 3.0, 4.0):
        law = Feedback(Counting(jnp.array([k, 0.3]), jnp.zeros(1)))
        found = simulate(cart, *START, TS, law)
        np.testing.assert_allclose(found.q_end[0], of_spring(k, 0.3, 2.0)[0], atol=1e-8)
        traced = len(CALLS) if k == 2.0 else traced
        assert len(CALLS) == traced


def test_linearised_closed_loop():
    A, B = linearise(Cart(jnp.array(2.0)), 0.0, *START, spring(3.0, 0.5))
    np.testing.assert_allclose(A, [[0, 1], [-1.5, -0.25]], atol=1e-14)
    np.testing.assert_allclose(B, [[0], [0.5]], atol=1e-14)


def test_single_precision():
    cart = Cart(jnp.array(1.0, jnp.float32))
    law = jax.tree.map(lambda x: x.astype(jnp.float32), spring(2.0, 0.3))
    q0, u0 = (x.astype(jnp.float32) for x in START)
    found = simulate(cart, q0, u0, [0.0, 2.0], law)
    assert found.q.dtype == jnp.float32
    np.testing.assert_allclose(found.q_end[0], of_spring(2.0, 0.3, 2.0)[0], atol=1e-4)


BALL = two_mass_ball()
MOTION = Waves(jnp.array([0.3, -1.0]), jnp.array([0.5, 0.4]), jnp.array([1.3, 2.1]))
FREE = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)), jnp.array([0.2, -0.3, 0.1])


def driven_start(theta=(0.0, 0.0), rate=(0.0, 0.0)):
    """Initial state of the ball whose masses are off the prescribed motion by an angle and a rate."""
    value, slope = MOTION.base, MOTION.size * MOTION.speed
    return MovingParts(BALL).state(*FREE, value + jnp.array(theta), slope + jnp.array(rate))


def test_parts_that_follow_a_motion():
    """Masses driven by the θ̈ of a motion roll the ball as the prescribed motion does. Started off it, their error is
    (e + (ė + k e) t) exp(−kt)."""
    driven, law = MovingParts(BALL), Feedback(Follow(MOTION, jnp.array(1.5)))
    prescribed = simulate(BALL, *FREE, TS, MOTION)
    found = simulate(driven, *driven_start(), TS, law)
    np.testing.assert_allclose(found.u[:, :3], prescribed.u, atol=1e-7)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, atol=1e-7), found.q[:2], prescribed.q
    )

    off = driven_start((0.1, -0.2), (0.3, 0.0))
    balls = jax.vmap(lambda m: two_mass_ball(masses=m))(jnp.array([[1.0, 1.0], [1.1, 0.8]]))
    q, u = ensemble.rollout(
        MovingParts(balls), *off, TS, law, in_axes=(0, None, None, None), dt=0.02
    )
    e, slope, t = np.array([0.1, -0.2]), np.array([0.3, 0.0]), np.asarray(TS)[:, None]
    error = (e + (slope + 1.5 * e) * t) * np.exp(-1.5 * t)
    motion = jax.vmap(MOTION)(TS)
    np.testing.assert_allclose(
        np.asarray(q[2]) - np.asarray(motion), np.stack([error, error]), atol=1e-6
    )
    assert np.max(np.abs(u[0] - u[1])) > 1e-2
    alone = simulate(driven, *off, TS, law)
    np.testing.assert_allclose(u[0], alone.u, atol=1e-6)


def test_forces_and_energy_with_moving_parts():
    """The constraint forces λ on all coordinates are those of the ball under the same motion; the energy is T + V of
    all parts."""
    driven, law = MovingParts(BALL), Feedback(Follow(MOTION, jnp.array(1.5)))
    q, u = driven_start((0.1, -0.2), (0.3, 0.0))
    q, t = (jnp.array([0.5, -0.5, 0.5, 0.5]), *q[1:]), jnp.array(0.4)
    inside = driven.inside(t, q, u, law)
    np.testing.assert_allclose(inside[2](t), q[2])
    wanted = jaxhamel.constraint_force(BALL, t, *inside)
    found = jaxhamel.constraint_force(driven, t, q, u, law)
    np.testing.assert_allclose(found, wanted, atol=1e-11)
    np.testing.assert_allclose(found, BALL.contact_force(t, *inside)[:2], atol=1e-11)
    wanted = jaxhamel.acceleration(BALL, t, *inside)
    np.testing.assert_allclose(jaxhamel.acceleration(driven, t, q, u, law)[:3], wanted, atol=1e-12)
    v, lagrangian = jaxhamel.velocity(driven, t, q, u), eqx.filter_jit(driven.lagrangian)
    potential = -lagrangian(t, q, jnp.zeros_like(v))
    energy = jaxhamel.energy(driven, t, q, u, law)
    np.testing.assert_allclose(energy, lagrangian(t, q, v) + 2 * potential, rtol=1e-12)


def test_a_disk_with_moving_parts():
    """MovingParts works for another system on another space: a disk."""
    disk = ActuatedDisk(
        radius=1.0, disk_mass=3.0, disk_inertia=1.2, masses=[0.7],
        rails=CircularRails([0.5], [[0.0, 1, 0]], [[1.0, 0, 0]]),
    )  # fmt: skip
    motion = jax.tree.map(lambda x: x[:1], MOTION)
    q0, u0 = disk.space.identity(), jnp.array([0.3])
    driven = MovingParts(disk)
    start = driven.state(q0, u0, motion.base, motion.size * motion.speed)
    found = simulate(driven, *start, TS, Feedback(Follow(motion, jnp.array(1.0))))
    prescribed = simulate(disk, q0, u0, TS, motion)
    np.testing.assert_allclose(found.u[:, :1], prescribed.u, atol=1e-7)
    examined = examine(driven)
    assert examined.holds, examined.problems
    assert "holonomic" not in str(examined)


CART = Cart(jnp.array(1.0))


class Two(jaxhamel.System):
    """A point in a plane under two forces."""

    space = jaxhamel.Euclidean(2)
    n_controls = 2

    def lagrangian(self, t, q, v):
        return 0.5 * v @ v

    def force(self, t, q, v, control):
        return control


class BrokenTwo(Two):
    """Its own method is wrong for every control."""

    n_controls = 2

    def force(self, t, q, v, control):
        return jnp.sum(control)


TWO, START_OF_TWO = Two(), (jnp.ones(2), jnp.zeros(2))


def test_a_force_that_is_wrong_for_every_control_is_named_itself():
    with pytest.raises(
        ValueError, match=r"^`force\(t, q, v, control\)` has shape \(\), as BrokenTwo"
    ):
        simulate(BrokenTwo(), *START_OF_TWO, TS, jnp.zeros((2, 1)))


def test_a_motion_that_its_feedback_ends_is_described():
    """A cart pushed left from q = 0.7 stops where √q ends at 0; the description calls the feedback with the last state."""
    motion = simulate(CART, *START, TS[:2], Feedback(lambda t, q, u: jnp.sqrt(q) - 20.0))
    assert not motion.succeeded
    assert "stopped at t = 0." in str(motion)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: simulate(CART, *START, TS, lambda t, q, u: -q), TypeError,
         "takes three arguments; a control is called with t alone.*give jaxhamel.Feedback"),
        (lambda: Feedback(2.0), TypeError, r"`function` of Feedback is of type float; .*\(t, q, u\) -> value"),
        (lambda: Feedback(lambda t: t), TypeError, "cannot be called with three arguments.*needs no Feedback"),
        (lambda: simulate(CART, *START, TS, spring(jnp.nan, 0.0)), ValueError,
         r"`control`, a Feedback, gives \[nan\] at the initial state, t = 0.*finite"),
        (lambda: simulate(CART, *START, TS, Feedback(lambda t, q, u: jnp.zeros(2))), ValueError,
         r"`force\(t, q, v, control\)` has shape \(2,\)"),
        (lambda: ensemble.simulate(CART, jnp.zeros((3, 1)), jnp.zeros((3, 1)), TS,
                                   Feedback(lambda t, q, u: jnp.zeros(2)), in_axes=(None, 0, 0, None), dt=0.1),
         ValueError, r"`force\(t, q, v, control\)` has shape \(2,\)"),
        (lambda: simulate(CART, *START, TS, Feedback(lambda t, q, u: q.astype(jnp.float32))), TypeError,
         "gives float32 where the state .* is float64"),
        (lambda: simulate(CART, *START, TS, Feedback(lambda t, q, u: -q if q[0] > 0 else q)), TypeError,
         "`control`, a Feedback,.*test_feedback.py"),
        (lambda: simulate(BALL, *FREE, TS, Feedback(Follow(MOTION, jnp.array(1.0)))), TypeError,
         r"needs the motion θ\(t\).*jaxhamel.MovingParts\(system\)"),
        (lambda: simulate(MovingParts(BALL), *driven_start(), TS), ValueError, "`control` is missing"),
        (lambda: simulate(MovingParts(BALL), *driven_start(), TS, Feedback(lambda t, q, u: u)), ValueError,
         r"gives shape \(5,\); MovingParts takes \(2,\)"),
        (lambda: simulate(MovingParts(BALL), *driven_start(), TS, Feedback(lambda t, q, u: None)), ValueError,
         r"gives no number; MovingParts takes \(2,\)"),
        (lambda: simulate(TWO, *START_OF_TWO, TS, Feedback(lambda t, q, u: q[:, None])), ValueError,
         r"`control` gives an array of shape \(2, 1\); Two takes one array \(2,\).*With this control, `force"),
        (lambda: simulate(TWO, *START_OF_TWO, TS, Feedback(lambda t, q, u: [q[0], q[1]])), TypeError,
         "`control` gives a list; Two takes one array"),
        (lambda: simulate(TWO, *START_OF_TWO, TS, lambda t: (t, t)), TypeError, "`control` gives a tuple; Two takes"),
        (lambda: MovingParts(CART), TypeError, "`system` is Cart, whose control prescribes no motion"),
        (lambda: MovingParts(BALL, 2.5), ValueError, "`n_parts` is 2.5"),
    ],
)  # fmt: skip
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
