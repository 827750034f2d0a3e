"""Multiple shooting: the method for tracking, where single shooting over the whole time would be unstable."""

from typing import Any

import diffrax
import equinox as eqx
from jaxtyping import Array, Float

from jaxhamel.control._checks._curve_methods import check_shooting
from jaxhamel.control._methods._method import AbstractManyStarts
from jaxhamel.control._methods._multiple_shooting_search import MultipleShootingSearch
from jaxhamel.control._methods._shooting import Shooting
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import ROUTES
from jaxhamel.mechanics._checks._system import check_route
from jaxhamel.simulate._solvers._runge_kutta import tableau


class MultipleShooting(AbstractManyStarts):
    r"""Searches for the states at the times `problem.ts` and the curve's parameters together, by Levenberg–Marquardt steps.

    Each interval is integrated separately, so that errors grow over one interval only; continuity between intervals
    (`defect` = 0) is a condition, which the result satisfies to rounding. The Jacobian of an interval
    has columns only for its two nodes and for the parameters that act in it.

    **Arguments:**

    - `steps`: integration steps in each interval, even; costs are integrated on them by a Newton–Cotes rule.
    - `solver`: an explicit diffrax Runge–Kutta method, default `diffrax.Dopri8()`: unstable motion amplifies
      integration errors, and six of its steps are cheaper than 40 steps of a fourth-order method.
    - `max_iterations`, `max_seconds`: limits of the search, after which about six more iterations close the gaps.
    - `cost_tolerance`: stop when ten iterations lower the cost by less than this fraction.
    - `defect_tolerance`: largest gap that counts as closed; at least 1.2e-5 in single precision.
    - `goal`: stop once the tracking RMS is below this; None: as small as possible.
    - `damping`: the initial damping λ; `penalty`: the weight σ of |conditions|²/2, at most 8e3 in single precision;
      `switch`: once the largest condition is below it, steps satisfy the linearised conditions exactly.
    - `route`: route to the equations of motion, see `jaxhamel.acceleration`.

    Memory and time of the linear algebra grow with the square and the cube of the number of unknowns,
    N (dim Q + k) + P; a search with about 1000 of them takes seconds to minutes.
    """

    steps: int = eqx.field(static=True, default=6)
    solver: diffrax.AbstractSolver[Any] = eqx.field(default_factory=diffrax.Dopri8)
    max_iterations: int = 400
    max_seconds: float = 60.0
    cost_tolerance: float = 1e-3
    defect_tolerance: float = 1e-10
    goal: float | None = None
    damping: float = 100.0
    penalty: float = 1e6
    switch: float = 1e-2
    route: str | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_shooting(self)
        check_route(self.route, ROUTES)

    def search(self, problem: ControlProblem, p: Float[Array, "*S P"]) -> MultipleShootingSearch:
        """Sets up the search from the free parameters p."""
        return MultipleShootingSearch(self, problem, p)

    def shooting(self) -> Shooting:
        """The `Shooting` that integrates the intervals and assembles their quadratic model."""
        return Shooting(tableau(self.solver), self.steps, self.route)
