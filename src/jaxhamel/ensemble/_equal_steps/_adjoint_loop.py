"""Transposes the stages of a step by one loop, whose body is the transpose of a single stage (`_adjoint_groups`).

    Ȳ_i = f_y(Y_i)ᵀ κ_i ,   κ_i = h (b_i w + Σ_{j>i} a_ji Ȳ_j) ,   i = s, …, 1 .

XLA compiles a program once for each place where it is called, and the transpose of a robot with 12 joints has 18,500
operations. A loop calls it in one place, so that a gradient compiles in half the time; long stages run no slower. Timings:
docs/performance.md#groups-of-stages.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel._lanes._derivatives._pullback import pullback
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._equal_steps._adjoint_groups import (
    GroupCoefficients,
    Steps,
    group_back,
    state_at_start,
)
from jaxhamel.ensemble._equal_steps._needed import entries_at, scattered
from jaxhamel.ensemble._members._parameters import Parameters, added, numbers
from jaxhamel.simulate._solvers._runge_kutta import Tableau

# A step is transposed by a loop if each group is a single stage and all its evaluations of f together have at least this
# many operations; shorter stages run up to 17 % slower in a loop (docs/performance.md#groups-of-stages).
LOOPED = 6_000


def is_looped(steps: Steps) -> bool:
    """Whether the transpose of a step is a loop over its stages."""
    count = len(steps.method.b)
    return 1 < count == len(steps.groups) and steps.length * count >= LOOPED


def loop_back(steps: Steps, parameters: Parameters) -> Callable:
    """Reverse mode of a step with a loop over its stages; the arguments and results are those of `groups_back`."""
    needed, method = steps.needed, steps.method
    of_stage = lanes(partial(_stage_back, steps, parameters), (None, None, 0, 0, None, 0, 0, 0, 0))
    of_start = lanes(partial(_start_back, steps, parameters), (None, 0, 0, None, 0, 0, 0))
    begin = lanes(partial(state_at_start, steps), (None, 0, None, 0))

    def back(at, begins, kept: tuple[Columns, tuple[Columns, ...]], w: Columns, p_bar: Columns):
        t, h, mine, shared = at
        z, heads = kept
        points = _stacked([entries_at(begin(begins, z, shared, w), needed.rate), *heads])

        def stage(carry, along):
            bars, y_bar, p_bar = carry
            i, point, (b, c, row, ahead) = along
            stages = GroupCoefficients(h, [t + c * h], [[None]], [b], h * ahead)
            later = bars if method.chained else _weighted(row, bars)
            given = (point, mine, shared, w, later, y_bar, p_bar)
            bar, y_bar, p_bar = of_stage(begins, stages, *given)
            return (bar if method.chained else _with_row(bars, i, bar), y_bar, p_bar), None

        count, moving = len(method.b), entries_at(w, needed.rate)
        shape = w[0].shape if method.chained else (count, *w[0].shape)
        bars = tuple(jnp.zeros(shape, w[0].dtype) for _ in moving)
        along = jnp.arange(count), points, _coefficients(method, h.dtype)
        (_, y_bar, p_bar), _ = jax.lax.scan(stage, (bars, moving, p_bar), along, reverse=True)
        changed, p_bar = of_start(begins, z, mine, shared, w, y_bar, p_bar)
        return tuple(with_entries(w, needed.changing, changed)), p_bar

    return back


def _coefficients(method: Tableau, dtype) -> tuple[jax.Array, ...]:
    """For each stage i: b_i, c_i, the column a_ji, and the factor of the sum over j, which is 1 unless it has one term."""
    a, b, c = (jnp.asarray(x, dtype) for x in method)
    ahead = jnp.sum(a, 0) if method.chained else jnp.ones_like(b)
    return b, c, a.T, ahead


def _stacked(columns: list[Columns]) -> Columns:
    """For each number, its values in all stages: `(s, B)`."""
    return tuple(map(jnp.stack, zip(*columns, strict=True)))


def _weighted(row: jax.Array, rows: Columns) -> Columns:
    """The sums Σ_j a_j x_j over the rows of each number."""
    return tuple(jnp.sum(row[:, None] * x, 0) for x in rows)


def _with_row(rows: Columns, i: jax.Array, row: Columns) -> Columns:
    """The rows with the i-th of each number replaced."""
    return tuple(
        jax.lax.dynamic_update_index_in_dim(x, new, i, 0) for x, new in zip(rows, row, strict=True)
    )


def _stage_back(steps: Steps, parameters: Parameters, begins, stages: GroupCoefficients, *given):
    """Transposes one stage in one lane: returns its Ȳ, and the updated ȳ and p̄."""
    return group_back(steps, parameters, begins, stages, (), *given)[:3]


def _start_back(steps: Steps, parameters: Parameters, begins, z, mine, shared, w, y_bar, p_bar):
    """Transposes the normalisation N at the end of the preceding step, in one lane.

    **Returns:** (the entries of that step's cotangent w that N changes, the updated p̄).
    """
    needed = steps.needed
    full = scattered(z, needed.kept, w[0], len(w))

    def along(x):
        z, p = x
        entries = entries_at(with_entries(full, needed.changing, z), needed.kept)
        return state_at_start(steps, begins, entries, parameters.inserted(p, mine, shared)[1], w)

    bar = tuple(with_entries(w, needed.rate, y_bar))
    x = (entries_at(full, needed.changing), parameters.of(mine, shared))
    z_bar, bars = pullback(along, x, bar)
    return z_bar, added(p_bar, numbers(bars))
