"""Locates an event of a real function: the sign of the function just after the start of a motion, which may begin at a
zero, and bisection within the last step.
"""

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


_ROUNDINGS = 4.0  # an error of this number of roundings
_STEP = 16.0  # steps are at most this number of times |ḟ / f̈| long


class SignAfter(eqx.Module):
    """The sign of a function just after the start, and whether its value at the start is zero but for rounding."""

    sign: Float[Array, ""]
    starts_at_zero: Bool[Array, ""]


def sign_after(f: Callable[..., Any], rate: Callable[..., Any], ts, y0) -> SignAfter:
    """The sign that f(t, y(t)) has just after `ts[0]`, where `rate(t, y)` is (1, ẏ).

    It is that of the value f; of the rate of f if the value is zero, as for a ball thrown from the ground; and of the
    second derivative if both are zero, as for a ball dropped from rest at the height that f measures from.

    A motion that goes on from an event begins where f is zero but for rounding. Such a value counts as zero: one of up to
    4 ε times the size of the terms of f(t₀, y₀), and of f at the other end of the step in which the event was found. That
    step is not known, but it took at most the whole motion, and rarely more than 16 |ḟ / f̈|.
    """
    t0, duration = ts[0], jnp.abs(ts[-1] - ts[0])

    def slope(t, y):
        return jax.jvp(f, (t, y), rate(t, y))[1]

    value, terms = jax.jvp(f, (t0, y0), (jnp.zeros_like(t0), _without_cancelling(y0)))
    first, second = jax.jvp(slope, (t0, y0), rate(t0, y0))
    curved = second != 0
    step = jnp.where(curved, _STEP * jnp.abs(first / jnp.where(curved, second, 1.0)), duration)
    step = jnp.minimum(step, duration)
    size = jnp.abs(first) * (jnp.abs(t0) + step) + 0.5 * jnp.abs(second) * step**2
    error = _ROUNDINGS * jnp.finfo(ts.dtype).eps * (size + jnp.abs(terms))
    starts_at_zero = jnp.abs(value) <= error
    sign = jnp.sign(jnp.where(starts_at_zero, jnp.where(first == 0, second, first), value))
    return SignAfter(*jax.lax.stop_gradient((sign, starts_at_zero)))


def _without_cancelling(y):
    """Each number of y times a factor of its own, as a tangent: in the derivative of f, like terms do not cancel."""

    def scaled(x):
        return x * jnp.cos(1.0 + jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape)

    return jax.tree.map(scaled, y)
