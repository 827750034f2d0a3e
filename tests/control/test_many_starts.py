"""Collocation from many starts: a wheel reaches an angle in either direction and with different numbers of turns."""

import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import control
from jaxhamel.control._many_starts import _many_starts
from jaxhamel.control._many_starts._many_starts import optima_of
from jaxhamel.mechanics import Constant


class Wheel(jaxhamel.System):
    space = jaxhamel.SO2()

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v)


def test_each_number_of_turns_is_an_optimum(monkeypatch):
    """½∫ω² in unit time to the angle 2 has the local optima ½ (2 + 2π k)²; a start with constant ω reaches the nearest
    one.

    Two searches run in one batch, further ones take the places of finished ones, and the last ones run alone.
    """
    monkeypatch.setattr(_many_starts, "STARTS_AT_ONCE", 2)
    monkeypatch.setattr(_many_starts, "FEW", 2)
    alone, more_iterations = [], _many_starts.more_iterations
    monkeypatch.setattr(
        _many_starts, "more_iterations", lambda *given: alone.append(1) or more_iterations(*given)
    )
    problem = control.ControlProblem(
        jaxhamel.Kinematic(Wheel()), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]), Constant(jnp.zeros(1)),
        (control.ControlEnergy(),), (control.StateAtEnd(q=jnp.full(1, 2.0)),),
    )  # fmt: skip
    starts = jnp.array([[2.3], [-4.0], [8.0], [1.0], [-3.9]])
    result = control.solve_many(problem, starts, control.Collocation(intervals=8, degree=2))
    assert result.certificate is not None
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, 2.0, rtol=1e-12)
    assert result.certificate.optima is not None
    costs, counts = zip(*result.certificate.optima, strict=True)
    exact = [0.5 * (2 + 2 * np.pi * k) ** 2 for k in (0, -1, 1)]
    np.testing.assert_allclose(costs, exact, rtol=1e-9)
    assert counts == (2, 2, 1)
    assert len(alone) <= 2
    assert f"2 (2×), {exact[1]:.8g} (2×)" in result.certificate.words


def test_the_table_counts_equal_costs_once():
    costs = np.array([3.0, 1.0 + 1e-9, np.nan, 1.0, 7.0])
    table = optima_of(costs, np.array([True, True, False, True, False]))
    assert table.found == ((1.0, 2), (3.0, 1))
    assert table.unconverged == 2
