"""Kills commands at random moments, takes their disk or folder away, and looks at what is left: nothing lost, nothing half.

    python benchmarks/killed_commands.py --seed 1 --faults 200 --kind kill
    python benchmarks/killed_commands.py --seed 1 --faults 60 --kind interrupt

Kinds: `kill` (`kill -9`), `interrupt` (Ctrl-C), `writers` (two commands in one folder), `full` (a small file system, which
only root can make), `limit` (a file may not grow any longer), `vanish` (the folder is removed), `move` (it is renamed),
`replace` (a file stands in its place). A command begins in an empty folder or in one with a whole result of another run, is
hit after a random time or after a random number of changes in its folder, and is often run again to its end. A kill or
Ctrl-C that comes after the end of the command is drawn again.

Whatever happens, every file there is, byte for byte, of the run before or of this one; beside a `summary.json` all are of
its run; the command that is run again ends as if nothing had happened; blocks of an ensemble that were on disk are not
computed again; and an error is one line.
"""

import argparse
import collections
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hostile_cases import FITTED, IDENTIFY, RUN, SPREAD, TOP
from hostile_commands import preload
from hostile_plans import CART, LOOP, TO_POINT

SHORT = (
    "time.end=1.2",
    "task.coefficients=9",
    "task.ramp=1.0",
    "task.steps=4",
    "task.goal=6e-3",
    "task.max_seconds=600",
)
LIMITED = ("method.intervals=10", "task.lower=[-5.8]", "task.upper=[6.5]")  # limits that bind
# files of a summary that is written before anything is examined or drawn
EARLY = (
    ["summary.json", "search.npz"],
    ["summary.json", "solution.toml", "search.npz"],
    ["summary.json", "solution.toml"],
    ["summary.json", "parameters.csv", "fitted.toml"],
)
SOURCES = {
    "top.toml": TOP,
    "many.toml": TOP + SPREAD,
    "fit.toml": IDENTIFY,
    "fitted.toml": FITTED,
    "run.csv": RUN,
    "cart.py": CART,
    "point.toml": TO_POINT,
    "loop.toml": LOOP,
}
TIMED = (".html", ".json", ".npz")  # of their moment: seconds that were taken, a search under way
SO_FAR = ("solution.toml", "fitted.toml")  # without a summary also of their moment
KINDS = ("kill", "interrupt", "writers", "full", "limit", "vanish", "move", "replace")
TRIES = 8
LOSE = (
    "montecarlo",
    "new",
    "plan",
)  # commands that go on from what is there: always run again; of others every fourth


@dataclass(frozen=True)
class Job:
    """A command; `two` are options for two different runs, and `again` the options that resume it after a kill."""

    arguments: tuple[str, ...]
    two: tuple[tuple[str, ...], tuple[str, ...]]
    again: tuple[str, ...] = ()


def _set(*changes: str) -> tuple[str, ...]:
    return tuple(part for change in changes for part in ("--set", change))


JOBS = {
    "simulate": Job(("simulate", "top.toml"), (_set("system.mass=2.0"), _set("system.mass=3.0"))),
    "control": Job(
        ("control", "circle", *_set(*SHORT)), (_set("task.goal=7e-3"), _set("task.goal=8e-3"))
    ),
    "montecarlo": Job(
        ("montecarlo", "many.toml", "-n", "3000"), (("--seed", "1"), ("--seed", "1")), ("--resume",)
    ),
    "identify": Job(
        ("identify", "fit.toml", *_set("fit.max_iterations=40")), (("--seed", "1"), ("--seed", "2"))
    ),
    "predict": Job(
        ("predict", "fitted.toml", "run.csv"), (("--seconds", "0.2"), ("--seconds", "0.3"))
    ),
    "plan": Job(
        ("control", "point.toml", "--system", "cart.py:Cart", *_set(*LIMITED)),
        (_set("task.q=[3.9]"), _set("task.q=[4.0]")),
        ("--resume",),
    ),
    "loop": Job(
        ("control", "loop.toml", "--system", "cart.py:Cart"),
        (_set("task.q=[1.5]"), _set("task.q=[1.4]")),
    ),
    "new": Job(("new", "trolley"), ((), ())),
}


class Wrong(Exception):
    """Raised if a result is wrong."""


def begin(arguments: list[str], sources: Path, said: Path, largest: int | None = None) -> int:
    """Starts a command in a process forked from this one, which has imported JAX."""
    process = os.fork()
    if process:
        return process
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(sources)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    sys.argv = ["jaxhamel", *arguments]
    try:
        from jaxhamel.cli import main

        main()
    except SystemExit as end:
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(70)


def ended(process: int, seconds: float = 300.0) -> int:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise Wrong(f"it did not end in {seconds:g} s")


def contents(folder: Path) -> dict[str, bytes]:
    """All complete files, without the blocks of ensembles."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".partial") and "values.zarr" not in path.parts
    }


def state(folder: Path) -> set[tuple[str, int, int]]:
    """Names, sizes and times of all files; changes if anything is written."""
    found = set()
    for path in folder.rglob("*"):
        with suppress(OSError):
            about = path.lstat()
            found.add((str(path), about.st_mtime_ns, about.st_size))
    return found


def whole(name: str, content: bytes) -> None:
    """Checks that a file whose content varies is complete."""
    if name.endswith(".json"):
        json.loads(content)
    elif name.endswith(".toml"):
        tomllib.loads(content.decode())
    elif name.endswith(".npz"):
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            if {"asked", "shares"} - {*file.files} or not all(
                np.all(file[x] == file[x]) for x in file.files
            ):
                raise Wrong(f"{name} is not whole")
    elif name.endswith(".html") and not content.rstrip().endswith(b"</html>"):
        raise Wrong(f"{name} has no end")


def check(folder: Path, references: list[dict[str, bytes]]) -> None:
    """Checks that each file is of one of the runs, and that all are of the same run if there is a `summary.json`."""
    there = contents(folder)
    for name, content in there.items():
        whole(name, content)
        under_way = name in SO_FAR and "summary.json" not in there
        if not content or (
            not (name.endswith(TIMED) or under_way)
            and content not in [r.get(name) for r in references]
        ):
            raise Wrong(f"{name} ({len(content)} bytes) is of no run")
    if "summary.json" in there:
        summary = json.loads(there["summary.json"])
        missing = [name for name in summary["files"] if not (folder / name).exists()]
        same = [
            all(
                there.get(name) == content
                for name, content in r.items()
                if not name.endswith(TIMED)
            )
            for r in references
            if json.loads(r["summary.json"])["asked"] == summary["asked"]
        ]
        if summary["files"] in EARLY:
            same = [True]
        if missing or not any(same):
            raise Wrong(f"a summary beside files of another run, or without {missing}")


def blocks(folder: Path) -> dict[str, tuple[int, int]]:
    """The blocks of an ensemble that are on disk."""
    found = (folder / "values.zarr").rglob("c/*") if (folder / "values.zarr").exists() else []
    return {
        str(p): (p.stat().st_mtime_ns, p.stat().st_ino)
        for p in found
        if p.is_file() and not p.name.endswith(".partial")
    }


@dataclass
class Workplace:
    """The sources, and two complete runs of each command."""

    sources: Path
    references: dict[str, list[dict[str, bytes]]]
    seconds: dict[str, float]
    changes: dict[str, int]

    @classmethod
    def made(cls, top: Path, names: list[str]) -> "Workplace":
        sources = top / "sources"
        sources.mkdir()
        for name, text in SOURCES.items():
            (sources / name).write_text(text, encoding="utf-8")
        made = cls(sources, {}, {}, {})
        for name in names:
            made.references[name] = []
            for number, options in enumerate(JOBS[name].two):
                out, started, changes = top / f"{name}-{number}", time.monotonic(), 0
                process, before = (
                    begin(made.asked(name, options, out), sources, top / f"{name}.said"),
                    set(),
                )
                while not (found := os.waitpid(process, os.WNOHANG))[0]:
                    now = state(out)
                    changes, before = changes + (now != before), now
                    time.sleep(0.001)
                if found[1]:
                    raise Wrong((top / f"{name}.said").read_text())
                made.seconds[name], made.changes[name] = time.monotonic() - started, changes
                made.references[name].append(contents(out))
        return made

    def asked(self, name: str, options: tuple[str, ...], out: Path) -> list[str]:
        return [*JOBS[name].arguments, *options, "--out", str(out)]


def hit_after(rng: random.Random, place: Workplace, name: str, out: Path) -> Callable[[int], bool]:
    """Waits for the moment; returns whether the process was still running."""
    changes = rng.randint(1, place.changes[name]) if rng.random() < 0.6 else None
    seconds = rng.uniform(0.0, 0.03) if changes else rng.uniform(0.0, 0.98 * place.seconds[name])

    def wait(process: int) -> bool:
        count, before, until = 0, state(out), time.monotonic() + (300.0 if changes else seconds)
        while time.monotonic() < until and count < (changes or 1e9):
            if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return False
            now = state(out)
            count, before = count + (now != before), now
            time.sleep(0.0005)
        time.sleep(seconds if changes else 0.0)
        return not os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    return wait


@contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[None]:
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)], check=True
    )
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def one_line(text: str, pattern: str) -> None:
    """Checks that the last line matches, without a traceback."""
    last = text.strip().splitlines()[-1] if text.strip() else ""
    if (
        "Traceback" in text
        or "Exception" in text
        or "jaxhamel itself" in text
        or not re.search(pattern, last)
    ):
        raise Wrong(f"it said {text[-900:]!r}")


def fault(kind: str, name: str, rng: random.Random, place: Workplace, top: Path) -> str:
    """Causes one fault; returns how it was met. **Raises:** `Wrong`."""
    job, references, said, out = JOBS[name], place.references[name], top / "said", top / "out"
    older = rng.random() < 0.5 and name not in ("montecarlo", "new")
    first, second = job.two
    if kind == "full":
        with small_disk(top / "disk", rng.choice([4, 16, 40, 80, 160, 320, 640])):
            status = ended(
                begin(place.asked(name, second, top / "disk" / "out"), place.sources, said)
            )
            if status:
                one_line(said.read_text(), "No space left on device")
            if (top / "disk" / "out").is_dir():
                check(top / "disk" / "out", references[1:])
        return "ended before" if status == 0 else "said"
    if older:
        for path, content in references[0].items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_bytes(content)
    wait = hit_after(rng, place, name, out)
    largest = rng.choice([1_000, 3_000, 10_000, 50_000, 100_000]) if kind == "limit" else None
    process = begin(place.asked(name, second, out), place.sources, said, largest)
    if kind == "limit":
        status, met = ended(process), True
    else:
        met = wait(process)
        if kind == "kill":
            os.kill(process, signal.SIGKILL)
            status = ended(process)
        elif kind == "interrupt":
            sent = time.monotonic()
            os.kill(process, signal.SIGINT)
            status, taken = ended(process), time.monotonic() - sent
            search = name in ("control", "identify")  # status 1: its point is on disk
            if (met and status not in (0, 130, -2, *((1,) if search else ()))) or (
                taken > 2.0 and not search
            ):
                raise Wrong(
                    f"exit status {status} after {taken:.1f} s: {said.read_text()[-900:]!r}"
                )
        elif kind == "writers":
            other = begin(place.asked(name, first, out), place.sources, top / "other")
            status, second_status = ended(process), ended(other)
            for text, code in ((said, status), (top / "other", second_status)):
                if code:
                    one_line(
                        text.read_text(),
                        "another command is writing there|another process|there already|holds|--resume",
                    )
            if status and second_status:
                raise Wrong(
                    f"neither wrote: {said.read_text()[-300:]!r} {(top / 'other').read_text()[-300:]!r}"
                )
        else:
            with suppress(FileNotFoundError):
                out.rename(top / "moved")
            if kind == "vanish":
                shutil.rmtree(top / "moved", ignore_errors=True)
            elif kind == "replace" and not out.exists():
                out.write_text("x")
            status = ended(process)
    text = said.read_text("utf-8", "replace")
    if "Traceback" in text:
        raise Wrong(f"it said {text[-1500:]!r}")
    if status not in (0, -signal.SIGKILL, -signal.SIGINT):
        one_line(text, "^jaxhamel: ")
    if kind == "replace" and out.is_file():
        out.unlink()
    for folder in (out, top / "moved"):
        if folder.is_dir():
            check(folder, references)
    if kind not in ("vanish", "move", "replace") and (name in LOSE or rng.random() < 0.25):
        _again(name, place, out, top)
    return "ended before" if status == 0 else "met"


def in_time(kind: str, name: str, rng: random.Random, place: Workplace, folder: Path) -> str:
    """Causes one fault; repeats it (at most `TRIES` times) if the command had ended before."""
    found = ""
    for _ in range(TRIES if kind in ("kill", "interrupt") else 1):
        folder.mkdir()
        try:
            found = fault(kind, name, rng, place, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if found != "ended before":
            break
    return found


def _again(name: str, place: Workplace, out: Path, top: Path) -> None:
    """Runs the command again to its end and checks that it ends as if nothing had happened."""
    job, kept = JOBS[name], blocks(out)
    resumed = (out / "search.npz").exists()
    options = job.again if resumed or (out / "values.zarr").exists() else ()
    left = (
        [path for path in out.glob("*") if not path.name.endswith(".partial")]
        if out.exists()
        else []
    )
    status = ended(
        begin(place.asked(name, (*job.two[1], *options), out), place.sources, top / "again")
    )
    text = (top / "again").read_text("utf-8", "replace")
    if name == "new" and left:
        return one_line(text, "there already; nothing was written")
    if status:
        raise Wrong(f"not done again ({status}): {text[-900:]!r}")
    if resumed:
        _as_good(out, place.references[name][1])
        return None
    check(out, place.references[name][1:])
    if any(out.rglob(".*.partial")) and name != "new":
        raise Wrong("what was left half is still there")
    if any(blocks(out).get(path) != about for path, about in kept.items()):
        raise Wrong("blocks on disk were computed again")
    if name == "montecarlo":
        now, then = (
            json.loads(x["summary.json"])["statistics"]
            for x in (contents(out), place.references[name][1])
        )
        if now != then:
            raise Wrong("other statistics")


def _as_good(out: Path, reference: dict[str, bytes]) -> None:
    """Checks that a resumed search ends with the same optimum and removes its file."""
    now, then = (json.loads(x["summary.json"]) for x in (contents(out), reference))
    costs = [found["reached"]["cost"] for found in (now, then)]
    if now["status"] != "success" or abs(costs[0] - costs[1]) > 1e-7 * abs(costs[1]):
        raise Wrong(f"resumed: {now['status']}, {costs[0]} in place of {costs[1]}")
    if (out / "search.npz").exists() or set(now["files"]) != set(contents(out)):
        raise Wrong("resumed: other files than those of the summary")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=20, help="of each kind")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=["kill"])
    parser.add_argument("--commands", nargs="*", default=list(JOBS), choices=list(JOBS))
    asked = parser.parse_args()
    preload()
    counts = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="killed-") as top:
        place = Workplace.made(Path(top), asked.commands)
        print(
            {name: (round(place.seconds[name], 1), place.changes[name]) for name in asked.commands},
            flush=True,
        )
        for number, kind in enumerate(asked.kind * asked.faults):
            rng = random.Random(f"{asked.seed} {kind} {number}")
            name = rng.choice(asked.commands)
            try:
                found = in_time(kind, name, rng, place, Path(top) / str(number))
            except Wrong as error:
                found = "wrong"
                print(f"{number} {kind} {name}: {error}", flush=True)
            counts[kind, name, found] += 1
            if number % 25 == 24:
                print(f"after {number + 1}: {dict(counts)}", flush=True)
    print(dict(counts))
    return int(any(found == "wrong" for *_, found in counts))


if __name__ == "__main__":
    sys.exit(main())
