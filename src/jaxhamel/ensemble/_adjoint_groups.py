"""Stages backward, in groups: as many neighbouring stages of a step as one loop over the lanes holds.

    Y_n = y + h Σ_{m<n} a_nm k_m ,   k_n = f(t_n, Y_n, p)        of a group, from the first of its stages on

Where w are the cotangents of the step's end and Ȳ those of the stage after the group, those of the first stage, of y and
of p are the transpose of

    (Y_0, y, p) ↦ (h Σ_n b_n k_n , h a k_last)        applied to (w, Ȳ) .

So a group is one function, transposed at once (`_lanes._pullback`): what its stages have in common, as the motion of rails
at the same time, has one cotangent. Scalar operations on lanes for the rolling ball with three masses, f and two stages
backward: 534 and 2,982 where each lane has masses and control of its own, 381 and 2,394 where all have the same; each stage
transposed by JAX 3,156 and 2,850.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxhamel._lanes._pieces import WHOLE
from jaxhamel._lanes._pullback import pullback
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._columns import Columns
from jaxhamel.ensemble._needed import Needed, filled, some
from jaxhamel.ensemble._parameters import Parameters, added, numbers, replaced
from jaxhamel.ensemble._tableaus import Tableau


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
    most = WHOLE / (_BACKWARD * length) if length else 1
    sizes = [
        n for n in range(1, stages + 1) if stages % n == 0 and (method.chained or n in (1, stages))
    ]
    size = max(n for n in sizes if n <= max(1, most))
    return [(i, size) for i in range(0, stages, size)]


def groups_back(steps: Steps, parameters: Parameters) -> Callable:
    """(…, first stages of the groups, w, p̄) ↦ ȳ and p̄ at the beginning of a step, one group of stages after the other."""
    method, moving = steps.method, steps.needed.rate
    program = jax.jit(lanes(partial(_group_back, steps, parameters), _AXES))

    def back(at, stages: list[Columns], w: Columns, p_bar: Columns):
        t, h, mine, shared = at
        found: dict[int, Columns] = {}
        y_bar: Columns = ()
        for (i, many), here in reversed(list(zip(steps.groups, stages, strict=True))):
            last = i + many - 1
            a, later = _combined(
                [(method.a[j][last], found[j]) for j in found if method.a[j][last]]
            )
            times = [t + h.dtype.type(c) * h for c in method.c[i : i + many]]
            inside = [[_times(h, x) for x in row[i : i + many]] for row in method.a[i : i + many]]
            b = [h * h.dtype.type(b) for b in method.b[i : i + many]]
            weights = Weights(inside, b, h * h.dtype.type(a))
            y = stages[0] if i and many > 1 else ()
            found[i], y_bar, p_bar = program(
                times, weights, y, here, mine, shared, w, later, y_bar, p_bar
            )
        return tuple(replaced(w, moving, y_bar)), tuple(p_bar)

    return back


class Weights(NamedTuple):
    """h a among the stages of a group, None for zero; h b; h a of the stage after them."""

    inside: list[list]
    b: list
    ahead: jax.Array


_AXES = (None, None, 0, 0, 0, None, 0, 0, 0, 0)


def _times(h, weight: float):
    """h a; nothing for zero."""
    return h * h.dtype.type(weight) if weight else None


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
    times,
    weights: Weights,
    y,
    here,
    mine,
    shared,
    w,
    later,
    y_bar,
    p_bar,
):
    """Ȳ of the first stage of a group, ȳ and p̄ with what its stages add to them, in one lane.

    Of stages and their cotangents the numbers on which f depends. `y` is left out where it is the first stage or not
    needed, `later`, Ȳ of the stage after them, where there is none, ȳ where it is w so far: what is not read is not
    written, either.
    """
    moving = steps.needed.rate
    whole = lambda numbers: filled(numbers, moving, w[0], len(w))  # noqa: E731

    def along(x):
        here, y, p = x
        of = parameters.filled(p, mine, shared)
        slopes: list = []
        for t, inside in zip(times, weights.inside, strict=True):
            here = _ahead(y, inside, [some(k, moving) for k in slopes]) if slopes else here
            slopes.append(steps.rate(t, whole(here), *of))
        total = _ahead([jnp.zeros_like(w[0])] * len(w), weights.b, slopes)
        return total, [weights.ahead * k for k in some(slopes[-1], moving)] if later else []

    x = (here, y or here, parameters.of(mine, shared))
    here_bar, more, bars = pullback(along, x, (w, later))
    y_bar = added(added(y_bar or some(w, moving), here_bar), more)
    return here_bar, y_bar, added(p_bar, numbers(bars))


def _ahead(start, weights, columns) -> tuple:
    """start + Σ weight · column; a weight of None is zero."""
    for a, x in zip(weights, columns, strict=False):
        start = start if a is None else [s + a * v for s, v in zip(start, x, strict=True)]
    return tuple(start)
