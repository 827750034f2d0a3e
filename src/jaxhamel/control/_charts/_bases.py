"""The charts of a transcription: their bases move to the nodes after each step of the search.

A node and the stages of its interval have coordinates about a base q̄, q = q̄ exp(X). The polynomial of the interval is the
one in the chart about the node itself, q̄ exp(ξ), so that the discrete problem does not depend on the bases:

    X ↦ Λ(ξ, X) = log(exp(−ξ) exp(X)) .

In the first interval, whose base is the problem's initial state, the polynomial is the one in the chart about the base.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.geometry import AbstractSpace, Product
from jaxhamel.geometry._space import AbstractAbelianSpace
from jaxhamel.simulate._solvers._base_classes import apply, apply_dual


def turning(space: AbstractSpace) -> tuple[int, ...]:
    """The coordinates of a configuration space that belong to factors which are not commutative.

    In the others Λ(ξ, X) = X − ξ, and a polynomial in one chart is a polynomial in every chart.
    """
    if isinstance(space, AbstractAbelianSpace):
        return ()
    if not isinstance(space, Product):
        return tuple(range(space.dim))
    found, first = (), 0
    for factor in space.spaces:
        found += tuple(first + i for i in turning(factor))
        first += factor.dim
    return found


class InCharts(NamedTuple):
    """An iterate, and the multipliers that are covectors of its charts: λ of the nodes and μ of the stages."""

    w: CollocationPoint
    costates: Float[Array, "N+1 d"]
    stages: Float[Array, "N s d"]


def about_nodes(transcription: Transcription, w: CollocationPoint) -> CollocationPoint:
    """The same iterate in charts about its nodes, except for the first chart, which stays."""
    n, space = transcription.system.space.dim, transcription.system.space
    nodes, _ = transcription.states(w)
    nodes = jax.tree.map(lambda new, base: new.at[0].set(base[0]), nodes, w.q)

    def moved(base, node, X):
        return jnp.concatenate([space.local(node, space.retract(base, X[:n])), X[n:]])

    stages, before = jax.vmap(jax.vmap(moved, (None, None, 0))), slice(None, -1)
    X = stages(along(w.q, before), along(nodes, before), w.X)
    return w._replace(q=nodes, x=w.x.at[1:, :n].set(0.0), X=X.at[0].set(w.X[0]))


def rebased(transcription: Transcription, old: InCharts) -> InCharts:
    """The same iterate and multipliers in charts about its nodes, except for the first chart, which stays:

        X′ = φ(X) = log(q̄′⁻¹ q̄ exp(X)) ,    λ′ = dφ⁻ᵀ λ ,    dφ = dexp⁻¹_{−X′} dexp_{−X} ,

    since a small residual r becomes r′ = dφ r, and λ·r = λ′·r′. With the old multipliers the Lagrangian's gradient after a
    whole step was of first order in the step (docs/performance.md#multipliers-in-new-charts).
    """
    new = about_nodes(transcription, old.w)

    def moved(X, new_X, covector):
        return _covector(transcription.system.space, X, new_X, covector)

    costates = jax.vmap(moved)(old.w.x, new.x, old.costates)
    stages = jax.vmap(jax.vmap(moved))(old.w.X, new.X, old.stages)
    return InCharts(new, costates.at[0].set(old.costates[0]), stages.at[0].set(old.stages[0]))


def _covector(space: AbstractSpace, X, new_X, covector) -> Float[Array, " d"]:
    """dφ⁻ᵀ λ for a change of charts X ↦ X′."""
    n = space.dim
    of_velocity = apply_dual("dexpinv", space, -X[:n], covector[:n])
    return jnp.concatenate([apply_dual("dexp", space, -new_X[:n], of_velocity), covector[n:]])


def in_old_charts(
    transcription: Transcription, X: Array, new_X: Array, residuals: Float[Array, "N s d"]
) -> Float[Array, "N s d"]:
    """dφ⁻¹ r′ for residuals r′ of stages that have the coordinates X′ in the new charts and X in the old ones."""
    n, space = transcription.system.space.dim, transcription.system.space

    def moved(X, new_X, r):
        velocity = apply("dexp", space, -new_X[:n], r[:n])
        return jnp.concatenate([apply("dexpinv", space, -X[:n], velocity), r[n:]])

    return jax.vmap(jax.vmap(moved))(X, new_X, residuals)
