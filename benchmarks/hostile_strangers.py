"""Random cases for `hostile_commands.py --strangers`: systems outside the package, all their keys at extreme values."""

import random

from hostile_cases import RUN, SPREAD, Case

SLEIGH = '''
import jax
import jax.numpy as jnp
import jaxhamel


class Sleigh(jaxhamel.System):
    """A sleigh in the plane that does not slide across its runner; fields without any description."""

    mass: float
    inertia: jax.Array
    arms: jax.Array
    damping: float = 0.1

    space = jaxhamel.SE2()
    n_constraints = 1

    def lagrangian(self, t, q, v):
        away = jnp.sum(self.arms**2)
        return 0.5 * (jnp.asarray(self.inertia) + away) * v[0] ** 2 + 0.5 * self.mass * (v[1] ** 2 + v[2] ** 2)

    def frame(self, t, q):
        return jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], q.dtype)

    def force(self, t, q, v, control):
        push = jnp.zeros(2, v.dtype) if control is None else control
        return jnp.concatenate([push - self.damping * v[:2], jnp.zeros(1, v.dtype)])
'''
TOP = """
title = "Sleigh"
[system]
mass = 2.0
inertia = 0.5
arms = [0.1, 0.2]
[initial]
q = [0.0, 0.1, 0.2]
u = [0.3, 1.0]
[time]
end = 0.5
samples = 6
[solver]
method = "heun"
dt = 0.05
"""
TASK = """
[task]
path = "to-state"
q = [0.0, 0.3, 0.2]
u = [0.0, 0.0]
coefficients = 8
max_iterations = 3
"""
FIT = """
[[measurements]]
quantity = "position"
columns = ["x", "y"]
noise = 0.01
[[parameters]]
kind = "positive"
path = "mass"
[truth]
mass = 1.5
[synthetic]
seconds = 0.5
rate = 20.0
[fit]
segments = 1
max_iterations = 3
"""
TEXTS = {
    "simulate": TOP, "montecarlo": TOP + SPREAD, "control": TOP.split("[solver]")[0] + TASK,
    "identify": TOP.split("[initial]")[0] + FIT,
    "predict": TOP.split("[initial]")[0] + FIT + '[[fitted]]\npath = "mass"\nvalue = 1.5\n',
}  # fmt: skip
SHARED = [
    "system.mass",
    "system.inertia",
    "system.arms",
    "system.damping",
    "system.other",
    "system",
    "title",
]
MOTION = ["initial.q", "initial.u", "initial.q.0", "time.start", "time.end", "time.samples"]
KEYS = {
    "simulate": [*MOTION, "solver.method", "solver.dt", "solver.rtol", "solver.max_steps", "control.value", "control.kind"],
    "montecarlo": [
        *MOTION, "montecarlo.trajectories", "montecarlo.samples", "montecarlo.sampler", "montecarlo.spread.0.key",
        "montecarlo.spread.0.std", "montecarlo.spread.0.relative", "montecarlo.spread.0.distribution",
    ],
    "control": [
        *MOTION, "task.path", "task.q", "task.u", "task.coefficients", "task.max_iterations", "task.max_seconds",
        "task.lower", "task.upper", "task.degree", "task.method",
    ],
    "identify": [
        "measurements.0.columns", "measurements.0.noise", "measurements.0.quantity", "measurements.0.part",
        "parameters.0.path", "parameters.0.kind", "truth.mass", "truth.arms", "synthetic.seconds", "synthetic.rate",
        "synthetic.runs", "fit.segments", "fit.dt", "fit.max_iterations", "fit.loss",
    ],
    "predict": ["fitted.0.value", "fitted.0.path", "measurements.0.noise", "fit.dt"],
}  # fmt: skip
VALUES = [
    "nan", "inf", "-inf", "-1", "0", "1e308", "-1e308", "1e-308", "5e-324", "1e200", '""', '"ß→\\u0007"', '"=1+1"', "true",
    "[" + "1.0, " * 20_000 + "1.0]", "[nan, nan]", "[inf, 0.0, 0.0]", "[1e308, 1e308, 1e308]", "[[[1.0]]]",
    "[[1.0], [2.0, 3.0]]",
    "{a = {b = [1, {c = 2}]}}", "[]", "{}", "1" + "0" * 400, "[-1.0, 0.0]", "1979-05-27", "['a', 1.0]",
    '"' + "n" * 3000 + '"',
]  # fmt: skip
CLASSES = ["own.py:Sleigh"] * 8 + [
    "own.py:sleigh",
    "own.py:System",
    "own.py:jnp",
    "own.py:Sleigh:x",
    "own.py:Sleigh.frame",
]


def drawn_stranger(rng: random.Random) -> Case:
    """A command with a system of the user's own and one or two of its keys changed."""
    command = rng.choice(list(TEXTS))
    changes = [
        f"{rng.choice(SHARED + KEYS[command] * 2)}={rng.choice(VALUES)}"
        for _ in range(rng.choice([1, 1, 2]))
    ]
    data = ["FOLDER/run.csv", "--seconds", "0.2"] if command == "predict" else []
    limit = ["--max-seconds", "10"] if command == "control" else []
    options = [part for change in changes for part in ("--set", change)]
    arguments = [command, "FOLDER/a.toml", *data, "--system", f"FOLDER/{rng.choice(CLASSES)}"]
    files = {
        "a.toml": TEXTS[command],
        "own.py": SLEIGH,
        "run.csv": RUN.replace("qw,qx,qy,qz", "x,y,z,w"),
    }
    return Case(
        (*arguments, "--out", "FOLDER/out", *limit, *options),
        {name: text.encode() for name, text in files.items()},
    )


def bench_cases() -> list[Case]:
    """Wrong calls of `bench`, and one whose standard output is full or closed."""
    words = [
        ["x"],
        ["--json=x"],
        ["--out", "FOLDER/out"],
        ["--seed", "1"],
        ["--set", "a=1"],
        ["--quiet", "x"],
        ["--json", ""],
    ]
    found = [Case(("bench", *more), status=(2,)) for more in words]
    found += [
        Case(("bench", "--json", "--quiet"), stdout=kind, status=(0, 1))
        for kind in ("full", "closed")
    ]
    settings = [
        {"JAX_PLATFORMS": "nothing"},
        {"XLA_FLAGS": "--nothing"},
        {"JAX_DISABLE_JIT": "1"},
        {"COLUMNS": "1"},
    ]
    return found + [
        Case(("bench", "--quiet"), environment=each, status=(0, 1, 2)) for each in settings
    ]
