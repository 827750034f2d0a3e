"""Ctrl-C and time limits end the process, also while a compiler has the main thread for seconds.

Python runs a signal's handler in the main thread, between two of its instructions: not before XLA gives that thread back.
So the signal also writes into a pipe, and a thread that reads it ends the process when the main thread has not. Files are
whole at any moment (`jaxhamel._files`), so nothing has to be unwound. Only a search that has found something goes on, to
write it; a second Ctrl-C ends that, too.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

INTERRUPTED, TOO_LATE = 130, 1
PATIENCE = 0.3  # seconds that the main thread has for its own handler
LATE = 1.1  # of a time limit, after which the process ends
SHOW_CURSOR = "\x1b[?25h"  # which an updating line has hidden


class Guard:
    """What is known of the process when it has to end."""

    def __init__(self) -> None:
        self.keeps = False
        self.words: Callable[[], str] = lambda: "interrupted; nothing was written."
        self._count, self._writing = 0, -1
        self._before: Any = signal.SIG_DFL
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """From now on Ctrl-C ends this process. Not where a shell has its background ignore it."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._before = signal.signal(signal.SIGINT, self._handle)
        self._writing = writing
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

    def finish(self) -> None:
        """From now on it does not."""
        if self.active():
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, self._before)
            os.close(self._writing)
            self.__init__()

    def limit(self, seconds: float, words: str) -> None:
        """End the process after this time, unless a search has found something, which ends by itself."""
        if not self.active():
            return
        wait = min(LATE * max(seconds, 1.0), threading.TIMEOUT_MAX)
        self._timer = threading.Timer(wait, self._late, (words,))
        self._timer.daemon = True
        self._timer.start()

    def keep(self) -> None:
        """Something was found that is not on disk yet."""
        self.keeps = True

    def kept(self) -> None:
        """It is on disk."""
        self.keeps = False
        if self._timer is not None:
            self._timer.cancel()

    def active(self) -> bool:
        """Whether this is a process of its own, which may be ended."""
        return signal.getsignal(signal.SIGINT) == self._handle

    def _handle(self, number: int, frame: object) -> None:
        self._count += 1
        if self.keeps and self._count == 1:
            raise KeyboardInterrupt
        self.end(INTERRUPTED, self.words())

    def _watch(self, reading: int) -> None:
        count = 0
        while data := os.read(reading, 1):
            if data[0] == signal.SIGINT:
                count += 1
                if count > 1 or not self.keeps:
                    threading.Event().wait(PATIENCE)
                    self.end(INTERRUPTED, self.words())

    def _late(self, words: str) -> None:
        if not self.keeps:
            self.end(TOO_LATE, words)

    def end(self, status: int, words: str = "") -> None:
        """Say why, and be gone: no thread is waited for, nothing is unwound."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(
                OSError, ValueError, RuntimeError
            ):  # closed; the handler came in the midst of a write
                stream.flush()
        cursor = SHOW_CURSOR if os.isatty(2) else ""
        line = f"{cursor}jaxhamel: {words}\n" if words else cursor
        with suppress(OSError):
            os.write(2, line.encode("utf-8", "backslashreplace"))
        os._exit(status)


guard = Guard()
