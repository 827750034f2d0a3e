"""The parameters of a system's class, from the types and notes of its fields."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

import equinox as eqx
import jax
from jaxtyping import AbstractArray

from jaxhamel.mechanics._description._parameters import NOTES, FieldNotes

REQUIRED = object()  # marks a parameter without a default


@dataclass(frozen=True)
class Parameter:
    """A parameter, which is a field of a system's class.

    - `name`, `notes`: its name, and the notes given to `parameter`.
    - `default`: the default of the field; `REQUIRED` if it has none.
    - `kind`: the type of its value: `numbers`, `rails` (a callable: curves on which masses move), `text`, `integer`, `flag`,
      `module`, an object with parameters of its own or a dictionary with known keys, `modules`, a list or tuple of such
      objects, or `table`, a dictionary with any keys, whose values are numbers or dictionaries, or such objects.
    - `parts`, `make`: the parameters and the class of such an object; `collect`: list or tuple, for several. The defaults
      of `parts` are the values in the field's default, if this is an object. They are looked up when they are read, since
      a class may have fields of its own type: a link with further links.
    """

    name: str
    notes: FieldNotes
    default: Any
    kind: str
    look_up: Callable[[], tuple["Parameter", ...]] = field(default=tuple, compare=False)
    make: Callable[..., Any] | None = None
    collect: Callable[..., Any] = list

    @cached_property
    def parts(self) -> tuple["Parameter", ...]:
        """The parameters of the object; empty for other kinds."""
        return self.look_up()

    @property
    def required(self) -> bool:
        """Whether the class has no default for the parameter."""
        return self.default is REQUIRED

    @property
    def example(self) -> Any:
        """A sensible value: the declared example; without one the default, which may be `REQUIRED`."""
        return self.default if self.notes.example is None else self.notes.example


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """The parameters of the constructor of a class of systems, or of any `equinox.Module`, dataclass, `NamedTuple` or
    `TypedDict`.
    """
    hints = _hints(cls)
    return tuple(_parameter(f, hints.get(f.name, f.hint)) for f in _fields(cls))


def examples_of(cls: type) -> dict[str, Any]:
    """The examples of all parameters that declare one, by the name of the parameter."""
    found = {p.name: p.example for p in parameters_of(cls) if p.notes.example is not None}
    return found


class _Field(NamedTuple):
    name: str
    hint: Any
    notes: FieldNotes = FieldNotes()
    default: Any = REQUIRED


def _fields(cls: Any) -> list[_Field]:
    """The fields of a class that its constructor takes."""
    if is_typeddict(cls):
        return [_Field(name, hint) for name, hint in _hints(cls).items()]
    if _is_named_tuple(cls):
        defaults = cls._field_defaults
        return [_Field(name, Any, default=defaults.get(name, REQUIRED)) for name in cls._fields]
    return [
        _Field(f.name, f.type, f.metadata.get(NOTES, FieldNotes()), _default(f))
        for f in fields(cls)
        if f.init
    ]


def _default(of: Any) -> Any:
    if of.default is not MISSING:
        return of.default
    return REQUIRED if of.default_factory is MISSING else of.default_factory()


def _parameter(described: _Field, hint: Any) -> Parameter:
    name, _, notes, default = described
    kinds = _members(hint)
    if notes.shapes is None and (shape := _annotated_shape(kinds)) is not None:
        notes = notes._replace(shapes=(shape,))
    if any(map(_is_array, kinds)):
        return Parameter(name, notes, default, _kind(kinds, notes))
    if (module := next(filter(_has_parameters, kinds), None)) is not None:
        make = type(default) if _has_parameters(type(default)) else module
        look_up = partial(_parts_with_values, make, default)
        return Parameter(name, notes, default, "module", look_up, make)
    if _is_table(default):
        return Parameter(name, notes, default, "module", partial(_entries, default), dict)
    for hint in kinds:
        origin, of = get_origin(hint) or hint, _entry_class(hint)
        parts = partial(parameters_of, of) if of else tuple
        if origin in (dict, Mapping):
            return Parameter(name, notes, default, "table", parts, of)
        if origin in (list, tuple, Sequence) and of:
            collect = tuple if origin is tuple else list
            return Parameter(name, notes, default, "modules", parts, of, collect)
    return Parameter(name, notes, default, _kind(kinds, notes))


def _parts_with_values(cls: type, default: Any) -> tuple[Parameter, ...]:
    """The parameters of a class, with the values in `default`, if it is an object of the class, as their defaults."""
    read = dict.get if isinstance(default, dict) else getattr
    if default is REQUIRED or default is None:
        return parameters_of(cls)
    hints = _hints(cls)
    found = [f._replace(default=read(default, f.name, f.default)) for f in _fields(cls)]
    return tuple(_parameter(f, hints.get(f.name, f.hint)) for f in found)


def _entries(table: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """The entries of a dictionary as parameters, whose defaults are the values."""
    return tuple(_parameter(_Field(name, None, default=x), _type(x)) for name, x in table.items())


def _type(value: Any) -> type | None:
    """The type of a value, as the hint of a field; None for a number, so that a whole one is no `integer`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number else type(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(key, str) for key in value)


def _has_parameters(hint: Any) -> bool:
    """Whether a type is a class with fields of its own."""
    if not isinstance(hint, type):
        return False
    return (
        issubclass(hint, eqx.Module)
        or is_dataclass(hint)
        or _is_named_tuple(hint)
        or is_typeddict(hint)
    )


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_field_defaults")


def _entry_class(hint: Any) -> type | None:
    """The class of the entries of a type of collections, if they are objects with parameters."""
    found = {x for x in get_args(hint) if _has_parameters(x)}
    return found.pop() if len(found) == 1 else None


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
