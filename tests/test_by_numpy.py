"""NumPy's results of a program are those of XLA, operation by operation; what it cannot do is left to JAX."""

from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.mechanics import symmetric_solve
from tests import by_numpy
from tests.by_numpy import FEW, programs_by_numpy, results_by_numpy

X = np.array([0.3, -1.2, 2.5, 0.0])
M = np.arange(12.0).reshape(3, 4) - 5.0


def elementwise(x):
    unit = x / 4
    return [
        jnp.arcsin(unit), jnp.arccos(unit), jnp.arctan(x), jnp.arctan2(x, 1 + x), jnp.sinh(x), jnp.cosh(x),
        jnp.tanh(x), jnp.exp(x), jnp.expm1(x), jnp.log(x), jnp.log1p(x), jnp.sqrt(x), jax.lax.rsqrt(1 + x), jnp.ceil(x),
        jnp.power(jnp.abs(x), unit), jnp.square(x), x**3, x**-1, x**-2, jnp.tan(x),
        jnp.sign(x), jnp.floor(x), jnp.abs(x), -x, jnp.clip(x, -1, 1), jnp.where(x > 0, x, 2 * x), jnp.isfinite(1 / x),
        ~(x >= 0) ^ (x == 0) | (x != 1) & (x <= 2), jnp.maximum(x, unit), jnp.minimum(x, unit), x.astype(int) * 2,
    ]  # fmt: skip


def moves(m):
    return [
        m.T, m[::-1], jnp.flip(m, 1), jnp.pad(m, ((1, 2), (0, 1)), constant_values=7.0), m[1:, ::2], m.at[0].set(1.0),
        jnp.split(m, [1], axis=0), jnp.stack([m, m], 1), jnp.unstack(m, axis=1), jnp.concatenate([m, m], 1), jnp.arange(5.0),
        jax.lax.pad(m, jnp.zeros((), m.dtype), [(0, 0, 1), (-1, 0, 0)]), jax.lax.dynamic_slice(m, (7, 1), (2, 2)),
        jax.lax.dynamic_update_slice(m, m[:1, :2], (2, 9)), m[None], jnp.tile(m, 2),
    ]  # fmt: skip


def sums(m):
    batch = jnp.stack([m, 2 * m])
    return [
        jnp.sum(m, 0), jnp.sum(m), jnp.max(m, 1), jnp.min(m), jnp.prod(m, 0), jnp.any(m > 5), jnp.all(m > -9, 1),
        jnp.cumsum(m, 1), jax.lax.cumsum(m, reverse=True), jnp.argmax(m, 1), jnp.argmin(m), m @ m.T, m[0] @ m[1],
        jnp.einsum("kia,kja->kij", batch, batch), jnp.einsum("kia,kja->aij", batch, batch), jnp.outer(m[0], m[1]),
        jnp.einsum("kia,jka->ij", batch, jnp.stack([batch] * 3)[:, :, 0]), jnp.zeros((2, 0)) @ jnp.zeros((0, 3)),
    ]  # fmt: skip


def branches(x):
    several = [jax.lax.switch(i.astype(int), [jnp.sin, jnp.cos], x) for i in (x[3] > 0, x[2] > 0)]
    return several, jax.lax.cond(x[0] > x[1], lambda: x, lambda: -x)


@jax.custom_jvp
def cube(x):
    return x**3


cube.defjvp(lambda x, dx: (cube(*x), 3 * x[0] ** 2 * dx[0]))


def derivatives(x):
    spread = symmetric_solve(jnp.eye(4, dtype=x.dtype) + jnp.outer(x, x), x)
    value = lambda x: jnp.sum(cube(x)) * jnp.dot(x, jax.jit(jnp.sin)(x))
    solved = jax.jacrev(lambda x: symmetric_solve(jnp.eye(4, dtype=x.dtype) + jnp.outer(x, x), x))(
        x
    )
    return spread, jax.hessian(value)(x), jax.grad(jax.checkpoint(value))(x), solved


@pytest.mark.parametrize(
    ("program", "at"), [(elementwise, X), (moves, M), (sums, M), (branches, X), (derivatives, X)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_program(program, at, dtype):
    at = at.astype(dtype)
    wanted = jax.tree.leaves(jax.jit(program)(at))
    found = results_by_numpy(jax.make_jaxpr(program)(at), [at])
    assert found is not None
    eps = float(np.finfo(dtype).eps)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=40 * eps, atol=4 * eps)


def sums_of_pairs(x):
    return jax.lax.reduce_window(x + 1, 0.0, jax.lax.add, (2,), (1,), "valid")


def compiles(program, x) -> bool:
    """Whether a call compiles a program."""
    found = []
    keep = lambda *given: found.append(results_by_numpy(*given)) or found[-1]
    with patch.object(by_numpy, "results_by_numpy", keep):
        program(x)
    return found in ([], [None])


def test_only_programs_without_loops_are_computed_and_only_where_it_is_allowed():
    double, loop = jax.jit(lambda x: 2.5 * x), jax.jit(lambda x: jax.lax.map(jnp.sin, x))
    with programs_by_numpy():
        assert not compiles(double, X)
        assert compiles(loop, X)
        assert compiles(jax.jit(jnp.sort), X)  # has no rule
        assert compiles(
            jax.jit(sums_of_pairs), X
        )  # has a program, which is no function of the whole array
        np.testing.assert_allclose(double(X), 2.5 * X)
        np.testing.assert_allclose(loop(X), np.sin(X), rtol=1e-15)
    assert compiles(double, X)


def test_a_program_that_is_called_often_is_compiled():
    double = jax.jit(lambda x: 2.25 * x)
    with programs_by_numpy():
        for _ in range(FEW):
            assert not compiles(double, X)
        assert compiles(double, X)


def test_weak_types_stay_weak():
    """A result that was made of Python's numbers takes the type of what it meets, as from XLA."""
    with programs_by_numpy():
        found = jax.jit(lambda x: 2.0 * jnp.sin(x))(3.0)
    assert found.weak_type
    assert (found * jnp.ones(2, jnp.float32)).dtype == np.float32
    np.testing.assert_allclose(found, 2.0 * np.sin(3.0), rtol=1e-15)
