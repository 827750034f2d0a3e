"""Elimination of the stages inside of each interval: a linear–quadratic problem in the nodes' increments and the controls.

The linearised stage equations give X = Z (δ, c, p) + z, and with it every part's unknowns y = Y (δ, c, p) + y_0. The
condensed Hessian is Σ Yᵀ H Y over the parts, their limits condensed by Σ = ∂²(barrier) as JᵀΣJ.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Derivatives, Parts, Residuals, places_of


class Barrier(NamedTuple):
    """Of each limit: slope a and curvature Σ, so that its multiplier is a + Σ (J y + residual)."""

    slope: Float[Array, "N M r"]
    curvature: Float[Array, "N M r"]


class Eliminated(NamedTuple):
    """X_k = Z_k o + z_k, `(s+1, d, o)` and `(s+1, d)`, of an interval's outer unknowns o = (δ, c, p); and the inverse
    of the stage equations' matrix, `(s d, s d)`."""

    Z: Float[Array, "s+1 d o"]
    z: Float[Array, "s+1 d"]
    inverse: Float[Array, "sd sd"]


class Condensed(NamedTuple):
    """An interval's share of the problem: ½ oᵀ H o + g·o, δ_{i+1} = A o + b, and conditions D o + e = 0."""

    H: Float[Array, "N o o"]
    g: Float[Array, "N o"]
    A: Float[Array, "N d o"]
    b: Float[Array, "N d"]
    D: Float[Array, "N b o"]
    e: Float[Array, " b"]


class Shapes(NamedTuple):
    """Numbers of states, of controls at all points of an interval, and of parameters."""

    d: int
    c: int
    p: int

    @classmethod
    def of(cls, transcription: Transcription) -> "Shapes":
        """Those of a transcription."""
        s, m = len(transcription.rule.points), transcription.n_controls
        return cls(transcription.size, s * m, transcription.p_lower.shape[0])

    @property
    def all(self) -> int:
        """o."""
        return sum(self)


class Maps(NamedTuple):
    """The unknowns y of the parts of one interval as affine functions Y o + y_0 of its outer unknowns."""

    stages: tuple[Array, Array]
    limits: tuple[Array, Array]
    end: tuple[Array, Array]


def eliminate(
    transcription: Transcription, stages: Derivatives, defects: Float[Array, "N s d"]
) -> Eliminated:
    """The elimination of all intervals' stages; `defects` are the values to be made zero."""
    return jax.vmap(lambda part, defect: _eliminate(transcription, part, defect))(stages, defects)


def _eliminate(transcription: Transcription, stage: Derivatives, defect) -> Eliminated:
    shapes = Shapes.of(transcription)
    d, s = shapes.d, len(transcription.rule.points)
    derivative = transcription.constants("derivative")
    unit = jnp.eye(d, dtype=defect.dtype)
    of_points = jnp.eye(s, dtype=defect.dtype)
    J = stage.jacobian  # (s, d, y) of h f, y = (X, c, p)
    inner = derivative[:, None, 1:, None] * unit[None, :, None, :]
    inner = inner - J[:, :, None, :d] * of_points[:, None, :, None]
    of_delta = derivative[:, 0, None, None] * unit[None]
    m = transcription.n_controls
    of_c = -J[:, :, None, d : d + m] * of_points[:, None, :, None]
    of_p = -J[:, :, d + m :]
    outer = jnp.concatenate([of_delta, of_c.reshape(s, d, shapes.c), of_p], axis=2)
    inverse = jnp.linalg.inv(inner.reshape(s * d, s * d))
    Z = -(inverse @ outer.reshape(s * d, shapes.all)).reshape(s, d, shapes.all)
    z = -(inverse @ defect.ravel()).reshape(s, d)
    first = jnp.eye(d, shapes.all, dtype=defect.dtype)
    return Eliminated(
        jnp.concatenate([first[None], Z]), jnp.concatenate([jnp.zeros_like(z[:1]), z]), inverse
    )


def maps(transcription: Transcription, eliminated: Eliminated) -> Maps:
    """The maps of one interval."""
    shapes, places = Shapes.of(transcription), places_of(transcription)
    s, m, dtype = len(transcription.rule.points), transcription.n_controls, eliminated.z.dtype
    unit = jnp.eye(shapes.all, dtype=dtype)
    of_c = unit[shapes.d : shapes.d + shapes.c].reshape(s, m, shapes.all)
    p = unit[shapes.d + shapes.c :]

    def at(X_weights, c_weights):
        many = X_weights.shape[0]
        rows = (
            jnp.tensordot(X_weights, eliminated.Z, 1),
            jnp.tensordot(c_weights, of_c, 1),
            jnp.broadcast_to(p[None], (many, *p.shape)),
        )
        X = X_weights @ eliminated.z
        none = jnp.zeros((many, m + p.shape[0]), dtype)
        return jnp.concatenate(rows, axis=1), jnp.concatenate([X, none], axis=1)

    end = transcription.constants("end")
    X_end, x_end = jnp.tensordot(end, eliminated.Z, 1), end @ eliminated.z
    own = np.eye(s, s + 1, 1, dtype), np.eye(s, dtype=dtype)
    return Maps(
        at(*(jnp.asarray(x) for x in own)),
        at(*places),
        (X_end, x_end),
    )


def condense(
    transcription: Transcription,
    parts: Parts,
    residuals: Residuals,
    barrier: Barrier,
    eliminated: Eliminated,
) -> Condensed:
    """The condensed problem, with the conditions and the final cost in the first and the last interval."""
    H, g, A, b = jax.vmap(lambda *given: _condense(transcription, *given))(
        parts.stages,
        parts.limits,
        parts.ends,
        residuals.gaps,
        residuals.limits,
        barrier,
        eliminated,
    )
    return _with_ends(transcription, parts, residuals.conditions, H, g, A, b)


def _condense(
    transcription,
    stages: Derivatives,
    limits: Derivatives,
    end: Derivatives,
    gap,
    excess,
    barrier,
    eliminated,
):
    at = maps(transcription, eliminated)
    (Y, y), (Y_end, y_end), (Y_limit, y_limit) = at.stages, at.end, at.limits
    H = jnp.einsum("jya,jyz,jzb->ab", Y, stages.hessian, Y, optimize=True)
    H = H + Y_end.T @ end.hessian @ Y_end
    slope = stages.gradient + jnp.einsum("jyz,jz->jy", stages.hessian, y)
    g = jnp.einsum("jya,jy->a", Y, slope) + Y_end.T @ (end.hessian @ y_end)
    if limits.value.size:
        G = jnp.einsum("jry,jya->jra", limits.jacobian, Y_limit)
        H = H + jnp.einsum("jya,jyz,jzb->ab", Y_limit, limits.hessian, Y_limit, optimize=True)
        H = H + jnp.einsum("jra,jr,jrb->ab", G, barrier.curvature, G, optimize=True)
        shift = excess + jnp.einsum("jry,jy->jr", limits.jacobian, y_limit)
        g = g + jnp.einsum("jra,jr->a", G, barrier.slope + barrier.curvature * shift)
        g = g + jnp.einsum("jya,jyz,jz->a", Y_limit, limits.hessian, y_limit, optimize=True)
    A, b = end.jacobian @ Y_end, gap + end.jacobian @ y_end
    return H, g, A, b


def _with_ends(transcription, parts: Parts, conditions, H, g, A, b) -> Condensed:
    shapes = Shapes.of(transcription)
    unit = jnp.eye(shapes.all, dtype=g.dtype)[shapes.d :]
    Y_last = jnp.concatenate([A[-1], unit])
    y_last = jnp.concatenate([b[-1], jnp.zeros(shapes.c + shapes.p, b.dtype)])
    first, last = parts.first, parts.last
    H = H.at[0].add(unit.T @ first.hessian @ unit).at[-1].add(Y_last.T @ last.hessian @ Y_last)
    g = g.at[-1].add(Y_last.T @ (last.gradient + last.hessian @ y_last))
    rows = first.value.shape[0]
    D = jnp.zeros((g.shape[0], rows + last.value.shape[0], shapes.all), g.dtype)
    D = D.at[0, :rows].add(first.jacobian @ unit).at[-1, rows:].add(last.jacobian @ Y_last)
    e = jnp.concatenate([conditions[:rows], conditions[rows:] + last.jacobian @ y_last])
    return Condensed(H, g, A, b, D, e)


def regularised(
    transcription: Transcription, condensed: Condensed, shift: Scalar, penalty: Scalar
) -> Condensed:
    """With `shift` times the quadrature weights on the diagonal, and penalty·|D o + e|²/2 added."""
    shapes = Shapes.of(transcription)
    weights = jnp.repeat(transcription.constants("weights"), transcription.n_controls)
    dtype = weights.dtype
    ones = jnp.ones(shapes.d, dtype), weights, jnp.ones(shapes.p, dtype)
    lengths = jnp.diff(transcription.shares)[:, None] * jnp.concatenate(ones)[None]
    H = condensed.H + shift * jax.vmap(jnp.diag)(lengths)
    D = condensed.D
    H = H + penalty * jnp.einsum("ibo,ibq->ioq", D, D)
    return condensed._replace(
        H=H, g=condensed.g + penalty * jnp.einsum("ibo,b->io", D, condensed.e)
    )
