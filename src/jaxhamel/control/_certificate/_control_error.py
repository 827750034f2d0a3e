"""Estimate of the cost that controls other than polynomials on each interval would save.

Between the collocation points τ_j of an interval the control c is the polynomial through its values at these points, whereas
the optimal control is any function. With the control Hamiltonian H the cost is higher by

    Σ_i h_i ∫ ½ δc · H_cc δc dτ ,    δc(τ) = Π_j (τ − τ_j) r(τ) ,

to lowest order, where c + δc is the polynomial through the values of the interval and of one of its neighbours. Of the two
neighbours the one with the smaller sum counts, since the control may have a kink at a node.

The intervals in which limits begin or cease to bind do not count (`kink_excess` and `switching_excess` are for these), nor
those in which a limit of the state determines the control.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxhamel.control._certificate._violation import binding
from jaxhamel.control._collocation._points import lagrange
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._boundary_arcs import orders


def control_excess(transcription: Transcription, state: SearchState, parts: Parts | None) -> float:
    """The sum above, in the unit of the cost; 0 without derivatives, and on a single interval, which has no neighbour."""
    many = len(state.w.c)
    if parts is None or many == 1:
        return 0.0
    left = np.arange(many - 1)
    counts = _have_like_limits(transcription, state, parts)
    found = np.full((2, many), np.inf)
    for side, (here, there) in enumerate(((left, left + 1), (left + 1, left))):
        sums = np.abs(_savings(transcription, state, parts, here, there))
        found[side, here] = np.where(counts, sums, np.inf)
    least = np.min(found, axis=0)
    return float(np.sum(least, where=np.isfinite(least)))


def _savings(
    transcription: Transcription,
    state: SearchState,
    parts: Parts,
    here: Int[np.ndarray, " P"],
    there: Int[np.ndarray, " P"],
) -> Float[np.ndarray, " P"]:
    """h ∫ ½ δc · H_cc δc dτ of the intervals `here` with their neighbours `there`."""
    d, m = transcription.size, transcription.n_controls
    # The Hessians at the points contain h and the weights of the points.
    curvature = np.asarray(parts.points.hessian, float)[here][..., d : d + m, d : d + m].sum(axis=1)
    places, weights = np.polynomial.legendre.leggauss(2 * len(transcription.rule.points))
    change = _changes(transcription, state, here, there, (places + 1) / 2)
    return 0.5 * np.einsum("k,pka,pab,pkb->p", weights / 2, change, curvature, change)


def _changes(
    transcription: Transcription,
    state: SearchState,
    here: Int[np.ndarray, " P"],
    there: Int[np.ndarray, " P"],
    places: Float[np.ndarray, " k"],
) -> Float[np.ndarray, "P k m"]:
    """δc at places of the intervals `here`, with the values of their neighbours `there`."""
    points, c = np.asarray(transcription.rule.points), np.asarray(state.w.c, float)
    shares = np.asarray(transcription.shares_at(state.w.p), float)
    lengths = np.diff(shares)
    ratio = (lengths[there] / lengths[here])[:, None]
    shift = ((shares[there] - shares[here]) / lengths[here])[:, None]
    of_neighbour = shift + ratio * points
    differences = c[there] - np.einsum("pkj,pjm->pkm", _basis(points, of_neighbour), c[here])
    r = differences / np.prod(of_neighbour[..., None] - points, axis=-1)[..., None]
    at_places = np.einsum("pkj,pjm->pkm", _basis(points, (places - shift) / ratio), r)
    return np.prod(places[:, None] - points, axis=-1)[:, None] * at_places


def _basis(points: Float[np.ndarray, " s"], at: Float[np.ndarray, "P k"]):
    """The Lagrange basis of `points` at many places, `(P, k, s)`."""
    return lagrange(points, at.ravel()).reshape(*at.shape, len(points))


def _have_like_limits(
    transcription: Transcription, state: SearchState, parts: Parts
) -> Bool[np.ndarray, " N-1"]:
    """Whether the same limits, and none of the state, bind at all points of an interval and of the next one."""
    binds = binding(transcription, state.w, state.duals)
    of_state = np.asarray(orders(transcription, parts), int) > 0
    same = np.all(binds == binds[:, :1], axis=(1, 2)) & ~np.any(binds[..., of_state], axis=(1, 2))
    return same[:-1] & same[1:] & np.all(binds[1:, 0] == binds[:-1, 0], axis=1)
