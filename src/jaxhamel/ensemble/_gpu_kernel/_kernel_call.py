"""Integrates an ensemble in one GPU kernel: each block of lanes runs from the first time to the last in registers.

    write y₀
    for each interval of ts:                      a loop; the number of steps is an input
        for each step in it:                      a loop
            y ← N(y + h Σ_i b_i k_i)              stages written out
        write y                                   the only memory access after the start

A thread holds one lane (block = 32 × warps): the state, the slopes of the stages, the lane's own inputs and the
intermediate values of one right-hand side. Copies of the last lane fill the last block.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from jaxhamel._lanes._columns import Columns
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel
from jaxhamel.ensemble._gpu_kernel._kernel_lane import KernelLane, Packed
from jaxhamel.simulate._solvers._runge_kutta import Tableau, runge_kutta_step


class Intervals(NamedTuple):
    """The start of each interval, the length of its steps and their number, `(T − 1,)` each."""

    start: Array
    step: Array
    count: Array


def integrated(
    rate: KernelLane,
    unit: KernelLane,
    y: Columns,
    mine: Columns,
    times: Intervals,
    method: Tableau,
    how: Kernel,
) -> Float[Array, "T n B"]:
    """The states at the first time and at the end of each interval."""
    lanes_given = y[0].shape[0]
    shared, own = Packed.vectors([*rate.shared, *unit.shared]), Packed.rows(mine)
    own_arrays = [_padded(x, how.block) for x in own.arrays]
    state = _padded(jnp.stack(y), how.block)
    stepped, tableau = stepper(method, rate.routine.operations, how.longest)
    body = partial(_body, rate, unit, shared.places, own.places, stepped)
    out = (len(times.start) + 1, *state.shape)
    for_all = [*times, jnp.asarray(tableau, state.dtype), *shared.arrays]
    inputs = [*for_all, *own_arrays, state]
    specs = [_whole(x) for x in for_all]
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(out, state.dtype),
        grid=(state.shape[1] // how.block,),
        in_specs=specs + [_block_spec(x.shape, how.block) for x in [*own_arrays, state]],
        out_specs=_block_spec(out, how.block),
        compiler_params=_for_triton(how),
        interpret=how.interpret,
        name="ensemble",
    )
    return call(*inputs)[..., :lanes_given]


def _for_triton(how: Kernel):
    """The compiler parameters; one stage, since there are no loads to pipeline. Not every jaxlib has Triton."""
    from jax.experimental.pallas import triton

    return triton.CompilerParams(num_warps=how.warps, num_stages=1)


def _padded(columns: Float[Array, "n B"], block: int) -> Float[Array, "n P"]:
    """Pads columns to a whole number of blocks."""
    missing = -columns.shape[1] % block
    return jnp.pad(columns, ((0, 0), (0, missing)), mode="edge") if missing else columns


def _whole(array) -> pl.BlockSpec:
    return pl.BlockSpec(array.shape, lambda i: (0,) * array.ndim)


def _block_spec(shape, block: int) -> pl.BlockSpec:
    return pl.BlockSpec((*shape[:-1], block), lambda i: (*(0 for _ in shape[:-1]), i))


def _body(rate: KernelLane, unit: KernelLane, shared_places, own_places, stepped: Callable, *refs):
    """The body of the kernel for one block of lanes; `refs`: its inputs in memory, then its output."""
    start, step, count, tableau, *refs, y_ref, out_ref = refs
    memory = Memory(refs, shared_places, own_places)
    slope = memory.bound(rate, 0, len(own_places))
    normalise = memory.bound(unit, rate.numbers_shared, 0)
    rows = y_ref.shape[0]
    y = tuple(y_ref[i, :] for i in range(rows))
    _write_block(out_ref, np.int32(0), y)

    def interval(j, y):
        t, h = start[j], step[j]

        def at(n):
            return t + n.astype(h.dtype) * h

        def one(n, y):
            return normalise(stepped(slope, tableau, at(n), h, y))

        y = lax.fori_loop(np.int32(0), count[j], one, y)
        _write_block(out_ref, j + np.int32(1), y)
        return y

    lax.fori_loop(np.int32(0), np.int32(out_ref.shape[0] - 1), interval, y)


def _write_block(out_ref, j, y) -> None:
    for i, x in enumerate(y):
        out_ref[j, i, :] = x


class Memory(NamedTuple):
    """The kernel's arrays: first the shared inputs, then the per-lane inputs."""

    refs: list
    shared: list[tuple[int, int]]
    own: list[tuple[int, int]]

    def bound(self, lane: KernelLane, offset: int, n_own: int) -> Callable:
        """A function of a lane as a function of vectors over the block; its parameters are read once, before all loops.

        `offset`: the number of shared inputs before those of this lane function; `n_own`: the number of its per-lane inputs.
        """
        routine, n_shared = lane.routine, lane.numbers_shared
        n_inputs = len(routine.position)
        first_own = n_inputs - n_own

        def place(number: int):
            if number < n_shared:
                array, row = self.shared[offset + number]
                return self.refs[array], row
            array, row = self.own[number - first_own]
            return self.refs[array + self._shared_arrays], row

        parameters = [*range(n_shared), *range(first_own, n_inputs)]
        loaded = {i: _read_reference(*place(i)) for i in parameters if i in routine.loaded}

        def read(first, stride, index):
            ref, row = place(first)
            return _read_reference(ref, row + index.astype(np.int32) * np.int32(stride))

        def function(*moving):
            inputs = loaded | dict(enumerate(jax.tree.leaves(moving), start=n_shared))
            return tuple(routine(inputs, read))

        return function

    @property
    def _shared_arrays(self) -> int:
        return 1 + max((array for array, _ in self.shared), default=-1)


def _read_reference(ref, row):
    """Reads a shared number, or one number of each lane of the block; `row` may differ from lane to lane."""
    if ref.ndim == 1:
        return ref[row]
    if np.ndim(row) == 0:
        return ref[row, :]
    return ref[row, jnp.arange(ref.shape[1], dtype=np.int32)]


# Runge–Kutta steps on vectors in registers.
#
# A step is written in one of two ways, with equal results. If the right-hand side is short, its stages are unrolled and the
# zeros of the tableau are left out, which takes the fewest operations. If it is long, a loop runs over the stages, so that
# the kernel contains the right-hand side only once. Registers cannot be indexed: if stages need more than the preceding
# slope, the loop selects each slope by comparisons, which takes s·n additional operations per stage. The loops therefore
# differ from those of `simulate/_solvers/_runge_kutta.py`.


Vectors = tuple
Read = Callable  # (first, index) -> a coefficient of the tableau, read from memory


def table(method: Tableau) -> np.ndarray:
    """The tableau as one row of numbers for `chained` and `looped`: a (for `chained` only its subdiagonal), b, c."""
    a = [*(row[i] for i, row in enumerate(method.a[1:])), 0.0] if method.chained else method.a
    return np.concatenate([np.ravel(a), method.b, method.c])


def chained(rate: Callable, tableau, stages: int, t, h, y: Vectors) -> Vectors:
    """A loop over stages that need only the preceding slope; it keeps two vectors for each entry of the state."""

    def stage(i, carry):
        here, total = carry
        ahead, b, c = (tableau[i + np.int32(k * stages)] for k in range(3))
        k = rate(t + c * h, here)
        here = tuple(x + (ahead * h) * slope for x, slope in zip(y, k, strict=True))
        return here, tuple(s + (b * h) * slope for s, slope in zip(total, k, strict=True))

    return lax.fori_loop(np.int32(0), np.int32(stages), stage, (y, y))[1]


def looped(rate: Callable, tableau, stages: int, t, h, y: Vectors) -> Vectors:
    """A loop over the stages of any explicit method; slopes that are not computed yet are zero."""
    b, c = np.int32(stages * stages), np.int32(stages * stages + stages)

    def along(first, slopes):
        total = tuple(jnp.zeros_like(x) for x in y)
        for j, k in enumerate(slopes):
            weight = tableau[first + np.int32(j)]
            total = tuple(s + weight * slope for s, slope in zip(total, k, strict=True))
        return tuple(x + h * s for x, s in zip(y, total, strict=True))

    def stage(i, slopes):
        k = rate(t + tableau[c + i] * h, along(i * np.int32(stages), slopes))
        return tuple(_where(i == np.int32(j), k, kept) for j, kept in enumerate(slopes))

    none = tuple(tuple(jnp.zeros_like(x) for x in y) for _ in range(stages))
    return along(b, lax.fori_loop(np.int32(0), np.int32(stages), stage, none))


def _where(here, new: Vectors, kept: Vectors) -> Vectors:
    return tuple(jnp.where(here, x, y) for x, y in zip(new, kept, strict=True))


def stepper(method: Tableau, operations: int, longest: int) -> tuple[Callable, np.ndarray]:
    """The step of a method as a function (rate, tableau, t, h, y) ↦ y₁, and the coefficients to pass as `tableau`.

    There is at least one coefficient, since kernels accept no empty arrays.
    """
    stages = len(method.b)
    if stages * operations <= longest:
        return lambda rate, tableau, *at: runge_kutta_step(rate, method, *at), np.zeros(1)
    return partial(_staged, chained if method.chained else looped, stages), table(method)


def _staged(loop: Callable, stages: int, rate: Callable, tableau, *at):
    return loop(rate, tableau, stages, *at)
