"""The problems of `control_references.py` by FATROP, with the same points, mesh and tolerance.

FATROP (Vanroye et al. 2023) takes the unknowns and constraints stage by stage: the state at a node, then the states and
controls at the points of the interval after it, as its controls.

    pip install casadi numpy
    python benchmarks/control_fatrop.py [NAME ...]
"""

import sys
import time

import casadi as ca
import control_references
import numpy as np
from control_references import DEGREE, PROBLEMS, Problem, gauss

REPEATS = 5


def interval(p: Problem, h: float) -> ca.Function:
    """The function (time, x, states and controls at the points) -> (gaps, end, cost, limits) of an interval."""
    n, m, d = len(p.start), p.controls, DEGREE
    nodes, A, b = gauss(d)
    t, x, v = ca.SX.sym("t"), ca.SX.sym("x", n), ca.SX.sym("v", (n + m) * d)
    X, C = ca.reshape(v[: n * d], n, d), ca.reshape(v[n * d :], m, d)
    rates = [p.rate(X[:, j], C[:, j]) for j in range(d)]
    gaps = [X[:, j] - x - h * sum(A[j, i] * rates[i] for i in range(d)) for j in range(d)]
    end = x + h * sum(b[j] * rates[j] for j in range(d))
    cost = h * sum(b[j] * p.cost(X[:, j], C[:, j]) for j in range(d))
    limits = [p.path(t + h * nodes[j], X[:, j], C[:, j]) for j in range(d)] if p.path else []
    return ca.Function("interval", [t, x, v], [ca.vertcat(*gaps), end, cost, ca.vertcat(*limits)])


def built(p: Problem, intervals: int, tolerance: float, solver: str = "fatrop"):
    """The solver's function and its arguments."""
    n, d, h = len(p.start), DEGREE, p.duration / intervals
    nodes, step = gauss(d)[0], interval(p, h)
    xs = [ca.MX.sym(f"x{k}", n) for k in range(intervals + 1)]
    vs = [ca.MX.sym(f"v{k}", (n + p.controls) * d) for k in range(intervals)]
    cost, g, equal, w, w0 = 0, [], [], [], []
    for k, v in enumerate(vs):
        gaps, end, share, limits = step(k * h, xs[k], v)
        begin = [xs[0] - ca.DM(p.start)] if k == 0 else []
        rows = [xs[k + 1] - end, *begin, gaps, limits]
        g += rows
        equal += [True] * sum(x.numel() for x in rows[:-1]) + [False] * limits.numel()
        at = [p.guess((k + c) / intervals) for c in nodes]
        parts = [p.guess(k / intervals)[0], *(x for x, _ in at), *(c for _, c in at)]
        w0 += [np.ravel(x) for x in parts]
        w += [xs[k], v]
        cost += share
    last = p.end(xs[-1])
    g, equal = [*g, last], equal + [True] * last.numel()
    w, w0 = [*w, xs[-1]], [*w0, np.ravel(p.guess(1.0)[0])]
    own = {"tol": tolerance, "max_iter": 500, "print_level": 0}
    options = {"print_time": 0, solver: own, "equality": equal}
    if solver == "fatrop":
        options["structure_detection"] = "auto"
    nlp = {"x": ca.vertcat(*w), "f": cost, "g": ca.vertcat(*g)}
    lower = np.where(equal, 0.0, -np.inf)
    found = ca.nlpsol("nlp", solver, nlp, options)
    return found, {"x0": np.concatenate(w0), "lbg": lower, "ubg": np.zeros(len(lower))}


def by_ipopt(name: str, intervals: int, tolerance: float = 1e-9) -> dict:
    """The solution by IPOPT, in the order of `control_references.py`."""
    began = time.process_time()
    problem = control_references.built(PROBLEMS[name](), intervals, tolerance=tolerance)
    building, seconds, found = time.process_time() - began, [], None
    for _ in range(REPEATS):
        began = time.process_time()
        found = problem.solve()
        seconds.append(time.process_time() - began)
    assert found is not None
    return {
        "ipopt_cost": found[0],
        "ipopt_iterations": found[1],
        "ipopt_building": round(building, 2),
        "ipopt_search": round(float(np.median(seconds)), 4),
        "ipopt_status": found[3],
    }


def measured(name: str, intervals: int, tolerance: float = 1e-9) -> dict:
    """Cost, iterations, and processor seconds to build and to solve (the median of five)."""
    began = time.process_time()
    solve, arguments = built(PROBLEMS[name](), intervals, tolerance)
    building, seconds, out = time.process_time() - began, [], {}
    for _ in range(REPEATS):
        began = time.process_time()
        out = solve(**arguments)
        seconds.append(time.process_time() - began)
    stats = solve.stats()
    return {
        "fatrop_cost": float(out["f"]),
        "fatrop_iterations": stats.get("iter_count"),
        "fatrop_building": round(building, 2),
        "fatrop_search": round(float(np.median(seconds)), 4),
        "fatrop_status": stats.get("return_status"),
    }


if __name__ == "__main__":
    for name in sys.argv[1:] or list(PROBLEMS):
        intervals = PROBLEMS[name]().intervals[0]
        print(name, measured(name, intervals) | by_ipopt(name, intervals), flush=True)
