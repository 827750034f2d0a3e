"""Factorisations of large matrices stay operations on arrays, while the operations around them run in lanes."""

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

from jaxhamel import ensemble
from jaxhamel._lanes import _run_batch
from jaxhamel._lanes._one_lane import one_lane
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._rules import _linear_algebra
from jaxhamel._lanes._rules._sparse_factors import lu_operations
from jaxhamel._lanes._tracing import takes_fusions
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._one_loop import OLDEST
from jaxhamel._lapack import CAN_WAIT_FOR_EVER
from jaxhamel.mechanics import symmetric_solve

needs_loops = pytest.mark.skipif(
    jaxlib.version.__version_info__ < OLDEST, reason="with this XLA lanes are no windows"
)

LANES, N, LARGE = 20, 9, 22  # more lanes than a kernel takes as a whole
RNG = np.random.default_rng(11)
ROOTS = RNG.normal(size=(LANES, LARGE, LARGE))
MATRIX = ROOTS @ np.swapaxes(ROOTS, 1, 2) + LARGE * np.eye(LARGE)
RHS, SHARED = RNG.normal(size=(LANES, LARGE)), RNG.normal(size=LARGE)


def of_one(matrix, rhs, shared):
    """Solves a large symmetric system, whose solution enters the smaller matrix of a second one; also a Cholesky factor
    and a determinant."""
    x = symmetric_solve(matrix, jnp.sin(rhs) * shared)
    small = matrix[:N, :N] * jnp.cos(x[0])
    y = jnp.linalg.solve(small, x[:N])
    return x * x, y, jnp.linalg.cholesky(matrix[:N, :N]), jnp.linalg.det(small / LARGE)


def by_numpy(matrix, rhs, shared):
    x = np.linalg.solve(matrix, np.sin(rhs) * shared)
    small = matrix[:N, :N] * np.cos(x[0])
    y = np.linalg.solve(small, x[:N])
    return x * x, y, np.linalg.cholesky(matrix[:N, :N]), np.linalg.det(small / LARGE)


def total(transform):
    """Returns a function whose value is a sum over all results, for gradients."""
    return lambda *given: sum(jnp.sum(jnp.sin(x)) for x in transform(of_one)(*given))


in_lanes = jax.jit(lanes(of_one, (0, 0, None)))


def test_values_are_those_of_numpy():
    """Values equal NumPy's, without the warning that the whole function runs under `vmap`."""
    found = in_lanes(MATRIX, RHS, SHARED)
    expected = [by_numpy(*each, SHARED) for each in zip(MATRIX, RHS, strict=True)]
    for x, exact in zip(found, map(np.stack, zip(*expected, strict=True)), strict=True):
        np.testing.assert_allclose(x, exact, rtol=1e-11, atol=1e-15)


def test_gradients_are_those_of_vmap():
    axes = (0, 0, None)
    gradient = lambda f: jax.jit(jax.grad(f, (0, 1, 2)))(MATRIX, RHS, SHARED)
    found = gradient(total(lambda f: lanes(f, axes)))
    expected = gradient(total(lambda f: jax.vmap(f, axes)))
    for x, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, exact, rtol=1e-10, atol=1e-13 * np.abs(exact).max())


@needs_loops
def test_the_rest_runs_in_lanes():
    """The program has loops or fusions over the lanes before, between and after the factorisations."""
    text = in_lanes.lower(MATRIX, RHS, SHARED).as_text()
    assert text.count('"stablehlo.reduce_window"') + text.count('mhlo.fusion"(') >= 3


@needs_loops
def test_a_single_trajectory_is_divided_likewise():
    square = lambda x, shared: symmetric_solve(x[0], jnp.sin(x[1]) * shared) ** 2
    run, given = jax.jit(one_lane(square)), ((MATRIX[0], RHS[0]), SHARED)
    expected = by_numpy(MATRIX[0], RHS[0], SHARED)[0]
    np.testing.assert_allclose(run(*given), expected, rtol=1e-11, atol=1e-15)
    assert "xla_cpu_small_call" in run.lower(*given).as_text()
    closed = jax.make_jaxpr(square)(*given)
    program = scalarise(closed, [True, True, False], blocks=True)
    assert (
        program.operations()["sin"] == LARGE
    )  # operations before the factorisation are counted, too


def test_blocks_on_which_no_result_depends_are_left_out():
    """The determinant needs the LU factors, so one block remains; the unused solution is dropped."""

    def f(x):
        jnp.linalg.solve(x, x[0])
        return jnp.linalg.det(x)

    program = scalarise(jax.make_jaxpr(f)(np.eye(N)), [True], blocks=True)
    assert [len(each.results) for each in program.graph.blocks] == [3]  # LU has three results


@pytest.mark.parametrize("kind", ["eigh", "svd", "qr"])
def test_libraries_compute_one_lane_after_the_other(kind):
    """Squares of stretches, and their gradients, without a warning. Calls for many lanes could wait for one another for ever
    (docs/performance.md#lapack-under-vmap)."""

    def energy(x):
        if kind == "eigh":
            return jnp.sum(jnp.log(jnp.linalg.eigvalsh(x.T @ x)) ** 2) / 4
        factor = jnp.linalg.qr(x)[1] if kind == "qr" else x
        return jnp.sum(jnp.log(jnp.linalg.svd(factor, compute_uv=False)) ** 2)

    x = jnp.asarray(ROOTS[:, :3, :3] + 3.0 * np.eye(3))
    found = jax.jit(lanes(jax.value_and_grad(energy)))
    stretches = np.linalg.svd(x, compute_uv=False)
    left, _, right = np.linalg.svd(x)
    values, gradients = found(x)
    np.testing.assert_allclose(values, np.sum(np.log(stretches) ** 2, axis=1), rtol=1e-12)
    of_stretches = 2 * np.log(stretches) / stretches
    exact = np.einsum("bik,bk,bkj->bij", left, of_stretches, right)
    np.testing.assert_allclose(gradients, exact, rtol=1e-11, atol=1e-13)
    text = found.lower(x).compile().as_text()
    calls = [line for line in text.splitlines() if "lapack_" in line and "custom-call(" in line]
    assert calls
    assert not (CAN_WAIT_FOR_EVER and any(f"f64[{LANES},3,3]" in line for line in calls))


GEARS = 12


def angles(ratios, turn):
    """The angles of shafts, of which each turns `ratios` times as fast as the one before it, from linear equations."""
    matrix = jnp.eye(GEARS) - jnp.diag(ratios, -1)
    return jnp.linalg.solve(matrix, jnp.zeros(GEARS).at[0].set(turn))


def test_factors_with_zeros_are_written_out():
    """Values and derivatives of a gear train, whose rows are exchanged where a ratio is larger than 1, are its products of
    ratios; there is no block, for many lanes and for one."""
    ratios = np.array([[0.5, -2.0, 1.5, 0.9, -1.1, 3.0, 0.2, 1.0, -0.7, 1.3, 2.0]]) * np.ones(
        (LANES, 1)
    )
    ratios[1:] += 0.3 * RNG.normal(size=(LANES - 1, GEARS - 1))
    turn, products = np.arange(1.0, LANES + 1), np.cumprod(np.c_[np.ones(LANES), ratios], axis=1)
    total = lambda ratios, turn: jnp.sum(angles(ratios, turn) ** 2)
    by_turn, each = np.sum(products**2, axis=1), products * turn[:, None]
    tails = np.cumsum((each**2)[:, ::-1], axis=1)[:, ::-1]  # Σ of the squares from a shaft on
    for run in (lanes, lambda f: lambda *x: jax.lax.map(lambda y: one_lane(lambda z: f(*z))(y), x)):
        np.testing.assert_allclose(jax.jit(run(angles))(ratios, turn), each, rtol=1e-12)
        by_ratios, found = jax.jit(run(jax.grad(total, (0, 1))))(ratios, turn)
        np.testing.assert_allclose(found, 2 * turn * by_turn, rtol=1e-12)
        np.testing.assert_allclose(by_ratios, 2 * tails[:, 1:] / ratios, rtol=1e-11)
    closed = jax.make_jaxpr(total)(ratios[0], turn[0])
    program = scalarise(closed, [True, True], blocks=True)
    assert not program.graph.blocks
    assert program.length() < 1_500


@pytest.mark.parametrize("n", [3, 8, 12])
def test_numbers_of_operations_of_factors(n):
    """Full matrices: Σ 2 m² + m products, sums and quotients of the elimination, and 5 + 2 n for each exchange. A lower
    triangle of two diagonals takes a number that grows like n², since rows are exchanged as a whole."""
    below = np.arange(1, n)
    full = np.sum(2 * below**2 + below) + np.sum(below) * (5 + 2 * n)
    assert lu_operations(np.zeros((n, n), bool)) == full
    assert lu_operations(~np.eye(n, dtype=bool)) == 0
    assert lu_operations(np.eye(n) + np.eye(n, k=-1) == 0) <= 2 * n**2 + 10 * n


def solutions(x):
    """A solution and a Cholesky factor, for a matrix without zeros whose largest entries are off the diagonal."""
    matrix = jnp.roll(jnp.sin(x), 1, axis=0) + 0.1 * x @ x.T
    return jnp.linalg.solve(matrix, x[0]), jnp.linalg.cholesky(x @ x.T + len(x) * jnp.eye(len(x)))


def everything(y, x, rate):
    """Solutions, their rates, and a gradient, by one row y of the matrix."""
    of_row = lambda y: solutions(x.at[1].set(y))
    found, rates = jax.jvp(of_row, (y,), (rate,))
    return found, rates, jax.grad(lambda y: sum(jnp.sum(jnp.sin(z)) for z in of_row(y)))(y)


everything_of_one = jax.jit(everything)


@pytest.mark.parametrize(("count", "compiled"), [(2, jax.jit), (32, ensemble.jit)])
def test_full_matrices_of_up_to_sixteen_rows_are_written_out(count, compiled):
    """In one kernel for few lanes, and in a fusion for many: values by NumPy, rates and gradients one by one."""
    rng = np.random.default_rng(N)
    x, rate = rng.uniform(0.2, 1.5, (2, count, N, N)) + 3 * np.roll(np.eye(N), 1, axis=0)
    found = compiled(lanes(everything))(x[:, 1], x, rate[:, 1])
    each = [everything_of_one(*given) for given in zip(x[:, 1], x, rate[:, 1], strict=True)]
    expected = jax.tree.map(lambda *x: np.stack(x), *each)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11 * np.abs(other).max())
    matrix = np.roll(np.sin(x), 1, axis=1) + 0.1 * x @ np.swapaxes(x, 1, 2)
    exact = np.linalg.solve(matrix, x[:, 0, :, None])[..., 0]
    np.testing.assert_allclose(found[0][0], exact, rtol=1e-9, atol=1e-11)


def test_full_matrices_of_more_than_sixteen_rows_are_blocks():
    blocks = lambda n: (
        scalarise(jax.make_jaxpr(solutions)(np.eye(n)), [True], blocks=True, few=True).graph.blocks
    )
    assert not blocks(16)
    assert blocks(17)


def test_rows_of_the_unit_matrix_are_selected():
    """An inverse takes the rows of the unit matrix in the order of its pivots; a kernel for few lanes reads no table."""
    closed = jax.make_jaxpr(jnp.linalg.inv)(np.eye(12))
    found = scalarise(closed, [True], few=True).operations()
    assert found["pick"] == 0
    assert found["select_n"] > 0


@pytest.mark.parametrize(
    ("needed", "most", "is_block"),
    [(False, 10_000, False), (True, 10_000, True), (False, 1_000, True)],
)
def test_only_needed_operations_leave_factors_no_room(needed, most, is_block, monkeypatch):
    """In a fusion a matrix of 12 rows is a block if it takes a long program, but not if nothing needs that program. By RK4
    the fourth stage of a gear train had no room for its matrix, and a step took 185 times as long."""
    monkeypatch.setattr(_linear_algebra, "LONGEST_FUSION", 4_000)
    monkeypatch.setattr(_linear_algebra, "MOST_SCALARS", most)

    def solution(x):
        length = jnp.zeros(())
        for _ in range(1_500):
            length = length * x[0, 0] + 0.25
        matrix = x + 0.1 * jnp.outer(x[0], x[1]) + 1.0
        return jnp.linalg.solve(matrix + length if needed else matrix, x[0])

    def program(x):
        return scalarise(jax.make_jaxpr(solution)(x), [True], whole=True, blocks=True)

    assert bool(takes_fusions(program)(np.eye(12)).graph.blocks) == is_block


def test_a_program_that_stays_whole_may_have_many_unneeded_operations(monkeypatch):
    """The limit of scalars counts what the results need, if the program is a fusion; otherwise it runs under `vmap`."""
    monkeypatch.setattr(_run_batch, "MOST_SCALARS", 200)

    def long(x):
        for k in range(2, 82):
            _ = x * k  # stays in the jaxpr
        for _ in range(50):
            x = x * x + 0.25
        return x

    x = np.random.default_rng(1).uniform(-0.5, 0.5, LANES)
    expected = jax.vmap(long)(x)
    found = ensemble.jit(lanes(long))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.warns(UserWarning, match="more than 200 scalars"):
        jax.jit(lanes(long))(x)
