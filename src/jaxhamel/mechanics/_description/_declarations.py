"""What a system's class says of itself: parameters with units, parts of its state, quantities to write down.

Scenarios, their documentation, tables, figures, `identify` and `montecarlo` all read it here.
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

REQUIRED = object()  # the default of a parameter without one


class Part(NamedTuple):
    """One factor of the configuration, or a run of neighbouring quasi-velocities.

    - `key`: its name, a key of `[initial]` in a scenario.
    - `columns`: what each of its numbers is called in a table; one name alone stands for any number of them, counted
        from 1; empty: it is not written.
    - `unit`: SI. `about`: what it is. `symbols`: for the legends of figures, `columns` where empty.
    - `chart`: whether it is drawn over time.
    """

    key: str
    columns: tuple[str, ...] | str
    unit: str = ""
    about: str = ""
    symbols: tuple[str, ...] = ()
    chart: bool = True

    def names(self, size: int) -> tuple[str, ...]:
        """The column of each of `size` numbers."""
        if isinstance(self.columns, str):
            return tuple(f"{self.columns}_{i + 1}" for i in range(size))
        return self.columns

    @property
    def size(self) -> int | None:
        """How many numbers it has; None: known of an instance only."""
        return None if isinstance(self.columns, str) else max(len(self.columns), len(self.symbols))


class State(NamedTuple):
    """The parts of the configuration, one for each array it is stored in, and those of u, in order."""

    q: tuple[Part, ...]
    u: tuple[Part, ...]


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
    """A quantity along the motion that is worth a column and a figure, beside the state: a force, a point, an angle.

    - `value`: `(r,)`. `name`: of the figure. `columns`: one for each number. `unit`: SI. `about`: the figure's title.
    - `level`: a value to compare the first with, such as the weight; None for none.
    """

    value: Array
    name: str = eqx.field(static=True)
    columns: tuple[str, ...] = eqx.field(static=True)
    unit: str = eqx.field(static=True, default="")
    about: str = eqx.field(static=True, default="")
    level: Array | None = None


@dataclass(frozen=True)
class Parameter:
    """A field of a system's class.

    `kind` says what it holds: `numbers`, `rails` (a callable, curves on which masses move), `text`, `integer`,
    `flag`, or `module`, an object with parameters of its own, `parts`. `default` is `REQUIRED` where there is none.
    """

    name: str
    notes: FieldNotes
    default: Any
    kind: str
    parts: tuple["Parameter", ...] = ()
    make: Callable[..., Any] | None = None

    @property
    def required(self) -> bool:
        """Whether the class has no default for it."""
        return self.default is REQUIRED

    @property
    def example(self) -> Any:
        """A sensible value: the example where there is one, else the default; `REQUIRED` where there is neither."""
        return self.default if self.notes.example is None else self.notes.example


def kind_of(cls: type) -> str:
    """The name of a class in a scenario: RollingBall is a rolling-ball."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """The fields of a class of systems, or of any `equinox.Module`, that its constructor takes."""
    hints = _hints(cls)
    return tuple(_parameter(f, hints.get(f.name, f.type)) for f in fields(cls) if f.init)


def examples_of(cls: type) -> dict[str, Any]:
    """A value of every parameter that needs one or has an example; without those that have neither."""
    found = {p.name: p.example for p in parameters_of(cls) if p.notes.example is not None}
    return found


def state_of(system: Any) -> State:
    """The parts of a system's state: those that its class names, or else one for each array and one of all u."""
    if system.state_names is not None:
        return system.state_names
    arrays = jax.tree.leaves(system.space.stored)
    many = len(arrays) > 1
    q = tuple(
        Part(f"q_{i + 1}" if many else "q", f"q{i + 1}" if many else "q")
        for i, _ in enumerate(arrays)
    )
    return State(q, (Part("u", "u"),) if system.n_independent else ())


def _parameter(field: Any, hint: Any) -> Parameter:
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
    except Exception:  # annotations as text that name what is not there: the fields' own are left
        return {}


def _members(hint: Any) -> tuple:
    """The members of a union, or the one type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_array(hint: Any) -> bool:
    if isinstance(hint, str):
        return "Array" in hint
    return isinstance(hint, type) and issubclass(hint, jax.Array | AbstractArray)


def _is_callable(hint: Any) -> bool:
    text = hint if isinstance(hint, str) else ""
    return "Callable" in text or get_origin(hint) is Callable or hint is Callable


def _annotated_shape(kinds: tuple) -> tuple[int | str, ...] | None:
    """Of an annotation such as Float[Array, "n 3"], where every axis is a number or a name."""
    texts = [k.dim_str for k in kinds if isinstance(k, type) and issubclass(k, AbstractArray)]
    if len(texts) != 1 or not re.fullmatch(r"\s*((\d+|[A-Za-z]\w*)\s*)*", texts[0]):
        return None
    return tuple(int(axis) if axis.isdigit() else axis for axis in texts[0].split())
