"""Design parameters: numbers of the system that the search finds together with the control."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel._checks._values import check_callable
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._checks._collocation import check_bounds, check_designed, check_name
from jaxhamel.control._problem._costs import AbstractConstraint
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import parameter


class DesignParameter(AbstractConstraint):
    """Makes a parameter of the system an unknown of the problem, lower ≤ where(system) ≤ upper.

    **Arguments:**

    - `where`: a function that selects one array of the system, as for `equinox.tree_at`: `lambda system: system.mass` or,
      for a `MovingParts`, `lambda driven: driven.system.rails.radius`. The search starts at the value in the problem's
      system.
    - `lower`, `upper`: numbers, or arrays of the selected array's shape, in its unit; infinite: no limit.
    - `name`: for messages; default: `"design parameter"`.

    The initial state does not change with the parameter. `result.problem.system` has the values that were found.
    `control.Collocation` solves such problems; other methods refuse them.
    """

    where: Callable[..., Any]
    lower: Any = parameter(default=-jnp.inf)
    upper: Any = parameter(default=jnp.inf)
    name: str = eqx.field(static=True, default="design parameter")
    at_end = None

    def __check_init__(self) -> None:
        check_callable("where", self.where, "system -> one array of it")
        check_name(self.name)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        check_designed(self.name, system, self.where)
        shape = np.shape(self.where(system))
        check_bounds(self.name, self.lower, self.upper, shape, strict=True)

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " 0"]:
        """An empty array: the parameter has bounds, but no condition."""
        return jnp.zeros(0, u.dtype)


def values_of_designs(system: System, designs: tuple[DesignParameter, ...]) -> Float[Array, " n"]:
    """The design parameters of a system as one vector."""
    return jnp.concatenate([jnp.ravel(jnp.asarray(x.where(system))) for x in designs])


def values_by_name(system: System, constraints: tuple[Any, ...]) -> dict[str, Array]:
    """The values of the design parameters among the constraints, by their names; equal names get a number from 2 on."""
    found: dict[str, Array] = {}
    many: Counter[str] = Counter()
    for design in constraints:
        if isinstance(design, DesignParameter):
            many[design.name] += 1
            number = "" if many[design.name] == 1 else f" {many[design.name]}"
            found[design.name + number] = design.where(system)
    return found


def with_designs(
    system: System, designs: tuple[DesignParameter, ...], values: Float[Array, " n"]
) -> System:
    """The system with other values of its design parameters."""
    for design in designs:
        old = jnp.asarray(design.where(system))
        new = values[: old.size].reshape(old.shape).astype(old.dtype)
        system, values = eqx.tree_at(design.where, system, new), values[old.size :]
    return system


def bounds_of_designs(
    system: System, designs: tuple[DesignParameter, ...], side: str, dtype: Any
) -> list[Float[Array, " n"]]:
    """The lower or the upper bounds of all design parameters."""

    def spread(x):
        return jnp.broadcast_to(jnp.asarray(getattr(x, side), dtype), np.shape(x.where(system)))

    return [jnp.ravel(spread(x)) for x in designs]
