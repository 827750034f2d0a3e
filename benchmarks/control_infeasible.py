"""Problems of optimal control without a solution, with the least violations that are known.

    python benchmarks/control_infeasible.py [--only NAME ...] [--quick]

prints for each problem the iterations, the seconds with compilation, the sum of the violations found, its relative
difference from the closed form, and the status, with a mark where the search does not end as infeasible or the sum is off by
more than 1e-3; then one line of JSON. The closed forms are beside the problems. `--quick` takes the first two.
"""

import json
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from classical_control import at_end, problem, solve_asked
from scipy.optimize import linprog
from strangers_control import UNICYCLE, limit, limited, particle, state, zero

import jaxhamel
from jaxhamel import control

jax.config.update("jax_enable_x64", True)
ENERGY = (control.ControlEnergy(2.0),)


def moves(n):
    """ẏ = c in n dimensions."""
    return lambda t, y, c: c


def to_one(limits, n=2):
    """ẏ = c from 0 to (1, 0, …) in unit time."""
    end = [1.0] + [0.0] * (n - 1)
    return problem(moves(n), [0.0] * n, [0.0, 1.0], zero(n), ENERGY, (state(*end), *limits), end)


WALL = limit(lambda y, c: (y[:1] - 0.5) ** 2, 0.01, name="wall")
WIDER = limit(lambda y, c: (y[1:2] ** 2 + 1.0) * (y[:1] - 0.5) ** 2, 0.01, name="wall")


def around_target(place):
    """A ring of the radii √0.15 and √0.35 round the target (1, 0)."""
    away = lambda y, c: (jnp.sum((place(y) - jnp.array([1.0, 0.0])) ** 2) - 0.25)[None] ** 2
    return limit(away, 0.01, name="ring")


def ring_round_a_unicycle():
    given = state(0.0, 1.0, 0.0), around_target(lambda y: y[1:])
    return problem(UNICYCLE, [0.0] * 3, [0.0, 1.0], zero(2), ENERGY, given, [0.0, 1.0, 0.0])


def narrow_corridor():
    """Half as wide as −0.1 in the middle: each wall is violated by 0.1 there, or both by 0.2 together."""
    half = lambda x: 0.3 - 0.4 * jnp.exp(-(((x - 0.5) / 0.15) ** 2))
    left = limit(lambda y, c: (half(y[0]) - y[1])[None], 0.0, name="left wall")
    right = limit(lambda y, c: (half(y[0]) + y[1])[None], 0.0, name="right wall")
    return to_one((left, right))


def narrow_gap():
    """A robot of radius 0.1 between discs at (½, ±0.2) of radius 0.3. Half-way between them 0.2 are missing at each; beside
    a wall, |y| = 0.4, they are missing at one disc only."""
    away = lambda y: lambda q, c: (jnp.hypot(q[0] - 0.5, q[1] - y + 1e-9) - 0.3)[None]
    discs = (limit(away(y), 0.1, name=n) for y, n in ((0.2, "upper disc"), (-0.2, "lower disc")))
    walls = limit(lambda y, c: y[1:2], -0.4, 0.4, name="walls")
    return particle(2, ENERGY, (*discs, walls))


def weak_force(weight=2.0):
    """|f| ≤ 3, and 4 is needed for 1 in unit time: x(1) = 3/4 with x'(1) = 0, whatever the weight of ∫f²."""
    return particle(1, (control.ControlEnergy(weight),), (limited(-3.0, 3.0, "force"),))


def slow():
    """v ≤ 0.9 with any force: 1/10 is missing and a little more, as v begins and ends at 0."""
    speed = limit(lambda y, c: y[1:], upper=0.9, name="speed")
    return particle(1, ENERGY, (speed, limited(-200.0, 200.0, "force")))


def least_miss(pieces=80):
    """The least violation of `slow` with a constant force on each of 80 intervals, by a linear program.

    Of four points on 20 intervals the elastic problem makes 80 with one point each. The unknowns are the forces and the
    positive and negative parts of the misses of place and velocity.
    """
    h, signs, none = 1 / pieces, [1.0, -1.0], np.zeros((pieces, 4))
    speeds = h * np.tri(pieces)
    place = h * np.sum(speeds - h / 2 * np.eye(pieces), axis=0)
    ends = np.array([[*place, *signs, 0, 0], [*speeds[-1], 0, 0, *signs]])
    bounds = [(-200, 200)] * pieces + [(0, None)] * 4
    cost = np.append(np.zeros(pieces), np.ones(4))
    return linprog(cost, np.hstack([speeds, none]), np.full(pieces, 0.9), ends, [1, 0], bounds).fun


def little_fuel():
    """∫f² ≤ 11, and 12 d² are needed for the distance d."""
    rate = lambda t, y, c: jnp.stack([y[1], c[0], c[0] ** 2])
    fuel = limit(lambda y, c: y[2:], upper=11.0, name="fuel")
    end = at_end(lambda y: y[:2], 1.0, 0.0)
    return problem(rate, [0.0] * 3, [0.0, 1.0], zero(1), ENERGY, (end, fuel), [1.0, 0.0, 11.0])


def beyond_reach():
    """An arm of the reach 2, a target at 2.5."""
    tip = lambda y: jnp.stack(
        [jnp.cos(y[0]) + jnp.cos(y[0] + y[1]), jnp.sin(y[0]) + jnp.sin(y[0] + y[1])]
    )
    end = (at_end(tip, 0.0, 2.5),)
    return problem(moves(2), [0.3, 0.5], [0.0, 1.0], zero(2), ENERGY, end, [1.0, 0.5])


def slow_turn():
    """A turn by 3 rad with rates of at most 2 rad/s in 1 s."""
    end = jnp.array([jnp.cos(1.5), 0.0, 0.0, jnp.sin(1.5)])
    rates = control.PathLimit(
        lambda t, q, u, c: (c(t) @ c(t))[None], upper=4.0, name="rates, squared"
    )
    return control.ControlProblem(
        jaxhamel.ODE(moves(3), jaxhamel.SO3()), jnp.array([1.0, 0, 0, 0]), jnp.zeros(0), jnp.linspace(0.0, 1.0, 21),
        lambda t: jnp.array([0.0, 0.0, 1.0]), ENERGY, (control.StateAtEnd(q=end), rates),
    )  # fmt: skip


def weak_resonance():
    """ẍ = −x + c from (x, v) to (x + 1, v) after 2π: ∫ c sin t dt = 0 and −1 = … take |c| ≥ 1/4, since ∫|cos t| dt = 4."""
    rate = lambda t, y, c: jnp.stack([y[1], -y[0] + c[0]])
    period = control.Periodic(displacement=jnp.array([1.0, 0.0]))
    constraints = (control.FreeInitialState(), period, limited(-0.1, 0.1, "force"))
    return problem(rate, [0.0, 0.0], [0.0, 2 * jnp.pi], zero(1), ENERGY, constraints)


def two_phases():
    """The first phase ends at 0.4 or below, the second begins at 0.6 or above."""
    below, above = (
        limit(lambda y, c: y, *x) for x in ((-jnp.inf, 0.4, "first"), (0.6, jnp.inf, "second"))
    )
    first = problem(moves(1), [0.0], [0.0, 1.0], zero(1), ENERGY, (below,), [0.4])
    second = problem(moves(1), [0.6], [0.0, 1.0], zero(1), ENERGY, (state(1.0), above), [1.0])
    return control.phases((first, second))


def covered_target():
    """An obstacle moves with the particle's target, (1, 0), at the end: its radius² is 0.04."""
    away = lambda t, q, u, c: jnp.sum((q[:2] - jnp.array([1.0, 0.0]) * t) ** 2)[None]
    obstacle = control.PathLimit(away, 0.04, name="obstacle")
    rate = lambda t, y, c: jnp.concatenate([y[2:], c])
    end = control.ConditionsAtEnd(lambda q, u: q - jnp.array([1.0, 0.0, 0.0, 0.0]))
    return problem(
        rate, [0.5, 0, 0, 0], [0.0, 1.0], zero(2), ENERGY, (end, obstacle), [1.0, 0, 0, 0]
    )


def pendulum(torque, duration):
    """A pendulum of 1 kg and 1 m is to swing up with too weak a motor in too short a time."""
    rate = lambda t, y, c: jnp.stack([y[1], -9.81 * jnp.sin(y[0]) + c[0]])
    constraints = (state(jnp.pi, 0.0), limited(-torque, torque, "torque"))
    return problem(rate, [0.0, 0.0], [0.0, duration], zero(1), ENERGY, constraints, [jnp.pi, 0.0])


class Known(NamedTuple):
    """A problem, the least sum of its violations, None if no closed form is known, and the constraints that may be named."""

    make: Callable[[], Any]
    total: float | None
    names: tuple[str, ...]


KNOWN = {
    "wall": Known(lambda: to_one((WALL,)), 0.01, ("wall",)),
    "weak force": Known(weak_force, 0.25, ("StateAtEnd", "force")),
    "weak force, large cost": Known(lambda: weak_force(1e5), 0.25, ("StateAtEnd", "force")),
    "wall, wider aside": Known(lambda: to_one((WIDER,)), 0.01, ("wall",)),
    "wall, a particle": Known(lambda: particle(2, ENERGY, (WALL,)), 0.01, ("wall",)),
    "ring": Known(lambda: to_one((around_target(lambda y: y[:2]),)), 0.01, ("ring",)),
    "ring, a particle": Known(lambda: particle(2, ENERGY, (around_target(lambda y: y[:2]),)), 0.01, ("ring",)),
    "ring, a unicycle": Known(
        ring_round_a_unicycle, 0.01, ("ring",),
    ),
    "narrow corridor": Known(narrow_corridor, 0.2, ("left wall", "right wall")),
    "narrow gap": Known(narrow_gap, 0.2, ("upper disc", "lower disc", "walls")),
    "slow": Known(slow, least_miss(), ("StateAtEnd",)),
    "little fuel": Known(little_fuel, 1 - float(np.sqrt(11 / 12)), ("conditions at the end",)),
    "beyond reach": Known(beyond_reach, 0.5, ("conditions at the end",)),
    "slow turn": Known(slow_turn, 1.0, ("StateAtEnd",)),
    "weak resonance": Known(weak_resonance, 0.15, ("force",)),
    "two phases": Known(two_phases, 0.2, ("link of phases 1 and 2",)),
    "covered target": Known(covered_target, 0.04, ("obstacle",)),
    "pendulum, 5 N m in 1.2 s": Known(lambda: pendulum(5.0, 1.2), None, ("StateAtEnd",)),
    "pendulum, 3 N m in 2 s": Known(lambda: pendulum(3.0, 2.0), None, ("StateAtEnd",)),
}  # fmt: skip


def violations(status: str) -> dict[str, float]:
    """The violations that a status states, by the names of their constraints."""
    return {
        name: float(x) for name, x in re.findall(r"`([^`]*)` by ([0-9.]+(?:e-?[0-9]+)?)", status)
    }


def solved(name: str) -> dict[str, Any]:
    """Solves a problem from a cold start and prints its row."""
    known, began = KNOWN[name], time.perf_counter()
    result: Any = control.solve(known.make(), control.Collocation())
    seconds, found = time.perf_counter() - began, violations(result.status)
    total = sum(found.values())
    error = None if known.total is None else abs(total - known.total) / known.total
    right = result.status.startswith("infeasible") and set(found) <= set(known.names)
    right &= not result.certificate.holds and (error or 0.0) < 1e-3
    off, mark = "" if error is None else f"{error:.0e}", "" if right else " WRONG"
    many = len(result.history["cost"])
    row = f"| {name} | {many} | {seconds:.0f} | {total:.6g} | {off} | {result.status} |{mark}"
    print(row, flush=True)
    return {"total": total, "error": error, "right": bool(right)}


def main() -> None:
    found = solve_asked(KNOWN, list(KNOWN)[:2], solved, __doc__)
    wrong = [name for name, row in found.items() if not row["right"]]
    line = {"benchmark": "control_infeasible", "wrong": wrong, "problems": found}
    print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
