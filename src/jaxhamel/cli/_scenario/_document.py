"""Generates the tables of docs/scenarios.md from the schema: `python -m jaxhamel.cli._scenario._document`."""

from collections.abc import Iterator, Mapping
from typing import Any

from jaxhamel.cli._scenario._schema import scenario_schema
from jaxhamel.cli._scenario._system_description import named_descriptions
from jaxhamel.cli._scenario._system_schema import Q_AND_U, initial_keys
from jaxhamel.cli._scenario._validate import OpenTable, SchemaNode, Table, Tables, Variants, keys_of
from jaxhamel.cli._scenario._values import OMITTED, REQUIRED, Key


def scenario_keys() -> str:
    """A Markdown table of every key: its accepted values, unit, default and meaning."""
    schema = scenario_schema(None).entries
    texts = [_key_table("Top level", {k: v for k, v in schema.items() if isinstance(v, Key)})]
    for name, node in schema.items():
        if name == "initial":
            texts += [
                _key_table(f"[initial] of {kind}", initial_keys(about))
                for kind, about in named_descriptions().items()
            ]
            texts.append(_key_table("[initial] of any system", Q_AND_U))
        elif not isinstance(node, Key):
            texts += list(_sections(name, node))
    return "\n".join(texts)


def _sections(name: str, node: SchemaNode) -> Iterator[str]:
    match node:
        case Table(entries=entries):
            yield _key_table(f"[{name}]", entries)
        case Variants():
            yield from _variants(f"[{name}]", node)
        case Tables(entry=Variants() as entry):
            yield from _variants(f"[[{name}]]", entry)
    for key, inner in _arrays_of_tables(node).items():
        yield from _sections(f"{name}.{key}", inner)


def _variants(heading: str, node: Variants) -> Iterator[str]:
    """For each family of variants, a table of the keys that all of them share, then one table for each variant."""
    for family in dict.fromkeys(table.family for table in node.tables.values()):
        tables = {name: table for name, table in node.tables.items() if table.family == family}
        yield from _family(heading, node, tables)


def _family(heading: str, node: Variants, tables: Mapping[str, Table]) -> Iterator[str]:
    first, *others = [table.entries for table in tables.values()]
    shared = {k: v for k, v in first.items() if all(t.get(k) is v for t in others)}
    if shared:
        yield _key_table(f"{heading}, whatever its `{node.by}`", shared)
    for variant, table in tables.items():
        own = {key: value for key, value in table.entries.items() if key not in shared}
        yield _key_table(f'{heading} with {node.by} = "{variant}"{_default(node, variant)}', own)


def _arrays_of_tables(node: SchemaNode) -> dict[str, Tables]:
    """The entries of a table that are arrays of tables."""
    if isinstance(node, Tables | OpenTable):
        return {}
    return {key: value for key, value in keys_of(node).items() if isinstance(value, Tables)}


def _default(node: Variants, variant: str) -> str:
    return " (the default)" if node.default == variant else ""


def _key_table(heading: str, entries: Mapping[str, Any]) -> str:
    rows = [_table_row(name, entry) for name, entry in entries.items() if isinstance(entry, Key)]
    lines = ["| key | accepts | unit | default | meaning |", "|---|---|---|---|---|", *rows]
    return f"### {heading}\n\n" + "\n".join(lines) + "\n"


def _table_row(name: str, key: Key) -> str:
    default = "required" if key.default is REQUIRED else _default_text(key.default)
    return f"| `{name}` | {key.accepts.words} | {key.unit} | {default} | {key.about} |"


def _default_text(value: Any) -> str:
    if value is None or value is OMITTED:
        return "none" if value is None else "the system's own"
    return "empty" if value in ("", []) else f"`{value}`"


if __name__ == "__main__":
    print(scenario_keys())
