"""The Riccati equation of a linear–quadratic problem along a plan, integrated backwards in time."""

from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
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
ENDING = 8


class StepParts(NamedTuple):
    """The numbers of parts of each of the last `ENDING` steps of the Riccati equation, and of each step before them."""

    ending: int
    before: int


class RiccatiSolution(NamedTuple):
    """P and K at the ends of all steps, and the estimated error of P at the start of each step, as a share of P.

    The estimate is that of the embedded method of order 7, which is less accurate than P.
    """

    values: Float[Array, "N+1 d d"]
    gains: Float[Array, "N+1 p d"]
    errors: Float[Array, " N"]


@compiled_with(FEW_RUNS)
def riccati(
    A: Float[Array, "M d d"],
    B: Float[Array, "M d p"],
    costs,
    h: Float[Array, " N"],
    parts: StepParts,
) -> RiccatiSolution:
    """P and K = R⁻¹ Bᵀ P at the ends of all steps, integrated backwards from P(T) = S:

        −Ṗ = AᵀP + P A − P B R⁻¹ Bᵀ P + Q = X + Xᵀ + Q ,    X = P (A − ½ B R⁻¹ Bᵀ P) .

    The method of order 8 runs backwards with the steps `h`, each divided into parts. A and B are given at the nodes of the
    steps, M = 4 N + 1; A and B R⁻¹ Bᵀ are quartic polynomials in a step. The error E of P obeys

        −Ė = CᵀE + E C ,    C = A − B R⁻¹ Bᵀ P ,

    to which each part of a step adds the difference of the two methods.
    """
    Q, R, S = costs
    weighted = jnp.linalg.solve(R, B.reshape(-1, len(R)).T).T.reshape(B.shape)  # B R⁻¹
    half = 0.5 * weighted @ jnp.swapaxes(B, 1, 2)

    def step(weights: Array, carry, at):
        *nodes, h = at

        def part(carry, weights: Array):
            return _part_of_step(weights, nodes, Q, h / count, *carry), None

        count = len(weights)
        carry, _ = jax.lax.scan(part, carry, weights, reverse=True, unroll=count == 1)
        P, E = carry
        return carry, (P, _share(E, P))

    nodes = tuple(map(_at_nodes, (A, half)))
    found, last = [(S[None], jnp.zeros(0, h.dtype))], (S, jnp.zeros_like(S))
    for some, count in _stretches(len(h), parts):
        at = jax.tree.map(lambda x, some=some: x[some], (*nodes, h))
        last, each = jax.lax.scan(partial(step, _weights(count, h.dtype)), last, at, reverse=True)
        found.insert(0, each)
    P, errors = map(jnp.concatenate, zip(*found, strict=True))
    return RiccatiSolution(P, jnp.swapaxes(weighted[::INTERVALS], 1, 2) @ P, errors)


def _part_of_step(
    weights: Array, nodes, Q: Matrix, h: Scalar, P: Matrix, E: Matrix
) -> tuple[Matrix, Matrix]:
    """P and its error E at the start of a part of a step, from those at its end.

    `weights`: of the nodes at the stages of the method, `(s, 5)`; `nodes`: A and ½ B R⁻¹ Bᵀ at the nodes, `(5, d, d)`.
    """
    A, half = (jnp.tensordot(weights, x, 1) for x in nodes)
    slopes: list[Matrix] = []
    for i, row in enumerate(METHOD.a):
        Y = incremented(P, h, row, slopes) if slopes else P
        X = Y @ (A[i] - half[i] @ Y)
        slopes.append(X + X.T + Q)
    start = incremented(P, h, METHOD.b, slopes)
    flow = _exponential(h * (A[0] - 2.0 * half[0] @ P))
    return 0.5 * (start + start.T), flow.T @ E @ flow + increment(h, ERROR, slopes)


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


def _stretches(count: int, parts: StepParts) -> list[tuple[slice, int]]:
    """Groups of steps with the same number of parts, as (steps, number of parts), the last steps first."""
    first = max(0, count - ENDING)
    if parts.before == parts.ending or first == 0:
        return [(slice(0, None), parts.ending)]
    return [(slice(first, None), parts.ending), (slice(0, first), parts.before)]


def step_parts(A: Any, B: Any, costs: Any, h: Any) -> StepParts:
    """The numbers of parts of a step, powers of two; (1, 1) if numbers are traced or not finite.

    A part is so short that the rates of the closed loop times its length are at most 1; the fastest rates of P are twice
    as large. The rates of the closed loop are the eigenvalues of the Hamiltonian matrix
    ((A, −B R⁻¹ Bᵀ), (−Q, −Aᵀ)), and near the end those of B R⁻¹ Bᵀ S if S is large. At a time τ before the end a large S
    decays at the rate 1/τ: P = (S⁻¹ + B R⁻¹ Bᵀ τ)⁻¹.
    """
    known = [_checks.concrete(x) for x in (A, B, *costs, h)]
    numbers = [x for x in known if x is not None and np.all(np.isfinite(x))]
    if len(numbers) < len(known):
        return StepParts(1, 1)
    A, B, Q, R, S, h = numbers
    some = slice(None, None, max(1, len(A) // TIMES_OF_RATES))
    G = B[some] @ np.linalg.inv(R) @ np.swapaxes(B[some], 1, 2)
    whole = np.block([[A[some], -G], [np.broadcast_to(-Q, G.shape), -np.swapaxes(A[some], 1, 2)]])
    regular, ending = (np.max(np.abs(np.linalg.eigvals(x))) for x in (whole, G @ S))
    later = min(ending, 1.0 / (ENDING * np.min(h)))
    last = _number_of_parts(max(regular, ending) * np.max(h))
    return StepParts(last, min(last, _number_of_parts(max(regular, later) * np.max(h))))


def _number_of_parts(rate: float) -> int:
    """The number of parts of a step, for `rate`: the fastest rate of the closed loop times the step's length."""
    return 2 ** int(np.clip(np.ceil(np.log2(rate + 1e-9)), 0, MOST_HALVINGS))
