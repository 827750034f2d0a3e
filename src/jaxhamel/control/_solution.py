"""The result of a collocation: control, motion, costates and mesh errors of its last iterate."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._search._loop import Verdict
from jaxhamel.control._certificate._violation import evaluated
from jaxhamel.control._collocation._from_nodes import replayed
from jaxhamel.control._collocation._points import PiecewisePolynomial
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._derivatives_of_optima._sensitivity import costates_of
from jaxhamel.control._interior_point._derivatives import Duals
from jaxhamel.control._mesh._refinement import residual_errors
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Certificate, Result, report

Optimum = tuple[Transcription, CollocationPoint, Duals]


def result_at(
    problem: ControlProblem,
    found: Optimum,
    certificate: Certificate,
    ending: Verdict,
    gradient_norm: float,
    history: dict[str, np.ndarray],
    began: float,
) -> Result:
    """The result of a search for an optimum of `problem`.

    **Arguments:** `found`: transcription, last iterate and its multipliers; `ending`, `gradient_norm`, `history`, `began`:
    of the search.
    """
    transcription, w, duals = found
    ts, begin, states = _motion_of(transcription, w)
    control = PiecewisePolynomial(ts, w.c, transcription.rule.points)
    designed = _with_designs(problem, transcription, w)
    begun = eqx.tree_at(lambda x: (x.q0, x.u0), designed, begin)
    trajectory, departs = replayed(begun, control, ts, states, certificate.transcription_error)
    cost = float(transcription.cost_unit) * float(evaluated(transcription, w)[0])
    result = report(begun, control, cost, gradient_norm, history, began, *ending, trajectory)
    return result._replace(
        open_loop_departure=departs,
        problem=designed,
        ts=ts,
        states=states,
        costates=costates_of(transcription, w, duals),
        certificate=certificate,
        optimum=found,
        mesh_errors=np.asarray(residual_errors(transcription, w)),
    )


def _with_designs(
    problem: ControlProblem, transcription: Transcription, w: CollocationPoint
) -> ControlProblem:
    """The problem, with the iterate's values of its design parameters."""
    if not transcription.designs:
        return problem
    system = transcription.designed(w.p)
    return eqx.tree_at(lambda problem: problem.system, problem, system)


@compiled_with(QUICK)
def _motion_of(transcription: Transcription, w: CollocationPoint) -> tuple[Array, Any, Any]:
    """The times of the nodes [s], `(N + 1,)`, the state at the first of them, and the states at all of them."""
    return transcription.times(w.p), transcription.initial_state(w, w.p), transcription.states(w)
