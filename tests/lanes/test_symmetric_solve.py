"""Solutions of M x = b in lanes against NumPy: values, derivatives, precision, and the cost saved by zeros of M."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._one_lane import one_lane
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._rules._sparse_factors import elimination_order
from jaxhamel._lanes._transform import lanes
from jaxhamel.mechanics import symmetric_solve

LANES, N = 5, 12
RNG = np.random.default_rng(20)


def matrices(condition):
    """Symmetric matrices with eigenvalues from 1 to 1/condition."""
    turns = np.linalg.qr(RNG.normal(size=(LANES, N, N)))[0]
    found = turns * np.geomspace(1.0, 1 / condition, N) @ np.swapaxes(turns, 1, 2)
    return (found + np.swapaxes(found, 1, 2)) / 2


def everything(matrix, rhs, d_matrix, d_rhs, bar):
    """The solution x, its derivative along (Ṁ, ḃ), and the cotangents of M and b."""
    x, rate = jax.jvp(symmetric_solve, (matrix, rhs), (d_matrix, d_rhs))
    return x, rate, *jax.vjp(symmetric_solve, matrix, rhs)[1](bar)


in_lanes = jax.jit(lanes(everything))


def given(condition):
    d_matrix = RNG.normal(size=(LANES, N, N))
    vectors = RNG.normal(size=(3, LANES, N))
    d_rhs, bar, rhs = vectors
    return matrices(condition), rhs, d_matrix + np.swapaxes(d_matrix, 1, 2), d_rhs, bar


def expected(matrix, rhs, d_matrix, d_rhs, bar):
    solve = lambda b: np.linalg.solve(matrix, b[..., None])[..., 0]
    x, bar_rhs = solve(rhs), solve(bar)
    rate = solve(d_rhs - np.einsum("bij,bj->bi", d_matrix, x))
    return x, rate, -bar_rhs[:, :, None] * x[:, None, :], bar_rhs


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e9])
def test_values_and_both_derivatives(condition):
    """The relative error is rounding times the condition number, up to 1e9; the residual is at rounding level."""
    arguments = given(condition)
    found = x, *_ = in_lanes(*arguments)
    for each, exact in zip(found, expected(*arguments), strict=True):
        assert np.abs(each - exact).max() < 1e-14 * N * condition * np.abs(exact).max()
    residual = np.einsum("bij,bj->bi", arguments[0], x) - arguments[1]
    assert np.abs(residual).max() < 1e-14 * N * np.abs(x).max()


def test_single_precision():
    arguments = given(10.0)
    found = in_lanes(*(x.astype(np.float32) for x in arguments))
    for each, exact in zip(found, expected(*arguments), strict=True):
        assert each.dtype == np.float32
        np.testing.assert_allclose(each, exact, rtol=0, atol=2e-4 * np.abs(exact).max())


def test_batches_of_right_hand_sides_and_of_matrices():
    """`vmap` over either or both, at any axis, is NumPy's solution."""
    m, b = matrices(10.0), RNG.normal(size=(LANES, N))
    solve = lambda m, b: np.linalg.solve(m, b[..., None])[..., 0]
    three = lambda m, b: (
        jax.vmap(symmetric_solve)(m, b),
        jax.vmap(symmetric_solve, (None, 1), 1)(m[0], b.T),
        jax.vmap(symmetric_solve, (2, None))(jnp.moveaxis(m, 0, 2), b[0]),
    )
    of_each, of_one, of_rhs = jax.jit(three)(m, b)
    np.testing.assert_allclose(of_each, solve(m, b), rtol=1e-12)
    np.testing.assert_allclose(of_one.T, solve(m[:1], b), rtol=1e-12)
    np.testing.assert_allclose(of_rhs, solve(m, b[:1]), rtol=1e-12)


@pytest.mark.parametrize("condition", [10.0, 1e9])
def test_many_right_hand_sides_of_one_matrix_are_products(condition):
    """The solution for many lanes with one matrix has the residual of a factorisation; LAPACK sees the matrix alone."""
    m, b = jnp.asarray(matrices(condition)[0]), jnp.asarray(RNG.normal(size=(8 * N, N)))
    solve = jax.jit(jax.vmap(symmetric_solve, (None, 0)))
    x = np.asarray(solve(m, b))
    assert np.abs(x @ m - b).max() < 1e-14 * N * np.abs(x).max()
    exact = np.linalg.solve(m, b.T).T
    assert np.abs(x - exact).max() < 1e-14 * N * condition * np.abs(exact).max()
    lines = solve.lower(m, b).as_text().splitlines()
    calls = [line for line in lines if "custom_call" in line or "triangular_solve" in line]
    assert calls
    assert not any(f"x{8 * N}x" in line for line in calls)


def operations(f, *arguments):
    closed = jax.make_jaxpr(f)(*arguments)
    return scalarise(closed, [True] * len(arguments)).operations()


def test_zeros_of_the_matrix_cost_nothing():
    """A tridiagonal matrix has a factor without fill-in: one quotient, five products and three differences per row."""

    def tridiagonal(diagonal, beside, rhs):
        matrix = jnp.diag(diagonal) + jnp.diag(beside, 1) + jnp.diag(beside, -1)
        return symmetric_solve(matrix, rhs)

    counts = operations(tridiagonal, np.ones(N), np.ones(N - 1), np.ones(N))
    assert counts == {"div": N, "mul": 5 * (N - 1) + 1, "sub": 3 * (N - 1)}


def star(diagonal, beside, rhs):
    """Solves with an arrow matrix, in which the first unknown is coupled with each other one, as a tree's root with its
    leaves."""
    matrix = jnp.diag(diagonal).at[0, 1:].set(beside).at[1:, 0].set(beside)
    return symmetric_solve(matrix, rhs)


def test_a_tree_is_eliminated_from_its_leaves():
    """Leaves are eliminated first, without fill-in; in the given order the factor would have n²/2 entries. The solution
    is NumPy's."""
    size = 40
    diagonal, beside, rhs = np.full(size, 9.0), RNG.normal(size=size - 1), RNG.normal(size=size)
    counts = operations(star, diagonal, beside, rhs)
    assert counts["div"] == size
    assert counts["mul"] + counts["sub"] < 9 * size
    matrix = np.diag(diagonal)
    matrix[0, 1:] = matrix[1:, 0] = beside
    found = jax.jit(one_lane(lambda x: star(*x)))((diagonal, beside, rhs))
    np.testing.assert_allclose(found, np.linalg.solve(matrix, rhs), rtol=1e-12)


def test_an_unknown_pivot_is_not_exchanged_for_a_zero():
    """The given order is kept if a reordering would use a zero of the diagonal as pivot."""
    zero = np.array([[False, False, False], [False, True, False], [False, True, False]])
    assert elimination_order(zero) == [0, 1, 2]
    assert elimination_order(np.array([[False] * 3, [False] * 3, [False, True, False]])) == [
        1,
        0,
        2,
    ]


def test_a_derivative_uses_the_factor_of_the_solution():
    """Solution and both derivatives share one factorisation: n quotients in all."""
    m, b = np.eye(N), np.ones(N)
    assert operations(everything, m, b, m, b, b)["div"] == N
