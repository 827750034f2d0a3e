"""Optimal control by collocation: known optima, iterations and times, beside CasADi with IPOPT.

    python benchmarks/control.py [--quick] [--only NAME ...] [--sensitivities] [--starts 256] [--values 256]

prints a row for each problem, and as its last line one JSON object: the cost, its difference from the known optimum, the
iterations, the processor seconds of the first call (tracing and compiling included), of the search alone once it is
compiled, of its part on the given mesh, and of a later call with certificate and replay; all but `--starts` and `--values`
on one core. Where CasADi is installed (`pip install casadi`), IPOPT solves the same problems with the same points, mesh and
tolerance, with derivatives by CasADi from the equations of `control_references.py`: seconds to build and to solve.

`--quick` takes the disk alone. `--sensitivities` compares derivatives of the optimal cost with differences of problems that
are solved again. `--starts` searches from so many starts together; IPOPT solves from four of its own, one after the other.
`--values` solves this number of problems that differ in numbers together (`control_families.py`), and nothing else; IPOPT
solves 16 of them, one after the other.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

if not {"--starts", "--values"} & set(sys.argv):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # must come before JAX counts the cores

import control_families
import control_sensitivity
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import control
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._new_start import motion_under
from jaxhamel.control._many_starts._many_starts import ManyStarts
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.systems import ChaplyginSleigh

jax.config.update("jax_enable_x64", True)
REPEATS = 5
PEER = importlib.util.find_spec("casadi") is not None
if PEER:
    import control_references


def known() -> dict[str, tuple[Callable[[], Any], control.Collocation, float]]:
    """Maps each name to (problem, method, known optimum)."""
    problems, by_default = control.problems, control.Collocation(intervals=20)
    fine = control.Collocation(intervals=40)
    symmetric = ChaplyginSleigh(*(jnp.asarray(x) for x in (1.0, 1.0, 0.0)))
    return {
        "disk-to-point": (problems.disk_to_point, by_default, 0.258317584642551),
        "disk-obstacle": (
            problems.disk_obstacle,
            fine,
            5.6010616,
        ),  # CasADi, 100 intervals: too low
        "unicycle-sideways": (problems.unicycle_sideways, by_default, 11.1581587152),
        "sleigh-park": (problems.sleigh_park, by_default, 5.94025427607),
        "sleigh-park, a = 0": (
            lambda: problems.sleigh_park(system=symmetric),
            by_default,
            4.46587180252,
        ),
        "plate-ball": (problems.plate_ball, by_default, 30.6326881525),
        "plate-ball, angle π": (
            lambda: problems.plate_ball(angle=jnp.pi),
            by_default,
            62.3108150058,
        ),
        "satellite-turn": (problems.satellite_turn, by_default, 199.9237216990),
        "falling-cat": (problems.falling_cat, by_default, 57.23261047013),
        "cart-pole": (problems.cart_pole, fine, 58.807667458),
        "snakeboard-park": (problems.snakeboard_park, fine, 0.229995619170),
        "ball-to-point": (
            problems.ball_to_point,
            control.Collocation(intervals=30),
            4.332867201,
        ),  # CasADi
    }


def median_seconds(run: Callable[[], Any], most: float = 20.0) -> tuple[float, Any]:
    """The median processor seconds of several runs, fewer if they take long, and the last result."""
    seconds, found = [], None
    while not seconds or (len(seconds) < REPEATS and sum(seconds) < most):
        began = time.process_time()
        found = run()
        seconds.append(time.process_time() - began)
    return float(np.median(seconds)), found


class OneMesh(CollocationSearch):
    """The search alone that IPOPT makes, too: one mesh, the user's bounds and cost unit, one start."""

    def change_problem(self) -> None:
        pass


def seconds_on_one_mesh(problem: Any, method: control.Collocation) -> dict:
    """Processor seconds to the optimum on the given mesh, before nodes move or bounds change; None if it is not found."""
    searches = [OneMesh(method, problem) for _ in range(REPEATS)]
    last = searches[0]
    seconds, _ = median_seconds(lambda: searches.pop().run())
    found = {"iterations": len(last.rows), "seconds": round(seconds, 4)}
    return {"one_mesh": found if bool(last.state.done) else None}


def measured(problem: Any, method: control.Collocation, optimum: float) -> tuple[dict, Any]:
    """The figures of one problem, and its result."""
    began = time.process_time()
    control.solve(problem, method)
    first = time.process_time() - began
    search = lambda: CollocationSearch(method, problem)
    searches = [search() for _ in range(REPEATS)]
    alone, _ = median_seconds(lambda: searches.pop().run())
    later, result = median_seconds(lambda: control.solve(problem, method), most=0.0)
    certificate: Any = result.certificate
    row = {
        "cost": result.cost,
        "error": result.cost - optimum,
        "iterations": len(result.history["cost"]),
        "first_call": round(first, 2),
        "search": round(alone, 4),
        **seconds_on_one_mesh(problem, method),
        "with_certificate": round(later, 4),
        "certificate": certificate.holds,
        "stationarity": certificate.stationarity,
        "violation": certificate.violation,
        "second_order": certificate.second_order,
    }
    return row, result


def by_ipopt(name: str, method: control.Collocation) -> dict:
    """The figures of CasADi and IPOPT for the same problem; empty without CasADi or without its equations."""
    make = control_references.PROBLEMS.get(name) if PEER else None
    if make is None or method.intervals is None:
        return {}
    began = time.process_time()
    built = control_references.built(make(), method.intervals, tolerance=method.tolerance)
    building = time.process_time() - began
    seconds, (cost, iterations, _, status, _) = median_seconds(built.solve)
    return {
        "ipopt_cost": cost,
        "ipopt_iterations": iterations,
        "ipopt_building": round(building, 2),
        "ipopt_search": round(seconds, 4),
        "ipopt_status": status,
    }


def many_starts(name: str, problem: Any, method: control.Collocation, count: int) -> dict:
    """Seconds of a search from many starts together, and of IPOPT from some of the same starts, one after the other.

    `throughput_ratio` is that of wall-clock times, of ours on all cores; `ratio_by_processor` is that of processor times.
    IPOPT's mean is that of the starts from which it finds a solution.
    """
    starts = control.perturbed_starts(problem, jax.random.PRNGKey(0), count)
    search = CollocationSearch(method, problem)
    given = search.transcription, starts, search.barrier, search.tolerance

    def together():
        many = ManyStarts(problem, *given)
        many.run(100, time.monotonic() + 300.0)
        return many

    together()
    began, wall = time.process_time(), time.perf_counter()
    optima = together().optima()
    row = {"together": time.process_time() - began, "optima": optima.words}
    row["together_wall"] = time.perf_counter() - wall
    if PEER and method.intervals and name in control_references.PROBLEMS:
        rows = starts[:: max(1, count // PEER_STARTS)]
        row |= ipopt_from_starts(name, problem, search.transcription, rows, method)
        row["throughput_ratio"] = count * row["ipopt_one"] / row["together_wall"]
        row["ratio_by_processor"] = count * row["ipopt_one"] / row["together"]
    return row


PEER_STARTS = 16
# The coordinates of IPOPT's state among those of the package's, of problems in which both have the same signs and units.
STATES = {
    "disk-to-point": [0, 2, 3, 4],
    "unicycle-sideways": [0, 1, 2],
    "sleigh-park": [0, 1, 2, 3, 4],
}


def ipopt_from_starts(name: str, problem: Any, transcription: Any, starts: Any, method) -> dict:
    """The mean processor seconds of IPOPT where it finds a solution, and the number of starts where it finds none."""
    seconds, failed = [], 0
    for p in starts:
        peer = control_references.PROBLEMS[name]()
        if name in STATES:
            peer.guess = guess_by_motion(problem, transcription, p, STATES[name])
        built = control_references.built(peer, method.intervals, tolerance=method.tolerance)
        began = time.process_time()
        solved = built.solve()[3] == "Solve_Succeeded"
        failed += not solved
        seconds += [time.process_time() - began] if solved else []
    return {"ipopt_one": float(np.mean(seconds)), "ipopt_failed": f"{failed} of {len(starts)}"}


def guess_by_motion(problem: Any, transcription: Any, p: Any, places: list[int]) -> Callable:
    """s = t/T ↦ (state, control) of the motion under the control with the parameters p, linear between the nodes."""
    curve = free_parameters(problem.curve)[1](p)
    ts, states = motion_under(transcription, problem, curve)
    x = np.concatenate([np.asarray(y).reshape(len(ts), -1) for y in jax.tree.leaves(states)], 1)
    fine = np.linspace(problem.ts[0], problem.ts[-1], 401)
    c = np.asarray(jax.vmap(curve)(jnp.asarray(fine))).reshape(401, -1)
    found = np.asarray(ts / ts[-1]), x[:, places], fine / fine[-1], c
    return lambda s: control_references.between(found, s)


def main() -> None:
    """Prints the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--sensitivities", action="store_true")
    parser.add_argument("--starts", type=int, default=0)
    parser.add_argument("--values", type=int, default=0)
    given = parser.parse_args()
    every = list(control_families.CASES if given.values else known())
    names = given.only or (["disk-to-point"] if given.quick else every)
    if not PEER:
        print("CasADi is not installed (pip install casadi): IPOPT is left out")
    found: dict = {}
    for name in names:
        if given.values:
            found[name] = control_families.compared(name, given.values)
            print(name, *(f"{key} {x}" for key, x in found[name].items()), sep="  ", flush=True)
            continue
        make, method, optimum = known()[name]
        problem = make()
        found[name], result = measured(problem, method, optimum)
        found[name] |= by_ipopt(name, method)
        if given.sensitivities:
            found[name] |= control_sensitivity.compared(problem, method, result)
        if given.starts:
            found[name] |= many_starts(name, problem, method, given.starts)
        print(name, *(f"{key} {value}" for key, value in found[name].items()), sep="  ", flush=True)
    print(json.dumps({"benchmark": "control", "problems": found}))


if __name__ == "__main__":
    main()
