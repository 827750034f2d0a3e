"""The iterate on one mesh as the start on another one."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._elastic import inside
from jaxhamel.control._collocation._polynomial import basis_at
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._interior_point._derivatives import Duals, evaluate


@compiled_with(QUICK)
def transferred(
    old: Transcription, w: CollocationPoint, duals: Duals, new: Transcription
) -> tuple[CollocationPoint, Duals]:
    """The old polynomials of state, control and costate at the nodes and points of the new mesh.

    The stage multipliers are μ_j = −b_j λ(t_j), b being the quadrature weights, so that λ is the polynomial through
    −μ_j/b_j. Multipliers of limits are zero.
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
    shape = (
        transcription.shares.shape[0] - 1,
        len(transcription.rule.points),
        transcription.lower.shape[-1],
    )
    return jnp.zeros(shape, transcription.shares.dtype)
