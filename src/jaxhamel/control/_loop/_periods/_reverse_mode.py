"""Reverse mode of one period of an ensemble of closed loops.

A short period is transposed as one program, from the numbers of the loops before it. A longer one is transposed step by
step, from the states before each step, which are stored too: the stages of a step and their transposes are computed one
after the other, and their vectors stay in the cache (docs/performance.md#closed-loops).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._columns import ColumnLayout, Columns
from jaxhamel._lanes._derivatives._known_steps import after_known_steps
from jaxhamel._lanes._derivatives._own_derivative import recomputed_as, recomputed_from
from jaxhamel._lanes._divided._look_ups import MOST_LOOKED_UP
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._written_out import written_out
from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PROGRAM
from jaxhamel.control._loop._periods._period import Periods, rate_in_steps, unit
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped, runge_kutta_step

# The transpose of a program has about this many times as many operations as the program.
TRANSPOSED = 2.2

# The states before the steps of a period are stored for periods of up to this many steps, and recomputed for longer ones.
MOST_STORED = 4


class Motion(NamedTuple):
    """The motion of all robots during one sampling period. A column has one number of the state, for all robots.

    - `state`: the layout of (q, u); `fixed`: the parts without arrays.
    - `length`, `look_ups`: the number of operations of the rate in one lane, 0 if it cannot be written out, and the number
      of entries of tables that it reads at positions of its own.
    """

    state: ColumnLayout
    fixed: Any
    plan: Periods
    length: int = 0
    look_ups: int = 0

    @classmethod
    def of(
        cls, state: ColumnLayout, fixed: Any, plan: Periods, own: Columns, columns: Columns, at: Any
    ) -> "Motion":
        """The motion with its length and its look-ups, for the arguments of a period."""
        motion, y = cls(state, fixed, plan), columns[: state.size]
        given = jnp.zeros((), y[0].dtype), y, own, at, y[:1] * plan.width[0]
        found = written_out(motion.rate, (False, True, True, False, True), *given)
        if found is None:
            return motion
        return motion._replace(length=found.length, look_ups=found.look_ups)

    def rate(self, place: Array, y: Columns, own: Columns, at: Any, applied: Columns) -> Columns:
        """The rate h f of the state y = (q, u) of one trajectory, `place` steps after the sample (see `rate_in_steps`)."""
        (lane, *at), y = eqx.combine(at, self.fixed)[:3], self.state.entries(y)
        command = jnp.stack(applied)
        rates = rate_in_steps(lane.parts(own), at, command, self.plan, place, y)
        return self.state.numbers(rates)

    def unit(self, y: Columns, own: Columns, at: Any) -> Columns:
        """The state of one trajectory, its quaternions normalised."""
        lane = eqx.combine(at, self.fixed)[0]
        return self.state.numbers(unit(lane.parts(own), self.state.entries(y)))

    def after(self, own: Columns, columns: Columns, at: Any, applied: Columns, before) -> Columns:
        """The numbers of all lanes a period after a sample; `before`: their states before every step but the first."""
        first = tuple(columns[: self.state.size])
        one_step = self.in_turn if self.is_short() else self.in_a_loop
        y = after_known_steps(one_step, first, (own, at, applied), (first, *before))
        return (*y, *columns[self.state.size :])

    def in_turn(self, place: Array, y: Columns, given: tuple) -> Columns:
        """The states of all lanes after one step, whose stages are written out one after the other."""
        own, at, _ = given
        y = runge_kutta_step(self._rate(given), RK4, place, jnp.ones_like(place), y)
        return lanes(self.unit, (0, 0, None))(y, own, at)

    def in_a_loop(self, place: Array, y: Columns, given: tuple) -> Columns:
        """The states of all lanes after one step, whose stages are a loop: it compiles in a quarter of the time."""
        own, at, _ = given
        y = looped(self._rate(given), RK4, place, jnp.ones_like(place), y)[0]
        return lanes(self.unit, (0, 0, None))(y, own, at)

    def _rate(self, given: tuple) -> Callable:
        of_stage = lanes(self.rate, (None, 0, 0, None, 0))

        def rate(place, y):
            own, at, applied = given
            return of_stage(place, y, own, at, applied)

        return rate

    def through_steps(self, own: Columns, columns: Columns, at: Any, applied: Columns):
        """(the numbers of all lanes a period after a sample, their states before every step but the first).

        Every stage is a program of its own, whose look-ups are taken out of it.
        """
        first, given = tuple(columns[: self.state.size]), (own, at, applied)

        def step(y, place):
            return self.in_a_loop(place, y, given), y

        places = jnp.arange(self.plan.steps).astype(first[0].dtype)
        end, states = jax.lax.scan(step, first, places)
        before = tuple(tuple(x[i] for x in states) for i in range(1, self.plan.steps))
        return (*end, *columns[self.state.size :]), before

    def is_short(self, stages: int = 1) -> bool:
        """Whether the transpose of this many stages fits into one loop over the lanes."""
        return 0 < stages * TRANSPOSED * self.length <= LONGEST_PROGRAM

    @property
    def reads_tables(self) -> bool:
        """Whether a period, written out, would read too many entries of tables.

        The positions in a later stage depend on those in earlier ones, so that they cannot be taken out of the period.
        """
        return len(RK4.b) * self.plan.steps * self.look_ups > MOST_LOOKED_UP


def differentiable(motion: Motion, decide: Callable, period: Callable) -> Callable:
    """A function (own, columns, at, noise) → results of a period in all lanes, with the reverse mode described above.

    **Arguments:** `decide`: (own, columns, at, noise) → (columns after the sample, commands); `period`: the same arguments →
    (results, states before every step but the first). Results are (columns after the period, commands).
    """
    stored, steps = motion.plan.steps <= MOST_STORED, motion.plan.steps

    def results(*given):
        return period(*given)[0]

    def with_states(*given):
        return period(*given) if stored else (results(*given), ())

    def by_steps(given, before):
        own, columns, at, noise = given
        before = before if stored else period(*given)[1]
        columns, applied = decide(own, columns, at, noise)
        return motion.after(own, columns, at, applied, before), applied

    def chosen(own, columns, at, noise):
        if motion.is_short(len(RK4.b) * steps) and not motion.reads_tables:
            return recomputed_as(results, results)(own, columns, at, noise)
        return recomputed_from(with_states, by_steps)(own, columns, at, noise)

    return chosen
