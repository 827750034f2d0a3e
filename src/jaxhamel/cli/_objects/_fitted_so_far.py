"""The values of a fit that is under way, as a scenario."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.identify import Problem
from jaxhamel.identify._fit_stages import leaves_of
from jaxhamel.identify._parameters._paths import leaf_of
from jaxhamel.mechanics import System


class FittedSoFar:
    """Gathers the values of one problem, or of the stages of a fit, each as it was reached last.

    **Arguments:** `problems`: the problem, or the functions of the stages by name.
    """

    def __init__(
        self, scenario: Scenario, problems: Problem | Mapping[str, Callable[[System], Problem]]
    ):
        self.scenario, self.problem = scenario, None
        self.values: dict[str, Any] = {}
        if isinstance(problems, Problem):
            self.problem, self.problems = problems, problems
        else:
            self.problems = {name: self._noted(make) for name, make in problems.items()}

    def _noted(self, make: Callable[[System], Problem]) -> Callable[[System], Problem]:
        """The function of a stage; the problem that it made last is the one under way."""

        def noted(system: System) -> Problem:
            self.problem = make(system)
            return self.problem

        return noted

    def at(self, z: np.ndarray) -> dict[str, Any]:
        """The tables of the scenario with the values at the coordinates z of the problem under way."""
        assert self.problem is not None  # a report comes after its problem
        system = self.problem.model.system_at(jnp.asarray(z))
        for path in leaves_of(self.problem.parameters):
            self.values[path] = np.asarray(leaf_of(system, path), float).tolist()
        fitted = [{"path": path, "value": value} for path, value in self.values.items()]
        truth = {k: v for k, v in (self.scenario["truth"] or {}).items() if v is not None}
        return {**self.scenario.tables, "fitted": fitted, "truth": truth}
