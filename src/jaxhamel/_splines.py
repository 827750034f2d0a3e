"""The uniform B-spline of degree d: its basis on one segment."""

from math import comb, factorial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import polynomial

from jaxhamel._typing import Scalar


def local_basis(degree: int) -> Float[np.ndarray, "d+1 d+1"]:
    """The basis polynomials of a segment i: row j has the polynomial in x − i that multiplies coefficient i + j.

    From N_d(x) = 1/d! Σ_k (−1)^k C(d+1, k) (x − k)_+^d at x = u + d − j.
    """
    rows = np.zeros((degree + 1, degree + 1))
    for j in range(degree + 1):
        for k in range(degree - j + 1):
            power = polynomial.polypow([degree - j - k, 1.0], degree)
            rows[j] += (-1) ** k * comb(degree + 1, k) / factorial(degree) * power
    return rows


def values_and_slopes(rows: Float[np.ndarray, "d+1 d+1"], x: Scalar) -> tuple[Array, Array]:
    """Values and slopes of the polynomials with the given coefficient rows at x, by Horner's rule."""
    columns = np.asarray(rows, dtype=x.dtype).T  # NumPy indexes without operations of the program
    value, slope = jnp.asarray(columns[-1]), jnp.zeros(columns.shape[1], x.dtype)
    for column in columns[-2::-1]:
        slope = slope * x + value
        value = value * x + column
    return value, slope


def basis_values(x: Float[np.ndarray, " T"], n: int, degree: int) -> Float[np.ndarray, "T n"]:
    """The values of all n basis functions at x in [0, n − d], in units of a segment; computed on the host."""
    segment = np.clip(np.floor(x), 0, n - degree - 1).astype(int)
    local = polynomial.polyval(x - segment, local_basis(degree).T)
    matrix = np.zeros((len(x), n))
    for j, row in enumerate(local):
        matrix[np.arange(len(x)), segment + j] = row
    return matrix
