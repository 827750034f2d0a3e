"""Reverse mode of equal steps in lanes: the adjoint of an explicit Runge–Kutta method is again a sweep over stages.

    Y_i = y + h Σ_j a_ij k_j ,   k_i = f(t + c_i h, Y_i, p) ,   z = y + h Σ_i b_i k_i ,   y₁ = N(z)

    w = N′(z)ᵀ ȳ₁ ,   κ_i = h (b_i w + Σ_{j>i} a_ji Ȳ_j) ,   Ȳ_i = f_y(Y_i)ᵀ κ_i ,
    ȳ = w + Σ_i Ȳ_i ,   p̄ += Σ_i f_p(Y_i)ᵀ κ_i

(Hager, Numerische Mathematik 87, 2000; Sanz-Serna, SIAM Review 58, 2016): exact derivatives of the computed trajectory. What
is kept is the state before each step and what N′ depends on of its end, or an interval's initial state only, from which
the rest is found again; the stages are computed again, and one program goes backward through any of them. What all lanes
share has a derivative in each lane, summed at the end of the interval.

Rolling ball with three masses, 1,024 lanes, 100 steps of RK4 in ten intervals, two cores, µs a step of the motion and of
value and gradient: 47 and 175, where each lane has masses and control of its own, 42 and 150, where all have the same (four
runs in quiet minutes, each the medians of 25 to 31 in turns, 3.6 to 3.8 times as long; now and then all take 1.7 times as
long, and 4.0 to 4.4 times as long as the motion); 39 and 187 where each runs forty times in a row, 4.8 times. With the path
found again 202 and 175. 8,192 lanes 311 and 1,672, where the 88 vectors that a stage reads and writes leave the second-level
cache. Compiled in 3 to 4 s; by JAX's transpose of the loops the gradient took 0.6 to 1.0 ms a step.

In scalar operations a step forward is 2,980, its stages again 2,120, a stage backward 1,810, and 31, 23.5 and 22 µs of each
of two threads: what the loops take alone is 4.6 times that of the motion, which has more of its time between them.
Not taken:
- a step backward as one program: 6,980 operations that LLVM makes no vectors of (`_lanes._one_loop.LONGEST`), 0.48 ms a step
  backward instead of some 0.25 ms; cut into several loops, 230 to 410 values go from one to the next;
- keeping the stages, too, 27 vectors a step more: 160 instead of 168 µs, and 142 instead of 145 (the shortest times); with
  2,048 lanes, where they are 66 MB, 431 instead of 351;
- keeping values between a stage and its way back, chosen by a minimum cut of the 730 operations that do not depend on κ, the
  price of a value being so many operations: 14 (25 values of a stage, and 10 where all have the same control) 184 and 143 µs
  beside 169 and 147, 8 (33 and 27) 189 and 162, 5 (43 and 28) 200 and 171. Each is one more vector that a loop reads and, as
  windows are, one that it writes for nothing;
- w in the program of the last stage, two steps in a turn of the loop, numbers that all share as scalars outside of the
  loops: no difference that could be seen.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._derivatives import same
from jaxhamel._lanes._linear_map import linear_map
from jaxhamel._lanes._own_derivative import own_derivative
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._columns import Columns
from jaxhamel.ensemble._parameters import Parameters, added, numbers, replaced
from jaxhamel.ensemble._tableaus import Tableau


class Steps(NamedTuple):
    """Of one trajectory f(t, y, mine, shared) and N(y, shared); of all (t, h, y, mine, shared) ↦ [Y₁, …] and ↦ (y₁, z).

    Of z only the numbers on which N′ depends: `ends` says which.
    """

    rate: Callable
    unit: Callable
    stages: Callable
    step: Callable
    ends: list[int]
    method: Tableau


def with_adjoint(advance: Callable, steps: Steps, count: int, keep: bool) -> Callable:
    """(y, start, h, mine, shared) ↦ y after `count` steps, with the reverse mode above.

    `y` and `mine` are columns, `shared` arrays. With `keep` the first run keeps the path, else it is found again. Forward
    mode, and further derivatives in either mode, are JAX's.
    """

    def differentiable(*arguments):
        leaves, structure = jax.tree.flatten(arguments)
        flat = lambda *leaves: list(advance(*jax.tree.unflatten(structure, leaves)))  # noqa: E731

        def rule(leaves, tangents):
            out, kept = first_run(*jax.tree.unflatten(structure, leaves))
            given = [*leaves, *jax.tree.leaves(kept)]
            active = [i for i, t in enumerate(tangents) if t is not None]
            forward = partial(_forward, advance, structure, active)
            backward = partial(_backward, steps, count, structure, active)
            along, out = [tangents[i] for i in active], list(out)
            return out, linear_map(same(forward), same(backward), given, along, out)

        return tuple(own_derivative(flat, rule, leaves, arguments[0]))

    keeping = partial(path, steps.step, count)
    first_run = keeping if keep else lambda *arguments: (differentiable(*arguments), ())
    return differentiable


def path(step: Callable, count: int, y: Columns, start, h, mine, shared):
    """The state after `count` steps of size h, and of each of them the state before it and what it gives besides y₁."""

    def one(y, n):
        end, *more = step(start + n * h, h, y, mine, shared)
        return tuple(end), (y, *more)

    return jax.lax.scan(one, tuple(y), jnp.arange(count).astype(h.dtype))


def _forward(advance, structure, active, given, along):
    leaves = given[: structure.num_leaves]

    def moving(*values):
        return advance(*jax.tree.unflatten(structure, replaced(leaves, active, values)))

    return list(jax.jvp(moving, [leaves[i] for i in active], list(along))[1])


def _backward(steps: Steps, count: int, structure, active, given, bars):
    """The cotangents of the active leaves, `start` and `h` not among them: times are known when a rollout is traced."""
    leaves, kept = given[: structure.num_leaves], tuple(given[structure.num_leaves :])
    y, start, h, mine, shared = jax.tree.unflatten(structure, leaves)
    own = [i - len(y) - 2 for i in active if i >= len(y)]
    of_y = [i for i in active if i < len(y)]
    parameters = Parameters(
        [i for i in own if i < len(mine)], [i - len(mine) for i in own if i >= len(mine)]
    )
    found = (kept[: len(y)], kept[len(y) :])
    if not kept:
        found = path(steps.step, count, y, start, h, mine, shared)[1]
    times = start + jnp.arange(count).astype(h.dtype) * h
    interval = _Interval(steps, parameters, times, h, mine, shared)
    y_bar, p_bar = interval.back(found, tuple(bars))
    return [*(y_bar[i] for i in of_y), *parameters.arrays(p_bar, shared)]


class _Interval(NamedTuple):
    """Steps of equal size, with what is differentiated by and all that stays the same."""

    steps: Steps
    parameters: Parameters
    times: Array
    h: Array
    mine: Columns
    shared: Any

    def back(self, path: tuple[Columns, Columns], y_bar: Columns) -> tuple[Columns, Columns]:
        """ȳ at the start and p̄, in columns."""
        unit_back = _unit_back(self.steps, self.parameters)
        stage_back = _stage_back(self.steps.rate, self.parameters, self.steps.method)

        def back(bars, at):
            (y_bar, p_bar), (t, (y, z)) = bars, at
            stages = self.steps.stages(t, self.h, y, self.mine, self.shared)
            w, p_bar = unit_back(z, self.mine, self.shared, y_bar, p_bar)
            one = partial(stage_back, t, self.h, self.mine, self.shared)
            return _stages_back(self.steps.method, one, stages, tuple(w), p_bar), None

        bars = (y_bar, self.parameters.zeros(y_bar[0], self.shared))
        return jax.lax.scan(back, bars, (self.times, path), reverse=True)[0]


def _unit_back(steps: Steps, parameters: Parameters) -> Callable:
    """w, and p̄ with what N adds to it, from the numbers of z that matter."""

    def single(ends, mine, shared, bar, p_bar):
        z = tuple(replaced([jnp.zeros_like(x) for x in bar], steps.ends, ends))
        of = lambda z, p: steps.unit(z, parameters.filled(p, mine, shared)[1])  # noqa: E731
        w, bars = jax.vjp(of, z, parameters.of(mine, shared))[1](bar)
        return w, added(p_bar, numbers(bars))

    return lanes(single, (0, 0, None, 0, 0))


def _stages_back(method: Tableau, one: Callable, stages: list[Columns], w: Columns, p_bar: Columns):
    """ȳ and p̄ at the beginning of a step; `one` is the same program for every stage."""
    found: list[Columns] = [()] * len(method.b)
    y_bar = w
    for i in reversed(range(len(method.b))):
        after = [(row[i], found[j]) for j, row in enumerate(method.a) if row[i]]
        found[i], y_bar, p_bar = one(i, _combined(after, w), stages[i], w, y_bar, p_bar)
    return tuple(y_bar), tuple(p_bar)


def _combined(terms: list[tuple[float, Columns]], w: Columns) -> tuple[float, Columns]:
    """Σ a Ȳ as (a, Ȳ) of one term."""
    if len(terms) == 1:
        return terms[0]
    zero = (jnp.zeros_like(x) for x in w)
    sums = (sum((a * x[n] for a, x in terms), start=z) for n, z in enumerate(zero))
    return 1.0, tuple(sums)


def _stage_back(rate: Callable, parameters: Parameters, method: Tableau) -> Callable:
    """Ȳ_i, and ȳ and p̄ with what stage i adds to them: one program for all stages of all steps."""

    def single(t, weights, here, mine, shared, w, later, y_bar, p_bar):
        kappa = tuple(weights[0] * x + weights[1] * k for x, k in zip(w, later, strict=True))
        of = lambda here, p: rate(t, here, *parameters.filled(p, mine, shared))  # noqa: E731
        here_bar, bars = jax.vjp(of, here, parameters.of(mine, shared))[1](kappa)
        return here_bar, added(y_bar, here_bar), added(p_bar, numbers(bars))

    batched = jax.jit(lanes(single, (None, None, 0, 0, None, 0, 0, 0, 0)))

    def of_columns(t, h, mine, shared, i, after, here, w, y_bar, p_bar):
        a, later = after
        weights = (h * h.dtype.type(method.b[i]), h * h.dtype.type(a))
        at = t + h.dtype.type(method.c[i]) * h
        return batched(at, weights, here, mine, shared, w, later, y_bar, p_bar)

    return of_columns
