"""Eliminates the stages of each interval, which leaves a linear–quadratic problem in o = (δ, c, p): the increments of the
nodes, the controls and the parameters.

The linearised stage equations give X = Z o + z (`_stage_equations`), and with it the unknowns y = Y o + y_0 of each part.
The condensed Hessian is Σ Yᵀ H Y over the parts. The limits are kept apart, as the rows G of their derivatives by o: their
barriers add GᵀΣG, whose entries may be 1e10 times as large.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel.control._charts._start_nodes import StartDerivatives, turning_of
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Derivatives, Parts, Residuals
from jaxhamel.control._interior_point._stage_equations import (
    StageBlock,
    StageEquations,
    factored,
    solution,
)


class Eliminated(NamedTuple):
    """The stages of an interval as functions X_k = Z_k o + z_k of its outer unknowns o = (δ, c, p), and their equations."""

    Z: Float[Array, "s+1 d o"]
    z: Float[Array, "s+1 d"]
    stages: StageEquations


class Condensed(NamedTuple):
    """The linear–quadratic problem: minimise Σ ½ oᵀ H o + g·o over all intervals, under

    δ_{i+1} = A o + b ,    Σ D o + e = 0 (conditions) ,    limits − slack = G o + excess − change of the slack .
    """

    H: Float[Array, "N o o"]
    g: Float[Array, "N o"]
    A: Float[Array, "N d o"]
    b: Float[Array, "N d"]
    D: Float[Array, "N b o"]
    e: Float[Array, " b"]
    G: Float[Array, "N l o"]
    excess: Float[Array, "N l"]


class Shapes(NamedTuple):
    """The numbers of states d, of controls c at all points of an interval, and of parameters p."""

    d: int
    c: int
    p: int

    @classmethod
    def of(cls, transcription: Transcription) -> "Shapes":
        """The sizes of the blocks of a transcription."""
        s, m = len(transcription.rule.points), transcription.n_controls
        return cls(transcription.size, s * m, transcription.p_lower.shape[0])

    @property
    def all(self) -> int:
        """The number of outer unknowns o of an interval."""
        return sum(self)


class Maps(NamedTuple):
    """The unknowns y of the parts of one interval as affine functions Y o + y_0 of its outer unknowns."""

    points: tuple[Array, Array]
    end: tuple[Array, Array]


def eliminate(
    transcription: Transcription,
    blocks: tuple[StageBlock, ...],
    points: Derivatives,
    starts: StartDerivatives,
    defects: Float[Array, "N s d"],
) -> Eliminated:
    """Eliminates the stages of all intervals; `defects`: the residuals of the stage equations."""

    def one(*given):
        return _eliminate(transcription, blocks, *given)

    return jax.vmap(one)(points, starts, defects)


def _eliminate(
    transcription: Transcription, blocks, point: Derivatives, start: StartDerivatives, defect
) -> Eliminated:
    """Eliminates the stages of one interval."""
    shapes = Shapes.of(transcription)
    d, s, m = shapes.d, len(transcription.rule.points), transcription.n_controls
    derivative = np.asarray(transcription.rule.derivative)
    J = point.jacobian[:, :d]  # (s, d, y) of h f, y = (X, c, p)
    unit = jnp.eye(d, dtype=defect.dtype)
    of_delta = -jnp.asarray(derivative[:, 0], defect.dtype)[:, None, None] * unit[None]
    of_delta = _with_turning(transcription, of_delta, -start.jacobian[:-1])
    of_points = jnp.eye(s, dtype=defect.dtype)
    of_c = J[:, :, None, d : d + m] * of_points[:, None, :, None]
    right = (of_delta, of_c.reshape(s, d, shapes.c), J[:, :, d + m :], -defect[..., None])
    equations = factored(blocks, derivative[:, 1:], J[:, :, :d])
    found = solution(blocks, derivative[:, 1:], equations, jnp.concatenate(right, axis=2))
    first = jnp.eye(d, shapes.all + 1, dtype=defect.dtype)
    found = jnp.concatenate([first[None], found])
    return Eliminated(found[..., :-1], found[..., -1], equations)


def _with_turning(transcription: Transcription, of_delta: Array, more: Array) -> Array:
    """Derivatives by δ `(…, d, o)` plus those `more` of turning coordinates by turning coordinates of the node."""
    T = turning_of(transcription)
    return of_delta.at[..., T[:, None], T].add(more)


def maps(transcription: Transcription, eliminated: Eliminated, start: StartDerivatives) -> Maps:
    """The unknowns of all parts of one interval as functions of its outer unknowns."""
    shapes, s, m = (
        Shapes.of(transcription),
        len(transcription.rule.points),
        transcription.n_controls,
    )
    unit = jnp.eye(shapes.all, dtype=eliminated.z.dtype)
    of_c = unit[shapes.d : shapes.d + shapes.c].reshape(s, m, shapes.all)
    of_p = jnp.broadcast_to(unit[None, shapes.d + shapes.c :], (s, shapes.p, shapes.all))
    Y = jnp.concatenate([eliminated.Z[1:], of_c, of_p], axis=1)
    y = jnp.concatenate([eliminated.z[1:], jnp.zeros((s, m + shapes.p), of_c.dtype)], axis=1)
    end = transcription.constants("end")
    Y_end = jnp.tensordot(end, eliminated.Z, 1)
    Y_end = _with_turning(transcription, Y_end, start.jacobian[-1])
    return Maps((Y, y), (Y_end, end @ eliminated.z))


def condense(
    transcription: Transcription, parts: Parts, residuals: Residuals, eliminated: Eliminated
) -> Condensed:
    """The condensed problem; the conditions and costs at both ends belong to the first and the last interval."""

    def one(*given):
        return _condense(transcription, *given)

    H, g, A, b, G, excess = jax.vmap(one)(
        parts.points, parts.ends, parts.starts, residuals.gaps, residuals.limits, eliminated
    )
    H, g, D, e = _with_ends(transcription, parts, residuals.conditions, H, g, A, b)
    return _from_first_node(transcription, Condensed(H, g, A, b, D, e, G, excess))


def start_map(transcription: Transcription) -> Float[Array, "o o"]:
    """The matrix that replaces δ_0 by δ_0 + E p in the outer unknowns o of the first interval.

    E selects the free coordinates of the first node from the parameters p.
    """
    shapes = Shapes.of(transcription)
    matrix = np.eye(shapes.all)
    first = shapes.d + shapes.c + int(transcription.free_time)
    for k, coordinate in enumerate(transcription.free_start):
        matrix[coordinate, first + k] = 1.0
    return jnp.asarray(matrix, transcription.shares.dtype)


def _from_first_node(transcription: Transcription, condensed: Condensed) -> Condensed:
    """The condensed problem, with δ_0 of the first interval expressed by p."""
    if not transcription.free_start:
        return condensed
    T = start_map(transcription)
    first = condensed._replace(
        H=T.T @ condensed.H[0] @ T,
        g=condensed.g[0] @ T,
        A=condensed.A[0] @ T,
        D=condensed.D[0] @ T,
        G=condensed.G[0] @ T,
    )
    names = ("H", "g", "A", "D", "G")
    new = {x: getattr(condensed, x).at[0].set(getattr(first, x)) for x in names}
    return condensed._replace(**new)


def _condense(
    transcription,
    points: Derivatives,
    end: Derivatives,
    start: StartDerivatives,
    gap,
    excess,
    eliminated,
):
    at, d = maps(transcription, eliminated, start), transcription.size
    (Y, y), (Y_end, y_end) = at.points, at.end
    HY = jnp.einsum("jyz,jzb->jyb", points.hessian, Y)
    H = jnp.einsum("jya,jyb->ab", Y, HY) + Y_end.T @ end.hessian @ Y_end
    slope = points.gradient + jnp.einsum("jyz,jz->jy", points.hessian, y)
    g = jnp.einsum("jya,jy->a", Y, slope) + Y_end.T @ (end.gradient + end.hessian @ y_end)
    H, g = _with_starts(transcription, start, H, g, Y, y)
    of_limits = points.jacobian[:, d:]
    G = jnp.einsum("jry,jya->jra", of_limits, Y).reshape(-1, H.shape[0])
    excess = (excess + jnp.einsum("jry,jy->jr", of_limits, y)).ravel()
    return H, g, end.jacobian @ Y_end, gap + end.jacobian @ y_end, G, excess


def _with_starts(transcription, start: StartDerivatives, H, g, Y, y):
    """(H, g) with the second derivatives by the first node and by (node, stages)."""
    T = turning_of(transcription)
    own, across = start.hessian[:, : len(T)], start.hessian[:, len(T) :]
    rows = across @ Y[:, T].reshape(across.shape[1], Y.shape[-1])
    H = H.at[T].add(rows).at[:, T].add(rows.T).at[T[:, None], T].add(own)
    return H, g.at[T].add(across @ y[:, T].ravel())


def _with_ends(transcription, parts: Parts, conditions, H, g, A, b):
    """(H, g, D, e), with the parts at the first and the last time added to the first and the last interval."""
    shapes = Shapes.of(transcription)
    unit = jnp.eye(shapes.all, dtype=g.dtype)[shapes.d :]
    Y_last = jnp.concatenate([A[-1], unit])
    y_last = jnp.concatenate([b[-1], jnp.zeros(shapes.c + shapes.p, b.dtype)])
    first, last = parts.first, parts.last
    H = H.at[0].add(unit.T @ first.hessian @ unit).at[-1].add(Y_last.T @ last.hessian @ Y_last)
    g = g.at[0].add(unit.T @ first.gradient)
    g = g.at[-1].add(Y_last.T @ (last.gradient + last.hessian @ y_last))
    rows = first.value.shape[0]
    D = jnp.zeros((g.shape[0], rows + last.value.shape[0], shapes.all), g.dtype)
    D = D.at[0, :rows].add(first.jacobian @ unit).at[-1, rows:].add(last.jacobian @ Y_last)
    e = jnp.concatenate([conditions[:rows], conditions[rows:] + last.jacobian @ y_last])
    return H, g, D, e


def lengths_of(transcription: Transcription) -> Float[Array, "N o"]:
    """The weights of the squares of (δ, c, p) in each interval: its length, for c times the quadrature's weights."""
    shapes = Shapes.of(transcription)
    weights = jnp.repeat(transcription.constants("weights"), transcription.n_controls)
    ones = jnp.ones(shapes.d, weights.dtype), weights, jnp.ones(shapes.p, weights.dtype)
    return jnp.diff(transcription.shares)[:, None] * jnp.concatenate(ones)[None]
