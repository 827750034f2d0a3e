"""The second-order condition: eigenvalues of the Hessian on the null space of the active constraints' gradients, and
whether these gradients are independent.

In the controls v = (c, p) all of these are dense matrices (`_reduced_matrices`).
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from jaxhamel.control._certificate._isolation import FlatDirection
from jaxhamel.control._certificate._reduced_matrices import (
    Dense,
    ReducedMatrices,
    reduced_matrices,
    with_like_controls,
)
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._condensation import Shapes
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState

MOST_CONTROLS = 3000  # with more controls and parameters the eigenvalues are not computed
CLEAR = 1e-5  # the share of the largest curvature above which the one per unit of the control's integrals is positive
OTHER_STARTS = "; begin with another `curve` or `guess`, or with many by control.solve_many"
FAINT = 1e-8  # the largest rounding error, as a share of the largest curvature, beside which `CLEAR` is clear
INTEGRALS = {1: "integral", 2: "double integral"}
ZERO_ROW = 1e-13  # length of a constraint's gradient relative to the longest one, below which it is rounding


class SecondOrder(NamedTuple):
    """The outcome of the second-order condition.

    - `kind`: a value of `Certificate.second_order`; `unique`: whether the multipliers are unique; `words`: a sentence.
    - `along`: the direction of least curvature if this curvature does not decide on the kind, else None. It does not if it
      is zero; if it is negative and the multipliers are not unique, because other multipliers may make it positive; or if it
      is negative only without the barrier of the limits.
    - `falls`: whether the curvature along this direction is negative, with the barrier too.
    - `examined`: whether the eigenvalues were computed; `none`: a sentence if there are no multipliers, otherwise empty.
    """

    kind: str
    unique: bool
    words: str
    along: FlatDirection | None = None
    falls: bool = False
    examined: bool = True
    none: str = ""

    def without_multipliers(self, words: str) -> "SecondOrder":
        """The outcome if no multipliers exist: the curvature of the Lagrangian then decides nothing."""
        unknown = "curvature: undecided without multipliers"
        return self._replace(kind="undecided", unique=False, words=unknown, none=words)

    @property
    def on_multipliers(self) -> str:
        """States in one sentence whether the multipliers are unique."""
        if self.none:
            return self.none
        if not self.examined:
            return "multipliers: not examined"
        return f"multipliers: {'unique' if self.unique else 'not unique, constraints depend on one another'}"


NOT_EXAMINED = SecondOrder("undecided", False, "curvature: undecided", examined=False)


def second_order(transcription: Transcription, state: SearchState, parts: Parts) -> SecondOrder:
    """The second-order condition at an iterate, from the derivatives `parts` at the iterate."""
    shapes = Shapes.of(transcription)
    N = state.w.c.shape[0]
    count = N * shapes.c + shapes.p
    if count > MOST_CONTROLS:
        return NOT_EXAMINED._replace(words=f"curvature: undecided, {count} controls are too many")
    try:
        found = reduced_matrices(transcription, state, parts)
    except np.linalg.LinAlgError:  # the weights of the feedback are beyond rounding
        return NOT_EXAMINED._replace(words="curvature: undecided, numbers differ too much in size")
    if not all(np.all(np.isfinite(x)) for x in found):
        return NOT_EXAMINED._replace(words="curvature: undecided, not finite")
    if shapes.c:
        found = with_like_controls(found, transcription.n_controls)
    basis, unique = _null_space(found.D, float(np.finfo(state.w.c.dtype).eps))
    if not basis.shape[1]:
        return SecondOrder("strict minimum", unique, "minimum: the constraints leave no direction")
    return _by_curvature(found, basis, unique, state)


def _by_curvature(
    found: ReducedMatrices, basis: Dense, unique: bool, state: SearchState
) -> SecondOrder:
    """The outcome by the eigenvalues of the Hessian in the directions of `basis`.

    A negative curvature that the barrier of limits which nearly bind makes positive leaves the kind open: in its direction
    a motion soon meets these limits.
    """
    values, vectors = np.linalg.eigh(basis.T @ found.H @ basis)
    least, size = float(values[0]), float(np.max(np.abs(values)))
    rounding = 1e3 * float(np.finfo(state.w.c.dtype).eps)
    small = max(max(1e-7, rounding) * size, rounding * found.largest_term)
    shown = f"least curvature {least:.2e} per unit of control"
    if least > small:
        return SecondOrder("strict minimum", unique, f"strict minimum: {shown}")
    floor = rounding * found.largest_term
    for times, integral in INTEGRALS.items() if _may_be_slow(least, floor, size) else ():
        slow = _least_by_integral(found, basis, floor, times)
        if slow > CLEAR * size:
            shown += f", {slow:.2e} per unit of its {integral}, as on singular arcs"
            return SecondOrder("strict minimum", unique, f"strict minimum: {shown}")
    with_barrier = np.linalg.eigvalsh(basis.T @ (found.H + found.barrier) @ basis)
    held = bool(least < -small and with_barrier[0] > small)
    shown += ", positive with the barrier of the limits" if held else ""
    falls = least < -small and not held
    if falls and unique:
        return SecondOrder("not a minimum", unique, f"not a minimum: {shown}{OTHER_STARTS}")
    direction = basis @ vectors[:, 0]
    count = state.w.c.size
    change = (
        (found.controls @ direction).reshape(state.w.c.shape),
        direction[count:],
        (found.nodes @ direction).reshape(state.w.x.shape),
    )
    alone = held or int(np.sum(values <= small)) == 1
    return SecondOrder("undecided", unique, shown, FlatDirection(*change, size, alone), falls)


def _may_be_slow(least: float, floor: float, size: float) -> bool:
    """Whether to compute the least curvature per unit of the control's integrals, too.

    It is if the least curvature is positive beyond the rounding error `floor`. It also is if that curvature is zero within
    the rounding error and the error is small beside `CLEAR`: a smooth flat direction then still counts as flat.
    """
    return least > floor or (least > -0.5 * floor and floor < FAINT * size)


def _least_by_integral(found: ReducedMatrices, basis: Dense, floor: float, times: int) -> float:
    """The least curvature per ∫|∫δc dt|² dt / T² and, if `times` is 2, per ∫|∬δc dt|² dt / T⁴: the norms in which singular
    arcs of order 1 and 2 have a positive one.

    Per ∫|δc|² dt it is as small as the intervals are short, since the cost and the rates are linear in the control.

    Source: Goh 1966.
    """
    H = basis.T @ found.H @ basis + floor * np.eye(basis.shape[1])
    along = np.linalg.matrix_power(found.integrals, times) @ basis
    longest = eigh(along.T @ along, H, eigvals_only=True, subset_by_index=[len(H) - 1] * 2)[0]
    return 1.0 / float(longest)


def _null_space(D: Dense, eps: float) -> tuple[Dense, bool]:
    """An orthonormal basis of the directions with D v = 0, and whether the rows of D are independent.

    `eps`: the rounding unit of the rows' entries.
    """
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    if not D.shape[0]:
        return np.eye(D.shape[1], dtype=D.dtype), True
    zero = lengths <= ZERO_ROW * np.max(lengths, initial=0.0)
    scaled = np.where(zero, 0.0, D / np.where(zero, 1.0, lengths))
    _, sizes, rows = np.linalg.svd(scaled, full_matrices=True)
    tiny = min(1e6 * eps, eps**0.5) * float(sizes[0])  # 2e-10, in single precision 3e-4
    rank = int(np.sum(sizes > tiny))
    return rows[rank:].T, rank == D.shape[0]
