"""Inputs for the command line: scenarios, values and options, and random cases of them (`hostile_commands.py`)."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
FITTED = IDENTIFY + '[[fitted]]\npath = "mass"\nvalue = 1.0\n'
ROWS = "".join(f"{i / 20},1,0,0,0\n" for i in range(11))
RUN = "t,qw,qx,qy,qz\n" + ROWS
SCENARIO = {"simulate": TOP, "montecarlo": TOP + SPREAD, "identify": IDENTIFY, "predict": FITTED}
IMAGE = 'x"><img src=q onerror="alert(1)"><script>alert(2)</script>'
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
    "nan", "inf", "-inf", "0", "-1", "1", "true", '""', '"x"', "[]", "[[]]", "[1e308, 1e308, 1e308]", "{}", "{a=1}",
    "[" * 400 + "]" * 400, "1979-05-27", "07:32:00", "'\\u0000'", '"$\\\\frac{$"', '"\\u001b[2J"', '"' + 300 * "n" + '"',
    '"../evil"', '"/tmp/evil"', json.dumps(IMAGE), "[nan, 1, 2]", "[0, 0, 0]", "[1, 2]", "[[1, 2], [3]]", "1_0", "0x10",
    "1e-12", "1000000000", "[1e-300, 1e-300, 1e-300]", "1e200", "[1e200, 1e200, 1e200]", "1\ntime.end=3", "1 # x",
    "[1, [2, {a = []}]]", '"=1+1"', '["a", 1]', "5e-324", '"\\u202e"', "['x']", '"nan"',
]  # fmt: skip
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
TABLES = [
    "system",
    "time",
    "solver",
    "initial",
    "control",
    "task",
    "montecarlo",
    "title",
    "description",
]
KEYS = {
    "simulate": [*(f"system.{key}" for key in SYSTEM), *TIME, *SOLVER, *START, *TABLES, "control.value"],
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
        "parameters.0.frozen", "truth.mass", "fitted", "measurements", "parameters", "data", "truth",
    ],
    "predict": ["fitted", "fitted.0.path", "fitted.0.value", "fitted.0.x", "data.time", "measurements.0.noise", "fit.dt"],
}  # fmt: skip
OPTIONS = {
    "--seed": ["-1", "1e30", str(10**30), "x", "٣", ""],
    "--out": ["/dev/null/x", "/proc/nothing", 300 * "o", "", "\udce4", "$\\frac{$", "a\nb", "/dev/full", "a.toml",
    "a" + "/b" * 3000],
    "--max-seconds": ["nan", "inf", "-1", "0", "1e400", "x", "1e-300"],
    "--trajectories": ["0", "-3", str(10**30), "1e3", "1"],
    "--accuracy": ["x", "x=1", "end_u_1=nan", "end_u_1=-1", "=", "failed=0", "failed=1e-300"],
    "--index": ["-1", "99", str(10**30), "x"],
    "--data": ["/nothing", "/dev/full", "/root", "", "\udce4", "a.toml"],
    "--seconds": ["nan", "inf", "-1", "0", "1e308", "x", "1e-300"],
    "--system": ["x", "x.py:", ":X", "a.toml:X", "/nothing.py:X", "x.py:X.Y", "\udce4.py:X", "/dev/full:X", "own.py:Own"],
    "--set": ["", "=", "=1", "key", "time.end=", "a=b=c", "system={}", "time=[]", ".=1", "time..end=1", '"time.end"=1',
              "time.end=1;2", "TIME.END=1", "\udce4=1", "time.end=1\r", "--set", "__class__.x=1", "title='''a\nb'''",
              "measurements.-1.name='x'", "measurements.5.name='x'", "title=" + 200_000 * "x"],
}  # fmt: skip
TAKES = {
    "simulate": ["--out", "--set", "--system"],
    "control": ["--out", "--seed", "--max-seconds", "--set"],
    "montecarlo": ["--out", "--seed", "--trajectories", "--accuracy", "--index", "--set"],
    "identify": ["--out", "--seed", "--max-seconds", "--data", "--set"],
    "predict": ["--out", "--seconds", "--set"],
}
OWN = """from jaxhamel import System
class Own(System):
    mass: float
    def space(self): 1 / 0
"""


@dataclass(frozen=True)
class Case:
    """One call of the command: FOLDER in `arguments` is the folder that is made for it, with `files` in it.

    `status` has the exit statuses that are right, `says` what has to be said, `stdout` is `full` or `closed`, `stripped`
    takes root's power over permissions away; `fresh` is for what an interpreter reads when it starts. `limit` is the
    command's own time limit [s].
    """

    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    status: tuple[int, ...] = (0, 1, 2)
    says: str = ""
    stdout: str = ""
    before: Callable[[Path], None] | None = None
    stripped: bool = False
    limit: float | None = None

    @property
    def fresh(self) -> bool:
        return bool(self.environment or self.stripped or self.stdout)


def case(
    command: str,
    *more: str,
    text: str | bytes | None = None,
    files: Mapping[str, str] | None = None,
    **rest,
) -> Case:
    """A command with its usual scenario, or `text` in its place."""
    content = SCENARIO.get(command, "") if text is None else text
    content = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    there = {"a.toml": content} | {
        name: text.encode("utf-8", "surrogateescape") for name, text in (files or {}).items()
    }
    source = "figure-eight" if command == "control" and text is None else "FOLDER/a.toml"
    arguments = [command, source]
    if command == "predict":
        there = {"run.csv": RUN.encode(), **there}
        arguments += ["FOLDER/run.csv", *([] if "--seconds" in more else ["--seconds", "0.2"])]
    if command == "control" and "--max-seconds" not in more:
        arguments += ["--max-seconds", "15"]
    if "--out" not in more:
        arguments += ["--out", "FOLDER/out"]
    return Case((*arguments, *more), there, **rest)


def changed(command: str, *changes: str, **rest) -> Case:
    return case(command, *(part for change in changes for part in ("--set", change)), **rest)


def refused(command: str, *changes: str, says: str = "", **rest) -> Case:
    return changed(command, *changes, status=(1, 2), says=says, **rest)


def drawn(rng) -> Case:
    """A random case: a command and one to three keys with values, sometimes an option or a mangled scenario."""
    command = rng.choice([*KEYS, "simulate", "identify", "montecarlo", "predict"])
    changes = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        changes.append(f"{rng.choice(KEYS[command])}={rng.choice(HUGE + ODD + ODD)}")
    options, text = [part for change in changes for part in ("--set", change)], None
    if rng.random() < 0.15:
        option = rng.choice(TAKES[command])
        options += [option, rng.choice(OPTIONS[option])]
    if rng.random() < 0.15:
        letters = list(SCENARIO.get(command, TOP))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(letters))
            letters[place : place + rng.randint(0, 6)] = rng.choice(
                ["", "[", "]", "\n", '"', "=", "é", "9" * 400, ".", "\x07"]
            )
        text = "".join(letters)
    return case(command, *options, text=text, files={"own.py": OWN})
