"""Transfers a solution from one mesh to another, on which the search continues from it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._elastic import inside
from jaxhamel.control._collocation._points import basis_at
from jaxhamel.control._collocation._tightening import resumed_in_bounds
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._interior_point._derivatives import Duals, evaluate
from jaxhamel.control._interior_point._state import SearchState, first_state

BARRIER_AFTER_REFINEMENT = 1e-4  # μ with which a search with limits continues on the new mesh
# Nodes that move by at most this share of the shortest interval hardly change values and multipliers at the points.
SMALL_MOVE = 0.3
BARRIER_AFTER_SMALL_MOVES = 1e-7


def carried_over(old: Transcription, state: SearchState, new: Transcription) -> SearchState:
    """The state from which the search continues on the new mesh, interpolated from the solution on the old one."""
    w, duals = transferred(old, state.w, state.duals, new)
    barrier = jnp.asarray(BARRIER_AFTER_REFINEMENT, state.mu.dtype)
    begin = first_state(new, w, barrier)._replace(duals=duals, estimates=jnp.asarray(False))
    return resumed_in_bounds(new, begin, BARRIER_AFTER_REFINEMENT) if new.limits else begin


def moved_over(old: Transcription, state: SearchState, new: Transcription) -> SearchState:
    """The state from which the search continues on the new mesh: with the same values at the points if nodes move a little,
    otherwise interpolated."""
    if _is_nearly(old, new):
        return resumed_in_bounds(new, state, BARRIER_AFTER_SMALL_MOVES)
    return carried_over(old, state, new)


def _is_nearly(old: Transcription, new: Transcription) -> bool:
    """Whether the new mesh is nearly the old one."""
    before, after = (np.asarray(x.shares, float) for x in (old, new))
    if len(before) != len(after):
        return False
    return bool(np.max(np.abs(after - before)) <= SMALL_MOVE * np.min(np.diff(before)))


@compiled_with(QUICK)
def transferred(
    old: Transcription, w: CollocationPoint, duals: Duals, new: Transcription
) -> tuple[CollocationPoint, Duals]:
    """The solution on the new mesh: the old polynomials of state, control and costate at its nodes and collocation points.

    The costate λ is the polynomial through −μ_j/b_j, because the stage multipliers are μ_j = −b_j λ(t_j) with the quadrature
    weights b. The multipliers of limits start at zero.
    """
    points = old.rule.points
    shares = new.shares[:-1, None] + jnp.diff(new.shares)[:, None] * new.constants("points")[None]
    space, n = new.system.space, new.system.space.dim
    weights = old.constants("weights")[:, None]

    def at(share: Scalar) -> tuple[Any, Array, Array, Array]:
        i = jnp.clip(jnp.searchsorted(old.shares, share, side="right") - 1, 0, w.X.shape[0] - 1)
        part = (share - old.shares[i]) / (old.shares[i + 1] - old.shares[i])
        X = basis_at((0.0, *points), part) @ jnp.concatenate([w.x[i][None], w.X[i]])
        of_points = basis_at(points, part)
        costate = of_points @ (-duals.stages[i] / weights)
        return space.retract(along(w.q, i), X[:n]), X[n:], of_points @ w.c[i], costate

    q, u, _, costates = jax.vmap(at)(new.shares)
    q = jax.vmap(space.normalise)(q)
    q = jax.tree.map(lambda xs, bases: xs.at[0].set(bases[0]), q, w.q)
    stage_q, stage_u, c, inner = jax.vmap(jax.vmap(at))(shares)
    local = jax.vmap(lambda node, stages: jax.vmap(lambda x: space.local(node, x))(stages))
    X = jnp.concatenate([local(along(q, slice(None, -1)), stage_q), stage_u], axis=2)
    x = jnp.concatenate([jnp.zeros((u.shape[0], n), u.dtype), u], axis=1).at[0].set(w.x[0])
    point = CollocationPoint(q, x, X, c, w.p, _no_limits(new))
    point = point._replace(slack=inside(new, evaluate(new, point)[1].limits))
    none = jnp.zeros_like(point.slack)
    stages = -new.constants("weights")[None, :, None] * inner
    return point, Duals(
        costates, stages, duals.conditions, none, none, none, duals.p_low, duals.p_high
    )


def _no_limits(transcription: Transcription) -> Float[Array, "N M r"]:
    """Zeros with the shape of the limits at all collocation points."""
    shape = (
        transcription.shares.shape[0] - 1,
        len(transcription.rule.points),
        transcription.lower.shape[-1],
    )
    return jnp.zeros(shape, transcription.shares.dtype)
