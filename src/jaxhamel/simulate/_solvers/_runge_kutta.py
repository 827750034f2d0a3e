"""Explicit Runge–Kutta methods: coefficients, stages, and steps.

    k_i = f(t + c_i h, Y_i) ,   Y_i = y + h Σ_{j<i} a_ij k_j ,   y₁ = y + h Σ_i b_i k_i .

The explicit Runge–Kutta steps of the package use this module, for any pytree y; diffrax takes its own steps, and the GPU
kernel has loops of its own. `runge_kutta_step` unrolls the stages and skips zero weights, which takes the fewest operations.
`looped` runs a loop over the stages, which compiles the right-hand side only once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from jaxhamel._typing import Scalar, Time
from jaxhamel.simulate._checks import check_explicit_method

Y = TypeVar("Y", bound=PyTree[Float[Array, "..."]])
Rate = Callable[[Time, Y], Y]
Weights = tuple[float, ...]


class Method(Protocol):
    """The coefficients of a step: `a` s × s, strictly lower triangular; `b`, `c` of length s."""

    @property
    def a(self) -> tuple[Weights, ...]: ...
    @property
    def b(self) -> Weights: ...
    @property
    def c(self) -> Weights: ...


class Tableau(NamedTuple):
    """The coefficients of a method, without an error estimate, as plain numbers, so that it can be a static argument."""

    a: tuple[Weights, ...]
    b: Weights
    c: Weights

    @classmethod
    def of(cls, a: Any, b: Any, c: Any) -> "Tableau":
        """The tableau with coefficients from arrays."""
        return cls(tuple(map(tuple, np.asarray(a).tolist())), tuple(b), tuple(c))

    @property
    def chained(self) -> bool:
        """Whether each stage needs only the preceding slope, so that a running sum of the slopes suffices."""
        a = np.asarray(self.a)
        return not np.any(a - np.diag(np.diag(a, -1), -1))


RK4 = Tableau.of(  # Kutta 1901
    [[0.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
    b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    c=(0.0, 0.5, 0.5, 1.0),
)


def tableau(method: Any) -> Tableau:
    """The tableau of `"rk4"` (Kutta 1901) or of an explicit Runge–Kutta method of diffrax, without its error estimate.

    Last stages on which y₁ does not depend, such as one for the error estimate, are left out.

    **Raises:** `TypeError` for anything else.
    """
    if isinstance(method, str) and method == "rk4":
        return RK4
    check_explicit_method(method)
    a, b, c = numbers_of(cast(Any, method).tableau)
    last = int(np.flatnonzero(b)[-1]) + 1
    s = 1 + max(i for i in range(len(b)) if b[i] or np.any(a[:last, i]))
    return Tableau.of(a[:s, :s], b[:s].tolist(), c[:s].tolist())


def numbers_of(given: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a as a square matrix, b and c, each with all s stages, of a diffrax `ButcherTableau`."""
    stages = len(given.b_sol)
    a = np.zeros((stages, stages))
    for i, row in enumerate(given.a_lower, start=1):
        a[i, : len(row)] = row
    return a, np.asarray(given.b_sol), np.concatenate([[0.0], given.c])


def increment(h: Scalar, weights: Sequence[float], slopes: Sequence[Y]) -> Y:
    """h Σ_i w_i k_i over the slopes computed so far."""
    used = [(h.dtype.type(w), k) for w, k in zip(weights, slopes, strict=False) if w]
    if not used:
        return jax.tree.map(jnp.zeros_like, slopes[0])

    def add(*ks):
        return h * sum(w * k for (w, _), k in zip(used, ks, strict=True))

    return jax.tree.map(add, *(k for _, k in used))


def incremented(y: Y, h: Scalar, weights: Sequence[float], slopes: Sequence[Y]) -> Y:
    """y + h Σ_i w_i k_i."""
    if not any(weights[: len(slopes)]):
        return y
    return jax.tree.map(lambda x, d: x + d, y, increment(h, weights, slopes))


def stages(
    rate: Rate, method: Method, t: Time, h: Scalar, y: Y, first: Y | None = None
) -> tuple[list[Y], list[Y]]:
    """The stages Y_1 … Y_s and their slopes k_1 … k_s, unrolled; `first` is k_1 if it is known."""
    points, slopes = [y], [rate(t, y) if first is None else first]
    for weights, c in zip(method.a[1:], method.c[1:], strict=True):
        points.append(incremented(y, h, weights, slopes))
        slopes.append(rate(t + h.dtype.type(c) * h, points[-1]))
    return points, slopes


def runge_kutta_step(
    rate: Rate, method: Method, t: Time, h: Scalar, y: Y, first: Y | None = None
) -> Y:
    """y₁, with unrolled stages; `first` is k_1 if it is known."""
    return incremented(y, h, method.b, stages(rate, method, t, h, y, first)[1])


def looped(rate: Rate, method: Tableau, t: Time, h: Scalar, y: Y) -> tuple[Y, Y]:
    """y₁, and the slopes along a leading axis, by a loop over the stages."""
    return (_chained if method.chained else _full)(rate, method, t, h, y)


def _chained(rate: Rate, method: Tableau, t: Time, h: Scalar, y: Y) -> tuple[Y, Y]:
    """The loop for methods whose stages need only the preceding slope; it carries one point and one running sum."""
    ahead = [*(row[i] for i, row in enumerate(method.a[1:])), 0.0]

    def along(y, d, k):
        return jax.tree.map(lambda x, k: x + d * k, y, k)

    def stage(carry, numbers):
        point, total = carry
        ahead, b, c = numbers
        k = rate(t + c * h, point)
        return (along(y, ahead * h, k), along(total, b * h, k)), k

    numbers = tuple(jnp.asarray(x, h.dtype) for x in (ahead, method.b, method.c))
    (_, end), slopes = jax.lax.scan(stage, (y, y), numbers)
    return end, slopes


def _full(rate: Rate, method: Tableau, t: Time, h: Scalar, y: Y) -> tuple[Y, Y]:
    """The loop for any method."""
    slopes = looped_slopes(rate, method, t, h, y)
    return point_of(h, y, jnp.asarray(method.b, h.dtype), slopes), slopes


def looped_slopes(
    rate: Rate, method: Method, t: Time, h: Scalar, y: Y, first: Y | None = None
) -> Y:
    """The slopes k_1 … k_s along a leading axis, by a loop over the stages; `first` is k_1 if it is known.

    The loop carries all slopes, of which later ones are still zero.
    """
    a, c = (jnp.asarray(x, h.dtype) for x in (method.a, method.c))

    def with_slope(slopes, i, k):
        return jax.tree.map(lambda all_k, k: all_k.at[i].set(k), slopes, k)

    def stage(slopes, numbers):
        i, weights, c = numbers
        return with_slope(slopes, i, rate(t + c * h, point_of(h, y, weights, slopes))), None

    places = jnp.arange(len(method.b))
    slopes = jax.tree.map(lambda x: jnp.zeros((len(method.b), *x.shape), x.dtype), y)
    if first is not None:
        slopes = with_slope(slopes, 0, first)
        places, a, c = places[1:], a[1:], c[1:]
    return jax.lax.scan(stage, slopes, (places, a, c))[0]


def point_of(h: Scalar, y: Y, weights: Float[Array, "... s"], slopes: Y) -> Y:
    """y + h Σ_i w_i k_i, with the slopes along a leading axis; each row of several rows of weights gives one point."""

    def along(x, k):
        total = jnp.tensordot(weights, k, 1)
        return jnp.broadcast_to(x, total.shape) + h * total

    return jax.tree.map(along, y, slopes)
