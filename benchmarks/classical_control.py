"""Classical problems of optimal control, each as a differential equation in about ten lines.

    python benchmarks/classical_control.py [--only NAME ...] [--quick]

prints for each problem the cost found, its difference from the known optimum, the iterations, the seconds with
compilation, whether the certificate holds, the intervals and the kind of the point; then one line of JSON. The known optima:
docs/optimal_control.md. `--quick` takes the two problems that compile fastest.
"""

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp

import jaxhamel
from jaxhamel import control

jax.config.update("jax_enable_x64", True)


def problem(rate, y0, ts, curve, costs, constraints, end=None):
    """A problem of an ODE, whose guess is the straight line from y0 to `end`."""
    y0, ts = jnp.asarray(y0), jnp.asarray(ts)
    shares = jnp.linspace(0.0, 1.0, 21)
    times = ts[0] + (ts[-1] - ts[0]) * shares if len(ts) == 2 else ts
    shares = (times - ts[0]) / (ts[-1] - ts[0])
    line = y0 + shares[:, None] * (jnp.asarray(y0 if end is None else end) - y0)
    guess = (line, jnp.zeros((len(times), 0)))
    return control.ControlProblem(
        jaxhamel.ODE(rate, len(y0)), y0, jnp.zeros(0), times, curve, costs, constraints, guess
    )


def value(t, q, u, control):
    return control(t)


def end_time():
    return control.FinalCost(lambda t, q, u, control: t)


def at_end(function, *targets):
    return control.ConditionsAtEnd(lambda q, u: function(q) - jnp.asarray(targets))


def bryson_denham():
    rate = lambda t, y, c: jnp.stack([y[1], c[0]])
    place = control.PathLimit(lambda t, q, u, control: q[:1], upper=1 / 9, name="place")
    end = control.StateAtEnd(q=jnp.array([0.0, -1.0]))
    costs = (control.ControlEnergy(),)
    return problem(rate, [0.0, 1.0], [0.0, 1.0], lambda t: jnp.zeros(1), costs, (end, place))


def brachistochrone():
    rate = lambda t, y, c: jnp.stack(
        [y[2] * jnp.cos(c[0]), -y[2] * jnp.sin(c[0]), 9.80665 * jnp.sin(c[0])]
    )
    constraints = (at_end(lambda y: y[:2], 10.0, -5.0), control.FreeEndTime(0.5, 5.0))
    curve = lambda t: 1.5 - t[None]
    return problem(rate, [0.0] * 3, [0.0, 2.0], curve, (end_time(),), constraints, [10.0, -5, 9.9])


def van_der_pol():
    rate = lambda t, y, c: jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0] + c[0]])
    costs = (control.ControlEnergy(), control.Running(lambda t, q, u, control: q))
    return problem(rate, [1.0, 0.0], [0.0, 2.0], lambda t: jnp.zeros(1), costs, ())


def moon_lander():
    """The lander falls freely and then brakes with full thrust, in two phases."""
    rate = lambda t, y, c: jnp.stack([y[1], c[0] - 1.5])
    limits = control.PathLimit(value, 0.0, 3.0, name="thrust"), control.FreeEndTime(0.1, 10.0)
    fuel = control.RunningCost(lambda t, q, u, control: control(t)[0])
    end = (control.StateAtEnd(q=jnp.zeros(2)),)
    ts = [0.0, 2.0]
    first = problem(rate, [10.0, -2.0], ts, lambda t: jnp.zeros(1), (fuel,), limits, [5.0, -4.0])
    second = problem(rate, [5.0, -4.0], ts, lambda t: jnp.ones(1), (fuel,), limits + end, [0.0, 0])
    return control.phases((first, second))


def particle_steering():
    rate = lambda t, y, c: jnp.stack([y[2], y[3], 100 * jnp.cos(c[0]), 100 * jnp.sin(c[0])])
    constraints = (at_end(lambda y: y[1:], 5.0, 45.0, 0.0), control.FreeEndTime(0.1, 2.0))
    curve = lambda t: 0.9 - 3.3 * t[None]
    end = [10.0, 5.0, 45.0, 0.0]
    return problem(rate, [0.0] * 4, [0.0, 0.5], curve, (end_time(),), constraints, end)


def hypersensitive():
    rate = lambda t, y, c: c - y**3
    costs = (
        control.ControlEnergy(2.0),
        control.Running(lambda t, q, u, control: q, 2.0),
    )
    layers = 1e4 * jnp.concatenate([s := jnp.linspace(0.0, 1.0, 21) ** 5 / 2, 1 - s[-2::-1]])
    end = (control.StateAtEnd(q=jnp.array([1.5])),)
    return problem(rate, [1.0], layers, lambda t: jnp.zeros(1), costs, end, [0.0])


def goddard():
    def rate(t, y, c):
        h, v, m = y
        drag = 310.0 * v**2 * jnp.exp(-500.0 * (h - 1.0))
        return jnp.stack([v, (c[0] - drag) / m - 1 / h**2, -2.0 * c[0]])

    height = control.FinalCost(lambda t, q, u, control: -q[0])
    constraints = (
        at_end(lambda y: y[2:], 0.6), control.FreeEndTime(0.05, 0.5),
        control.PathLimit(value, 0.0, 3.5, name="thrust"),
    )  # fmt: skip
    start, end = [1.0, 0.0, 1.0], [1.01, 0.05, 0.6]
    return problem(rate, start, [0.0, 0.2], lambda t: jnp.full(1, 1.0), (height,), constraints, end)


def robot_arm():
    """An arm that slides through its joint (ρ), turns about the vertical (θ) and rises (φ), in the least time."""
    pi = jnp.pi

    def rate(t, y, c):
        rho, phi = y[0], y[2]
        inertia = ((5.0 - rho) ** 3 + rho**3) / 3
        turning = jnp.stack([c[0] / 5.0, c[1] / (inertia * jnp.sin(phi) ** 2), c[2] / inertia])
        return jnp.concatenate([y[3:], turning])

    start, end = [4.5, 0.0, pi / 4, 0.0, 0.0, 0.0], [4.5, 2 * pi / 3, pi / 4, 0.0, 0.0, 0.0]
    constraints = (
        control.StateAtEnd(q=jnp.array(end)), control.FreeEndTime(1.0, 30.0),
        control.PathLimit(value, -1.0, 1.0, name="torques"),
    )  # fmt: skip
    curve = lambda t: jnp.zeros(3)
    return problem(rate, start, [0.0, 9.0], curve, (end_time(),), constraints, end)


def dido():
    """The largest area between a rope of length π and its ends, 2 apart: half of a disk."""
    rate = lambda t, y, c: jnp.stack([jnp.cos(c[0]), jnp.sin(c[0])])
    area = control.RunningCost(lambda t, q, u, control: -q[1] * jnp.cos(control(t)[0]))
    end = (control.StateAtEnd(q=jnp.array([2.0, 0.0])),)
    return problem(
        rate, [0.0, 0.0], [0.0, jnp.pi], lambda t: 1 - 0.6 * t[None], (area,), end, [2.0, 0]
    )


def snell():
    """The fastest way through two media, with speeds 1 and 2, from (0, 0) to (2, 2) across x = 1."""

    def at_speed(v, start, constraints, costs, angle, end):
        rate = lambda t, y, c: v * jnp.stack([jnp.cos(c[0]), jnp.sin(c[0])])
        free = control.FreeEndTime(0.1, 9.0)
        curve = lambda t: jnp.full(1, angle)
        return problem(rate, start, [0.0, 1.0], curve, costs, (*constraints, free), end)

    first = at_speed(1.0, [0.0, 0.0], (at_end(lambda y: y[:1], 1.0),), (), 0.3, [1.0, 0.5])
    target = (control.StateAtEnd(q=jnp.array([2.0, 2.0])),)
    second = at_speed(2.0, [1.0, 0.5], target, (end_time(),), 0.8, [2.0, 2.0])
    return control.phases((first, second))


def heisenberg():
    """The plane's shortest closed path round the area 1, from control zero, where the area's gradient vanishes."""
    rate = lambda t, y, c: jnp.stack([c[0], c[1], (y[0] * c[1] - y[1] * c[0]) / 2])
    end = (control.StateAtEnd(q=jnp.array([0.0, 0.0, 1.0])),)
    energy = (control.ControlEnergy(),)
    return problem(
        rate, [0.0] * 3, [0.0, 1.0], lambda t: jnp.zeros(2), energy, end, [0.0, 0.0, 1.0]
    )


def great_circle():
    """The long arc of a great circle on a sphere is stationary but no minimum."""
    rate = lambda t, y, c: jnp.stack([c[0], c[1] / jnp.cos(y[0])])
    far = 1.5 * jnp.pi
    end = (control.StateAtEnd(q=jnp.array([0.0, far])),)
    energy, curve = (control.ControlEnergy(),), lambda t: jnp.array([0.0, far])
    return problem(rate, [0.0, 0.0], [0.0, 1.0], curve, energy, end, [0.0, far])


def no_multipliers():
    """ẏ = c² returns to 0 only with c = 0, where the gradient of the condition is zero."""
    cost = (control.Running(lambda t, q, u, control: control(t) - 1),)
    end = (control.StateAtEnd(q=jnp.zeros(1)),)
    return problem(lambda t, y, c: c**2, [0.0], [0.0, 1.0], lambda t: jnp.full(1, 0.5), cost, end)


KNOWN = {
    "Bryson–Denham": (bryson_denham, control.Collocation(30, 3), 4.0),
    "brachistochrone": (brachistochrone, control.Collocation(), 1.80160312245308),
    "van der Pol": (van_der_pol, control.Collocation(), 1.04780690822),
    "moon lander": (moon_lander, control.Collocation(8, 3), 2 * 17**0.5),
    "particle steering": (particle_steering, control.Collocation(), 0.554570878334603),
    "hypersensitive": (
        hypersensitive, control.Collocation(None, error=1e-9), 6.72411380988600,
    ),
    "robot arm": (robot_arm, control.Collocation(), 9.140911745915),
    # By integration of its three arcs: on the middle one the thrust keeps the state where λ·[f₀, f₁] = 0, λ·f₀ = λ·f₁ = 0.
    "Goddard": (goddard, control.Collocation(), -1.012836918318),
    "Dido": (dido, control.Collocation(10), -jnp.pi / 2),
    "Snell": (snell, control.Collocation(4, 3), 2.018821638101307),
    "Heisenberg": (heisenberg, control.Collocation(), 2 * jnp.pi),
    "great circle": (great_circle, control.Collocation(10), 1.125 * jnp.pi**2),  # not a minimum
    "no multipliers": (no_multipliers, control.Collocation(10), 0.5),
}  # fmt: skip


QUICK = ["van der Pol", "particle steering"]


def solved(name: str) -> dict[str, Any]:
    """Solves a problem from a cold start and prints its row."""
    make, method, optimum = KNOWN[name]
    began = time.perf_counter()
    result = control.solve(make(), method)
    seconds = time.perf_counter() - began
    certificate: Any = result.certificate
    print(
        f"| {name} | {result.cost:.14g} | {result.cost - optimum:.1e} | {len(result.history['cost'])} "
        f"| {seconds:.1f} | {certificate.holds} | {len(result.ts) - 1} "
        f"| {certificate.second_order} |",
        flush=True,
    )
    if not certificate.holds:
        print(certificate.words, flush=True)
    error = abs(float(result.cost) - optimum) / abs(optimum)
    return {"error": error, "seconds": round(seconds, 2), "holds": bool(certificate.holds)}


def solve_asked(problems, quick, solved, description) -> dict[str, Any]:
    """Reads --only and --quick from the command line and solves the problems that they select.

    Args:
        problems: names of the problems, in the order of the table.
        quick: names of those that --quick selects.
        solved: solves the problem of a name and returns its row of the table.
        description: the text of --help.

    Returns:
        The rows by the names of their problems.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=problems, default=list(problems))
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    return {name: solved(name) for name in (quick if asked.quick else asked.only)}


def main() -> None:
    found = solve_asked(KNOWN, QUICK, solved, __doc__)
    largest = max(row["error"] for row in found.values())
    line = {"benchmark": "classical_control", "largest_error": largest, "problems": found}
    print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
