"""Finds scenarios by name or file, changes them by `--set`, and checks them against the schema."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jaxhamel._words import UNSEEN
from jaxhamel.cli._scenario import _identify_schema, _schema
from jaxhamel.cli._scenario._plan_schema import BUILT_IN, plan_of, prepared_for_plan
from jaxhamel.cli._scenario._reading import file_text, is_file, parsed
from jaxhamel.cli._scenario._system_description import class_of
from jaxhamel.cli._scenario._validate import (
    ScenarioError,
    Table,
    Variants,
    brief,
    check_known,
    check_set,
    nearest,
    read,
)

if TYPE_CHECKING:
    from jaxhamel.mechanics import System


@dataclass(frozen=True)
class Scenario:
    """A checked scenario.

    - `name`: the built-in name or the file's name; `tables`: its tables with all defaults filled in.
    - `given`: the class named by `--system`, or that of a built-in problem with a system of its own; else None.
    - `folder`: the folder of the scenario's file, to which names of files in it are relative; None for a built-in one.
    """

    name: str
    tables: Mapping[str, Any]
    given: "type[System] | None" = None
    folder: Path | None = None

    def __getitem__(self, table: str) -> Any:
        return self.tables[table]

    @property
    def kind(self) -> str:
        """The kind of system, for instance `rolling-ball`."""
        return self.tables["system"]["kind"]

    @property
    def system_class(self) -> "type[System]":
        """The class of the scenario's system."""
        cls = class_of(self.kind, self.given)
        assert cls is not None  # the schema refuses unknown kinds
        return cls

    @property
    def title(self) -> str:
        """The heading of the report."""
        return self.tables["title"] or self.name


Check = Callable[[Mapping[str, Any]], None]


def load(
    source: str,
    changes: Iterable[str] = (),
    given: "type[System] | None" = None,
    check: Check = lambda tables: None,
) -> Scenario:
    """Loads and checks the scenario with a built-in name or in a TOML file, with `key=value` changes applied.

    **Arguments:** `source`: the name or the file; `given`: the class that `--system` names, if any; `check`: a further
    check of all tables, called before JAX is imported; the tables of the system are not checked yet then.

    **Raises:** `ScenarioError` of one line if the scenario does not exist or is wrong.
    """
    name, data, added = _changed(source, changes, "simulate", given)
    if "measurements" in data:
        raise ScenarioError(
            "`measurements` belong to a scenario for `jaxhamel identify`; this command takes another kind of scenario, "
            "see `jaxhamel scenarios`."
        )
    data = prepared_for_plan(_without_defaults(data, given))
    _check_others(_schema.OUTLINE, data, check)
    schema = _schema.scenario_schema(_kind_of(data), given)
    return _read(schema, name, data, added, given, _folder_of(source))


def _folder_of(source: str) -> Path | None:
    return None if source in built_in() else Path(source).parent


def _read(
    schema: Table,
    name: str,
    data: dict[str, Any],
    added: list[list[str]],
    given: Any,
    folder: Path | None,
) -> Scenario:
    """The scenario of the data, after checks of them and of the keys that --set has `added`."""
    tables = read(schema, data)
    for keys in added:
        check_set(schema, data, keys)
    return Scenario(name, tables, given, folder)


def _without_defaults(data: dict[str, Any], given: "type[System] | None") -> dict[str, Any]:
    """The data without tables that have only default values; files that jaxhamel wrote have all tables."""
    return {name: x for name, x in data.items() if x != _defaults_of(name, data, given)}


def _defaults_of(name: str, data: dict[str, Any], given: "type[System] | None") -> Any:
    """The table `name` with the defaults of all its keys; None if it has a key without default."""
    schema: Any = _schema.OUTLINE.entries.get(name)
    plan = plan_of(data)
    if plan is not None and name == "time" and "duration" in data["task"]:
        return read(schema, {"end": data["task"]["duration"]})
    if plan is not None and name == "initial":
        schema = _schema.initial_schema(_kind_of(data), given)
    optional = isinstance(schema, Table | Variants) and not schema.required
    return read(schema, {}) if optional and getattr(schema, "default", "") is not None else None


def load_identification(
    source: str,
    changes: Iterable[str] = (),
    given: "type[System] | None" = None,
    check: Check = lambda tables: None,
) -> Scenario:
    """Loads and checks a scenario for `jaxhamel identify`, which has other tables; arguments and errors as for `load`."""
    name, data, added = _changed(source, changes, "identify", given)
    if "time" in data and "measurements" not in data:
        raise ScenarioError(
            "it is a scenario for `jaxhamel simulate`; this command takes one with [[measurements]], see "
            "`jaxhamel scenarios`."
        )
    _check_others(_identify_schema.OUTLINE, data, check)
    schema = _identify_schema.identify_schema(_kind_of(data), given)
    return _read(schema, name, data, added, given, _folder_of(source))


def _check_others(outline: Table, data: dict[str, Any], check: Check) -> None:
    """Checks all tables that do not depend on the class of the system, and calls `check`. JAX is not imported."""
    check_known(outline, data)
    others = {name: entry for name, entry in outline.entries.items() if entry is not _schema.ANY}
    known = read(Table(others), {name: data[name] for name in others if name in data})
    check({**data, **known})


def _changed(
    source: str, changes: Iterable[str], command: str, given: "type[System] | None"
) -> tuple[str, dict[str, Any], list[list[str]]]:
    """Reads a scenario and applies the changes of `--set`.

    **Arguments:** `given`: the class of `--system`, with which the table [system] may be missing.

    **Returns:** the name of the scenario, its data, and each key that the changes have added, as the list of its parts.
    """
    name, content = _found(source, command)
    data = parsed(tomllib.loads, content, "TOML")
    if given is not None:
        data.setdefault("system", {})
    added = [keys for change in changes if (keys := _apply(data, change))]
    return name, data, added


# The further command that accepts a scenario with this table.
COMMANDS = {"task": "control", "montecarlo": "montecarlo"}


@dataclass(frozen=True)
class About:
    """The title of a built-in scenario, and the commands that accept it."""

    description: str
    commands: tuple[str, ...]


@cache
def built_in() -> Mapping[str, About]:
    """The built-in scenarios by name; their files are read once in a process."""
    folder = files("jaxhamel.cli") / "scenarios"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    found = {
        name.removesuffix(".toml"): _about((folder / name).read_text("utf-8")) for name in names
    }
    return MappingProxyType(found)


def _about(content: str) -> About:
    data = tomllib.loads(content)
    if "measurements" in data:
        return About(data["description"], ("identify",))
    if plan_of(data) in BUILT_IN:
        return About(data["description"], ("control",))
    commands = ("simulate", *(name for table, name in COMMANDS.items() if table in data))
    return About(data["description"], commands)


def _found(source: str, command: str) -> tuple[str, str]:
    path = Path(source)
    if path.suffix == ".toml" or is_file(path):
        return path.stem, file_text(path)
    if source in (names := built_in()):
        return source, (files("jaxhamel.cli") / "scenarios" / f"{source}.toml").read_text("utf-8")
    fit = [name for name, about in names.items() if command in about.commands]
    raise ScenarioError(
        f"there is no such scenario.{nearest(source, names)} Give a TOML file or one of {', '.join(fit)}."
    )


def fitted_file(source: str) -> str:
    """The path of the fitted.toml that `identify` wrote; `source` is this file or its folder.

    **Raises:** `ScenarioError` if there is no such file.
    """
    for path in (Path(source) / "fitted.toml", Path(source)):
        if is_file(path):
            return str(path)
    raise ScenarioError(
        "there is no fitted.toml; give the folder to which `jaxhamel identify` wrote, or this file."
    )


def _kind_of(data: Mapping[str, Any]) -> object:
    system = data.get("system")
    return system.get("kind") if isinstance(system, Mapping) else None


def _apply(data: dict[str, Any], change: str) -> list[str]:
    """Applies one `--set`, such as `system.rails.0.radius=0.06`, to the data; missing tables are created.

    **Returns:** the parts of the key if the data did not have it, otherwise an empty list.
    """
    key, equals, value = change.partition("=")
    parts, change = key.strip().split("."), brief(change, 100, quoted=False)
    if not equals or not all(parts) or UNSEEN.search(key):
        raise ScenarioError(
            f"--set {change}: it must be key=value with a dotted key, such as --set time.end=5."
        )
    value = _parsed_value(value, change)
    place: Any = data
    for part in parts[:-1]:
        place = _stepped(place, part, change)
    if isinstance(place, list):
        place[_index(place, parts[-1], change)] = value
        return []
    is_new = parts[-1] not in place
    place[parts[-1]] = value
    return parts if is_new else []


def _stepped(place: Any, part: str, change: str) -> Any:
    inner = (
        place[_index(place, part, change)]
        if isinstance(place, list)
        else place.setdefault(part, {})
    )
    if not isinstance(inner, dict | list):
        raise ScenarioError(f"--set {change}: `{part}` is a value, not a table; it has no keys.")
    return inner


def _index(place: list[Any], part: str, change: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", part) or int(part) >= len(place):
        raise ScenarioError(
            f"--set {change}: `{brief(part, quoted=False)}` must be the number of an entry, 0 to {len(place) - 1}."
        )
    return int(part)


def _parsed_value(text: str, change: str) -> Any:
    """Parses a value as TOML; an unquoted word is taken as a string."""

    def parse(text: str) -> Any:
        try:
            return tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError:
            return {"value": text.strip()}

    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ScenarioError(f"--set {change}: it is not UTF-8 text.")
    found = parsed(parse, text, "TOML")
    if len(found) > 1:
        raise ScenarioError(
            f"--set {change}: it has more than one line with a key. Give each one its own --set."
        )
    return found["value"]
