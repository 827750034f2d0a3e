"""Assembles the certificate of a collocation: numbers, verdict and sentences on whether its result is an optimum."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxhamel._search._loop import Verdict
from jaxhamel._typing import Scalar
from jaxhamel.control._certificate._cost_error import (
    barrier_gap,
    cost_error,
    is_determined,
    on_small_cost,
)
from jaxhamel.control._certificate._isolation import kind_along
from jaxhamel.control._certificate._motion_error import transcription_error
from jaxhamel.control._certificate._multipliers import unbounded_multipliers
from jaxhamel.control._certificate._second_order import NOT_EXAMINED, second_order
from jaxhamel.control._certificate._violation import worst_violation
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._result import Certificate

MINIMA = ("strict minimum", "minimum, not isolated")


class Bounds(NamedTuple):
    """The largest errors with which a certificate holds; `cost`: for `cost_error`."""

    stationarity: float
    violation: float
    transcription: float
    cost: float


FINER = "; give more `intervals`, or `error`, by which control.Collocation refines them"


def bounds_of(dtype: Any) -> Bounds:
    """The bounds for numbers of a dtype: 1e-3 each in single precision, smaller in double precision."""
    if dtype == jnp.float64:
        return Bounds(1e-8, 1e-7, 1e-6, 1e-6)
    return Bounds(1e-3, 1e-3, 1e-3, 1e-3)


def certify(
    original: Transcription,
    transcription: Transcription,
    state: SearchState,
    parts: Parts | None,
    ending: Verdict,
    tolerance: Scalar,
    may_be_zero: bool = True,
) -> Certificate:
    """The certificate of the last iterate.

    **Arguments:** `original`: the transcription with the problem's bounds; `transcription`: with the bounds of the search;
    `state`: the iterate; `parts`: the derivatives at the iterate, None if they are not known; `ending`, `tolerance`: verdict
    and tolerance of the search; `may_be_zero`: False if the search failed in a smaller unit of the cost, so that a cost as
    small as the barrier's share is not known to be 0.
    """
    errors = [float(x) for x in state.errors]
    stationary = max(errors[0], errors[2])
    violation, worst = worst_violation(original, state.w)
    found = transcription_error(transcription, state.w, state.duals.costates)
    error, change = (float(x) for x in found)
    curvature = NOT_EXAMINED if parts is None else second_order(transcription, state, parts)
    if curvature.along is not None and ending.converged:
        kind = kind_along(transcription, state, curvature.along, tolerance)
        curvature = curvature._replace(kind=kind, words=f"{kind}: {curvature.words}")
    if ending.converged and curvature.examined:
        none = unbounded_multipliers(transcription, state, tolerance)
        curvature = curvature.without_multipliers(none) if none else curvature
    bounds = bounds_of(state.mu.dtype)
    is_minimum = curvature.kind in MINIMA
    by = cost_error(transcription, state.w, state.duals) if ending.converged else 0.0
    off = abs(change) / (1 + abs(float(state.cost))) if ending.converged else 0.0
    passed = (
        stationary <= bounds.stationarity,
        violation <= bounds.violation,
        error <= bounds.transcription,
        by <= bounds.cost,
        off <= bounds.cost,
    )
    words = [
        _sentence("stationary", "not stationary", stationary, bounds.stationarity),
        _sentence("feasible", "not feasible", violation, bounds.violation, f", worst in {worst}"),
        _sentence("transcribed", "transcribed too coarsely", error, bounds.transcription)
        + ("" if passed[2] else FINER),
        curvature.words,
        curvature.on_multipliers,
    ]
    if not passed[3]:
        left = ", its change by the violations that are left"
        words.append(_sentence("", "cost not determined", by, bounds.cost, left))
    if not passed[4]:
        left = ", its change by the errors of the transcription" + FINER
        words.append(_sentence("", "cost not determined", off, bounds.cost, left))
    unit = float(transcription.cost_unit)
    gap, cost = unit * barrier_gap(transcription, state.w, state.duals), unit * float(state.cost)
    if ending.converged and (small := on_small_cost(gap, cost, may_be_zero)):
        words.append(small)
    known = is_determined(gap, cost, bounds.cost, may_be_zero)
    holds = bool(ending.converged and is_minimum and known and all(passed))
    words.insert(0, "certificate: " + ("holds" if holds else f"does NOT hold; {ending.status}"))
    return Certificate(
        holds, stationary, violation, error, curvature.kind, curvature.unique, "\n".join(words)
    )


def with_agreement(
    certificate: Certificate, difference: float, ending: Verdict, dtype: Any
) -> Certificate:
    """Adds to the certificate of a direct solution the relative difference of its cost from the indirect solution's."""
    most = bounds_of(dtype).stationarity
    agrees = ending.converged and difference <= most
    holds = certificate.holds and agrees
    lines = certificate.words.split("\n")
    if certificate.holds and not holds:
        lines[0] = f"certificate: does NOT hold; indirect solution: {ending.status}"
    good, bad = "agrees with the indirect solution", "differs from the indirect solution"
    lines.append(_sentence(good, bad, difference, most, ", difference of the costs"))
    return certificate._replace(holds=holds, agreement=difference, words="\n".join(lines))


def _sentence(good: str, bad: str, value: float, bound: float, more: str = "") -> str:
    return f"{good if value <= bound else bad}: {value:.1e} (at most {bound:.0e}){more}"
