"""Reverse mode of adaptive steps: maps cotangents of the paths to cotangents of the members, by `_adaptive_sweep`."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxhamel._checks._dependence import dependent_results, depends_on
from jaxhamel._lanes._columns import ColumnLayout
from jaxhamel.ensemble._adaptive_steps._adaptive import joined
from jaxhamel.ensemble._adaptive_steps._adaptive_step import StepLimits
from jaxhamel.ensemble._adaptive_steps._adaptive_sweep import Ensemble, Sweep, swept
from jaxhamel.ensemble._adaptive_steps._lane_motion import LaneMotion
from jaxhamel.ensemble._adaptive_steps._step_form import StepForm, as_scalars
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._members._parameters import Parameters
from jaxhamel.ensemble._methods._embedded_pairs import Pair


def reverse(
    ensemble_of: Callable[..., tuple[ColumnLayout, SteppedMotion]],
    values: Sequence[Array],
    ts: Float[Array, " T"],
    pair: Pair,
    limits: StepLimits,
    counts: tuple[Int[Array, " B"], Int[Array, " B"]],
    bars: list[Array],
) -> Sequence[Array]:
    """The cotangents of `values`, from those of the motions of the ensemble `ensemble_of(*values)`.

    **Arguments:** `counts`: number of attempted steps and final status of each trajectory; `bars`: the cotangents of the
    states at `ts` and of the final states, leaf by leaf.
    """
    tried, stands = counts
    state, motion = ensemble_of(*values)
    form = StepForm.of(motion, pair)
    scalars, rebuilt = as_scalars(motion.shared, form.whole)

    def numbers(*values):
        motion = ensemble_of(*values)[1]
        return motion.y, motion.mine, as_scalars(motion.shared, form.whole)[0]

    own_motion = LaneMotion.of(motion, rebuilt)
    moves = dependent_results(numbers, *values)
    parameters = _parameters(motion, own_motion, scalars, moves)
    parameters = parameters._replace(summed=any(form.whole))
    y_bar, between, end = _apart(state, motion, len(ts) - 2, stands, bars)
    sweep = Sweep.of(own_motion, form, scalars, pair, limits, ts, parameters)
    own = Ensemble(motion.y, motion.mine, end, between, tried)
    of_y, of_p = swept(sweep, own)
    of_y = tuple(a + b for a, b in zip(of_y, y_bar, strict=True))
    of_p = parameters.arrays(of_p, scalars)
    mine, shared = [jnp.zeros_like(x) for x in motion.mine], jax.tree.leaves(scalars)
    shared = [jnp.zeros_like(x) for x in shared]
    for places, all_ in ((parameters.mine, mine), (parameters.shared, shared)):
        for i in places:
            all_[i] = of_p.pop(0)
    found = (of_y, tuple(mine), jax.tree.unflatten(jax.tree.structure(scalars), shared))
    return jax.vjp(numbers, *values)[1](found)


def _parameters(
    motion: SteppedMotion, own_motion: LaneMotion, scalars, moves: list[bool]
) -> Parameters:
    """The indices of those inputs of the rate that depend on the differentiated values and affect the rate."""
    y, mine = motion.y, motion.mine

    def of_lanes(x):
        return jax.ShapeDtypeStruct((), x.dtype)

    def of_array(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    of_lane = jax.tree.map(of_lanes, (y[0], y, mine))
    leaves, structure = jax.tree.flatten((*of_lane, jax.tree.map(of_array, scalars)))

    def rate(*leaves):
        return own_motion.rate(*jax.tree.unflatten(structure, leaves))

    needed = depends_on(rate, *leaves)[1:]
    wanted = [a and b for a, b in zip(moves, needed, strict=True)][len(y) :]
    places = [i for i, each in enumerate(wanted) if each]
    many = len(mine)
    return Parameters([i for i in places if i < many], [i - many for i in places if i >= many])


def _apart(state: ColumnLayout, motion: SteppedMotion, many: int, stands, bars: list[Array]):
    """Splits the cotangents into those of the states at the first time, at the interior times, and at the end."""

    def leaves(y, between, ends):
        rows = joined(motion, y, between, ends, stands)
        return jax.tree.leaves((state.entries(rows), state.entries(ends)))

    y = motion.y
    between = tuple(jnp.zeros((len(x), many), x.dtype) for x in y) if many else ()
    y_bar, between, end = jax.vjp(leaves, y, between, y)[1](bars)
    return y_bar, between or tuple(jnp.zeros((len(x), 0), x.dtype) for x in y), end
