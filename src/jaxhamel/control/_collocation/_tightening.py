"""Limits that hold between the collocation points too: where a polynomial overshoots, its bounds are tightened in that
interval by the excess."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._certificate._violation import excesses
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._state import SearchState, resumed

MORE = 1.1  # a bound is moved by this factor times the amount by which it is violated
RESTART = 1e-5  # barrier parameter μ with which the search goes on after bounds were tightened


def tightened(
    original: Transcription, current: Transcription, state: SearchState, least: float
) -> Transcription | None:
    """The transcription with tighter bounds; None where the original ones are violated by less than `least`."""
    if not original.limits:
        return None
    over = excesses(original, state.w)
    if max(float(np.max(x)) for x in over) <= least:
        return None
    low, high = (jnp.asarray(MORE * x[:, None], current.lower.dtype) for x in over)
    middle = 0.5 * (original.lower + original.upper)
    inner = jnp.where(jnp.isfinite(middle), 0.1 * (original.upper - original.lower), jnp.inf)
    equal = original.lower == original.upper
    lower, upper = current.lower + low, current.upper - high
    crowded = equal | (upper - lower < inner) & jnp.isfinite(inner)
    bounds = jnp.where(crowded, current.lower, lower), jnp.where(crowded, current.upper, upper)
    return eqx.tree_at(lambda t: (t.lower, t.upper), current, bounds)


@compiled_with(QUICK)
def again(transcription: Transcription, state: SearchState, least: float = RESTART) -> SearchState:
    """The state inside of new bounds, with μ = `least` or more."""
    mu = jnp.maximum(state.mu, least)
    lower, upper = transcription.lower, transcription.upper
    width = jnp.where(jnp.isfinite(upper - lower), upper - lower, jnp.inf)
    margin = jnp.minimum(1e-4, 0.01 * width)
    slack = jnp.minimum(jnp.maximum(state.w.slack, lower + margin), upper - margin)
    slack = jnp.where(lower == upper, state.w.slack, slack)
    below = jnp.where(jnp.isfinite(lower) & (lower < upper), mu / (slack - lower), 0.0)
    above = jnp.where(jnp.isfinite(upper) & (lower < upper), mu / (upper - slack), 0.0)
    duals = state.duals._replace(
        low=jnp.maximum(state.duals.low, below), high=jnp.maximum(state.duals.high, above)
    )
    w = state.w._replace(slack=slack)
    return resumed(state._replace(w=w, duals=duals, mu=mu))
