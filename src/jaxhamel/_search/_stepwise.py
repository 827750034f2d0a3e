"""Runs an optimistix solver in short bursts and keeps its state on the host, so that progress can be reported and Ctrl-C
keeps the best point.

optimistix itself makes all steps in one call, which reports nothing until it ends and loses its state if it is interrupted.
Here its solvers make the same steps in several calls of one compiled program, each of about `BURST_SECONDS` seconds.
"""

import time
from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxhamel._compiled import compiled
from jaxhamel._search._loop import AbstractSearch, Progress, Verdict
from jaxhamel._words import counted

BURST_SECONDS = 0.2  # [s], about the longest delay of a progress report or of Ctrl-C
MOST_IN_ONE_CALL = 64  # the largest number of steps in one call


class AbstractTask(eqx.Module):
    """The problem of a search: its starting point, optimistix solver, function to minimise, and results to report."""

    @abstractmethod
    def starting_point(self) -> Float[Array, " P"]:
        """The starting point."""

    @abstractmethod
    def solver(self) -> tuple[Any, dict[str, Any]]:
        """The solver and its options."""

    @abstractmethod
    def function(self, y: Float[Array, " P"]) -> tuple[Any, Array]:
        """Returns (the value that the solver minimises, the cost) at the point `y`; residuals for a least-squares solver."""

    @abstractmethod
    def report(self, y: Float[Array, " P"], state: Any) -> PyTree[Array]:
        """The results to report at the final point `y`; `state`: the solver's final state."""


class StepwiseState(NamedTuple):
    """The state of a search.

    - `y`: the point; `leaves`: the arrays of the solver's state; `steps`: the number of steps made.
    - `over`: whether the search has ended; `result`: its status, an item of `optimistix.RESULTS`.
    """

    y: Float[Array, " P"]
    leaves: list[Array]
    steps: Int[Array, ""]
    over: Bool[Array, ""]
    result: Any


class Stepwise(AbstractSearch):
    """A search by an optimistix solver; `end`: the final point, and the task's `report` of it."""

    unit = "step"
    out_of_iterations = "out of steps after {done}"

    def __init__(self, task: AbstractTask, most: int):
        super().__init__(most)
        self.task, self.at = task, _initial_state(task)
        self.end: tuple[Any, Any] = (self.at.y, None)
        self.pace = np.inf  # seconds per step in the last call

    def make_iterations(self) -> None:
        began, left = time.monotonic(), self.iterations - len(self.rows)
        many = max(1, min(int(BURST_SECONDS / self.pace), MOST_IN_ONE_CALL, left))
        self.at, costs, self.end = _after_steps(
            self.task, self.at, *_budget_arrays(many, many == left)
        )
        new = np.asarray(costs)[: int(self.at.steps) - len(self.rows)].tolist()
        if self.rows:  # the first call is mostly compilation
            self.pace = max((time.monotonic() - began) / many, 1e-9)
        for cost in new:
            self.note(cost=cost)

    def verdict(self) -> Verdict | None:
        """The verdict in optimistix' own words, except for convergence."""
        if not bool(self.at.over):
            return None
        converged = bool(self.at.result == optx.RESULTS.successful)
        why = optx.RESULTS[self.at.result].split("\n")[0]
        words = "converged" if converged else f"broken off: {why}"
        return Verdict(converged, f"{words} after {counted(len(self.rows), self.unit)}")

    def report(self) -> Progress:
        row = self.rows[-1]
        return Progress.of_cost(len(self.rows), row["cost"], row["seconds"], self.time_left())

    def interrupted(self) -> Verdict:
        _, _, self.end = _after_steps(self.task, self.at, *_budget_arrays(0, True))
        return super().interrupted()


def _budget_arrays(many: int, last: bool) -> tuple[Array, Array]:
    return jnp.asarray(many, int), jnp.asarray(last)


@compiled
def _initial_state(task: AbstractTask) -> StepwiseState:
    """The initial state of the search. Its program is small, since it only needs the shapes of the task's results."""
    y, *_, arrays, _ = _first_state(task)

    # the types that `_after_steps` returns, so that `_after_steps` is compiled only once
    y, leaves, result = strong((y, jax.tree.leaves(arrays), optx.RESULTS.successful))
    return StepwiseState(y, leaves, jnp.zeros((), int), jnp.zeros((), bool), result)


@compiled
def _function(task: AbstractTask, y: Float[Array, " P"]):
    """The task's function as a separate function, so that all callers share one trace."""
    return task.function(y)


def _first_state(task: AbstractTask):
    """The search at its start: (y, f, solver, options, arrays of the solver's state, other parts of that state)."""
    (solver, options), y = task.solver(), task.starting_point()

    def f(y, _):
        return _function(task, y)

    state = solver.init(f, y, None, options, *jax.eval_shape(f, y, None), frozenset())
    return y, f, solver, options, *eqx.partition(state, eqx.is_array)


@compiled
def _after_steps(
    task: AbstractTask, at: StepwiseState, many: Int[Array, ""], last: Bool[Array, ""]
):
    """Makes up to `many` steps; returns the new state, the cost after each step, and (y, report) of the new point.

    The report is computed only if the search has ended or `last` is true; otherwise it consists of zeros.
    """
    _, f, solver, options, arrays, others = _first_state(task)
    arrays, known = jax.tree.unflatten(jax.tree.structure(arrays), at.leaves), (frozenset(),)

    def goes_on(carry):
        taken, at, _, _ = carry
        return (taken < many) & ~at.over

    def body(carry):
        taken, at, arrays, costs = carry
        state = eqx.combine(others, arrays)
        y, state, cost = solver.step(f, at.y, None, options, state, *known)
        over, result = solver.terminate(f, y, None, options, state, *known)
        result = optx.RESULTS.where(jnp.all(jnp.isfinite(y)), result, optx.RESULTS.nonfinite)
        over = over | (result != optx.RESULTS.successful)
        cost = state.f_info.as_min() if hasattr(state, "f_info") else cost
        at = StepwiseState(y, [], at.steps + 1, over, result)
        return taken + 1, at, eqx.filter(state, eqx.is_array), costs.at[taken].set(cost)

    carry = (
        jnp.zeros_like(many),
        at._replace(leaves=[]),
        arrays,
        jnp.zeros(MOST_IN_ONE_CALL, at.y.dtype),
    )
    _, at, arrays, costs = jax.lax.while_loop(goes_on, body, carry)
    state = eqx.combine(others, arrays)
    y, *_ = solver.postprocess(f, at.y, None, None, options, state, *known, at.result)
    report = eqx.filter_closure_convert(lambda y: task.report(y, state), y)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), report.out_struct)
    reported = jax.lax.cond(at.over | last, lambda y: report(y), lambda y: zeros, y)
    return at._replace(leaves=jax.tree.leaves(arrays)), costs, (y, reported)


def strong(tree: Any) -> Any:
    """Makes the types of all arrays in a pytree strong: if the state after a step differed from that before it only in weak
    types, the program of the step would be compiled twice."""
    return jax.tree.map(lambda x: jnp.asarray(x, x.dtype) if eqx.is_array(x) else x, tree)


# One step of an optax optimiser.


def updated(
    optimiser: Any, gradient: Float[Array, " P"], state: Any, p: Float[Array, " P"], **known: Any
) -> tuple[Float[Array, " P"], Any]:
    """The parameters and the optimiser's state, (p, state), after one step.

    **Arguments:** `optimiser`: an `optax.GradientTransformation`; `known`: the keyword arguments of its `update`: cost,
    gradient and function for an optimiser with a line search.
    """
    with jax.numpy_dtype_promotion("standard"):  # optax counts in int32
        update, state = optimiser.update(gradient, state, p, **known)
    following: Any = optax.apply_updates(p, update)
    return following, strong(state)
