"""The optimum of a problem near a solved one, differentiable by all numbers of the problem."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._checks._collocation import check_has_optimum
from jaxhamel.control._collocation._points import PiecewisePolynomial
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._derivatives_of_optima._lagrangian import with_initial_state
from jaxhamel.control._interior_point._derivatives import (
    Duals,
    Parts,
    evaluate,
    lagrangian_gradients,
    parts_of,
)
from jaxhamel.control._interior_point._direction import direction
from jaxhamel.control._interior_point._line_search import iterate_after, penalty_of
from jaxhamel.control._mesh._moving_nodes import transcribed_like
from jaxhamel.control._problem._problem import ControlProblem


class NeighbouringOptimum(NamedTuple):
    """The optimum of a problem, to first order in the problem's numbers.

    `cost`: J; `ts`: the times of the mesh [s]; `states`: (q, u) at these times; `control`: a function of t; `p`: the end
    time if it is free, the free coordinates of the initial state, the design parameters, and
    the times of nodes at switches, as shares of the duration, if the search has found these as unknowns.
    """

    cost: Scalar
    ts: Float[Array, " N+1"]
    states: tuple[Configuration, Float[Array, "N+1 k"]]
    control: PiecewisePolynomial
    p: Float[Array, " p"]


def neighbouring(problem: ControlProblem, result: Any) -> NeighbouringOptimum:
    """The optimum of a problem near that of `result`, by one step of Newton's method from it on the same mesh:

        z(p) = z* − K⁻¹ F(z*, p) ,     F(z*, p*) = 0 ,

    so that at p* its derivatives dz/dp = −K⁻¹ ∂F/∂p are those of the optimum (implicit function theorem). It can be called
    under `jax.jit`, `jax.grad` and `jax.vmap`.

    **Arguments:** `problem`: the problem of `result`, with other values; `result`: a converged `Result` of `Collocation`.

    **Returns:** a `NeighbouringOptimum`. Its error is of second order in p − p*.

    **Raises:** `TypeError` for the result of another method.

    The optimum has no such derivative where a limit begins to bind, and where multipliers or the minimum are not unique
    (see the certificate).

    Source: Fiacco 1983, theorem 3.2.2.
    """
    check_has_optimum(result)
    found, w, duals = _constant(result.optimum)
    transcription = transcribed_like(found, problem)
    w = with_initial_state(problem, transcription, w)
    parts = _with_constant_matrix(transcription, w, duals)
    _, residuals = evaluate(transcription, w)
    zero = jnp.zeros_like(w.X, shape=())
    at = (
        transcription,
        w,
        duals,
        parts,
        residuals,
        barrier_parameter(found, w, duals),
        zero,
        penalty_of(parts),
    )
    new = iterate_after(w, direction(*at), jnp.ones_like(zero))
    ts = transcription.times(new.p)
    control = PiecewisePolynomial(ts, new.c, found.rule.points)
    cost = found.cost_unit * evaluate(transcription, new)[0]
    return NeighbouringOptimum(cost, ts, transcription.states(new), control, new.p)


def _with_constant_matrix(transcription: Transcription, w: CollocationPoint, duals: Duals) -> Parts:
    """The parts at an iterate; only their gradients have derivatives, those of ∇L by the problem's numbers.

    Since F = 0, d(K⁻¹ F) = K⁻¹ dF. So K needs no derivative, which would be a third derivative of the equations of motion.
    """
    parts = parts_of(*_constant((transcription, w, duals)))
    slopes = lagrangian_gradients(transcription, w, duals)
    own = parts.points, parts.ends, parts.first, parts.last
    points, ends, first, last = (
        part._replace(gradient=part.gradient + slope - jax.lax.stop_gradient(slope))
        for part, slope in zip(own, slopes, strict=True)
    )
    return Parts(points, ends, first, last, parts.starts)


def _constant(tree: Any) -> Any:
    """The tree with derivatives of zero; leaves that are no arrays, such as the functions of limits, stay."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, tree)


@compiled_with(QUICK)
def barrier_parameter(found: Transcription, w: CollocationPoint, duals: Duals) -> Scalar:
    """The barrier parameter μ of an iterate: the mean of multiplier · distance over all bounds; 0 without bounds."""
    gaps = (
        (duals.low, w.slack - found.lower),
        (duals.high, found.upper - w.slack),
        (duals.p_low, w.p - found.p_lower),
        (duals.p_high, found.p_upper - w.p),
    )
    known = [(jnp.isfinite(gap) & (gap > 0), z, gap) for z, gap in gaps]
    total = sum(jnp.sum(jnp.where(ok, z * jnp.where(ok, gap, 0.0), 0.0)) for ok, z, gap in known)
    count = sum(jnp.sum(ok.astype(w.X.dtype)) for ok, _, _ in known)
    return jax.lax.stop_gradient(jnp.asarray(total / jnp.maximum(count, 1.0), w.X.dtype))
