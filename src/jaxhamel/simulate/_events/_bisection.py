"""The root finder that locates events: bisection within the last step."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, Float


class Bracket(eqx.Module):
    """The interval (lower, upper] with the event, which is bisected down to the length `width`.

    `rises`: whether the function is positive at the end of the step.
    """

    lower: Float[Array, ""]
    upper: Float[Array, ""]
    width: Float[Array, ""]
    rises: Bool[Array, ""]


class InsideStep(optx.AbstractRootFinder):
    """Finds the time within the last step at which a function becomes positive: to rounding, the first time after that.

    diffrax calls it for events, with the ends of the step as `lower` and `upper` and with a function that returns a pytree
    of numbers of which all but one are zero. If none is positive at the end of the step (no event, or an event at the
    start), the result is that end. Derivatives use the implicit function theorem.
    """

    rtol: float = 0.0
    atol: float = 0.0
    norm: ClassVar[Callable] = jnp.abs

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        del y, f_struct, aux_struct, tags
        lower, upper = (jnp.asarray(options[name]) for name in ("lower", "upper"))
        largest = jnp.maximum(jnp.abs(lower), jnp.abs(upper))
        width = jnp.finfo(upper.dtype).eps * largest
        rises = jnp.asarray(_total(fn(upper, args)[0]) > 0)
        return Bracket(lower, upper, width, rises)

    def step(self, fn, y, args, options, state, tags):
        del y, options, tags
        middle = state.lower + 0.5 * (state.upper - state.lower)
        values, aux = fn(middle, args)
        after = state.rises & (_total(values) > 0)
        lower = jnp.where(after, state.lower, middle)
        upper = jnp.where(after, middle, state.upper)
        return upper, Bracket(lower, upper, state.width, state.rises), aux

    def terminate(self, fn, y, args, options, state, tags):
        del fn, y, args, options, tags
        return state.upper - state.lower <= state.width, optx.RESULTS.successful

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        del fn, args, options, state, tags, result
        return y, aux, {}


def _total(values: Any):
    """The one value that is not zero; 0 if all are."""
    return sum(jax.tree.leaves(values))
