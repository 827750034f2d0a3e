r"""The least-squares residual of multiple shooting, with its structured Jacobian.

The unknowns are increments of the node states, of each run's offsets and of the parameters, in this order. The residuals of
a segment depend on its own node, its run's offsets and the parameters, so their Jacobian has few columns that are not zero
(`_arrow`). A QR factorisation replaces these many residuals by as many as there are such columns, and one more, with the
same ½|r|², Jᵀr and JᵀJ. The gaps between segments are residuals, too. Their weight is the accuracy with which a segment's
measurements determine its state, times a factor that grows until the gaps close.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel.identify._data._segments import Segments
from jaxhamel.identify._linearised._arrow import Linear, SegmentRows, arrow_of
from jaxhamel.identify._linearised._model import Model, Unknowns
from jaxhamel.identify._linearised._rollout import Blocks, blocks
from jaxhamel.identify._linearised._solver import SHARPNESS
from jaxhamel.mechanics._tangent import retract, tangent_size


class FitWeights(NamedTuple):
    """Weights of the residuals and scales of the unknowns. They change from round to round; the compiled program stays.

    - `gap`: weight of a gap in each component of a state, `(n,)`.
    - `hold`: weight (1/σ) of the temporary prior that keeps the coordinates near `z`.
    - `scale`: factor from the search's variable y to increments of the unknowns, `(D,)`; a zero keeps an unknown fixed.
    """

    gap: Float[Array, " n"]
    scale: Float[Array, " D"]
    hold: Float[Array, ""]
    z: Float[Array, " P"]


@compiled
def linearised(model: Model, groups: tuple[Segments, ...], x: Unknowns, noise) -> list[Blocks]:
    """Integrates and linearises the segments of each group at the unknowns x; `noise`: standard deviation of each error.

    Of a fit's programs this is the only one that integrates, and the one that takes longest to compile.
    """
    found, start = [], 0
    for group in groups:
        here = slice(start, start + group.count)
        node = jax.tree.map(lambda a, here=here: a[here], (x.q, x.u))
        after = jax.tree.map(lambda a: jnp.concatenate([a[1:], a[-1:]]), node)
        found.append(blocks(model, group, node, after, x.offsets[group.run], x.z, noise))
        start += group.count
    return found


@compiled
def assembled(model: Model, groups, parts: list[Blocks], x: Unknowns, weights: FitWeights):
    """Assembles the least-squares problem from the linearised segments `parts` of all groups.

    **Returns:** the residual r; J = dr/dy, a `Linear`; the normal equations, an `ArrowMatrix`; and a dictionary of numbers:
    `cost`, ½|r|²; `data`, its part from measurements; `gap`, the largest weighted gap; `decrement`, that of the normal
    equations.
    """
    rows, costs_and_gaps = [], []
    for group, part, start in zip(groups, parts, _starts(groups), strict=True):
        gaps = _gap_rows(x, group, part, start, weights.gap)
        rows += [_compressed(x, group, part, start), gaps]
        costs_and_gaps.append((jnp.sum(part.r**2) / 2, jnp.max(jnp.abs(gaps.r))))
    border = [*_priors(model, x), _temporary_prior(x, weights)]
    r_border, J_border = (jnp.concatenate(pieces) for pieces in zip(*border, strict=True))
    nodes = x.u.shape[0]
    r = jnp.concatenate([*(row.r.ravel() for row in rows), r_border])
    J = Linear(tuple(rows), J_border, weights.scale, nodes)
    arrow = arrow_of(tuple(rows), nodes, r_border, J_border).scaled(weights.scale)
    data, gaps = (jnp.stack(column) for column in zip(*costs_and_gaps, strict=True))
    numbers = {"cost": jnp.dot(r, r) / 2, "data": jnp.sum(data), "gap": jnp.max(gaps)}
    return r, J, arrow, numbers | {"decrement": arrow.decrement()}


def _starts(groups: tuple[Segments, ...]) -> list[int]:
    """The index of the first node of each group."""
    return [sum(group.count for group in groups[:i]) for i in range(len(groups))]


@compiled
def weights_of(model, groups, parts, x: Unknowns, gap, only_states, hold, z) -> FitWeights:
    """The weights of a search: gaps are weighed by the accuracy of the measurements, unknowns scaled by the lengths of their
    columns.

    **Arguments:** `gap`: factor of the gaps' weights; `only_states`: whether offsets and parameters stay fixed; `hold`, `z`:
    see `FitWeights`.
    """
    D, n, dtype = size_of(model, x), tangent_size(model.system), x.z.dtype
    nodes = n * x.u.shape[0]
    plain = FitWeights(jnp.zeros(n, dtype), jnp.ones(D, dtype), hold, z)
    squares = assembled(model, groups, parts, x, plain)[2].diagonal
    accuracy = jnp.sqrt(jnp.mean(squares[:nodes].reshape(-1, n), axis=0))
    natural = jnp.maximum(accuracy, 1e-3 * jnp.max(accuracy))
    weight = natural * gap
    # The scales are computed without the factor `gap` of the gaps' weights: with a large factor they would damp too strongly
    # those changes that open no gaps.
    length = jnp.sqrt(squares + jnp.pad(jnp.tile(natural, x.u.shape[0]) ** 2, (0, D - nodes)))
    scale = SHARPNESS / jnp.maximum(length, 1e-8 * jnp.max(length))
    keeps = only_states & (jnp.arange(D) >= nodes)
    return FitWeights(weight, jnp.where(keeps, 0.0, scale), hold, z)


@compiled
def placed(model: Model, base: Unknowns, weights: FitWeights, y: Float[Array, " D"]) -> Unknowns:
    """The unknowns at the scaled increments y from a base point."""
    return unknowns_after(model, base, y * weights.scale)


def unknowns_after(model: Model, x: Unknowns, increments: Float[Array, " D"]) -> Unknowns:
    """The unknowns after increments `(D,)` of the node states (in their tangent spaces), of the offsets and of z."""
    n, N, P = tangent_size(model.system), x.u.shape[0], x.z.shape[0]
    nodes = increments[: n * N].reshape(N, n)
    q, u = jax.vmap(partial(retract, model.system))((x.q, x.u), nodes)
    offsets = increments[n * N : increments.shape[0] - P].reshape(x.offsets.shape)
    return Unknowns(q, u, x.offsets + offsets, x.z + increments[increments.shape[0] - P :])


def size_of(model: Model, x: Unknowns) -> int:
    """The number D of unknowns."""
    return tangent_size(model.system) * x.u.shape[0] + x.offsets.size + x.z.shape[0]


def _places(x: Unknowns, group: Segments):
    """The indices of each segment's offsets and parameters in the border, `(N, o + P)`."""
    (R, o), P = x.offsets.shape, x.z.shape[0]
    offset = group.run[:, None] * o + jnp.arange(o)[None, :]
    z = jnp.broadcast_to((R * o + jnp.arange(P))[None, :], (group.count, P))
    return jnp.concatenate([offset, z], axis=1)


def _compressed(x: Unknowns, group: Segments, part: Blocks, start: int) -> SegmentRows:
    """The residuals of a group's measurements and of its priors on initial states, compressed by QR factorisation."""
    wide = jnp.concatenate([part.J_x, part.J_o, part.J_z, part.r[:, :, None]], axis=2)
    R, n = jnp.linalg.qr(wide, mode="r"), part.J_x.shape[2]
    return SegmentRows(R[:, :, -1], R[:, :, :n], None, R[:, :, n:-1], _places(x, group), start)


def _gap_rows(x: Unknowns, group: Segments, part: Blocks, start: int, weight) -> SegmentRows:
    """The weighted gaps between neighbouring segments as residuals; they are 0 at the end of a run."""
    N, n = part.gap.shape
    on = jnp.where(group.last[:, None], 0.0, weight[None, :])
    after = jnp.broadcast_to(-jnp.eye(n, dtype=weight.dtype)[None], (N, n, n))
    none = jnp.zeros((N, n, part.J_o.shape[2]), weight.dtype)
    border = jnp.concatenate([none, part.H], axis=2)
    node, after, border = (on[:, :, None] * J for J in (part.G, after, border))
    return SegmentRows(on * part.gap, node, after, border, _places(x, group), start)


def _temporary_prior(x: Unknowns, weights: FitWeights):
    """Residual and Jacobian (r, J) of the temporary prior that keeps the coordinates near `weights.z`."""
    P, dtype = x.z.shape[0], x.z.dtype
    none = jnp.zeros((P, x.offsets.size), dtype)
    J = jnp.concatenate([none, weights.hold * jnp.eye(P, dtype=dtype)], axis=1)
    return weights.hold * (x.z - weights.z), J


def _priors(model: Model, x: Unknowns):
    """Yields the residual and Jacobian (r, J) of the priors on parameters, then of those on offsets; J has a column for each
    entry of the border.
    """
    P, O = x.z.shape[0], x.offsets.size
    r = model.prior_residual(x.z)
    if r.shape[0]:
        J = jax.jacfwd(model.prior_residual)(x.z)
        yield r, jnp.concatenate([jnp.zeros((r.shape[0], O), r.dtype), J], axis=1)
    if O:
        share = (jnp.ones_like(x.offsets) / model.offset_widths()[None, :]).ravel()
        J = jnp.concatenate([jnp.diag(share), jnp.zeros((O, P), r.dtype)], axis=1)
        yield share * x.offsets.ravel(), J
