r"""The least-squares residual of multiple shooting, with the Jacobian its structure gives.

Unknowns are increments of the node states, of each run's offsets and of the parameters, in that order. A segment depends on
its own node, its run's offsets and the parameters, so its Jacobian has few columns; a QR factorisation replaces its many
residuals by as many as it has columns, with the same ½|r|², Jᵀr and JᵀJ. Gaps between segments are residuals too, weighed
by how well a segment's measurements determine its state, times a factor that is raised until they close.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel.identify._model import Model, Unknowns
from jaxhamel.identify._rollout import Blocks, blocks
from jaxhamel.identify._segments import Segments


class Weights(NamedTuple):
    """How residuals and unknowns are weighed: what changes from stage to stage, and compiles nothing again.

    - `gap`: of each component of a state, `(n,)`.
    - `hold`: of the distance of the coordinates from `z`.
    - `scale`: unknowns are y · scale, so that each matters alike; zero keeps one where it is, `(D,)`.
    """

    gap: Float[Array, " n"]
    scale: Float[Array, " D"]
    hold: Float[Array, ""]
    z: Float[Array, " P"]


@eqx.filter_jit
def linearised(model: Model, groups: tuple[Segments, ...], x: Unknowns, noise) -> list[Blocks]:
    """The segments of each group with their derivatives: the one program that integrates, and takes long to compile."""
    found, start = [], 0
    for group in groups:
        here = slice(start, start + group.count)
        node = jax.tree.map(lambda a, here=here: a[here], (x.q, x.u))
        after = jax.tree.map(lambda a: jnp.concatenate([a[1:], a[-1:]]), node)
        found.append(blocks(model, group, node, after, x.offsets[group.run], x.z, noise))
        start += group.count
    return found


@eqx.filter_jit
def assembled(model: Model, groups, parts: list[Blocks], x: Unknowns, weights: Weights):
    """(r, dr/dy, numbers to report) of all segments together."""
    rows, told, start = [], [], 0
    for group, part in zip(groups, parts, strict=True):
        gap = _inner(group, part) * weights.gap[None, :]
        rows.append(_compressed(x, group, part, start))
        rows.append((gap.ravel(), _gap_rows(x, group, part, start, weights.gap)))
        told.append((jnp.sum(part.r**2) / 2, jnp.max(jnp.abs(gap))))
        start += group.count
    rows += [*_priors(model, x), _held(model, x, weights)]
    r = jnp.concatenate([row[0] for row in rows])
    J = jnp.concatenate([row[1] for row in rows]) * weights.scale[None, :]
    data, gaps = (jnp.stack(column) for column in zip(*told, strict=True))
    numbers = {"cost": jnp.dot(r, r) / 2, "data": jnp.sum(data), "gap": jnp.max(gaps)}
    return r, J, numbers | {"decrement": _decrement(r, J)}


@eqx.filter_jit
def placed(model: Model, base: Unknowns, weights: Weights, y: Float[Array, " D"]) -> Unknowns:
    """The unknowns that y stands for, around a base point."""
    return moved(model, base, y * weights.scale)


def moved(model: Model, x: Unknowns, increments: Float[Array, " D"]) -> Unknowns:
    """The unknowns with increments in their tangent spaces."""
    n, N, P = model.tangent_size, x.u.shape[0], x.z.shape[0]
    nodes = increments[: n * N].reshape(N, n)
    q, u = jax.vmap(model.retract)((x.q, x.u), nodes)
    offsets = increments[n * N : increments.shape[0] - P].reshape(x.offsets.shape)
    return Unknowns(q, u, x.offsets + offsets, x.z + increments[increments.shape[0] - P :])


def size_of(model: Model, x: Unknowns) -> int:
    """D, the number of unknowns."""
    return model.tangent_size * x.u.shape[0] + x.offsets.size + x.z.shape[0]


def columns(x: Unknowns, group: Segments, n: int, start: int):
    """Columns of each segment's node, offsets and parameters: `(N, n + o + P)`."""
    N, (R, o), P = x.u.shape[0], x.offsets.shape, x.z.shape[0]
    node = (start + jnp.arange(group.count))[:, None] * n + jnp.arange(n)[None, :]
    offset = N * n + group.run[:, None] * o + jnp.arange(o)[None, :]
    z = jnp.broadcast_to((N * n + R * o + jnp.arange(P))[None, :], (group.count, P))
    return jnp.concatenate([node, offset, z], axis=1)


def _compressed(x: Unknowns, group: Segments, part: Blocks, start: int):
    """(r, J) of the measurements, as few rows as a segment has columns."""
    wide = jnp.concatenate([part.J_x, part.J_o, part.J_z, part.r[:, :, None]], axis=2)
    R = jnp.linalg.qr(wide, mode="r")
    place = columns(x, group, part.J_x.shape[2], start)
    return R[:, :, -1].ravel(), _spread(x, R[:, :, :-1], place, part.J_x.shape[2])


def _gap_rows(x: Unknowns, group: Segments, part: Blocks, start: int, weight):
    """J of the gaps; at the end of a run there is none."""
    N, n = part.gap.shape
    eye = jnp.broadcast_to(-jnp.eye(n, dtype=weight.dtype)[None], (N, n, n))
    none = jnp.zeros((N, n, part.J_o.shape[2]), weight.dtype)
    rows = jnp.concatenate([part.G, none, part.H, eye], axis=2)
    rows = jnp.where(group.last[:, None, None], 0.0, rows) * weight[None, :, None]
    node = jnp.minimum(start + jnp.arange(N) + 1, start + N - 1)
    following = node[:, None] * n + jnp.arange(n)[None, :]
    place = jnp.concatenate([columns(x, group, n, start), following], axis=1)
    return _spread(x, rows, place, n)


def _inner(group: Segments, part: Blocks) -> Float[Array, "N n"]:
    return jnp.where(group.last[:, None], jnp.zeros_like(part.gap), part.gap)


def _decrement(r, J):
    """By how much a Gauss–Newton step would lower ½|r|²; directions that hardly matter are left out."""
    H, g = J.T @ J, J.T @ r
    size = 1e3 * jnp.finfo(r.dtype).eps * jnp.max(jnp.diagonal(H))
    factor = jax.scipy.linalg.cho_factor(
        H + jnp.where(size > 0, size, 1.0) * jnp.eye(H.shape[0], dtype=H.dtype)
    )
    return jnp.dot(g, jax.scipy.linalg.cho_solve(factor, g)) / 2


def _spread(x: Unknowns, rows, place, n: int) -> Float[Array, "m D"]:
    """Rows of each segment, put into their columns among all unknowns."""
    N, m, _ = rows.shape
    D = x.u.shape[0] * n + x.offsets.size + x.z.shape[0]
    index = (jnp.arange(N)[:, None, None], jnp.arange(m)[None, :, None], place[:, None, :])
    return jnp.zeros((N, m, D), rows.dtype).at[index].add(rows).reshape(N * m, D)


def _held(model: Model, x: Unknowns, weights: Weights):
    """(r, J) of the coordinates' distance from where they are held."""
    P, D = x.z.shape[0], size_of(model, x)
    J = jnp.zeros((P, D), x.z.dtype).at[:, D - P :].set(weights.hold * jnp.eye(P, dtype=x.z.dtype))
    return weights.hold * (x.z - weights.z), J


def _priors(model: Model, x: Unknowns):
    """(r, J) of priors on parameters, then on offsets."""
    P, D = x.z.shape[0], size_of(model, x)
    r = model.prior_residual(x.z)
    if r.shape[0]:
        J = jax.jacfwd(model.prior_residual)(x.z)
        yield r, jnp.concatenate([jnp.zeros((r.shape[0], D - P), r.dtype), J], axis=1)
    if x.offsets.size:
        share = (jnp.ones_like(x.offsets) / model.offset_widths()[None, :]).ravel()
        J = jnp.zeros((x.offsets.size, D), r.dtype)
        first = D - P - x.offsets.size
        yield share * x.offsets.ravel(), J.at[:, first : D - P].set(jnp.diag(share))
