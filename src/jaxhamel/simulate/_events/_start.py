"""The sign of a real function of an event just after the start of a motion, which may begin at a zero of the function."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

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
