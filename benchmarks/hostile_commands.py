"""Throws hundreds of inputs at the command line and sorts how each ended.

    python benchmarks/hostile_commands.py --seed 1 --random 300 --limit 60

Every input runs in a process of its own, forked from one that has imported JAX (`--fresh`: in a new interpreter). Ends:

- `good`: exit status 0, 1, 2 or 130 with one clear line (or none, for 0), in time, nothing written outside of its folder;
- `itself`: an error that the command line calls its own;
- `traceback`, `late` (beyond the limit and a tenth), `outside` (a file elsewhere), `half` (a file that was left partial),
  `silent` (a failure without a word), `died` (by a signal): none of these may come.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jaxhamel
from jaxhamel.cli._scenario._scenario import built_in

TOP = """
[system]
kind = "heavy-top"
mass = 1.0
inertia = [0.02, 0.021, 0.004]
com = [0.0, 0.0, 0.1]
[time]
end = 0.1
samples = 5
"""
IDENTIFY = """
[system]
kind = "heavy-top"
mass = 1.3
inertia = [0.02, 0.021, 0.004]
com = [0.0, 0.0, 0.1]
[[measurements]]
quantity = "orientation"
noise = 0.01
[[parameters]]
kind = "positive"
path = "mass"
[truth]
mass = 1.0
[synthetic]
seconds = 0.5
rate = 20.0
[fit]
segments = 1
max_iterations = 3
"""
SPREAD = """
[montecarlo]
trajectories = 4
samples = 3
[[montecarlo.spread]]
key = "system.mass"
std = 0.01
"""
HUGE = [
    "1e12",
    "1" + 30 * "0",
    "1" + 400 * "0",
    "1" + 5000 * "0",
    "1e300",
    "1e308",
    "1e-300",
    "-1e308",
]
ODD = [
    "nan",
    "inf",
    "-inf",
    "0",
    "-1",
    "1",
    "true",
    '""',
    '"x"',
    "[]",
    "[[]]",
    "[1e308, 1e308, 1e308]",
    "{}",
    "{a=1}",
    "[" * 400 + "]" * 400,
    "1979-05-27",
    "'\\u0000'",
    '"$\\\\frac{$"',
    '"\\u001b[2J"',
    '"' + 300 * "n" + '"',
    '"../evil"',
    '"<script>"',
    "[nan, 1, 2]",
    "[0, 0, 0]",
    "[1, 2]",
    "[[1, 2], [3]]",
    "1_0",
    "0x10",
    "1e-12",
    "1000000000",
    "[1e-300, 1e-300, 1e-300]",
    "1e200",
    "[1e200, 1e200, 1e200]",
    "1\ntime.end=3",
]
SYSTEM = [
    "mass",
    "inertia",
    "com",
    "gravity",
    "mas",
    "kind",
    "com.0",
    "com.7",
    "com.x",
    "shell_mass.T",
    "__class__",
]
TIME = [f"time.{key}" for key in ("start", "end", "samples", "x")]
SOLVER = [f"solver.{key}" for key in ("method", "rtol", "atol", "dt", "max_steps")]
START = [f"initial.{key}" for key in ("orientation", "omega")]
KEYS = {
    "simulate": [*(f"system.{key}" for key in SYSTEM), *TIME, *SOLVER, *START, "title", "description", "control.value"],
    "control": [
        f"task.{key}"
        for key in ("coefficients", "steps", "degree", "period", "ramp", "rest", "width", "max_iterations",
                    "max_seconds", "goal", "cost_tolerance", "tracking_weight", "lower", "upper", "friction_limit",
                    "perturbation", "path")
    ] + TIME,
    "montecarlo": [
        f"montecarlo.{key}"
        for key in ("trajectories", "samples", "dt", "rtol", "atol", "sampler", "spread", "friction_limit",
                    "spread.0.key", "spread.0.std", "spread.0.relative", "spread.0.distribution")
    ] + TIME,
    "identify": [
        "fit.dt", "fit.segments", "fit.starts", "fit.spread", "fit.max_iterations", "fit.max_seconds", "fit.loss",
        "synthetic.seconds", "synthetic.rate", "synthetic.runs", "synthetic.noise", "synthetic.speed", "data.files",
        "data.time", "data.time_unit", "data.required", "measurements.0.name", "measurements.0.columns",
        "measurements.0.noise", "measurements.0.unit", "measurements.0.part", "measurements.0.limit",
        "measurements.0.quantity", "parameters.0.path", "parameters.0.kind", "parameters.0.prior_mean",
        "parameters.0.frozen", "truth.mass", "fitted",
    ],
}  # fmt: skip
OPTIONS = {
    "--seed": ["-1", "1e30", str(10**30), "x", "٣"],
    "--out": [
        "/dev/null/x",
        "/proc/nothing",
        300 * "o",
        "",
        "\udce4",
        "$\\frac{$",
        "a\nb",
        "/dev/full",
    ],
    "--max-seconds": ["nan", "inf", "-1", "0", "1e400", "x"],
    "--trajectories": ["0", "-3", str(10**30), "1e3"],
    "--accuracy": ["x", "x=1", "end_u0=nan", "end_u0=-1", "=", "failed=0"],
    "--index": ["-1", "99", str(10**30)],
    "--data": ["/nothing", "/dev/full", "/root", "", "\udce4"],
}
TAKES = {
    "simulate": ["--out"],
    "control": ["--out", "--seed", "--max-seconds"],
    "montecarlo": ["--out", "--seed", "--trajectories", "--accuracy", "--index"],
    "identify": ["--out", "--seed", "--max-seconds", "--data"],
}
ENVIRONMENT = [
    {"MPLBACKEND": "nothing"}, {"JAX_PLATFORMS": "nothing"}, {"JAX_ENABLE_X64": "maybe"}, {"LC_ALL": "C"},
    {"PYTHONIOENCODING": "ascii"}, {"TERM": "nothing"}, {"COLUMNS": "x"}, {"NO_COLOR": "1", "COLUMNS": "1"},
    {"HOME": "/nothing"},
]  # fmt: skip


def scenario_of(command):
    return {"simulate": TOP, "montecarlo": TOP + SPREAD, "identify": IDENTIFY, "control": None}[
        command
    ]


def fixed():
    """(command, --set options, other options, environment, content of the scenario) of every case that is known."""
    for command, keys in KEYS.items():
        for key in keys:
            if key.split(".")[-1] in (
                "samples",
                "steps",
                "coefficients",
                "max_steps",
                "dt",
                "end",
                "rtol",
                "trajectories",
            ):
                for value in ("1000000000000", "1e300", "1" + 400 * "0", "1e-12"):
                    yield command, [f"{key}={value}"], [], {}, None
    for command, options in TAKES.items():
        for option in options:
            for value in OPTIONS[option]:
                yield command, [], [option, value], {}, None
    for environment in ENVIRONMENT:
        yield "simulate", ["title=Тест"], [], environment, None
    for content in (
        "", "\ufeff" + TOP, "[" * 100_000, "a=" + "[" * 3000, TOP + "x = 1" + "0" * 5000, "\x00", TOP * 2, "a.b=1\na=2",
        TOP.replace("1.0\n", "1e308\n", 1), TOP.replace("[time]", "[initial]\nomega = [1e200, 0, 0]\n[time]"),
    ):  # fmt: skip
        yield "simulate", [], [], {}, content


def drawn(rng):
    command = rng.choice([*KEYS, "simulate", "identify", "montecarlo"])
    changes = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        changes.append(f"{rng.choice(KEYS[command])}={rng.choice(HUGE + ODD + ODD)}")
    options, content = [], None
    if rng.random() < 0.15:
        option = rng.choice(TAKES[command])
        options = [option, rng.choice(OPTIONS[option])]
    if rng.random() < 0.15:
        text = list(scenario_of(command) or TOP)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 6)] = rng.choice(
                ["", "[", "]", "\n", '"', "=", "é", "9" * 400, ".", "\x07"]
            )
        content = "".join(text)
    return command, changes, options, {}, content


def arguments_of(case, folder):
    command, changes, options, _, content = case
    text = content if content is not None else scenario_of(command)
    source = "figure-eight"
    if text is not None:
        source = str(folder / "a.toml")
        Path(source).write_bytes(text.encode("utf-8", "surrogateescape"))
    options = list(options)
    if "--out" not in options:
        options += ["--out", str(folder / "out")]
    if command == "control" and "--max-seconds" not in options:
        options += ["--max-seconds", "20"]
    return [command, source, *(part for change in changes for part in ("--set", change)), *options]


def run(case, limit, fresh):
    """(how it ended, exit status, seconds, what was said)."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    (folder / "work").mkdir()
    arguments = arguments_of(case, folder)
    started = time.monotonic()
    with open(folder / "said", "wb") as said:
        process = (
            _fresh(arguments, case[3], folder, said)
            if fresh
            else _forked(arguments, case[3], folder, said)
        )
        status = _waited(process, started + 1.1 * limit)
    seconds, text = time.monotonic() - started, (folder / "said").read_text("utf-8", "replace")
    ended = _sorted(status, text, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return ended, status, seconds, text


def _forked(arguments, environment, folder, said):
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        os.chdir(folder / "work")
        os.environ.update(environment)
        sys.argv = ["jaxhamel", *arguments]
        from jaxhamel.cli import main

        main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(70)


def _fresh(arguments, environment, folder, said):
    return subprocess.Popen(
        [sys.executable, "-m", "jaxhamel", *arguments], cwd=folder / "work", stdout=said, stderr=said,
        env={**os.environ, **environment}, start_new_session=True,
    ).pid  # fmt: skip


def _waited(process, until):
    while time.monotonic() < until:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _sorted(status, text, folder):
    lines = [
        line
        for line in text.splitlines()
        if line.startswith("jaxhamel: ") or line.startswith("│") or "Error" in line
    ]
    if status is None:
        return "late"
    if "Traceback" in text:
        return "traceback"
    if status < 0:
        return "died"
    if "error in jaxhamel itself" in text:
        return "itself"
    out = [
        path for path in folder.rglob("*") if path.is_file() and path.name not in ("a.toml", "said")
    ]
    if any(
        folder / "out" not in path.parents and folder / "work" not in path.parents for path in out
    ):
        return "outside"
    if any(path.name.endswith(".partial") or not path.stat().st_size for path in out):
        return "half"
    if status not in (0, 1, 2, 130) or (status and not lines):
        return "silent"
    return "good"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--random", type=int, default=100, help="inputs drawn, beside those that are known"
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of one input")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--only", type=int, default=10**9, help="how many at most")
    parser.add_argument("--fresh", action="store_true")
    asked = parser.parse_args()
    assert built_in()
    if not asked.fresh:
        _ = jaxhamel.simulate
        import zarr  # noqa: F401
    rng = random.Random(asked.seed)
    cases = [*fixed(), *(drawn(rng) for _ in range(asked.random))]
    counts = collections.Counter()
    for number, case in list(enumerate(cases))[asked.skip :][: asked.only]:
        ended, status, seconds, text = run(case, asked.limit, asked.fresh)
        counts[ended] += 1
        if ended != "good":
            shown = [
                case[0],
                [c[:80] for c in case[1]],
                [o[:40] for o in case[2]],
                case[3],
                case[4] and case[4][:80],
            ]
            print(
                f"{number}: {ended} ({status}, {seconds:.1f} s) {json.dumps(shown)}\n    {text.strip()[-400:]!r}",
                flush=True,
            )
    print(dict(counts))
    return 0 if set(counts) <= {"good"} else 1


if __name__ == "__main__":
    sys.exit(main())
