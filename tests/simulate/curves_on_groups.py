"""Motions known in closed form: q(t) = exp(c(t)), which has the body velocity v(t) = dexp_{−c} ċ."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

import jaxhamel.geometry as geo
from jaxhamel.simulate import LieGroup


def exponent(t, dim):
    """A curve c(t) in the Lie algebra, through 0, whose values at different times do not commute."""
    k = jnp.arange(1.0, dim + 1.0, dtype=t.dtype)
    return 0.4 * jnp.sin(k * t / 2) + 0.2 * t * jnp.cos(k)


def body_velocity(space, t):
    c, c_dot = jax.jvp(lambda s: exponent(s, space.dim), (t,), (jnp.ones_like(t),))
    return space.dexp(-c) @ c_dot


def exact(space, t):
    return _exact(space, jnp.asarray(t))


@eqx.filter_jit
def _exact(space, t):
    return space.exp(exponent(t, space.dim))


class Kinematics(eqx.Module):
    """q̇ = rate(q, v(t) + gain·log(q⁻¹ q_exact(t))), solved by the exact curve, and ẋ = −x + cos t for the rest of the
    state.

    The feedback term makes the right-hand side depend on q, as in a mechanical system.
    """

    space: geo.AbstractSpace
    gain: float = 0.5

    def __call__(self, t, y, args):
        q, rest = y
        target = self.space.exp(exponent(t, self.space.dim))
        v = body_velocity(self.space, t) + self.gain * self.space.local(q, target)
        return self.space.rate(q, v), -rest + jnp.cos(t)


def exact_rest(t):
    """The solution of ẋ = −x + cos t with x(0) = 0."""
    return (jnp.cos(t) + jnp.sin(t) - jnp.exp(-t)) / 2


def start(space):
    return space.identity(jnp.result_type(float)), jnp.zeros(())


@eqx.filter_jit
def distance(space, q1, q2):
    return jnp.max(jnp.abs(space.local(q1, q2)))


def after_steps(solver, t1, steps):
    """The state (q, rest) at t1 after equal steps of the solver from t = 0, in a loop over its steps alone: a third of the
    cost of `solve`. One program serves all numbers and lengths of steps."""
    return _after_steps(solver, jnp.asarray(t1 / steps), jnp.asarray(steps))


@eqx.filter_jit
def _after_steps(solver, h, steps):
    term, y0 = diffrax.ODETerm(Kinematics(solver.space)), start(solver.space)

    def step(k, carry):
        y, state = carry
        t = k.astype(h.dtype) * h
        y, _, _, state, _ = solver.step(term, t, t + h, y, None, state, False)
        return y, state

    state = solver.init(term, jnp.zeros_like(h), h, y0, None)
    return jax.lax.fori_loop(jnp.zeros_like(steps), steps, step, (y0, state))[0]


def solve(space, solver, t1, dt0, **options):
    """The kinematic problem from 0 to t1; fixed steps unless a controller is given."""
    solver = solver if hasattr(solver, "space") else LieGroup(solver, space)
    dt0 = None if dt0 is None else jnp.asarray(dt0)  # an array: one program for all steps
    return _solve(space, solver, jnp.asarray(t1), dt0, start(space), options)


@eqx.filter_jit
def _solve(space, solver, t1, dt0, y0, options):
    options.setdefault("adjoint", diffrax.ForwardMode())
    term = diffrax.ODETerm(Kinematics(space))
    return diffrax.diffeqsolve(term, solver, jnp.zeros(()), t1, dt0, y0, **options)
