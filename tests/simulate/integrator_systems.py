"""Systems, and a runner with fixed steps, for the tests of integrators."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel.geometry as geo
from jaxhamel.mechanics import System, vector_field
from jaxhamel.simulate._solvers._base_classes import AbstractGroupSolver
from jaxhamel.systems import ChaplyginSleigh


class Sway(System):
    """A sleigh with an affine constraint, a moving blade, a potential, damping and a mass that the control moves."""

    damping: jax.Array
    space = geo.Product(geo.SE2(), geo.Euclidean(1))
    n_constraints = 1
    prescribed_motion = True

    def lagrangian(self, t, q, v, control):
        carried, carried_rate = jax.jvp(control, (t,), (jnp.ones_like(t),))
        sideways = v[2] + (0.3 + carried) * v[0]
        motion = 0.5 * (1.2 * (v[1] + carried_rate) ** 2 + 1.5 * sideways**2 + 0.7 * v[0] ** 2)
        return motion + 0.5 * v[3] ** 2 - 0.4 * q[0][1] ** 2 - jnp.cos(q[0][0] - q[1][0])

    def frame(self, t, q):
        tilt = 0.2 * jnp.sin(t) + 0.3 * jnp.sin(q[1][0])
        one, none = jnp.ones_like(t), jnp.zeros_like(t)
        rows = [[none, jnp.sin(tilt), jnp.cos(tilt), 0.1 * one], [none, one, none, none],
                [one, none, none, 0.2 * q[0][2]], [none, none, none, one]]  # fmt: skip
        return jnp.stack([jnp.stack(row) for row in rows])

    def drift(self, t, q):
        return jnp.stack([0.2 * jnp.cos(q[0][1]), 0.1 * t, 0 * t, 0.1 * q[1][0]])

    def force(self, t, q, v, control):
        return -self.damping * v


class Swing(eqx.Module):
    amplitude: jax.Array

    def __call__(self, t):
        return self.amplitude * jnp.sin(1.7 * t)


class Rod(System):
    """A unit mass in R³ with gravity 1, held at its distance from the origin by the one-form q·v = 0."""

    space = geo.Euclidean(3)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v) - q[2]

    def frame(self, t, q):
        none = jnp.zeros_like(q[0])
        return jnp.stack([q, jnp.stack([-q[2], none, q[0]]), jnp.stack([none, -q[2], q[1]])])


class Transmission(System):
    """The constraint ẏ + sin x ż = 0, driven by a pendulum x with the potential −cos x − ε sin 2x; y and z are on
    springs."""

    asymmetry: jax.Array
    space = geo.Euclidean(3)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        pendulum = jnp.cos(q[0]) + self.asymmetry * jnp.sin(2 * q[0])
        return 0.5 * jnp.sum(v * v) + pendulum - 0.5 * (q[1] ** 2 + q[2] ** 2)

    def frame(self, t, q):
        none, one = jnp.zeros_like(q[0]), jnp.ones_like(q[0])
        first = jnp.stack([none, one, jnp.sin(q[0])])
        return jnp.stack([first, jnp.stack([one, none, none]), jnp.stack([none, none, one])])


class Oscillators(System):
    """Two coupled nonlinear oscillators in R²."""

    space = geo.Euclidean(2)

    def lagrangian(self, t, q, v):
        kinetic = 0.5 * (v[0] ** 2 + 2.0 * v[1] ** 2) + 0.3 * v[0] * v[1]
        return kinetic - 0.5 * jnp.sum(q * q) - 0.2 * q[0] ** 2 * q[1] - 0.1 * q[1] ** 4


def on_space(solver, system):
    return solver.on(system.space) if isinstance(solver, AbstractGroupSolver) else solver


def run(solver, system, y0, t0, h, steps, control=None):
    """The state y after the given number of steps. One program serves all numbers, times and lengths of steps."""
    t0, h = jnp.array(float(t0)), jnp.array(float(h))
    return _run(on_space(solver, system), system, y0, t0, h, jnp.array(steps), control)


@eqx.filter_jit
def _run(solver, system, y0, t0, h, steps, control):
    term, args = diffrax.ODETerm(vector_field), (system, control)

    def step(k, carry):
        y, state = carry
        t = t0 + k.astype(h.dtype) * h
        y, _, _, state, _ = solver.step(term, t, t + h, y, args, state, False)
        return y, state

    state = solver.init(term, t0, t0 + h, y0, args)
    return jax.lax.fori_loop(jnp.array(0), steps, step, (y0, state))[0]


def slope(solver, system, y0, t1, counts, exact, control=None):
    """The observed order, log₂ of the ratio of the errors for two numbers of steps, the second twice the first; and the
    smaller error."""
    errors = []
    for n in counts:
        end = run(solver, system, y0, 0.0, t1 / n, n, control)
        errors.append(float(largest(end, exact)))
    return float(jnp.log2(errors[0] / errors[1])), errors[1]


def largest(y, exact):
    """The largest difference of two states; leaves that are None in `exact` are not compared."""
    pairs = zip(
        jax.tree.leaves(y), jax.tree.leaves(exact, is_leaf=lambda x: x is None), strict=True
    )
    return max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs if b is not None)


def sleigh():
    """Chaplygin's sleigh and an initial state, in the floating precision that is set when it is called."""
    return ChaplyginSleigh(1.2, 0.5, 0.3), (jnp.zeros(3), jnp.array([0.4, 1.3]))


@eqx.filter_jit
def end_of_sleigh(x, solver):
    """A number of the state after five steps, as a function of mass, offset and u0."""
    system = ChaplyginSleigh(mass=x[0], inertia=0.5, offset=x[1])
    solver, term, h = on_space(solver, system), diffrax.ODETerm(vector_field), jnp.asarray(0.2)
    args, y0 = (system, None), (jnp.zeros(3), x[2:])

    def step(carry, t):
        y, state = carry
        y, _, _, state, _ = solver.step(term, t, t + h, y, args, state, False)
        return (y, state), None

    start = y0, solver.init(term, jnp.zeros(()), h, y0, args)
    ((q, u), _), _ = jax.lax.scan(step, start, h * jnp.arange(5.0))
    return q[1] + u[1]


def check_derivatives(solver):
    """Reverse = forward = central differences with Richardson's extrapolation."""
    x = jnp.array([1.2, 0.3, 0.4, 1.3])
    function = lambda x: end_of_sleigh(x, solver)
    step = jnp.concatenate([jnp.eye(4), -jnp.eye(4), 2 * jnp.eye(4), -2 * jnp.eye(4)]) * 1e-3
    along = jnp.array([0.3, -0.5, 0.7, 0.2])

    @jax.jit  # one program of one point serves all points
    def differentiated(x):
        return *jax.value_and_grad(function)(x), jax.jvp(function, (x,), (along,))[1]

    points = [x, *(x[None] + step)]
    values, reverse, forward = map(np.stack, zip(*map(differentiated, points), strict=True))
    near, far = (values[1:5] - values[5:9]) / 2e-3, (values[9:13] - values[13:]) / 4e-3
    np.testing.assert_allclose(reverse[0], (4 * near - far) / 3, rtol=2e-9, atol=1e-10)
    np.testing.assert_allclose(reverse[0] @ along, forward[0], rtol=1e-12)
