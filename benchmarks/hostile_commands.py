"""Throws hundreds of inputs at the command line and sorts how each ended.

    python benchmarks/hostile_commands.py --seed 1 --random 300 --limit 60

The inputs are those of `hostile_known.py`, then random ones (`hostile_cases.py`). Each runs in a process of its own, forked
from one that has imported JAX, or, where the interpreter's environment is part of it, in a new one (`--fresh`: all). Ends:

- `good`: exit status 0, 1, 2 or 130 (one that is right for this input), one clear line for a failure, in time, nothing
  outside of its folder;
- `itself`: an error that the command line calls its own;
- `traceback`, `late` (beyond the limit and a tenth), `outside` (a file elsewhere, or a link that was followed), `half` (a
  file that was left partial), `silent` (a failure without a word, unless nobody reads), `died` (by a signal), `wrong`
  (another exit status, or something else said), `obeyed` (a terminal, page or spreadsheet would act on a text), `long` (an
  endless message): none of these may come.
"""

import argparse
import collections
import csv
import gc
import importlib
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from hostile_cases import IMAGE, Case, drawn
from hostile_known import known
from hostile_plans import drawn_plan
from hostile_searches import drawn_search
from hostile_strangers import bench_cases, drawn_stranger
from hostile_systems import drawn_system

INPUTS = ("said", "victim", "secret.csv")
CAPABILITIES = "-dac_override,-dac_read_search"
LONGEST = 6_000  # characters of a message; help has more
SPAWN = 0.5  # a process may take this many seconds to begin and to end
MEMORY = 12 * 2**30  # a command may use this many bytes of address space


def preload() -> None:
    """Imports all modules that commands import, so that forked processes need not; starts no device."""
    os.environ["MPLBACKEND"] = "agg"
    import matplotlib.pyplot  # noqa: F401
    import zarr  # noqa: F401

    for folder in ("simulate", "systems", "control", "ensemble", "identify", "viz", "cli"):
        package = importlib.import_module(f"jaxhamel.{folder}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    gc.freeze()


def run(case: Case, limit: float, fresh: bool):
    """Runs a case: (how it ended, exit status, seconds, its output)."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    (folder / "work").mkdir()
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    if case.before is not None:
        case.before(folder)
    arguments = [part.replace("FOLDER", str(folder)) for part in case.arguments]
    started = time.monotonic()
    with open(folder / "said", "wb") as said:
        start = _fresh if fresh or case.fresh else _forked
        status = _waited(start(case, arguments, folder, said), started + 1.1 * limit)
    seconds, text = time.monotonic() - started, (folder / "said").read_text("utf-8", "replace")
    ended = _sorted(case, status, text, folder)
    if ended == "good" and case.limit and seconds > 1.1 * max(case.limit, 1.0) + SPAWN:
        ended = "late"
    (folder / "out").chmod(0o700) if (folder / "out").is_dir() else None
    shutil.rmtree(folder, ignore_errors=True)
    return ended, status, seconds, text


def _forked(case: Case, arguments: list[str], folder: Path, said) -> int:
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        os.chdir(folder / "work")
        sys.argv = ["jaxhamel", *arguments]
        from jaxhamel.cli import main

        main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(70)


def _fresh(case: Case, arguments: list[str], folder: Path, said) -> int:
    program = [sys.executable, "-m", "jaxhamel", *arguments]
    if case.stripped:
        program = [
            "setpriv",
            f"--bounding-set={CAPABILITIES}",
            f"--inh-caps={CAPABILITIES}",
            *program,
        ]
    with _output(case.stdout, said) as output:
        return subprocess.Popen(
            program, cwd=folder / "work", stdin=subprocess.DEVNULL, stdout=output, stderr=said, start_new_session=True,
            env={**os.environ, **case.environment},
        ).pid  # fmt: skip


@contextmanager
def _output(kind: str, said):
    """The target of standard output: together with the errors, a full device, or a pipe that nobody reads."""
    if not kind:
        yield said
        return
    target = "/dev/full"
    if kind == "closed":
        reading, target = os.pipe()
        os.close(reading)
    with open(target, "wb") as output:
        yield output


def _waited(process: int, until: float) -> int | None:
    while time.monotonic() < until:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _sorted(case: Case, status: int | None, text: str, folder: Path) -> str:
    if status is None:
        return "late"
    if "Traceback" in text and "own.py" not in text:  # of a file that was given, its own
        return "traceback"
    if status < 0:
        return "died"
    if "error in jaxhamel itself" in text:
        return "itself"
    given = {folder / name for name in (*case.files, *INPUTS)}
    there = [path for path in folder.rglob("*") if path.is_file() and path not in given]
    victim = folder / "victim"
    if any(folder / "out" not in p.parents and folder / "work" not in p.parents and p.name != "out" for p in there) or (
        victim.exists() and victim.read_text() != "untouched"
    ) or any(Path("/tmp").glob("evil*")):  # fmt: skip
        return "outside"
    if case.before is None and any(
        path.name.endswith(".partial") or not path.stat().st_size for path in there
    ):
        return "half"
    if _obeyed(text, there):
        return "obeyed"
    if status and case.stdout != "closed" and not re.search("jaxhamel: |│|Usage|Error", text):
        return "silent"
    if status not in case.status or (status and case.says not in " ".join(text.split())):
        return "wrong"
    asked = "own.py" in str(case.arguments) or "JAX_LOG_COMPILES" in case.environment
    return "long" if len(text) > LONGEST and "Usage:" not in text and not asked else "good"


def _obeyed(text: str, there: list[Path]) -> bool:
    """Whether a terminal, a browser or a spreadsheet would act on a text."""
    if re.search("[\x1b\x07\x9b\u202e]", text):
        return True
    for path in there:
        if path.suffix == ".html" and (
            IMAGE in (page := path.read_text("utf-8")) or "<script>alert" in page
        ):
            return True
        if path.suffix == ".csv":
            with open(path, newline="", encoding="utf-8") as file:
                cells = [
                    cell
                    for row in csv.reader(file)
                    for cell in row
                    if cell.startswith(("=", "+", "-", "@"))
                ]
            if any(not re.fullmatch(r"-(\d.*|inf|nan)", cell) for cell in cells):
                return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--random", type=int, default=100, help="inputs drawn, beside those that are known"
    )
    parser.add_argument(
        "--systems",
        type=int,
        default=0,
        help="named systems with extreme parameters, drawn after these",
    )
    parser.add_argument(
        "--strangers",
        type=int,
        default=0,
        help="systems outside the package with extreme values, and `bench`, drawn after these",
    )
    parser.add_argument(
        "--plans",
        type=int,
        default=0,
        help="problems of optimal control and closed loops, drawn after these",
    )
    parser.add_argument(
        "--searches",
        type=int,
        default=0,
        help="fits in stages, priors, predictions, keys of searches, drawn after these",
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of one input")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--only", type=int, default=10**9, help="how many at most")
    parser.add_argument(
        "--numbers", type=int, nargs="*", help="these inputs alone, with all that they say"
    )
    parser.add_argument("--shuffle", action="store_true", help="in random order, by the seed")
    parser.add_argument("--fresh", action="store_true")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    preload()
    rng = random.Random(asked.seed)
    cases = list(enumerate([*known(), *(drawn(rng) for _ in range(asked.random))]))
    cases += list(enumerate([drawn_system(rng) for _ in range(asked.systems)], len(cases)))
    cases += list(enumerate([drawn_plan(rng) for _ in range(asked.plans)], len(cases)))
    cases += list(enumerate([drawn_search(rng) for _ in range(asked.searches)], len(cases)))
    if asked.strangers:
        own = [*(drawn_stranger(rng) for _ in range(asked.strangers)), *bench_cases()]
        cases += list(enumerate(own, len(cases)))
    if asked.numbers:
        cases = [cases[i] for i in asked.numbers]
    if asked.shuffle:
        rng.shuffle(cases)
    cases = cases[asked.skip :][: asked.only]
    counts, slowest = collections.Counter(), 0.0
    for number, case in cases:
        ended, status, seconds, text = run(case, asked.limit, asked.fresh)
        counts[ended] += 1
        slowest = max(slowest, seconds)
        if ended != "good" or asked.numbers:
            shown = (
                [part[:80] for part in case.arguments],
                case.environment,
                case.stdout,
                case.before and case.before.__qualname__,
            )
            first = next(iter(case.files.values()), b"")[:60]
            print(
                f"{number}: {ended} ({status}, {seconds:.1f} s) {shown} {first!r}\n    {text.strip()[-700:]!r}",
                flush=True,
            )
        if sum(counts.values()) % 20 == 0:
            print(f"after {sum(counts.values())}: {dict(counts)}", flush=True)
    print(f"{dict(counts)}, slowest {slowest:.1f} s")
    return 0 if set(counts) <= {"good"} else 1


if __name__ == "__main__":
    sys.exit(main())
