"""`rollout` and `integrate` with adaptive steps, by tolerances instead of a fixed step."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from jaxhamel import _checks
from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel.ensemble._adaptive_steps._adaptive_paths import (
    AdaptiveOptions,
    Equation,
    adaptive_paths,
)
from jaxhamel.ensemble._checks._members import check_embedded_pair
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._embedded_pairs import is_embedded_pair
from jaxhamel.simulate._checks import check_options, warn_of_unfinished
from jaxhamel.simulate._simulate import MAX_STEPS, tolerances_of


def by_tolerance(
    equation: Equation,
    members: Members,
    ts: ArrayLike,
    rtol: ArrayLike | None,
    atol: ArrayLike | None,
    method: object,
    max_steps: int | None,
) -> PyTree[Float[Array, "B T ..."]]:
    """The states at `ts`, NaN from the time on at which a trajectory breaks down; a warning says how many did.

    **Raises:** `ValueError` for invalid times, tolerances or numbers of steps; `TypeError` for a method without an error
    estimate.
    """
    first = jax.tree.leaves(equation.first(members.with_own(members.own)))
    times = jnp.asarray(ts, jnp.result_type(*first))
    _checks.check_times(times)
    _checks.check_steps(rtol, atol, None)
    method = diffrax.Tsit5() if method is None else method
    check_embedded_pair(method, is_embedded_pair(method))
    most = MAX_STEPS if max_steps is None else max_steps
    check_options(None, None, most, None)
    asked = AdaptiveOptions(method, most, *tolerances_of(rtol, atol, None, times.dtype))  # pyright: ignore
    states, unfinished = _states(equation, members, times, asked)
    warn_of_unfinished(unfinished, members.size, most)
    return states


@jit
def _states(equation: Equation, members: Members, ts: Float[Array, " T"], asked: AdaptiveOptions):
    """The states, and the number of trajectories that are not finite at the last time."""
    states = adaptive_paths(equation, members, ts, asked).states
    ends = [x[:, -1].reshape(members.size, -1) for x in jax.tree.leaves(states)]
    return states, jnp.sum(~jnp.all(jnp.isfinite(jnp.concatenate(ends, axis=1)), axis=1))
