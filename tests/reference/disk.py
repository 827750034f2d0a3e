"""The rolling disk with internal masses, Putkaradze and Rogers 2018, (3.39), in NumPy.

Γ = (sin φ, 0, cos φ), so φ counts against the rotation about e_2; ż_1 = −r φ̇.
"""

import numpy as np


def phi_rate(radius, inertia, masses, motion, gravity, force, phi, phi_dot):
    """φ̈; `masses` (n+1,) with the disk first, `motion` = (ζ, ζ̇, ζ̈) of all of them, (n+1, 3)."""
    zeta, first, second = motion
    x, z = zeta[:, 0], zeta[:, 2]
    sin, cos = np.sin(phi), np.cos(phi)
    below, beside = radius * cos + z, radius * sin + x
    moments = (
        (gravity + radius * phi_dot**2) * (z * sin - x * cos)
        + below * (-2 * phi_dot * first[:, 2] + second[:, 0])
        - beside * (2 * phi_dot * first[:, 0] + second[:, 2])
    )
    denominator = inertia + np.sum(masses * (beside**2 + below**2))
    return (-radius * force + np.sum(masses * moments)) / denominator


def energy(radius, inertia, masses, zeta, gravity, phi, phi_dot):
    """½ D(φ) φ̇² + g Σ m (ζ_3 cos φ + ζ_1 sin φ), with masses at rest in the disk."""
    x, z = zeta[:, 0], zeta[:, 2]
    arm = (radius * np.sin(phi) + x) ** 2 + (radius * np.cos(phi) + z) ** 2
    kinetic = (inertia + np.sum(masses * arm)) * phi_dot**2 / 2
    return kinetic + gravity * np.sum(masses * (z * np.cos(phi) + x * np.sin(phi)))
