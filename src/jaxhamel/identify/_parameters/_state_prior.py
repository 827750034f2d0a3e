"""Priors on quantities of each run's own initial state, such as the stiffness of its contact."""

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Time
from jaxhamel._words import counted
from jaxhamel.identify._checks._parameters import check_prior
from jaxhamel.identify._data._measurements import AbstractMeasurement, without_noise
from jaxhamel.mechanics import System


class StatePrior(eqx.Module):
    r"""A Gaussian prior on a quantity h of each run's initial state x_0. Each run gets the additional residual

        (h(x_0) − mean) / std .

    With such priors each run can have a parameter of its own: a coordinate of the system that a constraint keeps constant.
    This coordinate is part of the initial state and is therefore estimated for each run; the prior describes how it varies
    from run to run.

    **Arguments:**

    - `quantity`: h, a measurement, for instance `Coordinate(2, name="contact")`; its noise and offset are not used.
    - `mean`: the mean in the unit of h, one number or one for each component, `(d,)`.
    - `std`: standard deviation, one number or one for each component of the error, `(r,)`; infinite for no prior.

    **Raises:** `TypeError` if `quantity` is no measurement; `ValueError` for wrong shapes and a `std` that is not positive.
    """

    quantity: AbstractMeasurement
    mean: Float[Array, " d"]
    std: Float[Array, " r"]

    def __init__(self, quantity: AbstractMeasurement, mean: ArrayLike, std: ArrayLike):
        advice = "it must be a measurement, such as identify.Coordinate(0)."
        _checks.check_kind("quantity", quantity, AbstractMeasurement, advice)
        self.quantity = without_noise(quantity)
        self.mean = _vector("mean", mean, quantity.size)
        self.std = _vector("std", std, quantity.error_size)
        check_prior(
            self.mean,
            self.std,
            relative=False,
            exact="For a value that is known exactly give a small standard deviation.",
        )

    def residual(
        self, system: System, t: Time, state: tuple[Configuration, Array], control: Control
    ) -> Float[Array, " r"]:
        """The residual at an initial state (q, u)."""
        h, (q, u) = self.quantity, state
        value = h(system, t, q, u, control)
        none = jnp.zeros(h.error_size, value.dtype)
        return h.error(self.mean.astype(value.dtype), value, none) / self.std.astype(value.dtype)


def _vector(name: str, value: ArrayLike, size: int) -> Array:
    """`value` as an array: one number, or one for each of `size` components. **Raises:** `ValueError` for another shape."""
    _checks.check_outside(name, value)
    _checks.check_real(name, value)
    array = jnp.asarray(value, jnp.result_type(float))
    if array.shape not in ((), (1,), (size,)):
        raise ValueError(
            f"`{name}` of the prior has shape {array.shape}; it must be one number, or one for each of "
            f"{counted(size, 'component')}."
        )
    return jnp.broadcast_to(array, (size,))
