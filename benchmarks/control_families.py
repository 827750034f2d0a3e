"""Families of problems by `control.solve_family`, beside IPOPT by CasADi one problem after the other; for `control.py`."""

import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxhamel import control
from jaxhamel.systems import CartPole

PEER_VALUES = 16  # the number of values for which IPOPT solves the problem
REPEATS = 3
SAME = 1e-6  # the largest relative difference of two costs that count as those of one optimum


class Case(NamedTuple):
    """A family of problems: a function of the values by name, their ranges, and the method."""

    problem_of: Callable[..., control.ControlProblem]
    ranges: dict[str, tuple[float, float]]
    method: control.Collocation


def ball(mass: Any, x: Any) -> control.ControlProblem:
    """The ball with three masses of `mass` each, to (x, 0.25)."""
    problem = control.problems.ball_to_point(x=x)
    return eqx.tree_at(lambda own: own.system.system.masses, problem, jnp.full(3, mass))


def cart(pole_mass: Any, duration: Any) -> control.ControlProblem:
    """The cart with a pole of another mass, in another time."""
    return control.problems.cart_pole(duration=duration, system=CartPole(pole_mass=pole_mass))


CASES = {
    "disk-to-point": Case(
        control.problems.disk_to_point,
        {"distance": (0.8, 1.2), "duration": (4.0, 6.0)},
        control.Collocation(intervals=20),
    ),
    "unicycle-sideways": Case(
        control.problems.unicycle_sideways,
        {"shift": (0.8, 1.2), "duration": (0.8, 1.2)},
        control.Collocation(intervals=20),
    ),
    "cart-pole": Case(
        cart, {"pole_mass": (0.2, 0.4), "duration": (1.8, 2.1)}, control.Collocation(intervals=40)
    ),
    "ball-to-point": Case(
        ball, {"mass": (0.4, 0.6), "x": (0.4, 0.6)}, control.Collocation(intervals=30)
    ),
}


def compared(name: str, count: int) -> dict[str, Any]:
    """The figures of a family of `count` values, drawn at random from their ranges, and of IPOPT for some of them.

    `throughput_ratio`: `count` times IPOPT's mean processor time over the wall-clock time of `solve_family` on all cores,
    from `problem_of` to costs and controls; `ratio_by_processor`: the same over its processor time. Building is left out
    for CasADi. The calls of both alternate, so that other work on the machine meets both.
    """
    case, rng = CASES[name], np.random.default_rng(0)
    drawn = {key: jnp.asarray(rng.uniform(*ends, count)) for key, ends in case.ranges.items()}
    found, rows, peers = None, [], []
    first = time.process_time()
    control.solve_family(lambda value: case.problem_of(**value), drawn, case.method)
    first = time.process_time() - first
    for repeat in range(REPEATS):
        began, wall = time.process_time(), time.perf_counter()
        found = control.solve_family(lambda value: case.problem_of(**value), drawn, case.method)
        rows.append((time.process_time() - began, time.perf_counter() - wall))
        peers += by_ipopt(name, drawn, range(repeat, min(PEER_VALUES, count), REPEATS))
    assert found is not None
    processor, wall = np.median(rows, axis=0).tolist()
    row = {
        "values": count,
        "values_converged": int(np.sum(found.converged)),
        "family_first_call": round(first, 2),
        "family_processor": round(processor, 4),
        "family_wall": round(wall, 4),
    }
    return row | (_beside(found, count, processor, wall, peers) if peers else {})


def _beside(found: Any, count: int, processor: float, wall: float, peers: list[tuple]) -> dict:
    """The ratios of times, and the number of IPOPT's optima that are those of the family."""
    own = np.asarray(found.cost)
    seconds = np.array([x[1] for x in peers if x[3]])
    same = [abs(own[k] - cost) <= SAME * abs(cost) for k, _, cost, solved in peers if solved]
    mean = float(np.mean(seconds)) if seconds.size else float("nan")
    return {
        "ipopt_one": round(mean, 5),
        "ipopt_solved": f"{len(seconds)} of {len(peers)}",
        "same_optimum": f"{sum(same)} of {len(same)}",
        "throughput_ratio": round(count * mean / wall, 1),
        "ratio_by_processor": round(count * mean / processor, 1),
    }


def by_ipopt(name: str, drawn: dict[str, Any], which: range) -> list[tuple]:
    """For some of the values (index, processor seconds, cost, whether IPOPT has converged); empty without CasADi."""
    if importlib.util.find_spec("casadi") is None:
        return []
    import control_references as references

    rows, method = [], CASES[name].method
    assert method.intervals is not None
    for k in which:
        peer = references.PROBLEMS[name](**{key: float(x[k]) for key, x in drawn.items()})
        built = references.built(peer, method.intervals, tolerance=method.tolerance)
        began = time.process_time()
        cost, _, _, status, _ = built.solve()
        rows.append((k, time.process_time() - began, cost, status == "Solve_Succeeded"))
    return rows
