r"""Fisher information of the parameters, with initial states and offsets eliminated.

At the solution the gaps are closed, so the state in each segment depends only on its run's initial state and on the
parameters. With the increments δ_k of the node states, δ of the initial state and dz of the coordinates,

    δ_0 = δ ,   δ_k+1 = G_k δ_k + H_k dz    ⟹    δ_k = A_k δ + B_k dz ,

and the information of a run about the parameters alone is the Schur complement F_zz − F_zw F_ww⁺ F_wz, where w are its
initial state and offsets. The pseudo-inverse F_ww⁺ leaves out parts of the state that the run does not determine, such as
the position if only rates are measured.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel.identify._data._segments import Segments
from jaxhamel.identify._linearised._model import Model, Unknowns
from jaxhamel.identify._linearised._rollout import Blocks


@compiled
def information(
    model: Model,
    groups: tuple[Segments, ...],
    parts: list[Blocks],
    x: Unknowns,
    *,
    with_prior: bool = True,
) -> Float[Array, "P P"]:
    """The Fisher information F `(P, P)` of the coordinates z; its inverse is their covariance.

    **Arguments:** `groups`: the segments; `parts`: the result of `linearised` for them at the solution x; `with_prior`:
    whether F includes the priors on the parameters.
    """
    R, P = x.offsets.shape[0], x.z.shape[0]
    total = jnp.zeros((P, P), x.z.dtype)
    for group, part in zip(groups, parts, strict=True):
        total = total + _information_of_group(model, group, part, R)
    if with_prior:
        J = jax.jacfwd(model.prior_residual)(x.z) if P else jnp.zeros((0, 0), x.z.dtype)
        total = total + J.T @ J
    return total


def widened(parts: list[Blocks], tau: float) -> list[Blocks]:
    """The linearised segments, in which the derivatives of the measurements' residuals are divided by √τ, so that their
    information is divided by τ; the derivatives of the priors' residuals stay.
    """
    found = []
    for part in parts:
        m, e = part.r.shape[1], part.plain.shape[1]
        share = jnp.where(jnp.arange(m) < e, tau**-0.5, 1.0).astype(part.r.dtype)[None, :, None]
        found.append(
            part._replace(J_x=share * part.J_x, J_z=share * part.J_z, J_o=share * part.J_o)
        )
    return found


def _information_of_group(
    model: Model, group: Segments, part: Blocks, R: int
) -> Float[Array, "P P"]:
    """The information about z from the segments of one group; R: number of runs."""
    wide = jnp.concatenate([_by_initial_state(group, part), part.J_o, _by_z(group, part)], axis=2)
    each = jnp.einsum("sma,smb->sab", wide, wide)
    runs = jnp.zeros((R, *each.shape[1:]), each.dtype).at[group.run].add(each)
    P = part.J_z.shape[2]
    w = each.shape[1] - P
    o = part.J_o.shape[2]
    known = jnp.concatenate([jnp.zeros(w - o, each.dtype), 1 / model.offset_widths() ** 2])
    inner = runs[:, :w, :w] + jnp.diag(known)[None]
    return jnp.sum(runs[:, w:, w:] - _schur_term(inner, runs[:, :w, w:]), axis=0)


def _schur_term(inner: Float[Array, "R w w"], outer: Float[Array, "R w P"]):
    """The term F_zw F_ww⁺ F_wz of the Schur complement, with F_ww = `inner` and F_wz = `outer` for each run.

    F_ww is scaled to a unit diagonal, so that the units of w do not decide which eigenvalues count as zero.
    """
    size = jnp.sqrt(jnp.diagonal(inner, axis1=1, axis2=2))
    size = jnp.where(size > 0, size, 1.0)
    unit = inner / size[:, :, None] / size[:, None, :]
    values, vectors = jnp.linalg.eigh(unit)
    floor = 1e3 * jnp.finfo(inner.dtype).eps * values[:, -1:]
    inverse = jnp.where(values > floor, 1 / jnp.where(values > floor, values, 1.0), 0.0)
    across = jnp.einsum("rwk,rwp->rkp", vectors, outer / size[:, :, None])
    return jnp.einsum("rkp,rk,rkq->rpq", across, inverse, across)


def _segment_matrices(group: Segments, part: Blocks):
    """The matrices A_k and B_k of each segment, in δ_k = A_k δ + B_k dz (see the module)."""
    n, P = part.H.shape[1:]
    start = jnp.eye(n, dtype=part.G.dtype), jnp.zeros((n, P), part.G.dtype)

    def link(carry, segment):
        first, G, H = segment
        A, B = jax.tree.map(lambda new, old: jnp.where(first, new, old), start, carry)
        return (G @ A, G @ B + H), (A, B)

    return jax.lax.scan(link, start, (group.first, part.G, part.H))[1]


def _by_initial_state(group: Segments, part: Blocks):
    """The derivatives of each segment's residuals by the initial state of its run."""
    return jnp.einsum("smn,snk->smk", part.J_x, _segment_matrices(group, part)[0])


def _by_z(group: Segments, part: Blocks):
    """The derivatives of each segment's residuals by z, with the gaps closed."""
    return part.J_z + jnp.einsum("smn,snp->smp", part.J_x, _segment_matrices(group, part)[1])
