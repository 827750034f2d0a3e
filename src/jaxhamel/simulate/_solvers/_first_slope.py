"""Evaluates the first slope before the loop over the steps, for methods whose last slope is the first of the next step.

diffrax evaluates it in the first step, so that a flag decides on the number of stages of each step. If the slope is known
before, the step of a small system can be written out as one fusion (`_lanes/_fused_turns.py`).
"""

from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np

from jaxhamel._lanes._fused_turns import LONGEST_TURN, length_of_lanes
from jaxhamel.simulate._solvers._projected import unprojected


def with_first_slope(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs of an adjoint's loop with the first slope, or unchanged.

    The slope is added if the method reuses its last one and if a step has few enough operations for one fusion.
    """
    state, terms, args = inputs["init_state"], inputs["terms"], inputs["args"]
    if not _keeps_last(inputs["solver"]) or inputs["passed_solver_state"]:
        return inputs
    rate = jax.make_jaxpr(lambda: terms.vf(state.tprev, state.y, args))()
    if not 0 < _stages(inputs["solver"]) * length_of_lanes(rate.jaxpr) <= LONGEST_TURN:
        return inputs
    slope = terms.vf(state.tprev, state.y, args)
    known = eqx.tree_at(lambda s: s.solver_state, state, (np.False_, slope))
    return inputs | {"init_state": known}


def _keeps_last(solver: Any) -> bool:
    """Whether the state of a solver, or of the method that it projects, is (first step, slope)."""
    tableau = getattr(unprojected(solver), "tableau", None)
    is_explicit = isinstance(unprojected(solver), diffrax.AbstractERK)
    return is_explicit and isinstance(tableau, diffrax.ButcherTableau) and tableau.fsal


def _stages(solver: Any) -> int:
    return unprojected(solver).tableau.num_stages
