"""Scans that are too long to be written out: they stay loops, and their bodies run in lanes.

What a loop carries is one vector for each entry, as everywhere in lanes. As arrays with a leading axis of lanes, its entries
would be copied from and to places that are far apart in each turn, which takes longer than the turn itself.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from jaxhamel._lanes._divided._array_parts import ArrayParts, RunInLanes, parts_around
from jaxhamel._lanes._divided._jaxprs import evaluated, inlined
from jaxhamel._lanes._entries import array_of_entries, entries_of_array
from jaxhamel._lanes._rules._control_flow import carried_and_scanned
from jaxhamel._lanes._xla_cpu._one_loop import MOST_VALUES


def around_loop(closed: ClosedJaxpr, batched: list[bool], body: Any) -> ArrayParts | None:
    """Divides a function into its scans with this body, and programs of scalar operations before and after them.

    Returns None if such a scan is inside of another loop or a branch, or if one turn has more than `MOST_VALUES` inputs or
    results. A backward pass has as many, because of its residuals. Divided, it would run faster than under `jax.vmap`, but
    take longer to compile.
    """
    if max(sum(x.size for x in avals) for avals in (body.in_avals, body.out_avals)) > MOST_VALUES:
        return None
    closed = inlined(closed)
    loops = {i for i, e in enumerate(closed.jaxpr.eqns) if _has_body(e, body)}
    return parts_around(closed, batched, loops) if loops else None


def run_loops(
    program: ClosedJaxpr,
    batched: list[bool],
    values: list[Any],
    body: Any,
    size: int,
    run: RunInLanes,
) -> list[Any]:
    """The results of a part that consists of such scans, for all lanes; `run` computes one turn."""
    varying = {v for v, x in zip(program.jaxpr.invars, batched, strict=True) if x}

    def loop(equation: Any, operands: list[Any]) -> list[Any] | None:
        if not _has_body(equation, body):
            return None
        flags = [not isinstance(v, Literal) and v in varying for v in equation.invars]
        varying.update(equation.outvars)
        return _scan(equation, flags, operands, size, run)

    return evaluated(program, values, loop)


def _has_body(equation: Any, body: Any) -> bool:
    return equation.primitive.name == "scan" and equation.params["jaxpr"] is body


def _scan(
    equation: Any, batched: list[bool], operands: list[Any], size: int, run: RunInLanes
) -> list[Any]:
    """The results of a scan for all lanes. The whole carry is treated as varying from lane to lane.

    `batched`: whether each operand varies from lane to lane.
    """
    params = equation.params
    body, first, end = params["jaxpr"], *carried_and_scanned(equation)
    count = end - first
    avals, flags = body.in_avals, [*batched[:first], *[True] * count, *batched[end:]]
    fixed = [
        entries_of_array(True, x) if varies else x
        for varies, x in zip(batched[:first], operands[:first], strict=True)
    ]
    start = [
        [jnp.broadcast_to(x, (size,)) for x in entries_of_array(*each)]
        for each in zip(batched[first:end], operands[first:end], strict=True)
    ]
    scanned = [
        jnp.moveaxis(x, 1, 0) if varies else x
        for varies, x in zip(batched[end:], operands[end:], strict=True)
    ]

    def array(known: Any, aval: Any, varies: bool) -> Any:
        return array_of_entries(known, aval, size) if varies else known

    def turn(carry, rows):
        known = map(array, [*fixed, *carry], avals[:end], flags[:end])
        out = run(body, flags, [*known, *rows])
        return [entries_of_array(True, x) for x in out[:count]], list(out[count:])

    last, rows = jax.lax.scan(turn, start, scanned, params["length"], params["reverse"])
    carried = [
        array_of_entries(*each, size) for each in zip(last, body.out_avals[:count], strict=True)
    ]
    return [*carried, *(jnp.moveaxis(x, 0, 1) for x in rows)]
