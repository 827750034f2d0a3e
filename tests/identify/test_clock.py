"""Reconstruction of a steady clock from late time stamps, with samples missing; stamps without a steady clock are kept."""

import numpy as np
import pytest

from jaxhamel.identify._data._clock import steady_clock


def late(times, seed=0):
    """Stamps of messages: usually about a millisecond late, sometimes thirty."""
    rng = np.random.default_rng(seed)
    delay = rng.exponential(1e-3, len(times)) + 0.03 * (rng.random(len(times)) < 0.05)
    return np.maximum.accumulate(times + delay) + 1e-6 * np.arange(len(times))


@pytest.mark.parametrize("missing", [[], [40], [40, 41, 150]])
@pytest.mark.parametrize("count", [26, 268])
def test_times_behind_late_stamps(count, missing):
    true = np.delete(0.02 * np.arange(count), [i for i in missing if i < count])
    found = steady_clock(late(true))
    error = found - true
    assert np.ptp(error) < 1.5e-3  # a common delay does not count as an error
    assert abs(error.mean()) < 2e-3


def test_a_steady_clock_and_no_clock_are_kept():
    ts = 0.02 * np.arange(100.0) + 3.0
    np.testing.assert_allclose(steady_clock(ts), ts, atol=1e-9)
    rng = np.random.default_rng(1)
    scattered = np.cumsum(rng.exponential(0.05, 100))
    np.testing.assert_array_equal(steady_clock(scattered), scattered)
    few = np.array([0.0, 0.02, 0.045])
    np.testing.assert_array_equal(steady_clock(few), few)


def test_stamps_that_are_later_from_a_time_on_are_no_missing_sample():
    """A lasting delay of two fifths of a period does not count as a missing sample, which would delay by a whole
    period."""
    number = np.arange(100)
    found = steady_clock(0.02 * number + 0.008 * (number >= 50))
    assert np.ptp(np.diff(found)) < 1e-9
