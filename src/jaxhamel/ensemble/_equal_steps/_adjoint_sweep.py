"""Reverse mode of equal steps in lanes: the adjoint of an explicit Runge–Kutta method is again a sweep over stages.

    Y_i = y + h Σ_j a_ij k_j ,   k_i = f(t + c_i h, Y_i, p) ,   z = y + h Σ_i b_i k_i ,   y₁ = N(z)

    w = N′(z)ᵀ ȳ₁ ,   κ_i = h (b_i w + Σ_{j>i} a_ji Ȳ_j) ,   Ȳ_i = f_y(Y_i)ᵀ κ_i ,
    ȳ = w + Σ_i Ȳ_i ,   p̄ += Σ_i f_p(Y_i)ᵀ κ_i

(Hager, Numerische Mathematik 87, 2000; Sanz-Serna, SIAM Review 58, 2016): exact derivatives of the computed trajectory.

Stages are transposed in groups as large as one loop can hold (`_adjoint_groups`): a whole step of a small system, two RK4
stages of the rolling ball, one stage of a large system. The first group of a step includes N; all other groups share one
program. Long stages are transposed by a loop over them (`_adjoint_loop`). For each step, z and the first stage of each
group are stored, restricted to the numbers that f and N′ read (`_needed`); the other stages are recomputed. With
checkpointing only the initial state of each interval is stored. An input that all lanes share has a cotangent in each
lane; they are summed over the lanes at the end.

Alternatives that were measured and are slower: docs/performance.md#reverse-mode.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._derivatives._active_inputs import tangent_maps, with_entries
from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._equal_steps._adjoint_groups import Steps, groups_back
from jaxhamel.ensemble._equal_steps._adjoint_loop import is_looped, loop_back
from jaxhamel.ensemble._equal_steps._adjoint_stages import stages_back
from jaxhamel.ensemble._equal_steps._needed import entries_at, scattered
from jaxhamel.ensemble._members._parameters import (
    Joined,
    Parameters,
    added,
    has_many,
    numbers,
)


def with_adjoint(steps: Steps, count: int, keep: bool) -> Callable:
    """A function that integrates all intervals, with the reverse mode described above as its derivative.

    The function is (y, starts, h, mine, shared) ↦ y after each interval of `count` steps. `y` and `mine` are columns,
    `shared` arrays; `starts` and `h` have an entry for each interval. With `keep` the forward pass stores the path,
    otherwise the path is recomputed. Forward mode and further derivatives in both modes are left to JAX.
    """
    integrate = partial(advanced, steps.step, count)

    def differentiable(*arguments):
        leaves, structure = jax.tree.flatten(arguments)

        def flat(*leaves):
            return list(integrate(*jax.tree.unflatten(structure, leaves[: structure.num_leaves])))

        def rule(leaves, tangents):
            out, kept = first_run(*jax.tree.unflatten(structure, leaves))
            given = [*leaves, *jax.tree.leaves(kept)]
            active = [i for i, t in enumerate(tangents) if t is not None]
            forward, _ = tangent_maps(flat, active)
            backward = partial(_backward, steps, count, structure, active)
            maps = LinearProgram.in_all_forms(forward), LinearProgram.in_all_forms(backward)
            along, out = [tangents[i] for i in active], list(out)
            return out, linear_map(*maps, given, along, out)

        return tuple(own_derivative(flat, rule, leaves, jax.eval_shape(flat, *leaves)))

    keeping = partial(_path, steps, count)
    first_run = keeping if keep else lambda *arguments: (differentiable(*arguments), ())
    return differentiable


def advanced(step: Callable, count: int, y: Columns, starts, h, mine, shared) -> Columns:
    """The states after each interval of `count` steps of size h, one row for each interval."""

    def interval(y, at):
        start, h = at

        def one(y, n):
            return tuple(step(start + n * h, h, y, mine, shared)[0]), None

        y, _ = jax.lax.scan(one, y, jnp.arange(count).astype(h.dtype))
        return y, y

    return jax.lax.scan(interval, tuple(y), (starts, h))[1]


def _path(steps: Steps, count: int, y: Columns, starts, h, mine, shared):
    """The result of `advanced`, and the entries that are stored: of z at the start of each step and at the end of the last
    one, and of the first stage of each group but the first."""
    needed, many = steps.needed, count * len(starts)
    y = tuple(y)
    begun = tuple(
        jnp.zeros((many + 1, *x.shape), x.dtype).at[0].set(x) for x in entries_at(y, needed.kept)
    )
    ahead = tuple(
        tuple(jnp.zeros((many, *x.shape), x.dtype) for x in entries_at(y, needed.rate))
        for _ in steps.groups[1:]
    )

    def interval(carry, at):
        start, h, first = at

        def one(carry, n):
            y, (begun, ahead) = carry
            y, z, stages = steps.traced(start + n.astype(h.dtype) * h, h, y, mine, shared)
            z = entries_at(with_entries(y, needed.made, z), needed.kept)

            def write(i, rows, x):
                return jax.lax.dynamic_update_index_in_dim(rows, x, i, 0)

            begun = jax.tree.map(partial(write, first + n + 1), begun, z)
            return (y, (begun, jax.tree.map(partial(write, first + n), ahead, stages))), None

        carry, _ = jax.lax.scan(one, carry, jnp.arange(count))
        return carry, carry[0]

    at = (starts, h, count * jnp.arange(len(starts)))
    (_, path), rows = jax.lax.scan(interval, (y, (begun, ahead)), at)
    return rows, path


def _backward(steps: Steps, count: int, structure, active, given, bars):
    """The cotangents of the active leaves. These never include `starts` and `h`: times are constants of a rollout."""
    leaves, kept = given[: structure.num_leaves], given[structure.num_leaves :]
    y, starts, h, mine, shared = at = jax.tree.unflatten(structure, leaves)
    own = [i - len(y) - 2 for i in active if i >= len(y)]
    of_y = [i for i in active if i < len(y)]
    parameters = Parameters(
        [i for i in own if i < len(mine)],
        [i - len(mine) for i in own if i >= len(mine)],
    )
    path = jax.eval_shape(partial(_path, steps, count), *at)[1]
    found = (
        jax.tree.unflatten(jax.tree.structure(path), kept) if kept else _path(steps, count, *at)[1]
    )
    sweep = _Sweep(steps, parameters, count, starts, h, mine, shared)
    if steps.by_arrays or has_many(parameters, shared):
        y_bar, of_p = _back_with_sums(sweep, found, tuple(bars))
    else:
        y_bar, p_bar = sweep.back(found, tuple(bars))
        of_p = parameters.arrays(p_bar, shared)
    return [*(y_bar[i] for i in of_y), *of_p]


def _back_with_sums(sweep: "_Sweep", path, bars: Columns) -> tuple[Columns, list[Array]]:
    """The backward pass with cotangents of shared inputs that are summed over the lanes in each stage.

    Returns ȳ at the start and the cotangents of the parameters.
    """
    joined, steps = Joined.of(sweep.parameters, sweep.shared), sweep.steps

    def of_joined(function):
        return lambda *given: function(*given[:-1], joined.apart(given[-1]))

    steps = steps._replace(rate=of_joined(steps.rate), unit=of_joined(steps.unit))
    sweep = sweep._replace(steps=steps, parameters=joined.parameters, shared=joined.shared)
    y_bar, (own, sums) = sweep.back(path, bars)
    return y_bar, [*own, *joined.cotangents(sums)]


class _Sweep(NamedTuple):
    """The backward pass over intervals of `count` steps, with its constant inputs."""

    steps: Steps
    parameters: Parameters
    count: int
    starts: Array
    h: Array
    mine: Columns
    shared: Any

    def back(self, path: tuple, bars: Columns) -> tuple[Columns, Any]:
        """Runs the backward pass: from the cotangents after each interval to ȳ at the start and p̄."""
        begun, ahead = path
        unit_back = _unit_back(self.steps, self.parameters)
        step_back = self._of_step(self.steps, self.parameters)

        def row(n, rows):
            return jax.lax.dynamic_index_in_dim(rows, n, 0, keepdims=False)

        def interval(carry, at):
            start, h, first, bars = at

            def back(carry, n):
                i = first + n
                kept = jax.tree.map(partial(row, i), (begun, ahead))
                at = (start + n.astype(h.dtype) * h, h, self.mine, self.shared)
                return step_back(at, (i == 0).astype(h.dtype), kept, *carry), None

            end = entries_at(begun, self._ends)
            z = tuple(row(first + self.count, x) for x in end)
            carry = unit_back(z, self.mine, self.shared, bars, *carry)
            return jax.lax.scan(back, carry, jnp.arange(self.count), reverse=True)[0], None

        like = bars[0][0]
        zeros = (jnp.zeros_like(like),) * len(bars)
        carry = (zeros, self.parameters.zeros(like, self.shared))
        at = (self.starts, self.h, self.count * jnp.arange(len(self.starts)), bars)
        return jax.lax.scan(interval, carry, at, reverse=True)[0]

    @property
    def _of_step(self) -> Callable:
        """The function that transposes a step: in groups of stages, or by a loop over its stages."""
        if self.parameters.summed:
            return stages_back
        return loop_back if is_looped(self.steps) else groups_back

    @property
    def _ends(self) -> list[int]:
        """Positions, among the stored entries, of those that N′ reads."""
        needed = self.steps.needed
        return [needed.kept.index(i) for i in needed.ends]


def _unit_back(steps: Steps, parameters: Parameters) -> Callable:
    """A function (z, mine, shared, ȳ, w, p̄) ↦ (w, p̄) that adds the contribution of ȳ, the cotangent of the state N(z).

    z has only the entries that N′ reads.
    """
    needed = steps.needed

    def of_unit(unit, z, mine, shared, bar, w):
        def of(z, p):
            return tuple(unit(z, parameters.inserted(p, mine, shared)[1]))

        z = tuple(scattered(z, needed.ends, w[0], len(w)))
        more, bars = jax.vjp(of, z, parameters.of(mine, shared))[1](tuple(bar))
        return added(w, more), bars

    def single(z, mine, shared, bar, w, p_bar):
        w, bars = of_unit(steps.unit, z, mine, shared, bar, w)
        return w, added(p_bar, numbers(bars))

    def of_all(z, mine, shared, bar, w, p_bar):
        w, bars = of_unit(lanes(steps.unit, (0, None)), z, mine, shared, bar, w)
        return w, jax.tree.map(jnp.add, p_bar, bars)

    def nothing(z, mine, shared, bar, w, p_bar):
        return added(w, bar), p_bar

    if not needed.made:
        return nothing
    return of_all if parameters.summed else lanes(single, (0, 0, None, 0, 0, 0))
