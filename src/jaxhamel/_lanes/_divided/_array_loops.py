"""Runs loops whose turns have operations on large arrays that all lanes share, such as the layers of a network.

Such a loop stays a loop. Each turn is divided like a function of one trajectory (`_array_parts`): its scalar operations run
in lanes, its layers are operations on the arrays of all lanes, and both have their derivatives. A hidden state, which layers
read and compute, is carried as one array over the lanes, all other values as vectors of their entries.
Timings: docs/performance.md#networks-in-lanes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Literal

from jaxhamel._lanes._blocks import run_equation
from jaxhamel._lanes._divided._array_equations import LEAST_SHARED_IN_TURN, array_equations
from jaxhamel._lanes._divided._jaxprs import evaluated, read_by
from jaxhamel._lanes._divided._kept_loops import LOOPS, KeptLoop, RunInLanes, kept_loop, run_loop
from jaxhamel._lanes._xla_cpu._one_loop import MOST_VALUES


def run_array_loop(
    program: ClosedJaxpr,
    batched: Sequence[bool],
    values: Sequence[Any],
    size: int,
    turn: RunInLanes,
    warn: Callable[[], None],
) -> list[Any]:
    """The results of all lanes of a program with one loop that varies from lane to lane.

    Its other operations are on values that all lanes share. `turn` runs one turn of the loop. A loop with too many vectors
    runs under `vmap`, after a call of `warn`.
    """
    varying = {v for v, varies in zip(program.jaxpr.invars, batched, strict=True) if varies}

    def special(equation: Any, operands: list[Any]) -> list[Any] | None:
        flags = [not isinstance(v, Literal) and v in varying for v in equation.invars]
        if equation.primitive.name not in LOOPS or not any(flags):
            return None
        loop = with_whole_arrays(kept_loop(equation, flags))
        axes = [0 if x else None for x in flags]
        if _vectors(loop) > MOST_VALUES:
            warn()
            return run_equation(equation, operands, axes, size, turn)
        return run_loop(loop, operands, axes, size, turn)

    return evaluated(program, values, special)


def _vectors(loop: KeptLoop) -> int:
    """The number of vectors over the lanes that are passed to a turn."""
    pairs = zip(loop.of_operands(), loop.by_entries(), strict=True)
    return sum(x.size for x, as_vectors in pairs if as_vectors)


def with_whole_arrays(loop: KeptLoop) -> KeptLoop:
    """Marks the operands that stay arrays over the lanes: operations on arrays read them, and a turn keeps them or computes
    their next values by such operations.
    """
    turn, first = loop.turn.jaxpr, loop.fixed[0]
    places = array_equations(loop.turn, loop.varies[first:], least=LEAST_SHARED_IN_TURN)
    read, made = read_by(turn.eqns, places), {v for i in places for v in turn.eqns[i].outvars}
    carried = loop.split([*range(first), *turn.invars])[2]
    after = dict(zip(carried, turn.outvars[: loop.carried], strict=True))
    kept = {v for v in turn.invars if after.get(v, v) is v}
    kept |= {v for v in carried if not isinstance(after[v], Literal) and after[v] in made}
    return loop._replace(whole=[*[False] * first, *(v in read & kept for v in turn.invars)])
