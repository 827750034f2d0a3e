"""N-version testing at scale: random systems through every version of the equations. By hand, not by pytest:

    python -m tests.n_version --seed 1 --systems 5000 --out n_version.jsonl [--each 100] [--table]

Shapes (space, kind, number of constraints) are drawn from the seed, `--each` systems of each; every shape is compiled once.
A line of `--out` is one shape with the largest differences found; shapes that stand in it already are not computed again.
`--table` prints the file as docs/verification.md has it. A difference counts as a disagreement if it exceeds ROOM times the
rounding error that the condition number of the equations allows; `disagree` lists the indices of such systems.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

import tests.conftest  # noqa: F401  # double precision, strict promotion, fast compilation
from tests.n_version.kinds import draw
from tests.n_version.shapes import LARGEST, shape
from tests.n_version.table import table
from tests.n_version.versions import (
    EPS,
    accelerations,
    control_of,
    derivatives,
    difference,
    directions,
    in_lanes,
    in_single_precision,
    motions,
)

ROOM = 1e3
# the largest n for which systems are written out for lanes, as equations and as motions
SHORT, SHORTEST = 8, 4


def examined(number, kind, space, m, seed, each):
    """The comparisons of one shape: name → (differences of the systems, differences that rounding allows)."""
    batch = draw(seed, kind, space, m, each)
    control = control_of(kind)
    found, (own, multiplier), condition = accelerations(batch, control)
    condition = np.asarray(condition)
    reference = {"coordinates": found["coordinates"]}
    rounding = ROOM * EPS * condition
    if number % 3 == 0 and space.dim <= SHORT:
        found["lanes"] = in_lanes(batch, control)
    rows = {name: (x, rounding) for name, x in difference(found, "coordinates").items()}
    if m:
        by = difference({"coordinates": multiplier, "multiplier": own}, "coordinates")
        rows |= {name: (x, rounding * condition) for name, x in by.items()}
    if number % 3 == 1:
        single = difference(
            reference | {"float32": in_single_precision(batch, control)}, "coordinates"
        )
        scale = np.finfo(np.float32).eps / EPS
        rows |= {name: (x, rounding * scale) for name, x in single.items()}
    if number % 3 == 2 and space.dim <= 2 * SHORT:
        moved = derivatives(batch, directions(seed, batch), control)
        slopes = difference(moved, "coordinates")
        rows |= {f"derivative, {name}": (x, rounding * condition) for name, x in slopes.items()}
    if number % 3 == 0 and space.dim <= SHORTEST:
        for steps, versions in motions(batch, control).items():
            same = difference(versions, "vmap")
            rows |= {f"{steps} steps, {name}": (x, rounding) for name, x in same.items()}
    return rows, condition


def line(number, kind, space, m, seed, each):
    """A line of the report."""
    started = time.process_time()
    rows, condition = examined(number, kind, space, m, seed, each)
    wrong = {
        name: np.flatnonzero(~(x <= allowed)).tolist()
        for name, (x, allowed) in rows.items()
        if not np.all(x <= allowed)
    }
    return {
        "shape": number,
        "n": space.dim,
        "m": m,
        "kind": str(kind),
        "space": str(space),
        "systems": each,
        "condition": float(np.max(condition)),
        "largest": {name: float(np.max(x)) for name, (x, _) in rows.items()},
        "disagree": wrong,
        "seconds": round(time.process_time() - started, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--systems", type=int, default=5000)
    parser.add_argument("--each", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("n_version.jsonl"))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    done = [json.loads(text) for text in lines]
    if options.table:
        print(table(done))
        return
    while sum(row["systems"] for row in done) < options.systems:
        number = len(done)
        seed = [options.seed, number]
        size = LARGEST if number % 25 == 24 else None
        done.append(line(number, *shape(np.random.default_rng(seed), size), seed, options.each))
        with options.out.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
        jax.clear_caches()


if __name__ == "__main__":
    main()
