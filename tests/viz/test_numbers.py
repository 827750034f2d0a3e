"""Sizes and errors that pages state, against motions made by hand."""

import numpy as np

from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.viz._motion import _numbers
from jaxhamel.viz._motion._scene_of import _size
from jaxhamel.viz._scene import Pose


def pose(*positions):
    return Pose(np.tile([1.0, 0.0, 0.0, 0.0], (len(positions), 1)), np.array(positions))


def test_tracking_error(monkeypatch):
    """t on [0, 3]: RMS √3 by the trapezoidal rule up to its error, maximum 3."""
    ts = np.linspace(0.0, 3.0, 3001)
    monkeypatch.setattr(_numbers, "error_of", lambda run: run.ts)
    found = _numbers.tracking_numbers(type("Run", (), {"ts": ts})())
    np.testing.assert_allclose(found["tracking_rms"], np.sqrt(3.0), rtol=1e-6)
    assert found["tracking_max"] == 3.0


def test_size_of_a_scene():
    """The radius of the second body and its distance from the first; without extent a fifth of the way; at rest 1."""
    first, second = pose([0, 0, 0.0], [1, 0, 0.0]), pose([0, 2, 0.0], [1, 1, 0.0])
    np.testing.assert_allclose(_size([Shape(), Shape(sphere=0.5)], [first, second]), 2.5)
    np.testing.assert_allclose(_size([Shape()], [first]), 0.2)
    assert _size([Shape()], [pose([0, 0, 0.0], [0, 0, 0.0])]) == 1.0
