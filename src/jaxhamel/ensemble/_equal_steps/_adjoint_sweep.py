"""Reverse mode of equal steps in lanes: the adjoint of an explicit Runge–Kutta method is again a sweep over stages.

    Y_i = y + h Σ_j a_ij k_j ,   k_i = f(t + c_i h, Y_i, p) ,   z = y + h Σ_i b_i k_i ,   y₁ = N(z)

    w = N′(z)ᵀ ȳ₁ ,   κ_i = h (b_i w + Σ_{j>i} a_ji Ȳ_j) ,   Ȳ_i = f_y(Y_i)ᵀ κ_i ,
    ȳ = w + Σ_i Ȳ_i ,   p̄ += Σ_i f_p(Y_i)ᵀ κ_i

(Hager, Numerische Mathematik 87, 2000; Sanz-Serna, SIAM Review 58, 2016): exact derivatives of the computed trajectory. As
many neighbouring stages as fit into one loop go backward together, found again from the first of them (`_adjoint_groups`),
the first group of a step with N, all others by one program: a whole step of a small system, two stages of RK4 with a
rolling ball, one of a large system. Kept are, of each step, the z that it begins with and the first stages of its groups,
and of these only the numbers on which f or N′ depends (`_needed`); or nothing but an interval's initial state, from which
the rest is found again. What all lanes share has a derivative in each lane, summed at the end.

Rolling ball with three masses, 1,024 lanes, 100 steps of RK4 in ten intervals, two cores, µs a step of the motion and of
value and gradient, where each lane has masses and control of its own, where all have the same: 40 and 162, 33 and 140
(medians of 150 runs, 25 of one and 25 of the other in turn); run one by one in turns, when each finds its memory out of the
caches, 51 and 155, 44 and 133 (the median of four runs of `benchmarks/gradient.py`). In scalar operations on lanes a step
is 2,238 and 1,779, a step backward, found again from its stages, 2.7 times as many, and the step itself has to be done as
well. Compiled in 4 to 5 s; by JAX's transpose of the loops the gradient took 0.6 to 1.0 ms a step.

Before, in the same way: stages transposed one by one by JAX and taken back in pairs 38 and 161, 32 and 146; each alone,
found again, and the whole state kept 38 and 180, 33 and 165.

Not taken (the same ball; medians as above):
- a stage at a time, all stages kept: 179 and 162 µs where pairs took 161 and 146;
- a step backward as one program: 6,980 operations, then, that XLA makes no loop of (`_lanes._pieces.WHOLE`), 0.48 ms a step
  backward; cut into several loops, 230 to 410 values go from one to the next;
- keeping values between a stage and its way back, chosen by a minimum cut: 184 and 143 µs where a stage at a time took 169
  and 147. Each is one more vector that a loop reads and, as windows are, one that it writes for nothing;
- two steps in a turn of the loop, without the copies that XLA makes between turns: 167 and 149 µs, the motion alone 15 %
  slower; N with the last group of a step instead of the first: no difference that could be seen;
- another order of operations, in which few values are alive: of two stages backward some 240 are at once, whatever the
  order, and there are registers for 32;
- the virtual power of the residual, λ·(M a + bias), differentiated in place of J and M: 1,290 operations for a stage, 1,300
  as it is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._derivatives._derivatives import same
from jaxhamel._lanes._derivatives._linear_map import linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._equal_steps._adjoint_groups import Steps, groups_back
from jaxhamel.ensemble._equal_steps._needed import filled, some
from jaxhamel.ensemble._members._columns import Columns
from jaxhamel.ensemble._members._parameters import Parameters, added, numbers, replaced


def with_adjoint(steps: Steps, count: int, keep: bool) -> Callable:
    """(y, starts, h, mine, shared) ↦ y after each interval of `count` steps, with the reverse mode above.

    `y` and `mine` are columns, `shared` arrays; `starts` and `h` have an entry for each interval. With `keep` the first run
    keeps the path, else it is found again. Forward mode, and further derivatives in either mode, are JAX's.
    """
    advance = partial(advanced, steps.step, count)

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

        return tuple(own_derivative(flat, rule, leaves, jax.eval_shape(flat, *leaves)))

    keeping = partial(_path, steps, count)
    first_run = keeping if keep else lambda *arguments: (differentiable(*arguments), ())
    return differentiable


def advanced(step: Callable, count: int, y: Columns, starts, h, mine, shared) -> Columns:
    """The states after intervals of `count` steps of size h: a row for each."""

    def interval(y, at):
        start, h = at

        def one(y, n):
            return tuple(step(start + n * h, h, y, mine, shared)[0]), None

        y, _ = jax.lax.scan(one, y, jnp.arange(count).astype(h.dtype))
        return y, y

    return jax.lax.scan(interval, tuple(y), (starts, h))[1]


def _path(steps: Steps, count: int, y: Columns, starts, h, mine, shared):
    """The same; of the z that each step began with, and of the last, what is needed, and the stages: a row for each step."""
    needed, many = steps.needed, count * len(starts)
    y = tuple(y)
    begun = tuple(
        jnp.zeros((many + 1, *x.shape), x.dtype).at[0].set(x) for x in some(y, needed.kept)
    )
    ahead = tuple(
        tuple(jnp.zeros((many, *x.shape), x.dtype) for x in some(y, needed.rate))
        for _ in steps.groups[1:]
    )

    def interval(carry, at):
        start, h, first = at

        def one(carry, n):
            y, (begun, ahead) = carry
            y, z, stages = steps.traced(start + n.astype(h.dtype) * h, h, y, mine, shared)
            z = some(replaced(y, needed.made, z), needed.kept)
            write = lambda i, rows, x: jax.lax.dynamic_update_index_in_dim(rows, x, i, 0)  # noqa: E731
            begun = jax.tree.map(partial(write, first + n + 1), begun, z)
            return (y, (begun, jax.tree.map(partial(write, first + n), ahead, stages))), None

        carry, _ = jax.lax.scan(one, carry, jnp.arange(count))
        return carry, carry[0]

    at = (starts, h, count * jnp.arange(len(starts)))
    (_, path), rows = jax.lax.scan(interval, (y, (begun, ahead)), at)
    return rows, path


def _forward(advance, structure, active, given, along):
    leaves = given[: structure.num_leaves]

    def moving(*values):
        return advance(*jax.tree.unflatten(structure, replaced(leaves, active, values)))

    return list(jax.jvp(moving, [leaves[i] for i in active], list(along))[1])


def _backward(steps: Steps, count: int, structure, active, given, bars):
    """The cotangents of the active leaves, `starts` and `h` not among them: times are known when a rollout is traced."""
    leaves, kept = given[: structure.num_leaves], given[structure.num_leaves :]
    y, starts, h, mine, shared = at = jax.tree.unflatten(structure, leaves)
    own = [i - len(y) - 2 for i in active if i >= len(y)]
    of_y = [i for i in active if i < len(y)]
    parameters = Parameters(
        [i for i in own if i < len(mine)], [i - len(mine) for i in own if i >= len(mine)]
    )
    path = jax.eval_shape(partial(_path, steps, count), *at)[1]
    found = (
        jax.tree.unflatten(jax.tree.structure(path), kept) if kept else _path(steps, count, *at)[1]
    )
    sweep = _Sweep(steps, parameters, count, starts, h, mine, shared)
    y_bar, p_bar = sweep.back(found, tuple(bars))
    return [*(y_bar[i] for i in of_y), *parameters.arrays(p_bar, shared)]


class _Sweep(NamedTuple):
    """Intervals of `count` steps, with what is differentiated by and all that stays the same."""

    steps: Steps
    parameters: Parameters
    count: int
    starts: Array
    h: Array
    mine: Columns
    shared: Any

    def back(self, path: tuple, bars: Columns) -> tuple[Columns, Columns]:
        """ȳ at the start and p̄, in columns, from those of the states after each interval."""
        begun, ahead = path
        unit_back = _unit_back(self.steps, self.parameters)
        stages_back = groups_back(self.steps, self.parameters)
        row = lambda n, rows: jax.lax.dynamic_index_in_dim(rows, n, 0, keepdims=False)  # noqa: E731

        def interval(carry, at):
            start, h, first, bars = at

            def back(carry, n):
                i = first + n
                kept = jax.tree.map(partial(row, i), (begun, ahead))
                at = (start + n.astype(h.dtype) * h, h, self.mine, self.shared)
                return stages_back(at, (i == 0).astype(h.dtype), kept, *carry), None

            end = some(begun, self._ends)
            z = tuple(row(first + self.count, x) for x in end)
            carry = unit_back(z, self.mine, self.shared, bars, *carry)
            return jax.lax.scan(back, carry, jnp.arange(self.count), reverse=True)[0], None

        like = bars[0][0]
        zeros = (jnp.zeros_like(like),) * len(bars)
        carry = (zeros, self.parameters.zeros(like, self.shared))
        at = (self.starts, self.h, self.count * jnp.arange(len(self.starts)), bars)
        return jax.lax.scan(interval, carry, at, reverse=True)[0]

    @property
    def _ends(self) -> list[int]:
        """Where among the kept numbers those are on which N′ depends."""
        needed = self.steps.needed
        return [needed.kept.index(i) for i in needed.ends]


def _unit_back(steps: Steps, parameters: Parameters) -> Callable:
    """(z, …, ȳ, w, p̄) ↦ w and p̄ with what ȳ of the state N(z) adds to them; of z the numbers on which N′ depends."""
    needed = steps.needed

    def single(z, mine, shared, bar, w, p_bar):
        of = lambda z, p: steps.unit(z, parameters.filled(p, mine, shared)[1])  # noqa: E731
        z = filled(z, needed.ends, w[0], len(w))
        more, bars = jax.vjp(of, z, parameters.of(mine, shared))[1](tuple(bar))
        return added(w, more), added(p_bar, numbers(bars))

    def nothing(z, mine, shared, bar, w, p_bar):
        return added(w, bar), p_bar

    return lanes(single, (0, 0, None, 0, 0, 0)) if needed.made else nothing
