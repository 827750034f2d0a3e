"""Mesh refinement of collocation, and meshes with nodes at the switches of limited controls.

Estimates the error between the nodes, chooses a mesh on which it is equal in all intervals, and transfers the solution to
this mesh. The first refinement only moves the nodes, which needs no compilation; later ones also multiply the number of
intervals by 2 or 4.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._collocation._points import lagrange, rule, slopes_at
from jaxhamel.control._collocation._start import on_mesh
from jaxhamel.control._collocation._transcription import (
    CollocationPoint,
    Interval,
    Transcription,
)
from jaxhamel.control._interior_point._derivatives import (
    Parts,
    stage_unknowns,
    with_start,
)
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._junctions import junctions_of
from jaxhamel.control._mesh._switches import switches_of, with_nodes_at
from jaxhamel.control._mesh._transfer import moved_over
from jaxhamel.control._scaling._sizes import in_size, size_of


@compiled_with(QUICK)
def residual_errors(transcription: Transcription, w: CollocationPoint) -> Float[Array, " N"]:
    """Estimates the distance between the polynomials of the state, X(τ), and the motion, in each interval:

        ε_i = max over the components of  ∫_0^1 |dX/dτ − h f(X(τ), c(τ))| dτ .

    The integrand is zero at the collocation points, so that a Gauss rule with twice as many points integrates it.

    Source: Betts 2010, eq. (4.156), with other sizes: ε is in coordinates of the tangent space, in SI units or, where the
    search scales the states, in multiples of their sizes.
    """
    points = np.asarray(transcription.rule.points)
    nodes = np.append(0.0, points)
    fine = rule("gauss", 2 * len(points))
    at = np.asarray(fine.points)
    dtype = transcription.shares.dtype
    constants = lagrange(nodes, at), slopes_at(nodes, at), lagrange(points, at), fine.weights, at
    values, slopes, of_c, weights, shares = (jnp.asarray(x, dtype) for x in constants)
    sizes = size_of(transcription.sizes, "x")

    def one(interval: Interval, X: Array, c: Array):
        all_X = with_start(interval, X)
        y = stage_unknowns(values @ all_X, of_c @ c, w.p)
        rate, _ = jax.vmap(lambda *given: transcription.stage(interval, *given))(shares, weights, y)
        return jnp.max(in_size(weights @ jnp.abs(slopes @ all_X - rate), sizes))

    return jax.vmap(one)(transcription.intervals(w), w.X, w.c)


# The least density of nodes, as a fraction of the mean density. It limits the length of intervals whose error is small.
LEAST_DENSITY = 0.2


def evenly_spread(
    shares: Float[np.ndarray, " N+1"], errors: Float[np.ndarray, " N"], order: int, count: int
) -> Float[np.ndarray, " M+1"]:
    """The mesh of `count` intervals whose errors are equal, if the error of an interval is ε ∝ (length)^order.

    **Arguments:** `shares`: the present mesh, from 0 to 1; `errors`: ε of its intervals.

    Source: Ascher, Mattheij and Russell 1995, section 9.1.1.
    """
    lengths = np.diff(shares)
    parts = _error_roots(errors, order)
    density = parts / lengths
    density = np.maximum(density / np.sum(parts), LEAST_DENSITY)
    cumulative = np.append(0.0, np.cumsum(density * lengths))
    even = np.linspace(0.0, cumulative[-1], count + 1)
    mesh = np.interp(even, cumulative, shares)
    mesh[[0, -1]] = 0.0, 1.0
    return mesh


def expected_error(errors: Float[np.ndarray, " N"], order: int, count: int) -> float:
    """The error of each interval of the mesh `evenly_spread`: (Σ ε_i^{1/order} / count)^order."""
    return float((np.sum(_error_roots(errors, order)) / count) ** order)


def _error_roots(errors: Float[np.ndarray, " N"], order: int) -> Float[np.ndarray, " N"]:
    """ε^{1/order}, where ε is raised to at least a millionth of the largest error, so that no interval has error 0."""
    least = 1e-6 * np.max(errors) + np.finfo(errors.dtype).tiny
    return np.maximum(errors, least) ** (1 / order)


DOUBLINGS = 4  # the largest number of doublings of the intervals, unless the largest number of intervals is given
SAFETY = 0.5  # the largest expected error of a refined mesh, as a share of the error that the user asks for


# The largest number of times that nodes move onto switches, for one number of intervals.
ALIGNMENTS = 12
# The largest distance of a node from its switch, as a share of the duration, over the square root of the rounding error.
ALIGNED = 0.1
AT_SWITCH = 1e-3  # the largest distance of a node from its switch, as a share of the duration, from which it can move there
# Nodes come no closer to their switches if a mesh moves them by more than this share of the move three meshes before; and
# they are close enough if two moves have changed the cost by less than this share of 1 + |J| each.
CLOSER, SAME_COST = 0.5, 1e-9
# Nodes per switch: a singular arc, on which polynomials swing from bound to bound, has fewer.
LEAST_NODES = 4
LEAST_AT_JUNCTIONS = 2  # nodes per junction


def _aligned_mesh(
    shares: Float[np.ndarray, " N+1"], times: list[float], joints: Sequence[float] = ()
) -> Float[np.ndarray, " N+1"] | None:
    """The mesh with nodes at `times` and at the junctions `joints`; None if these are too many for it."""
    needed = LEAST_NODES * len(times) + LEAST_AT_JUNCTIONS * len(joints)
    return None if needed > len(shares) else with_nodes_at(shares, [*times, *joints])


class Refinement:
    """The mesh refinement of one search; `errors`: the errors ε of the intervals of the mesh solved last."""

    def __init__(
        self, own: Transcription, error: float | None, may_align: bool, most: int | None = None
    ):
        """**Arguments:** `own`: the problem on the first mesh, with the user's bounds; `may_align`: whether nodes may move
        to the times at which a limited control switches; `most`: the largest number of intervals.
        """
        self.own, self.error = own, error
        self.may_align, self.alignments = may_align, 0
        # The moves of nodes to the meshes so far, as shares of the duration, and the costs before them.
        self.moves: list[float] = []
        self.costs: list[float] = []
        # Their times, as shares of the duration, when last looked for.
        self.switches: list[float] = []
        self.junctions: list[float] = []
        self.follows_junctions = False
        self.errors: Float[np.ndarray, " N"] | None = None
        self.most = most or 2**DOUBLINGS * (own.shares.shape[0] - 1)
        self.has_moved = False

    @property
    def met(self) -> bool:
        """Whether the largest error is at most the requested one; true if none is requested or no mesh is solved yet."""
        return self.error is None or self.errors is None or self.largest <= self.error

    @property
    def largest(self) -> float:
        """The largest error of an interval."""
        return float(np.max(self.errors)) if self.errors is not None else float("nan")

    def words(self, transcription: Transcription) -> str:
        """A sentence with the remaining error, the requested one, and ways to reduce the error."""
        count = transcription.shares.shape[0] - 1
        return (
            f"the error between the nodes is {self.largest:.1e} with {count} intervals, and `error` asks for "
            f"{self.error:.1e}: take more intervals, or put a time of `ts` where the control jumps"
        )

    def refined(
        self, transcription: Transcription, state: SearchState
    ) -> tuple[Transcription, SearchState] | None:
        """(transcription, first state of the search) on the next mesh; None if the error is small enough, or the mesh
        would have too many intervals."""
        if self.error is None:
            return None
        self.look_between_nodes(transcription, state)
        return None if self.met else self.finer(transcription, state, self.error)

    def look_between_nodes(self, transcription: Transcription, state: SearchState) -> None:
        """Estimates the errors on the intervals of a solution."""
        self.errors = np.asarray(residual_errors(transcription, state.w))

    def finer(
        self, transcription: Transcription, state: SearchState, error: float
    ) -> tuple[Transcription, SearchState] | None:
        """The same on a mesh with a smaller error; None if it would have too many intervals.

        **Arguments:** `error`: the error aimed at. If the error is below it already, the mesh gets twice as many intervals.
        """
        shares = np.asarray(transcription.shares)
        shares = self._next_mesh(shares, len(transcription.rule.points), error)
        if shares is None:
            return None
        self._begin_alignments()
        kept = with_nodes_at(shares, self.switches)
        return self._on_mesh(shares if kept is None else kept, transcription, state)

    def aligned(
        self,
        transcription: Transcription,
        state: SearchState,
        parts: Parts | None,
        has_kinks: bool = False,
        kept: list[float] | None = None,
    ) -> tuple[Transcription, SearchState] | None:
        """(transcription, first state of the search) on a mesh with nodes at all switches; None if they are there already.

        **Arguments:** `kept`: further times, as shares of the duration, at which nodes stay.

        The errors in the times of the switches fall by a factor of 10 to 100 with each mesh. If controls reach limits inside
        intervals, with an effect on limits or cost (`has_kinks`), nodes move to the junctions of limits, too.
        """
        if not self.may_align or self.alignments >= ALIGNMENTS:
            return None
        self.follows_junctions |= has_kinks
        kept = kept or []
        self._look(transcription, state, parts)
        old = np.asarray(transcription.shares, float)
        shares = _aligned_mesh(old, self.switches + kept, self.junctions)
        if shares is None:
            shares = _aligned_mesh(old, self.switches + kept)
        least = ALIGNED * float(jnp.finfo(state.mu.dtype).eps) ** 0.5
        move = np.inf if shares is None else float(np.max(np.abs(shares - old)))
        if shares is None or move <= least or self._in_vain(move, state):
            return None
        self.alignments += 1
        return self._on_mesh(shares, transcription, state)

    def _in_vain(self, move: float, state: SearchState) -> bool:
        """Whether another mesh is in vain: nodes come no closer to their switches, or the cost hardly changes any more."""
        self.moves.append(move)
        self.costs.append(float(state.cost))
        if len(self.moves) > 3 and move > CLOSER * self.moves[-4]:
            return True
        small = max(SAME_COST, 10 * float(jnp.finfo(state.mu.dtype).eps))
        latest = self.costs[-3:]
        changes = np.abs(np.diff(latest))
        return len(latest) == 3 and bool(np.all(changes <= small * (1.0 + abs(latest[-1]))))

    def _begin_alignments(self) -> None:
        """Lets nodes move onto switches again, on a mesh with more intervals."""
        self.alignments, self.moves, self.costs = 0, [], []

    def _look(self, transcription: Transcription, state: SearchState, parts: Parts | None) -> None:
        """Finds the switches and, if nodes follow them, the junctions of a solution."""
        switches = switches_of(transcription, state, parts)
        self.switches = [x.share for x in switches]
        given = transcription, state, parts, switches
        self.junctions = junctions_of(*given) if self.follows_junctions else []

    def nodes_at_switches(self, shares: Float[np.ndarray, " N+1"]) -> tuple[int, ...]:
        """The numbers of the nodes at the switches, if each switch has one, between the first and the last node."""
        times = np.asarray(self.switches)
        nodes = np.argmin(np.abs(shares[:, None] - times), axis=0) if times.size else times
        near = all(abs(shares[k] - time) < AT_SWITCH for k, time in zip(nodes, times, strict=True))
        inner = sorted({int(k) for k in nodes} - {0, len(shares) - 1})
        return tuple(inner) if near and len(inner) * LEAST_NODES <= len(shares) else ()

    def with_nodes_at(
        self,
        times: list[float],
        transcription: Transcription,
        state: SearchState,
        parts: Parts | None,
    ) -> Transcription | None:
        """The problem on the mesh with nodes at `times` and at the switches and junctions of a solution; None if nodes stay
        or are too few for these."""
        if not self.may_align:
            return None
        self._look(transcription, state, parts)
        old = np.asarray(transcription.shares, float)
        shares = _aligned_mesh(old, self.switches, self.junctions + times)
        return None if shares is None else self._transcribed(shares, transcription)

    def _transcribed(
        self, shares: Float[np.ndarray, " M+1"], transcription: Transcription
    ) -> Transcription:
        own = on_mesh(self.own, jnp.asarray(shares), transcription.rule)
        unit, sizes = transcription.cost_unit, transcription.sizes
        return dataclasses.replace(own, cost_unit=unit, sizes=sizes)

    def _on_mesh(
        self, shares: Float[np.ndarray, " M+1"], transcription: Transcription, state: SearchState
    ) -> tuple[Transcription, SearchState]:
        new = self._transcribed(shares, transcription)
        return new, moved_over(transcription, state, new)

    def _next_mesh(self, shares: Float[np.ndarray, " N+1"], degree: int, error: float):
        """The nodes of the next mesh, from 0 to 1; None if there would be too many."""
        errors, order, count = np.asarray(self.errors, float), degree + 1, shares.size - 1
        if self.has_moved or self.largest <= error:
            if 2 * count > self.most:
                return None
            count *= self._factor(errors, order, error)
        self.has_moved = True
        return evenly_spread(shares.astype(float), errors, order, count)

    def _factor(self, errors: Float[np.ndarray, " N"], order: int, error: float) -> int:
        """The factor of the number of intervals: 2, or 4 if the error expected with twice as many is still too large and
        there may be eight times as many."""
        too_large = expected_error(errors, order, 2 * errors.size) > SAFETY * error
        return 4 if too_large and 8 * errors.size <= self.most else 2
