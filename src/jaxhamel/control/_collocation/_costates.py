"""The costates of an iterate, each in the tangent space of its own node."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._interior_point._derivatives import Duals


@compiled
def costates_of(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> Float[Array, "N+1 d"]:
    """λ_i = ∂J/∂(δ_q, δ_u) at q_i exp(δ_q), u_i + δ_u.

    The multipliers are those of the coordinates (ξ, u) about the bases. These are the nodes, but for the first one where the
    initial state is free: λ_0 = (∂ξ/∂δ_q)ᵀ multiplier there.
    """
    if not transcription.free_start:
        return duals.costates
    space, n = transcription.system.space, transcription.system.space.dim
    base, (q, _) = along(w.q, 0), transcription.begun(w, w.p)
    of_node = lambda delta: space.local(base, space.retract(q, delta))  # noqa: E731
    _, pulled = jax.vjp(of_node, jnp.zeros(n, w.x.dtype))
    return duals.costates.at[0, :n].set(pulled(duals.costates[0, :n])[0])
