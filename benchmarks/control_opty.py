"""The cart-pole and the unicycle by opty, on meshes of its midpoint rule: seconds to build and solve, error of the cost.

opty (Moore and van den Bogert 2018) generates C code from SymPy's equations and compiles it; IPOPT then solves without
second derivatives. Its midpoint rule is of second order, so that a row has the error of the cost, too.

    pip install opty cyipopt-wheels cython setuptools
    python benchmarks/control_opty.py [--nodes 41 161]

needs a C compiler, and not jaxhamel. It prints a row for each problem and mesh, in processor seconds, and one JSON object as
its last line. The known optima, initial guesses and limits are those of `control_references.py`.
"""

import argparse
import json
import os
import time

import numpy as np
import sympy as sm
import sympy.physics.mechanics as me
from opty import Problem, create_objective_function

REPEATS = 5
T = me.dynamicsymbols._t


def unicycle():
    """The problem (rates − equations, states, controls, duration, start, end, bounds), a guess and the optimum."""
    phi, x, y, v, w = me.dynamicsymbols("phi x y v w")
    equations = sm.Matrix(
        [phi.diff(T) - w, x.diff(T) - v * sm.cos(phi), y.diff(T) - v * sm.sin(phi)]
    )
    guess = lambda s: [np.sin(np.pi * s), 0 * s, s, 1 + 0 * s, np.pi * np.cos(np.pi * s)]
    parts = equations, (phi, x, y), (v, w), 1.0, (0, 0, 0), (0, 0, 1), {}
    return parts, guess, 11.1581587152


def cart_pole():
    """The cart with a pole of Kelly 2017, section 6, in the form of `unicycle`."""
    x, theta, v, w, force = me.dynamicsymbols("x theta v w force")
    m1, m2, length, g = 1.0, 0.3, 0.5, 9.81
    s, c = sm.sin(theta), sm.cos(theta)
    bottom = m1 + m2 * s**2
    cart = (length * m2 * s * w**2 + force + m2 * g * c * s) / bottom
    pole = -(length * m2 * c * s * w**2 + force * c + (m1 + m2) * g * s) / (length * bottom)
    rates = sm.Matrix([v, w, cart, pole])
    states = (x, theta, v, w)
    guess = lambda s: [s, np.pi * s, 0 * s, 0 * s, 0 * s]
    bounds = {force: (-20.0, 20.0), x: (-2.0, 2.0)}
    equations = sm.Matrix(states).diff(T) - rates
    return (
        (equations, states, (force,), 2.0, (0, 0, 0, 0), (1, np.pi, 0, 0), bounds),
        guess,
        58.807667458,
    )


PROBLEMS = {"unicycle-sideways": unicycle, "cart-pole": cart_pole}


def built(parts, nodes: int) -> Problem:
    """opty's problem: ∫ |controls|² by the midpoint rule, with states given at both ends."""
    equations, states, controls, duration, start, end, bounds = parts
    h = duration / (nodes - 1)
    cost = sm.Integral(sum(u**2 for u in controls), T)
    arguments = states, controls, (), nodes, h
    objective, gradient = create_objective_function(
        cost, *arguments, integration_method="midpoint", time_symbol=T
    )
    given = [
        (x.func(0.0) - a, x.func(duration) - b) for x, a, b in zip(states, start, end, strict=True)
    ]
    conditions = [each for pair in given for each in pair]
    problem = Problem(
        objective, gradient, equations, states, nodes, h, instance_constraints=conditions,
        bounds=bounds, integration_method="midpoint", time_symbol=T,
    )  # fmt: skip
    problem.add_option("tol", 1e-8)
    problem.add_option("print_level", 0)
    problem.add_option("sb", "yes")
    problem.add_option("max_iter", 3000)
    return problem


def processor_seconds() -> float:
    """Processor seconds of this process and of the compilers that it has started."""
    return sum(os.times()[:4])


def measured(name: str, nodes: int) -> dict:
    """The figures of one mesh."""
    parts, guess, optimum = PROBLEMS[name]()
    began = processor_seconds()
    problem = built(parts, nodes)
    first = np.concatenate(guess(np.linspace(0.0, 1.0, nodes)))
    problem.con(first), problem.con_jac(first)
    building, seconds = processor_seconds() - began, []
    for _ in range(REPEATS):
        began = time.process_time()
        found, info = problem.solve(first)
        seconds.append(time.process_time() - began)
    cost = float(info["obj_val"])
    return {
        "cost": cost,
        "error": cost / optimum - 1,
        "building": round(building, 2),
        "search": round(float(np.median(seconds)), 4),
        "status": int(info["status"]),
        "unknowns": len(found),
    }


def main() -> None:
    """Prints the rows and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[41, 161, 641])
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    nodes, found = parser.parse_args().nodes, {}
    for name in PROBLEMS:
        for count in nodes:
            row = measured(name, count)
            found[f"{name}, {count} nodes"] = row
            print(
                name, count, *(f"{key} {value}" for key, value in row.items()), sep="  ", flush=True
            )
    print(json.dumps({"benchmark": "control_opty", "problems": found}))


if __name__ == "__main__":
    main()
