"""Expresses an ensemble of ordinary differential equations dy/dt = f(t, y, args) as functions of one lane's numbers.

Its members are (y0, args, f)."""

from collections.abc import Callable
from functools import cache
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel.ensemble._adaptive_steps._adaptive_paths import Asked, Equation
from jaxhamel.ensemble._checks._members import check_slope
from jaxhamel.ensemble._equal_steps._equal_steps import SteppedMotion
from jaxhamel.ensemble._members._columns import ColumnLayout
from jaxhamel.ensemble._members._members import Members
from jaxhamel.simulate import AutoAdjoint
from jaxhamel.simulate._step_size import watched_pid
from jaxhamel.simulate._trajectory import nan_where


def ordinary(members: Members) -> tuple[ColumnLayout, SteppedMotion]:
    """The layout of y, and its motion."""
    first = jax.vmap(lambda own: members.with_own(own)[0])(members.own)
    state, own = ColumnLayout.of(first), ColumnLayout.of(members.own)
    shared, fixed = members.shared

    def rate(t, y, mine, shared):
        y, (_, args, f) = state.entries(y), members.with_numbers(own.entries(mine), shared, fixed)
        slope = f(t, y, args)
        check_slope(slope, y)
        return state.numbers(slope)

    y, mine = state.columns(first), own.columns(members.own)
    return state, SteppedMotion(rate, lambda y, shared: y, y, mine, shared)


@cache
def ordinary_equation() -> Equation:
    """The differential equation in the form that adaptive steps need (`Equation`)."""
    return Equation(ordinary, _alone, lambda member: member[0])


def _alone(member: tuple[Any, ...], ts: Float[Array, " T"], asked: Asked) -> tuple[Any, Array, Any]:
    y0, args, f = member
    slope: Callable[..., Any] = lambda t, y, args: f(t, y, args)  # noqa: E731
    path, end = diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)
    found: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(slope),
        asked.solver,
        ts[0],
        ts[-1],
        None,
        y0,
        args,
        saveat=diffrax.SaveAt(subs=(path, end)),
        stepsize_controller=watched_pid(asked.rtol, asked.atol, ts),
        adjoint=AutoAdjoint(),
        max_steps=asked.max_steps,
        throw=False,
    )
    (times, (t_end,)), (states, last) = found.ts, found.ys
    states = nan_where(~jnp.isfinite(times), states)
    return states, t_end, jax.tree.map(lambda x: x[0], last)
