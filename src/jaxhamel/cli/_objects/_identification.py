"""Builds the objects of a scenario for `identify`: measurements, parameters, runs and the problem."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import identify
from jaxhamel._compiled import compiled
from jaxhamel._files import real
from jaxhamel.cli._objects._priors import fit_priors, priors_found
from jaxhamel.cli._objects._system import build_system, check_constructed, named
from jaxhamel.cli._objects._truth import given_truth, with_truth
from jaxhamel.cli._results._outputs import write_columns
from jaxhamel.cli._scenario._reading import check_data_file
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError, brief, nearest
from jaxhamel.geometry import SO3
from jaxhamel.identify._data._units import SI_UNIT, TO_SI, unit_problem, with_declared_units
from jaxhamel.identify._fit_stages import leaves_of
from jaxhamel.identify._parameters._paths import leaf_of, leaf_paths, with_leaf
from jaxhamel.simulate import simulate

QUANTITIES: dict[str, Callable[..., Any]] = {
    "position": identify.Position,
    "orientation": identify.Orientation,
    "angular-rate": identify.AngularRate,
    "accelerometer": identify.Accelerometer,
    "coordinate": identify.Coordinate,
}
LOSSES = {
    "squares": identify.Squares,
    "huber": identify.Huber,
    "soft-l1": identify.SoftL1,
    "cauchy": identify.Cauchy,
}
ENTRIES = {
    "positive": identify.Positive,
    "free": identify.Free,
    "bounded": identify.Bounded,
    "rotational-inertia": identify.RotationalInertia,
}


def build_identified_system(scenario: Scenario) -> Any:
    """The system of `[system]`, with the fitted values of `[[fitted]]` if the scenario has them."""
    system = build_system(scenario)
    for entry in scenario["fitted"]:
        path, leaves = entry["path"], leaf_paths(system)
        leaf: Any = None
        with contextlib.suppress(AttributeError, LookupError, TypeError):
            leaf = leaf_of(system, path)
        if not eqx.is_inexact_array(leaf):
            raise ScenarioError(
                f"`fitted.path` is {path!r}, which is no parameter of this system.{nearest(path, leaves)} It may be one of "
                f"{', '.join(leaves)}."
            )
        value = np.asarray(entry["value"], dtype=float)
        if value.shape != leaf.shape:
            raise ScenarioError(f"`fitted`: `{path}` has shape {leaf.shape}, not {value.shape}.")
        system = with_leaf(system, path, jnp.asarray(value, leaf.dtype))
    with named("fitted"):
        check_constructed(system)
    return system


def build_measurements(scenario: Scenario, system: Any) -> tuple[Any, ...]:
    """Builds the measurements of `[[measurements]]`, and checks the units of their columns against the measurements and the
    system's class.
    """
    found = tuple(_measurement(i, dict(t)) for i, t in enumerate(scenario["measurements"]))
    with named(None):
        found = with_declared_units(system, found)
    units_of(scenario, found)
    return found


def _measurement(place: int, table: dict[str, Any]) -> Any:
    quantity, where = table.pop("quantity"), f"measurements.{place}"
    unit = SI_UNIT.get(table.pop("unit"), "")
    options = {key: value for key, value in table.items() if value not in ("", [], 0.0)}
    for key in ("index", "part", "rate"):
        if key in table and table[key] != "":
            options[key] = table[key]
    if "columns" in options:
        options["columns"] = tuple(options["columns"])
    of_coordinate = options["columns"][0] if "columns" in options else f"coordinate-{place}"
    options.setdefault("name", of_coordinate if quantity == "coordinate" else quantity)
    if quantity == "coordinate" and unit:
        options["unit"] = unit
    if isinstance(noise := options.get("noise"), list):
        options["noise"] = np.asarray(noise)
    with named(where):
        found = QUANTITIES[quantity](**options)
    return found


def units_of(scenario: Scenario, measurements: tuple[Any, ...]) -> dict[str, str]:
    """The unit of each column for which the scenario gives one, by the column's name.

    **Raises:** `ScenarioError` for a unit that the package does not know or that cannot be that of the measurement.
    """
    units: dict[str, str] = {}
    for i, (m, table) in enumerate(zip(measurements, scenario["measurements"], strict=True)):
        unit = table["unit"]
        if problem := unit_problem(m.columns[0], unit, scenario["data"]["time"], measurements):
            raise ScenarioError(f"`measurements.{i}.unit`: {problem}")
        units |= dict.fromkeys(m.columns, unit) if unit else {}
    return units | {scenario["data"]["time"]: scenario["data"]["time_unit"]}


def build_parameters(scenario: Scenario) -> tuple[Any, ...]:
    """Builds the parameters of `[[parameters]]`."""
    return tuple(_parameter_entry(i, dict(t)) for i, t in enumerate(scenario["parameters"]))


def _parameter_entry(place: int, table: dict[str, Any]) -> Any:
    kind, where = table.pop("kind"), f"parameters.{place}"
    mean, std, relative = (table.pop(f"prior_{key}") for key in ("mean", "std", "relative"))
    with named(where):
        prior = identify.Prior(_one_or_all(mean), _one_or_all(std), relative) if mean else None
    if kind == "body":
        paths = {"mass": table["mass"], "com": table["com"], "path": table["inertia"]}
        return identify.BodyInertia(
            **paths, about_com=table["about_com"], frozen=tuple(table["frozen"]), prior=prior
        )
    options = {key: value for key, value in table.items() if value not in ("", [])}
    if not options.get("scale", 1.0):
        options.pop("scale")
    if isinstance(options["frozen"], list) and kind != "rotational-inertia":
        options["frozen"] = tuple(options["frozen"])
    return ENTRIES[kind](**options, prior=prior)


def _one_or_all(values: list[float]) -> Any:
    return values[0] if len(values) == 1 else np.asarray(values)


def runs_in(scenario: Scenario, folder: Path) -> list[Path]:
    """The files of the runs in the folder of --data."""
    return files_in(folder, scenario["data"]["files"])


def files_in(folder: Path, patterns: list[str]) -> list[Path]:
    """The files in a folder that match one of the patterns, sorted. A link must lead to a file inside the folder.

    **Raises:** `ScenarioError` if no file matches, or if a matching link leads out of the folder.
    """
    found = {path for pattern in patterns for path in _matching(folder, pattern) if path.is_file()}
    for path in sorted(found):
        if not real(path).is_relative_to(real(folder)):
            raise ScenarioError(
                f"--data {folder}: {path.name} is a link to a file outside the folder. Copy the file into it."
            )
    if not found:
        raise ScenarioError(f"--data {folder}: it has no file like {', '.join(patterns)}.")
    return sorted(found)


def _matching(folder: Path, pattern: str) -> list[Path]:
    parts = Path(pattern).parts
    mixed = any("**" in part and part != "**" for part in parts)  # ValueError before Python 3.13
    if not parts or Path(pattern).anchor or ".." in parts or mixed:
        raise ScenarioError(
            f"`data.files` has {brief(pattern)}; it must be a pattern of files in the folder of --data, such as "
            '"*.csv".'
        )
    return list(folder.glob(pattern))


def read_run(scenario: Scenario, path: Path, measurements: tuple[Any, ...], control: Any) -> Any:
    """Reads one run from a CSV file. **Raises:** `ScenarioError` of one line for an error in the file."""
    data = scenario["data"]
    check_data_file(path)
    try:
        run = identify.read_csv(
            path,
            measurements,
            time=data["time"],
            units=units_of(scenario, measurements),
            control=control,
            required=data["required"],
            from_zero=data["from_zero"],
        )
    except identify.DataError as error:
        raise ScenarioError(str(error)) from None
    return run


def on_clock(scenario: Scenario, run: Any) -> Any:
    """The run at the times of `data.clock`: its time stamps, or for "steady" the sampling times recovered from them."""
    return run.at(identify.steady_clock(run.ts)) if scenario["data"]["clock"] == "steady" else run


def build_problem(
    scenario: Scenario, system: Any, measurements: tuple[Any, ...], runs: list[Any]
) -> Any:
    """The scenario's identification problem. **Raises:** `ScenarioError` of one line for tables that do not fit together."""
    fit = scenario["fit"]
    with named("parameters"):
        return identify.Problem(
            system,
            build_parameters(scenario),
            measurements,
            runs,
            segments=fit["segments"] or None,
            dt=fit["dt"] or None,
            loss=LOSSES[fit["loss"]](),
            priors=fit_priors(scenario),
        )


# Synthetic data.


def make_runs(
    scenario: Scenario, folder: Path, measurements: tuple[Any, ...], control: Any, seed: int
) -> list[Path]:
    """Simulates the runs of `[synthetic]` for the system of `[truth]`, writes them as CSV files and returns their paths."""
    table = scenario["synthetic"]
    system, rng = build_system(with_truth(scenario)), np.random.default_rng(seed)
    ts = np.arange(round(table["seconds"] * table["rate"]) + 1) / table["rate"]
    paths = [folder / f"run{number + 1}.csv" for number in range(table["runs"])]
    units = units_of(scenario, measurements)
    for path in paths:
        u0 = jnp.asarray(table["speed"] * rng.normal(size=system.n_independent))
        q0 = system.space.identity(u0.dtype)
        with named(None):
            motion = simulate(system, q0, u0, ts, control).raise_if_failed()
        columns = {scenario["data"]["time"]: ts}
        for m in measurements:
            with named(None):
                exact = np.asarray(_measured_along(m, system, motion, control))
            noisy = _noisy(m, exact, m.noise, table["noise"], rng)
            columns |= dict(zip(m.columns, noisy.T, strict=True))
        write_columns(path, {name: x / TO_SI[units.get(name, "")] for name, x in columns.items()})
    return paths


@compiled
def _measured_along(measurement, system, motion, control):
    def at(t, q, u):
        return measurement(system, t, q, u, control)

    return jax.vmap(at)(motion.ts, motion.q, motion.u)


def _noisy(measurement, exact: np.ndarray, std: Any, share: float, rng) -> np.ndarray:
    """Adds normal noise to each column: of standard deviation `std` if the measurement has one, otherwise `share` × RMS, for
    rotations `share` × 1 rad.
    """
    if measurement.size == measurement.error_size:
        width = share * np.sqrt(np.mean(exact**2, axis=0)) if std is None else std
        return exact + width * rng.normal(size=exact.shape)
    turn = jnp.asarray((share if std is None else std) * rng.normal(size=(len(exact), 3)))
    return np.asarray(jax.vmap(SO3().retract)(jnp.asarray(exact), turn))


def with_fitted(
    scenario: Scenario, system: Any, measurements: tuple[Any, ...], fits: list[Any]
) -> Scenario:
    """The scenario for `predict`: with the fitted parameters, the estimated noise and the priors from the last fit."""
    paths = dict.fromkeys(path for fit in fits for path in leaves_of(fit.problem.parameters))
    fitted = [
        {"path": path, "value": np.asarray(leaf_of(system, path), float).tolist()} for path in paths
    ]
    noise = {name: std for fit in fits for name, std in _noise_of(fit)}
    tables = [
        {**table, "noise": noise.get(m.name, table["noise"])}
        for m, table in zip(measurements, scenario["measurements"], strict=True)
    ]
    tables = {**scenario.tables, "fitted": fitted, "measurements": tables}
    tables["priors"] = priors_found(scenario, fits[-1])
    tables["truth"] = given_truth(scenario)
    return replace(scenario, tables=tables)


def _noise_of(fit: Any) -> Iterator[tuple[str, list[float]]]:
    """The name of each measurement, with the standard deviations of its noise."""
    start = 0
    for m in fit.problem.measurements:
        yield m.name, fit.noise[start : start + m.error_size].tolist()
        start += m.error_size
