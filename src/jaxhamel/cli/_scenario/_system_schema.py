"""The keys of a system, its rails and its initial state, generated from the description in the system's class."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from jaxhamel.cli._scenario._validate import Table, Tables, Variants
from jaxhamel.cli._scenario._values import (
    OMITTED,
    POSITIVE,
    REQUIRED,
    Accepts,
    Key,
    array,
    boolean,
    choice,
    integer,
    number,
    numbers,
    text,
)
from jaxhamel.cli._start import import_jax

if (
    TYPE_CHECKING
):  # imported only where needed, so that a wrong key is reported without waiting for JAX
    from jaxhamel.mechanics import Parameter, Part, System


IN_PLANE = {
    "normal": Key(numbers(3), "unit normal of the rail's plane, body frame"),
    "zero": Key(numbers(3), "unit direction of θ = 0 from the centre, perpendicular to `normal`"),
    "centre": Key(
        numbers(3),
        "centre of the rail, from the geometric centre of the body",
        [0.0, 0.0, 0.0],
        "m",
    ),
}
RAILS = Tables(
    Variants(
        by="kind",
        about="shape of the rail",
        tables={
            "circular": Table({"radius": Key(POSITIVE, "radius", unit="m"), **IN_PLANE}),
            "elliptic": Table(
                {
                    "semi_axes": Key(
                        numbers(2), "semi-axes along `zero` and perpendicular to it", unit="m"
                    ),
                    **IN_PLANE,
                }
            ),
            "figure-eight": Table(
                {
                    "size": Key(
                        POSITIVE, "distance from the crossing to the end of a loop", unit="m"
                    ),
                    **IN_PLANE,
                }
            ),
            "straight": Table(
                {
                    "origin": Key(numbers(3), "position at θ = 0, body frame", unit="m"),
                    "direction": Key(numbers(3), "unit direction of growing θ, body frame"),
                }
            ),
        },
    ),
    about="one table for each mass: the curve, fixed in the body, on which it moves",
)


@cache
def named_systems() -> "dict[str, type[System]]":
    """Every system of `jaxhamel.systems` by its kind; the rolling ball comes first."""
    import_jax()
    from jaxhamel import systems
    from jaxhamel.mechanics import System
    from jaxhamel.mechanics._description._declarations import kind_of

    public = (getattr(systems, name) for name in dir(systems))
    found = {kind_of(c): c for c in public if isinstance(c, type) and issubclass(c, System)}
    return dict(sorted(found.items(), key=lambda entry: (entry[0] != "rolling-ball", entry[0])))


def class_of(kind: object, given: "type[System] | None" = None) -> "type[System] | None":
    """The class of a kind of system, or the given class; None for an unknown kind."""
    return given or (named_systems().get(kind) if isinstance(kind, str) else None)


def system_schema(given: "type[System] | None" = None) -> Variants:
    """The table `[system]` for every named system, or for the class of `--system`, with which `kind` may be omitted."""
    from jaxhamel.mechanics import parameters_of
    from jaxhamel.mechanics._description._declarations import kind_of

    classes = named_systems() if given is None else {kind_of(given): given}
    tables = {kind: Table(_keys(parameters_of(cls))) for kind, cls in classes.items()}
    default = None if given is None else kind_of(given)
    return Variants(by="kind", about="the system", required=True, tables=tables, default=default)


def _keys(parameters: "tuple[Parameter, ...]") -> dict[str, Any]:
    return {p.name: _entry(p) for p in parameters}


def _entry(p: "Parameter") -> Key | Table | Tables:
    if p.kind == "rails":
        return RAILS
    if p.kind == "module":
        return Table(_keys(p.parts), p.notes.about, required=p.required)
    return Key(_accepts(p), p.notes.about or f"the field {p.name}", _default(p), p.notes.unit)


def _accepts(p: "Parameter") -> Accepts:
    match p.kind:
        case "text":
            return choice(*p.notes.choices) if p.notes.choices else text()
        case "integer":
            return integer()
        case "flag":
            return boolean()
    return array(p.notes.shapes, positive=p.notes.positive, least=p.notes.least)


def _default(p: "Parameter") -> Any:
    if p.required:
        return REQUIRED
    return as_written(p.notes.none_as if p.default is None else p.default)


def as_written(value: Any) -> Any:
    """A value of a class in the form of a scenario, where arrays and tuples are lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [as_written(entry) for entry in value] if isinstance(value, list | tuple) else value


# --- the initial state ----------------------------------------------------------------------------

Q_AND_U = {
    "q": Key(
        array(None),
        "instead of the keys above: the configuration as a list, for a product space one list for each factor",
        OMITTED,
    ),
    "u": Key(
        numbers(),
        "instead of the keys above: the independent quasi-velocities",
        OMITTED,
    ),
}


def initial_schema(cls: "type[System] | None") -> Table:
    """The table `[initial]` of a class: the parts of the state that the class names, and `q` and `u`, which always exist."""
    if cls is not None:
        return Table({**initial_keys(cls), **Q_AND_U})
    anything: Mapping[str, Key] = {}
    for named in named_systems().values():
        anything = {**anything, **initial_keys(named)}
    return Table({**anything, **Q_AND_U})


def initial_keys(cls: "type[System]") -> dict[str, Key]:
    """The keys for the parts of the state that a class names."""
    if cls.state_names is None:
        return {}
    from jaxhamel.mechanics import System

    own_start = cls.initial_state is not System.initial_state
    return {
        part.key: _initial_key(part, own_start) for part in (*cls.state_names.q, *cls.state_names.u)
    }


def _initial_key(part: "Part", own_start: bool) -> Key:
    accepts = number() if part.size == 1 else numbers(*([part.size] if part.size else []))
    return Key(accepts, part.about, _rest(part, own_start), part.unit)


def _rest(part: "Part", own_start: bool) -> Any:
    """The default of a part of the state: none if the class has its own initial state, otherwise the identity or zero."""
    if own_start or part.size is None:
        return OMITTED
    zero = [0.0] * part.size
    return [1.0, *zero[1:]] if part.columns[:1] == ("qw",) else zero if part.size > 1 else 0.0
