"""Ends the process on Ctrl-C, on `kill` or at a time limit, even while a compiler occupies the main thread for seconds.

Python runs a signal handler in the main thread, between two bytecode instructions: not before XLA returns to Python. So
the signal also writes into a pipe, and a thread that reads the pipe ends the process if the main thread has not done so.
Files are complete at any moment (`jaxhamel._files`), so no cleanup is necessary. Only a search that has a result
continues, in order to write it: for two seconds, if its latest point is on disk already. A second signal ends that, too.
`kill` (SIGTERM, which schedulers of clusters send before the end of a job) and a closed terminal (SIGHUP) act as Ctrl-C.

The exit status is 1 if a point or the result of a search is on disk, as at the time limit; otherwise 128 and the number of
the signal, as in shells.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from select import select  # the handler must not import: it may interrupt an import

# `typing` is not imported: its import takes long, and Ctrl-C before `begin` prints a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import Any

STOPPED = 1  # the exit status of a stopped search whose best point is on disk, and of any command at its time limit
# The signals that stop a command. Windows has no SIGHUP.
STOPS = tuple(getattr(signal, x) for x in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, x))
SIGNALLED = 128  # added to the number of the signal that stopped a command, the sum is the exit status, as in shells
# Seconds that the main thread has to handle a signal, before the watching thread ends the process:
PATIENCE = 0.3  # if there is no result to write
GRACE = 1.2  # if there is a result of a search to write; with WRITING and the end of the process about two seconds
WRITING = 0.6  # further seconds to write the result, if the main thread has received the signal
# Shares of the time limit that the user has given to a command:
SEARCH_SHARE = 0.9  # after this share the search ends
LATE = 1.08  # after this share the process is ended; 1.1 with the start of Python, before the clock starts
SHOW_CURSOR = "\x1b[?25h"  # the updating progress line hides the cursor


class Guard:
    """Decides how the process ends on a signal or at its time limit, and keeps the message that is printed then."""

    def __init__(self) -> None:
        self._signal: int = signal.SIGINT
        self.keeps = self._alone = False
        self.words: Callable[[], str] = lambda: "interrupted; nothing was written."
        self._count, self._writing = 0, -1
        self._stands = ""
        self._before: dict[int, Any] = {}
        self._timer: threading.Timer | None = None

    @property
    def status(self) -> int:
        """The exit status of a command that is interrupted: `STOPPED` if a point or the result of its search is on disk;
        otherwise 128 and the number of the first signal, that of Ctrl-C before any signal.
        """
        return STOPPED if self._stands else SIGNALLED + self._signal

    def begin(self) -> None:
        """Notes that the process runs this command alone and may be ended, and installs the handler of the signals `STOPS`.

        A signal that the process ignores stays ignored: SIGINT in a shell's background process, SIGHUP under nohup.
        """
        self._alone = True
        for number in STOPS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        if not self._before:
            return
        import threading

        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._writing = writing
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

    def finish(self) -> None:
        """Cancels the time limit and restores the earlier handlers. Ctrl-C while Python exits gives no traceback."""
        if self._timer is not None:
            self._timer.cancel()
        handled = [n for n in self._before if signal.getsignal(n) == self._handle]
        if handled:
            import atexit

            signal.set_wakeup_fd(-1)
            for number in handled:
                atexit.register(signal.signal, number, signal.SIG_DFL)
                signal.signal(number, self._before[number])
            os.close(self._writing)
        self.__init__()

    def limit(self, seconds: float, words: str, started: float | None = None) -> None:
        """Ends the process a tenth after a time limit of `seconds`, counted from `started` (by default from now).

        A search with a result that is not on disk yet is not ended; it stops by itself and writes the result. An earlier
        limit is replaced. `words`: the message at the end.
        """
        if not self.active():
            return
        import threading

        if self._timer is not None:
            self._timer.cancel()
        passed = 0.0 if started is None else time.monotonic() - started
        wait = min(max(LATE * max(seconds, 1.0) - passed, 0.0), threading.TIMEOUT_MAX)
        self._timer = threading.Timer(wait, self._late, (words,))
        self._timer.daemon = True
        self._timer.start()

    def command(self, words: Callable[[], str]) -> None:
        """Notes that a command begins, nothing of which is on disk. `words`: the message if a signal ends it."""
        self.words, self.keeps, self._stands = words, False, ""

    def keep(self) -> None:
        """Notes that the command has a result that is not on disk yet."""
        self.keeps = True

    def on_disk(self, words: str) -> None:
        """Notes that a point of the search is on disk, from which a later run can continue.

        From now on the process ends at its time limit even in the middle of a computation, with the message `words`. After a
        signal the main thread has two seconds to write its result, and less if it is compiling and cannot handle the signal.
        """
        self._stands = words

    def kept(self, words: str) -> None:
        """Notes that the result is on disk: a signal and the time limit now end the process at once; the message at the time
        limit is `words`.
        """
        self.keeps, self._stands = False, words

    def active(self) -> bool:
        """Whether the process runs this command alone, so that ending the process is allowed."""
        return self._alone

    def is_signalled(self) -> bool:
        """Whether a signal has arrived, after which a result must be written within two seconds."""
        return self._count > 0

    def _handle(self, number: int, frame: object) -> None:
        self._count += 1
        if self._count == 1:
            self._signal = number
            if self.keeps:
                raise KeyboardInterrupt
        self.end(self.status, self.words())

    def _watch(self, reading: int) -> None:
        from threading import Event

        count = 0
        while data := os.read(reading, 1):
            if data[0] in STOPS:
                count += 1
                if count == 1:
                    self._signal = data[0]
                if count > 1 or not self.keeps:
                    Event().wait(PATIENCE)
                    self.end(self.status, self.words())
                else:
                    self._let_write()

    def _let_write(self) -> None:
        """Waits while the main thread writes the result of its search; then ends the process if a point of the search is on
        disk.
        """
        from threading import Event

        Event().wait(GRACE)
        if self._count:  # the main thread has received the signal: no compiler occupies it
            Event().wait(WRITING)
        if self._stands:  # it is empty after `finish`
            self.end(self.status, self.words())

    def _late(self, words: str) -> None:
        if self._stands or not self.keeps:
            self.end(STOPPED, self._stands or words)

    def end(self, status: int, words: str = "") -> None:
        """Prints `words`, the reason, and ends the process at once, without cleanup and without waiting for threads or for
        readers of a pipe.
        """
        for stream in (sys.stdout, sys.stderr):
            try:
                if _ready(stream.fileno()):
                    stream.flush()
            except (AttributeError, OSError, ValueError, RuntimeError):
                continue  # there is no stream, it is closed, or the signal arrived during a write
        cursor = SHOW_CURSOR if os.isatty(2) else ""
        line = f"{cursor}jaxhamel: {words}\n" if words else cursor
        try:
            if _ready(2):
                os.write(2, line.encode("utf-8", "backslashreplace"))
        finally:
            os._exit(status)


def _ready(descriptor: int) -> bool:
    """Whether a write to a file descriptor returns at once; False for a full pipe and for a stopped terminal."""
    if sys.platform == "win32":
        return True
    return bool(select([], [descriptor], [], 0)[1])


def search_seconds(budget: float, started: float) -> float:
    """The seconds left for a search: nine tenths of the command's time limit, less the time since `started`; at least 1.

    The last tenth is for writing the files; a command ends a tenth after its limit in any case.
    """
    return max(SEARCH_SHARE * budget - (time.monotonic() - started), 1.0)


guard = Guard()
