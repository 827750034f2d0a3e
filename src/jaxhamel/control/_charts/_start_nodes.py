"""The derivatives of an interval's equations by its first node, where the charts turn.

The polynomial of an interval is Ξ(τ) in the chart about its first node q̄ exp(ξ), the unknowns X_k of its stages are
coordinates about the base q̄, and so are the rates F_j. With V = dexp⁻¹ at X

    Ξ_k = Λ(ξ, X_k) = X_k − V_k ξ + ½ ∂(V_k ξ)/∂X · V_k ξ + … ,

    r_j = ∂Λ(−ξ, Ξ_j)/∂Ξ · Σ_{k≥1} D_jk Ξ_k − F_j ,     X_end = Λ(−ξ, Σ_{k≥1} e_k Ξ_k) .

At ξ = 0 the derivatives by X_k are those of a polynomial in the chart about the base. Those by ξ would be D_j0 and e_0 if
such a polynomial began at ξ; they differ by the error of the transcription. With D_j0 and e_0 the search solved no fixed
problem, and did not end where minima are not isolated (docs/performance.md#polynomials-about-the-nodes).

Coordinates that commute with all others have no such terms, and the first interval keeps its chart.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel.control._charts._bases import turning
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription


class StartDerivatives(NamedTuple):
    """Terms of the derivatives by the turning coordinates ξ `(t,)` of the intervals' first nodes besides D_j0 and e_0.

    - `jacobian`: of the stages' defects and of X_end, in the same coordinates, `(N, s+1, t, t)`.
    - `hessian`: of the Lagrangian, by ξ and by ξ, X_1 … X_s in the same coordinates, `(N, t, (s+1) t)`.
    """

    jacobian: Float[Array, "N s+1 t t"]
    hessian: Float[Array, "N t w"]


class _Terms(NamedTuple):
    """V, Q = ∂(aᵀV)/∂X and the symmetric part S of Q V at a point of a chart, for a covector a."""

    V: Float[Array, "t t"]
    Q: Float[Array, "t t"]
    S: Float[Array, "t t"]


def turning_of(transcription: Transcription) -> np.ndarray:
    """The turning coordinates of the system's configurations."""
    return np.asarray(turning(transcription.system.space), int)


def no_start_derivatives(transcription: Transcription, w: CollocationPoint) -> StartDerivatives:
    """Zeros with the shapes of the result of `start_derivatives`."""
    (N, s), t = w.X.shape[:2], len(turning_of(transcription))
    shapes = (N, s + 1, t, t), (N, t, (s + 1) * t)
    return StartDerivatives(*(jnp.zeros(shape, w.X.dtype) for shape in shapes))


def start_jacobian(transcription: Transcription, w: CollocationPoint) -> Float[Array, "N s+1 t t"]:
    """The first derivatives alone."""
    none = jnp.zeros_like(w.X), jnp.zeros_like(w.x[1:])
    return start_derivatives(transcription, w, *none).jacobian


def start_derivatives(
    transcription: Transcription,
    w: CollocationPoint,
    stages: Float[Array, "N s d"],
    ends: Float[Array, "N d"],
) -> StartDerivatives:
    """Computes these derivatives at an iterate, each of whose nodes must be the base of its chart.

    **Arguments:** `stages`: the multipliers of the stages' defects; `ends`: the covectors λᵀ ∂(gap)/∂X_end.
    """
    T = turning_of(transcription)
    if not T.size:
        return no_start_derivatives(transcription, w)

    def one(*given):
        return _of_interval(transcription, *given)

    found = jax.vmap(one)(w.X[..., T], stages[..., T], ends[..., T])
    return StartDerivatives(*(x.at[0].set(0.0) for x in found))


def _of_interval(transcription: Transcription, X, mu, pi) -> StartDerivatives:
    """The derivatives of one interval; `mu`, `pi`: the covectors of its stages and of X_end."""
    D, e = transcription.constants("derivative"), transcription.constants("end")
    slopes = D[:, 1:] @ X

    def stage(X, slope, mu, a):
        own, along = jax.jvp(lambda X: _terms(transcription, X, mu), (X,), (slope,))
        return own, along, _terms(transcription, X, a)

    own, along, of_a = jax.vmap(stage)(X, slopes, mu, D[:, 1:].T @ mu + jnp.outer(e[1:], pi))
    end = _terms(transcription, e[1:] @ X, pi)
    sums = jnp.tensordot(D[:, 1:], own.V, 1), jnp.tensordot(e[1:], own.V, 1)
    first = own.Q @ sums[0] + along.Q @ own.V
    twice = jnp.sum(first, axis=0) + end.Q @ sums[1]
    by_node = jnp.sum(of_a.S + along.S, axis=0) + end.S - twice - twice.T
    by_stages = along.Q - of_a.Q + jnp.tensordot(D[:, 1:].T, own.Q, 1)
    by_stages = by_stages + e[1:, None, None] * end.Q[None]
    unit = jnp.eye(X.shape[1], dtype=X.dtype)
    of_stages = along.V - sums[0] - D[:, 0, None, None] * unit[None]
    of_end = end.V - sums[1] - e[0] * unit
    return StartDerivatives(
        jnp.concatenate([of_stages, of_end[None]]),
        jnp.concatenate([by_node, *by_stages], axis=1),
    )


def _terms(transcription: Transcription, X: Float[Array, " t"], a: Float[Array, " t"]) -> _Terms:
    V = _inverse(transcription, X)
    Q = jax.jacfwd(lambda X: a @ _inverse(transcription, X))(X)
    product = Q @ V
    return _Terms(V, Q, 0.5 * (product + product.T))


def _inverse(transcription: Transcription, X: Float[Array, " t"]) -> Float[Array, "t t"]:
    """V = dexp⁻¹ of the turning coordinates."""
    space, T = transcription.system.space, turning_of(transcription)
    return space.dexpinv(jnp.zeros(space.dim, X.dtype).at[T].set(X))[T][:, T]
