"""Starting guesses of a fit, against data made by hand."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.identify import Position
from jaxhamel.identify._linearised._losses import Squares
from jaxhamel.identify._noise import _of_column, estimated


def test_noise_of_a_column():
    """Constant runs have zero noise; a ramp gets 1 % of its spread; Gaussian noise its standard deviation."""
    assert _of_column([np.full(9, 5.0), np.full(9, -3.0)]) == 0.0
    ramp = np.linspace(-1.0, 1.0, 5)
    np.testing.assert_allclose(_of_column([ramp + 7.0, ramp - 7.0]), 0.01 * np.std(ramp))
    noisy = 0.2 * np.random.default_rng(0).normal(size=20_000)
    np.testing.assert_allclose(_of_column([noisy]), 0.2, rtol=0.03)
    assert _of_column([np.full(4, np.nan)]) == 0.0


def test_noise_of_residuals():
    """√(Σ r²/n · N/(N − unknowns)) times the previous noise, without missing entries."""
    measurement = SimpleNamespace(noise=None, error_size=2)
    problem = SimpleNamespace(measurements=[measurement], model=SimpleNamespace(loss=Squares()))
    residuals = np.array([[3.0, 1.0], [-3.0, 2.0], [3.0, 2.0], [-3.0, 99.0]])
    there = np.array([[1, 1], [1, 1], [1, 1], [1, 0]])
    found = estimated(problem, np.array([0.1, 10.0]), residuals, there, unknowns=2)
    np.testing.assert_allclose(found, np.sqrt([0.09 * 7 / 5, 100.0 * 3 * 7 / 5]))


@pytest.mark.parametrize(
    ("q", "columns", "guessed"),
    [
        (jnp.arange(7.0), ("x", "y", "z"), [0, 1, 2, 3, 8, 9, 10]),  # SE(3): behind the quaternion
        (jnp.arange(3.0), ("x", "y"), [0, 8, 9]),  # SE(2): behind the angle
        (jnp.arange(4.0), ("x", "y"), [8, 9, 2, 3]),
    ],
)
def test_place_of_a_position(q, columns, guessed):
    position = Position(columns=columns)
    found, u = position.guess(jnp.arange(8.0, 8.0 + len(columns)), q, jnp.zeros(0))
    np.testing.assert_array_equal(found, guessed)
    assert u.shape == (0,)
