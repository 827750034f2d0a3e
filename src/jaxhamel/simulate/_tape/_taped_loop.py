"""Reverse mode of a loop of unknown length, by a tape with its states.

The backward pass runs the loop again and writes its states to the rows of the tape, `ROWS` or more, at first every state.
When the rows are full, every second one is dropped, and from then on half as many states are written. A loop whose states
are all on the tape is reversed at once. A longer one is reversed in segments: from each row on, the states up to the next
row are computed again.

equinox' loop keeps fewer states and nests a dozen loops, in which XLA spends most of the time to a first value
(docs/performance.md#tape).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel.simulate._tape._loop_program import LoopProgram, run_with_reverse

ROWS = 512


def taped_loop(
    condition: Callable,
    body: Callable,
    init: Any,
    *,
    max_steps: int,
    buffers: Callable,
    results: Callable,
    repeated: Callable,
) -> Any:
    """`lax.while_loop(condition, body, init)` of at most `max_steps` turns, with reverse mode.

    **Arguments:**

    - `buffers`: the arrays of a state that the body only writes to, each place at most once. They are not kept on the tape.
    - `results`: the arrays of a state that only serve to repeat the turn that has computed them.
    - `repeated`: maps a state with the `results` of the following turn to one from which the body repeats that turn.
    """

    def reverse(program, inputs, moves, bars):
        return _Reversed(program, max_steps, inputs, moves, bars).cotangents()

    return run_with_reverse(condition, body, init, buffers, reverse, results, repeated)


def sizes(max_steps: int) -> tuple[int, int]:
    """The number of rows for a loop of at most `max_steps` turns, and the most turns between two rows."""
    rows = max(ROWS, 2 ** math.ceil(math.log2(max_steps) / 2))
    return rows, 2 ** max(0, math.ceil(math.log2(max_steps / rows)))


class _Tape(NamedTuple):
    """Rows of states, one array for each dtype: the rows of the whole run, then those of one segment, then an unused one."""

    rows: list[Array]
    stride: Array  # the number of turns between the states of two rows

    @classmethod
    def empty(cls, count: int, state: list[Array]) -> "_Tape":
        rows = [jnp.zeros((count, v.size), v.dtype) for v in _packed(state)]
        return cls(rows, jnp.array(1))

    def written(self, row: Array, state: list[Array]) -> "_Tape":
        pairs = zip(self.rows, _packed(state), strict=True)
        return self._replace(
            rows=[lax.dynamic_update_slice(r, v[None], (row, 0)) for r, v in pairs]
        )

    def halved(self, rows: int) -> "_Tape":
        """Drops every second row of the run."""
        half = [lax.dynamic_update_slice(r, r[0:rows:2], (0, 0)) for r in self.rows]
        return _Tape(half, 2 * self.stride)

    def read(self, row: Array, like: list[Array]) -> list[Array]:
        """The state in a row."""
        vectors = dict(zip(_dtypes(like), [r[row] for r in self.rows], strict=True))
        places, found = dict.fromkeys(vectors, 0), []
        for x in like:
            start = places[x.dtype]
            places[x.dtype] += x.size
            found.append(vectors[x.dtype][start : start + x.size].reshape(x.shape))
        return found


def _packed(state: list[Array]) -> list[Array]:
    """The entries of each dtype as one vector."""
    return [
        jnp.concatenate([jnp.ravel(x) for x in state if x.dtype == dtype])
        for dtype in _dtypes(state)
    ]


def _dtypes(state: list[Array]) -> list[Any]:
    return sorted({x.dtype for x in state}, key=str)


class _Sweep(NamedTuple):
    """The state of the backward pass: the segment to reverse next (−1 if none is left), and the cotangents so far."""

    is_first: Array  # whether the loop has yet to run forward
    segment: Array
    turns: Array  # the number of turns of the whole loop
    tape: _Tape
    of_state: list[Array]
    of_inputs: list[Array]


class _Reversed:
    """The backward pass of one loop."""

    def __init__(self, program: LoopProgram, max_steps: int, inputs, moves, bars):
        self.program, self.bars, self.max_steps = program, bars, max_steps
        self.condition, self.p, self.again, self.x = program.divided(inputs)
        self.active = [i for i, moving in enumerate(moves) if moving]
        self.begin = [self.x[i] for i in program.kept]
        self.rows, self.longest = sizes(max_steps)

    def cotangents(self) -> tuple[list, list]:
        program, start = self.program, self._initial_sweep()
        if self.longest > 1:
            # of two values: if one value decides, XLA copies all that it depends on, the whole motion, to count the turns
            start = lax.while_loop(lambda s: s.is_first | (s.segment >= 0), self._segment, start)
        end = start if self.longest > 1 else self._segment(start)
        found = dict(zip(program.moving, end.of_state, strict=True))
        of_p = dict(zip(self.active, end.of_inputs, strict=True))
        of_x = [found.get(i, self.bars[i]) for i in range(program.size)]
        return [of_p.get(i) for i in range(len(self.again))], of_x

    def _initial_sweep(self) -> _Sweep:
        return _Sweep(
            jnp.array(True),
            jnp.array(0),
            jnp.array(0),
            _Tape.empty(self.rows + self.longest + 1, self.begin),
            [self.bars[i] for i in self.program.moving],
            [jnp.zeros_like(self.again[i]) for i in self.active],
        )

    def _segment(self, sweep: _Sweep) -> _Sweep:
        """Runs the whole loop the first time, later one segment of it, and reverses it if all its states are on the tape."""
        at, last, tape = self._forward(sweep)
        whole = sweep.is_first & (tape.stride == 1)
        lowest = jnp.where(sweep.is_first, 0, self.rows)
        count = jnp.where(sweep.is_first & ~whole, 0, last - at)

        def turn(carry):
            row, *bars = carry
            return row - 1, *self._turn_back(tape.read(row - 1, self.begin), *bars)

        start = lowest + count, sweep.of_state, sweep.of_inputs
        _, of_state, of_inputs = lax.while_loop(lambda c: c[0] > lowest, turn, start)
        after = jnp.where(whole, -1, (last - 1) // tape.stride)
        segment = jnp.where(sweep.is_first, after, sweep.segment - 1)
        turns = jnp.where(sweep.is_first, last, sweep.turns)
        return _Sweep(jnp.array(False), segment, turns, tape, of_state, of_inputs)

    def _forward(self, sweep: _Sweep) -> tuple[Array, Array, _Tape]:
        """Writes the states of the whole loop or of a segment to the tape; returns the turns at both ends, and the tape."""
        at = sweep.segment * sweep.tape.stride
        read = sweep.tape.read(sweep.segment, self.begin)
        state = [jnp.where(sweep.is_first, a, b) for a, b in zip(self.begin, read, strict=True)]
        end = jnp.minimum(sweep.turns, at + sweep.tape.stride)
        end = jnp.where(sweep.is_first, self.max_steps, end)

        def turn(carry):
            i, state, tape = carry
            tape = self._with_room(sweep.is_first, i, tape)
            out = self.program.next_state(self.p, self.program.full(state, self.x))
            after = [out[k] for k in self.program.kept]
            of_run = jnp.where(i % tape.stride == 0, i // tape.stride, self.rows + self.longest)
            row = jnp.where(sweep.is_first, of_run, self.rows + i - at)
            return i + 1, after, tape.written(row, self._row(state, after))

        def goes_on(carry):
            i, state, _ = carry
            return (i < end) & self.program.goes_on(
                self.condition, self.program.full(state, self.x)
            )

        last, _, tape = lax.while_loop(goes_on, turn, (at, state, sweep.tape))
        return at, last, tape

    def _with_room(self, is_first, turn, tape: _Tape) -> _Tape:
        if self.longest == 1:
            return tape
        is_full = is_first & (turn == self.rows * tape.stride)
        return lax.cond(is_full, lambda t: t.halved(self.rows), lambda t: t, tape)

    def _row(self, before: list, after: list) -> list:
        """The state x̂ from which the turn between two states is repeated (`LoopProgram`)."""
        of_after = [i in self.program.results for i in self.program.kept]
        pairs = zip(before, after, of_after, strict=True)
        return [y if later else x for x, y, later in pairs]

    def _turn_back(self, state: list, of_state: list, of_inputs: list) -> tuple[list, list]:
        """The cotangents before a turn, from those after it."""
        program = self.program
        written = [i for i in sorted(program.buffers) if self.bars[i] is not None]
        known = dict(zip(program.kept, state, strict=True))

        def after_turn(values, inputs):
            filled = known | dict(zip(program.moving, values, strict=True))
            given = with_entries(self.again, self.active, inputs)
            after = program.repeated_state(given, program.full(list(filled.values()), self.x))
            return [after[i] for i in program.moving], [after[i] for i in written]

        at = [known[i] for i in program.moving], [self.again[i] for i in self.active]
        pull = jax.vjp(after_turn, *at)[1]
        found, more = pull((of_state, [self.bars[i] for i in written]))
        return found, [a + b for a, b in zip(of_inputs, more, strict=True)]
