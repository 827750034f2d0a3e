"""Least time of machines under limits of forces, speeds and places, as their engineers write them.

    python benchmarks/least_time.py [--quick] [--only NAME ...]

prints a row for each problem: cost, relative difference from the known least time, iterations, seconds with compilation,
whether the certificate holds, kind of the minimum, whether the multipliers are unique; and as its last line one JSON object:
the names of the problems whose certificate holds and is wrong, and the number of those that hold.

Known times follow from the order of the parts of a motion, along which it is that of a linear system with constant control
(`tests/control/test_limits_of_order_two.py`), or are integrated (`tests/control/test_missing_arcs.py`).
"""

import jax
import jax.numpy as jnp
from classical_control import end_time, problem
from strangers_control import FAMILY, Known, limit, limited, run, state, zero

import jaxhamel
from jaxhamel import control

END = control.FreeEndTime(0.1, 50.0)


def of_row(index, bound, name):
    return limit(lambda y, c: y[index], -bound, bound, name)


def least_time(rate, end, bound, *limits, controls=1):
    """From rest at 0 to rest at `end`, with the controls within `bound`."""
    given = (state(*end), limited(-jnp.asarray(bound), bound), END, *limits)
    start = [0.0] * len(end)
    return problem(rate, start, [0.0, 4.0], zero(controls), (end_time(),), given, start)


def jerk(*limits):
    """x⃛ = c, |c| ≤ 2 or 4, over a distance of 2: the s-curves of motion control."""
    rate = lambda t, y, c: jnp.stack([y[1], y[2], c[0]])
    return least_time(rate, [2.0, 0.0, 0.0], *limits)


def crane(sway, speed=None, linear=True):
    """A trolley whose acceleration is the control, and a load on a cable of 5 m."""

    def rate(t, y, c):
        sine, cosine = (y[2], 1.0) if linear else (jnp.sin(y[2]), jnp.cos(y[2]))
        turn = 9.81 * sine + cosine * c[0]
        return jnp.stack([y[1], c[0], y[3], -turn / 5.0])

    limits = [of_row(2, sway, "sway")] + ([of_row(1, speed, "speed")] if speed else [])
    return least_time(rate, [5.0, 0.0, 0.0, 0.0], 1.0, *limits)


class Trolley(jaxhamel.System):
    """A trolley with a load on a cable, q = (place, sway), as a Lagrangian."""

    cable: jax.Array
    space = jaxhamel.Euclidean(2)

    def lagrangian(self, t, q, v):
        forward = v[0] + self.cable * jnp.cos(q[1]) * v[1]
        upward = self.cable * jnp.sin(q[1]) * v[1]
        height = -self.cable * jnp.cos(q[1])
        return 2.5 * v[0] ** 2 + 0.5 * (forward**2 + upward**2) - 9.81 * height

    def force(self, t, q, v, control):
        return jnp.stack([control[0], 0.0 * control[0]])


def trolley():
    sway = control.PathLimit(lambda t, q, u, control: q[1], -0.05, 0.05, name="sway")
    speed = control.PathLimit(lambda t, q, u, control: u[0], -0.8, 0.8, name="speed")
    rest = control.StateAtEnd(q=jnp.array([2.0, 0.0]), u=jnp.zeros(2))
    constraints = rest, limited(-4.0, 4.0, "force"), END, sway, speed
    return control.ControlProblem(
        Trolley(jnp.array(1.0)), jnp.zeros(2), jnp.zeros(2), jnp.array([0.0, 4.0]), zero(1), (end_time(),), constraints
    )  # fmt: skip


def drive(deflection):
    """Two masses with a damped spring between them."""

    def rate(t, y, c):
        force = 20.0 * (y[0] - y[2]) + y[1] - y[3]
        return jnp.stack([y[1], c[0] - force, y[3], force])

    spring = limit(lambda y, c: y[0] - y[2], -deflection, deflection, "deflection")
    return least_time(rate, [2.0, 0.0, 2.0, 0.0], 1.0, spring)


def arm_with_elbow():
    """An arm of two links with limits of both torques and of the elbow's angle."""

    def rate(t, y, c):
        s, k = jnp.sin(y[1]), jnp.cos(y[1])
        M = jnp.array([[3 + 2 * k, 1 + k], [1 + k, 1.0]])
        bias = jnp.stack([-s * y[3] * (2 * y[2] + y[3]), s * y[2] ** 2])
        return jnp.concatenate([y[2:], jnp.linalg.solve(M, c - bias)])

    most = jnp.array([1.5, 1.0])
    return least_time(rate, [1.5, 0.0, 0.0, 0.0], most, of_row(1, 0.6, "elbow"), controls=2)


def quadrotor():
    """In a vertical plane, with limits of thrust, rate of tilt and tilt."""

    def rate(t, y, c):
        forward, upward = c[0] * jnp.sin(y[4]), c[0] * jnp.cos(y[4]) - 9.81
        return jnp.stack([y[1], forward, y[3], upward, c[1]])

    given = state(5.0, 0.0, 0.0, 0.0, 0.0), limited(jnp.array([5.0, -3.0]), jnp.array([15.0, 3.0]))
    given += END, of_row(4, 0.5, "tilt")
    return problem(rate, [0.0] * 5, [0.0, 4.0], zero(2), (end_time(),), given, [0.0] * 5)


class Body(jaxhamel.System):
    """A body in the plane, with a torque and a thrust ahead."""

    mass: jax.Array
    space = jaxhamel.SE2()

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * (v[1] ** 2 + v[2] ** 2) + 0.05 * v[0] ** 2

    def force(self, t, q, v, control):
        return jnp.stack([control[0], control[1], 0.0 * control[0]])


def body():
    most = jnp.array([0.2, 1.0])
    turn = control.PathLimit(lambda t, q, u, control: u[0], -0.5, 0.5, name="turn rate")
    speed = control.PathLimit(lambda t, q, u, control: u[1], -1.0, 1.0, name="speed")
    rest = control.StateAtEnd(q=jnp.array([1.0, 2.0, 1.0]), u=jnp.zeros(3))
    constraints = rest, limited(-most, most, "torque and thrust"), END, turn, speed
    return control.ControlProblem(
        Body(jnp.array(1.0)), jnp.zeros(3), jnp.zeros(3), jnp.array([0.0, 4.0]), zero(2), (end_time(),), constraints
    )  # fmt: skip


def gantry():
    """Two axes with limits of force and speed; the shorter way leaves its force free."""
    rate = lambda t, y, c: jnp.concatenate([y[2:], c])
    speeds = limit(lambda y, c: y[2:], -0.7, 0.7, "speeds")
    return least_time(rate, [2.0, 1.0, 0.0, 0.0], 1.0, speeds, controls=2)


def motor(current, angle, inductance=0.1, resistance=0.6):
    """Voltage and current limited."""

    def rate(t, y, c):
        change = (c[0] - resistance * y[2] - y[1]) / inductance
        return jnp.stack([y[1], y[2] - 0.1 * y[1], change])

    return least_time(rate, [angle, 0.0, 0.0], 1.0, of_row(2, current, "current"))


KNOWN = {
    "jerk, acceleration, speed": Known(
        lambda: jerk(4.0, of_row(2, 1.5, "acceleration"), of_row(1, 1.0, "speed")), 2 + 1 / 1.5 + 1.5 / 4, None
    ),
    "jerk, speed": Known(lambda: jerk(2.0, of_row(1, 1.0, "speed")), 2 + 2**0.5, None),
    "jerk, acceleration": Known(lambda: jerk(4.0, of_row(2, 0.8, "acceleration")), None, None),
    "crane, sway": Known(lambda: crane(0.08), 6.325005664725365, None),
    "crane touches its sway": Known(lambda: crane(0.15), 5.4929980802837175, None),
    "crane, sway and speed": Known(lambda: crane(0.08, 1.2), None, None),
    "crane, sway in passing": Known(lambda: crane(0.08, 0.9), None, None),
    "crane, pendulum": Known(lambda: crane(0.08, linear=False), None, None),
    "trolley": Known(trolley, None, None),
    "drive touches its deflection": Known(lambda: drive(0.03), 4.274037605401274, None),
    "drive": Known(lambda: drive(1.0), None, None),
    "arm with elbow": Known(arm_with_elbow, None, None),
    "quadrotor with tilt": Known(quadrotor, None, None),
    "body with thrust": Known(body, None, None),
    "gantry": Known(gantry, 2 / 0.7 + 0.7, FAMILY),
    "motor": Known(lambda: motor(0.4, 2.0), 4.533717002, None),
    "motor, more current": Known(lambda: motor(0.5, 2.0), 4.091427138, None),
    "motor, fast current": Known(lambda: motor(0.5, 2.0, 0.02), None, None),
}  # fmt: skip
QUICK = ["jerk, acceleration, speed"]

if __name__ == "__main__":
    run("least_time", KNOWN, QUICK, __doc__)
