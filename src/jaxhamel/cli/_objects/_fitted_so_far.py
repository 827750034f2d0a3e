"""The scenario with the parameter values that an unfinished fit has reached."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxhamel.cli._objects._truth import given_truth
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.identify import Problem
from jaxhamel.identify._fit_stages import leaves_of
from jaxhamel.identify._parameters._paths import leaf_of
from jaxhamel.mechanics import System


class FittedSoFar:
    """Collects the latest parameter values of an unfinished fit, over all its stages.

    **Arguments:** `problems`: the problem, or for each stage the function from the system to its problem. The attribute of
    the same name must be fitted in its place, because it notes which problem is being fitted.
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
        """The function `make` of a stage, which also notes its problem as the one that is being fitted."""

        def noted(system: System) -> Problem:
            self.problem = make(system)
            return self.problem

        return noted

    def at(self, z: np.ndarray) -> dict[str, Any]:
        """The tables of the scenario with the parameter values at the coordinates z of the problem that is being fitted."""
        assert self.problem is not None  # no progress is reported before a problem is made
        system = self.problem.model.system_at(jnp.asarray(z))
        for path in leaves_of(self.problem.parameters):
            self.values[path] = np.asarray(leaf_of(system, path), float).tolist()
        fitted = [{"path": path, "value": value} for path, value in self.values.items()]
        return {**self.scenario.tables, "fitted": fitted, "truth": given_truth(self.scenario)}
