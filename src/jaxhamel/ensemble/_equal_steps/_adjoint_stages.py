"""Transposes a step stage by stage, with cotangents of shared inputs that are summed over the lanes in each stage.

    κ_i = h (b_i w + Σ_{j>i} a_ji Ȳ_j) ,   Ȳ_i = f_y(Y_i)ᵀ κ_i ,   p̄ += Σ_i f_p(Y_i)ᵀ κ_i

It takes the place of `_adjoint_groups` where f has operations on large arrays that all lanes share, such as the weights of
a network (`_lanes/_divided`), and where f is differentiated by many shared numbers: p̄ then consists of arrays with the
shapes of the shared inputs, not of a vector over the lanes for each of their numbers. One loop runs over the stages.
Timings: docs/performance.md#networks-in-lanes.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._equal_steps._adjoint_groups import Steps, state_at_start
from jaxhamel.ensemble._equal_steps._needed import entries_at, scattered
from jaxhamel.ensemble._members._parameters import Parameters
from jaxhamel.simulate._solvers._runge_kutta import looped, point_of


def stages_back(steps: Steps, parameters: Parameters) -> Callable:
    """Reverse mode of a step, stage by stage: (…, stored entries, w, p̄) ↦ w of the preceding step, and p̄."""
    needed = steps.needed
    begin = lanes(partial(state_at_start, steps), (None, 0, None, 0))

    def back(at, begins, kept: tuple[Columns, tuple[Columns, ...]], w: Columns, p_bar):
        mine, shared = at[2:]
        full = scattered(kept[0], needed.kept, w[0], len(w))

        def of_start(changing, p):
            z = entries_at(with_entries(full, needed.changing, changing), needed.kept)
            return begin(begins, z, parameters.inserted(p, mine, shared)[1], w)

        p = parameters.of(mine, shared)
        y, start_back = jax.vjp(of_start, entries_at(full, needed.changing), p)
        points = _points(steps, at, y, kept[1])
        bars, p_bar = _loop_back(steps, parameters, at, points, w, p_bar)
        moving = entries_at(w, needed.rate)
        y_bar = with_entries(w, needed.rate, [x + bar for x, bar in zip(moving, bars, strict=True)])
        z_bar, more = start_back(tuple(y_bar))
        return tuple(with_entries(w, needed.changing, z_bar)), jax.tree.map(jnp.add, p_bar, more)

    return back


def _loop_back(steps: Steps, parameters: Parameters, at, points, w: Columns, p_bar):
    """Loops over the stages from the last to the first; returns Σ_i Ȳ_i, with a row for each number that f reads, and p̄.

    **Arguments:** `points`: for each number that f reads, its values at all stages in all lanes, `(s, B)`.
    """
    t, h, mine, shared = at
    moving, size = steps.needed.rate, len(w)
    rate = lanes(steps.rate, (None, 0, 0, None))
    a, b, c = (jnp.asarray(x, h.dtype) for x in steps.method)

    def slope(t, point, p):
        y = scattered(point, moving, w[0], size)
        return tuple(rate(t, tuple(y), *parameters.inserted(p, mine, shared)))

    def stage(carry, numbers):
        rows, p_bar = carry
        i, ahead, b, c, point = numbers
        later = scattered(jnp.tensordot(ahead, rows, 1), moving, w[0], size)
        kappa = tuple(h * (b * x + y) for x, y in zip(w, later, strict=True))
        back = jax.vjp(partial(slope, t + c * h), point, parameters.of(mine, shared))[1]
        bars, more = back(kappa)
        return (rows.at[i].set(jnp.stack(bars)), jax.tree.map(jnp.add, p_bar, more)), None

    rows = jnp.zeros((len(b), len(moving), *w[0].shape), w[0].dtype)
    numbers = jnp.arange(len(b)), a.T, b, c, points
    (rows, p_bar), _ = jax.lax.scan(stage, (rows, p_bar), numbers, reverse=True)
    return jnp.sum(rows, 0), p_bar


def _points(steps: Steps, at, y: Columns, heads: tuple[Columns, ...]) -> Columns:
    """For each number that f reads, its values at all s stages in all B lanes, `(s, B)`.

    They are taken from the stored `heads` of the stages if all are stored, and are computed again otherwise.
    """
    moving, method = steps.needed.rate, steps.method
    if len(heads) == len(method.b) - 1:
        return tuple(map(jnp.stack, zip(entries_at(y, moving), *heads, strict=True)))
    t, h, mine, shared = at

    def rate(t, y):
        return tuple(lanes(steps.rate, (None, 0, 0, None))(t, y, mine, shared))

    slopes = looped(rate, method, t, h, y)[1]
    return entries_at(point_of(h, y, jnp.asarray(method.a, h.dtype), slopes), moving)
