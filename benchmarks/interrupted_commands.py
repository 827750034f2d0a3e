"""Sends Ctrl-C to commands in new processes, from the start of Python on, and looks at how they end and what they leave.

    python benchmarks/interrupted_commands.py --seed 1 --moments 20

Each command runs once to its end; then half of the signals come within its first second (start of Python, imports), half
at any time until its end. Ends: `stopped` (no traceback, in time, whole files), `done` (the command had ended before),
`python` (a traceback of Python's own start: none of its lines is in this package), and what must not be: `traceback`,
`late` (more than `--patience` seconds; a search first writes its result), `half` (a file that is empty or has no end),
`status` (another exit status).
"""

import argparse
import collections
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from killed_commands import JOBS, SOURCES, whole

SHORT = {name: (*job.arguments, *job.two[1]) for name, job in JOBS.items()}
WITHOUT_FOLDER = {"bench": ("bench",), "scenarios": ("scenarios",), "help": ("--help",)}
WRONG = ("traceback", "late", "half", "status")
SEARCHES = ("control", "identify")


def begin(arguments: tuple[str, ...], folder: Path) -> subprocess.Popen[str]:
    """Starts a command in a process that handles SIGINT as in the foreground."""
    return subprocess.Popen(
        [sys.executable, "-m", "jaxhamel", *arguments], cwd=folder, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def ended(
    name: str, process: subprocess.Popen[str], out: Path, patience: float
) -> tuple[str, float, str]:
    """Interrupts a command: (how it ended, seconds until then, its output)."""
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[0]
    taken = time.monotonic() - sent
    if any(word in said for word in ("Traceback", "KeyboardInterrupt", "Exception ignored")):
        return "traceback" if "jaxhamel" in said else "python", taken, said
    if taken > patience and name not in SEARCHES:
        return "late", taken, said
    files = [path for path in out.rglob("*") if path.is_file() and "values.zarr" not in path.parts]
    for path in files if out.is_dir() else []:
        if not path.name.endswith(".partial"):
            try:
                whole(path.name, path.read_bytes())
            except Exception as error:
                return "half", taken, f"{path.name}: {error}"
            if not path.stat().st_size:
                return "half", taken, path.name
    # a search with a point on disk ends with status 1
    allowed = (0, 130, -signal.SIGINT, *((1,) if name in SEARCHES else ()))
    return ("stopped" if process.returncode in allowed else "status"), taken, said


def moments(asked: argparse.Namespace, name: str, top: Path) -> Iterator[tuple[str, float, str]]:
    """Runs a command to its end, then interrupts it at random times: yields (how it ended, seconds from signal to end,
    line to print)."""
    rng, started = random.Random(f"{asked.seed} {name}"), time.monotonic()
    begin(called(name, "whole"), top).communicate()
    usual = time.monotonic() - started
    print(f"{name}: {usual:.1f} s", flush=True)
    for number in range(asked.moments):
        moment = rng.uniform(0.0, min(1.0, usual) if number % 2 else usual)
        process = begin(called(name, str(number)), top)
        try:
            process.communicate(timeout=moment)
            yield "done", 0.0, ""
        except subprocess.TimeoutExpired:
            found, taken, said = ended(name, process, top / f"{name}-{number}", asked.patience)
            shown = f"{name} at {moment:.3f} s: {found} ({process.returncode}, {taken:.1f} s) {said[-900:]!r}"
            yield found, taken, shown


def called(name: str, folder: str) -> tuple[str, ...]:
    if name in WITHOUT_FOLDER:
        return WITHOUT_FOLDER[name]
    return (*SHORT[name], "--out", f"{name}-{folder}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*SHORT, *WITHOUT_FOLDER]
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--moments", type=int, default=20, help="of each command")
    parser.add_argument("--patience", type=float, default=2.0, help="seconds")
    parser.add_argument("--commands", nargs="*", default=names, choices=names)
    asked, counts, slowest = parser.parse_args(), collections.Counter(), 0.0
    with tempfile.TemporaryDirectory(prefix="interrupted-") as top:
        for name, text in SOURCES.items():
            (Path(top) / name).write_text(text, encoding="utf-8")
        for name in asked.commands:
            for found, taken, shown in moments(asked, name, Path(top)):
                counts[name, found] += 1
                slowest = max(slowest, taken)
                if found not in ("stopped", "done"):
                    print(shown, flush=True)
    print(dict(counts), f"slowest {slowest:.1f} s")
    return int(any(found in WRONG for _, found in counts))


if __name__ == "__main__":
    sys.exit(main())
