"""The host's loop around every search: budget, progress reports, Ctrl-C, history.

A kind of search is a subclass of `AbstractSearch`, which makes the iterations and decides on convergence or failure. The
loop here does everything else, so that all searches end and report in the same way. `compiled_before` gives JAX's tracing
and lowering of a program a deadline, so that its compilation does not begin too late.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, ClassVar, NamedTuple

import jax.monitoring
import numpy as np

from jaxhamel._words import counted


class Progress(NamedTuple):
    """The state of a search, passed to `progress` after iterations. Quantities that a method does not have are NaN.

    - `iteration`: the number of iterations made; `cost`: that of the current point; `tracking_rms` [m]: root mean square of
      the distance from the path, over all intervals; `defect`: largest residual of the conditions, such as a jump of the
      motion between two intervals; `accepted`: whether the last step was accepted.
    - `damping`: λ of Levenberg–Marquardt in `MultipleShooting`, the barrier parameter μ in `Collocation`.
    - `elapsed`, `time_left` [s]: the time left is an estimate.
    - `p`: the current free parameters of the curve, `(P,)`, from `MultipleShooting`; None from other methods.
    """

    iteration: int
    cost: float
    tracking_rms: float
    defect: float
    damping: float
    accepted: bool
    elapsed: float
    time_left: float
    p: np.ndarray | None = None

    @classmethod
    def of_cost(cls, iteration: int, cost: float, elapsed: float, time_left: float) -> "Progress":
        """The report of a method whose only quantity is the cost."""
        nan = float("nan")
        return cls(iteration, cost, nan, nan, nan, True, elapsed, time_left)

    def __str__(self) -> str:
        parts = [f"{self.iteration:4d}", f"cost {self.cost:.4g}"]
        if self.tracking_rms == self.tracking_rms:
            parts.append(f"tracking {self.tracking_rms:.3g} m")
        if self.defect == self.defect:
            parts.append(f"gaps {self.defect:.1e}")
        return "   ".join([*parts, f"{self.elapsed:.0f} s", f"{self.time_left:.0f} s left"])


class Verdict(NamedTuple):
    """The end of a search: whether its tolerances were met, and the reason as a sentence."""

    converged: bool
    status: str


class AbstractSearch(ABC):
    """A search whose iterations are made in several calls.

    **Arguments:** `iterations`, `seconds`: its budget. The time counts from the construction on, with compilation. The first
    iteration is made even if the time is over, except in searches that compile under `compiled_before`.
    """

    unit: ClassVar[str] = "iteration"
    # Status texts for a spent budget; `done` and `limit` are numbers of iterations with their unit.
    out_of_time: ClassVar[str] = "out of time ({seconds:g} s): best so far"
    out_of_iterations: ClassVar[str] = "out of iterations ({iterations}): best so far"
    not_compiled: ClassVar[str] = (
        "out of time ({seconds:g} s) after {done}, before its program was compiled: best so far"
    )

    def __init__(self, iterations: int, seconds: float = float("inf")):
        self.iterations: int = iterations
        self.seconds: float = seconds
        self.began: float = time.monotonic()
        self.rows: list[dict[str, Any]] = []

    @abstractmethod
    def make_iterations(self) -> None:
        """Makes the next iterations and calls `note` for each of them."""

    @abstractmethod
    def verdict(self) -> Verdict | None:
        """The verdict of a search that has converged or failed; None while it continues. The budget is not considered."""

    @abstractmethod
    def report(self) -> Any:
        """The progress report after the iterations so far, the argument of `progress`."""

    def run(self, progress: Callable[..., Any] | None = None) -> Verdict:
        """Runs the search to its end; Ctrl-C ends it with the best point so far, if there is one."""
        ending = None
        try:
            while ending is None:
                self.iterate_and_report(progress)
                ending = self.ending()
        except OutOfTime:
            ending = self.not_compiled_in_time()
            if not self.rows:
                self.look_at_start()
        except KeyboardInterrupt:
            if not self.rows:  # there is no result yet
                raise
            ending = self.ending() or self.interrupted()
        return ending

    def not_compiled_in_time(self) -> Verdict:
        """The verdict of a search whose time was over before its program was compiled."""
        return Verdict(False, self._words(self.not_compiled))

    def look_at_start(self) -> None:
        """Adds the starting point to the history of a search whose time was over before its program was compiled.

        Searches that compile under `compiled_before` override this method, to add the cost at the start.
        """
        self.note()

    def iterate_and_report(self, progress: Callable[..., Any] | None) -> None:
        """Makes the next iterations and reports them."""
        before = len(self.rows)
        self.make_iterations()
        if progress is not None and len(self.rows) > before:
            progress(self.report())

    def ending(self) -> Verdict | None:
        """The verdict of a search that has ended, also by its budget; None while it continues."""
        return self.verdict() or self.budget_spent()

    def budget_spent(self) -> Verdict | None:
        """The verdict of a search whose budget is spent; None otherwise."""
        if not self.rows:
            return None
        if self.elapsed() > self.seconds - self.seconds_of_result():
            return Verdict(False, self._words(self.out_of_time) + self._compiling())
        if len(self.rows) >= self.iterations:
            return Verdict(False, self._words(self.out_of_iterations))
        return None

    def seconds_of_result(self) -> float:
        """The part of the budget that the search leaves for its result, if it takes long."""
        return 0.0

    def _compiling(self) -> str:
        """A clause for the status if the first iteration took most of the time; otherwise empty."""
        first = self.rows[0]["seconds"]
        if first < max(0.5 * self.seconds, 1.0):
            return ""
        return f"; {first:.1f} s went by until the first {self.unit}, mostly in compilation"

    def interrupted(self) -> Verdict:
        """The verdict of a search that Ctrl-C has stopped."""
        return Verdict(False, self._words("interrupted after {done}: best so far"))

    def note(self, **numbers: Any) -> None:
        """Adds an iteration to the history: its `numbers`, and the seconds since the start."""
        self.rows.append(numbers | {"seconds": self.elapsed()})

    @property
    def history(self) -> dict[str, np.ndarray]:
        """The history as one array for each quantity, with one entry for each iteration."""
        return {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}

    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self.began

    def time_left(self, iterations: float | None = None) -> float:
        """Estimates the seconds that `iterations` more iterations take, at most the time left in the budget.

        Without `iterations`, all iterations that are left in the budget are meant.

        The time per iteration is the mean of all iterations but the first, which is mostly compilation. After only one
        iteration the estimate is the time left.
        """
        n, seconds = len(self.rows), self.rows[-1]["seconds"]
        more = self.iterations - n if iterations is None else iterations
        if n < 2 and more > 0:
            return max(self.seconds - seconds, 0.0)
        pace = (seconds - self.rows[0]["seconds"]) / max(n - 1, 1)
        return max(min(pace * more, self.seconds - seconds), 0.0)

    def _words(self, status: str) -> str:
        return status.format(
            seconds=self.seconds,
            iterations=self.iterations,
            done=counted(len(self.rows), self.unit),
            limit=counted(self.iterations, self.unit),
        )


# JAX's events at the end of tracing and of lowering; XLA's compilation, the longest stage, comes next
CHECKED_AFTER = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration")


class OutOfTime(Exception):
    """The deadline has passed before a program is compiled."""


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def compiled_before(deadline: float, compiling: float = 0.0) -> Iterator[None]:
    """A context in which no program is compiled after the deadline; compiled programs still run.

    **Arguments:** `deadline`: on the clock `time.monotonic`; `compiling`: the seconds that XLA is expected to take, by which
    its compilation must begin earlier. **Raises:** `OutOfTime`, at once if the deadline has passed.
    """
    _listen()
    _raise_if_late(deadline)
    token = _DEADLINE.set(deadline - compiling)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def _raise_if_late(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise OutOfTime


def _stage_ended(event: str, duration_secs: float, **kwargs: Any) -> None:
    if event.endswith(CHECKED_AFTER):
        _raise_if_late(_DEADLINE.get())


@cache
def _listen() -> None:
    """Registers the listener, once in a process."""
    jax.monitoring.register_event_duration_secs_listener(_stage_ended)
