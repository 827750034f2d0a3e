"""Builds the stages of a scenario for `identify`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxhamel import identify
from jaxhamel.cli._objects._identification import LOSSES, build_parameters
from jaxhamel.cli._objects._priors import fit_priors
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._system_description import class_of, named_systems
from jaxhamel.cli._scenario._validate import ScenarioError, nearest
from jaxhamel.mechanics import System, parameters_of

Runs = Mapping[Path, Any]


def build_stages(
    scenario: Scenario,
    system: System,
    measurements: tuple[Any, ...],
    runs: Runs,
    folder: Path,
) -> dict[str, Callable[[Any], identify.Problem]]:
    """For each stage, by its name, the function from the system to its problem; optional stages without runs are left out.

    **Arguments:** `runs`: the runs by their files in `folder`. **Raises:** `ScenarioError` for a stage that lacks runs, and
    for stages that do not fit together.
    """
    tables = scenario["stages"]
    _check_stages(scenario, measurements)
    chosen = [_runs_of(table, measurements, runs, folder) for table in tables]
    _check_all_used(runs, chosen)
    stages = {}
    for place, (table, own) in enumerate(zip(tables, chosen, strict=True)):
        if own:
            make = _maker(scenario, place, measurements, list(own.values()))
            make(system)  # raises errors of the stage before anything is written
            stages[table["name"]] = make
        elif not table["optional"]:
            raise ScenarioError(_without_run(table, folder, len(runs)))
    return stages


def _maker(
    scenario: Scenario, place: int, measurements: tuple[Any, ...], runs: list[Any]
) -> Callable[[Any], identify.Problem]:
    """The function from a system, with the values of the earlier stages, to the problem of one stage."""
    table, fit = scenario["stages"][place], scenario["fit"]
    seen = [m for m in measurements if any(m.name in run.values for run in runs)]
    sought = [p for p in build_parameters(scenario) if p.path in table["parameters"]]

    def make(system: Any) -> identify.Problem:
        with named(f"stages.{place}"):
            return identify.Problem(
                _converted(system, table["system"], place),
                sought,
                seen,
                runs,
                segments=fit["segments"] or None,
                dt=fit["dt"] or None,
                loss=LOSSES[table.get("loss", fit["loss"])](),
                priors=fit_priors(scenario),
            )

    return make


def _converted(system: Any, kind: str, place: int) -> Any:
    """Makes a system of the class `kind` with the parameter values of `system`, which must have all of them."""
    if not kind:
        return system
    cls = class_of(kind)
    if cls is None:
        known = named_systems()
        raise ScenarioError(
            f"`stages.{place}.system` is {kind!r}, which is no kind of system.{nearest(kind, known)} It may be one of "
            f"{', '.join(known)}."
        )
    names = [p.name for p in parameters_of(cls)]
    missing = [name for name in names if not hasattr(system, name)]
    if missing:
        raise ScenarioError(
            f"`stages.{place}.system` is {kind!r}, which needs `{missing[0]}`; {type(system).__name__} has no such "
            "parameter. Give a kind with the parameters of [system]."
        )
    return cls(**{name: getattr(system, name) for name in names})


def _runs_of(table: Mapping[str, Any], measurements, runs: Runs, folder: Path) -> dict[Path, Any]:
    """The runs of a stage, chosen by its keys `columns`, `without` and `files`."""
    return {
        path: run
        for path, run in runs.items()
        if _has(run, measurements, table["columns"], all)
        and not _has(run, measurements, table["without"], any)
        and any(path.relative_to(folder).match(pattern) for pattern in table["files"])
    }


def _has(run: Any, measurements, columns: list[str], which: Callable[..., bool]) -> bool:
    there = {column for m in measurements if m.name in run.values for column in m.columns}
    return which(column in there for column in columns)


def _without_run(table: Mapping[str, Any], folder: Path, count: int) -> str:
    column = f"has a column `{table['columns'][0]}`" if table["columns"] else "belongs to it"
    return (
        f"--data {folder}: stage {table['name']!r} has no run: none of its {count} CSV files {column}; one is needed at "
        "least."
    )


def _check_all_used(runs: Runs, chosen: list[dict[Path, Any]]) -> None:
    used = {path for own in chosen for path in own}
    for path in runs:
        if path not in used:
            raise ScenarioError(
                f"{path}: the file belongs to no stage. Add a stage for it, or leave it out by `data.files`."
            )


def _check_stages(scenario: Scenario, measurements: tuple[Any, ...]) -> None:
    """Checks names, columns and parameters of the stages against each other and the rest of the scenario."""
    tables, names = scenario["stages"], [table["name"] for table in scenario["stages"]]
    if len(set(names)) < len(names):
        raise ScenarioError(
            f"`stages` have the names {', '.join(names)}; each must be another one."
        )
    if scenario["fit"]["starts"] > 1:
        raise ScenarioError(
            f"`fit.starts` is {scenario['fit']['starts']}; with [[stages]] it must be 1, as each stage starts from "
            "the values found before."
        )
    columns = [column for m in measurements for column in m.columns]
    paths = [p.path for p in build_parameters(scenario)]
    for place, table in enumerate(tables):
        for key in ("columns", "without"):
            _check_names(f"stages.{place}.{key}", table[key], columns, "column of the measurements")
        _check_names(
            f"stages.{place}.parameters", table["parameters"], paths, "path of [[parameters]]"
        )
    unused = set(paths) - {path for table in tables for path in table["parameters"]}
    if unused:
        raise ScenarioError(
            f"`parameters` has `{min(unused)}`, which no stage estimates; add it to `parameters` of one of [[stages]]."
        )


def _check_names(key: str, names: list[str], known: list[str], of: str) -> None:
    for name in names:
        if name not in known:
            raise ScenarioError(
                f"`{key}` has {name!r}, which is no {of}.{nearest(name, known)} It may be one of {', '.join(known)}."
            )
