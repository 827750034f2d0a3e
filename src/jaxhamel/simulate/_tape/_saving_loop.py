"""The loop over the output times within one step, in reverse mode."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel.simulate._tape._loop_program import LoopProgram, run_with_reverse


def saving_loop(
    condition: Callable, body: Callable, init: Any, *, max_steps: int, buffers: Callable, **_: Any
) -> Any:
    """`lax.while_loop(condition, body, init)` for a state of buffers and integers, with reverse mode.

    No turn needs the floating-point results of an earlier one. So the backward pass takes the turns in forward order, too,
    and sums their cotangents.
    """
    del max_steps
    return run_with_reverse(condition, body, init, buffers, _summed)


def _summed(program: LoopProgram, inputs, moves, bars) -> tuple[list, list]:
    """The reverse mode of `saving_loop`, in the form of `Reverse`: the cotangents of p″ and x_0."""
    condition, _, p, x = program.divided(inputs)
    active = [i for i, moving in enumerate(moves) if moving]
    written = [i for i in sorted(program.buffers) if bars[i] is not None]

    def turn(carry):
        state, total = carry

        def saved(values):
            after = program.repeated_state(with_entries(p, active, values), program.full(state, x))
            return [after[i] for i in written], [after[i] for i in program.kept]

        _, pull, after = jax.vjp(saved, [p[i] for i in active], has_aux=True)
        (more,) = pull([bars[i] for i in written])
        return after, [a + b for a, b in zip(total, more, strict=True)]

    zero = [jnp.zeros_like(p[i]) for i in active]

    def goes_on(carry):
        return program.goes_on(condition, program.full(carry[0], x))

    _, total = lax.while_loop(goes_on, turn, ([x[i] for i in program.kept], zero))
    found = dict(zip(active, total, strict=True))
    return [found.get(i) for i in range(len(p))], bars
