"""Rails with hand-written first and second derivatives: ζ(θ), ζ′(θ), ζ″(θ), each (..., n, 3).

Leading axes are batches. No abs, no conjugate: every formula takes complex numbers as well as real.
"""

import numpy as np


def circle(theta, radius, normal, zero, centre):
    cos, sin = np.cos(theta), np.sin(theta)
    curves = ((cos, sin), (-sin, cos), (-cos, -sin))
    return _plane([(radius * x, radius * y) for x, y in curves], normal, zero, centre)


def ellipse(theta, semi_axes, normal, zero, centre):
    a, b = semi_axes[..., 0], semi_axes[..., 1]
    cos, sin = np.cos(theta), np.sin(theta)
    return _plane(
        [(a * cos, b * sin), (-a * sin, b * cos), (-a * cos, -b * sin)], normal, zero, centre
    )


def figure_eight(theta, size, normal, zero, centre):
    cos, sin, cos2, sin2 = np.cos(theta), np.sin(theta), np.cos(2 * theta), np.sin(2 * theta)
    curves = ((cos, sin2 / 2), (-sin, cos2), (-cos, -2 * sin2))
    return _plane([(size * x, size * y) for x, y in curves], normal, zero, centre)


def line(theta, origin, direction):
    position = origin + theta[..., None] * direction
    return position, direction + 0 * position, 0 * position


def none(theta):
    empty = np.zeros((*theta.shape, 3))
    return empty, empty, empty


def join(*parts):
    """Rails of several kinds as one object, in the order of the masses."""
    return tuple(np.concatenate(pieces, axis=-2) for pieces in zip(*parts, strict=True))


def _plane(curves, normal, zero, centre):
    across = np.cross(normal, zero)
    vectors = [x[..., None] * zero + y[..., None] * across for x, y in curves]
    return vectors[0] + centre, vectors[1], vectors[2]
