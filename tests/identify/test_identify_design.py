"""Experiment design against information known in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from identify_systems import PLACE

import jaxhamel
from jaxhamel import identify
from jaxhamel.control import Limited
from jaxhamel.identify._design import _criterion
from jaxhamel.systems._parameters import parameter

TS = np.linspace(0.0, 2.0, 9)


class Pushed(jaxhamel.System):
    """m x'' = push(t) on a line."""

    mass: jax.Array = parameter()
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * v[0] ** 2

    def force(self, t, q, v, control):
        return control


class Push(eqx.Module):
    """A constant push."""

    size: jax.Array

    def __call__(self, t):
        return self.size


def planned(mass=2.0, **options):
    at_rest = (jnp.zeros(1), jnp.zeros(1))
    sought = [identify.Positive("mass", unit="kg")]
    return identify.Experiment(Pushed(mass), sought, [PLACE], TS, *at_rest, **options)


def test_information_of_a_mass_that_is_pushed_from_a_known_start():
    """x = a t²/(2 m), ∂x/∂log m = −x: F = Σ x²/σ²; the error of m is m/√F."""
    experiment, curve = planned(state_error=1e-9), Push(jnp.array([0.7]))
    exact = np.sum((0.7 * TS**2 / 4.0 / 0.1) ** 2)
    np.testing.assert_allclose(experiment.information(curve), [[exact]], rtol=1e-9)
    np.testing.assert_allclose(experiment.errors(curve)["mass"], 2.0 / np.sqrt(exact), rtol=1e-9)


def test_information_of_an_unknown_start_is_what_the_start_cannot_explain():
    """The part of t² that 1 and t do not explain, by least squares."""
    experiment, curve = planned(state_error=1e6), Push(jnp.array([0.7]))
    column = 0.7 * TS**2 / 4.0 / 0.1
    others = np.column_stack([np.ones_like(TS), TS])
    left = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
    np.testing.assert_allclose(experiment.information(curve), [[left @ left]], rtol=1e-6)


def test_pushes_as_hard_as_it_may():
    """Information grows like the push squared: the best one is at its limit, and the gain is the square of the ratio."""
    curve = Limited(Push(jnp.array([0.2])), [-1.0], [1.0])
    found = identify.design(planned(), curve, max_steps=30)
    before, after = float(curve(0.0)[0]), float(found.curve(0.0)[0])
    assert 0.97 < after < 1.0
    np.testing.assert_allclose(found.gain, (after / before) ** 2, rtol=1e-6)
    assert found.history[-1] < found.history[0]
    assert "D-optimal experiment" in str(found)


def test_soft_limit_on_the_rate():
    """A ramp a t with |a| ≤ 0.5 allowed, although a steeper one would tell more."""

    class Ramp(eqx.Module):
        slope: jax.Array

        def __call__(self, t):
            return self.slope * t

    found = identify.design(planned(max_rate=0.5), Ramp(jnp.array([0.1])), max_steps=40)
    assert 0.5 < float(found.curve.slope[0]) < 0.55


def test_criteria_and_their_gradients():
    """−log det F/P, log(tr F⁻¹/P), −log λ_min of a diagonal matrix, and derivatives by its entries."""
    F = jnp.array([2.0, 4.0, 8.0])
    expected = {
        "D": (-np.log(64.0) / 3, [-1 / 6, -1 / 12, -1 / 24]),
        "A": (np.log(0.875 / 3), [-0.25 / 0.875, -0.0625 / 0.875, -0.015625 / 0.875]),
        "E": (-np.log(2.0), [-0.5, 0.0, 0.0]),
    }
    for name, (value, slope) in expected.items():
        found = jax.value_and_grad(lambda d, name=name: _criterion(name, jnp.diag(d)))(F)
        np.testing.assert_allclose(found[0], value, rtol=1e-12)
        np.testing.assert_allclose(found[1], slope, rtol=1e-10, atol=1e-12)


def test_messages():
    with pytest.raises(ValueError, match=r"`criterion` is 'T'; it must be one of 'D', 'A', 'E'"):
        identify.design(planned(), Push(jnp.array([0.7])), "T")
    with pytest.raises(ValueError, match="does not determine all parameters"):
        identify.design(planned(), Push(jnp.array([0.0])))
    bare = identify.Coordinate(0, name="place", columns=("place",), unit="m")
    with pytest.raises(ValueError, match=r"measurement 'place' has no `noise`"):
        identify.Experiment(Pushed(1.0), [identify.Positive("mass")], [bare], TS, [0.0], [0.0])
