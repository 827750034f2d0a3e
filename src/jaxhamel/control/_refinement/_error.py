"""The error of a collocation between its nodes."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._collocation._points import lagrange, rule, slopes_at
from jaxhamel.control._collocation._transcription import CollocationPoint, Interval, Transcription
from jaxhamel.control._interior_point._derivatives import stage_unknowns, with_start


@compiled_with(QUICK)
def residual_errors(transcription: Transcription, w: CollocationPoint) -> Float[Array, " N"]:
    """How far the polynomials may be from the motion, on each interval:

        ε_i = max over the components of  ∫_0^1 |dX/dτ − h f(X(τ), c(τ))| dτ .

    At the collocation points the integrand is zero; it is integrated by a Gauss rule with twice as many points.

    Source: Betts 2010, eq. (4.156), without its scaling: coordinates of the tangent space, SI units.
    """
    points = np.asarray(transcription.rule.points)
    nodes = np.append(0.0, points)
    fine = rule("gauss", 2 * len(points))
    at = np.asarray(fine.points)
    dtype = transcription.shares.dtype
    constants = lagrange(nodes, at), slopes_at(nodes, at), lagrange(points, at), fine.weights, at
    values, slopes, of_c, weights, shares = (jnp.asarray(x, dtype) for x in constants)

    def one(interval: Interval, X: Array, c: Array):
        all_X = with_start(interval, X)
        y = stage_unknowns(values @ all_X, of_c @ c, w.p)
        rate, _ = jax.vmap(lambda *given: transcription.stage(interval, *given))(shares, weights, y)
        return jnp.max(weights @ jnp.abs(slopes @ all_X - rate))

    return jax.vmap(one)(transcription.intervals(w), w.X, w.c)
