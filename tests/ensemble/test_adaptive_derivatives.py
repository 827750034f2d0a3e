"""Derivatives of adaptive steps in lanes, each lane with its own steps; the derivatives are those of the steps taken."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import RESULTS, ensemble, simulate
from jaxhamel.ensemble._adaptive_steps import _adaptive_sweep
from jaxhamel.systems import FreeRigidBody

RNG = np.random.default_rng(5)
SIZE = 35
TS = np.linspace(0.0, 0.4, 6)
Q0 = np.tile([1.0, 0, 0, 0], (SIZE, 1))
OMEGA = RNG.normal(size=(SIZE, 3))
WEIGHTS = RNG.normal(size=(6, 4))


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Small limits give two groups of lanes and every kind of recomputation in a long trajectory: see
    `_adaptive_sweep`."""
    monkeypatch.setattr(_adaptive_sweep, "GROUP", 24)
    monkeypatch.setattr(_adaptive_sweep, "ROWS", 8)
    monkeypatch.setattr(_adaptive_sweep, "PLACES", 4)


def weighed(motion):
    """A weighted sum over the states of one trajectory or of many, at all times that were reached and at the end."""
    there = motion.valid[..., None]
    paths = jnp.einsum("...tk,tk->", jnp.where(there, motion.q, 0), WEIGHTS)
    squares = SIZE * WEIGHTS.size * jnp.sum(jnp.where(there, motion.u, 0) ** 2)
    return paths + squares + jnp.einsum("...k,k->", motion.u_end**2, WEIGHTS[0, :3])


def test_derivatives_are_those_of_simulate():
    """Gradients by each lane's own inertia and velocity equal those of `simulate` to 1e-10. One body rotates sixty
    times as fast, one runs out of steps and has the derivatives of its last state, one never moves and has zeros."""
    u0, options = OMEGA.copy(), {"rtol": 1e-6, "atol": 1e-8, "max_steps": 200}
    u0[3] *= 60
    u0[7] *= 400
    u0[5] *= 1e200

    @jax.jit
    @jax.vmap  # forward mode compiles in half of the time of reverse mode
    def one_by_one(inertia, u0):
        cost = lambda i, u: weighed(simulate(FreeRigidBody(i), Q0[0], u, TS, **options))
        return jax.jacfwd(cost, (0, 1))(inertia, u0)

    def in_lanes(inertia, u0):
        motion = ensemble.simulate(
            jax.vmap(FreeRigidBody)(inertia), jnp.asarray(Q0), u0, TS, **options
        )
        return weighed(motion), motion

    at = (jnp.tile(jnp.array([[1.0, 2.0, 2.5]]), (SIZE, 1)), jnp.asarray(u0))
    # The reference has no body that never moves: until all first steps are accepted, diffrax under `vmap` evaluates the
    # first slope of all bodies anew, at normalised quaternions.
    moving = (at[0], at[1].at[5].set(OMEGA[5]))
    wanted = one_by_one(*moving)
    along = [jnp.asarray(RNG.normal(size=x.shape)).at[5].set(0) for x in at]

    @jax.jit
    def both(*at):
        forward = jax.jvp(lambda *at: in_lanes(*at)[0], at, tuple(along))[1]
        return jax.grad(in_lanes, (0, 1), has_aux=True)(*at), forward

    (found, motion), forward = both(*at)
    others = np.arange(SIZE) != 5
    for a, b in zip(found, wanted, strict=True):
        assert np.all(
            np.abs(a - b)[others] <= 1e-10 * np.max(np.abs(b), axis=1, keepdims=True)[others]
        )
    np.testing.assert_array_equal(found[0][5], 0.0)
    backward = sum(jnp.sum((a * b)[others]) for a, b in zip(found, along, strict=True))
    np.testing.assert_allclose(forward, backward, rtol=1e-9)
    assert (motion.result == RESULTS.max_steps_reached)[7]
    assert (motion.result == RESULTS.nonfinite_state)[5]
    assert 0 < motion.t_end[7] < TS[-1]
    steps = np.asarray(motion.stats["num_steps"])
    assert steps[3] > 25 * np.median(steps)


def swings(stiffness, damping, y0, ts, **options):
    """Driven pendulums, each with its own stiffness, all with the same damping."""

    def slope(t, y, args):
        stiffness, damping = args
        return jnp.stack([y[1], jnp.sin(2 * t) - stiffness * jnp.sin(y[0]) - damping * t * y[1]])

    axes = (0, (0, None))
    return ensemble.integrate(slope, y0, ts, (stiffness, damping), in_axes=axes, **options)


STIFFNESS, DAMPING = jnp.linspace(0.5, 3.0, SIZE), jnp.array(0.1)
Y0 = jnp.asarray(RNG.normal(size=(SIZE, 2)))


MANY = np.append(np.linspace(0.0, 0.5, 12) ** 2, 1.5)


@pytest.mark.parametrize(
    ("method", "ts"), [(diffrax.Bosh3(), MANY[[0, -1]]), (diffrax.Heun(), MANY)]
)
def test_derivatives_are_differences_of_the_same_steps(method, ts):
    """With a very large tolerance each step is ten times the previous one, so differences compare equal steps. The
    cases have many output times within a step, and only two."""
    weights = jnp.asarray(RNG.normal(size=(SIZE, len(ts), 2)))

    @jax.jit
    def cost(*at):
        return jnp.sum(weights * swings(*at, ts, rtol=1e6, method=method))

    at = (STIFFNESS, DAMPING, Y0)
    found = jax.jit(jax.grad(cost, (0, 1, 2)))(*at)
    along = tuple(jnp.asarray(RNG.normal(size=x.shape)) for x in at)
    moved = lambda h: cost(*(x + h * v for x, v in zip(at, along, strict=True)))
    slope = lambda h: (moved(h) - moved(-h)) / (2 * h)
    wanted = (4 * slope(1e-3) - slope(2e-3)) / 3
    backward = sum(jnp.sum(a * b) for a, b in zip(found, along, strict=True))
    np.testing.assert_allclose(backward, wanted, rtol=1e-9)


TIMES, RATES = np.array([0.0, 0.7, 1.0]), np.linspace(0.5, 2.0, SIZE)
DECAY = 2 * np.exp(-np.outer(RATES, TIMES))


def decayed(shift, ts=TIMES, rtol=1e-9):
    """Sums of y = 2 exp(−(k + shift) t) over the lanes' rates k, at each time."""
    dtype = shift.dtype
    decay = lambda t, y, args: -(args[0] + args[1]) * y
    y0, args = jnp.array([2.0], dtype), (jnp.asarray(RATES, dtype), shift)
    options = {"rtol": rtol, "atol": 1e-3 * rtol, "in_axes": (None, (0, None))}
    return jnp.sum(ensemble.integrate(decay, y0, ts, args, **options), axis=(0, 2))


def test_second_derivatives():
    slope = jax.grad(lambda shift: decayed(shift)[2])
    both = jax.jit(lambda shift: jax.jvp(slope, (shift,), (jnp.ones(()),)))
    first, second = both(jnp.zeros(()))
    np.testing.assert_allclose(first, -np.sum(DECAY[:, 2]), rtol=1e-6)
    np.testing.assert_allclose(second, np.sum(DECAY[:, 2]), rtol=1e-6)


def test_jacobians_in_both_modes_by_times_and_in_single_precision():
    at = (jnp.zeros((), jnp.float32), jnp.asarray(TIMES, jnp.float32))
    forward, of_times = jax.jacfwd(lambda *at: decayed(*at, rtol=1e-5), (0, 1))(*at)
    backward = jax.jacrev(lambda shift: decayed(shift, rtol=1e-5))(at[0])
    for found in (forward, backward):
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, -np.sum(TIMES * DECAY, axis=0), rtol=1e-4, atol=1e-6)
    slopes = np.sum(RATES[:, None] * DECAY, axis=0)  # derivative of the value by the initial time
    wanted = np.outer(slopes, [1.0, 0.0, 0.0]) - np.diag(slopes)
    np.testing.assert_allclose(of_times, wanted, rtol=1e-3, atol=2e-3)
