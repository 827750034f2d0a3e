"""Random cases for `hostile_commands.py --systems`: named systems with parameters of the right form and extreme sizes."""

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from hostile_cases import Case

from jaxhamel.cli._results._solution import write_tables
from jaxhamel.cli._scenario._system_description import as_written, named_systems
from jaxhamel.mechanics._description._fields import examples_of

FACTORS = (0.0, -1.0, 1e-300, 1e-150, 1e-12, 1e-6, 1.0000001, 1e6, 1e12, 1e60, 1e150, 1e300)
RUN = {"time": {"end": 0.1, "samples": 6}, "solver": {"method": "heun", "dt": 0.01}}
SETTINGS = (
    "time.end=1e-300", "time.end=1e-12", "time.end=1e6", "time.start=-1e300", "time.start=0.0999999999999",
    "time.samples=2", "solver.dt=1e-5", "solver.dt=0", "solver.dt=1e12", "solver.rtol=1e-16", "solver.atol=1e-300",
    "solver.max_steps=1",
)  # fmt: skip
START = ("[1e308, 1e308, 1e308]", "[1e200, 0, 0]", "[1e60, 1, 0]", "[1e-300, 1, 0]", "[0, 0, 0]")


def drawn_system(rng: random.Random) -> Case:
    """`simulate` with the examples of a system's class, with one or two of them, or a setting, changed."""
    kind, cls = rng.choice(list(named_systems().items()))
    values = {name: as_written(value) for name, value in examples_of(cls).items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.toml"
        write_tables(path, {"system": {"kind": kind, **values}, **RUN})
        content = path.read_bytes()
    changes = [_change(rng, values) for _ in range(rng.choice([1, 1, 2]))]
    options = [part for change in changes for part in ("--set", change)]
    return Case(("simulate", "FOLDER/a.toml", "--out", "FOLDER/out", *options), {"a.toml": content})


def _change(rng: random.Random, values: dict[str, Any]) -> str:
    chance = rng.random()
    if chance < 0.7 and values:
        name = rng.choice(list(values))
        return f"system.{name}={_scaled(rng, values[name])}"
    if chance < 0.85:
        return rng.choice(SETTINGS)
    return f"initial.{rng.choice(['omega', 'position'])}={rng.choice(START)}"


def _scaled(rng: random.Random, value: Any) -> str:
    """The value as TOML, with some of its numbers multiplied by extreme factors."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_scaled(rng, x)}" for key, x in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_scaled(rng, x) for x in value) + "]"
    if isinstance(value, bool | str):
        return json.dumps(value)
    return repr(float(value) * (rng.choice(FACTORS) if rng.random() < 0.7 else 1.0))
