"""`TapeAdjoint`: reverse mode of a solve by `taped_loop`, in place of equinox' checkpoints.

The loop over the output times within one step, whose turns do not depend on one another, is reversed by `saving_loop`.
"""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel.simulate._solvers._projected import Projected, unprojected
from jaxhamel.simulate._step_size import FixedStep, WatchedStep
from jaxhamel.simulate._stops import WithStops
from jaxhamel.simulate._tape._loop_program import LoopProgram, run_with_reverse
from jaxhamel.simulate._tape._stages import (
    Repeat,
    RepeatedDecision,
    RepeatedStep,
    StateAndResult,
)
from jaxhamel.simulate._tape._taped_loop import taped_loop

# The controllers for which the tests compare the tape with checkpoints.
_COMPARED = FixedStep, WatchedStep, WithStops, diffrax.PIDController, diffrax.ConstantStepSize


class TapeAdjoint(diffrax.AbstractAdjoint):
    """Reverse mode by a tape of states (`_taped_loop`) for explicit Runge–Kutta methods, by diffrax' checkpoints for others.

    The derivative is that of the steps taken, as with `diffrax.RecursiveCheckpointAdjoint`.
    """

    def loop(self, **given: Any) -> Any:
        if not can_be_taped(given):
            return diffrax.RecursiveCheckpointAdjoint().loop(**given)
        for name in ("throw", "passed_solver_state", "passed_controller_state"):
            del given[name]
        solver, state = given.pop("solver"), given.pop("init_state")
        method = RepeatedStep(unprojected(solver))
        start = (
            method.initial_state(state.solver_state, state.y),
            StateAndResult(state.controller_state, (state.y,) * 2),
        )
        end = self._loop(
            solver=_with_method(solver, method),
            stepsize_controller=RepeatedDecision(given.pop("stepsize_controller")),
            init_state=eqx.tree_at(_states, state, start, is_leaf=lambda x: x is None),
            inner_while_loop=saving_loop,
            outer_while_loop=_outer_loop,
            **given,
        )
        own = tuple(run.state for run in _states(end[0]))
        return eqx.tree_at(_states, end[0], own), *end[1:]


def _outer_loop(condition: Callable, body: Callable, init: Any, **given: Any) -> Any:
    """Runs `taped_loop`, and puts the initial output indices in place of the final ones.

    An output index says where the next output is stored. diffrax reads it after the loop only if no step was taken, and then
    it is the initial one. To find the final indices, the backward pass would run the whole loop again.
    """
    end = taped_loop(condition, body, init, results=_results, repeated=_repeated, **given)
    return eqx.tree_at(_places, end, _places(init))


def _places(state: Any) -> list:
    """The output indices, one for each set of outputs: where the next output is stored."""

    def is_set(x):
        return hasattr(x, "save_index")

    sets = jax.tree.leaves(state.save_state, is_leaf=is_set)
    return [x.save_index for x in sets if is_set(x)]


def _states(state: Any) -> tuple[Any, Any]:
    return state.solver_state, state.controller_state


def _results(state: Any) -> tuple[Any, Any]:
    return state.solver_state.result, state.controller_state.result


def _repeated(state: Any) -> Any:
    return eqx.tree_at(_states, state, tuple(Repeat(*run) for run in _states(state)))


def can_be_taped(given: dict[str, Any]) -> bool:
    """Whether the inputs of an adjoint's loop are those of an explicit Runge–Kutta method with steps that a tape repeats."""
    method = unprojected(given["solver"])
    passed = given["passed_solver_state"] or given["passed_controller_state"]
    return (
        isinstance(method, diffrax.AbstractERK)
        and isinstance(getattr(method, "tableau", None), diffrax.ButcherTableau)
        and isinstance(getattr(given["terms"], "term", None), diffrax.ODETerm)
        and isinstance(given["stepsize_controller"], _COMPARED)
        and not passed
        and _has_one_dtype(given)
        and given["max_steps"] is not None
    )


def _has_one_dtype(given: dict[str, Any]) -> bool:
    leaves = jax.tree.leaves((given["init_state"].y, given["t0"], given["t1"]))
    return len({x.dtype for x in leaves}) == 1 and eqx.is_inexact_array(leaves[0])


def _with_method(solver: Any, method: RepeatedStep) -> Any:
    if not isinstance(solver, Projected):
        return method
    return eqx.tree_at(lambda s: s.solver, solver, method)


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
