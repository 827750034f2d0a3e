"""Operators of a configuration space on velocities and covectors, factor by factor, without a block matrix."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Velocity
from jaxhamel.geometry import AbstractSpace, Product
from jaxhamel.geometry._space import AbstractAbelianSpace


def apply(operator: str, space: AbstractSpace, phi: Velocity, vector: Velocity) -> Velocity:
    """M_φ x for M the space's `operator`, "dexp" or "dexpinv"."""
    return _each(lambda matrix, x: matrix @ x, operator, space, phi, vector)


def apply_dual(
    operator: str, space: AbstractSpace, phi: Velocity, covector: Float[Array, " n"]
) -> Float[Array, " n"]:
    """M_φᵀ p: the same on covectors."""
    return _each(lambda matrix, p: p @ matrix, operator, space, phi, covector)


def _each(product, operator, space, phi, x):
    if isinstance(space, Product):
        factors = zip(space.spaces, space.split(phi), space.split(x), strict=True)
        return jnp.concatenate([_each(product, operator, *factor) for factor in factors])
    if isinstance(space, AbstractAbelianSpace):
        return x
    return product(getattr(space, operator)(phi), x)


def advance(space: AbstractSpace, q: Configuration, delta: Velocity) -> Configuration:
    """q·exp(δ), normalised against rounding: the end of a step."""
    return space.normalise(space.retract(q, delta))
