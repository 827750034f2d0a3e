"""The errors of boundary arcs: of the times at which they begin and end, and of their limits between the points."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._certificate._violation import excesses
from jaxhamel.control._collocation._points import lagrange, slopes_at
from jaxhamel.control._collocation._tightening import MORE
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Duals, evaluate, weighted
from jaxhamel.control._interior_point._state import SearchState, Solved
from jaxhamel.control._mesh._boundary_arcs import BoundaryArc, point_times
from jaxhamel.control._scaling._sizes import size_of


@compiled_with(QUICK)
def cost_slopes(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> Float[Array, " N+1"]:
    """The derivatives of the optimal cost by the shares of the nodes, which are those of the Lagrangian."""

    def lagrangian(shares):
        cost, residuals = evaluate(dataclasses.replace(transcription, shares=shares), w)
        return cost + weighted(duals, residuals)

    return jax.grad(lagrangian)(transcription.shares)


class ArcErrors(NamedTuple):
    """The inner times T at which arcs begin or end, in their order, and their errors.

    - `slopes`: ∂J/∂T; `errors`: a function of T that rises through zero at the right time; `rises`: its slope, 0 where it is
      not known; `room`: the length of the shorter interval beside T, as a share of the duration.
    """

    times: Float[np.ndarray, " K"]
    slopes: Float[np.ndarray, " K"]
    errors: Float[np.ndarray, " K"]
    rises: Float[np.ndarray, " K"]
    room: Float[np.ndarray, " K"]


def times_of(arcs: Sequence[BoundaryArc]) -> list[float]:
    """The inner times at which arcs begin or end, in their order."""
    return sorted({time for arc in arcs for time in arc.ends} - {0.0, 1.0})


def errors_of(arcs: Sequence[BoundaryArc], own: Transcription, solved: Solved) -> ArcErrors:
    """The errors of the arcs' times in a solution on the mesh of `own`, which has nodes at these times.

    At touch points the error is -∂J/∂T, at ends of arcs the leading coefficient of the distance from the bound.
    """
    shares, times = np.asarray(own.shares, float), np.asarray(times_of(arcs))
    nodes = np.argmin(np.abs(shares[:, None] - times), axis=0)
    by_node = np.asarray(cost_slopes(solved.transcription, solved.state.w, solved.state.duals))
    slack = np.asarray(solved.state.w.slack, float)
    errors = -by_node[nodes].astype(float)
    rises = np.zeros_like(errors)
    for k, (time, i) in enumerate(zip(times, nodes, strict=True)):
        arc = next(x for x in arcs if time in x.ends)
        if not arc.touches:
            begins = time == arc.begin
            a, slope = _leading_coefficient(own, slack, arc, i, begins)
            errors[k] = a * (1 - 2 * begins)
            rises[k] = slope if arc.order == 0 else 0.0
    lengths = np.diff(shares)
    room = np.minimum(lengths[nodes - 1], lengths[nodes])
    return ArcErrors(times, by_node[nodes], errors, rises, room)


def largest_gap(arcs: Sequence[BoundaryArc], own: Transcription, at: ArcErrors) -> float:
    """The largest distance of a limit of the control from its bound at an end of its arcs, as a multiple of its size."""
    sizes = _sizes_of_limits(own)
    gaps = [
        float(np.max(np.abs(at.errors[np.isin(at.times, arc.ends)]), initial=0.0)) / sizes[arc.row]
        for arc in arcs
        if arc.order == 0
    ]
    return max(gaps, default=0.0)


def _leading_coefficient(
    own: Transcription, slack: np.ndarray, arc: BoundaryArc, node: int, begins: bool
) -> tuple[float, float]:
    """(a, b) of the distance a x^p + b x^(p+1) + … from the bound, at the time x outside of an arc that begins, or ends, at
    `node`.

    They are value and slope at x = 0 of the polynomial through distance / x^p at the points of the interval outside of the
    arc.
    """
    interval = node - 1 if begins else node
    x = point_times(own)[interval] - float(own.shares[node])
    bound = np.asarray(arc.bound(own), float)[interval]
    distance = (bound - slack[interval, :, arc.row]) * (1.0 if arc.is_upper else -1.0)
    apart = (x != 0.0) | (arc.order == 0)
    x, distance = np.abs(x[apart]), distance[apart]
    quotients, at = distance / x**arc.order, np.zeros(1)
    return float(lagrange(x, at)[0] @ quotients), float(slopes_at(x, at)[0] @ quotients)


def tighter_arcs(
    own: Transcription,
    state: SearchState,
    arcs: list[BoundaryArc],
    violation: float,
    beside: int = 0,
) -> list[BoundaryArc] | None:
    """The arcs of orders 0 and 1 with bounds moved further inwards where these limits are violated between the points; None
    if they are not.

    **Arguments:** `violation`: the largest one allowed, as a multiple of the limits' sizes; `beside`: the number of
    intervals on either side of an arc in which violations count, too.
    """
    sides = excesses(own, state.w)
    sizes, found = _sizes_of_limits(own), []
    for arc in arcs:
        on = arc.intervals(own)
        near = slice(max(on.start - beside, 0), on.stop + beside)
        over = np.max(sides[arc.is_upper][near, arc.row], initial=0.0)
        moves = arc.order <= 1 and over > violation * sizes[arc.row]
        found.append(arc._replace(inward=arc.inward + MORE * float(over)) if moves else arc)
    return None if found == arcs else found


def _sizes_of_limits(own: Transcription) -> np.ndarray:
    """The sizes of all rows of the limits, `(r,)`."""
    return np.broadcast_to(np.asarray(size_of(own.sizes, "limits"), float), own.lower.shape[-1:])
