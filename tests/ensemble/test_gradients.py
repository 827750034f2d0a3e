"""Derivatives of equal steps, against the same steps in plain JAX under `vmap`: both modes, second order, memory.

Most tests use a pendulum whose position is a unit vector, since compiling takes most of the time.
"""

from functools import cache
from itertools import pairwise

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jaxhamel import ensemble
from jaxhamel._lanes._written_out import estimated_operations, written_out
from jaxhamel.ensemble._equal_steps import (
    _adjoint_groups,
    _adjoint_loop,
    _adjoint_sweep,
)
from jaxhamel.ensemble._equal_steps._adjoint_groups import groups_of
from jaxhamel.ensemble._equal_steps._equal_steps import Plan, in_lanes
from jaxhamel.ensemble._equal_steps._needed import Needed
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.mechanics import VectorField
from jaxhamel.simulate._solvers._runge_kutta import tableau
from jaxhamel.systems import FreeRigidBody
from tests.ensemble.test_simulate import Swing
from tests.systems.ball import two_mass_ball
from tests.systems.motion import unit_quaternions

RNG = np.random.default_rng(8)
B = 3
TS, DT = np.array([0.0, 0.1, 0.3]), 0.05  # intervals of two steps and of four
ENDS = np.array([0.0, 0.2])
QUATERNION, U0 = unit_quaternions(RNG, B), jnp.asarray(RNG.normal(size=(B, 3)))
Q0 = (QUATERNION, jnp.asarray(RNG.normal(size=(B, 2))))
MASSES, INERTIA = jnp.asarray(RNG.uniform(0.5, 1.5, (B, 2))), jnp.array([1.0, 2.0, 2.5])

# --- a pendulum: y = (x, z, ω), x² + z² = 1; its own damping, shared weight and torques -----------


def rate(t, y, mine, shared):
    (x, z, omega), (damping,), (weight, torque) = y, mine, shared
    drive = torque[0] * jnp.cos(t) + torque[1] * omega * x
    return -omega * z, omega * x, drive - weight * x - damping * omega


def unit(y, shared):
    x, z, omega = y
    r = jnp.sqrt(x * x + z * z)
    return x / r, z / r, omega


def pendulums(dtype=np.float64):
    """Columns of the state (x, z, ω), of each pendulum's own numbers and of the shared numbers."""
    angle, omega, damping = RNG.uniform(0.2, 1.0, (3, B)).astype(dtype)
    y = tuple(map(jnp.asarray, (1.1 * np.cos(angle), 1.1 * np.sin(angle), omega)))
    return y, (jnp.asarray(damping),), (jnp.asarray(dtype(1.3)), jnp.asarray([0.4, -0.3], dtype))


def total(columns):
    return sum(jnp.mean(jnp.sin(x) * x) for x in columns)


def in_steps(method, checkpoint=None, times=TS):
    """Returns a function of (y, mine, shared): the mean cost of the states at the times."""
    plan = Plan.of(times, DT, tableau(method), checkpoint, False)

    def of(y, mine, shared):
        motion, ts = SteppedMotion(rate, unit, y, mine, shared), jnp.asarray(times, y[0].dtype)
        return total(x[1:] for x in in_lanes(motion, ts, plan))

    return of


def plain(slope, normalised, y, method, times):
    """States of one trajectory at `times`, step by step in plain JAX."""
    table, found = tableau(method), []

    def ahead(y, weights, slopes):
        used = [(w, k) for w, k in zip(weights, slopes, strict=False) if w]
        move = lambda x, *k: x + DT * sum(w * s for (w, _), s in zip(used, k, strict=True))
        return jax.tree.map(move, y, *(k for _, k in used)) if used else y

    def step(y, t):
        slopes = []
        for row, c in zip(table.a, table.c, strict=True):
            slopes.append(slope(t + c * DT, ahead(y, row, slopes)))
        return normalised(ahead(y, table.b, slopes)), None

    for start, end in pairwise(times):
        count = round((end - start) / DT)
        y = jax.lax.scan(step, y, start + DT * jnp.arange(count, dtype=float))[0]
        found.append(y)
    return jax.tree.map(lambda *x: jnp.stack(x), *found)


AT = pendulums()


@cache
def gradient_of_plain_steps(method, times):
    """Gradient of the plain steps at `AT`, in forward mode, which compiles three times as fast. It is compiled once per
    method and times."""

    def of(y, mine, shared):
        slope = lambda mine: jax.jit(lambda t, y: rate(t, y, mine, shared))
        normalised = lambda y: unit(y, shared)
        one = lambda y, mine: plain(slope(mine), normalised, y, method, times)
        return total(jax.vmap(one)(y, mine))

    return jax.jit(jax.jacfwd(of, (0, 1, 2)))(*AT)


@pytest.mark.parametrize(
    ("method", "checkpoint", "times"),
    [
        ("rk4", True, TS),
        (
            "rk4",
            None,
            np.linspace(0.0, 0.3, 4),
        ),  # intervals with equal numbers of steps share one program
        (diffrax.Heun(), False, TS),
        (diffrax.Tsit5(), True, ENDS),
        (diffrax.Dopri8(), None, ENDS),
    ],
)
def test_gradient_is_that_of_the_plain_steps(method, checkpoint, times):
    found = jax.jit(jax.grad(in_steps(method, checkpoint, times), (0, 1, 2)))(*AT)
    wanted = gradient_of_plain_steps(method, tuple(times))
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("method", "most", "size", "looped"),
    [
        ("rk4", 1, 1, True),
        ("rk4", 3, 2, False),
        (diffrax.Tsit5(), 5, 1, False),
        (diffrax.Tsit5(), 5, 1, True),
    ],
)
def test_groups_of_stages(method, most, size, looped, monkeypatch):
    """Stages are transposed one by one, in pairs or all at once, depending on the longest program allowed; long ones in a
    loop, of which XLA compiles one stage."""
    table = tableau(method)
    length = estimated_operations(rate, (False, True, True, False), jnp.zeros(()), *AT)
    assert groups_of(length, table) == [(0, len(table.b))]
    monkeypatch.setattr(
        _adjoint_groups, "LONGEST_PROGRAM", (most + 0.5) * _adjoint_groups._BACKWARD * length
    )
    assert {many for _, many in groups_of(length, table)} == {size}
    calls, original = [], _adjoint_loop.loop_back
    monkeypatch.setattr(_adjoint_loop, "LOOPED", 1 if looped else 10_000)
    monkeypatch.setattr(
        _adjoint_sweep, "loop_back", lambda *given: calls.append(given) or original(*given)
    )
    found = jax.jit(jax.grad(in_steps(method, False, ENDS), (0, 1, 2)))(*AT)
    assert bool(calls) is looped
    wanted = gradient_of_plain_steps(method, tuple(ENDS))
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


def test_numbers_that_matter():
    """The rate of a disk depends on its direction only, and N changes the two numbers of the direction, so only these
    are stored."""

    def disk(t, y, mine, shared):
        cosine, sine = y[2:]
        return cosine, sine, -sine * mine[0], cosine * mine[0]

    def on_circle(y, shared):
        r = jnp.hypot(y[2], y[3])
        return y[0], y[1], y[2] / r, y[3] / r

    y, mine = (jnp.ones(3),) * 4, (jnp.ones(3),)
    found = written_out(disk, (False, True, True, False), jnp.zeros(()), y, mine, ())
    needed = Needed.by(SteppedMotion(disk, on_circle, y, mine, ()), found)
    assert needed == Needed(rate=[2, 3], ends=[2, 3], made=[2, 3])
    assert needed.kept == [2, 3]
    unknown = Needed.by(SteppedMotion(disk, lambda y, shared: y, y, mine, ()), None)
    assert unknown == Needed(rate=[0, 1, 2, 3], ends=[], made=[])


def test_a_rate_that_depends_on_no_number():
    """For y = y₀ + p t³/3 the backward pass needs no state of the path."""
    plan = Plan.of(ENDS, DT, tableau("rk4"), False, False)

    def end(y, mine):
        motion = SteppedMotion(
            lambda t, y, mine, shared: (mine[0] * t**2,), lambda y, shared: y, y, mine, ()
        )
        return jnp.sum(in_lanes(motion, jnp.asarray(ENDS), plan)[0][-1])

    (y_bar,), (p_bar,) = jax.jit(jax.grad(end, (0, 1)))((jnp.ones(B),), (jnp.arange(1.0, B + 1),))
    np.testing.assert_allclose(y_bar, 1.0)
    np.testing.assert_allclose(p_bar, ENDS[-1] ** 3 / 3, rtol=1e-14)


def test_numbers_that_only_n_changes():
    """y₁ = tanh(y + p (t₁³ − t³)/3), which RK4 integrates exactly: f depends on no entry of the state, N′ on one."""
    plan, times = Plan.of(TS, DT, tableau("rk4"), False, False), np.linspace(0.0, 0.3, 7)

    def end(y, mine):
        rate = lambda t, y, mine, shared: (mine[0] * t**2,)
        motion = SteppedMotion(rate, lambda y, shared: (jnp.tanh(y[0]),), y, mine, ())
        return jnp.sum(in_lanes(motion, jnp.asarray(TS), plan)[0][-1])

    def plain(y, mine):
        (y,), (p,) = y, mine
        for t, t1 in pairwise(times):
            y = jnp.tanh(y + p * (t1**3 - t**3) / 3)
        return jnp.sum(y)

    at = ((jnp.linspace(-1.0, 1.0, B),), (jnp.arange(1.0, B + 1),))
    found, wanted = (jax.tree.leaves(jax.jit(jax.grad(f, (0, 1)))(*at)) for f in (end, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize(("method", "checkpoint"), [(diffrax.Heun(), True), ("rk4", False)])
def test_every_mode_and_order(method, checkpoint):
    """Forward, reverse, forward over reverse, reverse over reverse and `vmap` of reverse mode agree with one Hessian
    and with differences."""
    x, rebuilt = ravel_pytree(pendulums())
    of, v = in_steps(method, checkpoint, ENDS), jnp.linspace(0.5, -0.7, x.size)
    f = lambda x: of(*rebuilt(x))
    gradient = jax.grad(f)
    found = jax.jit(
        lambda x, v: {
            "rate": jax.jvp(f, (x,), (v,))[1],
            "gradient": gradient(x),
            "forward": jax.jvp(gradient, (x,), (v,))[1],
            "backward": jax.grad(lambda x: gradient(x) @ v)(x),
            "several": jax.vmap(gradient)(jnp.stack([x, x + 1e-5 * v, x - 1e-5 * v])),
        }
    )(x, v)
    np.testing.assert_allclose(found["rate"], found["gradient"] @ v, rtol=1e-12)
    np.testing.assert_allclose(found["forward"], found["backward"], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found["several"][0], found["gradient"], rtol=1e-12)
    differences = (found["several"][1] - found["several"][2]) / 2e-5
    np.testing.assert_allclose(found["forward"], differences, rtol=1e-7, atol=1e-9)


def test_single_precision_stays_single(float32):
    """The lowered program of the gradient contains no double precision."""
    program = jax.jit(jax.grad(in_steps("rk4"), (0, 1, 2))).lower(*pendulums(np.float32))
    assert all(x.dtype == np.float32 for x in jax.tree.leaves(program.out_info))
    assert "f64" not in program.as_text()


# --- balls and bodies, by rollout ---------------------------------------------------------------------


def cost(q, u):
    return total(jax.tree.leaves((q, u)))


def of_balls(masses, u0, swing, q0):
    """Mean cost of balls as a function of each ball's masses and start and of the shared control."""
    balls = jax.vmap(lambda m: two_mass_ball(masses=m))(masses)
    q, u = ensemble.rollout(balls, q0, u0, ENDS, swing, dt=DT, in_axes=(0, 0, 0, None))
    return cost(jax.tree.map(lambda x: x[:, -1], q), u[:, -1])


def of_plain_balls(masses, u0, swing, q0):
    def one(masses, q, u):
        ball = two_mass_ball(masses=masses)
        slope = jax.jit(lambda t, y: VectorField()(t, y, (ball, swing)))
        normalised = lambda y: (ball.space.normalise(y[0]), y[1])
        return jax.tree.map(lambda x: x[-1], plain(slope, normalised, (q, u), "rk4", ENDS))

    return cost(*jax.vmap(one)(masses, q0, u0))


@cache
def gradient_of_balls():
    return jax.jit(jax.grad(of_balls, (0, 1, 2)))


def test_balls():
    """The gradient of balls along a random direction equals the forward-mode derivative of the plain steps, which
    compiles in a third of the time of a gradient."""
    at = (MASSES, U0, Swing(jnp.array([0.3, 0.2])))
    along = jax.tree.map(lambda x: jnp.asarray(RNG.normal(size=x.shape)), at)
    rate_along = jax.jit(lambda *at: jax.jvp(lambda *x: of_plain_balls(*x, Q0), at, along)[1])
    terms = jax.tree.map(lambda x, v: jnp.sum(x * v), gradient_of_balls()(*at, Q0), along)
    np.testing.assert_allclose(sum(jax.tree.leaves(terms)), rate_along(*at), rtol=1e-11)


def test_finite_at_rest_and_at_the_identity():
    identity = (jnp.tile(jnp.eye(4)[0], (B, 1)), jnp.zeros((B, 2)))
    at_rest = (jnp.zeros((B, 3)), Swing(jnp.zeros(2)), identity)
    found = gradient_of_balls()(MASSES, *at_rest)
    assert all(np.isfinite(x).all() and np.any(x) for x in jax.tree.leaves(found))


def test_memory_grows_like_the_square_root_of_the_steps():
    """16 times as many steps, in four times as many intervals, need three to five times the memory."""

    def bytes_for(intervals):
        ts = np.linspace(0.0, 1.0, intervals + 1)

        def total(u0):
            body, axes = FreeRigidBody(INERTIA), (None, 0, 0, None)
            start = jnp.tile(QUATERNION[:1], (64, 1))
            options = {"dt": 1.001 / intervals**2, "in_axes": axes, "checkpoint": True}
            _, u = ensemble.rollout(body, start, u0, ts, **options)
            return jnp.mean(u[:, -1] ** 2)

        compiled = jax.jit(jax.grad(total)).lower(jnp.ones((64, 3))).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = bytes_for(24), bytes_for(96)
    assert 3.0 < many / few < 5.0
