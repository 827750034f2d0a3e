"""Equal steps of an explicit Runge–Kutta method in XLA's lanes.

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j) ,     y₁ = N(y + h Σ_i b_i k_i)

One loop runs over the steps, one inside it over the stages, so that XLA compiles and optimises one right-hand side.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel.ensemble._kernel_options import Kernel
from jaxhamel.ensemble._lanes import lanes
from jaxhamel.ensemble._tableaus import Tableau, tableau
from jaxhamel.simulate._step_size import steps_in

Columns = tuple[Float[Array, " B"], ...]

# A step of so many stages is one program.
AT_ONCE = 6


class Plan(NamedTuple):
    """All that decides which program is compiled."""

    method: Tableau
    counts: tuple[int, ...]
    checkpoint: bool
    kernel: Kernel | None

    @classmethod
    def of(cls, ts, dt, method, checkpoint: bool, kernel) -> "Plan":
        """Checked; the times decide how many steps there are."""
        _checks.check_rollout_times(ts, dt)
        counts = tuple(steps_in(np.asarray(ts, float), float(dt)))
        return cls(tableau(method), counts, checkpoint, Kernel.chosen(kernel))


class Motion(NamedTuple):
    """Functions of one lane's numbers, (t, y, mine, shared) ↦ ẏ and (y, shared) ↦ N(y), and the columns of all lanes."""

    rate: Callable
    unit: Callable
    y: Columns
    mine: Columns
    shared: Any  # a pytree of arrays


def in_lanes(motion: Motion, ts: Float[Array, " T"], plan: Plan) -> list[Float[Array, "T B"]]:
    """By XLA."""
    y, rows = motion.y, [tuple(x[None] for x in motion.y)]
    for count, part in neighbours(plan.counts):
        advance = advancing(motion, plan.method, count)
        advance = jax.checkpoint(advance) if plan.checkpoint else advance
        y, path = jax.lax.scan(partial(_interval, advance), y, intervals(ts, part, count))
        rows.append(path)
    return [jnp.concatenate(each) for each in zip(*rows, strict=True)]


def neighbours(counts: tuple[int, ...]) -> Iterator[tuple[int, slice]]:
    """Neighbouring intervals of as many steps, which share a loop: the number of steps, which intervals."""
    first = 0
    for count, group in groupby(counts):
        last = first + len(list(group))
        yield count, slice(first, last)
        first = last


def intervals(ts: Float[Array, " T"], part: slice, count) -> tuple[Array, Array]:
    """Where each starts and how long its steps are."""
    start, end = ts[:-1][part], ts[1:][part]
    return start, (end - start) / count


def advancing(motion: Motion, method: Tableau, count: int) -> Callable:
    """(y, start, h) ↦ the state `count` steps later."""
    return partial(_advance, _stepping(motion, method), count)


def _interval(advance: Callable, y: Columns, at: tuple[Array, Array]) -> tuple[Columns, Columns]:
    end = advance(y, *at)
    return end, end


def _stepping(motion: Motion, method: Tableau) -> Callable:
    """(t, h, y) ↦ y₁, one step on columns: in one program where that is small enough, else a stage at a time.

    Derivatives go a stage at a time, too: the whole step backward would be a program of thousands of operations.
    """
    rate = jax.jit(motion.rate)

    def one_step(t, h, y, mine, shared):
        slope = lambda t, y: rate(t, y, mine, shared)  # noqa: E731
        return motion.unit(_written_out(slope, method, t, h, y), shared)

    def by_stages(t, h, y, mine, shared):
        slope = lambda t, y: lanes(rate, (None, 0, 0, None))(t, y, mine, shared)  # noqa: E731
        ends = (_chained if method.chained else _full)(slope, method, t, h, y)
        return lanes(motion.unit, (0, None))(ends, shared)

    at_once = len(method.b) <= AT_ONCE
    step = jax.custom_jvp(lanes(one_step, (None, None, 0, 0, None)) if at_once else by_stages)
    step.defjvp(partial(jax.jvp, by_stages))
    return lambda t, h, y: step(t, h, y, motion.mine, motion.shared)


def _advance(step: Callable, count: int, y: Columns, start, h) -> Columns:
    """`count` steps of size h."""

    def one(y, n):
        return step(start + n * h, h, y), None

    return jax.lax.scan(one, y, jnp.arange(count).astype(h.dtype))[0]


def _written_out(slope: Callable, method: Tableau, t, h, y: Columns) -> Columns:
    """One stage after the other, for one trajectory."""
    slopes: list[Columns] = []

    def along(weights):
        used = [(w, k) for w, k in zip(weights, slopes, strict=False) if w]
        rates = (sum(h.dtype.type(w) * k[i] for w, k in used) for i in range(len(y)))
        return tuple(x + h * rate for x, rate in zip(y, rates, strict=True)) if used else y

    for row, c in zip(method.a, method.c, strict=True):
        slopes.append(slope(t + h.dtype.type(c) * h, along(row)))
    return along(method.b)


def _chained(slope: Callable, method: Tableau, t, h, y: Columns) -> Columns:
    """Stages that need only the one before: two vectors for each number of the state."""
    ahead = [*(row[i] for i, row in enumerate(method.a[1:])), 0.0]

    def stage(carry, numbers):
        here, total = carry
        ahead, b, c = numbers
        k = slope(t + c * h, here)
        here = tuple(x + (ahead * h) * k for x, k in zip(y, k, strict=True))
        return (here, tuple(s + (b * h) * k for s, k in zip(total, k, strict=True))), None

    numbers = tuple(jnp.asarray(x, y[0].dtype) for x in (ahead, method.b, method.c))
    return jax.lax.scan(stage, (y, y), numbers)[0][1]


def _full(slope: Callable, method: Tableau, t, h, y: Columns) -> Columns:
    """All slopes so far are kept, `(s, B)` for each number of the state."""
    a, b, c = (jnp.asarray(x, y[0].dtype) for x in method)
    stages = len(method.b)

    def along(weights, slopes):
        return tuple(x + h * jnp.tensordot(weights, k, 1) for x, k in zip(y, slopes, strict=True))

    def stage(slopes, numbers):
        i, weights, c = numbers
        k = slope(t + c * h, along(weights, slopes))
        return tuple(all_k.at[i].set(k) for all_k, k in zip(slopes, k, strict=True)), None

    slopes = tuple(jnp.zeros((stages, *x.shape), x.dtype) for x in y)
    slopes, _ = jax.lax.scan(stage, slopes, (jnp.arange(stages), a, c))
    return along(b, slopes)
