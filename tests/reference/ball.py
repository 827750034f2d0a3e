"""The rolling ball, from Putkaradze and Rogers 2018, (B.8) solved for dΩ/dt, in NumPy.

Written from the equations, not from the package. State (..., 9): quaternion (w, x, y, z), Ω in the
body, (z_1, z_2) of the centre. `motion(t)` gives χ_i, χ̇_i, χ̈_i of the moving masses, (..., n, 3).
Leading axes are batches; everything takes complex numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Ball:
    """r (...,), m_0 (...,), I (..., 3, 3), χ_0 (..., 3), m_i (..., n), g (...,), F_e (..., 3)."""

    radius: Any
    shell_mass: Any
    shell_inertia: Any
    shell_com: Any
    masses: Any
    gravity: Any
    force: Any = (0.0, 0.0, 0.0)


def rotation(q):
    """(D.15): Λ of a unit quaternion, scalar first; body to space."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_rate(q, omega):
    """(D.21): dq/dt = q Ω^♯ / 2."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    a, b, c = np.moveaxis(omega, -1, 0)
    product = (
        -x * a - y * b - z * c,
        w * a + y * c - z * b,
        w * b + z * a - x * c,
        w * c + x * b - y * a,
    )
    return np.stack(product, axis=-1) / 2


def omega_rate(ball, q, omega, motion):
    """(3.23): Ω̇ = [Σ m ŝ² − I]⁻¹ [Ω × IΩ + r Γ̃ × Γ + Σ m s × (gΓ + Ω × (Ω × χ + 2χ̇) + χ̈)]."""
    gamma = rotation(q)[..., 2, :]
    mass, arm, bracket = _arms(ball, gamma, omega, motion)
    spin = np.cross(omega, _times(ball.shell_inertia, omega))
    push = _scaled(ball.radius, np.cross(_body_force(ball, q), gamma))
    weight = _scaled(ball.gravity, gamma)[..., None, :]
    right = spin + push + np.sum(mass[..., None] * np.cross(arm, weight + bracket), axis=-2)
    square = np.sum(mass * np.sum(arm * arm, axis=-1), axis=-1)
    hat_squares = np.einsum("...i,...ij,...ik->...jk", mass, arm, arm)
    hat_squares = hat_squares - square[..., None, None] * np.eye(3)
    return np.linalg.solve(hat_squares - ball.shell_inertia, right[..., None])[..., 0]


def contact_force(ball, q, omega, motion):
    """The ground's force on the ball in space, Λ Σ m (gΓ + Ω̇ × s + Ω × (Ω × χ + 2χ̇) + χ̈) − F_e."""
    gamma = rotation(q)[..., 2, :]
    mass, arm, bracket = _arms(ball, gamma, omega, motion)
    omega_dot = omega_rate(ball, q, omega, motion)[..., None, :]
    weight = _scaled(ball.gravity, gamma)[..., None, :]
    total = np.sum(mass[..., None] * (weight + np.cross(omega_dot, arm) + bracket), axis=-2)
    return _times(rotation(q), total) - np.asarray(ball.force)


def rate(ball, motion):
    """d(state)/dt as a function of (t, state)."""

    def of_state(t, state):
        q, omega = state[..., :4], state[..., 4:7]
        moved = motion(t)
        slip_free = np.cross(omega, _scaled(ball.radius, rotation(q)[..., 2, :]))
        centre = _times(rotation(q), slip_free)[..., :2]
        return np.concatenate(
            [quaternion_rate(q, omega), omega_rate(ball, q, omega, moved), centre], axis=-1
        )

    return of_state


def moving(rails, theta):
    """t -> (χ, χ̇, χ̈), from ζ(θ) and θ(t) with two derivatives each, by the chain rule."""

    def at(t):
        angle, first, second = theta(t)
        zeta, slope, curvature = rails(angle)
        first, second = first[..., None], second[..., None]
        return zeta, first * slope, first * first * curvature + second * slope

    return at


def waves(offset, amplitude, frequency, phase):
    """θ(t) = offset + amplitude sin(frequency t + phase), with its two derivatives."""

    def theta(t):
        sin, cos = np.sin(frequency * t + phase), np.cos(frequency * t + phase)
        return (
            offset + amplitude * sin,
            amplitude * frequency * cos,
            -amplitude * frequency * frequency * sin,
        )

    return theta


def _arms(ball, gamma, omega, motion):
    """m_i, s_i = rΓ + χ_i and Ω × (Ω × χ_i + 2χ̇_i) + χ̈_i for i = 0 ... n, the shell first."""
    shell = np.asarray(ball.shell_com)[..., None, :]
    at_rest = (shell, 0 * shell, 0 * shell)
    chi, first, second = (_stack(s, m, gamma) for s, m in zip(at_rest, motion, strict=True))
    mass = np.asarray(ball.masses)
    shell_mass = np.broadcast_to(np.asarray(ball.shell_mass)[..., None], (*mass.shape[:-1], 1))
    turning = omega[..., None, :]
    bracket = np.cross(turning, np.cross(turning, chi) + 2 * first) + second
    arm = chi + _scaled(ball.radius, gamma)[..., None, :]
    return np.concatenate([shell_mass, mass], axis=-1), arm, bracket


def _stack(shell, moved, gamma):
    batch = np.broadcast_shapes(shell.shape[:-2], moved.shape[:-2], gamma.shape[:-1])
    parts = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (shell, moved)]
    return np.concatenate(parts, axis=-2)


def _body_force(ball, q):
    return np.einsum(
        "...ji,...j->...i", rotation(q), np.broadcast_to(ball.force, (*q.shape[:-1], 3))
    )


def _times(matrix, vector):
    return np.einsum("...ij,...j->...i", matrix, vector)


def _scaled(scalar, vector):
    return np.asarray(scalar)[..., None] * vector
