"""Numbers in results and certificates, against closed forms."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.control._certificate._isolation import End, _kind_of_point
from jaxhamel.control._certificate._second_order import _null_space
from jaxhamel.control._derivatives_of_optima import _missing_derivatives
from jaxhamel.control._derivatives_of_optima._missing_derivatives import without_kinks
from jaxhamel.control._result import _tracking_numbers


def test_numbers_of_a_circle():
    """A circle of radius R has the size 2 R and the length of a polygon with N sides; the error (3, 4)·t over [0, 1]
    has the RMS 5/√3 up to the trapezoidal rule."""
    N, R = 400, 0.3
    ts = np.linspace(0.0, 1.0, N + 1)
    angle = 2 * np.pi * ts
    path = R * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    found = _tracking_numbers(path, ts[:, None] * np.array([3.0, 4.0]), ts)
    np.testing.assert_allclose(found["path_size"], 2 * R, rtol=1e-14)
    np.testing.assert_allclose(found["path_length"], 2 * N * R * np.sin(np.pi / N), rtol=1e-12)
    np.testing.assert_allclose(found["tracking_rms"], 5 / np.sqrt(3), rtol=1e-5)


@pytest.mark.parametrize(("dtype", "dependent"), [(np.float64, 1e-11), (np.float32, 1e-5)])
def test_rank_of_constraints_in_both_precisions(dtype, dependent):
    """Two unit rows at an angle φ have the singular values √(1 ± cos φ). They count as independent for φ = 0.05, and as
    dependent for φ of rounding errors."""
    rows = lambda angle: np.array([[1, 0, 0], [np.cos(angle), np.sin(angle), 0]], dtype)
    for angle, independent in ((0.05, True), (dependent, False)):
        basis, unique = _null_space(rows(angle), np.finfo(dtype).eps)
        assert unique is independent
        assert basis.shape == (3, 1 if independent else 2)


@pytest.mark.parametrize(
    ("known", "kind"), [(1e-4, "minimum, not isolated"), (1e-7, "not a minimum")]
)
def test_costs_are_equal_within_what_the_tolerance_leaves_open(known, kind):
    """Searches from both sides end at other points with costs that differ by up to 2.6e-5. With a cost error of 1e-4
    the point is a minimum that is not isolated; with 1e-7 it is no minimum."""
    ends = [End(1.8e-5, 1.2, done=True), End(-2.6e-5, 0.6, done=True)]
    assert _kind_of_point(ends, known, known) == kind


def test_rounding_errors_are_no_open_multipliers(monkeypatch):
    """If the multipliers of the conditions vary only by rounding errors, the derivatives are returned unchanged."""
    closed = SimpleNamespace(conditions=np.full((2, 2), 1e-16))
    monkeypatch.setattr(_missing_derivatives, "open_multipliers", lambda *_: closed)
    by: Any = object()
    nothing: Any = None
    found = _missing_derivatives.without_contradictions(by, nothing, nothing, nothing, closed)  # pyright: ignore[reportArgumentType]
    assert found is by


def test_no_derivative_where_the_minima_of_a_family_differ():
    """The point nearest to 0 on a circle about 0 is not unique: |x| has the derivative 1 by the radius at each of them,
    but −x by the centre, which differs."""
    at = lambda angle: {"radius": jnp.ones(()), "place": -jnp.array([np.cos(angle), np.sin(angle)])}
    found = without_kinks(at(0.3), at(0.4))
    np.testing.assert_array_equal(found["radius"], 1.0)
    assert np.all(np.isnan(found["place"]))
    same = without_kinks(at(0.3), at(0.3 + 1e-9))
    jax.tree.map(np.testing.assert_array_equal, same, at(0.3))
