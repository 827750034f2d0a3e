"""The priors on quantities of each run's own initial state: built from a scenario, and re-estimated from fitted runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxhamel import identify
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._scenario._scenario import Scenario


def fit_priors(scenario: Scenario) -> list[identify.StatePrior]:
    """The priors of `[[priors]]` that a fit uses: all but those with `over_runs`, which the fit's runs determine."""
    tables = enumerate(scenario["priors"])
    return [_prior(place, table) for place, table in tables if not table["over_runs"]]


def prediction_priors(scenario: Scenario) -> list[identify.StatePrior]:
    """The priors of `[[priors]]` that a prediction uses: all of them."""
    return [_prior(place, table) for place, table in enumerate(scenario["priors"])]


def _prior(place: int, table: Mapping[str, Any]) -> identify.StatePrior:
    with named(f"priors.{place}"):
        return identify.StatePrior(quantity_of(table), table["mean"], table["std"])


def quantity_of(table: Mapping[str, Any]) -> identify.Coordinate:
    """The coordinate or rate of the initial state to which a table of `[[priors]]` applies."""
    part = table["part"] if table["part"] != "" else None
    name = table["name"]
    return identify.Coordinate(
        index=table["index"], part=part, rate=table["rate"], name=name, columns=(name,), unit=""
    )


def priors_found(scenario: Scenario, last: identify.Estimate) -> list[dict[str, Any]]:
    """The tables of `[[priors]]` for predictions.

    A prior with `over_runs` gets the mean and the standard deviation of its quantity over the fitted runs.
    """
    found = []
    for table in scenario["priors"]:
        known = {}
        if table["over_runs"] and len(last.problem.runs) > 1:
            values = identify.initial_values(last, quantity_of(table))[:, 0]
            known = {"mean": float(values.mean()), "std": float(values.std(ddof=1))}
        usable = known and np.isfinite(known["std"]) and known["std"] > 0
        found.append({**table, **(known if usable else {})})
    return found


def own_quantities(scenario: Scenario, last: identify.Estimate) -> dict[str, Any]:
    """The entry of summary.json with each quantity of `[[priors]]`: its estimates in all runs, and its prior for others."""
    names = [run.name for run in last.problem.runs]
    return {
        table["name"]: {
            "mean": table["mean"],
            "std": table["std"],
            "runs": dict(
                zip(
                    names,
                    identify.initial_values(last, quantity_of(table))[:, 0].tolist(),
                    strict=True,
                )
            ),
        }
        for table in priors_found(scenario, last)
    }
