"""The keys of a system, its rails and its initial state, generated from the description in the system's class."""

from functools import partial
from typing import TYPE_CHECKING, Any

from jaxhamel.cli._scenario._system_description import (
    Description,
    WhenRead,
    description_of,
    kind_of,
    named_descriptions,
)
from jaxhamel.cli._scenario._validate import OpenTable, Table, Tables, Variants
from jaxhamel.cli._scenario._values import (
    OMITTED,
    POSITIVE,
    REQUIRED,
    Accepts,
    Key,
    array,
    boolean,
    choice,
    either,
    integer,
    number,
    numbers,
    text,
)

if TYPE_CHECKING:
    from jaxhamel.mechanics import System


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


def system_schema(given: "type[System] | None" = None) -> Variants:
    """The schema of `[system]` for all named systems, or for the class of `--system`, whose `kind` may be omitted."""
    default = None if given is None else kind_of(given)
    found = named_descriptions() if given is None else {kind_of(given): description_of(given)}
    tables = {kind: Table(_entries_of_parameters(about["system"])) for kind, about in found.items()}
    return Variants(by="kind", about="the system", required=True, tables=tables, default=default)


def _entries_of_parameters(parameters: Description) -> dict[str, Any]:
    return {name: _entry(name, about) for name, about in parameters.items()}


ANY_VALUE = Key(either(array(None), either(boolean(), text())), "an entry of a table")


def _entry(name: str, p: Description) -> Key | Table | Tables | OpenTable:
    if p["kind"] == "rails":
        return RAILS
    about = p["about"] or f"the field {name}"
    if p["kind"] in ("module", "modules", "table"):
        return _of_parts(p, about)
    default = REQUIRED if p["required"] else p["default"]
    return Key(_accepts(p), about, default, p["unit"])


def _of_parts(p: Description, about: str) -> Table | Tables | OpenTable:
    """The schema of an object with parameters, of several ones, or of a dictionary with any keys."""
    entries, is_list = WhenRead(partial(_entries_of_parameters, p["parts"])), p["kind"] == "modules"
    absent = p["absent"] and not is_list
    table = Table(entries, about, required=p["required"], stays_absent=absent)
    if p["kind"] == "module":
        return table
    if is_list:
        return Tables(table, about, required=p["required"])
    return OpenTable(table if p["parts"] else ANY_VALUE, about, required=p["required"])


def _accepts(p: Description) -> Accepts:
    match p["kind"]:
        case "text":
            return choice(*p["choices"]) if p["choices"] else text()
        case "integer":
            return integer()
        case "flag":
            return boolean()
    return array(p["shapes"], positive=p["positive"], least=p["least"])


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


def initial_schema(kind: object, given: "type[System] | None" = None) -> Table:
    """The schema of `[initial]`: `q` and `u`, which every system has, and the parts of the state that the class declares.

    The class is `given` or that of the kind; for an unknown kind the parts of all named systems are allowed.
    """
    named = named_descriptions()
    if given is not None:
        found = [description_of(given)]
    else:
        found = [named[kind]] if isinstance(kind, str) and kind in named else named.values()
    keys = {name: key for about in found for name, key in initial_keys(about).items()}
    return Table({**keys, **Q_AND_U})


def initial_keys(description: Description) -> dict[str, Key]:
    """The keys for the parts of the state, from the description of a class."""
    return {
        name: Key(
            _numbers_of_size(part["size"]),
            part["about"],
            part.get("default", OMITTED),
            part["unit"],
        )
        for name, part in description["initial"].items()
    }


def _numbers_of_size(size: int | None) -> Accepts:
    return number() if size == 1 else numbers(*([size] if size else []))
