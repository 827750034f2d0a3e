"""Solves the linearised collocation equations of one interval for its s stages, block by block:

    Σ_k D_jk x_k − J_j x_j = b_j ,    j = 1 … s ,

with D the collocation's differentiation matrix and J_j the Jacobian of h f at stage j. The traced equations of motion show
on which coordinates each rate depends. Coordinates whose rates depend on one another form one block, whose matrix is
inverted; blocks are solved in the order of their dependencies. A coordinate whose rate does not depend on itself (an angle,
whose rate is another coordinate; a prescribed velocity) needs only D⁻¹, which is constant.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._lanes._written_out import written_out
from jaxhamel.control._collocation._transcription import (
    CollocationPoint,
    Interval,
    Transcription,
    along,
)
from jaxhamel.control._interior_point._many_matrices import inverse


class StageBlock(NamedTuple):
    """Coordinates that are solved for together; `before`: the coordinates of earlier blocks on which their rates depend;
    `coupled`: whether their rates depend on their own values."""

    coordinates: tuple[int, ...]
    before: tuple[int, ...]
    coupled: bool


class StageEquations(NamedTuple):
    """The inverse matrices of the coupled blocks, `(s n, s n)` each, and the Jacobians J, `(s, d, d)`."""

    inverses: tuple[Array, ...]
    J: Float[Array, "s d d"]


def blocks_of(transcription: Transcription, w: CollocationPoint) -> tuple[StageBlock, ...]:
    """The blocks in an order in which each depends on earlier ones only."""
    depends = _dependencies(transcription, w)
    reach = depends.copy()
    for k in range(len(reach)):
        reach |= reach[:, k : k + 1] & reach[k]
    left, blocks = list(range(len(reach))), []
    while left:
        ready = [i for i in left if not np.any(reach[i, left])]
        if (
            not ready
        ):  # then a group that depend on one another, and on no other remaining coordinate
            within = [i for i in left if reach[i, i]]
            first = min(within, key=lambda i: int(np.sum(reach[i, left])))
            ready = [i for i in left if reach[first, i] and reach[i, first]]
        left = [i for i in left if i not in ready]
        before = [i for i in range(len(reach)) if i not in [*left, *ready]]
        read = [i for i in before if np.any(depends[ready, i])]
        coupled = bool(np.any(depends[np.ix_(ready, ready)]))
        blocks.append(StageBlock(tuple(ready), tuple(read), coupled))
    return tuple(blocks)


def _dependencies(transcription: Transcription, w: CollocationPoint) -> Bool[np.ndarray, "d d"]:
    """Entry (i, j): whether the rate of coordinate i depends on coordinate j. All are true if tracing does not show it."""
    d = transcription.size

    def rate(y, q, x, share):
        return transcription.rate(Interval(q, x, q, x, share, share), share, y)

    def one(x):
        return jnp.zeros((1, *x), w.X.dtype)

    y = one((d + transcription.n_controls + w.p.shape[0],))
    q = jax.lax.stop_gradient(along(w.q, slice(0, 1)))
    found = written_out(rate, [True] * 4, y, q, one((d,)), one(()))
    if found is None or found.look_ups or len(found.arguments[0]) != y.size:
        return np.ones((d, d), bool)
    graph = found.program.graph
    needed = [set(graph.needed([result])) for result in found.results[0]]
    return np.array([[node in of for node in found.arguments[0][:d]] for of in needed])


def factored(
    blocks: tuple[StageBlock, ...], derivative: Float[np.ndarray, "s s"], J: Float[Array, "s d d"]
) -> StageEquations:
    """The stage equations of one interval, with the inverses of their coupled blocks."""
    s = len(derivative)
    stages = jnp.eye(s, dtype=J.dtype)
    D = jnp.asarray(derivative, J.dtype)

    def inverse_of(block: StageBlock) -> Array:
        at = np.asarray(block.coordinates)
        own = D[:, None, :, None] * jnp.eye(len(at), dtype=J.dtype)[None, :, None, :]
        own = own - J[:, at][:, :, None, at] * stages[:, None, :, None]
        return inverse(own.reshape(s * len(at), s * len(at)))

    return StageEquations(tuple(inverse_of(block) for block in blocks if block.coupled), J)


def solution(
    blocks: tuple[StageBlock, ...],
    derivative: Float[np.ndarray, "s s"],
    equations: StageEquations,
    right: Float[Array, "s d k"],
) -> Float[Array, "s d k"]:
    """Solves Σ_k D_jk x_k − J_j x_j = b_j for x, with several right-hand sides b, the columns of `right`."""
    of_block, found = _by_block(blocks, derivative, equations, False), {}
    for k, block in enumerate(blocks):
        at, before = np.asarray(block.coordinates), np.asarray(block.before, int)
        own = right[:, at]
        if block.before:
            known = jnp.stack([found[i] for i in block.before], axis=1)
            own = own + jnp.einsum("jab,jbk->jak", equations.J[:, at][:, :, before], known)
        found |= zip(block.coordinates, jnp.moveaxis(of_block[k](own), 1, 0), strict=True)
    return jnp.stack([found[i] for i in range(right.shape[1])], axis=1)


def adjoint_solution(
    blocks: tuple[StageBlock, ...],
    derivative: Float[np.ndarray, "s s"],
    equations: StageEquations,
    right: Float[Array, "s d"],
) -> Float[Array, "s d"]:
    """Solves Σ_j D_jk x_j − J_kᵀ x_k = b_k for x, the transposed equations, with b = `right`."""
    of_block, found = _by_block(blocks, derivative, equations, True), {}
    for k, block in reversed(list(enumerate(blocks))):
        at = np.asarray(block.coordinates)
        later = _dependent_coordinates(block, blocks[k + 1 :])
        own = right[:, at]
        if later:
            known = jnp.stack([found[i] for i in later], axis=1)
            own = own + jnp.einsum("jba,jb->ja", equations.J[:, np.asarray(later)][:, :, at], known)
        found |= zip(block.coordinates, of_block[k](own[..., None])[..., 0].T, strict=True)
    return jnp.stack([found[i] for i in range(right.shape[1])], axis=1)


def _dependent_coordinates(block: StageBlock, others: tuple[StageBlock, ...]) -> list[int]:
    """The coordinates of all blocks in `others` whose equations contain coordinates of `block`."""
    own = set(block.coordinates)
    return [i for other in others if own & set(other.before) for i in other.coordinates]


def _by_block(blocks, derivative, equations: StageEquations, transposed: bool) -> list:
    """For each block, the function that solves its own equations for right-hand sides `(s, n, k)`."""
    inverses = iter(equations.inverses)
    constant = jnp.asarray(np.linalg.inv(derivative), equations.J.dtype)

    def alone(b):
        return jnp.tensordot(constant.T if transposed else constant, b, 1)

    def coupled(matrix):
        return lambda b: (matrix.T if transposed else matrix) @ b.reshape(-1, b.shape[2])

    def shaped(solve):
        return lambda b: solve(b).reshape(b.shape)

    return [shaped(coupled(next(inverses))) if block.coupled else alone for block in blocks]
