"""Repeats a step of an explicit Runge–Kutta method of diffrax, and the decision on it, from stored results of both."""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from jaxhamel.simulate._solvers._base_classes import with_scan_kind
from jaxhamel.simulate._tape._stages import KnownStep, stages, weighted


class Recorded(NamedTuple):
    """The state of a solver, with the slopes of its latest step as `result`; or that of a controller, with (y_1, error)."""

    state: Any
    result: Any


class Repeat(NamedTuple):
    """The state of a solver or controller before a step that is to be repeated, with the stored `result` of this step."""

    state: Any
    result: Any


class RepeatedDecision(eqx.Module):
    """A step size controller that stores (y_1, error) of each step, and decides by these if its state is a `Repeat`."""

    controller: Any

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        repeats = isinstance(controller_state, Repeat)
        found = controller_state.result if repeats else (y1_candidate, y_error)
        *decision, state, result = self.controller.adapt_step_size(
            t0, t1, y0, found[0], args, found[1], error_order, controller_state.state
        )
        return *decision, type(controller_state)(state, found), result


class RepeatedStep(eqx.Module):
    """An explicit method whose state is `Recorded` or, where a step is repeated, `Repeat`."""

    solver: Any

    def __init__(self, solver: diffrax.AbstractERK):
        self.solver = with_scan_kind(solver, "lax")

    @property
    def interpolation_cls(self) -> Any:
        return self.solver.interpolation_cls

    def error_order(self, terms: Any) -> Any:
        return self.solver.error_order(terms)

    def initial_state(self, state: Any, y: Any) -> Recorded:
        count = self.solver.tableau.num_stages
        return Recorded(state, jax.tree.map(lambda x: jnp.zeros((count, *x.shape), x.dtype), y))

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        if isinstance(solver_state, Repeat):
            return self._again(terms, t0, t1, y0, args, solver_state)
        y1, error, info, state, result = self.solver.step(
            terms, t0, t1, y0, args, solver_state.state, made_jump
        )
        return y1, error, info, Recorded(state, info["k"]), result

    def _again(self, terms, t0, t1, y0, args, known: Repeat):
        arrays, others = eqx.partition((terms, args), eqx.is_array)
        step = KnownStep(t0, t1, y0, arrays, known.state, known.result)
        y1, slopes, last = stages(self.solver, others, step)
        weights = jnp.asarray(self.solver.tableau.b_error, t0.dtype)
        error = jax.tree.map(lambda k: weighted(weights, k), slopes)
        state = None if known.state is None else (jnp.array(False), last)
        info = {"y0": y0, "y1": y1, "k": slopes}
        return y1, error, info, Repeat(state, slopes), diffrax.RESULTS.successful
