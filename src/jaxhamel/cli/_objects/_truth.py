"""The table `[truth]`: the values of `[system]` behind synthetic data, where they differ."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError


def given_truth(scenario: Scenario) -> dict[str, Any]:
    """The keys of `[truth]` that the scenario gives."""
    return _given(scenario["truth"] or {})


def with_truth(scenario: Scenario) -> Scenario:
    """The scenario with the values of `[truth]` in `[system]`."""
    truth = given_truth(scenario)
    system = scenario["system"]
    system = {**system, **{k: _merged(system.get(k), x, k) for k, x in truth.items()}}
    return replace(scenario, tables={**scenario.tables, "system": system})


def _given(value: Any) -> Any:
    """The value; of tables, at any depth, without the keys that were left out."""
    if isinstance(value, Mapping):
        given = {k: _given(x) for k, x in value.items()}
        return {k: x for k, x in given.items() if x is not None and x not in ({}, [])}
    return [_given(x) for x in value] if isinstance(value, list) else value


def _merged(table: Any, changes: Any, path: str) -> Any:
    """The table with the changes, which may have only some keys of a table, or of the tables of an array, inside it."""
    if isinstance(changes, Mapping):
        table = table or {}
        within = {k: _merged(table.get(k), x, f"{path}.{k}") for k, x in changes.items()}
        return {**table, **within}
    if isinstance(changes, list) and any(isinstance(x, Mapping) for x in changes):
        if len(changes) != len(table or ()):
            raise ScenarioError(
                f"`truth.{path}` has {len(changes)} tables; it must have {len(table or ())}, one for "
                f"each [[system.{path}]], with the keys that differ."
            )
        return [
            _merged(x, y, f"{path}.{i}")
            for i, (x, y) in enumerate(zip(table, changes, strict=True))
        ]
    return changes
