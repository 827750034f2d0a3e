"""Ends a simulation by conditions on the state; the time of the end is found within the step in which one comes true.

Each condition is turned into a function h(t, y) that is negative before its event and positive after it: h = −sign(f(t₀))
f for a real function f, whose zero is the event, and h = ±1 for a Boolean one. diffrax steps until the largest h is
positive at the end of a step. Bisection on the interpolant of that step then finds the time to rounding, so that it
always lies in the step; the first of several events counts. If a Boolean condition holds at the start, the motion ends
there: the one step that diffrax takes is dropped.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel.simulate._checks import check_event_value
from jaxhamel.simulate._events._root import InsideStep, SignAfter, sign_after
from jaxhamel.simulate._one_vector import VectorLayout


class Conditions(eqx.Module):
    """Functions (t, y, args, …) with real or Boolean values that end a simulation, and the direction of each.

    A real function has events only where it rises if its direction is True, only where it falls if it is False (as in a
    `diffrax.Event`), and in both cases if it is None.
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

    def located(self, field: Callable, ts, y0, args, known: dict[str, Any]) -> "Located":
        """The conditions with their signs just after the start of a motion; `field(t, y, args)` is its rate."""
        t0 = ts[0]
        values = self._checked([f(t0, y0, args, **known) for f in self.functions])
        flags = [jnp.issubdtype(jnp.result_type(value), jnp.bool_) for value in values]

        def rate(t, y):
            return jnp.ones_like(t), field(t, y, args)

        signs = [
            None if flag else sign_after(partial(_at, f, args, known), rate, ts, y0)
            for f, flag in zip(self.functions, flags, strict=True)
        ]
        at_start = [
            jnp.asarray(value) if flag else jnp.array(False)
            for value, flag in zip(values, flags, strict=True)
        ]
        nan = self.any_nan(t0, y0, args, known)
        return Located(self, signs, jax.lax.stop_gradient(t0), jnp.stack(at_start), nan)

    def any_nan(self, t, y, args, known: dict[str, Any]):
        """Whether a real condition is NaN at (t, y)."""
        values = [jnp.asarray(f(t, y, args, **known)) for f in self.functions]
        return jnp.any(jnp.stack([jnp.isnan(v) for v in values]))

    def _checked(self, values: list[Any]) -> list[Any]:
        paths = jax.tree_util.tree_leaves_with_path(
            jax.tree.unflatten(self.structure, list(range(len(values))))
        )
        for (path, _), value in zip(paths, values, strict=True):
            check_event_value("event" + jax.tree_util.keystr(path), value)
        return values


def _at(f: Callable, args, known: dict[str, Any], t, y):
    return f(t, y, args, **known)


class Located(eqx.Module):
    """Conditions, the sign of each real one just after the start, and which Boolean ones hold at the start."""

    conditions: Conditions
    signs: list[SignAfter | None]
    t0: Any
    at_start: Any
    nan_at_start: Any

    @property
    def event(self) -> diffrax.Event:
        """The event in the form of diffrax: it happens as soon as one of several real functions rises through zero."""
        functions: dict[str, Any] = {f"crossing {i}": _Crossing(self, i) for i in self._directed}
        if self._others:
            functions["first"] = _First(self)
        return diffrax.Event(functions, InsideStep(), dict.fromkeys(functions, True))

    @property
    def _directed(self) -> list[int]:
        pairs = enumerate(zip(self.conditions.directions, self.signs, strict=True))
        return [i for i, (d, sign) in pairs if d is not None and sign is not None]

    @property
    def _others(self) -> list[int]:
        return [i for i in range(len(self.signs)) if i not in self._directed]

    def height(self, i: int, t, y, args, known):
        """The value of h of the i-th condition at (t, y): negative before its event, positive after it."""
        value, sign = self.conditions.functions[i](t, y, args, **known), self.signs[i]
        t = jnp.asarray(t, self.t0.dtype)
        if sign is None:
            return _step_up(jnp.asarray(value) & (t != self.t0), t)
        starts_at_zero, sign = sign.starts_at_zero & (t == self.t0), jnp.asarray(sign.sign, t.dtype)
        value = jnp.where(starts_at_zero, sign, jnp.asarray(value, t.dtype))
        direction = self.conditions.directions[i]
        if direction is None:
            return jnp.where(sign == 0, jnp.abs(value), -sign * value)
        return value if direction else -value

    def happened(self, mask: dict[str, Any], t, y, args, known) -> tuple[Any, Any]:
        """Which conditions ended the simulation, from diffrax' mask and the last state, and a flag.

        The flag is True if a Boolean condition came true after the start: then the end time has no derivative.
        """
        ended, at_start = mask.get("first", jnp.array(False)), jnp.any(self.at_start)
        found = {i: mask[f"crossing {i}"] for i in self._directed}
        if self._others:
            heights = jnp.stack([self.height(i, t, y, args, known) for i in self._others])
            first = ended & ((heights >= 0) | (heights == jnp.max(heights)))
            found |= {i: first[j] for j, i in enumerate(self._others)}
        by_flag = [found[i] for i, sign in enumerate(self.signs) if sign is None]
        flagged = jnp.any(jnp.stack([*by_flag, jnp.array(False)])) & ~at_start
        caused = [jnp.where(at_start, self.at_start[i], found[i]) for i in sorted(found)]
        return jax.tree.unflatten(self.conditions.structure, caused), flagged


class Ending(eqx.Module):
    """The end of a simulation: the events to pass to diffrax, and the final time and state in its solution."""

    located: Located | None
    known: dict[str, Any]

    @classmethod
    def of(cls, conditions: Conditions | None, term, ts, y0, args, options) -> "Ending":
        known = {"terms": term, **{k: options[k] for k in ("solver", "stepsize_controller")}}
        if conditions is None:
            return cls(None, known)
        return cls(conditions.located(term.vector_field, ts, y0, args, known), known)

    @property
    def event(self) -> diffrax.Event | None:
        return None if self.located is None else self.located.event

    @property
    def saved(self) -> diffrax.SubSaveAt:
        """The request to save the last state; with conditions also its time, since reverse mode needs a saved value."""
        if self.located is None:
            return diffrax.SubSaveAt(t1=True)
        dtype = self.located.t0.dtype
        return diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: (jnp.asarray(t, dtype), y))

    def found(self, solution: Any, ts, y0, args) -> tuple[Any, tuple[Any, Any], Any, Any]:
        """The solution with the reason of its end, (time, state) of the end, and the conditions that caused it.

        The last result is whether a condition was NaN at the start, or at an end that no condition caused.
        """
        end = jax.tree.map(lambda x: x[0], solution.ys[1])
        if self.located is None:
            return solution, (solution.ts[1][0], end), None, jnp.array(False)
        t, y = end
        happened, flagged = self.located.happened(solution.event_mask, t, y, args, self.known)
        at_end = self.located.conditions.any_nan(t, y, args, self.known)
        undefined = self.located.nan_at_start | (
            at_end & (solution.result == diffrax.RESULTS.successful)
        )
        end = without_derivative(flagged, end, (self.known, ts, y0, args))
        ended = _ended_at_start(jnp.any(self.located.at_start), solution, end, ts, y0)
        return *ended, happened, undefined


def _ended_at_start(at_start, solution: Any, end, ts, y0) -> tuple[Any, Any]:
    """The solution, and (time, state) of its end; if `at_start` holds, that is the start, and later times are not saved."""
    saved = jnp.where(at_start & (ts > ts[0]), jnp.asarray(np.inf, ts.dtype), solution.ts[0])
    result = diffrax.RESULTS.where(at_start, diffrax.RESULTS.event_occurred, solution.result)
    solution = eqx.tree_at(lambda s: (s.ts[0], s.result), solution, (saved, result))
    return solution, jax.tree.map(lambda x0, x: jnp.where(at_start, x0, x), (ts[0], y0), end)


class _OfState(eqx.Module):
    """A user's function of (t, q, u), as a function of diffrax' arguments (t, y, args)."""

    function: Any
    layout: VectorLayout | None

    def __call__(self, t, y, args, **_):
        return self.function(t, *(y if self.layout is None else self.layout.parts(y)))


class _Crossing(eqx.Module):
    located: Located
    index: int = eqx.field(static=True)

    def __call__(self, t, y, args, **known):
        return _of_default_dtype(self.located.height(self.index, t, y, args, known))


class _First(eqx.Module):
    """The largest h of all conditions without direction: positive as soon as any of them is."""

    located: Located

    def __call__(self, t, y, args, **known):
        located = self.located
        heights = [located.height(i, t, y, args, known) for i in located._others]
        return _of_default_dtype(jnp.max(jnp.stack(heights)))


def _of_default_dtype(height):
    """h in JAX's default precision: diffrax selects between h and a literal 0.0, whose dtypes must be the same."""
    return height.astype(jnp.result_type(float))


def _step_up(condition, t):
    """1 if a condition holds, else −1; with the slope 1 in t, for a root finder that divides by it."""
    return jnp.where(condition, jnp.ones_like(t), -jnp.ones_like(t)) + (
        t - jax.lax.stop_gradient(t)
    )


def without_derivative(flag, values: Any, inputs: Any) -> Any:
    """Returns the values unchanged; if `flag` holds, their derivatives with respect to all `inputs` are NaN in both modes.

    A Boolean has no rate of change, so that the end time that it sets has no known derivative. In reverse mode the
    cotangents of the inputs are NaN and those of the values 0, because the root finder that computed them raises errors at
    NaN. If the incoming cotangents are zero, all are zero: results that do not use these values keep their derivatives.
    """
    leaves, structure = jax.tree.flatten(values)
    inputs = [x for x in jax.tree.leaves(inputs) if eqx.is_inexact_array(x)]
    maps, n = _unknown_maps([jax.typeof(x) for x in inputs]), len(leaves)

    def rule(primals, tangents):
        along = [
            jnp.zeros_like(x) if t is None else t
            for x, t in zip(primals[1:], tangents[1:], strict=True)
        ]
        return primals[1 : 1 + n], linear_map(*maps, primals[:1], along, leaves)

    known = own_derivative(lambda flag, *x: list(x[:n]), rule, [flag, *leaves, *inputs], leaves)
    return jax.tree.unflatten(structure, known)


def _unknown_maps(inputs: list[Any]) -> tuple[LinearProgram, LinearProgram]:
    """The linear map from tangents of (values, inputs) to tangents of the values, and its transpose."""

    def nan(flag, x):
        return jnp.where(flag, jnp.asarray(np.nan, x.dtype), x)

    def zero(x):
        return jnp.zeros(x.shape, x.dtype)

    def forward(given, x_dot):
        return [nan(given[0], x) for x in x_dot[: len(x_dot) - len(inputs)]]

    def backward(given, y_bar):
        used = given[0] & jnp.any(jnp.stack([jnp.any(y != 0) for y in y_bar]))
        passed = [jnp.where(given[0], jnp.zeros_like(y), y) for y in y_bar]
        return [*passed, *(nan(used, zero(x)) for x in inputs)]

    return LinearProgram(forward, forward, forward), LinearProgram(backward, backward, backward)
