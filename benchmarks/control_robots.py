"""Robots as a user writes them, each a class of some ten lines and a task, from default guesses, by `Collocation()`.

    python benchmarks/control_robots.py [--only NAME ...] [--quick]

prints for each task the cost with 20 intervals and whether its certificate holds, the same with the mesh that the method
finds, the number of its intervals, iterations, seconds with compilation, and the relative difference of the cost from that
with polynomials of another degree on a finer fixed mesh; then one line of JSON. `--quick` takes one task.
"""

import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from classical_control import end_time, solve_asked

import jaxhamel
from jaxhamel import control

jax.config.update("jax_enable_x64", True)
ENERGY = (control.ControlEnergy(2.0),)  # ∫ |c|² dt


def drive(t, q, u, control):
    return control(t)


def limit(function, lower=-jnp.inf, upper=jnp.inf, name="limit"):
    return control.PathLimit(lambda t, q, u, control: function(q), lower, upper, name=name)


def task(system, q0, duration, curve, costs, constraints):
    """From rest at q0."""
    q0 = jnp.asarray(q0, float)
    rates = 0 if isinstance(system, jaxhamel.Kinematic) else len(q0) - system.n_constraints
    ts = jnp.array([0.0, duration])
    return control.ControlProblem(system, q0, jnp.zeros(rates), ts, curve, costs, constraints)


def at_rest(*q, free=()):
    return lambda k: control.StateAtEnd(q=jnp.array(q, float), u=jnp.zeros(k), free_q=free)


class Acrobot(jaxhamel.System):
    """Two rods of 1 kg and 1 m; the motor is between them."""

    space = jaxhamel.Euclidean(2)
    n_controls = 1

    def lagrangian(self, t, q, v):
        def centres(q):
            rods = [jnp.stack([jnp.sin(a), -jnp.cos(a)]) for a in (q[0], q[0] + q[1])]
            return jnp.concatenate([0.5 * rods[0], rods[0] + 0.5 * rods[1]])

        x, velocity = jax.jvp(centres, (q,), (v,))
        turning = (v[0] ** 2 + (v[0] + v[1]) ** 2) / 24
        return 0.5 * jnp.sum(velocity**2) + turning - 9.81 * (x[1] + x[3])

    def force(self, t, q, v, control):
        return jnp.stack([0.0 * control[0], control[0]])


def swing_up():
    limits = control.PathLimit(drive, -20.0, 20.0, name="torque")
    curve = lambda t: 3 * jnp.sin(3 * t)[None]
    end = at_rest(jnp.pi, 0.0)(2)
    return task(Acrobot(), [0.0, 0.0], 4.0, curve, ENERGY, (end, limits))


class Crane(jaxhamel.System):
    """q = (trolley, rope, angle): a trolley of 5 kg, a load of 2 kg."""

    space = jaxhamel.Euclidean(3)
    n_controls = 2

    def lagrangian(self, t, q, v):
        load = lambda q: jnp.stack([q[0] + q[1] * jnp.sin(q[2]), -q[1] * jnp.cos(q[2])])
        x, velocity = jax.jvp(load, (q,), (v,))
        return 2.5 * v[0] ** 2 + jnp.sum(velocity**2) - 2 * 9.81 * x[1]

    def force(self, t, q, v, control):
        return jnp.stack([control[0], control[1], 0.0 * control[0]])


def load_in_least_time():
    motors = jnp.array([-20.0, -40.0]), jnp.array([20.0, 0.0])
    constraints = (
        at_rest(5.0, 2.0, 0.0)(3), control.FreeEndTime(0.5, 20.0),
        control.PathLimit(drive, *motors, name="motors"),
        limit(lambda q: q[2], -0.3, 0.3, "swing"), limit(lambda q: q[1], 1.5, 4.0, "rope"),
    )  # fmt: skip
    curve = lambda t: jnp.array([0.0, -19.62])
    return task(Crane(), [0.0, 3.0, 0.0], 4.0, curve, (end_time(),), constraints)


class CarWithTrailer(jaxhamel.System):
    """q = (x, y, heading, heading of the trailer); neither axle slips."""

    space = jaxhamel.Euclidean(4)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return v[0] ** 2 + v[1] ** 2 + 0.15 * v[2] ** 2 + 0.1 * v[3] ** 2

    def frame(self, t, q):
        (c, s), (a, b) = ((jnp.cos(x), jnp.sin(x)) for x in (q[2], q[3]))
        return jnp.array([[-s, c, 0.0, 0.0], [-b, a, 0.0, -1.0], [c, s, 0.0, 0.0], [0.0, 0, 1, 0]])


def sideways_with_trailer():
    constraints = (
        control.StateAtEnd(q=jnp.array([0.0, 1.0, 0.0, 0.0])),
        limit(lambda q: q[2] - q[3], -0.8, 0.8, "hitch"),
        control.PathLimit(drive, -2.0, 2.0, name="speeds"),
    )
    curve = lambda t: jnp.stack([jnp.sin(jnp.pi * t / 2), jnp.cos(jnp.pi * t / 2)])
    system = jaxhamel.Kinematic(CarWithTrailer())
    return task(system, [0.0] * 4, 4.0, curve, ENERGY, constraints)


class Drone(jaxhamel.System):
    """q = (x, z, pitch, angle of the load): 1 kg with a load of 0.3 kg on a rod of 0.6 m."""

    space = jaxhamel.Euclidean(4)
    n_controls = 2

    def lagrangian(self, t, q, v):
        x, velocity = jax.jvp(load_below, (q,), (v,))
        own = 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.01 * v[2] ** 2 - 9.81 * q[1]
        return own + 0.15 * jnp.sum(velocity**2) - 0.3 * 9.81 * x[1]

    def force(self, t, q, v, control):
        thrust = control[0] + control[1]
        moment = 0.2 * (control[1] - control[0])
        return jnp.stack([-thrust * jnp.sin(q[2]), thrust * jnp.cos(q[2]), moment, 0.0 * thrust])


def load_below(q):
    return q[:2] + 0.6 * jnp.stack([jnp.sin(q[3]), -jnp.cos(q[3])])


def load_between_posts():
    apart = lambda at, x, z: jnp.sum((at - jnp.array([x, z])) ** 2)
    constraints = (
        at_rest(4.0, 0.0, 0.0, 0.0)(4), control.PathLimit(drive, 0.0, 12.0, name="rotors"),
        limit(lambda q: apart(load_below(q), 1.3, -0.5), 0.25, name="load from the first post"),
        limit(lambda q: apart(q[:2], 2.7, 0.5), 0.25, name="drone from the second post"),
        limit(lambda q: apart(load_below(q), 2.7, 0.5), 0.25, name="load from the second post"),
    )  # fmt: skip
    effort = control.Running(lambda t, q, u, control: control(t) - 6.4, 2.0)
    return task(Drone(), [0.0] * 4, 3.0, lambda t: jnp.full(2, 6.4), (effort,), constraints)


class Coin(jaxhamel.System):
    """q = (x, y, heading, angle of rolling): a coin that rolls upright without slipping."""

    space = jaxhamel.Euclidean(4)
    n_constraints = 2
    n_controls = 2

    def lagrangian(self, t, q, v):
        return v[0] ** 2 + v[1] ** 2 + 0.25 * v[2] ** 2 + 0.5 * v[3] ** 2

    def frame(self, t, q):
        c, s = jnp.cos(q[2]), jnp.sin(q[2])
        return jnp.array([[1.0, 0, 0, -c], [0, 1, 0, -s], [0, 0, 1, 0], [0, 0, 0, 1]])

    def force(self, t, q, v, control):
        return jnp.concatenate([jnp.zeros(2), control])


def coin_past_a_post():
    constraints = (
        at_rest(2.0, 2.0, 0.0, 0.0, free=(3,))(2), control.PathLimit(drive, -6.0, 6.0, name="motors"),
        limit(lambda q: (q[0] - 1) ** 2 + (q[1] - 1) ** 2, 0.25, name="post"),
    )  # fmt: skip
    return task(Coin(), [0.0] * 4, 3.0, lambda t: jnp.full(2, 0.5), ENERGY, constraints)


class Segway(jaxhamel.System):
    """q = (place, tilt): 3 kg of wheels with a radius of 0.2 m, 8 kg at a height of 0.8 m."""

    space = jaxhamel.Euclidean(2)
    n_controls = 1

    def lagrangian(self, t, q, v):
        body = lambda q: jnp.stack([q[0] + 0.8 * jnp.sin(q[1]), 0.8 * jnp.cos(q[1])])
        x, velocity = jax.jvp(body, (q,), (v,))
        return 1.5 * v[0] ** 2 + 4 * jnp.sum(velocity**2) + 0.2 * v[1] ** 2 - 8 * 9.81 * x[1]

    def force(self, t, q, v, control):
        return jnp.stack([control[0] / 0.2, -control[0]])


def segway_in_least_time():
    constraints = (
        at_rest(3.0, 0.0)(2), control.FreeEndTime(0.5, 10.0),
        control.PathLimit(drive, -6.0, 6.0, name="torque"), limit(lambda q: q[1], -0.3, 0.3, "tilt"),
    )  # fmt: skip
    return task(Segway(), [0.0] * 2, 4.0, lambda t: jnp.zeros(1), (end_time(),), constraints)


TASKS = {
    "coin past a post": coin_past_a_post,
    "acrobot swings up": swing_up,
    "car with a trailer, sideways": sideways_with_trailer,
    "drone with a load between posts": load_between_posts,
    "crane, least time": load_in_least_time,
    "segway, least time": segway_in_least_time,
}


def solved(name: str) -> dict[str, Any]:
    """Solves a task from a cold start and prints its row."""
    problem = TASKS[name]()
    fixed = control.solve(problem, control.Collocation(20))
    began = time.perf_counter()
    result = control.solve(problem, control.Collocation())
    seconds = time.perf_counter() - began
    intervals = len(result.ts) - 1
    other = control.solve(problem, control.Collocation(max(intervals, 40), degree=5))
    apart = abs(result.cost - other.cost) / abs(other.cost)
    holds = [bool(x.certificate.holds) for x in (fixed, result)]
    print(
        f"| {name} | {fixed.cost:.10g}, {'holds' if holds[0] else 'does not hold'} "
        f"| {result.cost:.10g}, {'holds' if holds[1] else 'does not hold'} | {intervals} "
        f"| {len(result.history['cost'])} | {seconds:.1f} | {apart:.1e} ({other.certificate.holds})",
        flush=True,
    )
    if not holds[1]:
        print(result.status, result.certificate.words.split("\n")[0], sep="; ", flush=True)
    return {"holds": holds[1], "seconds": round(seconds, 2), "apart": float(np.float64(apart))}


def main() -> None:
    found = solve_asked(TASKS, list(TASKS)[:1], solved, __doc__)
    holds = sum(row["holds"] for row in found.values())
    print(json.dumps({"benchmark": "control_robots", "holds": holds, "problems": found}))


if __name__ == "__main__":
    main()
