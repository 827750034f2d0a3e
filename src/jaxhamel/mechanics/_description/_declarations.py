"""Declarations in a system's class: parameters with units, parts of the state, and further quantities along a motion.

Scenarios, their documentation, tables, figures, `identify` and `montecarlo` use them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import equinox as eqx
import jax
from jaxtyping import AbstractArray, Array

from jaxhamel.mechanics._description._parameters import NOTES, FieldNotes

REQUIRED = object()  # marks a parameter without a default


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


@dataclass(frozen=True)
class Parameter:
    """A parameter, which is a field of a system's class.

    - `name`, `notes`: its name, and the notes given to `parameter`.
    - `default`: the default of the field; `REQUIRED` if it has none.
    - `kind`: the type of its value: `numbers`, `rails` (a callable: curves on which masses move), `text`, `integer`, `flag`,
      or `module`, an object with parameters of its own.
    - `parts`, `make`: the parameters and the class of such an object.
    """

    name: str
    notes: FieldNotes
    default: Any
    kind: str
    parts: tuple["Parameter", ...] = ()
    make: Callable[..., Any] | None = None

    @property
    def required(self) -> bool:
        """Whether the class has no default for the parameter."""
        return self.default is REQUIRED

    @property
    def example(self) -> Any:
        """A sensible value: the declared example; without one the default, which may be `REQUIRED`."""
        return self.default if self.notes.example is None else self.notes.example


def kind_of(cls: type) -> str:
    """The name of a class in scenarios: `RollingBall` becomes `rolling-ball`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """The parameters of the constructor of a class of systems, or of any `equinox.Module`."""
    hints = _hints(cls)
    return tuple(_declared_parameter(f, hints.get(f.name, f.type)) for f in fields(cls) if f.init)


def examples_of(cls: type) -> dict[str, Any]:
    """The examples of all parameters that declare one, by the name of the parameter."""
    found = {p.name: p.example for p in parameters_of(cls) if p.notes.example is not None}
    return found


def state_of(system: Any) -> State:
    """The parts of a system's state: those that its class names, or one for each array of q and one for u."""
    if system.state_names is not None:
        return system.state_names
    arrays = jax.tree.leaves(system.space.stored)
    many = len(arrays) > 1
    q = tuple(
        Part(f"q_{i + 1}" if many else "q", f"q{i + 1}" if many else "q")
        for i, _ in enumerate(arrays)
    )
    return State(q, (Part("u", "u"),) if system.n_independent else ())


def _declared_parameter(field: Any, hint: Any) -> Parameter:
    notes = field.metadata.get(NOTES, FieldNotes())
    default = field.default if field.default is not MISSING else REQUIRED
    if default is REQUIRED and field.default_factory is not MISSING:
        default = field.default_factory()
    kinds = _members(hint)
    if notes.shapes is None and (shape := _annotated_shape(kinds)) is not None:
        notes = notes._replace(shapes=(shape,))
    module = next((k for k in kinds if isinstance(k, type) and issubclass(k, eqx.Module)), None)
    if module is not None and not any(map(_is_array, kinds)):
        return Parameter(field.name, notes, default, "module", parameters_of(module), module)
    return Parameter(field.name, notes, default, _kind(kinds, notes))


def _kind(kinds: tuple, notes: FieldNotes) -> str:
    if notes.choices or str in kinds:
        return "text"
    if any(map(_is_array, kinds)):
        return "numbers"
    if bool in kinds:
        return "flag"
    if int in kinds and float not in kinds:
        return "integer"
    return "rails" if any(_is_callable(k) for k in kinds) else "numbers"


def _hints(cls: type) -> Mapping[str, Any]:
    try:
        return get_type_hints(cls)
    except Exception:  # a name cannot be resolved: unresolved annotations are used
        return {}


def _members(hint: Any) -> tuple:
    """The members of a union; otherwise the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_array(hint: Any) -> bool:
    if isinstance(hint, str):
        return "Array" in hint
    return isinstance(hint, type) and issubclass(hint, jax.Array | AbstractArray)


def _is_callable(hint: Any) -> bool:
    text = hint if isinstance(hint, str) else ""
    return "Callable" in text or get_origin(hint) is Callable or hint is Callable


def _annotated_shape(kinds: tuple) -> tuple[int | str, ...] | None:
    """The shape in an annotation such as `Float[Array, "n 3"]`, with numbers and names of axes."""
    texts = [k.dim_str for k in kinds if isinstance(k, type) and issubclass(k, AbstractArray)]
    if len(texts) != 1 or not re.fullmatch(r"\s*((\d+|[A-Za-z]\w*)\s*)*", texts[0]):
        return None
    return tuple(int(axis) if axis.isdigit() else axis for axis in texts[0].split())
