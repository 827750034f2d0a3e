"""Explicit Runge–Kutta methods as numbers: k_i = f(t + c_i h, y + h Σ_j a_ij k_j), y₁ = y + h Σ_i b_i k_i."""

from typing import Any, NamedTuple, cast

import diffrax
import numpy as np

from jaxhamel import _checks

Row = tuple[float, ...]


class Tableau(NamedTuple):
    """`a` s × s, strictly lower triangular; `b`, `c` of length s. Plain numbers, so that it can be a static argument."""

    a: tuple[Row, ...]
    b: Row
    c: Row

    @classmethod
    def of(cls, a, b, c) -> "Tableau":
        """From arrays."""
        return cls(tuple(map(tuple, np.asarray(a).tolist())), tuple(b), tuple(c))

    @property
    def chained(self) -> bool:
        """Whether each stage needs only the one before: then a running sum is all that has to be kept."""
        a = np.asarray(self.a)
        return not np.any(a - np.diag(np.diag(a, -1), -1))


RK4 = Tableau.of(
    [[0.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
    b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    c=(0.0, 0.5, 0.5, 1.0),
)


def tableau(method: Any) -> Tableau:
    """The tableau of `"rk4"` (Kutta 1901) or of an explicit Runge–Kutta method of diffrax, without its error estimate.

    A last stage that only serves the error estimate, or is the first stage of the next step, is left out.

    **Raises:** `TypeError` for anything else.
    """
    if isinstance(method, str) and method == "rk4":
        return RK4
    _checks.check_explicit_method(method, diffrax.AbstractERK)
    given = cast(Any, method).tableau
    stages = len(given.b_sol)
    a, b, c = np.zeros((stages, stages)), np.asarray(given.b_sol), [0.0, *given.c.tolist()]
    for i, row in enumerate(given.a_lower, start=1):
        a[i, : len(row)] = row
    needed = [i for i in range(stages) if b[i] or np.any(a[: _last(b), i])]
    s = needed[-1] + 1
    return Tableau.of(a[:s, :s], b[:s].tolist(), c[:s])


def _last(b) -> int:
    return int(np.flatnonzero(b)[-1]) + 1
