"""States x = (q, u) and their tangent vectors δ = (δ_q, δ_u), for searches among states."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration
from jaxhamel.mechanics._system import System

MotionState = tuple[Configuration, Float[Array, " k"]]


def tangent_size(system: System) -> int:
    """The dimension n + k of the tangent space of states."""
    return system.space.dim + system.n_independent


def retract(system: System, x: MotionState, delta: Float[Array, " n+k"]) -> MotionState:
    """The state (q·exp(δ_q), u + δ_u)."""
    n = system.space.dim
    return system.space.retract(x[0], delta[:n]), x[1] + delta[n:]


def near(system: System, x: MotionState, delta: Float[Array, " n+k"]) -> MotionState:
    """The state of `retract` to first order in δ: it has the same first derivative at δ = 0, but needs no exponential."""
    n = system.space.dim
    return jax.tree.map(jnp.add, x[0], system.space.rate(x[0], delta[:n])), x[1] + delta[n:]


def local(system: System, x: MotionState, y: MotionState) -> Float[Array, " n+k"]:
    """The tangent vector δ with retract(x, δ) = y."""
    return jnp.concatenate([system.space.local(x[0], y[0]), y[1] - x[1]])
