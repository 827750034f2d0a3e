"""The sequence of regularisations (Wächter and Biegler 2006, section 3.1), and the shapes of the initial values of
loops."""

from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import _lapack, control
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._collocation._start import first_iterate, guessed, transcribe
from jaxhamel.control._interior_point._condensation import Condensed
from jaxhamel.control._interior_point._derivatives import no_parts, parts_of
from jaxhamel.control._interior_point._direction import Barrier, _solve, no_direction, proximity
from jaxhamel.control._interior_point._line_search import (
    LARGEST_DAMPING,
    LEAST_SHIFT,
    damping_after,
    larger_shift,
    penalty_of,
)
from jaxhamel.control._interior_point._state import first_state
from tests.control.cart import least_energy


def tried(last, floor=0.0, count=3):
    """The regularisations tried after the first attempt fails."""
    numbers = [jnp.asarray(x) for x in (floor, last, floor)]
    found = []
    for _ in range(count):
        numbers[0] = larger_shift(*numbers)
        found.append(float(numbers[0]))
    return found


def test_regularisation_goes_on_from_a_third_of_the_last_one():
    assert tried(last=6.0) == pytest.approx([2.0, 16.0, 128.0])
    assert tried(last=3e-9) == pytest.approx([1e-9, 8e-9, 64e-9])
    assert tried(last=0.0) == pytest.approx([LEAST_SHIFT, 10 * LEAST_SHIFT, 100 * LEAST_SHIFT])
    assert tried(last=0.3, floor=1.0) == pytest.approx([2.0, 16.0, 128.0])


def test_shortened_steps_are_damped_and_long_ones_set_free():
    """Damping rises after a step cut below a tenth, stays after a step cut to 0.3 and falls after a full step."""
    after = lambda *given: float(damping_after(*map(jnp.asarray, given)))
    assert after(0.0, 0.0, 0.09) == 8 * LEAST_SHIFT
    assert after(0.0, 0.5, 0.09) == 4.0
    assert after(4.0, 900.0, 0.01) == LARGEST_DAMPING
    assert after(4.0, 4.0, 0.3) == 4.0
    assert [after(4.0, 9.0, 1.0), after(LEAST_SHIFT, 0.1, 1.0)] == [0.5, 0.0]


def test_dependent_conditions_in_single_precision():
    """The third of three conditions is the sum of the others. In single precision all multipliers stay below 20; a
    weight of 1e5 on the conditions gave multipliers of hundreds by rounding."""
    d, c, N, rng = 3, 2, 3, np.random.default_rng(0)
    D = np.zeros((N, 3, d + c))
    D[-1, :2] = rng.normal(size=(2, d + c))
    D[-1, 2] = D[-1, 0] + D[-1, 1]
    H, A = np.tile(np.eye(d + c), (N, 1, 1)), 0.7 * rng.normal(size=(N, d, d + c))
    g, b = rng.normal(size=(N, d + c)), rng.normal(size=(N, d))
    parts = H, g, A, b, D, np.array([1.0, 2.0, 3.0]), np.zeros((N, 0, d + c)), np.zeros((N, 0))
    given = Condensed(*(jnp.asarray(x, jnp.float32) for x in parts))
    none = jnp.zeros((N, 0), jnp.float32)
    sizes: Any = SimpleNamespace(
        rule=SimpleNamespace(points=(0.5,)),
        n_controls=c,
        size=d,
        p_lower=np.zeros(0),
        parameters_first=False,
    )
    known: Any = SimpleNamespace(points=SimpleNamespace(hessian=given.H))
    solve = jax.jit(lambda y: _solve(sizes, given, Barrier(none, none), y, penalty_of(known)))
    found, is_convex = solve(jnp.zeros(3, jnp.float32))
    assert is_convex
    np.testing.assert_allclose(D[-1] @ np.asarray(found.o[-1]), -parts[5], atol=1e-4)
    assert np.max(np.abs(found.conditions)) < 20


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_multipliers_of_limits_that_hardly_give_are_found_soon(dtype):
    """The multiplier m of g o = −e with g = 1e-3 tends to e/g². Each iteration multiplies its error by ε / (ε + g²), so
    16 are enough."""
    epsilon, g, e, m = proximity(dtype), 1e-3, 1e-3, 0.0
    for _ in range(16):
        m = (m + e / epsilon) / (1 + g * g / epsilon)
    np.testing.assert_allclose(m, e / g**2, rtol=1e-4)


def test_contradicting_linearisation_moves_nothing_far():
    """For ẋ = c² from 0 to 1 with the guess c = 1e-12, the linearised equations require δc = 5e11. Regularisation keeps
    cost and violation small."""
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: c**2, 1), q0=jnp.zeros(1), u0=jnp.zeros(0), ts=jnp.array([0.0, 1.0]),
        curve=lambda t: jnp.full(1, 1e-12), costs=(control.ControlEnergy(),),
        constraints=(control.StateAtEnd(q=jnp.ones(1)),), guess=(jnp.zeros((2, 1)), jnp.zeros((2, 0))),
    )  # fmt: skip
    search = CollocationSearch(
        control.Collocation(intervals=2, degree=2, max_iterations=4), problem
    )
    search.run()
    assert len(search.rows) == 4
    assert max(row["cost"] for row in search.rows) < 100.0
    assert max(row["violation"] for row in search.rows) < 20.0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((search.state.w, search.state.duals)))


def test_loops_begin_with_the_shapes_of_what_they_compute():
    limit = control.PathLimit(lambda t, q, u, control: u, -3.0, 3.0, name="speed")
    problem = least_energy()
    constraints = (*problem.constraints, limit, control.FreeEndTime(0.5, 2.0))
    problem = eqx.tree_at(lambda p: p.constraints, problem, constraints)
    at = transcribe(problem, rule("gauss", 2), jnp.linspace(0.0, 1.0, 4))

    def begun():
        ends = (problem.q0, problem.u0), problem.ts[-1]
        w = first_iterate(at, problem.ts, guessed(problem), problem.curve, *ends)
        duals = first_state(at, w, jnp.asarray(0.1)).duals
        return parts_of(at, w, duals), no_parts(at, w), duals, no_direction(w, duals).duals

    parts, empty_parts, duals, empty_duals = eqx.filter_eval_shape(begun)
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert shapes(empty_parts) == shapes(parts)
    assert shapes(empty_duals) == shapes(duals)


@pytest.mark.parametrize("n", [7, 17])
def test_inverse_by_columns(n):
    matrices = np.random.default_rng(n).normal(size=(3, n, n)) + 3.0 * np.eye(n)
    slope = jax.grad(lambda x: jnp.sum(jnp.sin(_lapack.inverse_by_columns(x))))
    found, by_entries = jax.jit(jax.vmap(lambda x: (_lapack.inverse_by_columns(x), slope(x))))(
        matrices
    )
    exact = np.linalg.inv(matrices)
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-12)
    turned = np.swapaxes(exact, 1, 2)  # d tr(Gᵀ A⁻¹) = −A⁻ᵀ G A⁻ᵀ
    np.testing.assert_allclose(by_entries, -turned @ np.cos(exact) @ turned, rtol=1e-9, atol=1e-11)
