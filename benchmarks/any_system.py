"""Systems of any family, size and spelling against diffrax with the equations by hand: one trajectory and its gradient.

    python benchmarks/any_system.py [--quick] [--only N ...] [--families chain tree random named strangers]

The systems of `families.py` and `strangers.py` by `simulate`: Tsit5, double precision, 2 s of motion from rest (named
systems: from a turn) at a tolerance of 1e-9. diffrax integrates the equations by hand, with `jnp.linalg.solve`. The
gradient is that of |q|² + |u|² at the end by the initial state, in reverse mode. Runs alternate, in groups of calls
that take `GROUP` seconds; times are medians in processor seconds, which other work on the machine changes less than the
clock; `spread` is (largest − smallest) / median. Both ends of the motion are compared.

A call of a compiled program takes some microseconds before anything is computed, as long as some of the smallest systems
move. So systems of up to `SMALL` degrees of freedom are also run `LOOPED` times by a loop inside of one program: `inside` is
the ratio of the times there. `floor` is the time of a call that only joins q and u.

The last line is one JSON object: `ratio` is diffrax over `simulate` for the slowest case, `ratio_to_12` that of up to
twelve degrees of freedom, `spelling` the slowest spelling over the fastest of the same system, `growth` the largest factor
by which the time of a step grows for a doubling of n, `growth_from_16` that from n = 16 on, `gradient` the largest ratio
of a gradient to its motion, `first` and `first_gradient` the most seconds until the first value, `ratio_inside` the
smallest `inside`, and `floor` the largest in microseconds; `ratio` is that of single calls. `--quick` takes chains of
4 and 12 links, a tree and a random system of 6, and one named system, without gradients.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from families import FAMILIES, Case, named
from strangers import strangers

import jaxhamel

jax.config.update("jax_enable_x64", True)
TOLERANCE, SECONDS = 1e-9, 2.0
SIZES = (2, 4, 6, 8, 12, 16, 20, 32, 50)
SMALL, LOOPED = 3, 100
GROUP = 5e-3  # a single call of a small system is shorter than the wake-up of XLA's threads, which differs from call to call


def ours(case: Case) -> tuple[Callable, Callable, Callable]:
    """The end of the motion by `simulate`, its gradient, and the number of steps."""
    ts = jnp.array([0.0, SECONDS])

    def run(q, u):
        return jaxhamel.simulate(case.system, q, u, ts, rtol=TOLERANCE, atol=TOLERANCE)

    def end(q, u):
        found = run(q, u)
        return jnp.concatenate([jnp.ravel(found.q_end), found.u_end])

    def cost(q, u):
        return jnp.sum(end(q, u) ** 2)

    start = jnp.asarray(case.q), jnp.asarray(case.u)
    steps = lambda: int(jax.jit(run)(*start).stats["num_steps"])
    return partial(jax.jit(end), *start), partial(jax.jit(jax.grad(cost, (0, 1))), *start), steps


def theirs(case: Case) -> Callable:
    steps = diffrax.PIDController(TOLERANCE, TOLERANCE)

    def end(y, constants):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(case.by_hand),
            diffrax.Tsit5(),
            0.0,
            SECONDS,
            None,
            y,
            constants,
            stepsize_controller=steps,
            max_steps=100_000,
        )
        return solution.ys[-1]  # pyright: ignore[reportOptionalSubscript]

    y = jnp.concatenate([jnp.asarray(case.q), jnp.asarray(case.u)])
    return partial(jax.jit(end), y, case.constants)


def repeated(program: partial) -> Callable:
    """A program of vectors, run `LOOPED` times by one compiled loop; each run depends on the one before it, by rounding."""

    def run(start):
        turn = lambda _, found: program.func(start + 1e-300 * found)
        return jax.lax.fori_loop(0, LOOPED, turn, jnp.zeros_like(start))

    return partial(jax.jit(run), *program.args)


def looped(case: Case, ours: Any, theirs: Any) -> dict[str, Callable]:
    """Both programs of a small system in a loop, and a program that does nothing; empty for a large system."""
    if case.size > SMALL:
        return {}
    q, u = jnp.asarray(case.q), jnp.asarray(case.u)
    start, parts = jnp.concatenate([q, u]), lambda y: (y[: q.size], y[q.size :])
    by_hand = partial(lambda y: theirs.func(y, case.constants), start)
    return {
        f"{case.name} inside": repeated(partial(lambda y: ours.func(*parts(y)), start)),
        "by hand inside": repeated(by_hand),
        "floor": partial(jax.jit(lambda q, u: jnp.concatenate([q, u])), q, u),
    }


def processor_seconds(program: Callable, calls: int = 1) -> float:
    """Processor seconds of one call, the mean of `calls` in a row."""
    started = time.process_time()
    for _ in range(calls):
        jax.block_until_ready(program())
    return (time.process_time() - started) / calls


def medians(programs: dict[str, Callable], repeats: int) -> tuple[dict, dict, dict]:
    """Median seconds of each program in turns, seconds of the first call, and the spread."""
    first = {name: processor_seconds(program) for name, program in programs.items()}
    calls = {
        name: math.ceil(GROUP / processor_seconds(program)) for name, program in programs.items()
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            times[name].append(processor_seconds(program, calls[name]))
    median = {name: statistics.median(each) for name, each in times.items()}
    return median, first, {n: (max(x) - min(x)) / median[n] for n, x in times.items()}


def measured(cases: list[Case], repeats: int, gradients: bool) -> list[dict[str, Any]]:
    """A row for each spelling of a system. All programs run in turns; all spellings share the program of the equations
    by hand."""
    programs, steps = {"by hand": theirs(cases[0])}, {}
    for case in cases:
        programs[case.name], gradient, steps[case.name] = ours(case)
        if gradients:
            programs[f"gradient of {case.name}"] = gradient
        programs |= looped(case, programs[case.name], programs["by hand"])
    median, first, spread = medians(programs, repeats)
    hand, rows = np.asarray(programs["by hand"]()), []
    for case in cases:
        name, row = case.name, {"name": case.name, "family": case.family, "size": case.size}
        row |= {"seconds": median[name], "by_hand": median["by hand"], "first": first[name]}
        row |= {"ratio": median["by hand"] / median[name], "spread": spread[name]}
        row |= {"apart": float(np.abs(np.asarray(programs[name]()) - hand).max())}
        row["step"] = median[name] / steps[name]()
        if f"{name} inside" in median:
            row["inside"] = median["by hand inside"] / median[f"{name} inside"]
            row |= {"seconds_inside": median[f"{name} inside"] / LOOPED, "floor": median["floor"]}
        if gradients:
            of = f"gradient of {name}"
            row |= {"gradient": median[of] / median[name], "first_gradient": first[of]}
        rows.append(row)
    return rows


def spelling(rows: list[dict[str, Any]]) -> float:
    """The slowest spelling over the fastest, for the system where this is largest."""
    return max(max(each) / min(each) for each in _by_size(rows, "seconds").values())


def growth(rows: list[dict[str, Any]], smallest: int = 1) -> float | None:
    """The largest factor of a step's time for a doubling of n, between neighbouring sizes of a family, fastest spelling."""
    best = {key: min(each) for key, each in _by_size(rows, "step").items() if key[0] != "named"}
    found = [
        (best[f, b] / best[f, a]) ** (math.log(2) / math.log(b / a))
        for (f, a), (g, b) in zip(list(best)[:-1], list(best)[1:], strict=True)
        if f == g and a >= smallest
    ]
    return max(found, default=None)


def _by_size(rows: list[dict[str, Any]], key: str) -> dict[tuple[str, int], list[float]]:
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        own = row["name"] if row["family"] == "named" else row["family"]
        found.setdefault((own, row["size"]), []).append(row[key])
    return {key: found[key] for key in sorted(found)}


def systems(given: argparse.Namespace) -> list[list[Case]]:
    """The spellings of each requested system."""
    if given.quick:
        chosen = FAMILIES["chain"]
        few = [chosen(4)[:2], chosen(12)[:2], FAMILIES["tree"](6)[:1], FAMILIES["random"](6)]
        return [*few, named()[:1]]
    sizes = given.only or SIZES
    found = [make(n) for name, make in FAMILIES.items() if name in given.families for n in sizes]
    own = named() if "named" in given.families and not given.only else []
    own += strangers() if "strangers" in given.families and not given.only else []
    return [*found, *([case] for case in own)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Any system against diffrax by hand.")
    parser.add_argument("--quick", action="store_true", help="few cases, within 30 s")
    parser.add_argument("--only", type=int, nargs="*", help="systems of these sizes")
    parser.add_argument("--families", nargs="*", default=[*FAMILIES, "named", "strangers"])
    parser.add_argument(
        "--largest-gradient", type=int, default=20, help="gradients up to this size (20)"
    )
    given = parser.parse_args()
    print(
        f"{'':28}{'ms':>8}{'by hand':>9}{'ratio':>7}{'spread':>8}{'first s':>9}{'apart':>9}{'inside':>8}{'grad':>6}"
    )
    rows = []
    for cases in systems(given):
        gradients = not given.quick and cases[0].size <= given.largest_gradient
        rows += measured(cases, 5 if given.quick else 11, gradients)
        for r in rows[-len(cases) :]:
            times = f"{1e3 * r['seconds']:8.3f}{1e3 * r['by_hand']:9.2f}{r['ratio']:7.1f}"
            more = f"{r['gradient']:6.1f}{r['first_gradient']:6.1f} s" if gradients else ""
            ends = f"{r['spread']:8.2f}{r['first']:9.1f}{r['apart']:9.0e}"
            inside = f"{r['inside']:8.1f}" if "inside" in r else " " * 8
            print(f"{r['name']:28}{times}{ends}{inside}{more}", flush=True)
    small = [row["ratio"] for row in rows if row["size"] <= 12]
    result = {"benchmark": "any_system", "ratio": min(row["ratio"] for row in rows)}
    result |= {"ratio_to_12": min(small, default=None), "spelling": spelling(rows)}
    result |= {"growth": growth(rows), "growth_from_16": growth(rows, 16)}
    for key in ("gradient", "first_gradient", "first"):
        result[key] = max((row[key] for row in rows if key in row), default=None)
    result["ratio_inside"] = min((row["inside"] for row in rows if "inside" in row), default=None)
    result["floor"] = max((1e6 * row["floor"] for row in rows if "floor" in row), default=None)
    print(json.dumps(result | {"rows": rows}))


if __name__ == "__main__":
    main()
