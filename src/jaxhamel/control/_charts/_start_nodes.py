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

from jaxhamel._lanes._one_lane import lanes_if_short
from jaxhamel.control._charts._bases import turning
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription


class StartDerivatives(NamedTuple):
    """Terms of the derivatives by the turning coordinates ξ `(t,)` of the intervals' first nodes besides D_j0 and e_0.

    - `jacobian`: of the stages' defects and of X_end, in the same coordinates, `(N, s+1, t, t)`.
    - `hessian`: of the Lagrangian, by ξ and by ξ, X_1 … X_s in the same coordinates, `(N, t, (s+1) t)`.
    """

    jacobian: Float[Array, "N s+1 t t"]
    hessian: Float[Array, "N t w"]


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

    D, e = transcription.constants("derivative"), transcription.constants("end")
    weights = jnp.concatenate([D[:, 1:], e[None, 1:]])
    sums = jnp.einsum("jk,nka->nja", weights, w.X[..., T])
    points = jnp.concatenate([w.X[..., T], sums[:, -1:]], axis=1)
    slopes = sums.at[:, -1].set(0.0)  # Ξ at the end of an interval is not differentiated by τ
    inverses = _at_points(lambda *given: _inverses(transcription, *given), points, slopes)
    of_node = jnp.concatenate([D[:, 0], e[:1]])

    def one(inverses, mu, pi):
        return _of_interval(weights, of_node, inverses, jnp.concatenate([mu, pi[None]]))

    found = jax.vmap(one)(inverses, stages[..., T], ends[..., T])
    return StartDerivatives(*(x.at[0].set(0.0) for x in found))


def _of_interval(weights, of_node, inverses: "_Inverses", covectors) -> StartDerivatives:
    """Computes the derivatives of one interval from those of V at its points: the s stages, then the end of the interval.

    For a covector a, Q_a = ∂(aᵀV)/∂X.

    **Arguments:** `weights`: the coefficients D_jk and, in the last row, e_k, for k ≥ 1, `(s+1, s)`. `of_node`: D_j0 and
    e_0, `(s+1,)`. `covectors`: one for each point, `(s+1, t)`.
    """
    V, dV, V_tau, dV_tau = inverses
    of_stages = slice(None, -1)
    Q, Q_tau = _along(covectors, dV), _along(covectors[of_stages], dV_tau[of_stages])
    Q_a = _along(weights.T @ covectors, dV[of_stages])
    sums = jnp.tensordot(weights, V[of_stages], 1)
    S = Q @ V_tau.at[-1].set(V[-1])
    S = S.at[of_stages].add((Q_a + Q_tau) @ V[of_stages])
    twice = jnp.sum(Q @ sums, axis=0) + jnp.sum(Q_tau @ V[of_stages], axis=0)
    by_node = _symmetric(jnp.sum(S, axis=0) - 2 * twice)
    by_node_and_stages = Q_tau - Q_a + jnp.tensordot(weights.T, Q, 1)
    by_itself = jnp.einsum("j,ab->jab", of_node, jnp.eye(V.shape[-1], dtype=V.dtype))
    of_defects = V_tau.at[-1].set(V[-1]) - sums - by_itself
    return StartDerivatives(of_defects, jnp.concatenate([by_node, *by_node_and_stages], axis=1))


class _Inverses(NamedTuple):
    """V and ∂V/∂X at a point of a chart, and the derivatives of both along a slope."""

    V: Float[Array, "t t"]
    dV: Float[Array, "t t t"]
    V_tau: Float[Array, "t t"]
    dV_tau: Float[Array, "t t t"]


def _at_points(f, points, slopes):
    """f at all points of all intervals, `(N, s+1, …)`: in lanes, since its derivatives are long under `vmap`."""
    N, s = points.shape[:2]
    found = lanes_if_short(f)(*(x.reshape(N * s, -1) for x in (points, slopes)))
    return jax.tree.map(lambda x: x.reshape(N, s, *x.shape[1:]), found)


def _inverses(transcription: Transcription, X, slope) -> _Inverses:
    def at(X):
        V = _inverse(transcription, X)
        return V, jax.jacfwd(lambda X: _inverse(transcription, X))(X)

    (V, dV), (V_tau, dV_tau) = jax.jvp(at, (X,), (slope,))
    return _Inverses(V, dV, V_tau, dV_tau)


def _along(covectors: Float[Array, "p t"], dV: Float[Array, "p t t t"]) -> Float[Array, "p t t"]:
    """∂(aᵀV)/∂X for a covector a at each point."""
    return jnp.einsum("pi,pijk->pjk", covectors, dV)


def _symmetric(matrix: Float[Array, "t t"]) -> Float[Array, "t t"]:
    return 0.5 * (matrix + matrix.T)


def _inverse(transcription: Transcription, X: Float[Array, " t"]) -> Float[Array, "t t"]:
    """V = dexp⁻¹ of the turning coordinates."""
    space, T = transcription.system.space, turning_of(transcription)
    return space.dexpinv(jnp.zeros(space.dim, X.dtype).at[T].set(X))[T][:, T]
