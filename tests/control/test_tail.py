"""The mean of the largest values, against its definition as a minimum, and its derivative."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.control import tail_mean


@pytest.mark.parametrize("share", [0.01, 0.25, 0.3, 1.0])
def test_it_is_the_least_over_the_threshold(share):
    """The tail mean is the least of c + mean(max(v − c, 0))/share over c. This function is convex and piecewise linear,
    so its minimum is at one of the values v."""
    v = np.random.default_rng(0).normal(size=(10, 2))
    at = lambda c, v: c + np.maximum(v - c, 0.0).sum() / (share * len(v))
    wanted = [min(at(c, column) for c in column) for column in v.T]
    np.testing.assert_allclose(tail_mean(v, share), wanted, rtol=1e-13)


def test_derivative_is_the_share_of_each_value():
    """A share of 0.25 is 2.5 of 10 values: two have the weight 1/2.5 and the third half of it."""
    v = np.array([3.0, 1.0, 9.0, 4.0, 7.0, 0.0, 2.0, -1.0, 5.0, -2.0])
    weights = np.where(v > 6.0, 0.4, 0.0) + np.where(v == 5.0, 0.2, 0.0)
    np.testing.assert_allclose(jax.grad(tail_mean)(v, 0.25), weights, rtol=1e-13)


def test_a_motion_that_broke_down_is_not_left_out():
    assert np.isnan(tail_mean(np.array([1.0, np.nan, 2.0]), 0.4))


@pytest.mark.parametrize(
    ("values", "share", "kind", "words"),
    [
        (1.0, 0.1, ValueError, r"`values` has shape \(\)"),
        (jnp.zeros((0, 2)), 0.1, ValueError, r"`values` has shape \(0, 2\)"),
        (["a"], 0.1, TypeError, "`values`"),
        ([1.0], 0.0, ValueError, r"`share` is 0\.?; it must be above 0 and at most 1"),
        ([1.0], 5.0, ValueError, r"`share` is 5\.?;"),
        ([1.0], [0.1, 0.2], ValueError, r"`share` has shape \(2,\)"),
    ],
)
def test_messages(values, share, kind, words):
    with pytest.raises(kind, match=words):
        tail_mean(values, share)
