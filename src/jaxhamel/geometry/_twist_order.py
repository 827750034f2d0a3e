"""Between (ω, v), as here and in Müller 2021, and (v, ω), as in From 2012 and jaxlie.

The change of order is the permutation P = [[0, 1], [1, 0]] (blocks of three), its own inverse and
transpose. So twists go as P x, and so do wrenches, (moment, force) ↔ (force, moment), which leaves
the power wᵀx the same; matrices that act on either (Ad, ad, an inertia) go as P M P.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks


def _swap(x, axis: int):
    return jnp.roll(x, 3, axis=axis)


def linear_first(x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6"]:
    """(ω, v) → (v, ω) of twists, (moment, force) → (force, moment) of wrenches.

    **Arguments:** `x`: `(..., 6)`. **Returns:** P x, `(..., 6)`. **Raises:** `ValueError` for another last axis.
    """
    _checks.check_last_axes("x", x, (6,), "twists or wrenches")
    return _swap(x, -1)


def angular_first(x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6"]:
    """(v, ω) → (ω, v) of twists, (force, moment) → (moment, force) of wrenches; the same permutation as `linear_first`.

    **Arguments:** `x`: `(..., 6)`. **Returns:** P x, `(..., 6)`. **Raises:** `ValueError` for another last axis.
    """
    return linear_first(x)


def linear_first_matrix(matrix: Float[Array, "*batch 6 6"]) -> Float[Array, "*batch 6 6"]:
    """P M P, of a matrix `(..., 6, 6)` (Ad, ad, inertia) that acts on (ω, v), now on (v, ω)."""
    _checks.check_last_axes("matrix", matrix, (6, 6), "matrices on twists or wrenches")
    return _swap(_swap(matrix, -1), -2)


def angular_first_matrix(matrix: Float[Array, "*batch 6 6"]) -> Float[Array, "*batch 6 6"]:
    """P M P, of a matrix `(..., 6, 6)` (Ad, ad, inertia) that acts on (v, ω), now on (ω, v)."""
    return linear_first_matrix(matrix)
