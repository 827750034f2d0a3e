"""The Riccati equation of a linear–quadratic problem along a plan, integrated backwards in time."""

from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks, _lapack
from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._loop._linearised_plan import INTERVALS, NODES
from jaxhamel.simulate._solvers._runge_kutta import increment, incremented, tableau

Matrix = Float[Array, "d d"]
# The Riccati equation is integrated by a method of order 8 (Prince and Dormand 1981), which at the cost of four steps of RK4
# is 1e4 to 1e6 times as accurate (docs/performance.md#regulator).
METHOD = tableau(diffrax.Dopri8())
ERROR = diffrax.Dopri8().tableau.b_error[: len(METHOD.b)].tolist()
TIMES_OF_RATES = 32  # number of times, about, at which the rates of the closed loop are computed
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


@compiled_with(FEW_RUNS)
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
    Q, R, S = costs
    weighted = jnp.linalg.solve(R, B.reshape(-1, len(R)).T).T.reshape(B.shape)  # B R⁻¹
    half = 0.5 * weighted @ jnp.swapaxes(B, 1, 2)
    weights = _weights(parts, h.dtype)

    def step(one_part, known: _Known, at):
        nodes, h = at

        def part(known, weights: Array):
            return one_part(jnp.tensordot(weights, nodes, 1), Q, h / parts, known), None

        known, _ = jax.lax.scan(part, known, weights, reverse=True, unroll=parts == 1)
        return known, known.P

    at = _at_nodes(jnp.stack([A, half], axis=1)), h
    first = max(0, len(h) - ENDING)
    known, found = _Known(S, jnp.zeros_like(S)), [S[None]]
    for some, one_part in ((slice(first, None), _linear_part), (slice(0, first), _quadratic_part)):
        those = jax.tree.map(lambda x, some=some: x[some], at)
        known, P = jax.lax.scan(partial(step, one_part), known, those, reverse=True)
        found.insert(0, P)
    P = jnp.concatenate(found)
    return RiccatiSolution(
        P, jnp.swapaxes(weighted[::INTERVALS], 1, 2) @ P, _share(known.E, known.P)
    )


def _quadratic_part(
    matrices: Float[Array, "s 2 d d"], Q: Matrix, h: Scalar, known: _Known
) -> _Known:
    """P and E at the start of a part of a step, from those at its end; `matrices`: A and G at the stages of the method."""
    slopes: list[Matrix] = []
    for row, (A, G) in zip(METHOD.a, matrices, strict=True):
        Y = incremented(known.P, h, row, slopes) if slopes else known.P
        X = Y @ (A - G @ Y)
        slopes.append(_computed_once(X + X.T + Q))
    start = incremented(known.P, h, METHOD.b, slopes)
    A, G = matrices[0]
    flow = _exponential(h * (A - 2.0 * G @ known.P))
    E = flow.T @ known.E @ flow + increment(h, ERROR, slopes)
    return _Known(0.5 * (start + start.T), E)


def _linear_part(matrices: Float[Array, "s 2 d d"], Q: Matrix, h: Scalar, known: _Known) -> _Known:
    """The same, for any size of P, by the linear equations of motion of P = Y X⁻¹ (Radon 1928):

        −Ẋ = 2 G Y − A X ,   −Ẏ = Q X + AᵀY ,   X = 1, Y = P at the end .

    X⁻¹ is the flow of the closed loop. This takes twice the products of the quadratic equation, and a solution.
    """
    end = jnp.eye(len(Q), dtype=Q.dtype), known.P
    slopes: list[tuple[Matrix, Matrix]] = []
    for row, (A, G) in zip(METHOD.a, matrices, strict=True):
        X, Y = incremented(end, h, row, slopes) if slopes else end
        slopes.append((2.0 * G @ Y - A @ X, Q @ X + A.T @ Y))
    X, Y = incremented(end, h, METHOD.b, slopes)
    start = _lapack.solve(X.T, Y.T)
    start = 0.5 * (start + start.T)
    dX, dY = increment(h, ERROR, slopes)
    added = dY - start @ dX + _lapack.solve(X.T, known.E)
    return _Known(start, _lapack.solve(X.T, added.T))


def _computed_once(x: Matrix) -> Matrix:
    """x, which is not computed again in each later stage that reads it; this halves the time of a step."""
    return jax.lax.optimization_barrier(x)


def _exponential(x: Matrix) -> Matrix:
    """1 + x + x²/2, about exp(x); for a stable x with ‖x‖ ≤ 1 it is not below it."""
    one = jnp.eye(len(x), dtype=x.dtype)
    return one + x @ (one + 0.5 * x)


def _share(E: Matrix, P: Matrix) -> Scalar:
    """The largest entry of E over that of P; 0 where P is zero. It has no derivative."""
    E, P = jax.lax.stop_gradient((E, P))
    error, size = jnp.max(jnp.abs(E)), jnp.max(jnp.abs(P))
    return jnp.where(size == 0, 0.0, error / jnp.where(size == 0, 1.0, size))


def _at_nodes(x: Float[Array, "M ..."]) -> Float[Array, "N 5 ..."]:
    """The values at the nodes of each step, from those at the nodes of all steps."""
    last = len(x) - INTERVALS
    return jnp.stack([x[i : last + i : INTERVALS] for i in range(len(NODES))], axis=1)


def _weights(count: int, dtype) -> Float[Array, "count s 5"]:
    """The weights of the nodes at the method's stages, in each of `count` parts of a step (Lagrange's polynomials)."""
    times = (np.arange(1, count + 1)[:, None] - np.asarray(METHOD.c)) / count  # backwards in time
    others = [np.delete(NODES, j) for j in range(len(NODES))]
    terms = [
        np.prod((times[..., None] - x) / (node - x), axis=-1)
        for node, x in zip(NODES, others, strict=True)
    ]
    return jnp.asarray(np.stack(terms, axis=-1), dtype)


def step_parts(A: Any, B: Any, costs: Any, h: Any) -> int:
    """The number of parts of a step, a power of two; 1 if numbers are traced or not finite.

    A part is so short that the rates of the closed loop times its length are at most 1; the fastest rates of P are twice
    as large. The rates of the closed loop are the eigenvalues of the Hamiltonian matrix ((A, −B R⁻¹ Bᵀ), (−Q, −Aᵀ)).
    """
    known = [_checks.concrete(x) for x in (A, B, *costs, h)]
    numbers = [x for x in known if x is not None and np.all(np.isfinite(x))]
    if len(numbers) < len(known):
        return 1
    A, B, Q, R, _, h = numbers
    some = slice(None, None, max(1, len(A) // TIMES_OF_RATES))
    G = B[some] @ np.linalg.inv(R) @ np.swapaxes(B[some], 1, 2)
    whole = np.block([[A[some], -G], [np.broadcast_to(-Q, G.shape), -np.swapaxes(A[some], 1, 2)]])
    return _number_of_parts(np.max(np.abs(np.linalg.eigvals(whole))) * np.max(h))


def _number_of_parts(rate: float) -> int:
    """The number of parts of a step, for `rate`: the fastest rate of the closed loop times the step's length."""
    return 2 ** int(np.clip(np.ceil(np.log2(rate + 1e-9)), 0, MOST_HALVINGS))
