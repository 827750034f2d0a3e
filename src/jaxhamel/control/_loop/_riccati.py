"""The Riccati equation of a linear–quadratic problem along a plan, integrated backwards in time."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks, _lapack
from jaxhamel._lanes._graph._primitive import LONGEST_PRODUCT
from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, IN_KERNEL, compiled_with, is_outermost
from jaxhamel._lanes._xla_cpu._one_kernel import as_one_kernel
from jaxhamel._lanes._xla_cpu._whole_loop import loops_work
from jaxhamel._typing import Scalar
from jaxhamel.control._loop._linearised_plan import INTERVALS, NODES
from jaxhamel.simulate._solvers._runge_kutta import looped, point_of, tableau

Matrix = Float[Array, "d d"]
ProductOfTwo = Callable[[Array, Array], Array]
# The Riccati equation is integrated by a method of order 8 (Prince and Dormand 1981), which at the cost of four steps of RK4
# is 1e4 to 1e6 times as accurate (docs/performance.md#regulator).
METHOD = tableau(diffrax.Dopri8())
ERROR = diffrax.Dopri8().tableau.b_error[: len(METHOD.b)].tolist()
TIMES_OF_RATES = 32  # number of times, about, at which the rates of the closed loop are computed
SQUARINGS = 10  # the rates are found from the 2^10th powers of matrices, to about 1 %
MOST_HALVINGS = 8  # a step has at most 2^8 parts
# The number of steps before the end in which P may change fast because the final cost is large.
ENDING = 16


class RiccatiSolution(NamedTuple):
    """P and K at the ends of all steps, and the estimated error of P at the first time, as a share of its largest entry.

    The estimate is that of the embedded method of order 7, which is less accurate than P.
    """

    values: Float[Array, "N+1 d d"]
    gains: Float[Array, "N+1 p d"]
    error: Scalar


class _Known(NamedTuple):
    """P at a time, and its estimated error E."""

    P: Matrix
    E: Matrix


def riccati(
    A: Float[Array, "M d d"],
    B: Float[Array, "M d p"],
    costs,
    h: Float[Array, " N"],
    parts: int,
) -> RiccatiSolution:
    """P and K = R⁻¹ Bᵀ P at the ends of all steps, integrated backwards from P(T) = S:

        −Ṗ = AᵀP + P A − 2 P G P + Q = X + Xᵀ + Q ,    X = P (A − G P) ,    G = ½ B R⁻¹ Bᵀ .

    The method of order 8 runs backwards with the steps `h`, each divided into `parts`. A and B are given at the nodes of the
    steps, M = 4 N + 1; A and G are quartic polynomials in a step. In the last `ENDING` steps P is found from a linear
    equation, in which a large S is not a fast rate. The error E of P obeys

        −Ė = CᵀE + E C ,    C = A − 2 G P ,

    to which each part of a step adds the difference of the two methods.
    """
    fits = len(METHOD.b) * A.shape[1] ** 2 <= LONGEST_PRODUCT
    if fits and is_outermost((A, B, costs, h)) and loops_work():
        return _by_one_kernel(A, B, costs, h, parts)
    return _by_products(A, B, costs, h, parts)


@compiled_with(IN_KERNEL)
def _by_one_kernel(A, B, costs, h, parts: int) -> RiccatiSolution:
    """The solution with all quadratic steps as one kernel of XLA's, which takes products of small matrices row by row."""

    def run(*arrays):
        return as_one_kernel(partial(_quadratic_steps, _by_rows, parts))(*arrays)

    return _solution(run, A, B, costs, h, parts)


@compiled_with(FEW_RUNS)
def _by_products(A, B, costs, h, parts: int) -> RiccatiSolution:
    """The solution with calls of a library for the products of matrices: for derivatives, and for large matrices."""
    return _solution(partial(_quadratic_steps, jnp.matmul, parts), A, B, costs, h, parts)


def _by_rows(X: Matrix, Y: Matrix) -> Matrix:
    """X Y by a loop over the rows of X. XLA computes operands of a loop once; in a sum of all terms it would compute the
    operations that give Y once more for each term."""

    def row(i, out):
        return out.at[i].set(sum(X[i, j] * Y[j] for j in range(len(Y))))

    return jax.lax.fori_loop(0, len(X), row, jnp.zeros((len(X), Y.shape[1]), Y.dtype))


def _solution(quadratic_steps: Callable, A, B, costs, h, parts: int) -> RiccatiSolution:
    """The solution; `quadratic_steps` integrates P and E over all but the last steps."""
    Q, R, S = costs
    weighted = (B.reshape(-1, len(R)) @ _lapack.solve(R, jnp.eye(len(R), dtype=R.dtype))).reshape(
        B.shape
    )
    half = 0.5 * weighted @ jnp.swapaxes(B, 1, 2)
    first = max(0, len(h) - ENDING)
    node = INTERVALS * first
    known, ending = _linear_steps(
        parts, A[node:], half[node:], Q, h[first:], _Known(S, jnp.zeros_like(S))
    )
    found = [ending, S[None]]
    if first:
        P, E, before = quadratic_steps(A[: node + 1], half[: node + 1], Q, h[:first], *known)
        known, found = _Known(P, E), [before, *found]
    P = jnp.concatenate(found)
    return RiccatiSolution(
        P, jnp.swapaxes(weighted[::INTERVALS], 1, 2) @ P, _share(known.E, known.P)
    )


def _backwards(
    one_part: Callable, parts: int, A, half, h, known: _Known
) -> tuple[_Known, Float[Array, "N d d"]]:
    """P and E at the start, and P at the starts of all steps; `one_part` integrates them over one part of a step."""

    def step(known: _Known, at):
        i, h = at
        nodes = [jax.lax.dynamic_slice_in_dim(x, INTERVALS * i, len(NODES)) for x in (A, half)]

        def part(known, before):
            def matrices(t):
                return [_quartic(x, 1.0 - t / h) for x in nodes]

            return one_part(matrices, before * h / parts, h / parts, known), None

        known, _ = jax.lax.scan(part, known, jnp.arange(parts, dtype=h.dtype))
        return known, known.P

    return jax.lax.scan(step, known, (jnp.arange(len(h)), h), reverse=True)


def _quadratic_steps(product: ProductOfTwo, parts: int, A, half, Q, h, P, E):
    """P and E at the start, and P at the starts of all steps, by the quadratic equation."""

    def one_part(matrices, t, h, known: _Known) -> _Known:
        def rate(t, P):
            A, G = matrices(t)
            X = product(P, A - product(G, P))
            return X + X.T + Q

        start, slopes = looped(rate, METHOD, t, h, known.P)
        A, G = matrices(t)
        flow = _exponential(h * (A - 2.0 * product(G, known.P)), product)
        E = product(flow.T, product(known.E, flow))
        return _Known(0.5 * (start + start.T), _with_error(E, h, slopes))

    (P, E), found = _backwards(one_part, parts, A, half, h, _Known(P, E))
    return P, E, found


def _linear_steps(parts: int, A, half, Q, h, known: _Known):
    """The same, for any size of P, by the linear equations of motion of P = Y X⁻¹ (Radon 1928):

        −Ẋ = 2 G Y − A X ,   −Ẏ = Q X + AᵀY ,   X = 1, Y = P at the end of a part of a step .

    X⁻¹ is the flow of the closed loop. This takes twice the products of the quadratic equation, and a solution.
    """

    def one_part(matrices, t, h, known: _Known) -> _Known:
        def rate(t, y):
            (A, G), (X, Y) = matrices(t), y
            return 2.0 * G @ Y - A @ X, Q @ X + A.T @ Y

        end = jnp.eye(len(Q), dtype=Q.dtype), known.P
        (X, Y), slopes = looped(rate, METHOD, t, h, end)
        start = _lapack.solve(X.T, Y.T)
        start = 0.5 * (start + start.T)
        dX, dY = _with_error(jax.tree.map(jnp.zeros_like, end), h, slopes)
        added = dY - start @ dX + _lapack.solve(X.T, known.E)
        return _Known(start, _lapack.solve(X.T, added.T))

    return _backwards(one_part, parts, A, half, h, known)


def _with_error(y, h: Scalar, slopes):
    """y and the difference of the two methods over a part of a step."""
    return point_of(h, y, jnp.asarray(ERROR, h.dtype), slopes)


def _exponential(x: Matrix, product: ProductOfTwo) -> Matrix:
    """1 + x + x²/2, about exp(x); for a stable x with ‖x‖ ≤ 1 it is not below it."""
    one = jnp.eye(len(x), dtype=x.dtype)
    return one + product(x, one + 0.5 * x)


def _share(E: Matrix, P: Matrix) -> Scalar:
    """The largest entry of E over that of P; 0 where P is zero. It has no derivative."""
    E, P = jax.lax.stop_gradient((E, P))
    error, size = jnp.max(jnp.abs(E)), jnp.max(jnp.abs(P))
    return jnp.where(size == 0, 0.0, error / jnp.where(size == 0, 1.0, size))


def _quartic(values: Float[Array, "5 d d"], place: Scalar) -> Matrix:
    """The quartic polynomial with given values at `NODES`, at a place from 0 to 1 (Lagrange)."""
    others = [np.delete(NODES, j) for j in range(len(NODES))]
    weights = [
        jnp.prod((place - jnp.asarray(x, place.dtype)) / jnp.asarray(node - x, place.dtype))
        for node, x in zip(NODES, others, strict=True)
    ]
    return jnp.tensordot(jnp.stack(weights), values, 1)


def step_parts(A: Any, B: Any, costs: Any, h: Any) -> int:
    """The number of parts of a step, a power of two; 1 if numbers are traced or not finite.

    A part is so short that the rates of the closed loop times its length are at most 1; the fastest rates of P are twice
    as large. The rates of the closed loop are the eigenvalues of the Hamiltonian matrix ((A, −B R⁻¹ Bᵀ), (−Q, −Aᵀ)), with
    `costs` = (Q, R).
    """
    known = [_checks.concrete(x) for x in (A, B, *costs, h)]
    numbers = [x for x in known if x is not None and np.all(np.isfinite(x))]
    if len(numbers) < len(known):
        return 1
    A, B, Q, R, h = numbers
    some = slice(None, None, max(1, len(A) // TIMES_OF_RATES))
    G = B[some] @ np.linalg.inv(R) @ np.swapaxes(B[some], 1, 2)
    whole = np.block([[A[some], -G], [np.broadcast_to(-Q, G.shape), -np.swapaxes(A[some], 1, 2)]])
    return _number_of_parts(_fastest_rate(whole) * np.max(h))


def _fastest_rate(matrices: Float[np.ndarray, "T n n"]) -> float:
    """The largest |λ| of the eigenvalues λ of many matrices M: ‖M^k‖^(1/k) for a large k (Gelfand), by squaring."""
    logarithm = 0.0
    for i in range(SQUARINGS):
        size = np.max(np.linalg.norm(matrices, axis=(1, 2)))
        if size == 0:
            return 0.0
        logarithm += np.log(size) / 2**i
        matrices = matrices / size
        matrices = matrices @ matrices
    return float(np.exp(logarithm))


def _number_of_parts(rate: float) -> int:
    """The number of parts of a step, for `rate`: the fastest rate of the closed loop times the step's length."""
    return 2 ** int(np.clip(np.ceil(np.log2(rate + 1e-9)), 0, MOST_HALVINGS))
