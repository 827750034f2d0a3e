"""Stages backward, in groups: as many neighbouring stages of a step as one loop over the lanes holds.

    Y_n = y + h Σ_{m<n} a_nm k_m ,   k_n = f(t_n, Y_n, p)        of a group, from the first of its stages on

Where w are the cotangents of the step's end and Ȳ those of the stage after the group, those of the first stage, of y and
of p are the transpose of

    (Y_0, y, p) ↦ (Σ_n b_n k_n , h a k_last)        applied to (h w, Ȳ) .

So a group is one function, transposed at once (`_lanes._pullback`): what its stages have in common, as the motion of rails
at the same time, has one cotangent. Scalar operations on lanes for the rolling ball with three masses, f and two stages
backward: 534 and 2,998 where each lane has masses and control of its own, 381 and 2,410 where all have the same; each stage
transposed by JAX 3,156 and 2,850. The first group takes N with it, 57 operations, and gives w of the step before.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxhamel._lanes._derivatives._pullback import pullback
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PROGRAM
from jaxhamel.ensemble._equal_steps._needed import Needed, filled, some
from jaxhamel.ensemble._members._columns import Columns
from jaxhamel.ensemble._members._parameters import Parameters, added, numbers, replaced
from jaxhamel.simulate._runge_kutta import Tableau


class Steps(NamedTuple):
    """Of one trajectory f(t, y, mine, shared) and N(y, shared); of all two forms of a step, (t, h, y, mine, shared) ↦ (y₁,)
    and ↦ (y₁, z, stages).

    `traced` gives of z the numbers that N makes others of, and the first stages of all `groups` but the first, of each the
    numbers that f depends on. A group is neighbouring stages, given as (first, how many).
    """

    rate: Callable
    unit: Callable
    step: Callable
    traced: Callable
    needed: Needed
    method: Tableau
    groups: list[tuple[int, int]]


# A stage backward is so many times as many operations as f, at most: 2.1 for the rolling ball by masses and control.
_BACKWARD = 2.2


def groups_of(length: int, method: Tableau) -> list[tuple[int, int]]:
    """The stages that go backward in one program, (first, how many) of each group: as many as one loop can hold.

    A step's all, or, where each stage needs only the one before, equal parts of them; one where f cannot be written out.
    """
    stages = len(method.b)
    most = LONGEST_PROGRAM / (_BACKWARD * length) if length else 1
    sizes = [
        n for n in range(1, stages + 1) if stages % n == 0 and (method.chained or n in (1, stages))
    ]
    size = max(n for n in sizes if n <= max(1, most))
    return [(i, size) for i in range(0, stages, size)]


def groups_back(steps: Steps, parameters: Parameters) -> Callable:
    """(…, kept numbers, w, p̄) ↦ w of the step before and p̄, one group of stages after the other."""
    needed = steps.needed
    program = jax.jit(lanes(partial(_group_back, steps, parameters), _AXES))
    of_first = jax.jit(lanes(partial(_first_group_back, steps, parameters), _AXES))

    def back(at, begins, kept: tuple[Columns, tuple[Columns, ...]], w: Columns, p_bar: Columns):
        t, h, mine, shared = at
        z, heads = kept
        found: dict[int, Columns] = {}
        y_bar, hw = (), ()
        for group, here in reversed(list(zip(steps.groups[1:], heads, strict=True))):
            stages, later = _stages(steps.method, t, h, group, found)
            given = (z if group[1] > 1 else (), here, mine, shared, w, later, y_bar, p_bar)
            found[group[0]], y_bar, p_bar, hw = program(begins, stages, *given)
        stages, later = _stages(steps.method, t, h, steps.groups[0], found)
        given = (z, hw, mine, shared, w, later, y_bar, p_bar)
        changed, p_bar = of_first(begins, stages, *given)
        return tuple(replaced(w, needed.moved, changed)), p_bar

    return back


_AXES = (None, None, 0, 0, 0, None, 0, 0, 0, 0)


class _Stages(NamedTuple):
    """Of a group: h; the times of its stages; h a among them, None for zero; b; h a of the stage after them."""

    h: jax.Array
    times: list
    inside: list[list]
    b: list
    ahead: jax.Array


def _stages(method: Tableau, t, h, group: tuple[int, int], found: dict[int, Columns]):
    """The stages of a group, and Ȳ of the stage after them."""
    last, own = sum(group) - 1, slice(group[0], sum(group))
    later = [(method.a[j][last], found[j]) for j in found if method.a[j][last]]
    ahead, column = _combined(later)
    of = h.dtype.type
    times = [t + of(c) * h for c in method.c[own]]
    inside = [[h * of(x) if x else None for x in row[own]] for row in method.a[own]]
    return _Stages(h, times, inside, [*map(of, method.b[own])], h * of(ahead)), column


def _combined(terms: list[tuple[float, Columns]]) -> tuple[float, Columns]:
    """Σ a Ȳ as (a, Ȳ) of one term; without any, without numbers."""
    if len(terms) < 2:
        return terms[0] if terms else (0.0, ())
    factors, columns = zip(*terms, strict=True)
    zero = [jnp.zeros_like(x) for x in columns[0]]
    return 1.0, _ahead(zero, factors, columns)


def _group_back(
    steps: Steps,
    parameters: Parameters,
    begins,
    stages: _Stages,
    z,
    here,
    mine,
    shared,
    w,
    later,
    y_bar,
    p_bar,
):
    """Ȳ of the first stage of a group, ȳ and p̄ with what its stages add to them, and h w, in one lane.

    Of stages and their cotangents the numbers on which f depends. `z` is left out where it is not needed, `later`, Ȳ of the
    stage after them, where there is none, ȳ where it is w so far: what is not read is not written, either.
    """
    moving = steps.needed.rate
    y = some(_began(steps, begins, z, shared, w), moving) if z else ()

    def along(x):
        here, y, p = x
        return _sums(steps, stages, y, here, parameters.filled(p, mine, shared), w, later)

    x = (here, y or here, parameters.of(mine, shared))
    hw = [stages.h * v for v in w]
    here_bar, more, bars = pullback(along, x, (hw, later))
    y_bar = added(added(y_bar or some(w, moving), here_bar), more)
    return here_bar, y_bar, added(p_bar, numbers(bars)), tuple(hw)


def _first_group_back(
    steps: Steps,
    parameters: Parameters,
    begins,
    stages: _Stages,
    z,
    hw,
    mine,
    shared,
    w,
    later,
    y_bar,
    p_bar,
):
    """w of the step before, of the numbers that a step changes, and p̄, from what the groups after the first give.

    h w comes from the last of them, in which it is a result for nothing: so w is not read while it is written anew, and XLA
    copies none of it.
    """
    needed = steps.needed
    full = filled(z, needed.kept, w[0], len(w))

    def along(x):
        z, p = x
        mine_of, shared_of = parameters.filled(p, mine, shared)
        y = _began(steps, begins, some(replaced(full, needed.moved, z), needed.kept), shared_of, w)
        here = some(y, needed.rate)
        return y, _sums(steps, stages, here, here, (mine_of, shared_of), w, later)

    y_bar = tuple(replaced(w, needed.rate, y_bar or some(w, needed.rate)))
    x = (some(full, needed.moved), parameters.of(mine, shared))
    hw = hw or [stages.h * v for v in w]
    z_bar, bars = pullback(along, x, (y_bar, (hw, later)))
    return z_bar, added(p_bar, numbers(bars))


def _began(steps: Steps, begins, z, shared, like) -> tuple:
    """y = N(z), in the first step of all z, from the numbers that are kept; the others zero."""
    z = filled(z, steps.needed.kept, like[0], len(like))
    if not steps.needed.made:
        return z
    return tuple(jnp.where(begins > 0, x, y) for x, y in zip(z, steps.unit(z, shared), strict=True))


def _sums(steps: Steps, stages: _Stages, y, here, of, w, later) -> tuple[tuple, list]:
    """Σ b k, and h a k of the last stage where there is one after the group."""
    moving = steps.needed.rate
    whole = lambda numbers: filled(numbers, moving, w[0], len(w))  # noqa: E731
    slopes: list = []
    for t, inside in zip(stages.times, stages.inside, strict=True):
        here = _ahead(y, inside, [some(k, moving) for k in slopes]) if slopes else here
        slopes.append(steps.rate(t, whole(here), *of))
    total = _ahead([jnp.zeros_like(w[0])] * len(w), stages.b, slopes)
    return total, [stages.ahead * k for k in some(slopes[-1], moving)] if later else []


def _ahead(start, weights, columns) -> tuple:
    """start + Σ weight · column; a weight of None is zero."""
    for a, x in zip(weights, columns, strict=False):
        start = start if a is None else [s + a * v for s, v in zip(start, x, strict=True)]
    return tuple(start)
