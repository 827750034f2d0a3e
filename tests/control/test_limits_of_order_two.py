"""Least time with limits of order 2: of a speed where the jerk is the control, of a crane's sway, of a spring's deflection.

On an arc of such a limit, and where a motion touches it at one time, the limit and its rate are zero. The least times are
computed from the order of the parts, along which the motion is that of a linear system with constant control.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize, root

import jaxhamel
from jaxhamel import control


def of_state(index, bound, name):
    return control.PathLimit(lambda t, q, u, control: q[index], -bound, bound, name=name)


def least_time(rate, end, bound, *limits):
    limit = control.PathLimit(lambda t, q, u, control: control(t), -bound, bound, name="control")
    ends = control.StateAtEnd(q=jnp.array(end)), control.FreeEndTime(0.1, 50.0)
    size = len(end)
    return control.ControlProblem(
        jaxhamel.ODE(rate, size), jnp.zeros(size), jnp.zeros(0), jnp.array([0.0, 4.0]), lambda t: jnp.zeros(1),
        (control.FinalCost(lambda t, q, u, control: t),), (*ends, limit, *limits),
    )  # fmt: skip


def solved(problem, intervals=20, **given):
    result = control.solve(problem, control.Collocation(**given))
    assert result.certificate.holds, result.certificate.words
    assert result.certificate.multipliers_unique
    assert len(result.ts) == intervals + 1
    return result


def test_a_motion_with_limits_of_jerk_acceleration_and_speed():
    """T = D/V + V/A + A/J, if acceleration and speed come to their limits."""
    distance, speed, acceleration, jerk = 2.0, 1.0, 1.5, 4.0
    rate = lambda t, y, c: jnp.stack([y[1], y[2], c[0]])
    limits = of_state(2, acceleration, "acceleration"), of_state(1, speed, "speed")
    result = solved(least_time(rate, [distance, 0.0, 0.0], jerk, *limits))
    parts = np.array([acceleration / jerk, speed / acceleration, distance / speed])
    assert result.cost == pytest.approx(np.sum(parts), rel=1e-12)
    first = np.cumsum([parts[0], parts[1] - parts[0], parts[0]])
    times = np.concatenate([first, np.sum(parts) - first])
    nodes = np.asarray(result.ts)
    assert np.max(np.min(np.abs(nodes[:, None] - times), axis=0)) < 1e-10
    found = np.asarray([result.control(t) for t in (times[2] + 0.1, times[0] + 0.1, 0.1)])[:, 0]
    np.testing.assert_allclose(found, [0.0, 0.0, jerk], atol=1e-9)


def after(y, control, duration, matrix):
    """The state after a time with constant control; the last column of the matrix is that of the control."""
    size = len(y)
    full = np.zeros((size + 1, size + 1))
    full[:size] = matrix
    return (expm(full * duration) @ np.append(y, control))[:size]


def test_a_crane_whose_limits_of_sway_and_speed_meet():
    """A trolley with a load on a cable of 5 m: θ̈ = −(g θ + c)/l. On the limit of the sway the acceleration is −g θ; with it
    the speed comes to its limit, and the sway leaves its own there. Half of the motion mirrors the other."""
    sway, speed, distance = 0.08, 1.2, 5.0
    rate = lambda t, y, c: jnp.stack([y[1], c[0], y[3], -(9.81 * y[2] + c[0]) / 5.0])
    limits = of_state(2, sway, "sway"), of_state(1, speed, "speed")
    result = solved(least_time(rate, [distance, 0.0, 0.0, 0.0], 1.0, *limits))
    matrix = np.array(
        [[0, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 0, -9.81 / 5, 0, -0.2]]
    )

    def off(x):
        y = after(after(np.zeros(4), 1.0, x[0], matrix), -1.0, x[1], matrix)
        at_limit, y = y[2:] + np.array([sway, 0.0]), after(y, 9.81 * sway, x[2], matrix)
        at_speed = y[1] - speed
        y = after(after(y, 0.0, x[3], matrix), -1.0, x[4], matrix)
        return [*at_limit, at_speed, y[0] - distance / 2, y[2]]

    known = root(off, [0.75, 0.4, 1.0, 0.65, 0.3], tol=1e-13)
    assert known.success
    assert np.all(known.x > 0)
    assert result.cost == pytest.approx(2 * np.sum(known.x), rel=2e-9)


def test_a_drive_that_touches_the_limit_of_its_springs_deflection():
    """Two masses with a damped spring between them. The force changes its sign for less than an interval of the first mesh,
    and the deflection is at its limit twice, at one time each. Polynomials of degree 3 need finer meshes, on which the order
    of the parts is known."""
    stiffness, damping, most = 20.0, 1.0, 0.03

    def rate(t, y, c):
        force = stiffness * (y[0] - y[2]) + damping * (y[1] - y[3])
        return jnp.stack([y[1], c[0] - force, y[3], force])

    deflection = control.PathLimit(
        lambda t, q, u, control: q[0] - q[2], -most, most, name="deflection"
    )
    result = solved(least_time(rate, [2.0, 0.0, 2.0, 0.0], 1.0, deflection), 80, degree=3)
    assert len(result.history["cost"]) < 120
    row = np.array([stiffness, damping, -stiffness, -damping])
    matrix = np.zeros((4, 5))
    matrix[[0, 2], [1, 3]], matrix[1, :4], matrix[3, :4], matrix[1, 4] = 1.0, -row, row, 1.0
    forces = [
        1.0,
        -1.0,
        1.0,
        1.0,
        -1.0,
        1.0,
        -1.0,
        -1.0,
        1.0,
        -1.0,
    ]  # two parts on either side of a touch point

    def off(x):
        y, found = np.zeros(4), []
        for k, (duration, force) in enumerate(zip(x, forces, strict=True)):
            y = after(y, force, duration, matrix)
            if k in (2, 6):
                found += [y[0] - y[2] - np.sign(force) * most, y[1] - y[3]]
        return [*found, *(y - [2.0, 0.0, 2.0, 0.0])]

    times = np.array([0.0, 0.062, 0.071, 0.117, 0.457, 0.493, 0.532, 0.635, 0.932, 0.968, 1.0])
    known = minimize(
        np.sum, 4.27 * np.diff(times), jac=lambda x: np.ones_like(x), method="SLSQP",
        constraints={"type": "eq", "fun": off}, options={"ftol": 1e-14, "maxiter": 200},
    )  # fmt: skip
    assert np.max(np.abs(off(known.x))) < 1e-10
    assert result.cost == pytest.approx(known.fun, rel=2e-8)
