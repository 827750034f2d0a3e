"""Multiple shooting on problems whose states, times, controls and costs have any unit, and on dependent conditions.

A change of units multiplies the optimal cost by a known factor; the digits, and about the number of iterations, stay.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from tests.control.cart import Cart

METHOD = control.MultipleShooting(cost_tolerance=1e-9)
UNITS = [(1.0, 1.0, 1.0, 1.0), *10.0 ** np.random.default_rng(1).uniform(-6, 6, (3, 4))]


class Scaled(eqx.Module):
    """The rate gain · c of a state, its running cost residual (c, q) times `weights`."""

    gain: jax.Array
    weights: jax.Array

    def __call__(self, t, q, c):
        return self.gain * c

    def residual(self, t, q, u, control):
        return self.weights * jnp.concatenate([control(t), q])


def curve(duration):
    return control.Spline.constant(jnp.zeros(1), 0.0, duration, 9, 5)


def rest_to_rest(length, time, mass, weight):
    """(a cart from rest to rest with the least w ∫ f²/2, its cost 6 w m² L²/T³)."""
    problem = control.ControlProblem(
        Cart(jnp.array(mass)), jnp.zeros(1), jnp.zeros(1), jnp.linspace(0.0, time, 9), curve(time),
        (control.ControlEnergy(weight=weight),),
        (control.StateAtEnd(q=jnp.full(1, length), u=jnp.zeros(1)),),
    )  # fmt: skip
    return problem, 6 * weight * mass**2 * length**2 / time**3


def regulator(length, time, force, weight):
    """(ẋ = c from x = 2 with the least ½ ∫₀¹ c² + x² dt + 3/2 x(1)², its cost 2 coth(1 + artanh ⅓)), in these units.

    The guess stays at the first state, and no condition says where the motion ends.
    """
    law = Scaled(
        jnp.array(length / time / force),
        jnp.sqrt(weight / time) / jnp.array([force, length]),
    )
    problem = control.ControlProblem(
        jaxhamel.ODE(law, 1), jnp.array([2 * length]), jnp.zeros(0), jnp.linspace(0.0, time, 9), curve(time),
        (control.Running(law.residual), control.Endpoint(q=jnp.zeros(1), weight=3 * weight / length**2)),
    )  # fmt: skip
    return problem, 2 * weight / np.tanh(1 + np.arctanh(1 / 3))


@pytest.mark.parametrize("units", UNITS, ids=str)
@pytest.mark.parametrize("family", [rest_to_rest, regulator])
def test_any_unit(family, units):
    problem, least = family(*units)
    result = control.solve(problem, METHOD)
    assert result.converged, result.status
    np.testing.assert_allclose(result.cost, least, rtol=1e-11)
    assert len(result.history["cost"]) < 60


def test_dependent_conditions_at_the_end():
    """ẏ = c × y keeps |y|, so that one of three conditions at the end follows from the others: J = ½ 2² for an arc of 2."""
    end = jnp.array([np.sin(2.0), 0.0, np.cos(2.0)])
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: jnp.cross(c, y), 3), jnp.array([0.0, 0.0, 1.0]), jnp.zeros(0),
        jnp.linspace(0.0, 1.0, 21),
        control.Spline.constant(jnp.zeros(3), 0.0, 1.0, 8, 5), (control.ControlEnergy(),), (control.StateAtEnd(q=end),),
    )  # fmt: skip
    result = control.solve(problem, METHOD)
    assert result.converged, result.status
    np.testing.assert_allclose(result.cost, 2.0, rtol=1e-8)


def test_conditions_that_no_control_meets_end_the_search():
    """The second state grows by itself and misses its end by e − 1: no step comes closer, and the search says so."""
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: jnp.stack([c[0], y[1]]), 2), jnp.array([0.0, 1.0]), jnp.zeros(0),
        jnp.linspace(0.0, 1.0, 9), curve(1.0), (control.ControlEnergy(),),
        (control.StateAtEnd(q=jnp.array([1.0, 1.0])),),
    )  # fmt: skip
    result = control.solve(problem, METHOD)
    assert not result.converged
    assert "no step comes closer to meeting the conditions" in result.status
    assert len(result.history["cost"]) < 100
