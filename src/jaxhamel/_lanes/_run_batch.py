"""Runs a function of one trajectory on a batch: traced, divided into parts, each in lanes or under `vmap`."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxhamel._lanes._blocks import LaneArray, PartRunner, run_in_parts
from jaxhamel._lanes._columns import array_of_entries, entries_of_array
from jaxhamel._lanes._derivatives._derivatives import with_derivative
from jaxhamel._lanes._derivatives._own_derivative import differentiated_as
from jaxhamel._lanes._derivatives._summed import run_with_sums, takes_sums
from jaxhamel._lanes._divided._array_loops import run_array_loop
from jaxhamel._lanes._divided._array_parts import array_parts
from jaxhamel._lanes._divided._entries import with_entries_in_lanes
from jaxhamel._lanes._divided._jaxprs import traced_constants_first
from jaxhamel._lanes._divided._kept_loops import RunInLanes
from jaxhamel._lanes._divided._look_ups import LARGE_TABLE, LARGE_TABLE_OF_ONE, divided
from jaxhamel._lanes._graph._graph import MOST_SCALARS
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import Program, scalarise
from jaxhamel._lanes._tracing import in_fusions, is_described
from jaxhamel._lanes._xla_cpu._one_kernel import SMALL_BATCH, as_one_kernel, is_kernel
from jaxhamel._lanes._xla_cpu._one_loop import MOST_VALUES, in_one_kernel


def run(
    function: Callable, batched: list[bool], size: int, values: list, quiet: bool = False
) -> list:
    """Runs a flat function of one trajectory on a batch; values that the function captures are shared by all lanes."""
    return run_traced(*traced(function, batched, values), size, quiet)


def run_summed(
    function: Callable,
    batched: list[bool],
    summed: list[bool],
    size: int,
    values: list,
    quiet: bool = False,
) -> list:
    """As `run`, with the results marked in `summed` summed over the lanes."""

    def by_vectors(*values):
        out = run(function, batched, size, list(values), quiet)
        return [jnp.sum(x, axis=0) if each else x for x, each in zip(out, summed, strict=True)]

    def by_products(*values):
        closed, varies, given = traced(function, batched, list(values))
        program = _program_with_sums(closed, varies, summed, size)
        if program is None:
            return by_vectors(*values)
        return run_with_sums(program, summed, closed.out_avals, varies, given, size)

    if not any(summed) or size <= SMALL_BATCH or is_described():
        return by_vectors(*values)
    return list(differentiated_as(by_products, by_vectors)(*values))


def _program_with_sums(closed, batched: list[bool], summed: list[bool], size: int):
    """The program of scalar operations that computes its sums over lanes as matrix products; None for a function that is
    divided into several programs or that cannot be written so.
    """
    if divided(closed, batched) is not None or array_parts(closed, batched, size) is not None:
        return None
    try:
        program = scalarise(closed, batched, whole=in_fusions())
    except Unsupported:
        return None
    return program if takes_sums(program, summed) else None


def traced(function: Callable, batched: list[bool], values: list):
    """Traces the function for one trajectory; returns a jaxpr, flags of the inputs that vary by lane, and the inputs.

    Values that the function captures come first among these inputs.
    """
    closed = jax.make_jaxpr(function)(*map(_single, batched, values))
    closed, constants = traced_constants_first(closed)
    return closed, [False] * len(constants) + batched, constants + values


def run_traced(
    closed: ClosedJaxpr,
    batched: list[bool],
    values: list,
    size: int,
    quiet: bool,
    in_turn: bool = False,
) -> list:
    """Divides a jaxpr into parts, and runs them on a batch.

    `in_turn`: whether the jaxpr is one turn of a loop, where the loop is a part of a larger function.
    """
    largest = LARGE_TABLE_OF_ONE if size == 1 else LARGE_TABLE
    parts = None if is_described() else divided(closed, batched, largest)
    if parts is not None:
        found = parts.looked_up(values, batched, size)
        values = [values[i] for i in parts.kept] + found
        closed, batched = parts.rest, parts.flags(batched)
    arrays = None if is_described() else array_parts(closed, batched, size, in_turn)
    if arrays is None:
        return _differentiable(closed, batched, values, size, quiet)

    def in_lanes(closed, batched, values):
        return _differentiable(closed, batched, values, size, quiet)

    def turn(closed, batched, values):
        return run_traced(closed, batched, values, size, quiet, in_turn=True)

    return arrays.run(values, batched, _runners(in_lanes, turn, size, quiet, in_turn))


def _runners(
    in_lanes: RunInLanes, turn: RunInLanes, size: int, quiet: bool, in_turn: bool
) -> dict[str, RunInLanes]:
    """How each kind of parts runs (`DividedPart`); `turn` runs a turn of a loop."""

    def warn():
        if not quiet:
            _warn(_WIDE_LOOP)

    def loop(closed, batched, values):
        return run_array_loop(closed, batched, values, size, turn, warn)

    return {
        "scalars": in_lanes,
        "arrays": partial(_arrays_of_lanes, size, in_turn),
        "loop": loop,
    }


def _arrays_of_lanes(
    size: int, in_turn: bool, program: ClosedJaxpr, batched: list[bool], values: list
) -> list:
    """Runs a part that consists of operations on arrays, and returns its results for all lanes."""
    axes = [0 if varies else None for varies in batched]
    return list(jax.vmap(_of_arrays(program, in_turn), axes, axis_size=size)(*values))


def _of_arrays(program: ClosedJaxpr, in_turn: bool) -> Callable[..., Any]:
    """The function of an array part."""
    if not in_fusions():
        return jaxpr_as_fun(program)

    def of_entries(of_one, x):
        return _evaluate(of_one, [True], len(x), True, x)[0]

    # XLA itself vectorises a function that computes the state after a turn, since it does not overwrite its operand.
    return with_entries_in_lanes(program, of_entries, results=not in_turn)


def _differentiable(closed, batched: list[bool], values: list, size: int, quiet: bool) -> list:
    """Evaluates the jaxpr for all lanes by loops over them, and so its derivatives in forward and reverse mode."""
    evaluate = OfLanes(closed, tuple(batched), size, quiet)
    runs = partial(run, quiet=quiet), partial(run_summed, quiet=quiet)
    evaluate = with_derivative(*runs, evaluate, closed, batched, size)
    return list(evaluate(*values))


@dataclass(frozen=True, eq=False)
class OfLanes:
    """Evaluates a function of one trajectory, given as the jaxpr `closed`, for a batch of `size` trajectories.

    `batched`: for each input, whether it has a batch axis; `quiet`: whether no warning is given if `vmap` takes its place.
    """

    closed: ClosedJaxpr
    batched: tuple[bool, ...]
    size: int
    quiet: bool

    def __repr__(self) -> str:
        """A short text: JAX writes it into the debug information of each trace; a dataclass would show the whole program."""
        return f"OfLanes(size={self.size})"

    def __call__(self, *values: Any) -> tuple:
        return _evaluate(self.closed, list(self.batched), self.size, self.quiet, *values)


def _single(batched: bool, value) -> jax.ShapeDtypeStruct:
    aval = jax.typeof(value)
    shape = aval.shape[1:] if batched else aval.shape
    return jax.ShapeDtypeStruct(shape, aval.dtype, weak_type=aval.weak_type)


# The most operations of one lane in a turn of a loop within a loop: longer ones compile for a minute
# (docs/performance.md#long-loops).
LONGEST_INNER_TURN = 20_000
# Operations that no result needs are removed only after tracing. For a program that stays whole, tracing may therefore write
# this multiple of the limit.
_UNNEEDED = 2


def _evaluate(
    closed, batched, size, quiet, *values, depth: int = 0, in_turn: bool = False
) -> tuple:
    """Runs the jaxpr in lanes, or under `vmap` if it has a primitive without a rule; see `OfLanes`.

    `depth`: the number of loops of which this is a turn, one within the other; `in_turn`: as for `run_traced`.
    """
    if is_described():
        return _mapped(closed, batched, size, values)

    def in_lanes(closed, batched, values):
        return _evaluate(closed, batched, size, quiet, *values)

    def turn_in_lanes(closed, batched, values, in_turn=False):
        return _evaluate(closed, batched, size, quiet, *values, depth=depth + 1, in_turn=in_turn)

    arrays = array_parts(closed, batched, size, in_turn)
    if arrays is not None:  # a small batch is one of the lanes of a larger one
        turn = partial(turn_in_lanes, in_turn=True)
        runners = _runners(in_lanes, turn, size, quiet, in_turn)
        return tuple(arrays.run(list(values), batched, runners))
    try:
        few = in_one_kernel(size)
        program = _written(closed, batched, few)
    except Unsupported as missing:
        if not quiet:
            _warn(_without_rule(missing))
        return _mapped(closed, batched, size, values)
    if depth > 1 and program.length() > LONGEST_INNER_TURN:
        if not quiet:
            _warn(_long_turn(program.length()))
        return _mapped(closed, batched, size, values)

    blocks = program.graph.blocks
    if not quiet and any(x.is_wide for x in blocks):
        _warn(_WIDE_LOOP)

    @custom_vmap
    def of_columns(*values):
        axes = [0 if varies else None for varies in batched]
        known = [*map(LaneArray, program.inputs, values, axes)]
        run = partial(_run_part, program.graph, bool(blocks), size)
        parts = PartRunner(program.graph, run, turn_in_lanes, size)
        return tuple(run_in_parts(known, blocks, program.outputs, list(closed.out_avals), parts))

    of_columns.def_vmap(partial(_of_more_lanes, closed, batched, size, quiet))
    return of_columns(*values)


def _written(closed, batched: list[bool], few: bool) -> Program:
    """The program of scalars. If it stays whole, as for few lanes or in a fusion, `MOST_SCALARS` counts what its results
    need.

    **Raises:** `Unsupported`, as `scalarise`.
    """
    whole = few or in_fusions()
    options = {"whole": whole, "blocks": True, "few": few, "loops": True}
    most = _UNNEEDED * MOST_SCALARS if whole else MOST_SCALARS
    program = scalarise(closed, batched, most, **options)
    if whole and program.length() > MOST_SCALARS:
        raise Unsupported(f"more than {MOST_SCALARS} scalars")
    return program


def _run_part(graph, some: bool, size: int, known: list[LaneArray], wanted: list, avals: list):
    """Computes the `wanted` arrays from the known ones.

    `some`: whether known arrays on which none of the wanted ones depends are left out, as is necessary between blocks.
    """
    needed = set(graph.needed([i for nodes in wanted for i in nodes.ravel().tolist()]))
    if some:
        known = [x for x in known if not needed.isdisjoint(x.nodes.ravel().tolist())]
    part = Program(graph, [x.nodes for x in known], wanted)
    shapes = [jax.ShapeDtypeStruct((size, *x.shape), x.dtype) for x in avals]
    small = is_kernel(shapes) and in_one_kernel(size)

    def joined(*values):
        entries = part(*map(entries_of_array, [x.axis == 0 for x in known], values), inside=small)
        pairs = zip(entries, avals, strict=True)
        return tuple(array_of_entries(each, aval, size) for each, aval in pairs)

    return (as_one_kernel(joined, shapes) if small else joined)(*(x.value for x in known))


def _of_more_lanes(closed, batched, size, quiet, times: int, mapped, *values):
    """The batching rule: `vmap` of a batch becomes one larger batch."""
    many = [_all_lanes(*each, size, times) for each in zip(batched, mapped, values, strict=True)]
    varies = [a or b for a, b in zip(batched, mapped, strict=True)]
    out = _evaluate(closed, varies, times * size, quiet, *many)
    return tuple(x.reshape(times, size, *x.shape[1:]) for x in out), (True,) * len(out)


def _all_lanes(varies: bool, mapped: bool, value, size: int, times: int):
    if not (varies or mapped):
        return value
    rest = value.shape[varies + mapped :]
    lanes = (times if mapped else 1, size if varies else 1)
    full = jnp.broadcast_to(value.reshape(*lanes, *rest), (times, size, *rest))
    return full.reshape(times * size, *rest)


def _warn(words: str) -> None:
    warnings.warn(words, UserWarning, stacklevel=3)


def _without_rule(missing: Unsupported) -> str:
    return (
        f"lanes cannot take {missing}; the whole function runs under jax.vmap instead. Write it with "
        "elementwise operations, sums and products, or use jax.vmap to avoid this warning."
    )


def _long_turn(operations: int) -> str:
    return (
        f"a turn of a loop within a loop has {operations:,} operations of each lane (at most {LONGEST_INNER_TURN:,}, since "
        "more compile for a minute); it runs under jax.vmap between programs in lanes. Use jax.vmap to avoid this warning."
    )


_WIDE_LOOP = (
    f"a loop with more than {MOST_VALUES} numbers of each lane in a turn runs under jax.vmap between programs in "
    "lanes. Carry fewer numbers, or stack the results of a scan in place of an array that each turn updates."
)


def _mapped(closed, batched, size, values) -> tuple:
    axes = [0 if varies else None for varies in batched]
    function = jaxpr_as_fun(closed)
    return tuple(jax.vmap(function, axes, axis_size=size)(*values))
