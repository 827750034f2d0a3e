"""Progress of a family of problems."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple


class FamilyProgress(NamedTuple):
    """The state of `solve_family`, passed to `progress` a few times a second.

    - `ended`, `count`: the number of searches that have ended, and of all; of those that go on alone if `alone` is true.
    - `elapsed`, `time_left` [s]: the time left is an estimate, for the searches of this kind.
    """

    ended: int
    count: int
    alone: bool
    elapsed: float
    time_left: float

    def __str__(self) -> str:
        kind = "searches alone" if self.alone else "values"
        parts = [f"{self.ended:4d} of {self.count} {kind}"]
        return "   ".join([*parts, f"{self.elapsed:.0f} s", f"{self.time_left:.0f} s left"])


class Teller:
    """Reports the progress of a family of problems that began at `began` and must end at `until`, on `time.monotonic`."""

    def __init__(self, progress: Callable[..., Any] | None, count: int, began: float, until: float):
        self.progress, self.count, self.alone = progress, count, False
        self.began, self.until = began, until
        self.first: float | None = None  # the time at which the searches of this kind began
        self.earlier = 0  # searches that have ended in an earlier round

    def searches_alone(self, count: int) -> None:
        """Begins with the searches that go on alone, `count` of them."""
        self.count, self.alone, self.first, self.earlier = count, True, None, 0

    def tell(self, ended: int) -> None:
        """Reports that so many searches of this round have ended."""
        if self.progress is None:
            return
        now = time.monotonic()
        self.first = now if self.first is None else self.first
        done = min(self.earlier + ended, self.count)
        left = max(self.until - now, 0.0)
        if done:
            left = min(left, (now - self.first) / done * (self.count - done))
        self.progress(FamilyProgress(done, self.count, self.alone, now - self.began, left))
