"""Numbers of a result against a circle."""

import numpy as np

from jaxhamel.control._result import _tracking_numbers


def test_numbers_of_a_circle():
    """Radius R, error (3, 4)·t: size 2 R, a polygon of N sides, RMS 5/√3 over [0, 1] up to the trapezoidal rule."""
    N, R = 400, 0.3
    ts = np.linspace(0.0, 1.0, N + 1)
    angle = 2 * np.pi * ts
    path = R * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    found = _tracking_numbers(path, ts[:, None] * np.array([3.0, 4.0]), ts)
    np.testing.assert_allclose(found["path_size"], 2 * R, rtol=1e-14)
    np.testing.assert_allclose(found["path_length"], 2 * N * R * np.sin(np.pi / N), rtol=1e-12)
    np.testing.assert_allclose(found["tracking_rms"], 5 / np.sqrt(3), rtol=1e-5)
