"""A transcription's derivatives, residuals, multipliers and bounds in the sizes of its unknowns and equations, and back.

With x = S x̂ and equations F̂ = F / s, a cost J(x) has the gradient S ∇J and the Hessian S ∇²J S, and a multiplier of F
becomes s λ, so that products of multipliers and residuals stay. Without sizes (None) nothing is computed.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel.control._charts._start_nodes import StartDerivatives, turning_of
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Derivatives, Duals, Parts, Residuals
from jaxhamel.control._interior_point._direction import Direction
from jaxhamel.control._scaling._sizes import TypicalSizes, in_size, of_size


class Scaled(NamedTuple):
    """A transcription whose bounds are divided by the sizes, the iterate's slacks and parameters, and its derivatives.

    States and controls of `w` are not divided: the equations of Newton's direction do not contain them.
    """

    transcription: Transcription
    w: CollocationPoint
    duals: Duals
    parts: Parts


def scaled(transcription: Transcription, w: CollocationPoint, duals: Duals, parts: Parts) -> Scaled:
    """Divides bounds, slacks, parameters, multipliers and derivatives by the sizes that the transcription has for them."""
    sizes = transcription.sizes
    if sizes is None:
        return Scaled(transcription, w, duals, parts)
    limits, p = sizes.limits, sizes.p
    bounds = dataclasses.replace(
        transcription,
        lower=in_size(transcription.lower, limits),
        upper=in_size(transcription.upper, limits),
        p_lower=transcription.p_lower / p,
        p_upper=transcription.p_upper / p,
    )
    w = w._replace(slack=in_size(w.slack, limits), p=w.p / p)
    points, T = len(transcription.rule.points), turning_of(transcription)
    return Scaled(bounds, w, scaled_duals(sizes, duals), _scaled_parts(sizes, points, T, parts))


def scaled_duals(sizes: TypicalSizes, duals: Duals) -> Duals:
    """The multipliers of the divided equations and bounds."""
    x, _, p, conditions, limits = sizes
    by = Duals(x, x, conditions, limits, limits, limits, p, p)
    return Duals(*map(of_size, duals, by))


def scaled_residuals(sizes: TypicalSizes | None, residuals: Residuals) -> Residuals:
    """The residuals divided by the sizes of their equations."""
    if sizes is None:
        return residuals
    by = Residuals(sizes.x, sizes.x, sizes.conditions, sizes.limits)
    return Residuals(*map(in_size, residuals, by))


def _scaled_parts(sizes: TypicalSizes, points: int, T: np.ndarray, parts: Parts) -> Parts:
    """The derivatives of the divided equations by the divided unknowns; `points`: their number in an interval."""
    x, c, p, conditions, limits = sizes
    controls = jnp.tile(c, points)
    rows = parts.first.value.shape[0]
    return Parts(
        _scaled_part(parts.points, jnp.concatenate([x, limits]), jnp.concatenate([x, c, p])),
        _scaled_part(parts.ends, x, x),
        _scaled_part(parts.first, conditions[:rows], jnp.concatenate([controls, p])),
        _scaled_part(parts.last, conditions[rows:], jnp.concatenate([x, controls, p])),
        _scaled_starts(x[T], points, parts.starts),
    )


def _scaled_starts(
    x: Float[Array, " t"], points: int, starts: StartDerivatives
) -> StartDerivatives:
    """The derivatives by nodes and stages with the sizes `x` of their coordinates."""
    columns = jnp.tile(x, points + 1)
    return StartDerivatives(
        of_size(starts.jacobian, x[None] / x[:, None]),
        of_size(starts.hessian, x[:, None] * columns[None]),
    )


def _scaled_part(
    part: Derivatives, rows: Float[Array, " f"], columns: Float[Array, " y"]
) -> Derivatives:
    """The derivatives of a part whose values are divided by `rows` and whose unknowns by `columns`."""
    return Derivatives(
        in_size(part.value, rows),
        part.cost,
        of_size(part.jacobian, columns[None] / rows[:, None]),
        of_size(part.gradient, columns),
        of_size(part.hessian, columns[None] * columns[:, None]),
    )


def unscaled(sizes: TypicalSizes | None, move: Direction) -> Direction:
    """A direction and its multipliers in the units of the problem."""
    if sizes is None:
        return move
    x, c, p, _, limits = sizes
    duals = scaled_duals(TypicalSizes(*(1.0 / size for size in sizes)), move.duals)
    return move._replace(
        delta=of_size(move.delta, x), X=of_size(move.X, x), c=of_size(move.c, c), p=move.p * p,
        slack=of_size(move.slack, limits), duals=duals,
    )  # fmt: skip
