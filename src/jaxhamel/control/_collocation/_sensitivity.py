"""The gradient of the optimal cost by everything that the problem consists of, and by the state: the costates."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._checks._collocation import check_has_optimum
from jaxhamel.control._collocation._start import first_node, transcribe
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._interior_point._derivatives import Duals, evaluate
from jaxhamel.control._problem._problem import ControlProblem


def sensitivity(result: Any) -> ControlProblem:
    """dJ*/dp: the derivative of the optimal cost by each number p of the problem, by the envelope theorem,

        dJ*/dp = ∂L/∂p ,    L = J + Σ multipliers · constraints , at the optimum.

    **Arguments:** `result`: of `solve` with `Collocation`.

    **Returns:** a problem whose arrays are these derivatives: `sensitivity(result).system.mass` for instance, in the unit of
    the cost per unit of the number. Those by q0 are in storage coordinates, `result.costates[0]` in the tangent space.

    **Raises:** `TypeError` for the result of another method. Where a multiplier is not unique (see the certificate), neither
    is the derivative by the constraint that it belongs to.

    Source: Fiacco 1983, theorem 3.4.1.
    """
    check_has_optimum(result)
    transcription, w, duals = result.optimum
    return _gradient(result.problem, transcription, w, duals)


@compiled_with(QUICK)
def _gradient(problem, transcription: Transcription, w: CollocationPoint, duals: Duals) -> Any:
    return eqx.filter_grad(lambda problem: _lagrangian(problem, transcription, w, duals))(problem)


def _lagrangian(
    problem: ControlProblem, found: Transcription, w: CollocationPoint, duals: Duals
) -> Scalar:
    """L as a function of the problem; the unknowns stay, but for the initial state."""
    transcription = transcribe(problem, found.rule, found.shares)
    w = begun_at(problem, transcription, w)
    cost, residuals = evaluate(transcription, w)
    pairs = (
        (duals.stages, residuals.stages),
        (duals.costates[1:], residuals.gaps),
        (duals.conditions, residuals.conditions),
        (duals.limits, residuals.limits),
        (duals.low, _finite(transcription.lower)),
        (-duals.high, _finite(transcription.upper)),
        (duals.p_low, transcription.p_lower),
        (-duals.p_high, transcription.p_upper),
    )
    return cost + sum((jnp.sum(a * b) for a, b in pairs), jnp.zeros_like(cost))


def begun_at(
    problem: ControlProblem, transcription: Transcription, w: CollocationPoint
) -> CollocationPoint:
    """An iterate whose first node is the initial state of a problem, but for its free coordinates."""
    space = problem.system.space
    q = _joined(space.normalise(problem.q0), along(w.q, slice(1, None)))
    free = np.asarray(transcription.free_start, int)
    first = first_node(problem).at[free].set(w.x[0, free])
    return w._replace(q=q, x=jnp.concatenate([first[None], w.x[1:]]))


def _joined(first: Any, others: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, others)


def _finite(bound):
    return jnp.where(jnp.isfinite(bound), bound, 0.0)


@compiled_with(QUICK)
def costates_of(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> Float[Array, "N+1 d"]:
    """λ_i = ∂J/∂(δ_q, δ_u) at q_i exp(δ_q), u_i + δ_u.

    The multipliers are those of the coordinates (ξ, u) about the bases. These are the nodes, but for the first one where the
    initial state is free: λ_0 = (∂ξ/∂δ_q)ᵀ multiplier there.
    """
    if not transcription.free_start:
        return duals.costates
    space, n = transcription.system.space, transcription.system.space.dim
    base, (q, _) = along(w.q, 0), transcription.begun(w, w.p)
    of_node = lambda delta: space.local(base, space.retract(q, delta))  # noqa: E731
    _, pulled = jax.vjp(of_node, jnp.zeros(n, w.x.dtype))
    return duals.costates.at[0, :n].set(pulled(duals.costates[0, :n])[0])
