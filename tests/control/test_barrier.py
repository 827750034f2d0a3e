"""The longest step that keeps slacks and parameters inside their bounds."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jaxhamel.control._interior_point._barrier import barrier_function, to_boundary

BOUNDS: Any = SimpleNamespace(
    lower=np.array([0.0, 2.0]),
    upper=np.array([1.0, 2.0]),  # equal bounds are an equation: they do not shorten the step
    p_lower=np.array([-1.0, -np.inf]),
    p_upper=np.array([3.0, np.inf]),
)
AT: Any = SimpleNamespace(slack=np.array([0.25, 2.0]), p=np.array([2.0, 7.0]), X=np.zeros(1))


@pytest.mark.parametrize(
    ("slack", "p", "share"),
    [
        ([0.0, 0.0], [0.0, 0.0], None),
        ([-1.0, 0.0], [0.0, 0.0], 0.25),
        ([3.0, 0.0], [0.0, 0.0], 0.25),
        ([0.0, 1e9], [0.0, 0.0], None),
        ([0.0, 0.0], [-6.0, 0.0], 0.5),
        ([0.0, 0.0], [4.0, 0.0], 0.25),
        ([0.0, 0.0], [0.5, -1e9], None),
        ([-1.0, 0.0], [100.0, 1e9], 0.01),
    ],
)
def test_a_step_ends_before_the_nearest_bound(slack, p, share):
    """The step covers the fraction max(0.99, 1 − μ) of the distance to the nearest bound that it approaches. Bounds
    that it moves away from do not shorten it."""
    move: Any = SimpleNamespace(slack=np.array(slack), p=np.array(p))
    for mu, part in ((0.5, 0.99), (1e-4, 1 - 1e-4)):
        found = to_boundary(BOUNDS, AT, move, np.asarray(mu))
        np.testing.assert_allclose(found, 1.0 if share is None else part * share, rtol=1e-14)


def test_the_barrier_counts_finite_bounds_only():
    wanted = -np.log([0.25, 0.75, 3.0, 1.0]).sum()
    np.testing.assert_allclose(barrier_function(BOUNDS, AT), wanted, rtol=1e-14)
