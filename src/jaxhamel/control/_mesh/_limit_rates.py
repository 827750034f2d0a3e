"""Rates of limits of order 2 as further rows of a transcription: on a boundary arc the limit's rate is zero, too.

The points of an interval see a function g of the state at the nodes and between them, but not its rate at the node where an
arc of order 2 begins: a motion that arrives with ġ ≠ 0 can be on the bound at all later points. ġ = 0 is the second of two
conditions there; the times of both ends of the arc are unknowns.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._boundary_arcs import BoundaryArc, bounded_by
from jaxhamel.mechanics import System
from jaxhamel.mechanics._acceleration import motion


class LimitRates(eqx.Module):
    """ġ = ∂g/∂t + ∂g/∂q·v + ∂g/∂u·u̇ of some `rows` of path limits, a function as the limits are."""

    limits: tuple[Any, ...]
    rows: tuple[int, ...] = eqx.field(static=True)

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " k"]:
        """The rates of the limits' values along the motion."""
        v, u_dot = motion(system, t, q, u, control)

        def after(dt):
            at = system, t + dt, system.space.retract(q, dt * v), u + dt * u_dot, control
            return jnp.concatenate([x.residual(*at) for x in self.limits])

        _, rates = jax.jvp(after, (jnp.zeros_like(t),), (jnp.ones_like(t),))
        return rates[np.asarray(self.rows)]


def rows_with_rates(arcs: list[BoundaryArc]) -> tuple[int, ...]:
    """The rows of limits of order 2 that have arcs which do not begin with the motion."""
    return tuple(sorted({x.row for x in arcs if x.order == 2 and x.begin > 0.0}))


def with_rates(own: Transcription, rows: tuple[int, ...]) -> Transcription:
    """The transcription with the rates of `rows` as its last rows, which have no bounds."""
    if not rows:
        return own
    shape = (*own.lower.shape[:2], len(rows))
    unlimited = jnp.full(shape, jnp.inf, own.lower.dtype)
    return dataclasses.replace(
        own,
        limits=(*own.limits, LimitRates(own.limits, rows)),
        lower=jnp.concatenate([own.lower, -unlimited], axis=2),
        upper=jnp.concatenate([own.upper, unlimited], axis=2),
        sizes=own.sizes
        and own.sizes._replace(
            limits=jnp.concatenate([own.sizes.limits, own.sizes.limits[np.asarray(rows)]])
        ),
    )


def zero_where_arcs_begin(
    searched: Transcription, arcs: list[BoundaryArc], rows: tuple[int, ...]
) -> Transcription:
    """`searched`, a transcription with the rates of `rows`, in which these are zero at the nodes where their arcs begin."""
    lower, upper = np.array(searched.lower), np.array(searched.upper)
    first = lower.shape[2] - len(rows)
    for arc in arcs:
        start = arc.intervals(searched).start
        if arc.row in rows and start > 0:
            at = start - 1, -1, first + rows.index(arc.row)
            lower[at] = upper[at] = 0.0
    return bounded_by(searched, lower, upper)


def without_rates(
    searched: Transcription, state: SearchState, count: int
) -> tuple[Transcription, SearchState]:
    """The transcription and the state without their last `count` rows, which are rates."""
    if not count:
        return searched, state
    sizes = searched.sizes and searched.sizes._replace(limits=searched.sizes.limits[:-count])
    fewer = dataclasses.replace(
        searched, limits=searched.limits[:-1], lower=searched.lower[..., :-count], upper=searched.upper[..., :-count],
        sizes=sizes,
    )  # fmt: skip
    duals = {x: getattr(state.duals, x)[..., :-count] for x in ("limits", "low", "high")}
    w = state.w._replace(slack=state.w.slack[..., :-count])
    return fewer, state._replace(w=w, duals=state.duals._replace(**duals))
