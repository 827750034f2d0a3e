"""Transposes the stages of a step in groups: as many neighbouring stages as one loop over the lanes can hold.

A group recomputes its stages from the first of them:

    Y_n = y + h Σ_{m<n} a_nm k_m ,   k_n = f(t_n, Y_n, p) .

Let w be the cotangent of the step's end and Ȳ that of the stage after the group. The cotangents of the group's first
stage, of y and of p are the transpose of

    (Y_0, y, p) ↦ (Σ_n b_n k_n , h a k_last)        applied to (h w, Ȳ) .

N maps the end of a step onto the configuration space; a_nm, b_n, t_n are those of the method, a is the coefficient of the
group's last slope in the stage after the group. A group is transposed as one function
(`_lanes/_derivatives/_pullback.py`): an expression that several stages share, such as the motion of rails at the same time,
has one cotangent. The first group of a step includes N of the step before and returns w of that step. Counts of operations:
docs/performance.md#groups-of-stages.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel._lanes._derivatives._pullback import pullback
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PROGRAM
from jaxhamel.ensemble._equal_steps._needed import Needed, entries_at, scattered
from jaxhamel.ensemble._members._parameters import Parameters, added, numbers
from jaxhamel.simulate._solvers._runge_kutta import Tableau


class Steps(NamedTuple):
    """One integration step, as functions of one trajectory and of all lanes.

    - `rate`: f(t, y, mine, shared) of one trajectory; `unit`: its N(y, shared).
    - `step`: (t, h, y, mine, shared) ↦ (y₁,) of all lanes.
    - `traced`: the same with the values that the backward pass needs, (y₁, z, stages): the entries of z that N changes,
      and the first stage of every group but the first, restricted to the entries that f reads.
    - `groups`: (first stage, number of stages) of each group.
    - `by_arrays`: whether f has operations on large shared arrays, which `_adjoint_stages` transposes.
    - `length`: the number of operations of f, 0 if it cannot be written out.
    """

    rate: Callable
    unit: Callable
    step: Callable
    traced: Callable
    needed: Needed
    method: Tableau
    groups: list[tuple[int, int]]
    by_arrays: bool
    length: int


# The transpose of a stage has at most this many times the operations of f (2.1 for the rolling ball's masses and control).
_BACKWARD = 2.2


def groups_of(length: int, method: Tableau) -> list[tuple[int, int]]:
    """Divides the stages of a step into groups that fit into one loop each; returns (first stage, number of stages) of each.

    A group is a whole step, or an equal part of a step if each stage needs only the preceding slope. Groups have one stage
    if f cannot be written out (`length` 0).
    """
    stages = len(method.b)
    most = LONGEST_PROGRAM / (_BACKWARD * length) if length else 1
    sizes = [
        n for n in range(1, stages + 1) if stages % n == 0 and (method.chained or n in (1, stages))
    ]
    size = max(n for n in sizes if n <= max(1, most))
    return [(i, size) for i in range(0, stages, size)]


def groups_back(steps: Steps, parameters: Parameters) -> Callable:
    """Reverse mode of a step, group by group, as a function.

    It maps ((t, h, mine, shared), whether this is the first step, stored entries of the step, w, p̄) to w of the preceding
    step and p̄.
    """
    needed = steps.needed
    program = jax.jit(lanes(partial(group_back, steps, parameters), _AXES))
    of_first = jax.jit(lanes(partial(_first_group_back, steps, parameters), _AXES))

    def back(at, begins, kept: tuple[Columns, tuple[Columns, ...]], w: Columns, p_bar: Columns):
        t, h, mine, shared = at
        z, heads = kept
        found: dict[int, Columns] = {}
        y_bar, hw = (), ()
        for group, here in reversed(list(zip(steps.groups[1:], heads, strict=True))):
            stages, later = _group_coefficients(steps.method, t, h, group, found)
            given = (z if group[1] > 1 else (), here, mine, shared, w, later, y_bar, p_bar)
            found[group[0]], y_bar, p_bar, hw = program(begins, stages, *given)
        stages, later = _group_coefficients(steps.method, t, h, steps.groups[0], found)
        given = (z, hw, mine, shared, w, later, y_bar, p_bar)
        changed, p_bar = of_first(begins, stages, *given)
        return tuple(with_entries(w, needed.changing, changed)), p_bar

    return back


_AXES = (None, None, 0, 0, 0, None, 0, 0, 0, 0)


class GroupCoefficients(NamedTuple):
    """The coefficients of a group.

    - `h`: the step; `times`: those of the stages; `b`: the weights of the slopes.
    - `inside`: h a_nm between the stages of the group, None where a_nm is zero.
    - `ahead`: h a, the weight of the last slope in the stage after the group.
    """

    h: jax.Array
    times: list
    inside: list[list]
    b: list
    ahead: jax.Array


def _group_coefficients(method: Tableau, t, h, group: tuple[int, int], found: dict[int, Columns]):
    """The coefficients of a group, and the sum Σ a Ȳ over later stages, combined into one column for each number.

    `found`: the cotangents Ȳ of later stages, by stage.
    """
    last, own = sum(group) - 1, slice(group[0], sum(group))
    later = [(method.a[j][last], found[j]) for j in found if method.a[j][last]]
    ahead, column = _combined(later)
    of = h.dtype.type
    times = [t + of(c) * h for c in method.c[own]]
    inside = [[h * of(x) if x else None for x in row[own]] for row in method.a[own]]
    return GroupCoefficients(h, times, inside, [*map(of, method.b[own])], h * of(ahead)), column


def _combined(terms: list[tuple[float, Columns]]) -> tuple[float, Columns]:
    """Combines a sum Σ a Ȳ into a single term (a, Ȳ), so that the program reads one vector; empty without terms."""
    if len(terms) < 2:
        return terms[0] if terms else (0.0, ())
    factors, columns = zip(*terms, strict=True)
    zero = [jnp.zeros_like(x) for x in columns[0]]
    return 1.0, _plus_weighted(zero, factors, columns)


def group_back(
    steps: Steps,
    parameters: Parameters,
    begins,
    stages: GroupCoefficients,
    z,
    here,
    mine,
    shared,
    w,
    later,
    y_bar,
    p_bar,
):
    """Transposes a group in one lane: returns Ȳ of its first stage, the updated ȳ and p̄, and h w.

    Stages and their cotangents are restricted to the numbers that f reads. An input that is not needed is empty, so that no
    vector is written for it: `z` of a group with one stage; `later`, the combined Ȳ of later stages, of the last group; and
    `y_bar` as long as it equals w.
    """
    moving = steps.needed.rate
    y = entries_at(state_at_start(steps, begins, z, shared, w), moving) if z else ()

    def along(x):
        here, y, p = x
        return _sums(steps, stages, y, here, parameters.inserted(p, mine, shared), w, later)

    x = (here, y or here, parameters.of(mine, shared))
    hw = [stages.h * v for v in w]
    here_bar, more, bars = pullback(along, x, (hw, later))
    y_bar = added(added(y_bar or entries_at(w, moving), here_bar), more)
    return here_bar, y_bar, added(p_bar, numbers(bars)), tuple(hw)


def _first_group_back(
    steps: Steps,
    parameters: Parameters,
    begins,
    stages: GroupCoefficients,
    z,
    hw,
    mine,
    shared,
    w,
    later,
    y_bar,
    p_bar,
):
    """Transposes the first group of a step with N of the preceding step: returns w of that step, and the updated p̄.

    The result w is restricted to the entries that a step changes. `hw` = h·w is an input, since the group before returns it
    at no cost: if this program read `w` while also writing it, XLA would copy it.
    """
    needed = steps.needed
    full = scattered(z, needed.kept, w[0], len(w))

    def along(x):
        z, p = x
        mine_of, shared_of = parameters.inserted(p, mine, shared)
        y = state_at_start(
            steps,
            begins,
            entries_at(with_entries(full, needed.changing, z), needed.kept),
            shared_of,
            w,
        )
        here = entries_at(y, needed.rate)
        return y, _sums(steps, stages, here, here, (mine_of, shared_of), w, later)

    y_bar = tuple(with_entries(w, needed.rate, y_bar or entries_at(w, needed.rate)))
    x = (entries_at(full, needed.changing), parameters.of(mine, shared))
    hw = hw or [stages.h * v for v in w]
    z_bar, bars = pullback(along, x, (y_bar, (hw, later)))
    return z_bar, added(p_bar, numbers(bars))


def state_at_start(steps: Steps, begins, z, shared, like) -> tuple:
    """The state y at the start of a step from the stored entries of z: N(z), or z in the first step.

    Entries that are not stored are zero.
    """
    z = scattered(z, steps.needed.kept, like[0], len(like))
    if not steps.needed.made:
        return z
    return tuple(jnp.where(begins > 0, x, y) for x, y in zip(z, steps.unit(z, shared), strict=True))


def _sums(steps: Steps, stages: GroupCoefficients, y, here, of, w, later) -> tuple[tuple, list]:
    """Computes Σ b k over the stages of a group, and h a k of its last stage; this function is transposed.

    `later`: whether another group of the step follows; if none does, an empty list takes the place of h a k.
    """
    moving = steps.needed.rate

    def whole(numbers):
        return scattered(numbers, moving, w[0], len(w))

    slopes: list = []
    for t, inside in zip(stages.times, stages.inside, strict=True):
        here = (
            _plus_weighted(y, inside, [entries_at(k, moving) for k in slopes]) if slopes else here
        )
        slopes.append(steps.rate(t, whole(here), *of))
    total = _plus_weighted([jnp.zeros_like(w[0])] * len(w), stages.b, slopes)
    return total, [stages.ahead * k for k in entries_at(slopes[-1], moving)] if later else []


def _plus_weighted(start, weights, columns) -> tuple:
    """Computes start + Σ weight · column; a weight of None is zero."""
    for a, x in zip(weights, columns, strict=False):
        start = start if a is None else [s + a * v for s, v in zip(start, x, strict=True)]
    return tuple(start)
