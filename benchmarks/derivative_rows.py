"""The rows of `derivatives.py`: scalar functions of two numbers x, at points p."""

from collections.abc import Callable
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from derivative_systems import (
    ATTITUDES,
    BALLS,
    SOME_BALLS,
    Pendulum,
    Rod,
    Swing,
    ball,
    circular,
    none,
    straight,
)

import jaxhamel
from jaxhamel import control, ensemble, identify
from jaxhamel.simulate import AutoAdjoint
from jaxhamel.systems import FreeRigidBody

LANES = 32  # adaptive steps run in lanes from this many trajectories on
TIGHT = {"rtol": 1e-11, "atol": 1e-13}
ROUGH = {"rtol": 1e-6, "atol": 1e-7}


class Row(NamedTuple):
    """A scalar function f(x, p) at one x and several points p, whose names are shown.

    `default_precision`: f works in JAX's default precision and not in that of its arguments. `step`: the largest step
    of the differences, which is halved twice.
    """

    function: Callable
    x: list[float]
    points: dict[str, list[float]]
    default_precision: bool = False
    step: float = 0.04


def tolerances(dtype):
    """Tolerances that the given precision can meet."""
    return TIGHT if dtype == jnp.float64 else ROUGH


# --- one trajectory ---------------------------------------------------------------------------------------------------


def pendulum(x, p, *, times=(0.0, 0.4, 0.9), control=None, tolerance=False, **options):
    """The end of a pendulum's motion from the time p, by stiffness and initial velocity."""
    ts = jnp.stack([p[0] + t for t in times])
    steps = tolerances(x.dtype) if tolerance else {"dt": 0.16}
    options = {"max_steps": 128 if tolerance else 16} | steps | options
    q0 = jnp.array([0.5], x.dtype)
    return jaxhamel.simulate(Pendulum(x[0]), q0, x[1:], ts, control, **options)


def end(path):
    return path.q[-1, 0] + path.u[-1, 0] ** 2


def of_end(**options):
    return lambda x, p: end(pendulum(x, p, **options))


def by_times(**options):
    """The end of a motion, by the lengths of two intervals of `ts`. Their numbers of steps stay if they change by a
    sixth."""

    def function(x, p):
        ts = jnp.stack([p[0], p[0] + x[0], p[0] + x[0] + x[1]])
        q0, u0 = jnp.array([0.5], x.dtype), jnp.array([0.1], x.dtype)
        steps = options or tolerances(x.dtype)
        return end(jaxhamel.simulate(Pendulum(0 * x[0] + 2), q0, u0, ts, **steps, max_steps=128))

    return function


def event(**options):
    """The time and the velocity when q falls to 0.2."""

    def function(x, p):
        falls = lambda t, q, u: q[0] - 0.2
        path = pendulum(x, p, times=(0.0, 2.0), event=falls, **options)
        return path.t_end - p[0] + path.u_end[0]

    return function


def dense(x, p):
    return pendulum(x, p, dense=True).evaluate(p[0] + 0.3)[0][0]


def spline(x, p):
    coefficients = jnp.outer(jnp.array([0.1, 1.0, -0.5, 0.3, 0.2, 0.1], x.dtype), x[1:])
    curve = control.Spline(coefficients, p[0], p[0] + 0.9, degree=3)
    return end(pendulum(x, p, control=curve))


def body(solver=None, **options):
    """The end of a rigid body's motion, by a moment of inertia and a velocity."""
    options = {"dt": 0.1, "max_steps": 4} | options

    def function(x, p):
        inertia = jnp.stack([x[0], 0 * x[0] + 1.5, 0 * x[0] + 1.8])
        u0 = jnp.stack([p[4] * x[1], x[1], 0 * x[1]]) * p[5]
        system = FreeRigidBody(inertia)
        path = jaxhamel.simulate(system, p[:4], u0, [0.0, 0.3], solver=solver, **options)
        q = path.q[-1]
        return q[1] + q[0] * q[2] + jnp.sum(path.u[-1] ** 3)

    return function


def projected(x, p):
    """The end of a projected motion, by length and angular momentum."""
    q0 = x[0] * jnp.stack([jnp.cos(p[0]), jnp.sin(p[0])])
    options = {"dt": 0.1, "max_steps": 4, "project": True}
    path = jaxhamel.simulate(Rod(x[0]), q0, x[1:], [0.0, 0.3], **options)
    return path.q[-1, 0] + path.q[-1, 1] ** 2 + path.u[-1, 0]


def ball_rate(rails_of):
    """|Ω̇|² of the ball, by the amplitude of the masses and a velocity."""

    def function(x, p):
        q, u, system, moved = _ball(rails_of, x, p)
        return jnp.sum(jaxhamel.acceleration(system, p[9], q, u, moved) ** 2)

    return function


def ball_motion(x, p):
    """The end of two steps of the ball, by the amplitude of the masses and a velocity."""
    q, u, system, moved = _ball(circular, x, p)
    path = jaxhamel.simulate(system, q, u, p[9] + np.array([0.0, 0.1], x.dtype), moved, dt=0.05)
    return jnp.sum(path.u[-1] ** 2) + path.q[1][-1, 0]


def _ball(rails_of, x, p):
    rails, count = rails_of(x.dtype, p)
    q = (p[:4], jnp.zeros(2, x.dtype))
    u = jnp.stack([x[1], 0.3 * x[1], -x[1]]) * p[4]
    return q, u, ball(rails, count, p, x.dtype), Swing(jnp.stack([x[0], x[0]])[:count])


# --- ensembles --------------------------------------------------------------------------------------------------------


def of_ensemble(run, size=2, **options):
    """The ends of pendulums whose velocities are multiples of x₁."""

    def function(x, p):
        u0 = jnp.linspace(0.5, 1.0, size, dtype=x.dtype)[:, None] * x[1]
        q0, ts = jnp.array([0.5], x.dtype), np.array([0.0, 0.4, 0.9])
        steps = options or tolerances(x.dtype)
        q, u = run(Pendulum(x[0]), q0, u0, ts, in_axes=(None, None, 0, None), **steps)
        return jnp.sum(q[:, -1]) * p[0] + jnp.sum(u[:, -1] ** 2)

    return function


def simulated(*args, **options):
    path = ensemble.simulate(*args, **options)
    return path.q, path.u


def bodies(x, p):
    """The ends of two rigid bodies from one attitude, the second half as fast."""
    inertia = jnp.stack([x[0], 0 * x[0] + 1.5, 0 * x[0] + 1.8])
    u0 = jnp.stack([p[4] * x[1], x[1], 0 * x[1]]) * p[5]
    start = p[:4], jnp.stack([u0, u0 / 2])
    given = FreeRigidBody(inertia), *start, np.array([0.0, 0.3])
    q, u = ensemble.rollout(*given, dt=0.1, in_axes=(None, None, 0, None))
    return jnp.sum(q[:, -1, 1] + q[:, -1, 0] * q[:, -1, 2]) + jnp.sum(u[:, -1] ** 3)


def integrated(size=2, **options):
    """The ends of ÿ = −x₀ sin y from velocities that are multiples of x₁."""

    def rate(t, y, k):
        return jnp.stack([y[1], -k * jnp.sin(y[0])])

    def function(x, p):
        u0 = jnp.linspace(0.5, 1.0, size, dtype=x.dtype) * x[1]
        y0 = jnp.stack([0 * u0 + 0.5, u0], axis=1)
        steps = options or tolerances(x.dtype)
        y = ensemble.integrate(rate, y0, np.array([0.0, 0.9]), x[0], in_axes=(0, None), **steps)
        return jnp.sum(y[:, -1, 0]) * p[0] + jnp.sum(y[:, -1, 1] ** 2)

    return function


# --- control and identification ---------------------------------------------------------------------------------------


def control_cost(x, p):
    """J of a control problem with running and final costs and a constraint, by stiffness and size of the spline."""
    shape = jnp.array([[0.1], [1.0], [-0.5], [0.3], [0.2]], x.dtype)
    ts = p[0] + jnp.array([0.0, 0.4, 0.8], x.dtype)
    q0, u0 = jnp.array([0.5], x.dtype), jnp.array([0.1], x.dtype)
    costs = (control.ControlEnergy(0.3), control.Endpoint(q=jnp.array([0.2], x.dtype)))
    constraints = (control.StateAtEnd(u=jnp.zeros(1, x.dtype)),)
    curve = control.Spline(shape, p[0], p[0] + 0.8, degree=3)
    problem = control.ControlProblem(Pendulum(x[0]), q0, u0, ts, curve, costs, constraints)
    r = control.residual(
        problem, x[1] * shape[:, 0], samples=2, penalty=10.0, options={"dt": 0.2, "max_steps": 8}
    )
    return 0.5 * jnp.dot(r, r)


def connection(r):
    """A connection on SE(2) that is not flat."""
    return jnp.stack(
        [
            jnp.stack([0.3 + 0 * r[0], jnp.sin(r[0])]),
            jnp.stack([jnp.cos(r[1]), r[0] * r[1]]),
            jnp.stack([r[1], 0.5 + 0 * r[0]]),
        ]
    )


def gait_cost(x, p):
    """The cost of an elliptic gait by its two radii, with effort and at any centre."""
    gait = control.elliptic_gait(p * jnp.ones(2, x.dtype), x, period=jnp.ones((), x.dtype))
    objective = jnp.array([0.2, 1.0, 0.4], x.dtype)
    given = connection, jaxhamel.SE2(), gait, objective
    effort = jnp.asarray(0.1, x.dtype)
    return control.GaitProblem(*given, effort_weight=effort, steps=12).cost(
        control.free_parameters(gait)[0]
    )


class Shake(eqx.Module):
    """The control a sin ω t."""

    x: jax.Array

    def __call__(self, t):
        return self.x[:1] * jnp.sin(self.x[1] * t)


ANGLE = identify.Coordinate(0, name="angle", noise=0.1)


def experiment_information(x, p):
    """log F of a stiffness under a control, by its amplitude and frequency, the initial state being nearly known."""
    with jax.ensure_compile_time_eval():
        start = jnp.array([0.5]), jnp.array([0.1])
        given = Pendulum(jnp.asarray(2.0)), [identify.Positive("stiffness")], [ANGLE]
        planned = identify.Experiment(*given, np.linspace(0, 0.8, 5), *start, dt=0.1)
    return jnp.log(planned.information(Shake(x))[0, 0]) * p[0]


START = {"t₀ = 0": [0.0], "t₀ = −2": [-2.0]}
X = [2.0, 0.7]
ONE = {"": [1.0]}
ANGLES = {"horizontal": [0.0], "near upright": [1.5]}
AT_IDENTITY = {"identity": BALLS["identity"]}
WITHIN_A_STEP = 0.004  # with this step the event stays within one integration step, at whose ends its time has a kink
BY_CHECKPOINTS = AutoAdjoint(forward_up_to=0)
ROWS = {
    "simulate, `dt`": Row(of_end(), X, START),
    "simulate, tolerance": Row(of_end(tolerance=True), X, START),
    "simulate, more than ten numbers": Row(of_end(adjoint=BY_CHECKPOINTS), X, START),
    "simulate, `DirectAdjoint`": Row(of_end(adjoint=diffrax.DirectAdjoint()), X, START),
    "simulate, by `ts`": Row(by_times(dt=0.16), [0.4, 0.56], START),
    "simulate, by `ts`, tolerance": Row(by_times(), [0.4, 0.56], START),
    "simulate, real event": Row(event(), X, START, step=WITHIN_A_STEP),
    "simulate, real event, tolerance": Row(event(tolerance=True), X, START, step=WITHIN_A_STEP),
    "simulate, dense": Row(dense, X, START),
    "simulate, spline as control": Row(spline, X, START),
    "simulate, `project=True`": Row(projected, [1.2, 0.7], ANGLES),
    "simulate, rigid body": Row(body(), [1.2, 0.7], ATTITUDES),
    "simulate, rigid body, `LieGroup`": Row(
        body(jaxhamel.LieGroup(diffrax.Tsit5(), jaxhamel.SO3())), [1.2, 0.7], ATTITUDES
    ),
    "simulate, rigid body, `CommutatorFree4`": Row(
        body(jaxhamel.CommutatorFree4()), [1.2, 0.7], ATTITUDES
    ),
    "simulate, rigid body, `Variational`": Row(body(jaxhamel.Variational()), [1.2, 0.7], ATTITUDES),
    "ensemble.simulate, `dt`": Row(of_ensemble(simulated, dt=0.16), X, ONE),
    "ensemble.simulate, tolerance": Row(of_ensemble(simulated, LANES), X, ONE),
    "ensemble.rollout, `dt`": Row(of_ensemble(ensemble.rollout, dt=0.16), X, ONE),
    "ensemble.rollout, tolerance": Row(of_ensemble(ensemble.rollout, LANES), X, ONE),
    "ensemble.rollout, tolerance, two": Row(of_ensemble(ensemble.rollout), X, ONE),
    "ensemble.rollout, rigid bodies": Row(bodies, [1.2, 0.7], ATTITUDES),
    "ensemble.integrate, `dt`": Row(integrated(dt=0.16), X, ONE),
    "ensemble.integrate, tolerance": Row(integrated(LANES), X, ONE),
    "ball, circular rails": Row(ball_rate(circular), [0.3, 0.7], BALLS, step=0.02),
    "ball, straight rails": Row(ball_rate(straight), [0.3, 0.7], AT_IDENTITY),
    "ball without masses": Row(ball_rate(none), [0.3, 0.7], AT_IDENTITY),
    "ball, motion": Row(ball_motion, [0.3, 0.7], SOME_BALLS),
    "control.residual": Row(control_cost, X, START),
    "control.GaitProblem.cost": Row(gait_cost, [0.4, 0.7], {"centre 0": [0.0]}),
    "identify.Experiment.information": Row(experiment_information, X, ONE, True),
}
