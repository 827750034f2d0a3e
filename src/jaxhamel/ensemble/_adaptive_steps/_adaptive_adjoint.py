"""Transposes one adaptive step in lanes: the adjoint of an embedded Runge–Kutta pair and of the states within a step.

    Y_i = y + h Σ_j a_ij k_j ,   k_i = f(t + c_i h, Y_i, p) ,   z = y + h Σ_i b_i k_i ,   y₁ = N(z) ,
    y(t + θh) = N(z_θ) ,   z_θ = y + h Σ_m θ^m Σ_i w_im k_i

    w = N′(z)ᵀ ȳ₁ ,   v_θ = N′(z_θ)ᵀ ȳ(t + θh) ,   M_m = Σ_θ θ^m v_θ ,
    κ_i = h (b_i w + Σ_m w_im M_m + Σ_{j>i} a_ji Ȳ_j) ,   Ȳ_i = f_y(Y_i)ᵀ κ_i ,
    ȳ = w + M_0 + Σ_i Ȳ_i ,   p̄ += Σ_i f_p(Y_i)ᵀ κ_i

y, z, k and p are those of the equations above; a bar denotes a cotangent, and Ȳ_j is that of stage j. Step sizes are
constants: the error estimate has no derivative (diffrax stops it, too). If a pair reuses its last slope as the first one of
the next step, f is not evaluated for the first stage, and κ of this stage is added to that of the last stage of the step
before.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._derivatives._pullback import pullback
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._loop_fusion import separated
from jaxhamel.ensemble._adaptive_steps._adaptive_step import Inside, state_within
from jaxhamel.ensemble._members._parameters import Parameters, added, numbers
from jaxhamel.ensemble._methods._embedded_pairs import Pair


class StepRecord(NamedTuple):
    """The data of a step that its transpose needs.

    - `t`, `end`: its first and last time; `kept`: whether it was accepted; `stages`: Y_i.
    - `z`: its end before N; empty if that is the last stage.
    - `powers`: h Σ_i w_im k_i for each power of θ; empty without interior output times.
    """

    t: Float[Array, " W"]
    end: Float[Array, " W"]
    kept: Bool[Array, " W"]
    stages: tuple[Columns, ...]
    z: Columns
    powers: tuple[Columns, ...]


class OutputCotangents(NamedTuple):
    """The interior output times, and the cotangents of the states at these times, `(W, m)` for each number of a state."""

    times: Float[Array, " m"]
    bars: tuple[Float[Array, "W m"], ...]


class Bars(NamedTuple):
    """The state of the backward pass.

    - `y`, `p`: the cotangents of the state and of the parameters.
    - `slope`: the cotangent of the first slope of the next step, which is the last slope of this one in methods such as
      Tsit5; empty for methods that compute it anew.
    - `place`: the index of the latest interior output time that is not transposed yet, −1 if there is none.
    - `moments`: M_0, M_1, … of the current step.
    """

    y: Columns
    slope: Columns
    p: Any
    place: Int[Array, " W"]
    moments: tuple[Columns, ...]


class Inputs(NamedTuple):
    """Per-lane and shared inputs, and which of their entries are differentiated."""

    mine: Columns
    shared: Any
    parameters: Parameters


class Backward(NamedTuple):
    """Functions in lanes that transpose a step.

    - `kappas`: one for each stage, which computes the time of the stage and κ.
    - `stage`: transposes a stage; all stages share it.
    - `end`: transposes the end of a step: returns w and w + M_0.
    - `point`: transposes a state within a step: adds its term to the moments.
    - `looped`: whether the stages are transposed by a loop.
    """

    kappas: tuple[Callable, ...]
    stage: Callable
    end: Callable
    point: Callable
    looped: bool

    @classmethod
    def of(
        cls, rate: Callable, unit: Callable, pair: Pair, parameters: Parameters, looped: bool
    ) -> "Backward":
        """Builds these functions from two functions of one trajectory.

        These are the rate of change ẏ = `rate`(t, y, mine, shared), and N = `unit`(y, shared), which normalises quaternions.
        """

        def end(kept, z, bar, moments, shared):
            w = _unit_back(unit, z, bar, shared)
            w = tuple(jnp.where(kept, a, b) for a, b in zip(w, bar, strict=True))
            return w, added(w, moments) if moments else w

        stage = lanes(partial(_stage_back, rate, parameters), (0, 0, 0, 0, 0, None, 0, 0))
        if parameters.summed:
            stage = partial(_stage_back_of_lanes, lanes(rate, (0, 0, 0, None)), parameters)
        return cls(
            tuple(lanes(partial(_kappa, pair, i)) for i in range(len(pair.b))),
            jax.jit(stage),
            lanes(end, (0, 0, 0, 0, None)),
            lanes(partial(_point_back, unit), (0, 0, 0, 0, 0, None, None)),
            looped,
        )


def _kappa(pair: Pair, i: int, at, w: Columns, after: dict[int, Columns], moments, slope: Columns):
    """The time t + c_i h of stage i, and the cotangent of its slope, κ_i = h (b_i w + Σ_j a_ji Ȳ_j + Σ_m w_im M_m).

    If the pair reuses slopes, the cotangent `slope` of the next step's first slope is added to that of the last stage. After
    a rejected step the first slope stays the same, so that κ of the first stage is `slope` itself.
    """
    t, end, kept = at
    h = end - t
    terms = [(pair.b[i], w), *((pair.a[j][i], found) for j, found in after.items())]
    terms += list(zip(pair.inside[i], moments[1:], strict=False))
    used = [(a, x) for a, x in terms if a]
    sums = [h * sum(a * x[n] for a, x in used) if used else 0.0 * h for n in range(len(w))]
    if pair.reuses and i == len(pair.b) - 1:
        sums = added(sums, slope)
    elif pair.reuses and i == 0:
        sums = (jnp.where(kept, a, b) for a, b in zip(sums, slope, strict=True))
    return t + pair.c[i] * h, tuple(sums)


def _stage_back(rate, parameters: Parameters, t, kept, kappa, here, mine, shared, y_bar, p_bar):
    """Transposes one stage: returns its cotangent Ȳ, ȳ + Ȳ, and p̄ + f_pᵀ κ; the added terms are zero in a rejected step."""

    def of(x):
        return rate(t, x[0], *parameters.inserted(x[1], mine, shared))

    here_bar, bars = pullback(of, (here, parameters.of(mine, shared)), kappa)
    here_bar, more = (_where(kept, x) for x in (here_bar, numbers(bars)))
    return here_bar, added(y_bar, here_bar), added(p_bar, more)


def _stage_back_of_lanes(
    rate, parameters: Parameters, t, kept, kappa, here, mine, shared, y_bar, p_bar
):
    """As `_stage_back`, of all lanes, with cotangents of shared arrays that are summed over the lanes of accepted steps.

    A stage of a rejected step may be infinite, and 0 · ∞ would be in the sum. So its lane takes the stage of a lane whose
    step was accepted, with a cotangent of zero.
    """
    taken = jnp.argmax(kept)
    t, here, mine = jax.tree.map(lambda x: jnp.where(kept, x, x[taken]), (t, here, mine))

    def of(here, p):
        return tuple(rate(t, here, *parameters.inserted(p, mine, shared)))

    here_bar, (own, sums) = jax.vjp(of, here, parameters.of(mine, shared))[1](_where(kept, kappa))
    here_bar, own = _where(kept, here_bar), _where(kept, own)
    sums = _where(jnp.any(kept), sums)
    return here_bar, added(y_bar, here_bar), (added(p_bar[0], own), added(p_bar[1], sums))


def _where(kept, values) -> tuple:
    return tuple(jnp.where(kept, x, jnp.zeros_like(x)) for x in values)


def _unit_back(unit: Callable, z: Columns, bar: Columns, shared) -> Columns:
    return jax.vjp(lambda z: unit(z, shared), z)[1](bar)[0]


def _point_back(unit: Callable, inside: Inside, theta, here, bar, moments, shared, begins):
    """Adds the terms θ^m v_θ of one output time to the moments M_m; `begins`: whether the moments are zero before that.

    `here`: whether the lane has an output time.
    """
    v = _where(here, _unit_back(unit, state_within(inside, theta), bar, shared))
    found, power = [], jnp.ones_like(theta)
    for before in moments:
        known = (jnp.where(begins, jnp.zeros_like(x), x) for x in before)
        found.append(tuple(x + power * each for x, each in zip(known, v, strict=True)))
        power = power * theta
    return tuple(found)


def step_back(
    programs: Backward,
    pair: Pair,
    row: StepRecord,
    saved: OutputCotangents,
    given: Inputs,
    bars: Bars,
):
    """Transposes one step: returns the cotangents before the step, from those after it."""
    if len(saved.times):
        bars = _states_within(programs, row, saved, given, bars)
    at_start = bars.moments[0] if bars.moments else ()
    end = row.stages[-1] if pair.reuses else row.z
    w, y_bar = programs.end(row.kept, end, bars.y, at_start, given.shared)
    run = _stages_looped if programs.looped else _stages_in_turn
    y_bar, slope, p_bar = run(programs, pair, row, w, given, bars._replace(y=y_bar))
    return bars._replace(y=y_bar, slope=slope, p=p_bar)


def _stages_in_turn(
    programs: Backward, pair: Pair, row: StepRecord, w: Columns, given: Inputs, bars: Bars
) -> tuple[Columns, Columns, Any]:
    """Transposes the stages from the last to the first; returns ȳ, the cotangent of the first slope, and p̄."""
    at, size = (row.t, row.end, row.kept), len(pair.b)
    y_bar, p_bar, after = bars.y, bars.p, {}

    def kappa(i):
        used = {j: found for j, found in after.items() if pair.a[j][i]}
        return programs.kappas[i](at, w, used, bars.moments, bars.slope)

    for i in reversed(range(1 if pair.reuses else 0, size)):
        t, along = kappa(i)
        known = (row.stages[i], given.mine, given.shared, y_bar, p_bar)
        after[i], y_bar, p_bar = programs.stage(t, row.kept, along, *known)
    return y_bar, kappa(0)[1] if pair.reuses else (), p_bar


def _stages_looped(
    programs: Backward, pair: Pair, row: StepRecord, w: Columns, given: Inputs, bars: Bars
) -> tuple[Columns, Columns, Any]:
    """Computes the same as `_stages_in_turn` by a loop over the stages, so that the transpose of f is compiled once.

    κ_i / h is a combination of w, of the M_m, and of the Ȳ_j, which are zero for the stages that are not transposed yet.
    """
    stages, h = jnp.stack([jnp.stack(x) for x in row.stages]), row.end - row.t
    none, first = jnp.zeros_like(stages), 1 if pair.reuses else 0
    sources = jnp.stack([jnp.stack(x) for x in (w, *bars.moments[1:])])
    last = jnp.stack(bars.slope) if pair.reuses else none[0]
    inside = np.array(pair.inside)[:, : len(sources) - 1]
    weights = np.concatenate([np.array(pair.a).T, np.array(pair.b)[:, None], inside], axis=1)
    weights, c = (jnp.asarray(x, h.dtype) for x in (weights, pair.c))

    def kappa(weights, found):
        return h[None] * jnp.tensordot(weights, jnp.concatenate([found, sources]), 1)

    def stage(carry, numbers):
        found, y_bar, p_bar, slope = carry
        i, weights, c = numbers
        along, here = separated(kappa(weights, found) + slope), separated(stages[i])
        known = (tuple(here), given.mine, given.shared, y_bar, p_bar)
        bar, y_bar, p_bar = programs.stage(row.t + c * h, row.kept, tuple(along), *known)
        return (found.at[i].set(jnp.stack(bar)), y_bar, p_bar, jnp.zeros_like(slope)), None

    places = jnp.arange(first, len(pair.b))
    numbers = (places, weights[first:], c[first:])
    start = (none, bars.y, bars.p, last)
    (found, y_bar, p_bar, _), _ = jax.lax.scan(stage, start, numbers, reverse=True)
    if not pair.reuses:
        return y_bar, (), p_bar
    slope = jnp.where(row.kept[None], kappa(weights[0], found), last)
    return y_bar, tuple(separated(slope)), p_bar


def _states_within(
    programs: Backward, row: StepRecord, saved: OutputCotangents, given: Inputs, bars: Bars
) -> Bars:
    """Transposes the states at all output times within the step: updates the moments M_m = Σ_θ θ^m v_θ and `place`."""
    inside, h = Inside(row.stages[0], row.powers), row.end - row.t

    def due(place):
        time = jnp.where(place < 0, -jnp.inf, saved.times[jnp.maximum(place, 0)])
        return row.kept & (time > row.t)

    def one(now):
        _, place, moments = now
        here, which = due(place), jnp.maximum(place, 0)
        theta = jnp.where(here, (saved.times[which] - row.t) / h, jnp.zeros_like(h))
        bar = tuple(jnp.take_along_axis(x, which[:, None], 1)[:, 0] for x in saved.bars)
        moments = programs.point(inside, theta, here, bar, moments, given.shared, now[0])
        return jnp.array(False), place - here.astype(place.dtype), moments

    def going(now):
        return now[0] | jnp.any(due(now[1]))

    start = (jnp.array(True), bars.place, bars.moments)
    _, place, moments = jax.lax.while_loop(going, one, start)
    return bars._replace(place=place, moments=moments)
