"""Optimal-control problems whose certificates are known: second order, multipliers, and whether it may hold.

    python benchmarks/control_verdicts.py [--only NAME ...] [--quick]

prints for each problem the cost found, its difference from the closed form, the iterations, whether the certificate holds,
the kind of the point and whether the multipliers are unique, with a mark where these differ from the known ones; then one
line of JSON. `--quick` takes the first two problems.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from classical_control import at_end, end_time, problem, solve_asked, value
from strangers_control import FAMILY, NONE, OPEN, STRICT, state

import jaxhamel
from jaxhamel import control

jax.config.update("jax_enable_x64", True)
ENERGY = (control.ControlEnergy(),)


def potential(function, start, end, curve=lambda t: jnp.zeros(1)):
    """min ∫ ½ẏ² + V(y) dt from `start` to `end` in unit time."""
    costs = (*ENERGY, control.RunningCost(lambda t, q, u, control: function(q[0])))
    return problem(lambda t, y, c: c, [start], [0.0, 1.0], curve, costs, (state(end),), [end])


def rod(load, curve=lambda t: jnp.zeros(1)):
    """An elastic rod under a compressive load; θ = 0 at both ends. Euler's load is π²."""
    return potential(lambda angle: load * jnp.cos(angle), 0.0, 0.0, curve)


def flat(cubic, quartic):
    """y = 0 has zero curvature along sin πt; terms of third and fourth order decide."""
    return potential(lambda y: -0.5 * jnp.pi**2 * y**2 + cubic * y**3 + quartic * y**4, 0.0, 0.0)


def turned(angle):
    """A turn about e₃ by an angle in unit time, at constant rate; the conjugate point is at 2π."""
    ts = jnp.linspace(0.0, 1.0, 21)
    half, zero = angle / 2 * ts, 0 * ts
    q = jnp.stack([jnp.cos(half), zero, zero, jnp.sin(half)], axis=1)
    system = jaxhamel.ODE(lambda t, q, c: c, jaxhamel.SO3())
    end = (control.StateAtEnd(q=q[-1]),)
    curve, guess = lambda t: jnp.array([0.0, 0.0, angle]), (q, jnp.zeros((21, 0)))
    return control.ControlProblem(system, q[0], jnp.zeros(0), ts, curve, ENERGY, end, guess)


def martinet(slope):
    """ẋ = a, ẏ = b, ż = ½ y² a along the x-axis, which is the only way; with a slope of the metric it has no multipliers."""
    rate = lambda t, y, c: jnp.stack([c[0], c[1], 0.5 * y[1] ** 2 * c[0]])
    speed = lambda t, q, u, c: jnp.stack([(1 + slope * q[1]) * c(t)[0], c(t)[1]])
    curve, end = lambda t: jnp.array([1.0, 0.0]), [1.0, 0.0, 0.0]
    costs = (control.Running(speed),)
    return problem(rate, [0.0] * 3, [0.0, 1.0], curve, costs, (state(*end),), end)


def double(costs, constraints, end=(1.0, 0.0)):
    """ẍ = c from rest at 0, in unit time."""
    rate = lambda t, y, c: jnp.stack([y[1], c[0]])
    curve = lambda t: jnp.zeros(1)
    return problem(rate, [0.0, 0.0], [0.0, 1.0], curve, costs, constraints, list(end))


def free_time():
    """min T + ½∫c² dt over a distance of 2: T + 24/T³ at T⁴ = 72."""
    constraints = (state(2.0, 0.0), control.FreeEndTime(0.1, 20.0))
    return double((*ENERGY, end_time()), constraints, (2.0, 0.0))


def squared():
    """(x − 1)² = 0 at the end: the condition has no gradient there."""
    end = control.ConditionsAtEnd(lambda q, u: jnp.stack([(q[0] - 1) ** 2, q[1]]))
    return double(ENERGY, (end,))


def short_of_force(missing):
    """Rest to rest over 1 in unit time takes |c| ≤ 4 − `missing`, at least 4 being needed."""
    limit = control.PathLimit(value, -4.0 + missing, 4.0 - missing, name="force")
    return double(ENERGY, (state(1.0, 0.0), limit))


def below_a_ceiling():
    """min ∫ ½ẏ² − y dt with y ≤ ½ a², a = 0.4, from 0 to 0: a parabola up to the ceiling, and down again."""
    ceiling = control.PathLimit(lambda t, q, u, control: q, upper=0.08, name="ceiling")
    given = potential(lambda y: -y, 0.0, 0.0)
    constraints = (*given.constraints, ceiling)
    return problem(
        lambda t, y, c: c, [0.0], [0.0, 1.0], lambda t: jnp.zeros(1), given.costs, constraints
    )


def in_the_wind():
    """A boat at speed 1 in a constant wind w to d in the least time T: |d − w T| = T."""
    rate = lambda t, y, c: jnp.stack([jnp.cos(c[0]) + 0.3, jnp.sin(c[0]) - 0.5])
    constraints = (state(2.0, 1.0), control.FreeEndTime(0.1, 20.0))
    curve = lambda t: jnp.full(1, 0.5)
    return problem(rate, [0.0, 0.0], [0.0, 2.0], curve, (end_time(),), constraints, [2.0, 1.0])


def wind_time() -> float:
    wind, way = np.array([0.3, -0.5]), np.array([2.0, 1.0])
    a, b = 1 - wind @ wind, way @ wind
    return float((-b + np.sqrt(b * b + a * (way @ way))) / a)


def engel():
    """ẋ = (a, b, x₁ b, ½ x₁² b) to (0, 0, 0, 1), a displacement of third order in the control, from control zero.

    The minima are a family: a(t + s), b(t + s), continued with period 1, lead to the same end, since ∫ b dt, ∫ x₁ b dt and
    x₁ at the end are zero.
    """
    rate = lambda t, y, c: jnp.stack([c[0], c[1], y[0] * c[1], y[0] ** 2 / 2 * c[1]])
    end = [0.0, 0.0, 0.0, 1.0]
    curve = lambda t: jnp.zeros(2)
    return problem(rate, [0.0] * 4, [0.0, 1.0], curve, ENERGY, (at_end(lambda y: y, *end),), end)


def squared_along_the_path():
    """x² ≤ 0 at all times: only x = 0 is feasible, and the cost ½∫c² + x dt has no multipliers there."""
    costs = (*ENERGY, control.RunningCost(lambda t, q, u, c: q[0]))
    square = control.PathLimit(lambda t, q, u, c: q**2, upper=0.0, name="square")
    return problem(lambda t, y, c: c, [0.0], [0.0, 1.0], lambda t: jnp.zeros(1), costs, (square,))


def limit_cycle():
    """A rotation ẋ = J x + c on the unit circle, whose phase is free."""
    ts = jnp.linspace(0.0, 2 * jnp.pi, 21)
    q = 1.2 * jnp.stack([jnp.cos(ts), -jnp.sin(ts)], axis=1)
    system = jaxhamel.ODE(lambda t, y, c: jnp.stack([y[1], -y[0]]) + c, 2)
    costs = (*ENERGY, control.Running(lambda t, q, u, c: jnp.sum(q**2) - 1.0))
    constraints = (control.FreeInitialState(), control.Periodic())
    curve, guess = lambda t: jnp.zeros(2), (q, jnp.zeros((21, 0)))
    return control.ControlProblem(system, q[0], jnp.zeros(0), ts, curve, costs, constraints, guess)


def cost_with_a_jump():
    """The polynomials cannot integrate a cost that jumps inside of an interval."""
    costs = (*ENERGY, control.Running(lambda t, q, u, c: q - jnp.where(t > 0.333, 1.0, 0.0)))
    return problem(lambda t, y, c: c, [0.0], [0.0, 1.0], lambda t: jnp.zeros(1), costs, ())


class Verdict(NamedTuple):
    """The known cost (None: not known), and what the certificate has to say; `unique` is None where it is not examined."""

    make: Callable[[], Any]
    cost: float | None
    kind: str
    holds: bool
    unique: bool | None = True


BUCKLED = 13.067022886997  # 2 p ⟨cos θ⟩ − p cos θ_max by elliptic integrals, √p = 2 K(sin² ½θ_max), p = 15
CEILING = 2 / 3 * 0.4**3 - 0.4**2 / 2
KNOWN = {
    "rod, load 9": Verdict(lambda: rod(9.0), 9.0, STRICT, True),
    "rod, load 10.5": Verdict(lambda: rod(10.5), 10.5, NONE, False),
    "rod, Euler's load": Verdict(lambda: rod(np.pi**2), np.pi**2, STRICT, True),
    "rod, load 15, buckled": Verdict(
        lambda: rod(15.0, lambda t: jnp.cos(jnp.pi * t)[None]), BUCKLED, STRICT, True
    ),
    "flat": Verdict(lambda: flat(0.0, 0.0), 0.0, FAMILY, True),
    "flat, +5 y⁴": Verdict(lambda: flat(0.0, 5.0), 0.0, STRICT, True),
    "flat, −5 y⁴": Verdict(lambda: flat(0.0, -5.0), 0.0, NONE, False),
    "flat, −20 y³": Verdict(lambda: flat(-20.0, 0.0), 0.0, NONE, False),
    "turn by 360°": Verdict(lambda: turned(2 * np.pi), 2 * np.pi**2, FAMILY, True),
    "turn by 450°": Verdict(lambda: turned(2.5 * np.pi), 3.125 * np.pi**2, NONE, False),
    "Martinet": Verdict(lambda: martinet(0.0), 0.5, STRICT, True, False),
    "Martinet, strictly abnormal": Verdict(lambda: martinet(1.0), 0.5, OPEN, False, False),
    "free end time": Verdict(free_time, 72**0.25 + 24 / 72**0.75, STRICT, True),
    "squared condition": Verdict(squared, 6.0, OPEN, False, False),
    "squared along the path": Verdict(squared_along_the_path, 0.0, OPEN, False, False),
    "limit cycle": Verdict(limit_cycle, 0.0, FAMILY, True),
    "condition twice": Verdict(
        lambda: double(ENERGY, 2 * (state(1.0, 0.0),)), 6.0, STRICT, True, False
    ),
    "force short by 1e-3": Verdict(lambda: short_of_force(1e-3), None, OPEN, False, None),
    "force short by 1e-5": Verdict(lambda: short_of_force(1e-5), None, OPEN, False, None),
    "ceiling": Verdict(below_a_ceiling, CEILING, STRICT, True),
    "wind": Verdict(in_the_wind, wind_time(), STRICT, True),
    "Engel": Verdict(engel, None, FAMILY, True),
    "cost with a jump": Verdict(cost_with_a_jump, None, STRICT, False),
}


def solved(name: str) -> dict[str, Any]:
    """Solves a problem from a cold start and prints its row."""
    known = KNOWN[name]
    result = control.solve(known.make(), control.Collocation())
    found: Any = result.certificate
    error = None if known.cost is None else abs(result.cost - known.cost)
    right = (found.second_order, found.holds) == (known.kind, known.holds)
    right &= known.unique is None or found.multipliers_unique == known.unique
    print(
        f"| {name} | {result.cost:.12g} | {'' if error is None else f'{error:.1e}'} | {len(result.history['cost'])} "
        f"| {found.holds} | {found.second_order} | {found.multipliers_unique} |{'' if right else ' WRONG'}",
        flush=True,
    )
    return {"error": error, "right": bool(right)}


def main() -> None:
    found = solve_asked(KNOWN, list(KNOWN)[:2], solved, __doc__)
    wrong = [name for name, row in found.items() if not row["right"]]
    print(json.dumps({"benchmark": "control_verdicts", "wrong": wrong, "problems": found}))


if __name__ == "__main__":
    main()
