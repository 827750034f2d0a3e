"""Newton steps for the equations of multiple shooting: one dense least-squares problem on the host.

The least-squares solution of least norm exists even if multipliers are not unique.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel._compiled import compiled
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._indirect._shooting import Equations, ExtremalNodes
from jaxhamel.geometry import AbstractSpace

RANK = 1e-12  # singular values below this share of the largest one count as zero


class Counts(NamedTuple):
    """The numbers of states d, of intervals N, of conditions b, and of free end times (0 or 1)."""

    d: int
    N: int
    b: int
    free: int

    @property
    def unknowns(self) -> int:
        """The number of unknowns: λ_0, (δx_i, λ_i) of all other nodes, y, T."""
        return self.d + 2 * self.d * self.N + self.b + self.free


def counts_of(nodes: ExtremalNodes, free: bool) -> Counts:
    """The counts of an iterate; `free`: whether the end time is an unknown."""
    N, d = nodes.costates.shape[0] - 1, nodes.costates.shape[1]
    return Counts(d, N, nodes.y.shape[0], int(free))


class ExtremalSizes(NamedTuple):
    """The sizes of all unknowns, of all equations, and of the costates of a node; the search divides by them.

    The size of a costate is the unit of the cost divided by the size of its state; the size of a multiplier is the unit of
    the cost divided by the size of its condition.
    """

    unknowns: Float[np.ndarray, " v"]
    equations: Float[np.ndarray, " a"]
    costates: Float[np.ndarray, " d"]


def scales_of(transcription: Transcription, counts: Counts) -> ExtremalSizes:
    """The scales that follow from the sizes of a direct solution's transcription."""
    d, N, b, free = counts
    sizes, unit = transcription.sizes, float(transcription.cost_unit)
    x = np.ones(d) if sizes is None else np.asarray(sizes.x, float)
    conditions = np.ones(b) if sizes is None else np.asarray(sizes.conditions, float)
    time = np.ones(free) if sizes is None else np.asarray(sizes.p, float)[:free]
    costates = unit / x
    nodes = np.tile(np.concatenate([x, costates]), N)
    return ExtremalSizes(
        np.concatenate([costates, nodes, unit / conditions, time]),
        np.concatenate([nodes, conditions, costates, unit / time]),
        costates,
    )


def assembled(
    found: Equations, counts: Counts, scales: ExtremalSizes
) -> tuple[Float[np.ndarray, " a"], Float[np.ndarray, "a v"]]:
    """(residual, its derivative by all unknowns), a dense vector and matrix: the rows of all intervals, then of the end.

    Both are in sizes.
    """
    d, N, b, free = counts
    gaps, by_start, by_others, last, by_last = (np.asarray(x, float) for x in found[:5])
    matrix = np.zeros((2 * d * N + last.shape[0], counts.unknowns))

    def column(i):
        return d + 2 * d * (i - 1)  # the first column of δx_i

    for i in range(N):
        rows = slice(2 * d * i, 2 * d * (i + 1))
        if i:
            matrix[rows, column(i) : column(i + 1)] = by_start[i]
        else:
            matrix[rows, :d] = by_start[0][:, d:]
        matrix[rows, column(i + 1) : column(i + 2)] = -np.eye(2 * d)
        if free:
            matrix[rows, -1] = by_others[i, :, 0]
    matrix[2 * d * N :, column(N) : column(N + 1)] = by_last[:, : 2 * d]
    matrix[2 * d * N :, column(N + 1) : column(N + 1) + b] = by_last[:, 2 * d : 2 * d + b]
    if free:
        matrix[2 * d * N :, -1] = by_last[:, -2]
    residual = np.concatenate([gaps.ravel(), last])
    return residual / scales.equations, matrix * scales.unknowns / scales.equations[:, None]


def by_parameter(found: Equations, scales: ExtremalSizes) -> Float[np.ndarray, " a"]:
    """The derivative of the residual, in sizes, by the parameter of a continuation."""
    gaps, last = np.asarray(found.by_others)[:, :, 1], np.asarray(found.by_last)[:, -1]
    return np.concatenate([gaps.ravel(), last]) / scales.equations


def size_of_costates(nodes: ExtremalNodes, scales: ExtremalSizes) -> float:
    """1 + the largest costate, in sizes: residuals count relative to it."""
    return 1.0 + float(np.max(np.abs(np.asarray(nodes.costates, float)) / scales.costates))


def least_squares(
    matrix: Float[np.ndarray, "a v"], right: Float[np.ndarray, " a"]
) -> Float[np.ndarray, " v"]:
    """The least-squares solution x of least norm of `matrix` x = `right`."""
    return np.linalg.lstsq(matrix, right, rcond=RANK)[0]


def stepped(
    space: AbstractSpace,
    nodes: ExtremalNodes,
    step: Float[np.ndarray, " v"],
    counts: Counts,
    scales: ExtremalSizes,
) -> ExtremalNodes:
    """The iterate `nodes` after a step of all unknowns, which is in sizes."""
    return _stepped(space, nodes, jnp.asarray(step * scales.unknowns, nodes.u.dtype), counts)


@compiled
def _stepped(
    space: AbstractSpace, nodes: ExtremalNodes, step: jax.Array, counts: Counts
) -> ExtremalNodes:
    d, N, b, free = counts
    n = space.dim
    change = jnp.concatenate([jnp.zeros(d, step.dtype), step[: d + 2 * d * N]])
    change = change.reshape(N + 1, 2 * d)

    def move(q, delta):
        return space.normalise(space.retract(q, delta))

    end = nodes.end + step[-1] if free else nodes.end
    start = d + 2 * d * N
    return ExtremalNodes(
        jax.vmap(move)(nodes.q, change[:, :n]),
        nodes.u + change[:, n:d],
        nodes.costates + change[:, d:],
        nodes.y + step[start : start + b],
        end,
        nodes.c,
    )


def is_finite(found: Equations) -> bool:
    """Whether all residuals and derivatives are finite."""
    return all(bool(np.all(np.isfinite(np.asarray(x)))) for x in eqx.filter(found, eqx.is_array))
