"""Sensors that measure the whole state, with errors in the tangent space of the group."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._checks._closed_loop import check_errors
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.mechanics._tangent import retract


class StateSensors(eqx.Module):
    """Measures the whole state (q, u), with an error in exponential coordinates:

        (q exp(e_q), u + e_u) ,   e = bias + noise ξ ,   ξ ~ N(0, 1) in each sample.

    **Arguments:**

    - `noise`: standard deviations, a number or `(n+k,)`, in the order of δ = (δ_q, δ_u) in `jaxhamel.mechanics.linearise`;
      `bias`: a number or `(n+k,)`; default 0.
    - `resolution`: the step of quantisation, a number or `(n+k,)`, 0 for none: the coordinates log(q) and u are rounded to
      its multiples. Default None: no rounding.

    With these sensors the law of a `Sampled` is called as (t, q, u), with the measured q and u.

    **Raises:** `TypeError` or `ValueError` for numbers that are negative.
    """

    noise: Any = parameter(default=0.0)
    bias: Any = parameter(default=0.0)
    resolution: Any = parameter(default=None)
    gives_state: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_errors(self)

    def __call__(
        self, system: Any, t: Time, q: Any, u: Array, control: Control, noise: Array
    ) -> tuple[Configuration, QuasiVelocity]:
        """The measured state; `noise`: ξ, `(n+k,)`."""
        error = self.bias.astype(u.dtype) + self.noise.astype(u.dtype) * noise
        q, u = retract(system, (q, u), error)
        if self.resolution is None:
            return q, u
        size = jnp.broadcast_to(self.resolution.astype(u.dtype), noise.shape)
        n = system.space.dim
        origin = system.space.identity(u.dtype)
        turned = rounded(system.space.local(origin, q), size[:n])
        return system.space.retract(origin, turned), rounded(u, size[n:])


def rounded(value: Array, size: Array) -> Array:
    """The nearest multiples of `size`; the value itself where `size` is 0."""
    some = jnp.where(size > 0, size, 1.0).astype(value.dtype)
    return jnp.where(size > 0, some * jnp.round(value / some), value)
