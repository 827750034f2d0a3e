"""Information at rounding level: inverses leave it out, and directions without other information are reported as
undetermined."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.identify._flat import ROUNDING, flat_directions
from jaxhamel.identify._linearised._information import _schur_term


@pytest.mark.parametrize(("small", "counts"), [(1e-15, False), (1e-11, True)])
def test_what_is_rounding_is_not_inverted(small, counts):
    """F_ww = V diag(2, 1, 1, ε) Vᵀ: if ε is at rounding level, F_zw F_ww⁺ F_wz has three terms, else four."""
    # F_ww is circulant with a unit diagonal, so scaling to a unit diagonal changes nothing
    one, alternating = np.ones(4) / 2, np.array([1, -1, 1, -1]) / 2
    pairs = [np.array([1, 0, -1, 0]) / np.sqrt(2), np.array([0, 1, 0, -1]) / np.sqrt(2)]
    vectors, values = np.array([one, *pairs, alternating]), np.array([2.0, 1.0, 1.0, small])
    inner = vectors.T @ np.diag(values) @ vectors
    along = np.array([0.3, 0.2, 0.1, 1e-6])
    outer = jnp.asarray(vectors.T @ along)[None, :, None]
    found = _schur_term(jnp.asarray(inner)[None], outer)
    wanted = np.sum(along[:3] ** 2 / values[:3]) + counts * along[3] ** 2 / small
    np.testing.assert_allclose(found, [[[wanted]]], rtol=1e-4)


@pytest.mark.parametrize(("largest", "loose"), [(1e20, True), (1e16, False)])
def test_a_direction_below_the_rounding_of_the_information_is_not_determined(largest, loose):
    """The eigenvalue 10⁴ would give σ = 1/100, but beside 10²⁰ it is below the rounding level of 10⁻¹³ · 10²⁰ = 10⁷."""
    F = np.diag([1e4, largest, largest])
    covariance, flat, moved = flat_directions(F, np.eye(3), np.ones(3), np.ones(3), ["a", "b", "c"])
    assert len(flat) == loose
    assert moved.any() == loose
    assert (ROUNDING * largest > 1e4) == loose
    np.testing.assert_allclose(np.trace(covariance), 2 / largest if loose else 1e-4, rtol=1e-3)


@pytest.mark.parametrize(("information", "loose"), [(0.9, True), (1.1, False)])
def test_a_direction_with_a_deviation_of_100_percent_is_not_determined(information, loose):
    F = np.diag([information, 100.0])
    _, flat, _ = flat_directions(F, np.eye(2), np.ones(2), np.ones(2), ["a", "b"])
    assert [each.width for each in flat] == pytest.approx([information**-0.5] * loose)
