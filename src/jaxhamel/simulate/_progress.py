"""The progress meters of `simulate`: a line with percent of the time span and the time left."""

import sys
import time

import diffrax


class TimeLeftMeter(diffrax.TextProgressMeter):
    """Reports percent of the time span, seconds elapsed and seconds left, on standard error.

    On a terminal one line is rewritten; in a file each report is a line of its own. diffrax calls back at most every 2 %
    of the time span. Under vmap the slowest trajectory counts.
    """

    @staticmethod
    def _init_bar():
        return [0.0, time.monotonic()]

    @staticmethod
    def _step_bar(bar, progress):
        bar[0] = float(progress)
        _report(*bar)

    @staticmethod
    def _close_bar(bar):
        if sys.stderr.isatty():
            sys.stderr.write("\n")


def _report(progress: float, started: float) -> None:
    taken = time.monotonic() - started
    left = taken * (1.0 - progress) / progress if progress > 0 else float("nan")
    line = f"simulate: {100 * progress:5.1f} %   {taken:6.1f} s taken   {left:6.1f} s left"
    sys.stderr.write(f"\r{line}" if sys.stderr.isatty() else f"{line}\n")
    sys.stderr.flush()


_NONE = diffrax.NoProgressMeter()


def meter(progress) -> diffrax.AbstractProgressMeter:
    """The progress meter for the argument `progress` of `simulate`: a meter as given, True, or no progress."""
    if isinstance(progress, diffrax.AbstractProgressMeter):
        return progress
    return TimeLeftMeter() if progress else _NONE
