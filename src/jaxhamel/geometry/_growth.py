"""The ranks at a configuration of the distributions that the allowed fields and their brackets span.

    D¹ = span X_i ,      D^{d+1} = D^d + span [X_i, D^d]

Levels are computed in order, each by brackets with one field X_i at a time, on truncated Taylor series (`_jets`): a bracket
of d fields needs d − 1 derivatives of the constraint rows. Bracket and derivative are linear, so only fields with linearly
independent series are kept at each level.
"""

from collections.abc import Callable, Iterator, Sequence
from math import comb
from typing import Any

import numpy as np

from jaxhamel.geometry._jets import allowed_fields, bracket, coefficients, monomials
from jaxhamel.geometry._space import AbstractSpace

_PAIRS = 200_000  # largest number of pairs of monomials in a product: a bracket then takes some tenths of a second
_ORDER = 6  # the largest number of nested derivatives of the rows: each doubles the program
Growth = tuple[int, ...]


def growths(
    constraints: Callable[..., Any],
    points: Sequence[Any],
    kernels: Sequence[np.ndarray],
    space: AbstractSpace,
    tolerance: float,
) -> Iterator[list[Growth]]:
    """Yields the ranks at several configurations: first the rank of D¹, then those of D¹ and D², and so on.

    **Arguments:** `kernels`: an orthonormal basis of the allowed velocities at each point, `(k, n)`.
    """
    rows = coefficients(constraints, points, space, 0)
    yield [
        _ranks(allowed_fields(r, N, 0), 0, tolerance) for r, N in zip(rows, kernels, strict=True)
    ]
    degree = 0
    while True:
        degree += 1
        more = coefficients(constraints, points, space, degree)
        rows = np.concatenate([rows, more], axis=1)
        fields = [allowed_fields(r, N, degree) for r, N in zip(rows, kernels, strict=True)]
        yield [_ranks(Z, degree, tolerance) for Z in fields]


def affordable_depth(n: int, depth: int) -> int:
    """The largest depth up to the given one, or 2, for which the series are computed within seconds."""
    affordable = (
        d for d in range(depth, 2, -1) if d <= _ORDER + 1 and comb(2 * n + d - 1, d - 1) < _PAIRS
    )
    return min(depth, next(affordable, 2))


def _ranks(Z: np.ndarray, degree: int, tolerance: float) -> Growth:
    """The ranks of D¹, …, D^{degree + 1}, ending at a full rank, from the series Z of the allowed fields to this degree."""
    n, k = Z.shape[1:]
    columns, ranks, level = np.zeros((n, 0)), [], Z
    for d in range(degree + 1):
        level = level if d == 0 else _next_level(Z, level, degree - d + 1, first=d == 1)
        level = _independent(level, tolerance)
        columns = np.concatenate([columns, level[0]], axis=1)
        ranks.append(_rank(columns, tolerance))
        if ranks[-1] == n or k == 0:
            break
    return tuple(ranks)


def _next_level(Z: np.ndarray, level: np.ndarray, degree: int, *, first: bool) -> np.ndarray:
    """The series of all brackets [X_i, Y_j] to degree − 1, side by side; for the first level only those with i < j."""

    def pick(i):
        return level[:, :, i + 1 :] if first else level

    of_degree = len(monomials(Z.shape[1], degree))
    Z = Z[:of_degree]
    found = [bracket(Z[:, :, i], pick(i)[:of_degree], degree) for i in range(Z.shape[2])]
    return np.concatenate(found, axis=2)


def _independent(level: np.ndarray, tolerance: float) -> np.ndarray:
    """The fields of a level, without those whose series are linear combinations of the others'."""
    if level.shape[2] <= level.shape[1]:
        return level
    flat = level.reshape(-1, level.shape[2])
    from scipy.linalg import qr  # takes a tenth of a second to import

    triangle, order = qr(flat, mode="r", pivoting=True)  # pyright: ignore[reportAssignmentType]
    kept = np.abs(np.diagonal(triangle)) > 1e-3 * tolerance
    return level[:, :, order[: len(kept)][kept]]


def _rank(columns: np.ndarray, tolerance: float) -> int:
    """The number of singular values of the columns above the tolerance.

    Columns longer than 1 are scaled to 1. Short ones are not scaled up, since that would turn rounding errors into
    directions.
    """
    lengths = np.linalg.norm(columns, axis=0)
    values = np.linalg.svd(columns / np.maximum(lengths, 1.0), compute_uv=False)
    return int(np.sum(values > tolerance))
