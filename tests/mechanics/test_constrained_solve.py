"""M v̇ = f + Aᵀλ, A v̇ = b against rational arithmetic, its derivatives against those of the dense matrix, and all
routes."""

from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import Euclidean
from jaxhamel.ensemble import lanes
from jaxhamel.mechanics import ROUTES, System, acceleration, constraint_force
from jaxhamel.mechanics._constraints._multipliers import constrained_solve

SIZES = [(2, 1), (5, 3), (8, 4), (12, 5)]  # the last one by a loop
solve = jax.jit(jax.vmap(constrained_solve))


def random_metric(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T / n + np.eye(n)


def equations(seed, n, m, *, decades=0.0, closeness=1.0):
    """M with masses over 2 · `decades` orders of magnitude, f, A whose last row is nearly parallel to the first, and b
    = A times a vector."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** (rng.permutation(np.linspace(-decades, decades, n)) / 2)
    metric = scale[:, None] * random_metric(rng, n) * scale
    rows = rng.normal(size=(m, n))
    rows[-1] = rows[0] + closeness * rows[-1] if m > 1 else rows[-1]
    return (metric + metric.T) / 2, rng.normal(size=n), rows, rows @ rng.normal(size=n)


def rational(metric, force, rows, rate):
    """v̇ by Gaussian elimination on fractions, without rounding."""
    n, m = len(force), len(rate)
    whole = [[Fraction(x) for x in (*metric[i], *-rows[:, i], force[i])] for i in range(n)]
    whole += [[Fraction(x) for x in (*rows[a], *np.zeros(m), rate[a])] for a in range(m)]
    for c in range(n + m):
        pivot = next(i for i in range(c, n + m) if whole[i][c])
        whole[c], whole[pivot] = whole[pivot], whole[c]
        whole[c] = [x / whole[c][c] for x in whole[c]]
        for i in range(n + m):
            if i != c and whole[i][c]:
                whole[i] = [x - whole[i][c] * y for x, y in zip(whole[i], whole[c], strict=True)]
    return np.array([float(row[-1]) for row in whole[:n]])


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_against_rational_arithmetic(n, m):
    """With masses from 1e-8 to 1e8 or rows dependent to 1e-8, the error is that of well-conditioned equations, times
    1/closeness."""
    cases = [
        ({}, 1e-13),
        ({"decades": 8.0}, 1e-11),
        ({"closeness": 1e-4}, 1e-10),
        ({"closeness": 1e-8}, 1e-6),
    ]
    given = [equations(seed, n, m, **kind) for kind, _ in cases for seed in range(2)]
    v_dot, multiplier = solve(*(jnp.asarray(np.stack(x)) for x in zip(*given, strict=True)))
    for i, (metric, force, rows, rate) in enumerate(given):
        exact, unit = rational(metric, force, rows, rate), 1 / np.sqrt(np.diag(metric))
        error = np.abs(v_dot[i] - exact) / unit  # in units of √energy
        size, load = np.max(np.abs(exact) / unit), np.max(np.abs(force) * unit)
        assert np.max(error) < cases[i // 2][1] * size + 1e-15 * load, i
        left = (metric @ exact - force - rows.T @ multiplier[i]) * unit
        assert np.max(np.abs(left)) < 1e-9 * np.max(np.abs(metric @ exact * unit)) + 1e-6, i


def test_single_precision():
    given = equations(3, 5, 3, closeness=1e-2)
    v_dot, multiplier = constrained_solve(*(jnp.asarray(x, jnp.float32) for x in given))
    assert v_dot.dtype == multiplier.dtype == jnp.float32
    np.testing.assert_allclose(v_dot, rational(*given), rtol=0, atol=2e-4)


def by_whole_matrix(metric, force, rows, rate):
    m, n = rows.shape
    whole = jnp.block([[metric, -rows.T], [rows, jnp.zeros((m, m))]])
    x = jnp.linalg.solve(whole, jnp.concatenate([force, rate]))
    return x[:n], x[n:]


def test_an_indefinite_mass_matrix():
    """L may be any Lagrangian with a regular Hessian."""
    _, force, rows, rate = equations(5, 4, 2)
    metric = np.diag([2.0, -1.0, 3.0, -0.5])
    v_dot, _ = constrained_solve(*map(jnp.asarray, (metric, force, rows, rate)))
    np.testing.assert_allclose(v_dot, rational(metric, force, rows, rate), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(4, 2), (11, 2)])
def test_first_and_second_derivatives(n, m):
    """Derivatives along a line in (M, f, A, b) in all modes equal those of solving the dense matrix."""
    given = [jnp.asarray(x) for x in equations(6, n, m)]
    change = [jnp.asarray(x) for x in equations(7, n, m)]
    weights = jnp.asarray(np.random.default_rng(8).normal(size=n + m))

    def along(function):
        def value(e):
            found = function(*(x + e * d for x, d in zip(given, change, strict=True)))
            return jnp.dot(weights, jnp.concatenate(found))

        first = jax.jacfwd(value), jax.grad(value)
        second = jax.jacfwd(first[1]), jax.grad(first[0]), jax.grad(first[1])
        return jax.jit(lambda e: jnp.stack([f(e) for f in (*first, *second)]))(0.0)

    got, wanted = along(constrained_solve), along(by_whole_matrix)
    np.testing.assert_allclose(got, wanted, rtol=1e-10)
    np.testing.assert_allclose(got[:2], got[0], rtol=1e-12)


def test_no_library_call_and_the_same_in_lanes():
    given = [
        jnp.asarray(np.stack(x)) for x in zip(*(equations(s, 4, 2) for s in range(6)), strict=True)
    ]
    assert "custom_call" not in jax.jit(jax.vmap(constrained_solve)).lower(*given).as_text()
    for one, other in zip(solve(*given), jax.jit(lanes(constrained_solve))(*given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


class Bars(System):
    """Masses on lines, tied by bars with constant directions: M v̇ = f + A_αᵀλ, A_α v̇ = 0."""

    space: Euclidean
    mass: jax.Array
    rows: jax.Array
    push: jax.Array
    n_constraints: int = eqx.field(static=True)

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(self.mass * v, v)

    def frame(self, t, q):
        return self.rows

    def force(self, t, q, v, control):
        return self.push


@pytest.mark.parametrize("n", [3, 4])
def test_masses_many_orders_apart_on_every_route(n):
    """With one degree of freedom and masses from 1e-8 to 1e8 in any order, u̇ and λ of all routes have seven correct
    digits."""
    rng = np.random.default_rng(n)
    for _ in range(4):
        mass = 10.0 ** rng.permutation(np.linspace(-8, 8, n))
        rows, push = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=n)
        exact = rational(np.diag(mass), push, rows[:-1], np.zeros(n - 1))
        values = map(jnp.asarray, (mass, rows, push))
        names = dict(zip(("mass", "rows", "push"), values, strict=True))
        system = Bars(space=Euclidean(n), n_constraints=n - 1, **names)
        at = (system, 0.0, jnp.zeros(n), jnp.zeros(1))
        for route in ROUTES:
            np.testing.assert_allclose(acceleration(*at, route=route), rows[-1:] @ exact, rtol=1e-7)
        left = mass * exact - push
        np.testing.assert_allclose(rows[:-1].T @ constraint_force(*at), left, atol=1e-7)
