"""Assembles the certificate of a collocation: numbers, verdict and sentences on whether its result is an optimum."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxhamel._search._loop import Verdict
from jaxhamel._typing import Scalar
from jaxhamel.control._certificate._control_error import control_excess
from jaxhamel.control._certificate._cost_error import (
    LARGEST_EXCESS,
    barrier_gap,
    beside_verdict,
    cost_error,
    is_determined,
    on_kinks,
    on_small_cost,
    on_tight_limits,
    raised_by_limits,
    switching_excess,
)
from jaxhamel.control._certificate._isolation import kind_along
from jaxhamel.control._certificate._motion_error import transcription_error
from jaxhamel.control._certificate._multipliers import unbounded_multipliers
from jaxhamel.control._certificate._second_order import (
    NOT_EXAMINED,
    SecondOrder,
    second_order,
)
from jaxhamel.control._certificate._violation import worst_violation
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._state import SearchState, Solved
from jaxhamel.control._result import Certificate

MINIMA = ("strict minimum", "minimum, not isolated")


class Bounds(NamedTuple):
    """The largest errors with which a certificate holds; `cost`: the largest relative change of the cost (`cost_error`)."""

    stationarity: float
    violation: float
    transcription: float
    cost: float


NODES_AT_SWITCHES = (
    "; give the number of `intervals`, or more of them, so that their nodes move there"
)
FINER = "; give more `intervals`, or `error`, by which control.Collocation refines them"
HIGHER = "; give more `intervals`, or a higher `degree`"


def bounds_of(dtype: Any) -> Bounds:
    """The bounds for numbers of a dtype: 1e-3 each in single precision, smaller in double precision."""
    if dtype == jnp.float64:
        return Bounds(1e-8, 1e-7, 1e-6, 1e-6)
    return Bounds(1e-3, 1e-3, 1e-3, 1e-3)


def certify(
    original: Transcription,
    solved: Solved,
    free: Solved,
    ending: Verdict,
    tolerance: Scalar,
    may_be_zero: bool = True,
) -> Certificate:
    """The certificate of the last iterate.

    **Arguments:** `original`: the transcription with the problem's bounds; `solved`: with the bounds of the search, and its
    last iterate; `free`: the same, with unknown times of nodes if the search has found such a solution; `ending`,
    `tolerance`: verdict and tolerance of the search; `may_be_zero`: False if the search failed in a smaller unit of the
    cost, so that a cost as small as the barrier's share is not known to be 0.
    """
    transcription, state, _ = solved
    curvature = _curvature(free, ending.converged, tolerance)
    error, change = transcription_error(transcription, state.w, state.duals.costates)
    first = _of_motion(original, state, float(error))
    later = _of_cost(original, solved, float(change)) if ending.converged else []
    words = [check.words for check in first] + [curvature.words, curvature.on_multipliers]
    limits = _effect_of_limits(original, solved, may_be_zero) if ending.converged else NO_LIMITS
    later += [limits.excess] if ending.converged else []
    words += [check.words for check in later if not check.passed]
    words += limits.notes
    passed = all(check.passed for check in (*first, *later))
    holds = limits.known and curvature.kind in MINIMA and passed
    checks = (*first, *later)
    wrong = _failures(checks, curvature, limits.known) if ending.converged else ending.status
    verdict = f"holds{limits.beside_verdict}" if holds else f"does NOT hold; {wrong}"
    words.insert(0, f"certificate: {verdict}")
    stationarity, violation, transcribed = (check.value for check in first)
    return Certificate(
        holds,
        stationarity,
        violation,
        transcribed,
        curvature.kind,
        curvature.unique,
        "\n".join(words),
    )


class Criterion(NamedTuple):
    """A number of the certificate with the largest value that passes, and the words for either case.

    `more` follows the number, `advice` only a number that is too large.
    """

    good: str
    bad: str
    value: float
    bound: float
    more: str = ""
    advice: str = ""

    @property
    def passed(self) -> bool:
        """Whether the number is small enough."""
        return self.value <= self.bound

    @property
    def words(self) -> str:
        """The number and its bound in one sentence."""
        beginning, end = (self.good, "") if self.passed else (self.bad, self.advice)
        return f"{beginning}: {self.value:.1e} (at most {self.bound:.0e}){self.more}{end}"


def _of_motion(
    original: Transcription, state: SearchState, error: float
) -> tuple[Criterion, Criterion, Criterion]:
    """Stationarity, violation, and the error of the transcription."""
    bounds = bounds_of(state.mu.dtype)
    stationary = max(float(state.errors.stationarity), float(state.errors.complementarity))
    violation, worst = worst_violation(original, state.w)
    return (
        Criterion("stationary", "not stationary", stationary, bounds.stationarity),
        Criterion("feasible", "not feasible", violation, bounds.violation, f", worst in {worst}"),
        Criterion(
            "transcribed", "transcribed too coarsely", error, bounds.transcription, advice=FINER
        ),
    )


def _of_cost(original: Transcription, solved: Solved, change: float) -> list[Criterion]:
    """Relative changes of the cost: by violations, by the errors of the transcription, by controls that are no polynomials,
    by switches within intervals.

    `change`: the second of these, in the unit of the cost.
    """
    transcription, state, parts = solved
    late, where = switching_excess(original, transcription, state, parts)
    own = 1 + abs(float(state.cost))
    excess = control_excess(*solved)
    changes = (
        (cost_error(transcription, state.w, state.duals), "by the violations that are left", ""),
        (abs(change) / own, "by the errors of the transcription", FINER),
        (excess / own, "by better controls between the collocation points", HIGHER),
        (late, f"if {where} switched at nodes", NODES_AT_SWITCHES),
    )
    most, unknown = bounds_of(state.mu.dtype).cost, "cost not determined"
    return [Criterion("", unknown, x, most, f", its change {why}", how) for x, why, how in changes]


def _failures(checks: tuple[Criterion, ...], curvature: SecondOrder, known: bool) -> str:
    """The criteria that a solution does not meet, in short; `known`: whether the barrier leaves the cost determined."""
    failed = [x.bad for x in checks if not x.passed]
    failed += [] if known else ["cost not determined"]
    if curvature.kind not in MINIMA:
        failed.append("curvature undecided" if curvature.kind == "undecided" else curvature.kind)
    return ", ".join(dict.fromkeys(failed))


class EffectOfLimits(NamedTuple):
    """The effect of limits on the cost of a solution.

    - `known`: whether their barrier leaves the cost determined.
    - `excess`: the share of the cost by which it is raised by limits that were moved inwards, and by limits that begin or
      cease to bind inside an interval.
    - `beside_verdict`, `notes`: words for the first line, and further lines.
    """

    known: bool
    excess: Criterion
    beside_verdict: str
    notes: list[str]


def _excess_by_limits(share: float) -> Criterion:
    why = ", its change by limits that bind between the collocation points"
    return Criterion("", "cost not determined", share, LARGEST_EXCESS, why, FINER)


NO_LIMITS = EffectOfLimits(False, _excess_by_limits(0.0), "", [])


def _effect_of_limits(original: Transcription, solved: Solved, may_be_zero: bool) -> EffectOfLimits:
    """The effect of the limits on the cost.

    Only for a solution of the problem itself: the elastic problem has other limits, hence other multipliers.
    """
    transcription, state, _ = solved
    unit = float(transcription.cost_unit)
    gap, cost = unit * barrier_gap(transcription, state.w, state.duals), unit * float(state.cost)
    raised, kinks = (unit * x for x in raised_by_limits(original, solved))
    notes = (
        on_small_cost(gap, cost, may_be_zero),
        on_tight_limits(raised, cost, transcription.rule.points[-1] < 1.0),
        on_kinks(kinks, cost),
    )
    known = is_determined(gap, cost, bounds_of(state.mu.dtype).cost, may_be_zero)
    share = _excess_by_limits((raised + kinks) / (unit + abs(cost)))
    return EffectOfLimits(
        known, share, beside_verdict(raised + kinks, cost), [x for x in notes if x]
    )


def _curvature(solved: Solved, converged: bool, tolerance: Scalar) -> SecondOrder:
    """The second-order condition at an iterate and, if the search has converged, its questions that need more searches."""
    transcription, state, parts = solved
    if parts is None:
        return NOT_EXAMINED
    found = second_order(transcription, state, parts)
    if found.along is not None and converged:
        kind = kind_along(transcription, state, found.along, tolerance)
        kind = "undecided" if found.falls and kind in MINIMA else kind
        found = found._replace(kind=kind, words=f"{kind}: {found.words}")
    elif found.along is not None:
        found = found._replace(words=f"curvature: undecided, {found.words}")
    if converged and found.examined:
        none = unbounded_multipliers(transcription, state, tolerance)
        found = found.without_multipliers(none) if none else found
    return found


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
    lines.append(Criterion(good, bad, difference, most, ", difference of the costs").words)
    return certificate._replace(holds=holds, agreement=difference, words="\n".join(lines))
