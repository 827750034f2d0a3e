"""Solutions of M x = b with M given by products: against NumPy, with derivatives; their length for chains and trees."""

from itertools import accumulate

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._transform import lanes
from jaxhamel.mechanics._small_solve import operator_solve

RNG = np.random.default_rng(20)
LANES, N = 3, 9


def product(sums, c, s):
    """The function x ↦ M x, by differentiating half the square of the velocities."""

    def energy(v):
        return 0.5 * (jnp.sum(sums(c * v) ** 2) + jnp.sum(sums(s * v) ** 2))

    return jax.linearize(jax.grad(energy), jnp.zeros_like(c))[1]


def solved(sums):
    return lambda c, s, b: operator_solve(product(sums, c, s), b)


def parents(n):
    """Sums from the root of a binary tree to each of its n links, as a matrix."""
    a = np.eye(n)
    for k in range(1, n):
        a[k] += a[(k - 1) // 2]
    return a


def along_tree(x):
    found = [x[0]]
    for k in range(1, len(x)):
        found.append(found[(k - 1) // 2] + x[k])
    return jnp.stack(found)


CHAIN, TREE = np.tril(np.ones((N, N))), parents(N)
DENSE = np.eye(N) + RNG.normal(size=(N, N)) / 9
CASES = {
    "chain": (jnp.cumsum, CHAIN),
    "chain, matrix": (lambda x: jnp.asarray(CHAIN) @ x, CHAIN),
    "tree": (along_tree, TREE),
    "dense": (lambda x: jnp.asarray(DENSE) @ x, DENSE),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_both_derivatives(name):
    """x, ẋ, and the cotangents of c, s and b, against solutions by NumPy and the derivatives of M."""
    sums, a = CASES[name]
    c, s, b, dc, ds, db, bar = RNG.normal(size=(7, LANES, N))

    def everything(c, s, b, dc, ds, db, bar):
        x, rate = jax.jvp(solved(sums), (c, s, b), (dc, ds, db))
        return x, rate, *jax.vjp(solved(sums), c, s, b)[1](bar)

    found = jax.jit(lanes(everything))(c, s, b, dc, ds, db, bar)
    for k in range(LANES):
        j, d = [a * x[k] for x in (c, s)], [a * x[k] for x in (dc, ds)]
        m = sum(x.T @ x for x in j)
        dm = sum(x.T @ y + y.T @ x for x, y in zip(j, d, strict=True))
        x, bars = np.linalg.solve(m, b[k]), np.linalg.solve(m, bar[k])
        of_j = [-y @ (np.outer(x, bars) + np.outer(bars, x)) for y in j]
        exact = x, np.linalg.solve(m, db[k] - dm @ x), *((a * y).sum(0) for y in of_j), bars
        for one, number in zip(found, exact, strict=True):
            np.testing.assert_allclose(
                one[k], number, atol=1e-14 * N * np.linalg.cond(m) * np.abs(number).max()
            )


def test_outside_lanes_and_under_vmap():
    """One trajectory as arrays, batches of M, and batches of b alone are NumPy's solutions."""
    c, s, b = RNG.normal(size=(3, LANES, N))
    f = solved(jnp.cumsum)
    three = lambda c, s, b: (
        f(c[0], s[0], b[0]),
        jax.vmap(f)(c, s, b),
        jax.vmap(f, (None, None, 1), 1)(c[0], s[0], b.T),
    )
    one, each, of_rhs = jax.jit(three)(c, s, b)
    m = [sum((CHAIN * x[k]).T @ (CHAIN * x[k]) for x in (c, s)) for k in range(LANES)]
    np.testing.assert_allclose(one, np.linalg.solve(m[0], b[0]), rtol=1e-11)
    np.testing.assert_allclose(
        each, [np.linalg.solve(x, y) for x, y in zip(m, b, strict=True)], rtol=1e-11
    )
    np.testing.assert_allclose(of_rhs, np.linalg.solve(m[0], b.T), rtol=1e-11)


def length(f, n, count=3):
    closed = jax.make_jaxpr(f)(*[np.ones(n)] * count)
    return scalarise(closed, [True] * count, whole=True).length()


def test_chains_and_trees_take_operations_in_proportion_to_their_links():
    """Twice the links take at most 2.1 times the operations; a chain takes at most 40 for each link, in each spelling."""
    for sums in (jnp.cumsum, along_tree):
        assert length(solved(sums), 40) < 2.1 * length(solved(sums), 20)
    by_sums = lambda x: jnp.stack([*accumulate(x)])
    by_matrix = lambda x: jnp.asarray(np.tril(np.ones((20, 20)))) @ x
    lengths = {length(solved(sums), 20) for sums in (jnp.cumsum, by_sums, by_matrix)}
    assert len(lengths) == 1
    assert lengths.pop() < 40 * 20


def test_a_derivative_shares_the_factors():
    """ẋ is one more solution with the factors of x: it takes less than x itself with its derivative's products."""
    f = solved(jnp.cumsum)
    both = lambda c, s, b, *rates: jax.jvp(f, (c, s, b), rates)
    assert length(both, 20, 6) < 2.5 * length(f, 20)


def test_dense_equations_are_solved_by_their_entries():
    """With a full matrix of random sums the program is that of the entries of M and LDLᵀ."""
    a = RNG.normal(size=(6, 6))
    dense = lambda x: jnp.asarray(a) @ x
    entries = lambda c, s, b: jnp.linalg.norm(jax.vmap(product(dense, c, s))(jnp.eye(6))) + b[0]
    of_factors = (6**3 + 6 * 6 * 6) / 3 + 5 * 6 * 6
    assert length(solved(dense), 6) < length(entries, 6) + of_factors


def test_an_entry_of_zero_on_the_diagonal_is_no_pivot():
    """M = [[a, 1], [1, 0]] has leading minors a and −1; x_2 cannot be eliminated first."""

    def f(a, b):
        return operator_solve(lambda x: jnp.stack([a[0] * x[0] + x[1], x[0]]), b)

    a, b = RNG.normal(size=(2, LANES, 2))
    found = jax.jit(lanes(f))(a, b)
    np.testing.assert_allclose(
        found, np.stack([b[:, 1], b[:, 0] - a[:, 0] * b[:, 1]], 1), rtol=1e-13
    )


def solved_with_columns(shift, rhs):
    """x of (1 + Bᵀ B) x = b, where B x solves a system of equations that is too large to be written out."""
    matrix = 3 * jnp.eye(N) + jnp.sin(shift + jnp.arange(1.0 * N * N).reshape(N, N))

    def inner(x):
        return jnp.linalg.solve(matrix, jnp.cos(jnp.arange(1.0 * N)) * x[0] + x[1])

    return operator_solve(quadratic(inner), rhs)


def solved_with_loop(shift, rhs):
    """The same, where B x is found by a loop that ends on a computed condition."""

    def inner(x):
        def turn(found):
            return found[0] + 1, jnp.sin(shift) * found[1] + x

        return jax.lax.while_loop(lambda found: found[0] < 5 + shift, turn, (0.0, x))[1]

    return operator_solve(lambda x: x + inner(inner(x)), rhs)


def quadratic(inner):
    """x ↦ x + Bᵀ B x, for a linear function x ↦ B x."""
    return lambda x: x + jax.linear_transpose(inner, x)(inner(x))[0]


@pytest.mark.parametrize("solve", [solved_with_columns, solved_with_loop])
def test_products_by_operations_that_are_not_written_out(solve):
    """M x is computed by a large solution, or by a loop that stays a loop: x is that of one lane, outside lanes."""
    shifts, rhs = RNG.uniform(0.5, 2.0, LANES), RNG.normal(size=(LANES, 2))
    found = jax.jit(lanes(solve))(shifts, rhs)
    for x, *given in zip(found, shifts, rhs, strict=True):
        np.testing.assert_allclose(x, solve(*given), rtol=1e-13, atol=1e-15)
        assert abs(x - given[1]).max() > 0.01  # so that a missing B would be seen
