"""Rigid bodies about a fixed point, in NumPy.

Putkaradze and Rogers 2018, (A.16) and (A.36)–(A.38).
"""

import numpy as np

from tests.reference.ball import quaternion_rate, rotation


def heavy_top_rate(inertia, weight_times_com, q, omega):
    """(A.16): Ω̇ = I⁻¹[(IΩ) × Ω + m g Γ × χ]; `weight_times_com` is m g χ."""
    gamma = rotation(q)[..., 2, :]
    momentum = inertia @ omega
    return np.linalg.solve(inertia, np.cross(momentum, omega) + np.cross(gamma, weight_times_com))


def suslov_rate(inertia, xi, xi_dot, omega):
    """(A.38) with (A.37): Ω̇ and the multiplier λ, for a constraint vector ξ(t) in the body."""
    gyroscopic = np.cross(inertia @ omega, omega)
    response = np.linalg.solve(inertia, xi)
    multiplier = -(omega @ xi_dot + gyroscopic @ response) / (xi @ response)
    return np.linalg.solve(inertia, gyroscopic + multiplier * xi), multiplier


def with_attitude(omega_rate):
    """d(q, Ω)/dt of a state (7,), for a given omega_rate(t, q, Ω)."""

    def of_state(t, state):
        q, omega = state[:4], state[4:]
        return np.concatenate([quaternion_rate(q, omega), omega_rate(t, q, omega)])

    return of_state
