"""Disturbed controls: θ(t) = offset + scale θ₀(t − delay)."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.cli._objects._spread import Nominal, distributions, member
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.systems import CircularRails, RollingBall

RAILS = CircularRails(radius=[0.07], normal=[[0, -1, 0]], zero=[[1, 0, 0]])
BALL = RollingBall(0.1, 1.0, [6e-3] * 3, [0, 0, 0], [0.3], RAILS)
NOMINAL = Nominal(BALL, None, None, lambda t: jnp.array([t**2]))


@pytest.mark.parametrize(
    ("sample", "wanted"),
    [
        ({"control.offset": [0.5]}, 0.5 + 1.1**2),
        ({"control.scale": [2.0]}, 2.0 * 1.1**2),
        ({"control.offset.0": 0.5, "control.scale.0": 2.0}, 0.5 + 2.0 * 1.1**2),
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


STATE = Nominal(BALL, (np.array([1.0, 0, 0, 0]), np.zeros(2)), np.array([0.1, 0.2, 0.3]), None)


def spread(*keys, **more):
    tables = [{"key": key, "distribution": "normal", "std": 0.1, **more} for key in keys]
    return distributions(tables, STATE)


def test_single_entries_of_arrays_are_spread():
    """Each key has one number about its own value, and the other entries keep theirs."""
    found = spread("initial.u.1", "initial.q.4", "system.shell_inertia.2")
    assert [float(x.parameters["mean"]) for x in found.values()] == [0.0, 0.0, 6e-3]
    system, q0, u0, _ = member(
        {
            "initial.u.1": jnp.array(0.5),
            "initial.q.4": jnp.array(-0.2),
            "system.shell_inertia.2": jnp.array(7e-3),
        },
        STATE,
    )
    np.testing.assert_allclose(u0, [0.1, 0.7, 0.3], rtol=1e-15)
    np.testing.assert_allclose(q0[1], [0.0, -0.2], rtol=1e-15)
    np.testing.assert_allclose(q0[0], [1.0, 0, 0, 0], rtol=1e-15)
    np.testing.assert_allclose(system.shell_inertia, [6e-3, 6e-3, 7e-3], rtol=1e-15)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["initial.u.3"], "no number of this scenario"),
        (["initial.u.x"], "an entry of one of these, such as `initial.u.0`"),
        (["system.masses.0.0"], "no number of this scenario"),
        (["system.mass"], "Did you mean `system.masses`"),
        (["initial.u", "initial.u.0"], "has numbers of 'initial.u', which is spread, too"),
        (["initial.u.0", "initial.u"], "has numbers of 'initial.u.0', which is spread, too"),
        (["initial.u", "initial.u"], "is given twice"),
    ],
)
def test_keys_that_are_refused(keys, message):
    with pytest.raises(ScenarioError, match=message):
        spread(*keys)
