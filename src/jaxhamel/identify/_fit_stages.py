"""`fit_stages`: fits several problems one after the other, each with the values found by the earlier ones."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from jaxhamel import _checks
from jaxhamel.identify._checks._problem import check_stage, check_stages
from jaxhamel.identify._estimate import Estimate, write_rows
from jaxhamel.identify._fit import fit
from jaxhamel.identify._parameters._parameters import AbstractParameter
from jaxhamel.identify._parameters._paths import leaf_of, with_leaf
from jaxhamel.identify._problem import Problem
from jaxhamel.mechanics import System

MakeProblem = Callable[[Any], Problem]
UNBEGUN = "interrupted before its first iteration"


class StagedEstimate(NamedTuple):
    """The outcome of `fit_stages`.

    - `system`: the system with the values of all stages. `estimates`: the `Estimate` of each stage, by its name.
    """

    system: System
    estimates: dict[str, Estimate]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {estimate}" for name, estimate in self.estimates.items())

    @property
    def converged(self) -> bool:
        """Whether all stages have converged."""
        return all(estimate.converged for estimate in self.estimates.values())

    @property
    def status(self) -> str:
        """How each stage ended."""
        return "; ".join(f"{name}: {found.status}" for name, found in self.estimates.items())

    def rows(self) -> list[dict[str, Any]]:
        """One row for each quantity of each stage, as in `Estimate.rows`, with the name of the stage as entry `stage`."""
        found = self.estimates.items()
        return [row | {"stage": name} for name, estimate in found for row in estimate.rows()]

    def to_csv(self, path: str | Path | IO[str]) -> None:
        """Writes `rows` with a header to a path or an open file, like `Estimate.to_csv`."""
        write_rows(path, self.rows(), ("stage",))

    def to_dict(self) -> dict[str, Any]:
        """The numbers and sentences of all stages, for `summary.json`."""
        return {
            "converged": self.converged,
            "status": self.status,
            "fit": {name: found.status for name, found in self.estimates.items()},
            "parameters": {row.pop("parameter"): row for row in self.rows() if not row["frozen"]},
            "stages": {name: found.to_dict() for name, found in self.estimates.items()},
        }


def fit_stages(
    system: System,
    stages: Mapping[str, MakeProblem],
    *,
    max_iterations: int = 100,
    max_seconds: float = 600.0,
    progress: Callable[..., Any] | None = None,
    correlated: bool = False,
) -> StagedEstimate:
    """Estimates parameters in stages, from experiments that determine different ones.

        θ_1 = fit(P_1(θ_0)) ,    θ_2 = fit(P_2(θ_1)) ,    …

    For example, an arm in a stand determines the friction of its joint; runs of the whole robot, with this friction,
    determine its other parameters.

    **Arguments:**

    - `system`: the system with its starting values.
    - `stages`: by name, in their order, functions `system -> identify.Problem`. Such a function chooses runs, parameters and
      loss, and may pose its problem for another system with the same leaves: its fitted leaves are carried over by path.
    - `max_iterations`: limit for each stage; `max_seconds`: for all stages together, of which each gets an equal share of
      the time left. `progress`, `correlated`: as for `fit`.

    **Returns:** a `StagedEstimate`. Ctrl-C ends a stage at its best point; the stages after it keep their starting values,
    with a status that says so.

    **Raises:** `TypeError` or `ValueError` for invalid arguments, before the first stage begins.
    """
    check_stages(stages)
    _checks.check_budget(max_iterations, max_seconds)
    _checks.check_progress(progress)
    for name, make in stages.items():
        _problem(name, make, system)
    options = {"max_iterations": max_iterations, "correlated": correlated}
    end, found = time.monotonic() + max_seconds, {}
    for place, (name, make) in enumerate(stages.items()):
        problem = _problem(name, make, system)
        share = max(end - time.monotonic(), 0.0) / (len(stages) - place)
        named = _with_stage_name(name, progress)
        found[name] = _stage(problem, found, max_seconds=share, progress=named, **options)
        system = carried(system, found[name].system, problem.parameters)
    return StagedEstimate(system, found)


def _stage(problem: Problem, before: dict[str, Estimate], **options: Any) -> Estimate:
    """Fits one stage.

    After Ctrl-C in an earlier stage, or before the first iteration of this one, the stage keeps its starting values, so
    that the estimates `before` are returned to the user.
    """
    if not any("interrupted" in estimate.status for estimate in before.values()):
        try:
            return fit(problem, **options)
        except KeyboardInterrupt:  # raised only before the first iteration
            if not before:
                raise
    options |= {"max_seconds": 0.0, "progress": None}
    return fit(problem, **options)._replace(status=UNBEGUN, converged=False)


def _problem(name: str, make: MakeProblem, system: System) -> Problem:
    problem = make(system)
    _checks.check_kind(f"stages[{name!r}]", problem, Problem, "it must return an identify.Problem.")
    check_stage(name, system, leaves_of(problem.parameters))
    return problem


def _with_stage_name(name: str, progress: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The user's `progress`, called with the name of the stage in front of that of the round."""
    if progress is None:
        return None
    return lambda state: progress(state._replace(round=f"{name}: {state.round}"))


def leaves_of(parameters: tuple[AbstractParameter, ...]) -> list[str]:
    """The paths of all leaves that the parameters change."""
    keys = ("mass", "com", "path")
    return [getattr(p, key) for p in parameters for key in keys if hasattr(p, key)]


def carried(system: System, fitted: System, parameters: tuple[AbstractParameter, ...]) -> System:
    """The system with the leaves of the parameters replaced by those of `fitted`."""
    for path in leaves_of(parameters):
        system = with_leaf(system, path, leaf_of(fitted, path))
    return system
