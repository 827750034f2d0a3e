"""Products with constant matrices in a row become one product, where that takes fewer operations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxhamel
from jaxhamel._lanes._divided._composed_products import multiplications, with_composed_products
from jaxhamel._lanes._program import scalarise
from jaxhamel.mechanics._small_solve import operator_solve

N, POINTS = 6, 9
RNG = np.random.default_rng(5)
A, MASSES = RNG.normal(size=(POINTS, N)), RNG.uniform(1, 2, POINTS)
TREE = np.eye(N)
for link in range(1, N):
    TREE[link] += TREE[(link - 1) // 2]
X, Y = RNG.normal(size=(2, N))


def energy(a):
    """½ Σ m (A (cos q ∘ v))² − Σ A sin q: kinetic and potential energy of points."""

    def of(q, v):
        moved = jnp.asarray(a, q.dtype) @ (jnp.cos(q) * v)
        masses = jnp.asarray(MASSES[: len(a)], q.dtype)
        return 0.5 * jnp.sum(masses * moved**2) - jnp.sum(jnp.asarray(a, q.dtype) @ jnp.sin(q))

    return of


def momentum(q, v):
    return jax.grad(energy(A), 1)(q, v)


def accelerations(q, v):
    """M v̇ = −∂M/∂q v: the products of M are a program of their own."""
    bias = jax.jvp(lambda q: momentum(q, v), (q,), (v,))[1]
    return operator_solve(lambda x: momentum(q, x) + x, jax.grad(energy(A), 0)(q, v) - bias)


def differences(q, v):
    """A negative product minus another one of the same vector, and a product that another operation needs."""
    moved = jnp.asarray(A) @ (q * v)
    force = -(jnp.asarray(A).T @ (2.0 * moved)) - jnp.asarray(A[::-1]).T @ moved
    return jnp.sin(force) + jnp.sum(jnp.abs(moved))


def called(q, v):
    """The same momentum in a jitted function, with an operation that has no result."""
    jax.debug.callback(lambda x: None, v[0])
    return jax.jit(momentum)(q, v)


def traced(f, *given):
    return jax.make_jaxpr(f)(*map(jnp.asarray, given))


def operations(closed) -> int:
    flags = [True] * len(closed.in_avals)
    return scalarise(closed, flags, whole=True, few=True).operations().total()


def products(closed) -> int:
    return [e.primitive.name for e in closed.jaxpr.eqns].count("dot_general")


@pytest.mark.parametrize(
    ("f", "left"), [(momentum, 1), (accelerations, 4), (differences, 2), (called, 1)]
)
def test_values_and_derivatives_stay_the_same(f, left):
    """`left`: the number of products with matrices outside of other programs."""
    composed = with_composed_products(traced(f, X, Y))
    assert products(composed) == left

    def both(f):
        def values(q, v):
            out = f(q, v)
            return out[0] if isinstance(out, list) else out

        return jax.jit(
            lambda q, v: (values(q, v), jax.grad(lambda *x: jnp.sum(values(*x) ** 2), (0, 1))(q, v))
        )(X, Y)

    found = jax.tree.leaves(both(jaxpr_as_fun(composed)))
    for x, exact in zip(found, jax.tree.leaves(both(f)), strict=True):
        np.testing.assert_allclose(x, exact, rtol=1e-11, atol=1e-11)


def test_programs_become_shorter():
    """The momentum takes two products with A, of 9 · 6 numbers, or one with Aᵀ m A, of 6 · 6."""
    for f, most in ((momentum, 0.5), (accelerations, 0.8)):
        closed = traced(f, X, Y)
        assert operations(with_composed_products(closed)) < most * operations(closed)


def test_effects_stay():
    equations = with_composed_products(traced(called, X, Y)).jaxpr.eqns
    assert "debug_callback" in {e.primitive.name for e in equations}


def test_sparse_and_narrow_matrices_stay():
    """A tree's matrix takes one sum for each link, and two narrow matrices are shorter than their product."""
    narrow = RNG.normal(size=(1, 20))
    for closed in (
        traced(jax.grad(energy(TREE), 1), X, Y),
        traced(lambda x: narrow.T @ (narrow @ x), RNG.normal(size=20)),
    ):
        assert with_composed_products(closed) is closed


def test_parameters_and_infinite_numbers_stay():
    for closed in (
        traced(lambda a, x: a.T @ (a @ x), A, X),
        traced(lambda x: jnp.asarray(np.full((9, 6), np.inf)).T @ (jnp.asarray(A) @ x), X),
    ):
        assert with_composed_products(closed) is closed


def test_the_dtype_stays():
    given = X.astype(np.float32), Y.astype(np.float32)
    composed = with_composed_products(traced(momentum, *given))
    (found,) = jaxpr_as_fun(composed)(*given)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, momentum(*map(jnp.asarray, given)), rtol=1e-5)


def test_multiplications_are_those_that_are_written_out():
    """Equal products and nested sums count once: 5 sums for a chain of six links, 2 n² − n for a full matrix."""
    assert multiplications(np.tril(np.ones((N, N)))) == N - 1
    assert multiplications(A) == POINTS * (2 * N - 1)
    lengths = RNG.uniform(1, 2, N)
    assert multiplications(TREE * lengths) == 2 * N - 1
    for matrix in (np.tril(np.ones((N, N))), A, TREE, TREE * lengths):
        closed = traced(lambda x: jnp.asarray(matrix) @ x, X)  # noqa: B023
        assert multiplications(matrix) == operations(closed)


class Points(jaxhamel.System):
    """Masses at points with velocities A (cos q ∘ v)."""

    @property
    def space(self):
        return jaxhamel.Euclidean(N)

    def lagrangian(self, t, q, v):
        return energy(A)(q, v) + 0.5 * jnp.sum(v**2)


def test_a_motion_keeps_its_energy():
    """E = v · ∂L/∂v − L stays constant along the motion by `simulate`, whose products are composed."""
    system, ts = Points(), jnp.array([0.0, 1.0])
    run = jaxhamel.simulate(system, 0.1 * X, Y, ts, rtol=1e-10, atol=1e-10)

    def total(q, v):
        return 2 * (energy(A)(q, v) - energy(A)(q, 0 * v) + 0.5 * jnp.sum(v**2)) - (
            energy(A)(q, v) + 0.5 * jnp.sum(v**2)
        )

    np.testing.assert_allclose(total(run.q_end, run.u_end), total(0.1 * X, Y), rtol=1e-8)
