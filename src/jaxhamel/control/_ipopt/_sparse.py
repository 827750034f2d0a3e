"""A transcription as a sparse nonlinear program: unknowns z, constraints g(z), and the places of their derivatives.

z = (x_1 … x_N, X, c, p) and g = (stage defects, gaps, conditions, limits). Derivatives are the blocks of `parts_of`, whose
entries have fixed places in the Jacobian and in the lower triangle of the Hessian; entries at one place add up. IPOPT knows
no charts that move: its polynomials are those in the charts about the nodes of the guess.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, compiled_with
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Duals, Parts, evaluate_in_charts, parts_of
from jaxhamel.control._scaling._sizes import TypicalSizes

FIXED = -1  # place of those entries of the initial state that are given, not unknown


class Numbering(NamedTuple):
    """The places of unknowns in z, and of the constraints in g."""

    x: Int[np.ndarray, "N+1 d"]
    X: Int[np.ndarray, "N s d"]
    c: Int[np.ndarray, "N s m"]
    p: Int[np.ndarray, " p"]
    stages: Int[np.ndarray, "N s d"]
    gaps: Int[np.ndarray, "N d"]
    conditions: Int[np.ndarray, " b"]
    limits: Int[np.ndarray, "N s r"]

    @classmethod
    def of(cls, transcription: Transcription, w: CollocationPoint, rows: int) -> "Numbering":
        """Numbers the unknowns and constraints of an iterate; `rows`: the number of conditions."""
        unknowns = _entry_numbers((w.x[1:], w.X, w.c, w.p))
        constraints = _entry_numbers((w.X, w.x[1:], np.zeros(rows), w.slack))
        x = np.concatenate([np.full_like(unknowns[0][:1], FIXED), unknowns[0]])
        free = list(transcription.free_start)
        start = int(transcription.free_time)
        x[0, free] = unknowns[3][start : start + len(free)]
        return cls(x, *unknowns[1:], *constraints)

    @property
    def stage(self) -> Int[np.ndarray, "N s y"]:
        """The indices in z of the unknowns y = (X, c, p) of each collocation point."""
        p = np.broadcast_to(self.p, (*self.X.shape[:2], len(self.p)))
        return np.concatenate([self.X, self.c, p], axis=2)

    @property
    def all_X(self) -> Int[np.ndarray, "N s+1 d"]:
        """The indices in z of the states X_0 … X_s of each interval."""
        return np.concatenate([self.x[:-1, None], self.X], axis=1)

    @property
    def first(self) -> Int[np.ndarray, " y"]:
        """The indices in z of the unknowns y = (c, p) that the conditions at the first time contain."""
        return np.concatenate([self.c[0].ravel(), self.p])

    @property
    def last(self) -> Int[np.ndarray, " y"]:
        """The indices in z of the unknowns y = (x, c, p) that the conditions at the last time contain."""
        return np.concatenate([self.x[-1], self.c[-1].ravel(), self.p])


def _entry_numbers(arrays: tuple[Any, ...]) -> list[Any]:
    """Numbers the entries of all arrays one after the other, from 0 on; returns arrays of numbers with the same shapes."""
    ends = np.cumsum([0, *(np.size(x) for x in arrays)])
    return [
        np.arange(a, a + np.size(x)).reshape(np.shape(x))
        for a, x in zip(ends[:-1], arrays, strict=True)
    ]


class Entries(NamedTuple):
    """A sparse matrix: the indices of its entries in the list of all computed entries, and their rows and columns."""

    kept: Int[np.ndarray, " k"]
    rows: Int[np.ndarray, " k"]
    columns: Int[np.ndarray, " k"]

    @classmethod
    def of(cls, blocks: list[Any], lower: bool) -> "Entries":
        """Lists the entries of all blocks, without those of fixed places.

        **Arguments:** `blocks`: pairs (places of rows `(…, a)`, places of columns `(…, b)`); `lower`: whether to keep only
        the lower triangle.
        """
        rows, columns = ([], [])
        for a, b in blocks:
            shape = (*a.shape, b.shape[-1])
            rows.append(np.broadcast_to(a[..., :, None], shape).ravel())
            columns.append(np.broadcast_to(b[..., None, :], shape).ravel())
        row, column = np.concatenate(rows), np.concatenate(columns)
        counts = (row != FIXED) & (column != FIXED) & ((row >= column) | (not lower))
        kept = np.flatnonzero(counts)
        return cls(kept, row[kept], column[kept])


def jacobian_places(numbers: Numbering) -> Entries:
    """The places in the Jacobian of the entries that `_jacobian` lists."""
    flat_X = numbers.all_X.reshape(numbers.X.shape[0], -1)
    s = numbers.X.shape[1]
    by_component = np.moveaxis(numbers.all_X, 1, 2)[:, None]  # (N, 1, d, s+1)
    along_stages = np.broadcast_to(by_component, (len(flat_X), s, *by_component.shape[2:]))
    split = numbers.conditions.shape[0]
    return Entries.of(
        [
            (numbers.stages[..., None], along_stages),
            (numbers.stages, numbers.stage),
            (numbers.limits, numbers.stage),
            (numbers.gaps, flat_X),
            (numbers.gaps[..., None], numbers.x[1:][..., None]),
            (numbers.conditions[:split], numbers.first),
            (numbers.conditions[:split], numbers.last),
        ],
        lower=False,
    )


def hessian_places(numbers: Numbering) -> Entries:
    """The places in the lower triangle of the Hessian of the entries that `_hessian` lists."""
    flat_X = numbers.all_X.reshape(numbers.X.shape[0], -1)
    pairs = (numbers.stage, flat_X, numbers.first, numbers.last)
    return Entries.of([(x, x) for x in pairs], lower=True)


def iterate_of(like: CollocationPoint, transcription: Transcription, z: Array) -> CollocationPoint:
    """The iterate with the unknowns z, and slacks of zero."""
    sizes = np.cumsum([like.x[1:].size, like.X.size, like.c.size])
    x, X, c, p = jnp.split(z, sizes)
    start = int(transcription.free_time)
    free = np.asarray(transcription.free_start, int)
    first = like.x[0].at[free].set(p[start : start + len(free)])
    nodes = jnp.concatenate([first[None], x.reshape(-1, first.shape[0])])
    zeros = jnp.zeros_like(like.slack)
    return like._replace(
        x=nodes, X=X.reshape(like.X.shape), c=c.reshape(like.c.shape), p=p, slack=zeros
    )


def vector_of(w: CollocationPoint) -> Float[Array, " z"]:
    """The unknowns z of an iterate."""
    return jnp.concatenate([w.x[1:].ravel(), w.X.ravel(), w.c.ravel(), w.p])


def sizes_of_program(
    sizes: TypicalSizes | None, like: CollocationPoint, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of all unknowns z and of all constraints g; `rows`: the number of conditions."""
    if sizes is None:
        return np.ones(vector_of(like).size), np.ones(
            like.X.size + like.x[1:].size + rows + like.slack.size
        )

    def flat(size, shape):
        return np.broadcast_to(np.asarray(size), shape).ravel()

    x, X = flat(sizes.x, like.x[1:].shape), flat(sizes.x, like.X.shape)
    unknowns = x, X, flat(sizes.c, like.c.shape), sizes.p
    limits = flat(sizes.limits, like.slack.shape)
    return np.concatenate(unknowns), np.concatenate([X, x, sizes.conditions, limits])


def duals_of(like: CollocationPoint, multipliers: Array, of_p: tuple[Array, Array]) -> Duals:
    """Converts IPOPT's multipliers, of g and of the bounds of p, to those of the interior-point method."""
    sizes = np.cumsum([like.X.size, like.x[1:].size])
    stages, gaps, rest = jnp.split(multipliers, sizes)
    conditions, limits = jnp.split(rest, [rest.shape[0] - like.slack.size])
    limits, gaps = limits.reshape(like.slack.shape), gaps.reshape(like.x[1:].shape)
    costates = jnp.concatenate([gaps[:1], gaps])
    low, high = jnp.maximum(-limits, 0.0), jnp.maximum(limits, 0.0)
    return Duals(costates, stages.reshape(like.X.shape), conditions, limits, low, high, *of_p)


@compiled_with(FEW_RUNS)
def values_at(transcription: Transcription, like: CollocationPoint, z: Array) -> Any:
    """The cost J and the constraints g at z."""
    cost, r = evaluate_in_charts(transcription, iterate_of(like, transcription, z))
    parts = (r.stages.ravel(), r.gaps.ravel(), r.conditions, r.limits.ravel())
    return cost, jnp.concatenate(parts)


@compiled_with(FEW_RUNS)
def derivatives_at(
    transcription: Transcription, like: CollocationPoint, z: Array, multipliers: Array
) -> tuple[Array, Array, Array]:
    """(∂J/∂z, all entries of the Jacobian, all entries of the Hessian)."""
    w = iterate_of(like, transcription, z)
    none = jnp.zeros_like(w.p)
    parts = parts_of(transcription, w, duals_of(like, multipliers, (none, none)))
    return (
        _gradient(transcription, w, parts),
        _jacobian(transcription, parts),
        _hessian(transcription, parts),
    )


def _gradient(transcription: Transcription, w: CollocationPoint, parts: Parts) -> Array:
    """The gradient ∂J/∂z of the cost."""
    d, m = transcription.size, transcription.n_controls
    of_points = parts.points.gradient
    s = w.X.shape[1]
    c = of_points[..., d : d + m]
    c = c.at[0].add(parts.first.gradient[: s * m].reshape(s, m))
    c = c.at[-1].add(parts.last.gradient[d : d + s * m].reshape(s, m))
    p = jnp.sum(of_points[..., d + m :], axis=(0, 1))
    p = p + parts.first.gradient[s * m :] + parts.last.gradient[d + s * m :]
    x = jnp.zeros_like(w.x[1:]).at[-1].set(parts.last.gradient[:d])
    return jnp.concatenate([x.ravel(), of_points[..., :d].ravel(), c.ravel(), p])


def _jacobian(transcription: Transcription, parts: Parts) -> Array:
    """The entries of ∂g/∂z, block by block; their places are `jacobian_places`."""
    d = transcription.size
    derivative, end = transcription.constants("derivative"), transcription.constants("end")
    N, s = parts.points.cost.shape
    along = jnp.broadcast_to(derivative[None, :, None, :], (N, s, d, s + 1))
    gaps = jnp.einsum("iab,k->iakb", parts.ends.jacobian, end)
    rows = parts.first.value.shape[0], parts.last.value.shape[0]
    none = jnp.zeros((rows[1], parts.first.jacobian.shape[1]), end.dtype)
    first = jnp.concatenate([parts.first.jacobian, none])
    none = jnp.zeros((rows[0], parts.last.jacobian.shape[1]), end.dtype)
    last = jnp.concatenate([none, parts.last.jacobian])
    blocks = (
        along, -parts.points.jacobian[:, :, :d], parts.points.jacobian[:, :, d:], gaps,
        -jnp.ones((N, d), end.dtype), first, last,
    )  # fmt: skip
    return jnp.concatenate([x.ravel() for x in blocks])


def _hessian(transcription: Transcription, parts: Parts) -> Array:
    """The entries of the Lagrangian's Hessian, block by block; their places are `hessian_places`."""
    end = transcription.constants("end")
    ends = jnp.einsum("iab,k,l->ikalb", parts.ends.hessian, end, end)
    blocks = (parts.points.hessian, ends, parts.first.hessian, parts.last.hessian)
    return jnp.concatenate([x.ravel() for x in blocks])
