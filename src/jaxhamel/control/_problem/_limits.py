"""Constraints that only `Collocation` takes: limits along the path, a free end time, and design parameters."""

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
from jaxhamel.control._checks._collocation import (
    check_after,
    check_bounds,
    check_designed,
    check_end_times,
    check_name,
)
from jaxhamel.control._checks._problem_parts import check_rows
from jaxhamel.control._problem._costs import AbstractConstraint
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import parameter


class PathLimit(AbstractConstraint):
    """The limit lower ≤ function(t, q, u, control) ≤ upper at all times.

    **Arguments:**

    - `function`: (t, q, u, control) → `(r,)` or one number; `control` is the callable, `control(t)` its value.
    - `lower`, `upper`: scalars or `(r,)`, in the unit of the function; infinite: no limit; equal: an equation along the
      path.
    - `name`, `unit`: the limit's name and unit in messages, figures and the certificate; default: the function's name, no
      unit.
    - `outline`: a function t → `(P, 2)` or `(P, 3)` [m], the points of a line that reports draw, such as the edge of an
      obstacle; None: nothing is drawn. Points with two coordinates lie on the ground.

    `control.Collocation` solves problems with path limits; other methods refuse them.
    """

    function: Callable[..., Any]
    lower: Any = parameter(default=-jnp.inf)
    upper: Any = parameter(default=jnp.inf)
    name: str = eqx.field(static=True, default="")
    unit: str = eqx.field(static=True, default="", kw_only=True)
    outline: Callable[[Any], Any] | None = eqx.field(default=None, kw_only=True)
    at_end = None

    def __check_init__(self) -> None:
        if self.outline is not None:
            check_callable("outline", self.outline, "t -> (P, 2) or (P, 3)")
        check_callable("function", self.function, "(t, q, u, control) -> (r,)")
        check_name(self.name)
        check_name(self.unit, "unit")
        check_bounds(self.label, self.lower, self.upper)

    @property
    def label(self) -> str:
        """The limit's name or, without one, the name of its function."""
        return self.name or getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def quantity(self) -> str:
        """The label with the unit, if there is one: "force [N]"."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        check_rows(
            f"the function of the path limit `{self.label}`", self.function, t, q, u, control
        )

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " r"]:
        """The function's value."""
        return jnp.atleast_1d(self.function(t, q, u, control))


class FreeEndTime(AbstractConstraint):
    """Makes the last time an unknown, lower ≤ t_N ≤ upper [s]; other times of the mesh keep their shares of the duration.

    The search starts from the problem's last time. `control.Collocation` solves such problems; other methods refuse them.
    """

    lower: Any = parameter()
    upper: Any = parameter()
    at_end = None

    def __check_init__(self) -> None:
        check_end_times(self.lower, self.upper)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        check_after(self.lower, jnp.asarray(ts)[0])

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " 0"]:
        """An empty array: the end time has bounds, but no condition."""
        return jnp.zeros(0, u.dtype)


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
