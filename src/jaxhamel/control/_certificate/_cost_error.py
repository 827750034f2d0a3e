"""Estimates of the difference between the cost that a search has found and the least cost.

It has four causes. Constraints are met up to small violations r; to first order they change the cost by λ · r, where λ are
their multipliers, which may be large. The barrier keeps the motion at some distance s from each limit; it raises the
cost by up to Σ z s, where z are the multipliers of the limits. A control that switches from one bound to the other
cannot be the polynomial of an interval in which it does. And one that reaches or leaves a bound within an interval is smooth
there, so that between the points the bound is not reached, although its multiplier is positive.
"""

import numpy as np
from jaxtyping import ArrayLike, Float

from jaxhamel.control._certificate._violation import effects, evaluated, names_of_limits
from jaxhamel.control._collocation._points import PointRule, lagrange
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Duals, Parts
from jaxhamel.control._interior_point._state import SearchState, Solved
from jaxhamel.control._mesh._boundary_arcs import orders
from jaxhamel.control._mesh._junctions import excess_at_nodes
from jaxhamel.control._mesh._switches import switches_of


def cost_error(transcription: Transcription, w: CollocationPoint, duals: Duals) -> float:
    """The relative change of the cost by the remaining residuals r of all constraints, |λ · r| / (1 + |J|)."""
    cost, residuals = evaluated(transcription, w)
    return abs(float(np.sum(effects(duals, residuals)))) / (1 + abs(float(cost)))


def tightening_excess(
    original: Transcription, tight: Transcription, duals: Duals
) -> Float[np.ndarray, " r"]:
    """For each row of the limits, Σ z Δ: the change of the cost, to first order, by moving its bounds inwards by Δ.

    **Arguments:** `original`, `tight`: the transcription with the problem's bounds, and with those of the search.
    """
    below = _rows_of_products(duals.low, original.lower, tight.lower)
    return below + _rows_of_products(duals.high, tight.upper, original.upper)


def _rows_of_products(multiplier, outer, inner) -> Float[np.ndarray, " r"]:
    """Σ z (inner − outer) for each row; bounds that are infinite do not count."""
    z, outer, inner = (np.asarray(x, float) for x in (multiplier, outer, inner))
    finite = np.isfinite(inner) & np.isfinite(outer)
    distance = np.subtract(inner, outer, out=np.zeros_like(inner), where=finite)
    return np.sum(z * distance, axis=(0, 1))


def switching_excess(
    original: Transcription, tight: Transcription, state: SearchState, parts: Parts | None
) -> tuple[float, str]:
    """Returns the relative change of the cost if all switches of limited controls were at nodes, and these limits' names.

    The change has two parts: values between the bounds in the place of a switch, and bounds moved inwards because a
    polynomial that switches overshoots them.
    """
    found = switches_of(tight, state, parts)
    if not found:
        return 0.0, ""
    excess = np.zeros(tight.lower.shape[-1])
    np.add.at(excess, [x.row for x in found], [abs(x.excess) for x in found])
    excess += np.where(excess > 0.0, tightening_excess(original, tight, state.duals), 0.0)
    named = zip(names_of_limits(tight, state.w), excess, strict=True)
    late = dict.fromkeys(f"`{name}`" for name, x in named if x > 0.1 * np.max(excess))
    return float(np.sum(excess)) / (1 + abs(float(state.cost))), ", ".join(late)


# The multiplier at a node is an impulse if all others in the interval before it are at most this share of it.
ALONE = 0.02
FINE = 40  # places in an interval at which products of multipliers and distances are added


def kink_excess(
    transcription: Transcription, state: SearchState, parts: Parts | None, highest: int = 0
) -> float:
    """Σ ∫ m s dt over the limits up to an order, in the unit of the cost: the change of the cost, to first order, by
    distances s from bounds with positive multipliers m (per time) between the collocation points.

    At an optimum one of the two is zero at each time. Rows with switches do not count here (`switching_excess`).

    **Arguments:** `highest`: the highest order (`orders`), 0 for the limits of the control only, or 1. Multipliers of
    higher orders may be impulses, which a polynomial through the points does not represent.
    """
    if not transcription.limits or parts is None:
        return 0.0
    rows = {k for k, order in enumerate(orders(transcription, parts)) if order <= highest}
    rows -= {x.row for x in switches_of(transcription, state, parts)}
    each = sorted(rows)
    w, duals = state.w, state.duals
    pairs = (
        (duals.low, w.slack - transcription.lower),
        (duals.high, transcription.upper - w.slack),
    )
    total = sum(
        _between_points(transcription, *(np.asarray(x)[..., each] for x in p)) for p in pairs
    )
    return max(total - barrier_gap(transcription, w, duals), 0.0)


def _between_points(transcription: Transcription, multipliers, distances) -> float:
    """Σ ∫ m s dt with the polynomials through the values at the points; `multipliers`: those times the weights and h."""
    rule, lengths = transcription.rule, np.diff(np.asarray(transcription.shares))
    basis = lagrange(np.asarray(rule.points), (np.arange(FINE) + 0.5) / FINE)
    multipliers = _without_impulses(rule, np.asarray(multipliers))
    per_share = multipliers / (lengths[:, None] * np.asarray(rule.weights))[..., None]
    bounded = np.where(np.isfinite(distances), distances, 0.0)
    m, s = (np.einsum("kj,ijr->ikr", basis, x) for x in (per_share, bounded))
    return float(np.einsum("i,ikr->", lengths / FINE, np.maximum(m, 0.0) * s))


def _without_impulses(rule: PointRule, multipliers: Float[np.ndarray, "N s r"]):
    """The multipliers with zeros in place of impulses at nodes, of which there are some only with Radau points."""
    if rule.points[-1] < 1.0:
        return multipliers
    most = np.max(np.abs(multipliers[:, :-1]), axis=1, initial=0.0)
    found = multipliers.copy()
    found[:, -1] = np.where(most <= ALONE * multipliers[:, -1], 0.0, multipliers[:, -1])
    return found


def raised_by_limits(original: Transcription, solved: Solved) -> tuple[float, float]:
    """The amounts by which limits raise the cost, to first order and in its unit: by bounds that were moved inwards, and by
    limits that begin or cease to bind inside an interval."""
    moved = float(np.sum(tightening_excess(original, solved.transcription, solved.state.duals)))
    return moved, kink_excess(*solved, highest=1) + excess_at_nodes(*solved)


# The largest part of the cost that may come from the barrier without a sentence about it.
SMALL_SHARE = 1e-5


# Shares of the cost by which limits that bind between the points may raise it: up to the first one the certificate does not
# mention it, and above the second one the certificate does not hold.
SMALL_EXCESS, LARGEST_EXCESS = 1e-6, 1e-2


def barrier_gap(transcription: Transcription, w: CollocationPoint, duals: Duals) -> float:
    """Σ z s, the most by which the cost of a convex problem exceeds the least cost."""
    return float(barrier_gaps(transcription.lower, transcription.upper, w, duals))


def barrier_gaps(
    lower: ArrayLike, upper: ArrayLike, w: CollocationPoint, duals: Duals
) -> Float[np.ndarray, "*K"]:
    """The same for each of K iterates; `lower`, `upper`: the bounds of the path limits, with or without the axis of K."""
    slack, lower, upper = map(np.asarray, (w.slack, lower, upper))
    return _product(duals.low, slack - lower) + _product(duals.high, upper - slack)


def is_determined(gap: float, cost: float, most: float, may_be_zero: bool = True) -> bool:
    """Whether `gap`, the effect of the barrier, is at most the share `most` of the cost.

    A cost that is smaller than its gap counts as 0, and as determined, if `may_be_zero`.
    """
    return gap <= most * abs(cost) or (may_be_zero and abs(cost) <= gap)


SCALE = "choose units in which states, controls and limits are about 1"


def on_tight_limits(excess: float, cost: float, radau: bool = False) -> str:
    """A sentence if `excess`, the effect of bounds moved inwards, is not small beside the cost; empty otherwise.

    **Arguments:** `radau`: whether Radau points might lower it.
    """
    if excess <= SMALL_EXCESS * abs(cost):
        return ""
    way = (
        'more `intervals`, or `points="radau"`, lower it' if radau else "more `intervals` lower it"
    )
    return (
        f"cost: limits moved inwards, so that they hold between the collocation points too, raise it by about {excess:.1e}; "
        f"{way}"
    )


def on_kinks(excess: float, cost: float) -> str:
    """A sentence on limits that begin or cease to bind inside an interval; empty if they raise the cost by a small share.

    `excess`: the amount by which they raise it.
    """
    if excess <= SMALL_EXCESS * abs(cost):
        return ""
    return (
        f"cost: limits that begin or cease to bind inside an interval raise it by up to about {excess:.1e}; "
        "more `intervals` lower it"
    )


def beside_verdict(excess: float, cost: float) -> str:
    """Words after a verdict that holds: by how much limits may have raised the cost; empty if this is a small share of it.

    `excess`: the amount by which they may have raised it. Its percentage is left out if it is larger than the cost.
    """
    if excess <= SMALL_EXCESS * abs(cost):
        return ""
    share = f", {100 * excess / abs(cost):.2g} % of it" if excess < abs(cost) else ""
    return f"; the cost may be up to about {excess:.1e} above the least one{share}"


def on_small_cost(gap: float, cost: float, may_be_zero: bool = True) -> str:
    """A sentence if `gap`, the effect of the barrier, is not small beside the cost; empty otherwise and for a cost of 0."""
    if cost == 0 or gap <= SMALL_SHARE * abs(cost):
        return ""
    share = f"{100 * gap / abs(cost):.2g} % of it" if gap < abs(cost) else "0 within the tolerance"
    raises = f"cost: the barrier of the limits raises it by up to {gap:.1e}, "
    if gap >= abs(cost) and not may_be_zero:
        return f"{raises}more than it is; {SCALE}"
    return f"{raises}{share}; if it is not meant to be 0, give a smaller `tolerance`"


def _product(multiplier, distance) -> Float[np.ndarray, "*K"]:
    """Σ z s over the limits that are finite and not equations (there s = 0)."""
    z, s = np.asarray(multiplier), np.asarray(distance)
    counts = np.isfinite(s) & (s > 0)
    return np.sum(np.where(counts, z * np.where(counts, s, 0.0), 0.0), axis=(-3, -2, -1))
