"""Finds directions in which the data do not determine the parameters, and describes them in words.

Such directions are eigenvectors of the Fisher information F with small eigenvalues λ: the standard deviation along a unit
vector of the dimensionless coordinates z is 1/√λ. The data do not determine a direction if 1/√λ exceeds `LOOSE`, a change of
100 % in one parameter, or if λ is below the rounding error of F.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LOOSE = 1.0
ROUNDING = 1e-13
LEAST_SHARE = 0.05  # a quantity belongs to a direction if its change is at least this share of the largest change


class Flat(NamedTuple):
    """A direction that the data do not determine.

    - `words`: a sentence that describes it.
    - `change`: the change of each quantity along it, relative to the change that counts as 100 %.
    - `width`: the standard deviation 1/√λ along it.
    """

    words: str
    change: Float[np.ndarray, " r"]
    width: float


def flat_directions(F, jacobian, values, sizes, names):
    """Divides the space of parameters into directions that the data determine and flat directions.

    **Arguments:**

    - `F`: Fisher information of the coordinates z, `(P, P)`.
    - `jacobian`: derivatives of the r quantities by z, `(r, P)`.
    - `values`, `sizes`, `names`: of each quantity its value, the change that counts as 100 %, and its name.

    **Returns:** the covariance of z in the determined directions `(P, P)`, the list of flat directions, and for each
    quantity whether a flat direction changes it `(r,)`.
    """
    if F.shape[0] == 0:
        return np.zeros((0, 0)), [], np.zeros(len(values), bool)
    if not (np.isfinite(F).all() and np.isfinite(jacobian).all()):  # the motion broke down
        return np.full(F.shape, np.nan), [], np.zeros(len(values), bool)
    eigenvalues, vectors = np.linalg.eigh((F + F.T) / 2)
    floor = max(1.0 / LOOSE**2, ROUNDING * max(eigenvalues[-1], 0.0))
    loose = eigenvalues < floor
    kept = vectors[:, ~loose]
    covariance = kept @ np.diag(1 / eigenvalues[~loose]) @ kept.T
    relative = jacobian / np.where(sizes > 0, sizes, 1.0)[:, None]
    changes = relative @ _simple(vectors[:, loose], relative)
    undetermined = np.zeros(len(values), bool)
    if changes.shape[1] and (largest := np.max(np.abs(changes))) > 0:
        undetermined = np.max(np.abs(changes), axis=1) > 1e-3 * largest
    widths = 1 / np.sqrt(np.maximum(eigenvalues[loose], np.finfo(float).tiny))
    own = np.where(np.abs(values) > 1e-6 * sizes, sizes / np.where(values == 0, 1.0, values), 0.0)
    flat = [
        Flat(in_words(change, change * own, names), change, float(width))
        for change, width in zip(changes.T, widths, strict=True)
    ]
    return covariance, flat, undetermined


def _simple(flat: np.ndarray, relative: np.ndarray) -> np.ndarray:
    """A basis of the space of flat directions in which each direction changes few quantities.

    Gaussian elimination with full pivoting reduces the matrix of the changes of the quantities along the directions.

    **Arguments:** `flat`: the directions as columns, `(P, c)`; `relative`: derivatives of the quantities by z, each divided
    by the change that counts as 100 %, `(r, P)`. **Returns:** c unit vectors as columns, `(P, c)`.
    """
    basis = flat.copy()
    count = basis.shape[1]
    if count < 2:
        return basis
    for column in range(count):
        changes = relative @ basis[:, column:]
        row, best = np.unravel_index(np.argmax(np.abs(changes)), changes.shape)
        best += column
        basis[:, [column, best]] = basis[:, [best, column]]
        of_row = relative[row] @ basis
        for other in range(count):
            if other != column and of_row[column] != 0:
                basis[:, other] -= basis[:, column] * of_row[other] / of_row[column]
    return basis / np.linalg.norm(basis, axis=0)


def in_words(change: np.ndarray, own: np.ndarray, names: list[str]) -> str:
    """Describes a flat direction in one sentence.

    **Arguments:** `change`: the change of each quantity along the direction, relative to the change that counts as 100 %;
    `own`: the change relative to the quantity's own value; `names`: the names of the quantities.
    """
    largest = np.max(np.abs(change), initial=0.0)
    taking = (
        np.flatnonzero(np.abs(change) > LEAST_SHARE * largest) if largest > 0 else np.array([], int)
    )
    if len(taking) == 0:
        return "The data leave a direction open that changes none of the reported quantities."
    named = [names[i] for i in taking]
    if len(taking) == 1:
        return f"The data do not determine {named[0]}."
    shares = own[taking] / own[taking[0]] if own[taking[0]] else np.full(len(taking), np.nan)
    if np.allclose(shares, 1.0, rtol=0.05):
        if len(taking) == 2:
            return f"Only the ratio of {_and(named)} is determined, not each of them."
        return f"Only the ratios of {_and(named)} are determined: a common factor of all of them is not."
    if len(taking) == 2 and np.allclose(shares, [1.0, -1.0], rtol=0.05):
        return f"Only the product of {_and(named)} is determined, not each of them."
    parts = [
        f"{name} by {100 * change[i] / largest:+.0f} %"
        for i, name in zip(taking, named, strict=True)
    ]
    return f"{_and(named)} are not determined separately: the data allow to change {_and(parts)} together."


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
