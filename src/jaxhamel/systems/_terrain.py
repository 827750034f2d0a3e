"""Terrain: ground whose height is a spline over the plane of x and y."""

from math import comb
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._splines import basis_values, local_basis, values_and_slopes
from jaxhamel._typing import Scalar
from jaxhamel.mechanics._description._parameters import as_parameter, parameter

DEGREE = 5  # the accelerations of a ball depend on second derivatives of the height; they are then smooth, too


class Terrain(eqx.Module):
    r"""Ground whose height h(x, y) on a rectangle is a uniform B-spline of degree 5, with continuous fourth derivatives:

        h(x, y) = Σ_jk c_jk N(ξ − j + 5) N(η − k + 5) ,    ξ = (x − x₀)(J − 5)/(x₁ − x₀) ,  η likewise with K

    N is the cardinal B-spline of degree 5. The height lies between the smallest and the largest of the 36 neighbouring
    coefficients, which it smooths; `Terrain.through` finds the coefficients for which it passes through measured
    heights. Outside of the rectangle the height continues linearly.

    **Arguments:**

    - `coefficients`: c [m], `(J, K)`, at least 6 in each direction; x grows with the first index.
    - `start`, `end`: the corners (x₀, y₀) and (x₁, y₁) of the rectangle [m], `(2,)`.

    **Raises:** `ValueError` for fewer coefficients, a rectangle without area, numbers that are not finite.

    Source: de Boor, A Practical Guide to Splines, ch. IX and XVII.
    """

    coefficients: Array = parameter("coefficients of the height's spline", "m", ("J", "K"))
    start: Array = parameter("corner with the smallest x and y", "m", (2,))
    end: Array = parameter("corner with the largest x and y", "m", (2,))

    def __init__(self, coefficients: ArrayLike, start: ArrayLike, end: ArrayLike):
        self.coefficients = as_parameter(coefficients)
        dtype = getattr(self.coefficients, "dtype", None)
        self.start, self.end = (jnp.asarray(corner, dtype) for corner in (start, end))

    def __check_init__(self) -> None:
        for name, shape in (("coefficients", ("J", "K")), ("start", (2,)), ("end", (2,))):
            _checks.check_shape(name, getattr(self, name), shape)
            _checks.check_finite(name, getattr(self, name))
        if min(self.coefficients.shape) <= DEGREE:
            raise ValueError(
                f"`coefficients` has shape {self.coefficients.shape}; a spline of degree {DEGREE} needs at least "
                f"{DEGREE + 1} in each direction. Repeat the rows of a terrain that does not change along an axis."
            )
        _check_rectangle(self.start, self.end)

    @classmethod
    def through(cls, heights: ArrayLike, start: ArrayLike, end: ArrayLike) -> "Terrain":
        """The terrain that passes through heights measured on a grid.

        **Arguments:**

        - `heights`: `(J, K)` [m], at points spaced evenly from `start` to `end`, both included; x grows with the
          first index. They may be traced, so that derivatives by them can be taken.
        - `start`, `end`: as for `Terrain`.
        """
        values: Any = as_parameter(heights)
        _checks.check_shape("heights", values, ("J", "K"))
        _checks.check_finite("heights", values)
        if min(values.shape) <= DEGREE:
            raise ValueError(
                f"`heights` has shape {values.shape}; a spline of degree {DEGREE} needs at least {DEGREE + 1} points in "
                "each direction."
            )
        along, across = (_interpolation(n).astype(values.dtype) for n in values.shape)
        return cls(along @ values @ across.T, start, end)

    def __call__(self, x: Float[Array, " 2"]) -> Scalar:
        """h(x), the height [m]."""
        x = jnp.asarray(x, self.start.dtype)
        (i, across), (j, along) = (self._weights(x, axis) for axis in (0, 1))
        size = (DEGREE + 1, DEGREE + 1)
        return across @ jax.lax.dynamic_slice(self.coefficients, (i, j), size) @ along

    def _weights(self, x: Array, axis: int) -> tuple[Array, Float[Array, " 6"]]:
        """The index of the first coefficient that acts at x along an axis, and the weights of that one and the next five."""
        segments = self.coefficients.shape[axis] - DEGREE
        place = (x[axis] - self.start[axis]) / (self.end[axis] - self.start[axis]) * segments
        below, above = place < 0, place > segments
        inside = jnp.where(below, 0.0 * place, jnp.where(above, segments + 0.0 * place, place))
        first = jnp.clip(jnp.floor(jax.lax.stop_gradient(inside)), 0, segments - 1)
        values, slopes = values_and_slopes(local_basis(DEGREE), inside - first)
        return first.astype(int), values + (place - inside) * slopes


def _interpolation(n: int) -> Float[np.ndarray, "n+4 n"]:
    """The matrix by which n evenly spaced heights give the n + 4 coefficients of the spline through them.

    At the first two and the last two points between the ends the fifth derivative does not jump either: the sixth
    differences of the coefficients there are zero. The spline of a polynomial of degree 5 is therefore the polynomial.
    """
    size = n + DEGREE - 1
    difference = [(-1) ** k * comb(DEGREE + 1, k) for k in range(DEGREE + 2)]
    free = size - DEGREE - 1
    conditions = np.zeros((DEGREE - 1, size))
    for row, first in zip(conditions, (0, 1, free - 2, free - 1), strict=True):
        row[first : first + DEGREE + 2] = difference
    values = basis_values(np.arange(n, dtype=float), size, DEGREE)
    return np.linalg.inv(np.concatenate([values, conditions]))[:, :n]


def _check_rectangle(start: Array, end: Array) -> None:
    low, high = _checks.concrete(start), _checks.concrete(end)
    if low is not None and high is not None and np.any(high <= low):
        raise ValueError(
            f"`start` is {low.tolist()} and `end` is {high.tolist()}; x and y of `end` must be larger than those of "
            "`start`."
        )
