"""Ends a simulation by conditions on the state, located within the step in which one of them comes true.

Each condition is turned into a function h(t, y) that is negative before its event and positive after it: h = −sign(f(t₀))
f for a real function f, whose zero is the event, and h = ±1 for a Boolean one. diffrax steps until the largest h is
positive at the end of a step. Bisection on the interpolant of that step then finds the time to rounding, so that it
always lies in the step; the first of several events counts.
"""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel.simulate._bisection import InsideStep
from jaxhamel.simulate._checks import check_event_value
from jaxhamel.simulate._one_vector import VectorLayout


class Conditions(eqx.Module):
    """Functions (t, y, args, …) with real or Boolean values that end a simulation, and the direction of each.

    A real function with a `direction` (of a `diffrax.Event`) has events only where it rises (True) or falls (False).
    """

    functions: list[Callable]
    directions: tuple[bool | None, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @classmethod
    def of(cls, event: Any, layout: VectorLayout | None) -> "Conditions | None":
        """The conditions of a `diffrax.Event`, of a function of (t, q, u), or of a pytree of such functions."""
        if event is None:
            return None
        given = event if isinstance(event, diffrax.Event) else None
        functions, structure = jax.tree.flatten(
            event if given is None else given.cond_fn, is_leaf=callable
        )
        if given is None:
            return cls(
                [_OfState(f, layout) for f in functions], (None,) * len(functions), structure
            )
        directions = jax.tree.leaves(given.direction, is_leaf=lambda x: x is None)
        return cls(functions, tuple(directions), structure)

    def starting(self, field: Callable, t0, y0, args, known: dict[str, Any]) -> "Located":
        """The conditions with their signs just after the start; `field(t, y, args)` is the rate of the motion."""
        evaluate = lambda t, y: [f(t, y, args, **known) for f in self.functions]  # noqa: E731
        values = self._checked(eqx.filter_eval_shape(evaluate, t0, y0))
        dtypes = [jnp.result_type(v) for v in values]
        rate = (jnp.ones_like(t0), field(t0, y0, args))
        signs = [
            None if jnp.issubdtype(dtype, jnp.bool_) else _sign_after(f, t0, y0, rate, args, known)
            for f, dtype in zip(self.functions, dtypes, strict=True)
        ]
        return Located(self, signs, jax.lax.stop_gradient(t0))

    def _checked(self, values: list[Any]) -> list[Any]:
        paths = jax.tree_util.tree_leaves_with_path(
            jax.tree.unflatten(self.structure, list(range(len(values))))
        )
        for (path, _), value in zip(paths, values, strict=True):
            check_event_value("event" + jax.tree_util.keystr(path), value)
        return values


def _sign_after(f: Callable, t0, y0, rate, args, known):
    """The sign of a real function just after the start; if it starts at zero, the sign of its rate."""
    value, slope = jax.jvp(lambda t, y: f(t, y, args, **known), (t0, y0), rate)
    return jax.lax.stop_gradient(jnp.sign(jnp.where(value == 0, slope, value)))


class Located(eqx.Module):
    """Conditions, with the sign of each real one just after the start."""

    conditions: Conditions
    signs: list[Any]
    t0: Any

    @property
    def event(self) -> diffrax.Event:
        """The event for diffrax: real functions that rise through zero, and Booleans that hold at the start."""
        functions: dict[str, Any] = {f"crossing {i}": _Crossing(self, i) for i in self._directed}
        if self._others:
            functions["first"] = _First(self)
        if any(sign is None for sign in self.signs):
            functions["start"] = _AtStart(self)
        directions = {name: None if name == "start" else True for name in functions}
        return diffrax.Event(functions, InsideStep(), directions)

    @property
    def _directed(self) -> list[int]:
        pairs = enumerate(zip(self.conditions.directions, self.signs, strict=True))
        return [i for i, (d, sign) in pairs if d is not None and sign is not None]

    @property
    def _others(self) -> list[int]:
        return [i for i in range(len(self.signs)) if i not in self._directed]

    def height(self, i: int, t, y, args, known):
        """h of the i-th condition."""
        value, sign = self.conditions.functions[i](t, y, args, **known), self.signs[i]
        t = jnp.asarray(t, self.t0.dtype)
        if sign is None:
            return _step_up(jnp.asarray(value), t)
        value, sign = jnp.asarray(value, t.dtype), jnp.asarray(sign, t.dtype)
        direction = self.conditions.directions[i]
        if direction is None:
            return jnp.where(sign == 0, jnp.abs(value), -sign * value)
        value = jnp.where((value == 0) & (t == self.t0), sign, value)
        return value if direction else -value

    def happened(self, mask: dict[str, Any], t, y, args, known) -> tuple[Any, Any]:
        """The conditions that ended the simulation, from diffrax' mask and the last state, and a flag.

        The flag is True if a Boolean condition came true after the start: the end time then has no derivative.
        """
        at_start = mask.get("start", jnp.array(False))
        ended = at_start | mask.get("first", jnp.array(False))
        found = {i: mask[f"crossing {i}"] for i in self._directed}
        if self._others:
            heights = jnp.stack([self.height(i, t, y, args, known) for i in self._others])
            first = ended & ((heights >= 0) | (heights == jnp.max(heights)))
            found |= {i: first[j] for j, i in enumerate(self._others)}
        by_flag = [found[i] for i, sign in enumerate(self.signs) if sign is None]
        flagged = jnp.any(jnp.stack([*by_flag, jnp.array(False)])) & ~at_start
        return jax.tree.unflatten(
            self.conditions.structure, [found[i] for i in sorted(found)]
        ), flagged


class Ending(eqx.Module):
    """The end of a simulation: the events to pass to diffrax, and the final time and state in its solution."""

    located: Located | None
    known: dict[str, Any]

    @classmethod
    def of(cls, conditions: Conditions | None, term, t0, y0, args, options) -> "Ending":
        known = {"terms": term, **{k: options[k] for k in ("solver", "stepsize_controller")}}
        if conditions is None:
            return cls(None, known)
        return cls(conditions.starting(term.vector_field, t0, y0, args, known), known)

    @property
    def event(self) -> diffrax.Event | None:
        return None if self.located is None else self.located.event

    @property
    def saved(self) -> diffrax.SubSaveAt:
        """Saves the last state; with conditions also its time, because reverse mode differentiates only saved values."""
        if self.located is None:
            return diffrax.SubSaveAt(t1=True)
        dtype = self.located.t0.dtype
        return diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: (jnp.asarray(t, dtype), y))

    def found(self, solution: Any, args) -> tuple[Any, Any, Any]:
        """Time and state of the end, and the conditions that caused it."""
        end = jax.tree.map(lambda x: x[0], solution.ys[1])
        if self.located is None:
            return solution.ts[1][0], end, None
        t, y = end
        happened, flagged = self.located.happened(solution.event_mask, t, y, args, self.known)
        return *without_derivative(flagged, end), happened


class _OfState(eqx.Module):
    """A function of (t, q, u) as a function of diffrax' state."""

    function: Any
    layout: VectorLayout | None

    def __call__(self, t, y, args, **_):
        return self.function(t, *(y if self.layout is None else self.layout.parts(y)))


class _Crossing(eqx.Module):
    located: Located
    index: int = eqx.field(static=True)

    def __call__(self, t, y, args, **known):
        return self.located.height(self.index, t, y, args, known)


class _First(eqx.Module):
    """The largest h of all conditions without direction: positive as soon as any of them is."""

    located: Located

    def __call__(self, t, y, args, **known):
        located = self.located
        heights = [located.height(i, t, y, args, known) for i in located._others]
        return jnp.max(jnp.stack(heights))


class _AtStart(eqx.Module):
    """Whether a Boolean condition holds at the start."""

    located: Located

    def __call__(self, t, y, args, **known):
        pairs = zip(self.located.conditions.functions, self.located.signs, strict=True)
        values = [jnp.asarray(f(t, y, args, **known)) for f, sign in pairs if sign is None]
        return jnp.any(jnp.stack(values)) & (t == self.located.t0)


@jax.custom_jvp
def _step_up(condition, t):
    """1 if a condition holds, else −1; its slope in t is not zero, for a root finder that divides by it."""
    return jnp.where(condition, jnp.ones_like(t), -jnp.ones_like(t))


@_step_up.defjvp
def _step_up_jvp(primals, tangents):
    return _step_up(*primals), tangents[1]


def without_derivative(flag, values: Any) -> Any:
    """The values unchanged; if `flag` holds, their derivatives are NaN in both modes.

    A Boolean has no rate of change, so that the end time that it sets has no known derivative. In reverse mode a zero
    cotangent stays zero: results that do not use these values keep their derivatives.
    """
    leaves, structure = jax.tree.flatten(values)
    return jax.tree.unflatten(structure, _with_unknown_derivative(flag, leaves))


@jax.custom_jvp
def _with_unknown_derivative(flag, values):
    del flag
    return values


@_with_unknown_derivative.defjvp
def _unknown_jvp(primals, tangents):
    flag, values = primals
    return values, linear_map(_FORWARD, _BACKWARD, [flag], tangents[1], values)


def _nan(given, x_dot):
    return [jnp.where(given[0], jnp.asarray(np.nan, x.dtype), x) for x in x_dot]


def _nan_where_used(given, y_bar):
    return [jnp.where(given[0] & (y != 0), jnp.asarray(np.nan, y.dtype), y) for y in y_bar]


_FORWARD = LinearProgram(_nan, _nan, _nan)
_BACKWARD = LinearProgram(_nan_where_used, _nan_where_used, _nan_where_used)
