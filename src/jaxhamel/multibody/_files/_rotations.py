"""Rotations as files write them, as unit quaternions (w, x, y, z) of NumPy."""

import numpy as np

UNTURNED = np.array([1.0, 0.0, 0.0, 0.0])


def product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Hamilton's product p q."""
    scalar = p[0] * q[0] - p[1:] @ q[1:]
    return np.concatenate([[scalar], p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])])


def matrix(q: np.ndarray) -> np.ndarray:
    """R(q) of a unit quaternion, `(3, 3)`."""
    hat = np.cross(np.eye(3), q[1:])
    return np.eye(3) + 2.0 * q[0] * hat + 2.0 * hat @ hat


def about(axis: np.ndarray, angle: float) -> np.ndarray:
    """The rotation about an axis, whose length has no effect."""
    unit = np.asarray(axis, float) / np.linalg.norm(axis)
    return np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * unit])


def from_euler(angles: np.ndarray, sequence: str) -> np.ndarray:
    """Three rotations after one another: about axes that turn along (letters x, y, z), or axes that rest (X, Y, Z)."""
    found = UNTURNED
    for angle, letter in zip(angles, sequence, strict=True):
        step = about(np.eye(3)["xyz".index(letter.lower())], angle)
        found = product(found, step) if letter.islower() else product(step, found)
    return found


def from_matrix(rotation: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation matrix, from the largest eigenvalue of Bar-Itzhack's symmetric matrix."""
    r = rotation
    skew = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    k = np.zeros((4, 4))
    k[0, 0], k[0, 1:], k[1:, 0] = np.trace(r), skew, skew
    k[1:, 1:] = r + r.T - np.trace(r) * np.eye(3)
    q = np.linalg.eigh(k)[1][:, -1]
    return q if q[0] >= 0 else -q


def to_direction(z: np.ndarray) -> np.ndarray:
    """The shortest rotation that takes e_3 to the direction z."""
    unit = np.asarray(z, float) / np.linalg.norm(z)
    if unit[2] <= -1.0 + 1e-12:
        return np.array([0.0, 1.0, 0.0, 0.0])
    q = np.array([1.0 + unit[2], -unit[1], unit[0], 0.0])
    return q / np.linalg.norm(q)
