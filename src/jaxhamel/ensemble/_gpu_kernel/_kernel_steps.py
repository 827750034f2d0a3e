"""One Runge–Kutta step on vectors in registers.

There are two forms of a step with equal results. For a small right-hand side the stages are unrolled, without the zeros
of the tableau, which takes the fewest operations. For a larger one a loop runs over the stages, so that the kernel
contains a single right-hand side. Registers cannot be indexed: if stages need more than the preceding slope, the loop
selects each slope by comparisons, which takes s·n additional operations per stage. The loops therefore differ from those
of `simulate/_solvers/_runge_kutta.py`.
"""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel.simulate._solvers._runge_kutta import Tableau, step

Vectors = tuple
Read = Callable  # (first, index) -> a coefficient of the tableau, read from memory


def table(method: Tableau) -> np.ndarray:
    """The tableau as one row of numbers for `chained` and `looped`: a (for `chained` only its subdiagonal), b, c."""
    a = [*(row[i] for i, row in enumerate(method.a[1:])), 0.0] if method.chained else method.a
    return np.concatenate([np.ravel(a), method.b, method.c])


def chained(rate: Callable, tableau, stages: int, t, h, y: Vectors) -> Vectors:
    """A loop over stages that need only the preceding slope; it keeps two vectors for each entry of the state."""

    def stage(i, carry):
        here, total = carry
        ahead, b, c = (tableau[i + np.int32(k * stages)] for k in range(3))
        k = rate(t + c * h, here)
        here = tuple(x + (ahead * h) * slope for x, slope in zip(y, k, strict=True))
        return here, tuple(s + (b * h) * slope for s, slope in zip(total, k, strict=True))

    return lax.fori_loop(np.int32(0), np.int32(stages), stage, (y, y))[1]


def looped(rate: Callable, tableau, stages: int, t, h, y: Vectors) -> Vectors:
    """A loop over the stages of any explicit method; slopes that are not computed yet are zero."""
    b, c = np.int32(stages * stages), np.int32(stages * stages + stages)

    def along(first, slopes):
        total = tuple(jnp.zeros_like(x) for x in y)
        for j, k in enumerate(slopes):
            weight = tableau[first + np.int32(j)]
            total = tuple(s + weight * slope for s, slope in zip(total, k, strict=True))
        return tuple(x + h * s for x, s in zip(y, total, strict=True))

    def stage(i, slopes):
        k = rate(t + tableau[c + i] * h, along(i * np.int32(stages), slopes))
        return tuple(_where(i == np.int32(j), k, kept) for j, kept in enumerate(slopes))

    none = tuple(tuple(jnp.zeros_like(x) for x in y) for _ in range(stages))
    return along(b, lax.fori_loop(np.int32(0), np.int32(stages), stage, none))


def _where(here, new: Vectors, kept: Vectors) -> Vectors:
    return tuple(jnp.where(here, x, y) for x, y in zip(new, kept, strict=True))


def stepper(method: Tableau, operations: int, longest: int) -> tuple[Callable, np.ndarray]:
    """The step of a method as a function (rate, tableau, t, h, y) ↦ y₁, and the coefficients to pass as `tableau`.

    There is at least one coefficient, since kernels accept no empty arrays.
    """
    stages = len(method.b)
    if stages * operations <= longest:
        return lambda rate, tableau, *at: step(rate, method, *at), np.zeros(1)
    return partial(_staged, chained if method.chained else looped, stages), table(method)


def _staged(loop: Callable, stages: int, rate: Callable, tableau, *at):
    return loop(rate, tableau, stages, *at)
