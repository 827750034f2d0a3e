"""The motion under a control as the guess of a search."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._collocation._points import PiecewisePolynomial
from jaxhamel.control._collocation._start import first_iterate
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import VectorField
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped

STEPS = 4  # steps of the classical Runge–Kutta method per interval


def started_with(
    transcription: Transcription, problem: ControlProblem, curve: Any
) -> CollocationPoint:
    """The iterate whose states are those of the motion under `curve`."""
    ts, states = _motion(transcription, problem, curve)
    begin: Any = (problem.q0, problem.u0)
    return first_iterate(transcription, ts, states, curve, begin, problem.ts[-1])


@compiled_with(QUICK)
def moved_by_own_control(
    transcription: Transcription, problem: ControlProblem, w: CollocationPoint
) -> CollocationPoint:
    """The iterate with the controls of `w` and the states of the motion under them."""
    ts = problem.ts[0] + transcription.shares * (problem.ts[-1] - problem.ts[0])
    curve = PiecewisePolynomial(ts, w.c, transcription.rule.points)
    return started_with(transcription, problem, curve)


def _motion(transcription: Transcription, problem: ControlProblem, curve: Any):
    """The times of the mesh, and the states of the motion under `curve` at these times."""
    ts = problem.ts[0] + transcription.shares * (problem.ts[-1] - problem.ts[0])
    field, space = VectorField(), problem.system.space

    def rate(t, y):
        return field(t, y, (problem.system, curve))

    def interval(y, ends):
        h = (ends[1] - ends[0]) / STEPS

        def step(y, k):
            q, u = looped(rate, RK4, ends[0] + k * h, h, y)[0]
            return (space.normalise(q), u), None

        return jax.lax.scan(step, y, jnp.arange(STEPS).astype(h.dtype))[0], y

    start = problem.q0, problem.u0
    last, before = jax.lax.scan(interval, start, (ts[:-1], ts[1:]))
    return ts, jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), before, last)
