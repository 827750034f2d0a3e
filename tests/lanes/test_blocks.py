"""Factorisations of large matrices stay operations on arrays, while the operations around them run in lanes."""

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

from jaxhamel._lanes._one_lane import one_lane
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._one_loop import OLDEST
from jaxhamel._lapack import CAN_WAIT_FOR_EVER
from jaxhamel.mechanics import symmetric_solve

needs_loops = pytest.mark.skipif(
    jaxlib.version.__version_info__ < OLDEST, reason="with this XLA lanes are no windows"
)

LANES, N, LARGE = 6, 9, 22
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
