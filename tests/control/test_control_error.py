"""The cost that better controls between the collocation points would save.

min ∫₀ᵀ ½(x² + c²) dt with ẋ = c, x(0) = 1 and a free end costs ½ tanh T. The control is c = −sinh(T − t) / cosh T, which is
no polynomial.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control import problems
from jaxhamel.control._certificate import _certificate

SIDEWAYS = 11.158158715164  # the least cost of the unicycle, by elliptic integrals


def regulator(duration, lower=None):
    system = jaxhamel.ODE(lambda t, q, c: c, 1)
    costs = (control.ControlEnergy(), control.Running(lambda t, q, u, control: q))
    limits = ()
    if lower is not None:
        limits = (control.PathLimit(lambda t, q, u, c: c(t), lower=lower, name="speed"),)
    ts = jnp.linspace(0.0, duration, 9)
    return control.ControlProblem(
        system, jnp.ones(1), jnp.zeros(0), ts, lambda t: jnp.zeros(1), costs, limits
    )


@pytest.fixture
def costs(monkeypatch):
    """The excess that a certificate finds, and the change of the cost by the errors of the transcription."""
    found, excess, errors = {}, _certificate.control_excess, _certificate.transcription_error

    def with_excess(transcription, *given):
        value = excess(transcription, *given)
        found["excess"] = value * float(transcription.cost_unit)
        return value

    def with_errors(transcription, *given):
        error, change = errors(transcription, *given)
        found["change"] = float(change * transcription.cost_unit)
        return error, change

    monkeypatch.setattr(_certificate, "control_excess", with_excess)
    monkeypatch.setattr(_certificate, "transcription_error", with_errors)
    return found


@pytest.mark.parametrize(("degree", "intervals"), [(2, 4), (2, 8), (3, 4)])
def test_excess_is_the_cost_above_the_closed_form(costs, degree, intervals):
    """Of the motion under the control found, whose cost differs from the quadrature at the points by the change."""
    result = control.solve(regulator(2.0), control.Collocation(intervals, degree))
    above = result.cost + costs["change"] - 0.5 * np.tanh(2.0)
    np.testing.assert_allclose(costs["excess"], above, rtol=0.1)
    says = "better controls between the collocation points" in result.certificate.words
    assert says == (above > 1e-6 * (1 + result.cost))


def test_intervals_in_which_a_limit_begins_to_bind_do_not_count(costs):
    """There the control has a kink, and no polynomial through a neighbour's values is better: it would save 2e-5."""
    result = control.solve(regulator(2.0, -0.8), control.Collocation(None, 3))
    assert result.converged
    assert costs["excess"] < 1e-8


def test_a_mesh_becomes_finer_for_a_low_degree():
    """With polynomials of degree 1 on 20 intervals the cost is 7e-6 of it above the least one, but the motion is right."""
    result = control.solve(problems.unicycle_sideways(), control.Collocation(degree=2))
    assert result.certificate.holds, result.certificate.words
    np.testing.assert_allclose(result.cost, SIDEWAYS, rtol=1e-6)
