"""The transpose of a linear map by its columns, each computed forward."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def transposed_by_columns(forward: Callable, x: Sequence[Any], y_bar: Sequence[Any]) -> list[Any]:
    """The transpose of a linear map: x̄_i = Σ_j ȳ_j forward(e_i)_j, evaluated for all unit vectors e_i at once.

    **Arguments:** `forward`: linear, of a list of arrays shaped as `x`, to a list shaped as `y_bar`.
    """
    columns = jax.vmap(forward)(_basis(x))
    total = sum(_dot(column, bar) for column, bar in zip(columns, y_bar, strict=True))
    return _split(total, x)


def _basis(x):
    """The unit vectors of a list of arrays, stacked: a list of arrays with one more leading axis."""
    ends = np.cumsum([v.size for v in x])
    eye = np.eye(ends[-1])
    blocks = np.split(eye, ends[:-1], axis=1)
    return [
        jnp.asarray(block.reshape(ends[-1], *v.shape), dtype=v.dtype)
        for block, v in zip(blocks, x, strict=True)
    ]


def _dot(column, bar):
    # An unused output has ȳ = 0 but may have an infinite tangent (an unused buffer); it must not contribute NaN.
    bar = bar[None, ...]
    terms = jnp.where(bar == 0, jnp.zeros_like(column), column * bar)
    return jnp.sum(terms.reshape(column.shape[0], -1), axis=1)


def _split(total, x):
    ends = np.cumsum([v.size for v in x])
    pieces = jnp.split(total, ends[:-1])
    return [piece.reshape(v.shape).astype(v.dtype) for piece, v in zip(pieces, x, strict=True)]
