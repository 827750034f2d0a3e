"""`TapeAdjoint`: reverse mode of a solve by `taped_loop`, in place of equinox' checkpoints."""

from functools import partial
from typing import Any

import diffrax
import equinox as eqx
import jax

from jaxhamel.simulate._solvers._projected import Projected, unprojected
from jaxhamel.simulate._step_size import FixedStep, WatchedStep
from jaxhamel.simulate._tape._repeated_step import (
    Recorded,
    Repeat,
    RepeatedDecision,
    RepeatedStep,
)
from jaxhamel.simulate._tape._saving_loop import saving_loop
from jaxhamel.simulate._tape._taped_loop import taped_loop

# Controllers without jumps of the vector field; after a jump the last slope of a step is not the first of the next one.
_WITHOUT_JUMPS = FixedStep, WatchedStep, diffrax.PIDController, diffrax.ConstantStepSize


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
            Recorded(state.controller_state, (state.y,) * 2),
        )
        end = self._loop(
            solver=_with_method(solver, method),
            stepsize_controller=RepeatedDecision(given.pop("stepsize_controller")),
            init_state=eqx.tree_at(_states, state, start, is_leaf=lambda x: x is None),
            inner_while_loop=saving_loop,
            outer_while_loop=partial(taped_loop, results=_results, repeated=_repeated),
            **given,
        )
        own = tuple(run.state for run in _states(end[0]))
        return eqx.tree_at(_states, end[0], own), *end[1:]


def _states(state: Any) -> tuple[Any, Any]:
    return state.solver_state, state.controller_state


def _results(state: Any) -> tuple[Any, Any]:
    return state.solver_state.result, state.controller_state.result


def _repeated(state: Any) -> Any:
    return eqx.tree_at(_states, state, tuple(Repeat(*run) for run in _states(state)))


def can_be_taped(given: dict[str, Any]) -> bool:
    """Whether the inputs of an adjoint's loop are those of an explicit Runge–Kutta method without jumps."""
    method = unprojected(given["solver"])
    passed = given["passed_solver_state"] or given["passed_controller_state"]
    return (
        isinstance(method, diffrax.AbstractERK)
        and isinstance(getattr(method, "tableau", None), diffrax.ButcherTableau)
        and isinstance(getattr(given["terms"], "term", None), diffrax.ODETerm)
        and isinstance(given["stepsize_controller"], _WITHOUT_JUMPS)
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
