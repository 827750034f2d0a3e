"""Loops that are not written out: they stay loops, and each turn runs in lanes.

A turn carries one vector for each entry of a value that varies from lane to lane, as everywhere in lanes. As arrays with a
leading axis of lanes, entries would be copied from and to places that are far apart in each turn, which takes longer than
the turn itself. Values that all lanes share, such as a counter, stay shared.

A `while` loop whose condition varies from lane to lane goes on until the last lane is done; lanes that are done keep their
values, as under `jax.vmap`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxhamel._lanes._columns import array_of_entries, entries_of_array
from jaxhamel._lanes._divided._jaxprs import (
    carried_and_scanned,
    inlined,
    varying_results,
    with_results,
)

# (program, whether each input varies from lane to lane, inputs) -> results of all lanes
RunInLanes = Callable[[ClosedJaxpr, list[bool], list[Any]], Sequence[Any]]

LOOPS = {"scan", "while"}


class KeptLoop(NamedTuple):
    """A loop that stays a loop.

    - `turn`: the program of one turn; `test`: that of the condition of a `while` loop, None for a `scan`.
    - `fixed`: the numbers of operands that the test, and the turn, take before the carried values; `carried`: the number of
      carried values.
    - `varies`: whether each operand varies from lane to lane, in any turn if it is carried.
    - `whole`: whether each operand stays an array over the lanes, since a turn has operations on this array, not only on
      its entries; empty if none does.
    """

    turn: ClosedJaxpr
    test: ClosedJaxpr | None
    fixed: tuple[int, int]
    carried: int
    varies: list[bool]
    length: int | None = None
    reverse: bool = False
    whole: Sequence[bool] = ()

    def by_entries(self) -> list[bool]:
        """Whether each operand is passed to a turn as vectors of its entries."""
        whole = self.whole or [False] * len(self.varies)
        return [v and not w for v, w in zip(self.varies, whole, strict=True)]

    def results(self) -> list[bool]:
        """Whether each result varies from lane to lane."""
        stacked = varying_results(self.turn, self.varies[self.fixed[0] :])[self.carried :]
        return [*self.split(self.varies)[2], *stacked]

    def numbers(self) -> int:
        """The number of vectors over the lanes that a turn reads, or that it writes if these are more."""
        pairs = zip(self.of_operands(), self.varies, strict=True)
        written = sum(x.size for x in self.turn.out_avals)
        return max(written, sum(x.size for x, varies in pairs if varies))

    def of_operands(self) -> list[Any]:
        """Shapes and dtypes of the operands in one turn."""
        first = [] if self.test is None else self.test.in_avals[: self.fixed[0]]
        return [*first, *self.turn.in_avals]

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """Values of the operands in four: fixed ones of the test, fixed ones of the turn, carried and scanned ones."""
        first = self.fixed[0]
        second = first + self.fixed[1]
        third = second + self.carried
        return (
            list(values[:first]),
            list(values[first:second]),
            list(values[second:third]),
            list(values[third:]),
        )


def kept_loop(equation: Any, varies: Sequence[bool]) -> KeptLoop:
    """The loop of an equation whose primitive is `scan` or `while`."""
    if equation.primitive.name == "while":
        return _kept_while(equation, varies)
    return _kept_scan(equation, varies)


def _kept_scan(equation: Any, varies: Sequence[bool]) -> KeptLoop:
    params, turn = equation.params, inlined(equation.params["jaxpr"])
    first, end = carried_and_scanned(equation)
    found = KeptLoop(
        turn, None, (0, first), end - first, list(varies), params["length"], params["reverse"]
    )
    return _of_any_turn(found, lambda flags: varying_results(turn, flags)[: end - first])


def _kept_while(equation: Any, varies: Sequence[bool]) -> KeptLoop:
    """Keeps a `while` loop as a loop, and finds the carried values that vary from lane to lane.

    If its condition varies, lanes end after different numbers of iterations, and all carried values vary.
    """
    params = equation.params
    turn, test = inlined(params["body_jaxpr"]), inlined(params["cond_jaxpr"])
    of_test, of_turn = params["cond_nconsts"], params["body_nconsts"]
    found = KeptLoop(turn, test, (of_test, of_turn), len(turn.out_avals), list(varies))

    def after(flags: list[bool]) -> list[bool]:
        (ends_apart,) = varying_results(test, flags[:of_test] + flags[of_test + of_turn :])
        return [x or ends_apart for x in varying_results(turn, flags[of_test:])]

    return _of_any_turn(found, after)


def _of_any_turn(loop: KeptLoop, after: Callable[[list[bool]], list[bool]]) -> KeptLoop:
    """The loop with flags that hold in any turn; `after`: the flags of the carried values after a turn."""
    while True:
        *fixed, carried, scanned = loop.split(loop.varies)
        found = [a or b for a, b in zip(carried, after(loop.varies), strict=True)]
        if found == carried:
            return loop
        loop = loop._replace(varies=[*fixed[0], *fixed[1], *found, *scanned])


def run_loop(
    loop: KeptLoop,
    operands: Sequence[Any],
    axes: Sequence[int | None],
    size: int,
    in_lanes: RunInLanes,
) -> list[Any]:
    """The results of a loop; those that vary have a leading axis of lanes. `in_lanes` computes one turn."""
    kinds = [x.dtype for x in loop.of_operands()]
    values = [
        jnp.asarray(jnp.broadcast_to(x, (size, *jnp.shape(x))) if v and axis is None else x, kind)
        for x, axis, v, kind in zip(operands, axes, loop.varies, kinds, strict=True)
    ]
    if loop.test is None:
        return _scan(loop, values, size, in_lanes)
    return _while(loop, loop.test, values, size, in_lanes)


def run_cond(
    branches: Sequence[ClosedJaxpr],
    operands: Sequence[Any],
    axes: Sequence[int | None],
    size: int,
    in_lanes: RunInLanes,
) -> list[Any]:
    """The results of the branch with the index `operands[0]`, which all lanes share; it runs in lanes."""
    flags = [axis == 0 for axis in axes[1:]]
    run = [partial(_in_lanes, in_lanes, branch, flags) for branch in branches]
    pairs = zip(operands[1:], branches[0].in_avals, strict=True)
    return lax.switch(operands[0], run, *(jnp.asarray(x, aval.dtype) for x, aval in pairs))


def _in_lanes(in_lanes: RunInLanes, program: ClosedJaxpr, flags: list[bool], *values: Any) -> list:
    return list(in_lanes(program, flags, list(values)))


class _Program:
    """A program with its results in two parts: those that vary from lane to lane, and those that all lanes share.

    Values that vary are lists of the vectors of their entries, or arrays with a leading axis of lanes.
    """

    def __init__(self, program: ClosedJaxpr, flags: list[bool], size: int, in_lanes: RunInLanes):
        self.flags, self.varies = flags, varying_results(program, flags)
        self.avals, self.of_results = program.in_avals, program.out_avals
        self.own, self.of_own = with_results(program, self.varies)
        self.shared, self.of_shared = with_results(program, [not x for x in self.varies])
        self.size, self.in_lanes = size, in_lanes

    def __call__(self, *values: Any) -> list[Any]:
        own = iter(self._of_lanes(values) if any(self.varies) else ())
        same = iter(jaxpr_as_fun(self.shared)(*(values[i] for i in self.of_shared)))
        return [next(own) if varies else next(same) for varies in self.varies]

    def _of_lanes(self, values: Sequence[Any]) -> Sequence[Any]:
        given = [
            array_of_entries(values[i], self.avals[i], self.size)
            if isinstance(values[i], list)
            else values[i]
            for i in self.of_own
        ]
        return self.in_lanes(self.own, [self.flags[i] for i in self.of_own], given)


def _entries(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The vectors of the entries of values that vary; other values as they are."""
    return [entries_of_array(True, x) if v else x for x, v in zip(values, flags, strict=True)]


def _arrays(values: Sequence[Any], flags: Sequence[bool], avals: Sequence[Any], size: int):
    """The inverse of `_entries`."""
    return [
        array_of_entries(x, aval, size) if v else x
        for x, v, aval in zip(values, flags, avals, strict=True)
    ]


def _scan(loop: KeptLoop, values: list[Any], size: int, in_lanes: RunInLanes) -> list[Any]:
    _, of_fixed, of_carry, of_rows = loop.split(loop.by_entries())
    _, fixed, carry, rows = loop.split(values)
    program = _Program(loop.turn, loop.varies, size, in_lanes)
    fixed, vary = _entries(fixed, of_fixed), loop.split(loop.varies)[3]
    rows = [jnp.moveaxis(x, 1, 0) if v else x for x, v in zip(rows, vary, strict=True)]

    def turn(carry, rows):
        out = program(*fixed, *carry, *_entries(rows, of_rows))
        return _entries(out[: loop.carried], of_carry), out[loop.carried :]

    start = _entries(carry, of_carry)
    last, stacked = lax.scan(turn, start, rows, loop.length, loop.reverse)
    of_stacked = program.varies[loop.carried :]
    return [
        *_arrays(last, of_carry, program.of_results[: loop.carried], size),
        *(jnp.moveaxis(x, 0, 1) if v else x for x, v in zip(stacked, of_stacked, strict=True)),
    ]


def _while(
    loop: KeptLoop, test: ClosedJaxpr, values: list[Any], size: int, in_lanes: RunInLanes
) -> list[Any]:
    varies, by_entries = loop.split(loop.varies), loop.split(loop.by_entries())
    of_test, of_turn, carry, _ = map(_entries, loop.split(values), by_entries)
    first = _Program(test, [*varies[0], *varies[2]], size, in_lanes)
    (ends_apart,) = first.varies
    program = _Program(
        _turn_and_test(loop, test, ends_apart), [*loop.varies, ends_apart], size, in_lanes
    )

    def turn(state):
        flag, carry = state
        *carry, flag = program(*of_test, *of_turn, *carry, [flag] if ends_apart else flag)
        return flag, _entries(carry, by_entries[2])

    begun = first(*of_test, *carry)[0], carry
    _, last = lax.while_loop(lambda state: jnp.any(state[0]), turn, begun)
    return _arrays(last, by_entries[2], loop.turn.out_avals, size)


def _turn_and_test(loop: KeptLoop, test: ClosedJaxpr, ends_apart: bool) -> ClosedJaxpr:
    """The program of one turn of a `while` loop and of the test whether the loop goes on.

    `ends_apart`: whether lanes end apart; a lane that is done keeps its values.
    """
    goes_on, body = jaxpr_as_fun(test), jaxpr_as_fun(loop.turn)

    def turn(*values):
        of_test, of_turn, carry, _ = loop.split(values[:-1])
        found, flag = body(*of_turn, *carry), values[-1]
        if ends_apart:
            found = [jnp.where(flag, new, old) for new, old in zip(found, carry, strict=True)]
        return [*found, goes_on(*of_test, *found)[0] & (flag if ends_apart else True)]

    return jax.make_jaxpr(turn)(*loop.of_operands(), jax.ShapeDtypeStruct((), bool))
