"""Checks a scenario against its schema: first for unknown keys, then for wrong values, then for missing keys.

An unknown kind of a table is reported before unknown keys of that table.

All messages about the form of a scenario are made here. Messages about physical parameters come from `jaxhamel._checks`;
`named` in `_objects/_system.py` adds the full name of the key to them.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from jaxhamel._words import visible
from jaxhamel.cli._scenario._values import OMITTED, REQUIRED, Key, NotAccepted, choice


class ScenarioError(ValueError):
    """The scenario cannot be used; the message is one line that names the key."""

    def __init__(self, message: str):
        super().__init__(visible(message))


@dataclass(frozen=True)
class Table:
    """The schema of a table: its keys and sub-tables.

    - `required`: whether a scenario without the table is refused.
    - `stays_absent`: whether the value of an absent table is None, not a table with the defaults of all keys.
    - `family`: the name of a family of variants, for which docs/scenarios.md has one table of the keys that they share.
    """

    entries: Mapping[str, "Entry"]
    about: str = ""
    required: bool = False
    stays_absent: bool = False
    family: str = ""


@dataclass(frozen=True)
class Variants:
    """The schema of a table whose keys depend on the value of its key `by`; `default`: that value if the key is absent."""

    by: str
    tables: Mapping[str, Table]
    about: str = ""
    required: bool = False
    default: str | None = None

    def chosen(self, data: Mapping[str, Any]) -> Table | None:
        """The variant that `data` selects, or None if it selects an unknown one."""
        name = data.get(self.by, self.default)
        return self.tables.get(name) if isinstance(name, str) else None

    def key(self) -> Key:
        """The key that selects the variant."""
        return Key(choice(*self.tables), self.about, self.default or REQUIRED)


@dataclass(frozen=True)
class Tables:
    """The schema of an array of tables, `[[name]]`; `entry` is the schema of each."""

    entry: "Table | Variants | OpenTable"
    about: str = ""
    required: bool = False


@dataclass(frozen=True)
class OpenTable:
    """The schema of a table with any keys. `entry` is the schema of their values; if it is a `Key`, values may also be
    further such tables, or arrays of them. `keys_checked`: whether a class refuses keys that it does not know.
    """

    entry: "Entry"
    about: str = ""
    required: bool = False
    keys_checked: bool = False

    def entries(self, data: Mapping[str, Any]) -> dict[str, "Entry"]:
        """The schema of each value in the data."""
        return {name: self._of(value) for name, value in data.items()}

    def _of(self, value: Any) -> "Entry":
        if isinstance(self.entry, Key) and isinstance(value, Mapping):
            return self
        is_list = isinstance(self.entry, Key) and isinstance(value, list)
        return (
            Tables(self) if is_list and any(isinstance(x, Mapping) for x in value) else self.entry
        )


OWN_CLASS = " A class of your own is given by --system FILE.py:Class."
SchemaNode = Table | Variants | Tables | OpenTable
Entry = Key | SchemaNode


def read(node: SchemaNode, data: Any, path: str = "") -> Any:
    """Checks and converts all values of the data, and adds the defaults of absent keys.

    **Raises:** `ScenarioError` for the first error: an unknown kind or key anywhere, else a value that is not accepted, else
    a missing key.
    """
    found = chain(_unknown(node, data, path), _wrong(node, data, path), _missing(node, data, path))
    if (first := next(found, None)) is not None:
        raise ScenarioError(first)
    return _with_defaults(node, data)


def check_known(node: Table, data: Any) -> None:
    """Checks the names of all keys, and the kinds that select variants; other values are not checked.

    **Raises:** `ScenarioError` for the first unknown key or kind.
    """
    if (first := next(_unknown(node, data, ""), None)) is not None:
        raise ScenarioError(first)


def keys_of(node: Table | Variants) -> dict[str, Any]:
    """Every key that a table may have; for variants, the keys of all of them and the selecting key."""
    if isinstance(node, Table):
        return dict(node.entries)
    merged = {
        name: entry for table in node.tables.values() for name, entry in table.entries.items()
    }
    return {node.by: node.key(), **merged}


def nearest(name: str, names: Any) -> str:
    """The text " Did you mean …?" if one of the names is similar, otherwise an empty text."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f" Did you mean `{close[0]}`?" if close else ""


def check_set(node: SchemaNode, data: Any, keys: list[str]) -> None:
    """Checks a key that --set has added to a table of the data: a table with any keys gets its values from the file alone,
    since a misspelled key would have no effect there. Further tables may be added.

    **Raises:** `ScenarioError` if the table may have any keys, which no class checks, and had others before.
    """
    place: Any = node
    for key in keys[:-1]:
        place = place.entry if isinstance(place, Tables) else _known(place, data).get(key)
        data = data[int(key)] if isinstance(data, list) else data.get(key)
        if not isinstance(place, Table | Variants | Tables | OpenTable):
            return
    others = [name for name in data if name != keys[-1]] if isinstance(data, Mapping) else []
    is_free = isinstance(place, OpenTable) and not place.keys_checked
    if is_free and others and not isinstance(data[keys[-1]], Mapping):
        raise ScenarioError(
            f"`{'.'.join(keys)}` is not a key of the table in the file, which has {', '.join(others)}."
            f"{nearest(keys[-1], others)} A new key belongs in the file: --set only changes the keys of such a table."
        )


def _known(node: Table | Variants | OpenTable, data: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(node, OpenTable):
        return node.entries(data)
    if isinstance(node, Variants) and (table := node.chosen(data)) is not None:
        return {node.by: node.key(), **table.entries}
    return keys_of(node)


def _unknown(node: SchemaNode, data: Any, path: str) -> Iterator[str]:
    if isinstance(node, Tables):
        for i, entry in enumerate(data if isinstance(data, list) else []):
            yield from _unknown(node.entry, entry, f"{path}.{i}")
        return
    if not isinstance(data, Mapping):
        return
    if isinstance(node, Variants) and node.by in data and node.chosen(data) is None:
        here = f"{path}.{node.by}" if path else node.by  # decides which keys are known
        yield from _wrong_entry(node.key(), data[node.by], here)
    known = _known(node, data)
    for name, value in data.items():
        here = f"{path}.{name}" if path else name
        if name not in known:
            yield _unknown_message(here, name, value, known, node, data, path)
        elif not isinstance(known[name], Key):
            yield from _unknown(known[name], value, here)


def _unknown_message(here, name, value, known, node, data, path) -> str:
    chosen = isinstance(node, Variants) and node.by in data and node.chosen(data)
    kind = f' of a "{data[node.by]}"' if chosen else ""
    where = f"`{path}`{kind}" if path else "a scenario"
    here = brief(here, 120, quoted=False)
    if isinstance(node, Variants) and node.default is None and node.by not in data:
        kinds = f"`{path}.{node.by}` is missing; it decides which keys the table has"
        own = OWN_CLASS if path == "system" else ""
        return f"`{here}` is not a key of {where} of any kind (it is {brief(value)}); and {kinds}.{own}"
    return (
        f"`{here}` is not a key of {where} (it is {brief(value)})."
        f"{nearest(name, known)} Accepted keys: {', '.join(known)}."
    )


def _wrong(node: SchemaNode, data: Any, path: str) -> Iterator[str]:
    if isinstance(node, Tables):
        if not isinstance(data, list) or not all(isinstance(entry, Mapping) for entry in data):
            yield f"`{path}` is {brief(data)}; it must be an array of tables, [[{path}]]."
            return
        for i, entry in enumerate(data):
            yield from _wrong(node.entry, entry, f"{path}.{i}")
        return
    if not isinstance(data, Mapping):
        yield f"`{path}` is {brief(data)}; it must be a table, [{path}]."
        return
    for name, entry in _known(node, data).items():
        if name in data:
            here = f"{path}.{name}" if path else name
            yield from _wrong_entry(entry, data[name], here)


def _wrong_entry(entry: Key | SchemaNode, value: Any, here: str) -> Iterator[str]:
    if not isinstance(entry, Key):
        yield from _wrong(entry, value, here)
        return
    try:
        entry.accepts.read(value)
    except NotAccepted as limit:
        unit = f" ({entry.unit})" if entry.unit else ""
        words = f"{entry.accepts.words}{limit}{unit}"
        own = OWN_CLASS if here == "system.kind" else ""
        yield f"`{here}` is {brief(value)}; it must be {words}: {entry.about}.{own}"


def _missing(node: SchemaNode, data: Any, path: str) -> Iterator[str]:
    if isinstance(node, Tables):
        for i, entry in enumerate(data):
            yield from _missing(node.entry, entry, f"{path}.{i}")
        return
    for name, entry in _known(node, data).items():
        here = f"{path}.{name}" if path else name
        if isinstance(entry, Key):
            if name not in data and entry.default is REQUIRED:
                yield _missing_message(here, entry)
        elif name in data:
            yield from _missing(entry, data[name], here)
        elif entry.required:
            table = f"[[{here}]]" if isinstance(entry, Tables) else f"[{here}]"
            yield f"`{here}` is missing; a scenario needs a table {table}: {entry.about}."


def _missing_message(here: str, entry: Key) -> str:
    accepted = f"{entry.accepts.words}{_unit(entry)}"
    return f"`{here}` is missing; it must be {accepted}: {entry.about}."


def _unit(entry: Key) -> str:
    return f" ({entry.unit})" if entry.unit else ""


def _with_defaults(node: SchemaNode, data: Any) -> Any:
    if isinstance(node, Tables):
        return [_with_defaults(node.entry, entry) for entry in data]
    result = {}
    for name, entry in _known(node, data).items():
        if isinstance(entry, Key):
            if name in data:
                result[name] = entry.accepts.read(data[name])
            elif entry.default is not OMITTED:
                result[name] = entry.default
        elif name in data:
            result[name] = _with_defaults(entry, data[name])
        elif isinstance(entry, Tables):
            result[name] = []
        else:
            result[name] = _with_defaults(entry, {}) if _all_default(entry) else None
    return result


def _all_default(node: Table | Variants | OpenTable) -> bool:
    """Whether an absent table is read as a table of the defaults of its keys.

    Each key needs a default. A table marked `stays_absent` switches on a part of the scenario, and is never filled in.
    """
    if isinstance(node, OpenTable):
        return False
    if isinstance(node, Variants):
        return node.default is not None and _all_default(node.tables[node.default])
    return not node.stays_absent and all(
        entry.default is not REQUIRED if isinstance(entry, Key) else not entry.required
        for entry in node.entries.values()
    )


def brief(value: Any, longest: int = 60, *, quoted: bool = True) -> str:
    """A value of a scenario as text for messages, shortened if it is long; strings are quoted unless `quoted` is False."""
    if isinstance(value, Mapping):
        return "a table"
    try:
        shown = repr(value) if quoted else str(value)
    except (ValueError, RecursionError):  # too many digits, or lists nested too deeply
        return "a value too long to be written"
    if quoted:
        shown = shown.replace("True", "true").replace("False", "false").replace("'", '"')
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."
