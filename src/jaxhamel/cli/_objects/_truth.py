"""The table `[truth]`: the values of `[system]` behind synthetic data, where they differ."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxhamel.cli._scenario._scenario import Scenario


def given_truth(scenario: Scenario) -> dict[str, Any]:
    """The keys of `[truth]` that the scenario gives."""
    return _given(scenario["truth"] or {})


def with_truth(scenario: Scenario) -> Scenario:
    """The scenario with the values of `[truth]` in `[system]`."""
    system = _merged(scenario["system"], given_truth(scenario))
    return replace(scenario, tables={**scenario.tables, "system": system})


def _given(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table without keys that were left out."""
    given = {k: _given(x) if isinstance(x, Mapping) else x for k, x in table.items()}
    return {k: x for k, x in given.items() if x is not None and x != {}}


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the changes, which may have only some keys of a table inside it."""
    within = {
        k: _merged(table.get(k) or {}, x) for k, x in changes.items() if isinstance(x, Mapping)
    }
    return {**table, **changes, **within}
