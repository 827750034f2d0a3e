"""How a collocation ends where there is no optimum, or where its certificate cannot hold."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._certificate import _multipliers
from jaxhamel.control._certificate._endings import not_finite
from jaxhamel.control._collocation._collocation_search import SLOW_ITERATIONS, CollocationSearch
from jaxhamel.control._collocation._start import bent
from jaxhamel.control._interior_point._riccati import _border, _border_solve
from jaxhamel.mechanics import Constant


def only_zero(rate, cost):
    """A start at 0 from where `rate` leads back to 0 in unit time."""
    return control.ControlProblem(
        jaxhamel.ODE(rate, 1), jnp.zeros(1), jnp.zeros(0), jnp.array([0.0, 1.0]), Constant(jnp.full(1, 0.5)),
        (cost,), (control.StateAtEnd(q=jnp.zeros(1)),),
    )  # fmt: skip


@pytest.mark.parametrize(("after", "words"), [(2e5, "multipliers: none were found"), (5e4, "")])
def test_multipliers_that_grow_with_a_smaller_tolerance(monkeypatch, after, words):
    """Of a condition x² = 0 the multiplier is of the size ε^(−1/2); the whole search: `benchmarks/classical_control.py`."""
    states = [SimpleNamespace(duals=(np.array([0.0, x]),), cost=0.5) for x in (5e4, after)]
    monkeypatch.setattr(_multipliers, "_tighter", lambda *_: states[1])
    found = _multipliers.unbounded_multipliers(None, states[0], jnp.asarray(1e-9))  # pyright: ignore[reportArgumentType]
    assert found.startswith(words)
    assert bool(found) == bool(words)


@pytest.mark.parametrize(("cost", "hopeless"), [(1.0, True), (-1e-3, False)])
def test_whole_steps_that_gain_nothing_are_hopeless(cost, hopeless):
    """Two targets that contradict each other: Newton's steps are whole, and neither violation nor cost changes."""
    falling = [1.0 + min(cost, 0.0) * k for k in range(SLOW_ITERATIONS)]
    rows = [{"cost": value, "violation": 0.5, "step": 1.0} for value in falling]
    state = SimpleNamespace(done=False, stuck=0)
    search = SimpleNamespace(rows=rows, since=0, state=state, tolerance=1e-9, cost_unit=1.0)
    assert CollocationSearch._hopeless(search) == hopeless  # pyright: ignore[reportArgumentType]


def test_no_time_at_all_returns_the_guess():
    """c = ½ at the guess, so that ½∫c² = 1/8 and the end is missed by what y moves; the search itself is not compiled."""
    problem = only_zero(lambda t, y, c: c, control.ControlEnergy(weight=1.0))
    search = CollocationSearch(control.Collocation(intervals=1, degree=1, max_seconds=0.0), problem)
    assert search.run().status.startswith(
        "out of time (0 s) after 0 iterations, before its program"
    )
    assert search.parts is None
    np.testing.assert_allclose(search.rows[0]["cost"], 0.125)
    np.testing.assert_allclose(search.rows[0]["violation"], 0.5)


@pytest.fixture(scope="module")
def search():
    """One whose equations of motion are not finite at the guess."""
    problem = only_zero(lambda t, y, c: jnp.sqrt(y - 1) + c, control.ControlEnergy())
    return CollocationSearch(control.Collocation(intervals=1, degree=1), problem)


def test_functions_that_are_not_finite_are_named(search):
    row = {"cost": 1.0, "violation": np.nan, "gradient_norm": np.nan}
    words = not_finite(search.transcription, search.state.w, row)
    assert words.startswith("not finite where the search starts: the equations of motion; look")
    assert "a derivative" in not_finite(
        search.transcription, search.state.w, row | {"violation": 0.0}, np.nan
    )
    assert not not_finite(search.transcription, search.state.w, dict.fromkeys(row, 0.0))
    assert "units" in not_finite(
        search.transcription, search.state.w, row | {"violation": 0.0}, 1.0
    )


def test_conditions_met_by_parameters_alone():
    """S y − C p = e, Cᵀ y + T₀ p = −g with S of rank one: only p can meet both conditions."""
    rng = np.random.default_rng(0)
    S, T, C = np.ones((2, 2)), np.diag([1.0, 2.0, 0.3]), rng.normal(size=(2, 3))
    e, g = rng.normal(size=2), rng.normal(size=3)

    @jax.jit
    def solved(S, T, C, e, g):
        S, T, across, positive = _border(S, T, C)
        factored = SimpleNamespace(S=S, T=T, across=across, C=C)
        return *_border_solve(factored, e, g), positive  # pyright: ignore[reportArgumentType]

    y, p, positive = solved(S, T, C, e, g)
    exact = np.linalg.solve(np.block([[S, -C], [C.T, T]]), np.concatenate([e, -g]))
    np.testing.assert_allclose(
        np.concatenate([y, p]), exact, rtol=1e-7
    )  # the diagonal is raised by ε^0.6
    assert positive


def test_a_straight_guess_is_bent(search):
    """Each control gets a wave of its own phase, as large as the largest control: 0.5 (sin π + 1), 0.5 (sin 3π/2 + 1)."""
    w = search.first._replace(c=jnp.full((1, 1, 2), 0.5))
    np.testing.assert_allclose(bent(search.transcription, w).c, [[[0.5, 0.0]]], atol=1e-15)
