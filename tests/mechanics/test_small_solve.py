"""The unrolled solves against LAPACK, and their derivatives against the closed form and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxhamel import _lapack
from jaxhamel.mechanics import inverse, symmetric_solve
from jaxhamel.mechanics._small_solve import Factors, known_inverse


def random_matrix(seed, n):
    return np.random.default_rng(seed).normal(size=(n, n))


def spd(seed, n):
    root = random_matrix(seed, n)
    return root @ root.T + n * np.eye(n)


@given(st.integers(0, 10**6), st.integers(0, 12), st.sampled_from([(), (1,), (3,)]))
def test_symmetric_solve_is_the_inverse(seed, n, columns):
    matrix, rhs = spd(seed, n), np.random.default_rng(seed + 1).normal(size=(n, *columns))
    x = symmetric_solve(jnp.asarray(matrix), jnp.asarray(rhs))
    np.testing.assert_allclose(x, np.linalg.solve(matrix, rhs), rtol=1e-12, atol=1e-13)


@given(st.integers(0, 10**6), st.integers(0, 12), st.floats(0, 9))
def test_inverse_is_as_accurate_as_the_condition_allows(seed, n, log_condition):
    """For nearly dependent rows, too, the error is at most of the size eps · cond A, as LAPACK's."""
    left, _, right = np.linalg.svd(random_matrix(seed, n)) if n else (np.eye(0),) * 3
    matrix = left @ np.diag(np.geomspace(1, 10**-log_condition, n)) @ right
    error = np.abs(inverse(jnp.asarray(matrix)) @ matrix - np.eye(n)).max(initial=0.0)
    assert error < 1e-14 * 10**log_condition * (n + 1) ** 2


@given(st.permutations(range(6)))
def test_inverse_of_a_permutation_is_exact(order):
    matrix = np.eye(6)[list(order)]
    assert np.array_equal(inverse(jnp.asarray(matrix)), matrix.T)


def test_symmetric_solve_takes_indefinite_matrices():
    matrix = jnp.diag(jnp.array([2.0, -1.0, 3.0]))
    np.testing.assert_allclose(symmetric_solve(matrix, jnp.ones(3)), [0.5, -1.0, 1 / 3], rtol=1e-15)


@pytest.mark.parametrize("n", [1, 3, 5, 8, 11])
def test_solve_derivatives_follow_the_closed_form(n):
    """d(M⁻¹b) = M⁻¹(db − dM x), forward and reverse."""
    matrix, rhs = spd(3, n), np.random.default_rng(4).normal(size=n)
    d_matrix, d_rhs = spd(5, n), np.random.default_rng(6).normal(size=n)
    x, dx = jax.jvp(symmetric_solve, (matrix, rhs), (d_matrix, d_rhs))
    np.testing.assert_allclose(matrix @ dx, d_rhs - d_matrix @ x, rtol=1e-11, atol=1e-12)

    cotangent = np.random.default_rng(7).normal(size=n)
    _, pull_back = jax.vjp(symmetric_solve, jnp.asarray(matrix), jnp.asarray(rhs))
    bar_matrix, bar_rhs = pull_back(jnp.asarray(cotangent))
    paired = jnp.sum(bar_matrix * d_matrix) + jnp.dot(bar_rhs, d_rhs)
    np.testing.assert_allclose(paired, jnp.dot(cotangent, dx), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 4, 11])
def test_known_inverse_differentiates_as_the_inverse_does(n):
    """First and second derivatives of B(A + εD) with B known at ε = 0 equal those of LAPACK's inverse."""
    matrix, direction = random_matrix(1, n) + 3 * np.eye(n), random_matrix(2, n)
    value = inverse(jnp.asarray(matrix))
    along = lambda e: matrix + e * direction
    functions = [
        lambda e: known_inverse(along(e), value),
        lambda e: inverse(along(e)),
        lambda e: jnp.linalg.inv(along(e)),
    ]
    orders = [lambda f: f, jax.jacfwd, lambda f: jax.jacfwd(jax.jacrev(f))]
    for order in orders:
        known, own, library = (order(f)(0.0) for f in functions)
        np.testing.assert_allclose(known, library, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(own, library, rtol=1e-11, atol=1e-12)


def test_second_derivative_of_a_scalar_solve():
    """1/m differentiated twice is 2/m³."""
    second = jax.jacfwd(jax.jacrev(lambda m: symmetric_solve(m[None, None], jnp.ones(1))[0]))
    np.testing.assert_allclose(second(jnp.asarray(2.0)), 2 / 8, rtol=1e-14)


def test_precision_is_kept():
    x = symmetric_solve(jnp.eye(3, dtype=jnp.float32), jnp.ones(3, jnp.float32))
    y = inverse(jnp.eye(3, dtype=jnp.float32))
    assert x.dtype == y.dtype == jnp.float32


def test_no_library_call_up_to_the_limit():
    """Up to the limit of unrolling, the compiled program has no LAPACK call."""
    solve = jax.jit(jax.vmap(symmetric_solve)).lower(jnp.ones((4, 5, 5)), jnp.ones((4, 5)))
    invert = jax.jit(jax.vmap(inverse)).lower(jnp.ones((4, 5, 5)))
    assert "custom_call" not in solve.as_text() + invert.as_text()


def everything(matrix, rhs):
    """Returns M⁻¹b, M⁻¹, L⁻¹b and L⁻ᵀb."""
    factors = Factors.of(matrix)
    solved = factors.forward(rhs), factors.backward(rhs)
    return symmetric_solve(matrix, rhs), inverse(matrix), *solved


MANY, LARGE = 5, 12  # matrices that the library solves


def large_batch():
    matrices = np.stack([spd(seed, LARGE) for seed in range(MANY)])
    return matrices, np.random.default_rng(7).normal(size=(MANY, LARGE, 2))


def test_batches_of_large_matrices():
    """Values and derivatives of a batch equal NumPy's, also if the matrix or the right-hand side is shared."""
    matrices, rhs = large_batch()
    d_matrices, d_rhs = matrices[::-1] / 7, rhs[::-1]
    both = jax.jvp(jax.vmap(everything), (matrices, rhs), (d_matrices, d_rhs))
    (x, inverses, forward, backward), (dx, d_inverses, *_) = both
    wanted = np.linalg.inv(matrices)
    lower = np.linalg.cholesky(matrices)
    lower = lower / np.diagonal(lower, axis1=1, axis2=2)[:, None, :]
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    close(inverses, wanted)
    close(x, wanted @ rhs)
    close(forward, np.linalg.solve(lower, rhs))
    close(backward, np.linalg.solve(lower.swapaxes(1, 2), rhs))
    close(dx, wanted @ (d_rhs - d_matrices @ x))
    close(d_inverses, -wanted @ d_matrices @ wanted)
    one = jnp.asarray(matrices[0])
    shared = jax.vmap(lambda b: (symmetric_solve(one, b), Factors.of(one).forward(b)))(rhs)
    close(shared[0], wanted[0] @ rhs)
    close(shared[1], np.linalg.inv(lower[0]) @ rhs)
    _, pull_back = jax.vjp(lambda b: jax.vmap(everything)(matrices, b), rhs)
    (found,) = pull_back((rhs, np.zeros_like(wanted), rhs, 2 * rhs))
    close(found, x + backward + 2 * forward)


def test_second_derivatives_around_a_loop():
    """Second derivatives of a library inverse along x equal the closed form of (1 + x A₁ A₀⁻¹)⁻¹, in all orders of
    modes."""
    first, along = jnp.asarray(spd(1, 11)), jnp.asarray(random_matrix(2, 11))

    def entry(x):
        step = lambda y, _: (y + inverse(first + x * along)[0, 1], None)
        return jax.lax.scan(step, 0 * x, None, length=2)[0]

    orders = [a(b(entry)) for a in (jax.jacfwd, jax.jacrev) for b in (jax.jacfwd, jax.jacrev)]
    found = jax.jit(lambda x: [order(x) for order in orders])(0.0)
    B = np.linalg.inv(first)
    np.testing.assert_allclose(found, 4 * (B @ along @ B @ along @ B)[0, 1], rtol=1e-11)


@pytest.mark.skipif(
    not _lapack.CAN_WAIT_FOR_EVER, reason="this jaxlib computes a batch in one thread"
)
def test_no_batched_library_call():
    """Two batched LAPACK calls at the same time may deadlock, so each call takes one matrix."""
    text = jax.jit(jax.vmap(everything)).lower(*large_batch()).as_text()
    calls = [line for line in text.splitlines() if "@lapack" in line]
    assert len(calls) >= 4
    assert not [line for line in calls if f"tensor<{MANY}x" in line]
