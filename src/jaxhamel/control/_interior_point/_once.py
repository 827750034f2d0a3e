"""Merges repeated operations of a function, so that its derivatives do not repeat them.

A right-hand side may compute the same rotation matrix six times. XLA merges equal operations, but not their derivatives,
whose cotangents differ: so the operations are merged before they are differentiated.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core


def once(function: Callable[..., Any], *like: Any) -> Callable[..., Any]:
    """`function` with equal operations merged; it is traced once, for arrays of the shapes and dtypes of `like`."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*like)
    structure, run = jax.tree.structure(shapes), core.jaxpr_as_fun(_merged(closed))
    return lambda *given: jax.tree.unflatten(structure, run(*jax.tree.leaves(given)))


def _merged(closed: Any) -> Any:
    """A program with equal operations merged, those of inner jitted functions too."""
    merging, jaxpr = _Merging(), closed.jaxpr
    places = dict(zip(jaxpr.constvars, jaxpr.constvars, strict=True))
    for x, value in zip(jaxpr.constvars, closed.consts, strict=True):
        places[x] = merging.arrays.setdefault(id(value), x)
    results = merging.run(jaxpr, places | dict(zip(jaxpr.invars, jaxpr.invars, strict=True)))
    debug = jaxpr.debug_info._replace(result_paths=None)
    return core.ClosedJaxpr(
        jaxpr.replace(eqns=merging.equations, outvars=results, debug_info=debug), closed.consts
    )


class _Merging:
    """A program while its operations are merged.

    - `equations`: the merged program so far; `found`: operations with their results, by their keys (`_key`).
    - `arrays`: the variable of each constant array, by the array's `id`.
    """

    def __init__(self) -> None:
        self.equations: list[Any] = []
        self.found: dict[Any, list[tuple[Any, list[Any]]]] = {}
        self.arrays: dict[int, Any] = {}

    def run(self, jaxpr: Any, places: dict[Any, Any]) -> list[Any]:
        """Adds the equations of `jaxpr`; returns the variables or literals of its results.

        `places`: the variable or literal that stands for each variable of `jaxpr`.
        """

        def of(x):
            return x if isinstance(x, core.Literal) else places[x]

        for equation in jaxpr.eqns:
            given = [of(x) for x in equation.invars]
            places |= zip(equation.outvars, self._results(equation, given), strict=True)
        return [of(x) for x in jaxpr.outvars]

    def _results(self, equation: Any, given: list[Any]) -> list[Any]:
        inner = equation.params.get("jaxpr") if equation.primitive.name == "jit" else None
        if inner is not None and not inner.consts:
            return self.run(inner.jaxpr, dict(zip(inner.jaxpr.invars, given, strict=True)))
        key = _key(equation, given)
        if key is None:
            return self._add(equation, given)
        for other, results in self.found.get(key, ()):
            if _same_derivatives(equation, other):
                return results
        results = self._add(equation, given)
        self.found.setdefault(key, []).append((equation, results))
        return results

    def _add(self, equation: Any, given: list[Any]) -> list[Any]:
        results = [core.Var(x.aval) for x in equation.outvars]
        self.equations.append(equation.replace(invars=given, outvars=results))
        return results


def _key(equation: Any, given: list[Any]) -> Any:
    """A key that is equal for operations with equal values; None for an operation with effects or unhashable parameters."""
    own = equation.params["call_jaxpr"] if equation.primitive.name == OWN else None
    params = tuple(sorted(equation.params.items())) if own is None else str(own)
    try:
        hash(params)
    except TypeError:
        return None
    return (
        None if equation.effects else (equation.primitive, tuple(map(_literal_key, given)), params)
    )


OWN = "custom_jvp_call"  # the primitive of functions with a derivative of their own


def _same_derivatives(one: Any, other: Any) -> bool:
    """Whether two operations of equal values have equal first and second derivatives, too."""
    if one.primitive.name != OWN:
        return True
    rule = _rule(one)
    if rule is not None and rule == _rule(other):
        return True
    texts = [_derivative_text(equation) for equation in (one, other)]
    return texts[0] is not None and texts[0] == texts[1]


def _rule(equation: Any) -> Any:
    """The function that differentiates an operation, and its static arguments; None if it is not found.

    Operations with the same function need no comparison of derivatives, which takes a tenth of a second for each pair. JAX
    keeps the function in the closures of `jvp_jaxpr_fun`; a version of JAX that does otherwise gives None.
    """
    try:
        return _innermost(equation.params["jvp_jaxpr_fun"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


JAXS = ("_memoize.", "lift_jvp.", "process_custom_jvp_call.")  # functions of JAX around a rule


def _innermost(wrapped: Any) -> Any:
    """The user's function inside of all wrappers that JAX has put around it, and its static arguments; None if it is not
    found.
    """
    if not any(name in wrapped.f.__qualname__ for name in JAXS):
        static = [x for transform, x in wrapped.transforms if "static" in transform.__name__]
        return wrapped.f, tuple(x.val for (given,) in static for x in given)
    return next((_innermost(x) for x in _wrapped_in(wrapped.f)), None)


def _wrapped_in(function: Any) -> Iterator[Any]:
    """The functions that JAX has wrapped, among the closures of its own functions."""
    for value in [cell.cell_contents for cell in function.__closure__]:
        if type(value).__name__ == "WrappedFun":
            yield value
        elif any(name in getattr(value, "__qualname__", "") for name in JAXS):
            yield from _wrapped_in(value)


def _derivative_text(equation: Any) -> str | None:
    """The program of an operation's derivatives to the second order, as text.

    It is None if the text does not show all values: for constant arrays, and for arguments that are not floats.
    """
    given, results = ([core.Var(x.aval) for x in of] for of in (equation.invars, equation.outvars))
    inner, alone = (
        equation.params["call_jaxpr"].jaxpr,
        equation.replace(invars=given, outvars=results),
    )
    debug = inner.debug_info._replace(result_paths=None)
    jaxpr = inner.replace(invars=given, outvars=results, eqns=[alone], debug_info=debug)
    function = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, ()))
    avals: list[Any] = [x.aval for x in given]
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in avals]
    if not all(jnp.issubdtype(x.dtype, jnp.inexact) for x in shapes):
        return None

    def first(x, y):
        return jax.jvp(lambda *x: function(*x), x, y)

    second = jax.make_jaxpr(lambda *pair: jax.jvp(first, pair, pair))(tuple(shapes), tuple(shapes))
    return None if second.consts else str(second)


def _literal_key(x: Any) -> Any:
    if not isinstance(x, core.Literal):
        return x
    return np.asarray(x.val).tobytes(), str(x.aval), getattr(x.aval, "weak_type", None)
