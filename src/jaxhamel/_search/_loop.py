"""The loop on the host around every search: budget, progress reports, Ctrl-C, history.

A kind of search is one subclass of `AbstractSearch`. It says how the next iterations are made and when the search has
converged or failed; the loop here does everything else, so that all searches end and report in the same way.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxhamel._words import counted


class Verdict(NamedTuple):
    """How a search ended: whether its tolerances were met, and why it ended, in words."""

    converged: bool
    status: str


class AbstractSearch(ABC):
    """A search in pieces of one or more iterations.

    **Arguments:** `iterations`, `seconds`: its budget. The first iteration is made in any case.
    """

    unit: ClassVar[str] = "iteration"
    # Statuses where the budget is spent; `done` and `limit` are numbers of iterations with their unit.
    out_of_time: ClassVar[str] = "out of time ({seconds:g} s): best so far"
    out_of_iterations: ClassVar[str] = "out of iterations ({iterations}): best so far"

    def __init__(self, iterations: int, seconds: float = float("inf")):
        self.iterations, self.seconds = iterations, seconds
        self.began = time.monotonic()
        self.rows: list[dict[str, Any]] = []

    @abstractmethod
    def advance(self) -> None:
        """Makes the next iterations and calls `note` for each of them."""

    @abstractmethod
    def verdict(self) -> Verdict | None:
        """How the search ended, for reasons other than its budget; None where it goes on."""

    @abstractmethod
    def report(self) -> Any:
        """The argument of `progress` after the iterations made so far."""

    def run(self, progress: Callable[..., Any] | None = None) -> Verdict:
        """Runs the search to its end; Ctrl-C ends it with the best point so far, if there is one."""
        ending = None
        try:
            while ending is None:
                self.piece(progress)
                ending = self.ending()
        except KeyboardInterrupt:
            if not self.rows:  # there is no result yet
                raise
            ending = self.ending() or self.interrupted()
        return ending

    def piece(self, progress: Callable[..., Any] | None) -> None:
        """Advances once and reports."""
        before = len(self.rows)
        self.advance()
        if progress is not None and len(self.rows) > before:
            progress(self.report())

    def ending(self) -> Verdict | None:
        """How the search ended, its budget included; None where it goes on."""
        return self.verdict() or self.budget_spent()

    def budget_spent(self) -> Verdict | None:
        """The ending of a search that has spent its budget; None where it has not."""
        if not self.rows:
            return None
        if self.elapsed() > self.seconds:
            return Verdict(False, self._words(self.out_of_time))
        if len(self.rows) >= self.iterations:
            return Verdict(False, self._words(self.out_of_iterations))
        return None

    def interrupted(self) -> Verdict:
        """The ending of a search that Ctrl-C has stopped."""
        return Verdict(False, self._words("interrupted after {done}: best so far"))

    def note(self, **numbers: Any) -> None:
        """Adds an iteration to the history, with the seconds it took to get there."""
        self.rows.append(numbers | {"seconds": self.elapsed()})

    @property
    def history(self) -> dict[str, np.ndarray]:
        """One array for each quantity, an entry an iteration."""
        return {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}

    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self.began

    def time_left(self, iterations: float | None = None) -> float:
        """Seconds for so many more iterations (default: all that the budget has), at most what the budget has.

        The first iteration is mostly compilation, so the pace is that of the others.
        """
        n, seconds = len(self.rows), self.rows[-1]["seconds"]
        more = self.iterations - n if iterations is None else iterations
        pace = (seconds - self.rows[0]["seconds"]) / max(n - 1, 1)
        return max(min(pace * more, self.seconds - seconds), 0.0)

    def _words(self, status: str) -> str:
        return status.format(
            seconds=self.seconds,
            iterations=self.iterations,
            done=counted(len(self.rows), self.unit),
            limit=counted(self.iterations, self.unit),
        )
