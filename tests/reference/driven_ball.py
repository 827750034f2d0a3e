"""A rolling ball with hinged bodies inside, as free bodies with forces of constraint, in space axes, in NumPy.

Every body has its own six equations of Newton and Euler; what joins them are the force and the moment of each hinge and
the force of the ground. Unknowns: a_0, α_0, F_c, and for each hinged body a_i, α_i, f_i, n_i, θ̈_i, all found at once.
Nothing is reduced, so nothing of the package's derivation is in it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.reference.ball import rotation


@dataclass
class Hinged:
    """The shell (m_0, I, χ_0), and n bodies (m, J, pivot, axis, com from the pivot at angle 0), all in body axes."""

    radius: Any
    shell_mass: Any
    shell_inertia: Any
    shell_com: Any
    masses: Any
    inertias: Any
    pivots: Any
    axes: Any
    coms: Any
    gravity: Any = 9.81


def accelerations(ball, q, angles, omega, rates, torques):
    """(Ω̇, θ̈, F_c): body frame, and the force of the ground in space."""
    turn, n = rotation(q), len(angles)
    residual = _equations(ball, turn, angles, turn @ omega, rates, torques)
    size = 9 + 13 * n
    bias = residual(np.zeros(size))
    matrix = np.stack([residual(column) - bias for column in np.eye(size)], axis=1)
    x = np.linalg.solve(matrix, -bias)
    seconds = [x[9 + 13 * i + 12] for i in range(n)]
    return turn.T @ x[3:6], np.array(seconds), x[6:9]  # dω/dt = Λ Ω̇


def _equations(ball, turn, angles, w0, rates, torques):
    down, up = np.array([0, 0, -ball.gravity]), np.array([0, 0, ball.radius])
    com = turn @ ball.shell_com  # from the geometric centre
    spin = lambda k, w, alpha: k @ alpha + np.cross(w, k @ w)
    carried = lambda alpha, w, arm: np.cross(alpha, arm) + np.cross(w, np.cross(w, arm))

    def residual(x):
        a0, alpha0, ground = x[:3], x[3:6], x[6:9]
        centre = np.cross(alpha0, up)  # d/dt of ż = ω × r e_3
        force = ground + ball.shell_mass * down
        moment = np.cross(-up - com, ground)
        found = [a0 - centre - carried(alpha0, w0, com)]
        for i, (angle, rate) in enumerate(zip(angles, rates, strict=True)):
            a, alpha, f, n, second = np.split(x[9 + 13 * i : 22 + 13 * i], [3, 6, 9, 12])
            axis, pivot = turn @ ball.axes[i], turn @ ball.pivots[i]
            own = turn @ _turned(ball.axes[i], angle)
            arm = own @ ball.coms[i]  # from the pivot
            w = w0 + rate * axis
            inertia = own @ ball.inertias[i] @ own.T
            force = force - f
            moment = moment - np.cross(pivot - com, f) - n
            found += [
                ball.masses[i] * (a - down) - f,
                spin(inertia, w, alpha) - np.cross(-arm, f) - n,
                np.atleast_1d(n @ axis - torques[i]),
                a - centre - carried(alpha0, w0, pivot) - carried(alpha, w, arm),
                alpha - alpha0 - second * axis - np.cross(w0, rate * axis),
            ]
        shell = turn @ ball.shell_inertia @ turn.T
        found += [ball.shell_mass * a0 - force, spin(shell, w0, alpha0) - moment]
        return np.concatenate(found)

    return residual


def _turned(axis, angle):
    x, y, z = axis
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew
