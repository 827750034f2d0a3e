"""Random cases for `hostile_commands.py --searches`: fits in stages, priors, predictions, the keys of searches and loops."""

import random

from hostile_cases import FITTED, HUGE, IDENTIFY, ODD, RUN, Case
from hostile_plans import CART, LOOP, NUMBERS, TO_POINT

STAGES = (
    IDENTIFY
    + """
[[parameters]]
kind = "free"
path = "gravity"
[[stages]]
name = "first"
parameters = ["mass"]
[[stages]]
name = "second"
parameters = ["gravity"]
files = ["*.csv"]
optional = true
[[priors]]
name = "speed"
index = 0
rate = true
std = 0.5
"""
)
PREDICTION = (
    FITTED
    + '[prediction]\nmemory = 0.1\n[[priors]]\nname = "speed"\nindex = 0\nrate = true\nstd = 0.5\n'
)
COMMANDS = {"stages": "identify", "prediction": "predict"}
TEXTS = {
    "stages": STAGES,
    "prediction": PREDICTION,
    "method": TO_POINT,
    "loop": LOOP,
    "planned loop": TO_POINT,
}
STAGE = [
    f"stages.{place}.{key}"
    for place in (0, 1)
    for key in ("name", "parameters", "columns", "without", "files", "optional", "system", "loss", "x")
] + ["stages", "stages.0", "stages.7.name"]  # fmt: skip
PRIOR = [
    f"priors.0.{key}" for key in ("name", "index", "part", "rate", "mean", "std", "over_runs", "x")
] + ["priors"]
KEYS = {
    "stages": [*STAGE, *STAGE, *PRIOR, "fit.correlated", "fit.starts", "data.clock"],
    "prediction": [*PRIOR, *2 * ["prediction.memory", "prediction.noise", "prediction.x", "prediction"]],
    "method": 3 * ["method.indirect", "method.error"] + ["method.barrier", "method.degree", "method.points", "task.parts"],
    "loop": [
        "feedback.kind", "feedback.period", "feedback.delay", "feedback.state_weights", "feedback.control_weights",
        "feedback.limit", "feedback.x", "sensors.noise", "sensors.bias", "sensors.resolution", "sensors.x",
        "closed_loop.trajectories", "closed_loop.steps", "closed_loop.tolerance", "closed_loop.spread.0.std",
    ],
    "planned loop": [
        "feedback.period", "feedback.kind", "sensors.noise", "closed_loop.trajectories", "closed_loop", "feedback",
    ],
    "ball-design": [
        f"task.{key}"
        for key in ("x", "y", "duration", "smallest", "largest", "lightest", "heaviest", "price", "z")
    ] + ["system.masses", "system.rails.0.radius", "system.rails.1.kind", "system.slope", "system.rails", "method.indirect"],
}  # fmt: skip
WORDS = [
    '"first"', '"second"', "['mass']", "['gravity', 'mass']", "['inertia']", "['qw']", "['nothing']", "['*']", "['[']",
    "['../*.csv']", "['/*.csv']", '"heavy-top"', '"suslov"', '"huber"', '"steady"', "true", "2", "3",
    "1e-3", "0.05", "[0.01]", "[0.0]", "[-1.0]", "[0.01, 0.01]", '"tvlqr"', "0.1", "0.3", "[0.1, 0.2]", "1e-6", "0.2",
]  # fmt: skip


def drawn_search(rng: random.Random) -> Case:
    """A command with one or two keys of such a table changed, and a time limit that compiling may exceed."""
    kind = rng.choice(list(KEYS))
    changes = [
        f"{rng.choice(KEYS[kind])}={rng.choice([*WORDS * 2, *NUMBERS, *ODD, *HUGE])}"
        for _ in range(rng.choice([1, 1, 2]))
    ]
    options = [part for change in changes for part in ("--set", change)]
    command, seconds = COMMANDS.get(kind, "control"), rng.choice(["2", "4", "10"])
    limit = [] if command == "predict" else ["--max-seconds", seconds]
    source = ["ball-design"] if kind == "ball-design" else ["FOLDER/a.toml"]
    if command == "predict":
        source += ["FOLDER/run.csv", "--seconds", "0.2"]
    elif kind in ("method", "loop", "planned loop"):
        source += ["--system", "FOLDER/own.py:Cart"]
    files = {"a.toml": TEXTS.get(kind, ""), "own.py": CART, "run.csv": RUN}
    return Case(
        (command, *source, *limit, "--out", "FOLDER/out", *options),
        {name: text.encode() for name, text in files.items()},
        limit=float(seconds) if limit else None,
    )
