"""Random cases for `hostile_commands.py --plans`: tasks that collocation solves, and the tables of a closed loop."""

import random
import tomllib
from collections.abc import Mapping
from pathlib import Path

from hostile_cases import HUGE, ODD, Case

import jaxhamel.cli
from jaxhamel.cli._scenario._plan_schema import BUILT_IN

SCENARIOS = Path(jaxhamel.cli.__file__).parent / "scenarios"
CART = '''
import jax
import jax.numpy as jnp
import jaxhamel


class Cart(jaxhamel.System):
    """A cart on a line, pushed by its control."""

    mass: jax.Array = jaxhamel.parameter("of the cart", "kg", (), positive=True, example=2.0)
    space = jaxhamel.Euclidean(1)
    n_controls = 1

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.sum(v * v)

    def force(self, t, q, v, control):
        return jnp.zeros_like(v) if control is None else control
'''
START = "[system]\nmass = 2.0\n[initial]\nq = [1.0]\n"
TO_POINT = (
    START + '[task]\npath = "to-point"\nduration = 2.0\nq = [4.0]\nu = [0.0]\n'
    "[method]\nintervals = 2\ndegree = 3\n"
)
LOOP = (
    START + "[time]\nend = 2.0\nsamples = 9\n"
    '[task]\npath = "to-state"\nq = [1.5]\nu = [0.0]\ncoefficients = 8\nmax_iterations = 20\n'
    '[feedback]\nkind = "tvlqr"\nperiod = 0.1\ndelay = 0.1\n[sensors]\nnoise = [1e-4, 1e-4]\n'
    '[closed_loop]\ntrajectories = 4\n[[closed_loop.spread]]\nkey = "system.mass"\nstd = 0.01\n'
)
METHOD = [
    f"method.{key}"
    for key in ("intervals", "degree", "points", "tolerance", "max_iterations", "max_seconds", "barrier")
] + ["method"]  # fmt: skip
ELSEWHERE = [
    "time.end", "initial.q", "initial.u", "control.value", "solver.dt", "feedback.period", "sensors.noise",
    "closed_loop.trajectories", "montecarlo.trajectories", "task.coefficients", "title", "description",
]  # fmt: skip
POINT = [
    f"task.{key}"
    for key in ("duration", "drive", "q", "u", "parts", "parts_end", "effort_weight", "lower", "upper", "longest", "path")
] + ["initial.q", "initial.u", "system.mass"]  # fmt: skip
LOOPS = [
    f"feedback.{key}"
    for key in ("kind", "period", "delay", "state_weights", "control_weights", "limit", "x")
] + [
    f"sensors.{key}" for key in ("noise", "bias", "resolution", "x")
] + [
    f"closed_loop.{key}"
    for key in ("trajectories", "steps", "tolerance", "spread", "spread.0.key", "spread.0.std", "spread.0.relative",
                "spread.0.distribution", "spread.0.half_width")
] + ["feedback", "sensors", "closed_loop", "time.end", "time.samples", "task.q"]  # fmt: skip
WORDS = [
    '"radau"', '"velocities"', '"parts"', '"forces"', '"to-point"', '"cart-pole"', '"initial.q"', '"system.masses"',
    '"control.delay"', '"uniform"', '"lognormal"',
]  # fmt: skip
NUMBERS = [
    "1e9", "400", "1", "2", "3", "9", "1e-12", "1e-300", "1e300", "1e7", "100000", "0", "-1", "nan", "inf", "1e6", "0.5",
    "[0.0]", "[-1.0]", "[1e9]", "[1.0, 2.0]", "[nan]", "[inf]", "[-inf]", "[0.0, 0.0]", "[1e-300, 1e-300]", "[1e200]",
]  # fmt: skip


def _of(name: str) -> list[str]:
    """The keys of a built-in problem's system and task."""
    tables = tomllib.loads((SCENARIOS / f"{name}.toml").read_text("utf-8"))
    return [f"{table}.{key}" for table in ("system", "task") for key in tables[table]]


def _value(rng: random.Random) -> str:
    return rng.choice([*NUMBERS * 3, *WORDS, *ODD, *HUGE])


def drawn_plan(rng: random.Random) -> Case:
    """A built-in control problem with one or two keys changed, and a time limit that compiling may exceed."""
    kind = rng.choice(["built-in"] * 3 + ["to-point"] * 2 + ["loop"] * 2)
    name = rng.choice(list(BUILT_IN))
    keys = {
        "built-in": [*METHOD, *METHOD, *_of(name), *_of(name), *ELSEWHERE] if kind == "built-in" else [],
        "to-point": [*METHOD, *POINT, *POINT],
        "loop": LOOPS,
    }[kind]  # fmt: skip
    changes = [f"{rng.choice(keys)}={_value(rng)}" for _ in range(rng.choice([1, 1, 2]))]
    seconds = rng.choice(["1", "3", "6", "12"]) if kind == "built-in" else "25"
    options = [part for change in changes for part in ("--set", change)]
    source = [name] if kind == "built-in" else ["FOLDER/a.toml", "--system", "FOLDER/own.py:Cart"]
    files: Mapping[str, str] = {"a.toml": TO_POINT if kind == "to-point" else LOOP, "own.py": CART}
    return Case(
        ("control", *source, "--max-seconds", seconds, "--out", "FOLDER/out", *options),
        {} if kind == "built-in" else {file: text.encode() for file, text in files.items()},
        limit=float(seconds),
    )
