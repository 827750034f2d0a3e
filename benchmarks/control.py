"""Optimal control by collocation: known optima, iterations and times.

    python benchmarks/control.py [--quick] [--only NAME ...]

prints a table, and as its last line one JSON object: for each problem the cost, its difference from the known optimum, the
iterations, the seconds of the first call (tracing and compiling included) and of later ones, and whether the certificate
holds. `--quick` takes the cheapest problem alone. Where CasADi is installed, the disk is solved by IPOPT as well, with
the same points, mesh and tolerance.
"""

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import control
from jaxhamel.systems import ChaplyginSleigh

jax.config.update("jax_enable_x64", True)
REPEATS = 5


def known():
    """Name -> (problem, method, the known optimum)."""
    problems, by_default = control.problems, control.Collocation()
    fine = control.Collocation(intervals=40)
    symmetric = ChaplyginSleigh(*(jnp.asarray(x) for x in (1.0, 1.0, 0.0)))
    half_turn = lambda: problems.plate_ball(angle=jnp.pi)  # noqa: E731
    return {
        "disk-to-point": (problems.disk_to_point, by_default, 0.258317584642551),
        "disk-obstacle": (problems.disk_obstacle, fine, 5.6010616),  # CasADi, 100 intervals
        "unicycle-sideways": (problems.unicycle_sideways, fine, 11.1581587152),
        "sleigh-park": (problems.sleigh_park, fine, 5.94025427607),
        "sleigh-park, a = 0": (lambda: problems.sleigh_park(system=symmetric), fine, 4.46587180252),
        "plate-ball": (problems.plate_ball, fine, 30.6326881525),
        "plate-ball, half a turn": (half_turn, fine, 62.3108150058),
        "satellite-turn": (problems.satellite_turn, by_default, 199.9237216990),
        "falling-cat": (problems.falling_cat, by_default, 57.23261047013),
        "cart-pole": (problems.cart_pole, fine, 58.807667458),
    }


def measured(make, method, optimum: float) -> dict:
    """The numbers of one problem."""
    problem = make()
    seconds = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        result = control.solve(problem, method)
        seconds.append(time.perf_counter() - began)
    certificate: Any = result.certificate
    return {
        "cost": result.cost,
        "error": result.cost - optimum,
        "iterations": len(result.history["cost"]),
        "first_call": round(seconds[0], 2),
        "later_calls": round(float(np.median(seconds[1:])), 4),
        "certificate": certificate.holds,
        "second_order": certificate.second_order,
    }


def by_casadi(intervals: int = 20, degree: int = 4) -> dict | None:
    """The disk by IPOPT: equations of Putkaradze and Rogers (2018), eq. (3.39), written by hand; None without CasADi."""
    try:
        import casadi as ca  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    x, u = ca.SX.sym("x", 4), ca.SX.sym("u")
    f = ca.Function("f", [x, u], [_disk(ca, x, u)])
    tau = np.append(0, ca.collocation_points(degree, "legendre"))
    slopes, ends, weights = ca.collocation_coeff(tau[1:].tolist())
    h, opti = 5.0 / intervals, ca.Opti()
    start, end = np.array([0, -np.pi / 2, 0, 0]), np.array([-1, 1 - np.pi / 2, 0, 0])
    node, cost = opti.variable(4), 0
    opti.subject_to(node == start)
    for i in range(intervals):
        stages, controls = opti.variable(4, degree), opti.variable(1, degree)
        opti.set_initial(
            stages, np.tile((start + (i + 0.5) / intervals * (end - start))[:, None], degree)
        )
        every = ca.horzcat(node, stages)
        opti.subject_to(ca.vec(every @ slopes) == ca.vec(h * f.map(degree)(stages, controls)))
        cost += h * (controls**2) @ weights
        after = opti.variable(4)
        opti.subject_to(after == every @ ends)
        opti.set_initial(after, start + (i + 1) / intervals * (end - start))
        node = after
    opti.subject_to(node == end)
    opti.minimize(cost)
    began = time.perf_counter()
    opti.solver("ipopt", {"print_time": False}, {"tol": 1e-10, "print_level": 0, "sb": "yes"})
    found = opti.solve()
    seconds = [time.perf_counter() - began]
    for _ in range(REPEATS):
        began = time.perf_counter()
        found = opti.solve()
        seconds.append(time.perf_counter() - began)
    return {
        "cost": float(found.value(cost)),
        "iterations": int(found.stats()["iter_count"]),
        "later_calls": round(float(np.median(seconds[1:])), 4),
    }


def _disk(ca, x, u):
    """ẋ of x = (φ, θ, ω, v)."""
    phi, theta, omega, v = x[0], x[1], x[2], x[3]
    z1, z3 = 0.8 * ca.cos(theta), 0.8 * ca.sin(theta)
    p1, p3 = -z3, z1
    a, b = ca.sin(phi) + z1, ca.cos(phi) + z3
    K = (9.81 + omega**2) * (z3 * ca.sin(phi) - z1 * ca.cos(phi))
    K += b * (-2 * omega * v * p3 - v**2 * z1 + u * p1)
    K -= a * (2 * omega * v * p1 - v**2 * z3 + u * p3)
    return ca.vertcat(omega, v, K / (5 + a**2 + b**2), u)


def main() -> None:
    """The table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*")
    given = parser.parse_args()
    names = given.only or (["disk-to-point"] if given.quick else list(known()))
    found: dict = {}
    for name in names:
        found[name] = measured(*known()[name])
        print(name, *(f"{key} {value}" for key, value in found[name].items()), sep="  ", flush=True)
    found["disk-to-point by IPOPT"] = by_casadi()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
