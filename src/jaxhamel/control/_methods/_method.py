"""Base classes for methods of optimal control, which search among the free parameters of a curve."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._search._loop import AbstractSearch
from jaxhamel.control._checks._curve_methods import check_for_curves
from jaxhamel.control._collocation._from_nodes import States, replayed
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Result, report


class AbstractControlSearch(AbstractSearch):
    """A search among the free parameters of a problem's curve."""

    @abstractmethod
    def found(self) -> tuple[Float[Array, " P"], float, float]:
        """The best parameters, their cost, and the norm of the cost's gradient."""

    def nodes(self) -> tuple[States, float] | None:
        """Returns the states at the problem's times and the largest jump of the motion at one of them, for a method that has
        these states among its unknowns; None for a method that integrates the motion from its start to its end.
        """
        return None


class AbstractMethod(eqx.Module):
    """A method that solves a problem from one start; a subclass defines its search."""

    @abstractmethod
    def search(self, problem: ControlProblem, p: Float[Array, "*S P"]) -> AbstractControlSearch:
        """Sets up the search from the free parameters p."""

    def run(self, problem: ControlProblem, progress: Callable[..., Any] | None = None) -> Result:
        """Solves one problem.

        **Arguments:** `problem`; `progress`: called with a `Progress` after each iteration, or about five times a second.

        **Returns:** a `Result`. **Raises:** `TypeError` under jit, vmap or grad.
        """
        return self._run(problem, free_parameters(problem.curve)[0], progress)

    def _run(
        self, problem: ControlProblem, p: Array, progress: Callable[..., Any] | None
    ) -> Result:
        """Searches from one start `(P,)` or from many `(S, P)`."""
        _checks.check_outside("problem", problem)
        check_for_curves(problem, type(self).__name__)
        return result_of(problem, self.search(problem, p), progress)


def result_of(
    problem: ControlProblem,
    search: AbstractControlSearch,
    progress: Callable[..., Any] | None = None,
) -> Result:
    """Runs a search to its end, and simulates and measures the best control that it has found."""
    ending = search.run(progress)
    best, cost, gradient_norm = search.found()
    control = free_parameters(problem.curve)[1](best)
    nodes, trajectory, departs = search.nodes(), None, None
    if nodes is not None:
        trajectory, departs = replayed(problem, control, problem.ts, *nodes)
    numbers = cost, gradient_norm, search.history, search.began
    result = report(problem, control, *numbers, *ending, trajectory)
    return result._replace(open_loop_departure=departs)


class AbstractManyStarts(AbstractMethod):
    """A method that can also search from many starts in parallel."""

    def run_many(
        self,
        problem: ControlProblem,
        starts: Float[Array, "S P"],
        progress: Callable[..., Any] | None = None,
    ) -> Result:
        """Solves one problem from many starts in parallel.

        **Arguments:** `starts`: free parameters of the curve, one row for each start; `problem`, `progress`: as for `run`.
        The progress reported is that of the best start.

        **Returns:** the best `Result`.
        """
        return self._run(problem, starts, progress)
