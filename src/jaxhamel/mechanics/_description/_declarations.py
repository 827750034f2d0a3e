"""Declarations in a system's class: parts of the state, and further quantities along a motion.

Scenarios, their documentation, tables, figures, `identify` and `montecarlo` use them.
"""

import re
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array

from jaxhamel.geometry import SE2, SO2, AbstractSpace, Product


class Part(NamedTuple):
    """A part of the state or of the control: one factor of the configuration, or some neighbouring quasi-velocities or
    controls.

    - `key`: its name, which is also its key in `[initial]` of a scenario.
    - `columns`: names of its numbers in tables. A text instead of a tuple stands for any number of columns with this name
      and a number from 1. If it is empty, the part is not written to tables.
    - `unit`: SI unit, or several with ", " between them. `about`: its meaning. `symbols`: names for the legends of figures,
      by default `columns`.
    - `chart`: whether it is plotted over time.
    """

    key: str
    columns: tuple[str, ...] | str
    unit: str = ""
    about: str = ""
    symbols: tuple[str, ...] = ()
    chart: bool = True

    def names(self, size: int) -> tuple[str, ...]:
        """The names of the columns, of which there are `size`."""
        if isinstance(self.columns, str):
            return tuple(f"{self.columns}_{i + 1}" for i in range(size))
        return self.columns

    def units(self, size: int) -> tuple[str, ...]:
        """The unit of each column, of which there are `size`.

        Of two units for more columns, the second one is that of places x, y, z and of velocities v_x, v_y, v_z.
        """
        units, names = self.unit.split(", "), self.names(size)
        if len(units) == size:
            return tuple(units)
        if len(units) != 2 or not any(map(_is_along, names)):
            return (self.unit,) * size
        return tuple(units[1] if _is_along(name) else units[0] for name in names)

    @property
    def size(self) -> int | None:
        """The number of entries; None if it differs between instances of the class."""
        return None if isinstance(self.columns, str) else max(len(self.columns), len(self.symbols))


def _is_along(column: str) -> bool:
    """Whether a column is the coordinate of a place or a velocity along an axis."""
    return column.removeprefix("v_") in ("x", "y", "z")


class State(NamedTuple):
    """The parts of the configuration, one for each array that stores it, the parts of u, and those of the value of the
    control, in order; `control` is empty if the class does not name them.
    """

    q: tuple[Part, ...]
    u: tuple[Part, ...]
    control: tuple[Part, ...] = ()


ORIENTATION = Part(
    "orientation",
    ("qw", "qx", "qy", "qz"),
    "",
    "unit quaternion (w, x, y, z), body to space",
    chart=False,
)
OMEGA = Part(
    "omega",
    ("Omega_x", "Omega_y", "Omega_z"),
    "rad/s",
    "angular velocity, body frame",
    ("Ω₁", "Ω₂", "Ω₃"),
)


class Output(eqx.Module):
    """A quantity along the motion, besides the state, for tables and figures: a force, a point, an angle.

    - `value`: its numbers, `(r,)`. `columns`: the name of each of them. `unit`: their SI unit.
    - `name`: the name of the figure. `about`: its title.
    - `level`: a value for comparison, such as the weight; None for none.
    """

    value: Array
    name: str = eqx.field(static=True)
    columns: tuple[str, ...] = eqx.field(static=True)
    unit: str = eqx.field(static=True, default="")
    about: str = eqx.field(static=True, default="")
    level: Array | None = None


def kind_of(cls: type) -> str:
    """The name of a class in scenarios: `RollingBall` becomes `rolling-ball`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()


def parts_of(names: State, q: Any, u: Any) -> list[tuple[Part, Any]]:
    """Every part of states (q, u) with its numbers, `(..., r)`: first those of the configuration, then those of u."""
    found = list(zip(names.q, jax.tree.leaves(q), strict=True))
    fixed = sum(part.size or 0 for part in names.u)
    start = 0
    for part in names.u:
        size = u.shape[-1] - fixed if part.size is None else part.size
        found.append((part, u[..., start : start + size]))
        start += size
    return found


# the units of the numbers in which an element of a group is stored: the angle, or the angle, x and y
_UNITS: dict[type[AbstractSpace], str] = {SO2: "rad", SE2: "rad, m, m"}


def state_of(system: Any) -> State:
    """The parts of a system's state: those that its class names, or one for each array of q and one for u.

    Without names, poses in a plane and angles of rotation have the units of their groups, other numbers no unit.
    """
    if system.state_names is not None:
        return system.state_names
    arrays = jax.tree.leaves(system.space.stored)
    many = len(arrays) > 1
    factors = system.space.spaces if isinstance(system.space, Product) else (system.space,)
    units = [_UNITS.get(type(x), "") for x in factors] if len(factors) == len(arrays) else []
    q = tuple(
        Part(f"q_{i + 1}" if many else "q", f"q{i + 1}" if many else "q", unit)
        for i, unit in enumerate(units or [""] * len(arrays))
    )
    return State(q, (Part("u", "u"),) if system.n_independent else ())
