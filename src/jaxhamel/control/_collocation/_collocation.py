"""The method `Collocation`: from one start, or from many at once."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._search._loop import Verdict
from jaxhamel.control._checks._collocation import check_collocation
from jaxhamel.control._checks._families import check_family
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._families._family import Family
from jaxhamel.control._families._family_search import FamilySearch
from jaxhamel.control._families._problems import problems_of
from jaxhamel.control._interior_point._state import resumed
from jaxhamel.control._many_starts._many_starts import ManyStarts
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Result


class Collocation(eqx.Module):
    """Direct collocation, solved by an interior-point method with exact second derivatives.

    The control is a polynomial of degree s − 1 on each of N intervals, the state one of degree s in the tangent space, which
    satisfies the equations of motion at s Gauss or Radau points; costs are integrated on these points. The search starts
    from the problem's `curve` (any callable of t) and its `guess`; without a guess, from the straight line to the state of
    `StateAtEnd`.

    **Arguments:**

    - `intervals`: N, equal ones, whose nodes move onto the times at which a limited control switches from one bound to the
      other, and at which a limit of the state begins or ceases to bind (with Gauss points those of velocities only);
      `"auto"`: 20 and, as long as the certificate would not hold because of the mesh, more, up to 320 (always 20 in
      `solve_family`); None: those of the problem's `ts`, which stay unless `error` is given.
    - `degree`: s; `points`: `"gauss"` (order 2s), `"radau"` (order 2s − 1, with a point at each node), or `"auto"`: Radau
      points if there are path limits, and all of them are limits of the state alone, otherwise Gauss points until a limit
      of positions binds at the solution, or arcs of limits of velocities and of controls meet.
    - `tolerance`: of stationarity and complementarity, scaled as by IPOPT, and of violation; at least 1e-5 in single
      precision.
    - `max_iterations`, `max_seconds`: limits of the search, compilation included; with `intervals="auto"` iterations are
      counted anew on each mesh. If the time is over before XLA compiles the search, the result is the guess.
    - `barrier`: the barrier parameter μ of the first iteration, used if there are limits.
    - `error`: the largest error allowed between the nodes, in tangent-space coordinates (see `Result.mesh_errors`). While it
      is exceeded, first the nodes move to where the error is large, then the intervals are doubled, up to four times. None:
      N stays, or is found as `intervals` says.

    The system's control must be used by its value: for prescribed motion take `jaxhamel.MovingParts`. Besides `StateAtEnd`
    and `ControlAt`, the method takes `PathLimit`, `FreeEndTime`, `FreeInitialState`, `BoundaryConditions` and
    `DesignParameter`.

    Source: Betts 2010, ch. 4; Bryson, Denham and Dreyfus 1963 (limits of the state); Hairer and Wanner, Solving Ordinary
    Differential Equations II, IV.5; Wächter and Biegler 2006.
    """

    intervals: int | Literal["auto"] | None = eqx.field(static=True, default="auto")
    degree: int = eqx.field(static=True, default=4)
    points: str = eqx.field(static=True, default="auto")
    tolerance: float = 1e-9
    max_iterations: int = 500
    max_seconds: float = 300.0
    barrier: float = 0.1
    error: float | None = None

    def __check_init__(self) -> None:
        check_collocation(self)

    def run(self, problem: ControlProblem, progress: Callable[..., Any] | None = None) -> Result:
        """Solves one problem.

        **Arguments:** `problem`; `progress`: called with a `Progress` about five times a second.

        **Returns:** a `Result` with `costates` and `certificate`. **Raises:** `TypeError` under jit, vmap or grad, and for a
        system whose control prescribes motion.
        """
        _checks.check_outside("problem", problem)
        search = CollocationSearch(self, problem)
        return search.result(search.run(progress))

    def run_many(
        self,
        problem: ControlProblem,
        starts: Float[Array, "S P"],
        progress: Callable[..., Any] | None = None,
    ) -> Result:
        """Solves one problem from many starts at once, each from the motion under its own control.

        **Arguments:** `starts`: free parameters of the problem's curve, one row for each start; `problem`, `progress`: as
        for `run`. Progress is reported only while the search continues from the best start.

        **Returns:** the best `Result`; its certificate has the table of distinct optima in `optima`.
        """
        _checks.check_outside("problem", problem)
        search = CollocationSearch(self, problem)
        given = problem, search.transcription, starts, search.barrier, search.tolerance
        many = ManyStarts(*given)
        many.run(self.max_iterations, search.began + self.max_seconds)
        best = many.best()
        search.state, search.may_start_anew, search.fresh = resumed(best), False, False
        result = search.result(_ended(search, many, progress))
        assert result.certificate is not None
        optima = many.optima()
        certificate = result.certificate._replace(
            optima=optima.found, words=f"{result.certificate.words}\n{optima.words}"
        )
        return result._replace(certificate=certificate)

    def run_family(
        self,
        problem_of: Callable[[Any], ControlProblem],
        values: Any,
        progress: Callable[..., Any] | None = None,
    ) -> Family:
        """Solves the problems `problem_of`(value) of many values at once.

        **Arguments:** `problem_of`, `values`, `progress`: as for `solve_family`. **Returns:** a `Family`.
        """
        _checks.check_outside("values", values)
        count = check_family(problem_of, values, self.error)
        search = FamilySearch(self, problems_of(problem_of, values, count), values)
        search.run(progress)
        return Family(problem_of, values, search)


def _ended(
    search: CollocationSearch, many: ManyStarts, progress: Callable[..., Any] | None
) -> Verdict:
    """Continues the search from the best of many starts, unless Ctrl-C has ended these."""
    if not many.interrupted.is_set():
        return search.run(progress)
    search.look_at_start()
    return search.interrupted()
