"""Takes look-ups in large shared tables out of a function of one trajectory, so that the tables stay arrays.

Written out, a table of gains along a plan would be a hundred thousand scalars. So the function f is divided in two,

    f(x) = rest(x, look_ups(x)) ,

where `look_ups` computes positions and reads the tables there, and `rest` reads no table. If all lanes share the position, a
look-up is one read for all of them; if each lane has its own position, it is one gather.
"""

from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Literal, jaxpr_as_fun

from jaxhamel._lanes._divided._jaxprs import ancestors, inlined, part_of, read_by, variables
from jaxhamel._lanes._divided._known_integers import with_known_integers

# Arrays with more numbers than this are tables, if nothing but look-ups reads them.
LARGE_TABLE = 1024
# The same for a single lane. Written out, a table of 600 numbers takes a ball with a spline 7.5 ms instead of 2.3 ms to run,
# and 10.8 s instead of 2.0 s to compile (docs/performance.md#one-lane).
LARGE_TABLE_OF_ONE = 200
# The same for an array of which windows are read that have computed positions along two axes or more. Written out, they are
# tables of tables: a ball on a terrain of 12 × 12 numbers took minutes to compile (docs/performance.md#look-ups).
LARGE_TABLE_OF_AXES = 35
# The most numbers that one program takes from tables, such as the gains of a regulator: with more than some 120 shared
# numbers a loop over the lanes is several times as slow (docs/performance.md#look-ups).
MOST_LOOKED_UP = 60
# If positions depend on the lane, look-ups are taken out only if they and their positions take at most this many equations.
MOST_OF_LANES = 120

_READS = {"dynamic_slice", "gather", "slice", "squeeze", "reshape", "rev", "transpose"}


class Divided(NamedTuple):
    """A function in two parts.

    - `look_ups`: a jaxpr; its inputs are those of the whole function with the indices `given`. `of_lanes`: whether any of
      them varies from lane to lane.
    - `rest`: a jaxpr; its inputs are those of the whole function with the indices `kept`, then the results of `look_ups`.
    """

    look_ups: ClosedJaxpr
    given: list[int]
    of_lanes: bool
    rest: ClosedJaxpr
    kept: list[int]

    def flags(self, batched: list[bool]) -> list[bool]:
        """Whether each input of `rest` varies from lane to lane."""
        made = len(self.rest.in_avals) - len(self.kept)
        return [batched[i] for i in self.kept] + [self.of_lanes] * made

    def looked_up(self, values: list[Any], batched: list[bool], size: int) -> list[Any]:
        """The results of `look_ups`, with a leading axis of lanes if `of_lanes`."""
        run, at = jaxpr_as_fun(self.look_ups), [values[i] for i in self.given]
        if not self.of_lanes:
            return list(run(*at))
        # without an axis, so that a kernel may contain the derivative by a table (`adds_one_window`)
        if size == 1:
            of_one = (x[0] if batched[i] else x for i, x in zip(self.given, at, strict=True))
            return [x[None] for x in run(*of_one)]
        axes = [0 if batched[i] else None for i in self.given]
        return list(jax.vmap(run, axes, axis_size=size)(*at))


def divided(closed: ClosedJaxpr, batched: list[bool], largest: int = LARGE_TABLE) -> Divided | None:
    """Divides a function in two; returns None if it reads no table, or if positions of its look-ups take too many equations.

    **Arguments:** `batched`: whether each input varies from lane to lane; `largest`: arrays with more numbers are tables.
    """
    jaxpr = closed.jaxpr
    shapes = [(v.aval.shape, varies) for v, varies in zip(jaxpr.invars, batched, strict=True)]
    shapes += [(np.shape(x), False) for x in closed.consts]
    if not any(_may_be_table(*x, largest) for x in shapes):
        return None
    closed = with_known_integers(inlined(closed))
    varies = {v for v, of_lane in zip(closed.jaxpr.invars, batched, strict=True) if of_lane}
    reads = _reads(closed.jaxpr, _tables(closed.jaxpr, varies, largest))
    if not reads:
        return None
    return _in_two(*_computed_once(closed, reads), varies)


def _may_be_table(shape: tuple[int, ...], varies: bool, largest: int) -> bool:
    if len(shape) > 1:
        return prod(shape) > min(largest, LARGE_TABLE_OF_AXES)
    return not varies and prod(shape) > largest


def _tables(jaxpr, varies: set[Any], largest: int) -> set[Any]:
    """The variables of large arrays that only look-ups read. All lanes share them, unless windows along several axes are
    read, which each lane may read from its own array.
    """
    arrays = {*jaxpr.invars, *jaxpr.constvars}
    found = {v for v in arrays - varies if v.aval.size > largest}
    of_axes = arrays & _read_along_axes(jaxpr)
    found |= {v for v in of_axes if v.aval.size > min(largest, LARGE_TABLE_OF_AXES)}
    found -= variables(jaxpr.outvars)
    for equation in jaxpr.eqns:
        first = equation.invars[:1] if equation.primitive.name in _READS else []
        found -= variables(equation.invars[len(first) :])
    return found


def _read_along_axes(jaxpr) -> set[Any]:
    """The variables of which windows are read that have computed positions along two axes or more."""
    found = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dynamic_slice":
            x, *starts = equation.invars
            if len(variables(starts)) > 1:
                found |= variables([x])
    return found


def _computed_once(closed: ClosedJaxpr, reads: set[int]) -> tuple[ClosedJaxpr, set[int]]:
    """The program in which equal equations among the `reads` and their positions are computed once, and its reads.

    The derivatives of a function that reads a table compute the position of the same look-up again and again.
    """
    jaxpr, now = closed.jaxpr, {}
    candidates = ancestors(jaxpr.eqns, reads)
    first: dict[Any, Any] = {}
    kept, kept_reads = [], set()
    for i, equation in enumerate(jaxpr.eqns):
        equation = equation.replace(invars=_replaced(equation.invars, now))
        key = _content_of(equation) if i in candidates else None
        if key is not None and key in first:
            now.update(zip(equation.outvars, first[key].outvars, strict=True))
            continue
        if key is not None:
            first[key] = equation
        if i in reads:
            kept_reads.add(len(kept))
        kept.append(equation)
    jaxpr = jaxpr.replace(eqns=kept, outvars=_replaced(jaxpr.outvars, now))
    return ClosedJaxpr(jaxpr, closed.consts), kept_reads


def _replaced(atoms, now: dict[Any, Any]) -> list[Any]:
    return [v if isinstance(v, Literal) else now.get(v, v) for v in atoms]


def _content_of(equation) -> Any:
    """A key that equal equations share: primitive, parameters and operands; None if the parameters have no hash."""
    if equation.effects or any(isinstance(v, DropVar) for v in equation.outvars):
        return None
    operands = tuple(
        (np.asarray(v.val).tobytes(), v.aval) if isinstance(v, Literal) else v
        for v in equation.invars
    )
    key = equation.primitive, operands, tuple(sorted(equation.params.items()))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _reads(jaxpr, tables: set[Any]) -> set[int]:
    """The indices of the equations that read tables."""
    return {
        i
        for i, equation in enumerate(jaxpr.eqns)
        if not tables.isdisjoint(variables(equation.invars))
    }


def _in_two(closed: ClosedJaxpr, reads: set[int], varies: set[Any]) -> Divided | None:
    jaxpr = closed.jaxpr
    taken_out = ancestors(jaxpr.eqns, reads)
    of_lanes = not varies.isdisjoint(read_by(jaxpr.eqns, taken_out))
    if of_lanes and len(taken_out) > MOST_OF_LANES:
        return None
    if not of_lanes:
        taken_out = _with_descendants(jaxpr, varies, reads, taken_out)
    own = [equation for i, equation in enumerate(jaxpr.eqns) if i not in taken_out]
    first = [equation for i, equation in enumerate(jaxpr.eqns) if i in taken_out]
    wanted = read_by(own, range(len(own))) | variables(jaxpr.outvars)
    made = list(dict.fromkeys(v for e in first for v in e.outvars if v in wanted))
    look_ups, given = part_of(closed, first, [], made)
    rest, kept = part_of(closed, own, made, jaxpr.outvars)
    return Divided(look_ups, given, of_lanes, rest, kept)


def _with_descendants(jaxpr, varies: set[Any], reads: set[int], taken_out: set[int]) -> set[int]:
    """Adds to `taken_out` the equations that depend on look-ups but on no input that varies, with their ancestors."""
    varying, found, later = set(varies), set(), set()
    for i, equation in enumerate(jaxpr.eqns):
        given = variables(equation.invars)
        if not varying.isdisjoint(given):
            varying |= set(equation.outvars)
        elif i in reads or not found.isdisjoint(given):
            found |= set(equation.outvars)
            later.add(i)
    return taken_out | ancestors(jaxpr.eqns, later)
