"""Problems of optimal control that were not written for this package, from books, papers and collections.

    python benchmarks/strangers_control.py [--only NAME ...] [--quick]

prints for each problem the cost found, its relative difference from the published one or the closed form, the iterations,
the seconds with compilation, whether the certificate holds, and the kind of the point, with a mark where a certificate that
holds says something else than is known; then one line of JSON. Sources are beside each problem. `--quick` takes two.
"""

import json
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from classical_control import at_end, end_time, problem, solve_asked, value

import jaxhamel
from jaxhamel import control

jax.config.update("jax_enable_x64", True)
ENERGY = (control.ControlEnergy(2.0),)  # ∫ |c|² dt
STRICT, FAMILY, NONE, OPEN = "strict minimum", "minimum, not isolated", "not a minimum", "undecided"


def state(*q):
    return control.StateAtEnd(q=jnp.array(q))


def final(function):
    return control.FinalCost(lambda t, q, u, control: function(q))


def running(function):
    return control.RunningCost(lambda t, q, u, control: function(q, control(t)))


def limited(lower, upper, name="control"):
    return control.PathLimit(value, lower, upper, name=name)


def limit(function, lower=-jnp.inf, upper=jnp.inf, name="limit"):
    return control.PathLimit(
        lambda t, q, u, control: function(q, control(t)), lower, upper, name=name
    )


def zero(count):
    return lambda t: jnp.zeros(count)


# --- books and collections --------------------------------------------------------------------------


def rayleigh(*constraints):
    """Maurer and Augustin 2001; Betts 2010, section 4.11: Rayleigh's oscillator."""
    rate = lambda t, y, c: jnp.stack([y[1], -y[0] + y[1] * (1.4 - 0.14 * y[1] ** 2) + 4 * c[0]])
    costs = (*ENERGY, running(lambda y, c: y[0] ** 2))
    return problem(rate, [-5.0, -5.0], [0.0, 4.5], zero(1), costs, constraints, [0.0, 0.0])


def rayleigh_limited():
    return rayleigh(state(0.0, 0.0), limited(-1.0, 1.0))


def rayleigh_mixed():
    return rayleigh(limit(lambda y, c: c[0] + y[:1] / 6, upper=0.0, name="mixed"))


def van_der_pol_limited():
    """Betts 2010, chapter 4: van der Pol's oscillator with ẋ₁ ≥ −0.4."""
    rate = lambda t, y, c: jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0] + c[0]])
    costs = (*ENERGY, running(lambda y, c: y @ y))
    speed = limit(lambda y, c: y[1:], lower=-0.4, name="speed")
    return problem(rate, [1.0, 0.0], [0.0, 5.0], zero(1), costs, (speed,))


def tumour():
    """Ledzewicz and Schättler 2007: tumour antiangiogenesis. p and q in 1e4."""
    xi, b, d, G, mu = 0.084, 5.85, 0.00873, 0.15, 0.02
    full = ((b - mu) / d) ** 1.5
    unit = 1e4

    def rate(t, y, c):
        p, q = y[0], y[1]
        size = (unit * p) ** (2 / 3)
        return jnp.stack([-xi * p * jnp.log(p / q), q * (b - mu - d * size - G * c[0]), c[0]])

    constraints = (
        limited(0.0, 75.0, "dose"), limit(lambda y, c: y[2:], upper=15.0, name="total"),
        control.FreeEndTime(0.1, 10.0),
    )  # fmt: skip
    start = [full / 2 / unit, full / 4 / unit, 0.0]
    end = [0.75, 0.3, 10.0]
    return problem(
        rate,
        start,
        [0.0, 1.0],
        lambda t: jnp.full(1, 10.0),
        (final(lambda y: y[0]),),
        constraints,
        end,
    )


def alp_rider():
    """Betts 2010, chapter 4: a ride over the peaks of a bound of |y|²."""
    A = jnp.array([[-10.0, 0, 0, 0], [0, -2, 0, 0], [0, 0, -3, 5], [0, 0, 5, -3]])
    B = jnp.array([[1.0, 1], [1, 2], [1, -1], [1, 3]])
    rate = lambda t, y, c: A @ y + B @ c
    peak = lambda t, a, b: jnp.exp(-b * (t - a) ** 2)
    ground = lambda t: (
        3 * peak(t, 3, 12) + 3 * peak(t, 6, 10) + 3 * peak(t, 10, 6) + 8 * peak(t, 15, 4)
    )
    above = control.PathLimit(lambda t, q, u, c: (q @ q - ground(t))[None], 0.01, name="terrain")
    costs = (running(lambda y, c: 100 * y @ y + 0.01 * c @ c),)
    end = state(2.0, 3.0, 1.0, -2.0)
    return problem(
        rate, [2.0, 1.0, 2.0, 1.0], [0.0, 20.0], zero(2), costs, (end, above), [2.0, 3, 1, -2]
    )


def flying_robot():
    """Sakawa 1999, Betts 2010: a robot with two pairs of jets, least fuel."""

    def rate(t, y, c):
        a, b = c[0] - c[1], c[2] - c[3]
        push = (a + b) * jnp.stack([jnp.cos(y[2]), jnp.sin(y[2])])
        return jnp.concatenate([y[3:], push, 0.2 * (a - b)[None]])

    fuel = (running(lambda y, c: jnp.sum(c)),)
    constraints = (
        state(*[0.0] * 6), limited(0.0, jnp.inf, "jets"),
        limit(lambda y, c: jnp.stack([c[0] + c[1], c[2] + c[3]]), upper=1.0, name="pairs"),
    )  # fmt: skip
    start = [-10.0, -10, jnp.pi / 2, 0, 0, 0]
    return problem(
        rate, start, [0.0, 12.0], lambda t: jnp.full(4, 0.2), fuel, constraints, [0.0] * 6
    )


def glider():
    """COPS: the farthest flight of a hang glider through a thermal."""
    m, g, area, rho, c0, k = 100.0, 9.81, 14.0, 1.13, 0.034, 0.069662

    def rate(t, y, c):
        x, _, vx, vy = y
        r = (x / 100 - 2.5) ** 2
        up = 2.5 * (1 - r) * jnp.exp(-r)
        w = vy - up
        v = jnp.sqrt(vx**2 + w**2)
        drag = 0.5 * (c0 + k * c[0] ** 2) * rho * area * v
        lift = 0.5 * c[0] * rho * area * v
        return jnp.stack([vx, vy, (-lift * w - drag * vx) / m, (lift * vx - drag * w) / m - g])

    constraints = (
        at_end(lambda y: y[1:], 900.0, 13.227567500, -1.2875005200), limited(0.0, 1.4, "lift"),
        control.FreeEndTime(10.0, 200.0),
    )  # fmt: skip
    start = [0.0, 1000.0, 13.227567500, -1.2875005200]
    end = [1250.0, 900.0, 13.227567500, -1.2875005200]
    return problem(
        rate,
        start,
        [0.0, 100.0],
        lambda t: jnp.full(1, 0.7),
        (final(lambda y: -y[0]),),
        constraints,
        end,
    )


def catalyst():
    """COPS: mixing of two catalysts along a tubular reactor."""
    rate = lambda t, y, c: jnp.stack(
        [c[0] * (10 * y[1] - y[0]), c[0] * (y[0] - 10 * y[1]) - (1 - c[0]) * y[1]]
    )
    left = (final(lambda y: y[0] + y[1] - 1),)
    return problem(
        rate,
        [1.0, 0.0],
        [0.0, 1.0],
        lambda t: jnp.full(1, 0.5),
        left,
        (limited(0.0, 1.0, "share"),),
    )


def orbit():
    """Bryson and Ho 1975, section 2.5: the largest circular orbit that a small thrust reaches in a given time."""
    thrust, flow = 0.1405, 0.07487

    def rate(t, y, c):
        r, u, v = y
        a = thrust / (1 - flow * t)
        return jnp.stack(
            [u, v**2 / r - 1 / r**2 + a * jnp.sin(c[0]), -u * v / r + a * jnp.cos(c[0])]
        )

    circular = at_end(lambda y: jnp.stack([y[1], y[2] - 1 / jnp.sqrt(y[0])]), 0.0, 0.0)
    return problem(
        rate,
        [1.0, 0.0, 1.0],
        [0.0, 3.3207],
        lambda t: 0.5 + 1.6 * t[None],
        (final(lambda y: -y[0]),),
        (circular,),
        [1.5, 0, 0.8],
    )


def zermelo():
    """Bryson and Ho 1975, section 2.7: across a current −y to the origin, with the course from 105° to 240°.

    The course turns by θ̇ = cos²θ, so that T = tan 240° − tan 105° = 2 + 2√3, and y = sec θ − sec 240°.
    """
    first, last = np.deg2rad([105.0, 240.0])
    x, weights = np.polynomial.legendre.leggauss(100)
    angles, weights = first + (last - first) * (1 + x) / 2, weights * (last - first) / 2
    y = 1 / np.cos(angles) - 1 / np.cos(last)
    start = [
        -float(np.sum(weights * (np.cos(angles) - y) / np.cos(angles) ** 2)),
        1 / np.cos(first) - 1 / np.cos(last),
    ]
    rate = lambda t, y, c: jnp.stack([jnp.cos(c[0]) - y[1], jnp.sin(c[0])])
    constraints = (state(0.0, 0.0), control.FreeEndTime(0.5, 20.0))
    curve = lambda t: (1.8 + 0.45 * t)[None]
    return problem(rate, start, [0.0, 5.0], curve, (end_time(),), constraints, [0.0, 0.0])


def brachistochrone_wall():
    """Bryson and Ho 1975, section 3.11: y ≤ x/2 + 0.1."""
    rate = lambda t, y, c: jnp.stack([y[2] * jnp.cos(c[0]), y[2] * jnp.sin(c[0]), jnp.sin(c[0])])
    wall = limit(lambda y, c: y[1:2] - y[:1] / 2, upper=0.1, name="wall")
    constraints = (at_end(lambda y: y[:1], 1.0), wall, control.FreeEndTime(0.5, 5.0))
    return problem(
        rate,
        [0.0] * 3,
        [0.0, 1.8],
        lambda t: 1.4 - 0.5 * t[None],
        (end_time(),),
        constraints,
        [1.0, 0.5, 1.0],
    )


def two_link_arm():
    """Luus 2000: a two-link arm in the least time."""

    def rate(t, y, c):
        s, k = jnp.sin(y[2]), jnp.cos(y[2])
        below = 31 / 36 + 9 / 4 * s**2
        first = (
            s * (9 / 4 * k * y[0] ** 2 + 2 * y[1] ** 2) + 4 / 3 * (c[0] - c[1]) - 3 / 2 * k * c[1]
        )
        second = (
            s * (7 / 2 * y[0] ** 2 + 9 / 4 * k * y[1] ** 2)
            - 7 / 3 * c[1]
            + 3 / 2 * k * (c[0] - c[1])
        )
        return jnp.stack([first / below, -second / below, y[1] - y[0], y[0]])

    constraints = (
        state(0.0, 0.0, 0.5, 0.522),
        limited(-1.0, 1.0, "torques"),
        control.FreeEndTime(0.5, 10.0),
    )
    return problem(
        rate,
        [0.0, 0.0, 0.5, 0.0],
        [0.0, 3.0],
        zero(2),
        (end_time(),),
        constraints,
        [0.0, 0.0, 0.5, 0.522],
    )


def tuberculosis():
    """Jung, Lenhart and Feng 2002; Betts 2010: two strains of tuberculosis."""
    b1, b2, b3, mu, d1, d2, k1, k2 = 13.0, 13.0, 0.029, 0.0143, 0.0, 0.0, 0.5, 1.0
    r1, r2, p, q, people = 2.0, 1.0, 0.4, 0.1, 30000.0

    def rate(t, y, c):
        S, T, L1, L2, I1, I2 = y
        infected = b1 * S * I1 / 1.0
        one = 1 - c[1]
        f1 = mu - b1 * S * I1 - b3 * S * I2 - mu * S
        fT = c[0] * r1 * L1 - mu * T + (1 - one * (p + q)) * r2 * I1 - b2 * T * I1 - b3 * T * I2
        f2 = (
            infected
            - (mu + k1) * L1
            - c[0] * r1 * L1
            + one * p * r2 * I1
            + b2 * T * I1
            - b3 * L1 * I2
        )
        f3 = one * q * r2 * I1 - (mu + k2) * L2 + b3 * (S + L1 + T) * I2
        return jnp.stack(
            [f1, fT, f2, f3, k1 * L1 - (mu + d1) * I1 - r2 * I1, k2 * L2 - (mu + d2) * I2]
        )

    start = [76 / 120, 1 / 120, 36 / 120, 2 / 120, 4 / 120, 1 / 120]
    costs = (running(lambda y, c: people * (y[3] + y[5]) + 25 * c[0] ** 2 + 250 * c[1] ** 2),)
    bounds = (limited(0.05, 0.95, "efforts"),)
    return problem(rate, start, [0.0, 5.0], lambda t: jnp.full(2, 0.5), costs, bounds)


# --- robots ------------------------------------------------------------------------------------------


UNICYCLE = lambda t, y, c: jnp.stack([c[1], c[0] * jnp.cos(y[0]), c[0] * jnp.sin(y[0])])


def corridor(start, end, wall):
    walls = limit(lambda y, c: y[2:], -wall, wall, name="walls")
    return problem(UNICYCLE, start, [0.0, 1.0], zero(2), ENERGY, (state(*end), walls), end)


def sideways_in_corridor():
    return corridor([jnp.pi / 2, 0.0, 0.0], [jnp.pi / 2, 1.0, 0.0], 0.3)


def backwards_in_corridor():
    return corridor([jnp.pi, 0.0, 0.0], [jnp.pi, 1.0, 0.0], 0.1)


def turning_in_corridor():
    return corridor([0.0, 0.0, 0.0], [jnp.pi, 1.0, 0.0], 0.3)


def reeds_shepp():
    """Reeds and Shepp 1990: a car that drives in both directions, to its side; |v|, |ω| ≤ 1."""
    constraints = (
        state(0.0, 0.0, 1.0),
        limited(-1.0, 1.0, "speeds"),
        control.FreeEndTime(0.5, 10.0),
    )
    return problem(
        UNICYCLE, [0.0] * 3, [0.0, 3.0], zero(2), (end_time(),), constraints, [0.0, 0.0, 1.0]
    )


def on_so3(rate, end, curve, costs, constraints, ts):
    q0 = jnp.array([1.0, 0.0, 0.0, 0.0])
    system = jaxhamel.ODE(rate, jaxhamel.SO3())
    constraints = (control.StateAtEnd(q=end), *constraints)
    return control.ControlProblem(
        system, q0, jnp.zeros(0), jnp.linspace(ts[0], ts[1], 21), curve, costs, constraints
    )


def turn_about(axis, angle):
    axis = jnp.asarray(axis)
    return jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) * axis])


def dubins_on_a_sphere():
    """Monroy-Pérez 1998: the shortest path on a sphere with geodesic curvature at most 1: an arc, a great circle, an arc."""
    space = jaxhamel.SO3()
    q = jnp.array([1.0, 0.0, 0.0, 0.0])
    for k, length in ((1.0, 0.6), (0.0, 0.8), (-1.0, 0.5)):
        q = space.retract(q, length * jnp.array([k, 0.0, 1.0]))
    rate = lambda t, q, c: jnp.stack([c[0], 0.0 * c[0], 1.0 + 0.0 * c[0]])
    constraints = (limited(-1.0, 1.0, "curvature"), control.FreeEndTime(0.5, 8.0))
    return on_so3(rate, q, zero(1), (end_time(),), constraints, (0.0, 2.0))


class Body(jaxhamel.System):
    """A rigid body with torques about its axes."""

    inertia: jax.Array
    space = jaxhamel.SO3()
    n_controls = 3

    def lagrangian(self, t, q, v):
        return 0.5 * v @ (self.inertia * v)

    def force(self, t, q, v, control):
        return control


def attitude(angle, inertia, constraints, costs, duration):
    end = turn_about([0.0, 0.0, 1.0], jnp.asarray(angle))
    return control.ControlProblem(
        Body(jnp.asarray(inertia)), jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(3), jnp.array([0.0, duration]),
        zero(3), costs, (control.StateAtEnd(q=end, u=jnp.zeros(3)), *constraints),
    )  # fmt: skip


def least_time_turn():
    """Bilimoria and Wie 1993: a ball turned by 180° from rest to rest in the least time, |torques| ≤ 1."""
    constraints = (limited(-1.0, 1.0, "torques"), control.FreeEndTime(0.5, 10.0))
    return attitude(jnp.pi, [1.0] * 3, constraints, (end_time(),), 3.5)


def turn_with_limits(rate=0.8, torque=2.0):
    rates = control.PathLimit(lambda t, q, u, c: u, -rate, rate, name="rates")
    return attitude(2.0, [1.0, 1.2, 1.5], (limited(-torque, torque, "torques"), rates), ENERGY, 3.0)


def quadrotor():
    """Hehn, Ritz and D'Andrea 2012: a quadrotor in a plane, 5 m aside in the least time."""
    rate = lambda t, y, c: jnp.concatenate(
        [y[2:4], jnp.stack([c[0] * jnp.sin(y[4]), c[0] * jnp.cos(y[4]) - 9.81, c[1]])]
    )
    end = [5.0, 0.0, 0.0, 0.0, 0.0]
    bounds = limited(jnp.array([1.0, -10.0]), jnp.array([20.0, 10.0]), "thrust and rate")
    constraints = (state(*end), bounds, control.FreeEndTime(0.2, 8.0))
    return problem(
        rate,
        [0.0] * 5,
        [0.0, 1.5],
        lambda t: jnp.array([9.81, 0.0]),
        (end_time(),),
        constraints,
        end,
    )


def particle(dimension, costs, constraints, ts=(0.0, 1.0), end=None, start=None):
    n = dimension
    rate = lambda t, y, c: jnp.concatenate([y[n:], c])
    start = [0.0] * (2 * n) if start is None else start
    end = [1.0] + [0.0] * (2 * n - 1) if end is None else end
    return problem(rate, start, list(ts), zero(n), costs, (state(*end), *constraints), end)


def speed_and_force(speed=1.05, force=24.0):
    """Rest to rest with limits of speed and force: a short time of full force, a ramp, and the largest speed."""
    constraints = (
        limit(lambda y, c: y[1:], upper=speed, name="speed"),
        limited(-force, force, "force"),
    )
    return particle(1, ENERGY, constraints)


def round_obstacle():
    """A straight guess through the centre of a round obstacle, where the gradient of the distance is zero."""
    away = limit(
        lambda y, c: jnp.sum((y[:2] - jnp.array([0.5, 0.0])) ** 2)[None], 0.04, name="obstacle"
    )
    return particle(2, ENERGY, (away,))


def fuller():
    """Fuller 1963: min ∫ x² dt with |ẍ| ≤ 1; the control chatters."""
    costs = (running(lambda y, c: y[0] ** 2),)
    rate = lambda t, y, c: jnp.stack([y[1], c[0]])
    constraints = (limited(-1.0, 1.0, "force"), state(0.0, 0.0))
    return problem(rate, [1.0, 0.0], [0.0, 4.0], zero(1), costs, constraints, [0.0, 0.0])


# --- closed forms with limits -----------------------------------------------------------------------


def integrators(n, costs, constraints, start=None, end=None, duration=1.0):
    """x⁽ⁿ⁾ = c from rest at 0 to rest at 1, or between other states."""
    rate = lambda t, y, c: jnp.concatenate([y[1:], c])
    start, end = start or [0.0] * n, end or [1.0] + [0.0] * (n - 1)
    given = (state(*end), *constraints)
    return problem(rate, start, [0.0, duration], zero(1), costs, given, end)


def least_time(n, bound, *constraints, **given):
    free = control.FreeEndTime(0.2, 20.0)
    force = limited(-bound, bound, "force")
    return integrators(n, (end_time(),), (force, free, *constraints), duration=3.0, **given)


def least_time_with_speed():
    """Full force, v = ½, full force: T = v/F + d/v."""
    return least_time(2, 1.0, limit(lambda y, c: y[1:], -0.5, 0.5, name="speed"))


def train_with_drag():
    """v̇ = f − k v², |f| ≤ 1, v ≤ 1: full force, the speed kept, full brakes."""
    rate = lambda t, y, c: jnp.stack([y[1], c[0] - 0.3 * y[1] ** 2])
    given = state(3.0, 0.0), limited(-1.0, 1.0, "force"), control.FreeEndTime(1.0, 20.0)
    given += (limit(lambda y, c: y[1:], upper=1.0, name="speed"),)
    return problem(rate, [0.0, 0.0], [0.0, 4.0], zero(1), (end_time(),), given, [3.0, 0.0])


def train_time() -> float:
    root, a = 0.3**0.5, 0.3
    way = (np.log(1 + a) - np.log(1 - a)) / (2 * a)
    return float((np.arctanh(root) + np.arctan(root)) / root + 3.0 - way)


def train_on_a_grade():
    """A train on a line that becomes steeper halfway; its time by integrating the three arcs."""
    rate = lambda t, y, c: jnp.stack(
        [y[1], c[0] - 0.05 - 0.01 * y[1] ** 2 - 0.09 * jnp.tanh(10 * (y[0] - 3))]
    )
    given = state(6.0, 0.0), limited(-1.0, 1.0, "force"), control.FreeEndTime(2.0, 60.0)
    given += (limit(lambda y, c: y[1:], upper=1.6, name="speed"),)
    return problem(rate, [0.0, 0.0], [0.0, 6.0], zero(1), (end_time(),), given, [6.0, 0.0])


def arm_with_rates():
    """An arm of two links in the least time, with limits of both torques and of both joint rates."""

    def rate(t, y, c):
        q, v = y[:2], y[2:]
        a, b, d = 1.5, 0.4, 0.4
        M = jnp.array(
            [[a + 2 * b * jnp.cos(q[1]), d + b * jnp.cos(q[1])], [d + b * jnp.cos(q[1]), d]]
        )
        h = -b * jnp.sin(q[1])
        f = c - jnp.stack([h * v[1] * (2 * v[0] + v[1]), -h * v[0] ** 2])
        return jnp.concatenate([v, jnp.linalg.solve(M, f)])

    most = jnp.array([3.0, 1.5])
    given = state(1.5, -1.0, 0.0, 0.0), limited(-most, most, "torques")
    given += control.FreeEndTime(0.3, 20.0), limit(lambda y, c: y[2:], -1.2, 1.2, "joint rates")
    target = [1.5, -1.0, 0.0, 0.0]
    return problem(rate, [0.0, 0.5, 0.0, 0.0], [0.0, 2.0], zero(2), (end_time(),), given, target)


def oscillator(start):
    """ẍ = −x + c, |c| ≤ 1, to rest in the least time, from rest at `start` (Pontryagin et al. 1962)."""
    rate = lambda t, y, c: jnp.stack([y[1], -y[0] + c[0]])
    given = state(0.0, 0.0), limited(-1.0, 1.0, "force"), control.FreeEndTime(0.5, 20.0)
    return problem(rate, [start, 0.0], [0.0, 4.0], zero(1), (end_time(),), given, [0.0, 0.0])


def oscillator_time() -> float:
    """From 3: about −1 until the circle about 3 of radius 1, half a turn about 1, and about −1 to the origin."""
    v = np.sqrt(1 - 0.125**2)
    return float(np.arctan2(v, 3.875) + np.pi + np.arccos(0.125))


def regulator_above_a_floor():
    """min ½∫x² + c² with ẋ = c, x(0) = 1, x ≥ ½: x = ½ cosh(t₁ − t) until cosh t₁ = 2, then ½."""
    floor = limit(lambda y, c: y, lower=0.5, name="floor")
    costs = (control.ControlEnergy(), running(lambda y, c: 0.5 * y @ y))
    return problem(lambda t, y, c: c, [1.0], [0.0, 2.0], zero(1), costs, (floor,))


def brachistochrone_floor():
    """To x = 1 with y ≤ 0.2: a cycloid of radius 0.1 to the floor, and along it."""
    rate = lambda t, y, c: jnp.stack([y[2] * jnp.cos(c[0]), y[2] * jnp.sin(c[0]), jnp.sin(c[0])])
    floor = limit(lambda y, c: y[1:2], upper=0.2, name="floor")
    given = at_end(lambda y: y[:1], 1.0), floor, control.FreeEndTime(0.5, 5.0)
    curve = lambda t: 1.2 - 0.6 * t[None]
    return problem(rate, [0.0] * 3, [0.0, 2.0], curve, (end_time(),), given, [1.0, 0.2, 0.63])


def least_fuel():
    """∫|f| with |f| ≤ 6 over 1 in unit time: full force to v, coasting, full force: v − v²/6 = 1."""
    rate = lambda t, y, c: jnp.stack([y[1], c[0] - c[1]])
    given = state(1.0, 0.0), limited(0.0, 6.0, "jets")
    costs = (running(lambda y, c: jnp.sum(c)),)
    curve = lambda t: jnp.ones(2)
    return problem(rate, [0.0, 0.0], [0.0, 1.0], curve, costs, given, [1.0, 0.0])


def energy_turn():
    """About a principal axis with the least ∫|τ|²: 12 I² θ²/T³."""
    return attitude(1.0, [1.0, 1.2, 1.5], (), ENERGY, 1.0)


def bound_force(bound):
    """∫f² with |f| ≤ F: F for the time s, a straight line, −F."""
    return integrators(2, ENERGY, (limited(-bound, bound, "force"),))


def bound_force_cost(bound) -> float:
    r = np.sqrt(3 * (0.25 - 1 / bound))  # half of the line's time
    return float(bound**2 * (1 - 4 * r / 3))


class Arm(jaxhamel.System):
    """Two links of 3 kg and 2 kg in a horizontal plane, with torques at both joints."""

    space = jaxhamel.Euclidean(2)
    n_controls = 2

    def lagrangian(self, t, q, v):
        first, both = v[0], v[0] + v[1]
        inner = 0.08 + 3 * 0.25**2 + 2 * 0.5**2
        outer = 0.04 + 2 * 0.2**2
        return 0.5 * (inner * first**2 + outer * both**2) + 2 * 0.1 * jnp.cos(q[1]) * first * both

    def force(self, t, q, v, control):
        return control


def arm_with_limits():
    """An arm that turns in the least time, with limits of its torques and of its joint rates: both bind in turn."""
    torques, rates = jnp.array([10.0, 5.0]), jnp.array([3.0, 4.0])
    return control.ControlProblem(
        Arm(), jnp.zeros(2), jnp.zeros(2), jnp.array([0.0, 2.0]), zero(2), (end_time(),),
        (
            control.StateAtEnd(q=jnp.array([1.2, -0.8]), u=jnp.zeros(2)),
            limited(-torques, torques, "torques"),
            control.PathLimit(lambda t, q, u, control: u, -rates, rates, name="rates"),
            control.FreeEndTime(0.1, 10.0),
        ),
    )  # fmt: skip


# --- no solution, no isolated solution, degenerate constraints -------------------------------------


def beyond_a_wall():
    """The only way to the target leads through a wall."""
    wall = limit(lambda y, c: (y[1:2] ** 2 + 1.0) * (y[0:1] - 0.5) ** 2, 0.01, name="wall")
    return problem(
        lambda t, y, c: c,
        [0.0, 0.0],
        [0.0, 1.0],
        zero(2),
        ENERGY,
        (state(1.0, 0.0), wall),
        [1.0, 0.0],
    )


def too_short():
    """A unicycle that is too slow for its target."""
    constraints = (state(0.0, 2.0, 0.0), limited(-1.0, 1.0, "speeds"))
    return problem(UNICYCLE, [0.0] * 3, [0.0, 1.0], zero(2), ENERGY, constraints, [0.0, 2.0, 0.0])


def limit_twice():
    """Bryson–Denham with its limit twice."""
    place = limit(lambda y, c: y[:1], upper=1 / 9, name="place")
    again = limit(lambda y, c: 2 * y[:1], upper=2 / 9, name="the same")
    rate = lambda t, y, c: jnp.stack([y[1], c[0]])
    costs = (control.ControlEnergy(),)
    return problem(rate, [0.0, 1.0], [0.0, 1.0], zero(1), costs, (state(0.0, -1.0), place, again))


def pole_to_pole():
    """Geodesics on a sphere from pole to pole, on SO(3)/S¹: a family."""
    rate = lambda t, q, c: jnp.concatenate([c, jnp.zeros(1)])
    constraints = (
        control.ConditionsAtEnd(
            lambda q, u: jnp.stack([q[0] * q[1] + q[2] * q[3], q[0] * q[2] - q[1] * q[3]])
        ),
    )
    q0 = jnp.array([1.0, 0.0, 0.0, 0.0])
    ts = jnp.linspace(0.0, 1.0, 21)
    qs = jax.vmap(lambda t: turn_about([1.0, 0.0, 0.0], jnp.pi * t))(ts)
    system = jaxhamel.ODE(rate, jaxhamel.SO3())
    return control.ControlProblem(
        system,
        q0,
        jnp.zeros(0),
        ts,
        lambda t: jnp.array([jnp.pi, 0.0]),
        ENERGY,
        constraints,
        (qs, jnp.zeros((21, 0))),
    )


class Known(NamedTuple):
    """A problem and what is known of it: the cost, None if nothing is feasible or no digits are known, the kind of the
    stationary point to which a straight guess leads, None if unknown, and the relative error of the source's digits."""

    make: Callable[[], Any]
    cost: float | None
    kind: str | None = STRICT
    digits: float = 1e-6
    method: Any = control.Collocation()


FINE = control.Collocation(40)
KNOWN = {
    "Rayleigh, |u| ≤ 1": Known(rayleigh_limited, 44.7209362, method=FINE),
    "Rayleigh, mixed limit": Known(rayleigh_mixed, 44.8044, digits=1e-3),
    "van der Pol, speed": Known(van_der_pol_limited, 2.95370, digits=1e-5),
    "tumour": Known(tumour, 0.757167158, digits=1e-6),
    "alp rider": Known(alp_rider, 2030.85, digits=1e-5),
    "flying robot": Known(flying_robot, 7.9101471, None, digits=1e-4, method=FINE),
    "glider": Known(glider, -1247.97, digits=1e-4),
    "catalyst": Known(catalyst, -0.0480557, digits=1e-6),
    "orbit": Known(orbit, -1.5254, digits=1e-4, method=FINE),
    "Zermelo": Known(zermelo, 2 + 2 * 3**0.5, digits=1e-8),
    "brachistochrone, wall": Known(brachistochrone_wall, None),
    "two-link arm": Known(two_link_arm, 2.9823, digits=1e-4),
    "arm with limits": Known(arm_with_limits, None),
    "tuberculosis": Known(tuberculosis, 5152.0731, method=FINE),
    "sideways in a corridor": Known(sideways_in_corridor, None),
    "backwards in a corridor": Known(backwards_in_corridor, 1.0),
    "turning in a corridor": Known(turning_in_corridor, None),
    # Four arcs of one length, of which the second and the third join in a cusp; the shortest way takes 2.636232.
    "Reeds–Shepp": Known(reeds_shepp, 4 * float(np.arccos(0.75))),
    "Dubins on a sphere": Known(dubins_on_a_sphere, 1.9),
    # About the axis itself; 3.2431 s suffice, and this way is stationary but no minimum.
    "turn in least time": Known(least_time_turn, 2 * float(np.pi) ** 0.5, NONE),
    "turn with limits": Known(turn_with_limits, None),
    "quadrotor": Known(quadrotor, None),
    "speed and force": Known(speed_and_force, 41.746676938914, method=control.Collocation(16)),
    "round obstacle": Known(round_obstacle, None, OPEN),
    "Fuller": Known(fuller, 0.7640175477),  # the sum over the arcs between |v| v = −ζ⁻¹ x, ζ² = (√33 − 1)/24
    "least jerk": Known(lambda: integrators(3, ENERGY, ()), 720.0, digits=1e-9),
    "least time, third order": Known(lambda: least_time(3, 1.0), 32.0 ** (1 / 3)),
    "least time, speed": Known(least_time_with_speed, 2.5),
    "train with drag": Known(train_with_drag, train_time()),
    "train on a grade": Known(train_on_a_grade, 5.221569325),
    "arm with rates": Known(arm_with_rates, None),
    "oscillator, half a turn": Known(lambda: oscillator(2.0), float(np.pi)),
    "oscillator, three arcs": Known(lambda: oscillator(3.0), oscillator_time()),
    "regulator above a floor": Known(regulator_above_a_floor, 0.25 * 3**0.5 + 0.125 * (2 - float(np.arccosh(2.0)))),
    "brachistochrone, floor": Known(brachistochrone_floor, float(np.pi * 0.1**0.5 + (1 - 0.1 * np.pi) / 0.4**0.5)),
    "least fuel": Known(least_fuel, 6 * (1 - 1 / 3**0.5)),
    "turn about an axis": Known(energy_turn, 12 * 1.5**2, digits=1e-9),
    "force of 5, 8 intervals": Known(lambda: bound_force(5.0), bound_force_cost(5.0), method=control.Collocation(8, 3)),
    "force of 4.05": Known(lambda: bound_force(4.05), bound_force_cost(4.05), method=control.Collocation(8, 3)),
    "beyond a wall": Known(beyond_a_wall, None, OPEN),
    "too short": Known(too_short, None, OPEN),
    "limit twice": Known(limit_twice, 4.0),
    "pole to pole": Known(pole_to_pole, float(np.pi) ** 2, FAMILY),
}  # fmt: skip


QUICK = ["backwards in a corridor", "Zermelo"]


def solved(name: str, known: Known) -> dict[str, Any]:
    """Solves a problem from a cold start and prints its row."""
    began = time.perf_counter()
    result = control.solve(known.make(), known.method)
    seconds = time.perf_counter() - began
    found: Any = result.certificate
    error = None if known.cost is None else abs(result.cost - known.cost) / abs(known.cost)
    kind = known.kind or found.second_order
    said = re.search(r"up to about ([-+.e\d]+) above", found.words.split("\n")[0])
    allowed = max(known.digits, 1e-6, float(said[1]) / abs(result.cost) if said else 0.0)
    wrong = found.holds and (found.second_order != kind or (error or 0.0) > allowed)
    print(
        f"| {name} | {result.cost:.10g} | {'' if error is None else f'{error:.1e}'} | {len(result.history['cost'])} "
        f"| {seconds:.1f} | {found.holds} | {found.second_order} | {found.multipliers_unique} |{' WRONG' if wrong else ''}",
        flush=True,
    )
    if not found.holds:
        print(found.words.split("\n")[0], flush=True)
    return {
        "error": error,
        "seconds": round(seconds, 2),
        "holds": bool(found.holds),
        "wrong": bool(wrong),
    }


def run(benchmark: str, known: dict[str, Known], quick: list[str], description: str | None) -> None:
    """Solves the problems that the command line asks for, and prints a line of JSON."""
    found = solve_asked(known, quick, lambda name: solved(name, known[name]), description)
    wrong, holds = ([name for name, row in found.items() if row[key]] for key in ("wrong", "holds"))
    line = {"benchmark": benchmark, "wrong": wrong, "holds": len(holds), "problems": found}
    print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    run("strangers_control", KNOWN, QUICK, __doc__)
