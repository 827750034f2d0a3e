"""Disturbed controls: θ(t) = offset + scale θ₀(t − delay)."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.cli._objects._spread import Nominal, member
from jaxhamel.systems import CircularRails, RollingBall

RAILS = CircularRails(radius=[0.07], normal=[[0, -1, 0]], zero=[[1, 0, 0]])
BALL = RollingBall(0.1, 1.0, [6e-3] * 3, [0, 0, 0], [0.3], RAILS)
NOMINAL = Nominal(BALL, None, None, lambda t: jnp.array([t**2]))


@pytest.mark.parametrize(
    ("sample", "wanted"),
    [
        ({"control.offset": [0.5]}, 0.5 + 1.1**2),
        ({"control.scale": [2.0]}, 2.0 * 1.1**2),
        ({"control.delay": 0.3}, 0.8**2),  # the control of 0.3 s before
        ({"control.delay": -0.3}, 1.4**2),
        (
            {"control.offset": [0.5], "control.scale": [2.0], "control.delay": 0.3},
            0.5 + 2.0 * 0.8**2,
        ),
    ],
)
def test_a_disturbed_control(sample, wanted):
    arrays = {key: jnp.asarray(x) for key, x in sample.items()}
    np.testing.assert_allclose(member(arrays, NOMINAL).control(1.1), [wanted], rtol=1e-15)
