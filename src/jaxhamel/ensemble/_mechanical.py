"""Expresses an ensemble of mechanical systems as functions of one lane's numbers."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax

from jaxhamel.ensemble._adaptive_steps._adaptive_paths import Asked, Equation
from jaxhamel.ensemble._equal_steps._equal_steps import SteppedMotion
from jaxhamel.ensemble._members._columns import ColumnLayout
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._group_steps import in_velocities
from jaxhamel.mechanics import VectorField
from jaxhamel.simulate import simulate


def mechanical(
    members: Members, route: str | None, method: Any = None
) -> tuple[ColumnLayout, SteppedMotion]:
    """The layout of a state (q, u), and its motion; `method` is a method on groups, which has its own step, or None."""
    first = jax.vmap(lambda own: members.with_own(own)[1:3])(members.own)
    state, own = ColumnLayout.of(first), ColumnLayout.of(members.own)
    field, space = VectorField(route), members.with_own(members.own)[0].space
    shared, fixed = members.shared

    def at(mine, shared) -> tuple[Any, Callable[..., Any]]:
        system, _, _, control = members.with_numbers(own.entries(mine), shared, fixed)
        return system, lambda t, y: field(t, y, (system, control))

    def rate(t, y, mine, shared):
        return state.numbers(at(mine, shared)[1](t, state.entries(y)))

    def step(t, h, y, mine, shared):
        system, rate = at(mine, shared)
        slope = in_velocities(system.space, rate)
        return state.numbers(method.step(system.space, slope, t, h, state.entries(y)))

    def unit(y, shared):
        q, u = state.entries(y)
        return state.numbers((space.normalise(q), u))

    y, mine = state.columns(first), own.columns(members.own)
    return state, SteppedMotion(rate, unit, y, mine, shared, None if method is None else step)


@cache
def mechanical_equation(route: str | None) -> Equation:
    """The equations of motion in the form that adaptive steps need (`Equation`)."""
    return Equation(partial(mechanical, route=route), partial(_alone, route), _first)


def _first(member: tuple[Any, ...]):
    return member[1:3]


def _alone(route: str | None, member: tuple[Any, ...], ts, asked: Asked):
    system, q0, u0, control = member
    options: dict[str, Any] = asked._asdict() | {"route": route}
    found = simulate(system, q0, u0, ts, control, **options)
    return (found.q, found.u), found.t_end, (found.q_end, found.u_end)
