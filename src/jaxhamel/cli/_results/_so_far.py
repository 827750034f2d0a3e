"""Keeps on disk what a search has reached, so that its time limit, Ctrl-C and a kill leave it."""

import time
from collections.abc import Callable
from typing import Any

from jaxhamel.cli._interrupt import guard

EVERY = 2.0  # seconds between two writes


class SoFar:
    """Writes the latest point of a search, at its first report and then at most every `EVERY` seconds.

    From the first report on, the command may be ended at any time, also while a later program compiles.

    **Arguments:** `write`: writes a point; `words`: the message of a command that its time limit ends.
    """

    def __init__(self, write: Callable[[Any], None], words: str):
        self.write, self.words = write, words
        self.last = float("-inf")

    def reached(self, point: Any) -> None:
        """Notes that the search has reached a point."""
        guard.keep()
        if time.monotonic() - self.last >= EVERY:
            self.write(point)
            self.last = time.monotonic()
            guard.on_disk(self.words)
