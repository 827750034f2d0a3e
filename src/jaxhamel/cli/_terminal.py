"""Output of the command line: one updating line on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from jaxhamel._words import visible, with_short_words

PLAIN_SECONDS = 5.0  # time between two progress lines, where a line cannot be overwritten


class Terminal:
    """Prints messages and progress to standard error; standard output stays free for other programs."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._last = -PLAIN_SECONDS

    def say(self, line: str) -> None:
        """Prints a line that later progress lines do not overwrite; with --quiet it prints nothing."""
        if not self.quiet:
            self._print(_plain(line))

    def complain(self, line: str) -> None:
        """Prints a line about a failure, even with --quiet, so that a script's log has the reason."""
        self._print(Text(with_short_words(visible(f"jaxhamel: {line}"))))

    def _print(self, text: Text) -> None:
        with suppress(
            OSError
        ):  # a full disk or a closed pipe: the results are files, so the command continues
            self.console.print(text)
            sys.stderr.flush()

    def show(self, text: str) -> None:
        """Prints several lines about a failure, even with --quiet."""
        self.console.print(_plain(text))

    @contextmanager
    def updating(self) -> Iterator[None]:
        """A context in which `update` overwrites its line (on a terminal)."""
        if self.quiet or not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, auto_refresh=False, transient=False) as self._live:
            yield
        self._live = None

    def update(self, line: str, *, always: bool = False) -> None:
        """Shows the current progress: overwrites the line on a terminal, elsewhere prints a line every few seconds."""
        if self.quiet:
            return
        if self._live is not None:
            self._live.update(Text(visible(line), no_wrap=True, overflow="ellipsis"), refresh=True)
        elif always or time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            self._print(_plain(line))


def _plain(line: str) -> Text:
    """The text with control characters as visible escapes (`\\x1b`); line breaks stay."""
    return Text(visible(line, lines=True))
