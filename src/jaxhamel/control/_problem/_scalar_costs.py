"""Costs that are no sums of squares: any smooth function under the integral, at the first or at the last time."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from jaxhamel._checks._values import check_callable, check_shape
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.control._checks._problem import check_weight
from jaxhamel.control._checks._problem_parts import check_scalar
from jaxhamel.control._problem._costs import AbstractCost
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import parameter


class AbstractScalarCost(AbstractCost):
    """A cost given by its value instead of a residual. Only `Collocation` takes such costs."""

    function: eqx.AbstractVar[Callable[..., Any]]
    weight: eqx.AbstractVar[Any]

    def __check_init__(self) -> None:
        check_callable("function", self.function, "(t, q, u, control) -> a number")
        check_weight(self.weight)
        check_shape("weight", self.weight, ())

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        check_scalar(f"`function` of `{type(self).__name__}`", self.function, t, q, u, control)

    def value(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Scalar:
        """The value of the cost, w · function."""
        return jnp.reshape(self.weight * self.function(t, q, u, control), ())


class RunningCost(AbstractScalarCost):
    """The cost w ∫ function(t, q, u, control) dt of any smooth function, for instance the fuel used.

    **Arguments:** `function`: (t, q, u, control) → a number, or `(1,)`, where `control` is the callable; `weight`: w, not
    negative. `control.Collocation` solves problems with such costs; other methods refuse them.
    """

    function: Callable[..., Any]
    weight: Any = parameter(default=1.0)


class FinalCost(AbstractScalarCost):
    """The cost w · function(t, q, u, control) at the last time, for instance the last time itself.

    **Arguments:** those of `RunningCost`.
    """

    function: Callable[..., Any]
    weight: Any = parameter(default=1.0)


class InitialCost(AbstractScalarCost):
    """The cost w · function(t, q, u, control) at the first time, such as a prior of a free initial state.

    **Arguments:** those of `RunningCost`.
    """

    function: Callable[..., Any]
    weight: Any = parameter(default=1.0)


def total(kind: type[AbstractScalarCost], costs: Any, *at: Any) -> Any:
    """The sum of the costs of a kind at one state."""
    return sum((cost.value(*at) for cost in costs if isinstance(cost, kind)), 0.0)
