"""Motions from kinematics alone, so that figures are tested without dynamics."""

import numpy as np

from jaxhamel.viz import BallMotion, rail_lines


def _product(a, b):
    w, x, y, z = a
    return np.array(
        [
            w * b[0] - x * b[1] - y * b[2] - z * b[3],
            w * b[1] + x * b[0] + y * b[3] - z * b[2],
            w * b[2] - x * b[3] + y * b[0] + z * b[1],
            w * b[3] + x * b[2] - y * b[1] + z * b[0],
        ]
    )


def rolled(path, radius):
    """Quaternions of a ball rolled along a path (T, 2) without slip or spin: ω = e₃ × ż / r."""
    quaternions = [np.array([1.0, 0.0, 0.0, 0.0])]
    for step in np.diff(path, axis=0):
        turn = np.array([-step[1], step[0], 0.0]) / radius
        angle = np.linalg.norm(turn)
        axis = turn / max(angle, 1e-300)
        delta = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * axis])
        quaternions.append(_product(delta, quaternions[-1]))
    return np.array(quaternions)


def circular_rails(radius):
    """Three rails on great circles of a ball."""

    def rails(theta):
        c, s, o = np.cos(theta), np.sin(theta), np.zeros(3)
        return radius * np.array([[c[0], s[0], o[0]], [o[1], c[1], s[1]], [s[2], o[2], c[2]]])

    return rails


def figure_eight_motion(samples=600, radius=0.1):
    """A ball on a 2 m × 1 m figure-eight, with invented masses and force."""
    ts = np.linspace(0.0, 20.0, samples)
    s = 2 * np.pi * ts / 20.0
    path = np.column_stack([np.sin(s), 0.5 * np.sin(2 * s)])
    angles = np.column_stack([-np.pi / 2 + 0.5 * np.sin((k + 1) * s + k) for k in range(3)])
    rails = circular_rails(0.7 * radius)
    force = np.column_stack([0.9 * np.sin(2 * s), 0.7 * np.cos(s), 24.5 + 0.8 * np.cos(3 * s)])
    reference = path + 0.002 * np.column_stack([np.cos(5 * s), np.sin(3 * s)])
    return BallMotion(
        ts=ts,
        quaternion=rolled(path, radius),
        position=path,
        radius=radius,
        angles=angles,
        masses=np.array([rails(theta) for theta in angles]),
        rails=rail_lines(rails, angles),
        force=force,
        weight=24.5,
        reference=reference,
    )
