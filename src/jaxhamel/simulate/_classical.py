"""The classical Runge–Kutta step, for what integrates in equal steps inside a larger program."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxhamel._typing import Scalar, Time

Y = TypeVar("Y", bound=PyTree[Float[Array, "..."]])


def classical_step(rate: Callable[[Time, Y], Y], t: Time, h: Scalar, y: Y) -> Y:
    r"""One step of order 4:

        k_1 = f(t, y) , k_2 = f(t + h/2, y + h/2 k_1) , k_3 = f(t + h/2, y + h/2 k_2) , k_4 = f(t + h, y + h k_3) ,
        y₁ = y + h/6 (k_1 + 2 k_2 + 2 k_3 + k_4) .

    Its stages are a loop, so that XLA compiles one right-hand side and not four.

    **Arguments:** `rate(t, y)` → ẏ, a pytree like y; `t`, `h`: where the step starts and how long it is.

    **Returns:** y₁. Source: Kutta 1901.
    """
    return classical_step_and_slopes(rate, t, h, y)[0]


def classical_step_and_slopes(
    rate: Callable[[Time, Y], Y], t: Time, h: Scalar, y: Y
) -> tuple[Y, Y]:
    """`classical_step`, and its slopes k_1 … k_4 along a leading axis; k_1 is the rate where it starts."""
    nodes, weights = (0.0, 0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)
    table = jnp.asarray([nodes, weights], h.dtype).T

    def stage(carry, numbers):
        slope, total = carry
        ahead, weight = numbers[0] * h, numbers[1] * h
        slope = rate(t + ahead, _moved(y, ahead, slope))
        return (slope, _moved(total, weight, slope)), slope

    (_, end), slopes = jax.lax.scan(stage, (jax.tree.map(jnp.zeros_like, y), y), table)
    return end, slopes


def _moved(y: Y, h: Scalar, slope: Y) -> Y:
    return jax.tree.map(lambda y, k: y + h * k, y, slope)
