"""Reverse mode of adaptive steps: re-runs groups of trajectories and transposes the steps that they took.

The forward pass counts the steps that each trajectory attempts. Trajectories with similar counts form a group, so that none
waits long for another. A group runs forward and stores a `StepRecord` of each step, then goes backward through the records.
There is room for the records of the latest ROWS steps; earlier steps are re-run from at most PLACES checkpoints. So memory
is that of one group, for any number of trajectories and steps.

Each step is re-run once if there are up to ROWS steps, twice if there are up to ROWS·PLACES, and about (k + 1)/2 times more
if there are k·ROWS·PLACES.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._tracing import is_described
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._adaptive_steps._adaptive_adjoint import (
    Backward,
    Bars,
    Inputs,
    OutputCotangents,
    StepRecord,
    step_back,
)
from jaxhamel.ensemble._adaptive_steps._adaptive_step import (
    ARRIVED,
    UNDER_WAY,
    AdaptiveLane,
    StepLimits,
    StepSums,
    looped_sums,
    step_sums,
)
from jaxhamel.ensemble._adaptive_steps._lane_motion import LaneMotion
from jaxhamel.ensemble._adaptive_steps._step_form import StepForm
from jaxhamel.ensemble._members._parameters import Parameters
from jaxhamel.ensemble._methods._embedded_pairs import Pair
from jaxhamel.simulate._solvers._runge_kutta import point_of

ROWS, PLACES = 48, 64  # the most records and the most checkpoints that are stored

# Trajectories in a group (docs/performance.md#adaptive-steps). The number for a GPU was not measured: an iteration costs the
# same for one lane as for thousands, and memory (50 kB for each lane of a ball) sets the limit.
GROUP, GROUP_ON_GPU = 120, 2**14


class Ensemble(NamedTuple):
    """The inputs of the backward pass that differ among trajectories.

    - `y`: initial states; `mine`: each trajectory's own inputs; `tried`: the number of steps that it attempts.
    - `end`, `between`: the cotangents of the final states, and of the states at the interior output times, `(B, m)`.
    """

    y: Columns
    mine: Columns
    end: Columns
    between: tuple[Float[Array, "B m"], ...]
    tried: Int[Array, " B"]


class Store(NamedTuple):
    """The records of the latest steps, and the checkpoints."""

    rows: StepRecord
    lanes: AdaptiveLane


class SweepState(NamedTuple):
    """The state of the backward pass of a group.

    - `forward`: whether the group is still in its first run, from checkpoint to checkpoint.
    - `place`, `passes`: the checkpoint from which to run next, and for how many steps.
    - `store`: records and checkpoints; `bars`: the cotangents so far.
    """

    forward: Bool[Array, ""]
    place: Int[Array, ""]
    passes: Int[Array, ""]
    store: Store
    bars: Bars


class Sweep(NamedTuple):
    """The programs for a group of trajectories, with the data that all groups share."""

    pair: Pair
    limits: StepLimits
    start: Float[Array, ""]
    inner: Float[Array, " m"]
    shared: Any
    parameters: Parameters
    forward: Callable
    first: Callable
    backward: Backward

    @classmethod
    def of(
        cls, motion: LaneMotion, form: StepForm, shared, pair: Pair, limits, ts, parameters
    ) -> "Sweep":
        """Prepares the programs; `shared`: the scalars that all trajectories share."""
        inside = len(ts) > 2

        def after(lane: AdaptiveLane, step: StepSums, shared, limits):
            new = motion.judged(pair, lane, step, shared, limits)
            return new, () if pair.reuses else step.end, step.powers

        def at_once(lane: AdaptiveLane, mine, shared, limits):
            step, points = step_sums(motion.own(mine, shared), pair, lane, inside)
            return points[1:], *after(lane, step, shared, limits)

        def by_stages(lane: AdaptiveLane, mine, shared, limits):
            step, slopes = looped_sums(motion.of_lanes(mine, shared), pair, lane, inside)
            h, y = (lane.end - lane.t)[None, None], jnp.stack(lane.y)
            points = point_of(h, y, jnp.asarray(pair.a[1:], y.dtype), slopes)
            columns = [tuple(x) for x in points]
            return columns, *lanes(after, (0, 0, None, None))(lane, step, shared, limits)

        step_of = by_stages if form.looped else lanes(at_once, (0, 0, None, None))

        def recorded(lane: AdaptiveLane, mine, shared, limits):
            """Attempts one step of all lanes; returns the lanes after it, and its `StepRecord`."""
            points, new, z, powers = step_of(lane, mine, shared, limits)
            kept = new.kept > lane.kept
            return new, StepRecord(lane.t, lane.end, kept, (lane.y, *points), z, powers)

        return cls(
            pair,
            limits,
            ts[0],
            ts[1:-1],
            shared,
            parameters,
            recorded,
            motion.first(pair),
            Backward.of(*motion, pair, parameters, form.is_long),
        )

    def group(self, store: Store, own: Ensemble) -> tuple[Store, tuple[Columns, Any]]:
        """Reverse mode of one group: returns the store, and the cotangents (ȳ of its initial states, p̄ of its parameters).

        For a trajectory without any step, ȳ is the cotangent of its final state and p̄ is zero.
        """
        given, saved = (
            Inputs(own.mine, self.shared, self.parameters),
            OutputCotangents(self.inner, own.between),
        )
        lane = self.first(self.start, own.y, own.mine, self.shared, self.limits)
        lane = lane._replace(stands=jnp.where(own.tried > 0, UNDER_WAY, ARRIVED).astype(jnp.int32))
        rows, places = (
            len(store.rows.t),
            len(store.lanes.t) - 1,
        )  # values that are not needed are written to the last place
        between = jnp.max(own.tried) // (rows * places) * rows + rows

        def one(state: SweepState) -> SweepState:
            lane = jax.tree.map(lambda x: x[state.place], state.store.lanes)
            last = state.forward & (state.place == places - 1)
            most = jnp.where(last, jnp.iinfo(jnp.int32).max, state.passes)
            lane, store, done = self._run(lane, state.store, most, given)
            goes_on = state.forward & jnp.any(lane.stands == UNDER_WAY)
            kept = _with_entry(store.lanes, lane, jnp.where(goes_on, state.place + 1, places))
            turns = state.forward & ~goes_on
            place = jnp.where(turns, self._passed(lane), state.bars.place)
            back = jnp.where(goes_on | (done == 0), 0, (done - 1) % rows + 1)
            bars = self._back(store.rows, back, saved, given, state.bars._replace(place=place))
            left = jnp.where(goes_on, 0, done - back)
            down = jnp.where(left == 0, state.place - 1, state.place)
            there = jnp.where(goes_on, state.place + 1, down)
            passes = jnp.where(left == 0, between, left)
            return SweepState(goes_on, there, passes, store._replace(lanes=kept), bars)

        store = store._replace(lanes=_with_entry(store.lanes, lane, jnp.zeros((), jnp.int32)))
        start = SweepState(
            jnp.array(True), jnp.array(0, jnp.int32), between, store, self._bars(own)
        )
        state = jax.lax.while_loop(lambda state: state.forward | (state.place >= 0), one, start)
        return state.store, self._with_first_slope(own, given, state.bars)

    def _run(self, lane: AdaptiveLane, store: Store, most, given: Inputs):
        """Runs at most `most` steps; returns the lanes, the store with the latest records, and the number of steps."""

        def one(now):
            lane, rows, done = now
            lane, row = self.forward(lane, given.mine, self.shared, self.limits)
            return lane, _with_entry(rows, row, done % len(rows.t)), done + 1

        def going(now):
            return (now[2] < most) & jnp.any(now[0].stands == UNDER_WAY)

        start = (lane, store.rows, jnp.zeros((), jnp.int32))
        lane, rows, done = jax.lax.while_loop(going, one, start)
        return lane, store._replace(rows=rows), done

    def _back(
        self, rows: StepRecord, many, saved: OutputCotangents, given: Inputs, bars: Bars
    ) -> Bars:
        """Transposes the steps of the first `many` records, from the last to the first."""

        def one(n, bars):
            row = jax.tree.map(lambda x: x[many - 1 - n], rows)
            return step_back(self.backward, self.pair, row, saved, given, bars)

        return jax.lax.fori_loop(0, many, one, bars)

    def _passed(self, lane: AdaptiveLane) -> Int[Array, " W"]:
        """Index of the last interior time that each lane has reached; −1 if it reached none."""
        return jnp.sum(self.inner[None] <= lane.t[:, None], axis=1, dtype=jnp.int32) - 1

    def _bars(self, own: Ensemble) -> Bars:
        """The initial cotangents of the backward pass: those of the final states."""
        none = tuple(jnp.zeros_like(x) for x in own.y)
        powers = len(self.pair.inside[0]) + 1 if len(self.inner) else 0
        p = self.parameters.zeros(own.y[0], self.shared)
        place = jnp.zeros(own.tried.shape, jnp.int32)
        return Bars(own.end, none if self.pair.reuses else (), p, place, (none,) * powers)

    def _with_first_slope(self, own: Ensemble, given: Inputs, bars: Bars) -> tuple[Columns, Any]:
        """(ȳ, p̄) at the start; if the first slope was computed before the steps, with its contribution."""
        if not self.pair.reuses:
            return bars.y, bars.p
        moves = jnp.any(jnp.stack([x != 0 for x in bars.slope]), axis=0)
        at = (jnp.full_like(own.y[0], self.start), moves, bars.slope)
        _, *found = self.backward.stage(*at, own.y, given.mine, given.shared, bars.y, bars.p)
        return found[0], found[1]


def _with_entry(all_: Any, new: Any, place) -> Any:
    update = jax.lax.dynamic_update_index_in_dim
    return jax.tree.map(lambda a, x: update(a, x, place, 0), all_, new)


def swept(sweep: Sweep, own: Ensemble) -> tuple[Columns, Any]:
    """The cotangents ȳ of all initial states and p̄ of all parameters, computed group by group."""
    size = len(own.tried)
    on_cpu = jax.default_backend() == "cpu" or is_described()
    width = min(GROUP if on_cpu else GROUP_ON_GPU, size)
    order = jnp.argsort(-own.tried)
    padded = jnp.concatenate([order, jnp.zeros(-size % width, order.dtype)])
    many = len(padded) // width
    groups = jax.tree.map(lambda x: x[padded].reshape(many, width, *x.shape[1:]), own)
    real = (jnp.arange(len(padded)) < size).reshape(many, width)
    groups = groups._replace(tried=jnp.where(real, groups.tried, 0))
    store = _empty(sweep, jax.tree.map(lambda x: x[0], groups))
    found = jax.lax.scan(sweep.group, store, groups)[1]
    back = jnp.argsort(order)

    def of_all(columns):
        return jax.tree.map(lambda x: x.reshape(-1)[back], columns)

    y_bar, p_bar = found
    if not sweep.parameters.summed:
        return of_all(y_bar), of_all(p_bar)
    return of_all(y_bar), (of_all(p_bar[0]), tuple(jnp.sum(x, 0) for x in p_bar[1]))


def _empty(sweep: Sweep, group: Ensemble) -> Store:
    """Allocates room for records and checkpoints."""
    pair, y = sweep.pair, group.y
    powers = (y,) * len(pair.inside[0]) if len(sweep.inner) else ()
    t, count = y[0], group.tried
    row = StepRecord(t, t, count > 0, (y,) * len(pair.b), () if pair.reuses else y, powers)
    lane = AdaptiveLane(t, t, y, y if pair.reuses else (), count, count, count)

    def room(many):
        return lambda x: jnp.zeros((many, *x.shape), x.dtype)

    return Store(jax.tree.map(room(ROWS), row), jax.tree.map(room(PLACES + 1), lane))
