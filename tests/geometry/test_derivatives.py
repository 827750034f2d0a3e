"""exp, log, dexp and its inverse: first and second derivatives, against those of matrix functions.

For an analytic f, f of [[A, E], [0, A]] holds f(A) and its derivative along E, and blocks of blocks
hold the second derivative (Mathias 1996, SIAM J. Matrix Anal. Appl. 17): derivatives to rounding,
from matrices that know nothing of C_k or quaternions.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from jaxhamel.geometry import SO3
from tests.geometry.cases import CASES, Case, adjoint, close, increments, phi

_CURVED = {c.name: c for c in CASES if c.name in ("SO3", "SE2", "SE3", "Schoenflies")}
curved = pytest.mark.parametrize("case", _CURVED.values(), ids=_CURVED.keys())


def in_precisions(double, single):
    cases = [(_CURVED[name], np.float64) for name in double]
    cases += [(_CURVED[name], np.float32) for name in single]
    ids = [f"{case.name}-{np.dtype(dtype).name}" for case, dtype in cases]
    return pytest.mark.parametrize(("case", "dtype"), cases, ids=ids)


def second_order(matrix, first, second):
    """[[M, N], [0, M]] with M = [[A, E], [0, A]], N = diag(F, F)."""
    zero = np.zeros_like(matrix)
    M = np.block([[matrix, first], [zero, matrix]])
    return np.block([[M, scipy.linalg.block_diag(second, second)], [np.zeros_like(M), M]])


def blocks(lifted):
    """f(A), Df(A)[E], D²f(A)[E, F] from the first row of blocks."""
    n = len(lifted) // 4
    return lifted[:n, :n], lifted[:n, n : 2 * n], lifted[:n, 3 * n :]


@partial(jax.jit, static_argnums=(0, 1))
def two_derivatives(space, name, delta, e, f):
    """function(δ), its derivative along e, and its second derivative along e and f."""

    def function(d):
        result = getattr(space, name)(d)
        return space.matrix(result) if name == "exp" else result

    def along(d):
        return jax.jvp(function, (d,), (e,))

    (value, first), (_, second) = jax.jvp(along, (delta,), (f,))
    return value, first, second


@curved
@given(data=st.data())
def test_first_and_second_derivatives(case: Case, data):
    """exp, dexp and dexp⁻¹ at the identity, beside it and near π, to rounding."""
    delta, e, f = (data.draw(increments(case)) for _ in range(3))
    algebra = second_order(*(case.algebra(x) for x in (delta, e, f)))
    dexp = phi(second_order(*(adjoint(case, x) for x in (delta, e, f))))
    exact = {"exp": scipy.linalg.expm(algebra), "dexp": dexp, "dexpinv": np.linalg.inv(dexp)}
    for name, lifted in exact.items():
        computed = two_derivatives(case.space, name, delta, e, f)
        for got, want in zip(computed, blocks(lifted), strict=True):
            close(got, want, np.float64, units=2000)


@partial(jax.jit, static_argnums=0)
def log_exp_derivatives(space, delta):
    def jacobian(d):
        first = jax.jacrev(lambda x: space.log(space.exp(x)))(d)
        return first, first

    second, first = jax.jacfwd(jacobian, has_aux=True)(delta)
    return first, second


@in_precisions(double=["SO3", "SE2"], single=["SO3", "SE2", "SE3"])
@given(data=st.data())
def test_derivatives_of_log_after_exp(case: Case, dtype, data):
    """log after exp is the identity map, with the derivatives 1 and 0, by forward over reverse mode in all regimes."""
    first, second = log_exp_derivatives(case.space, data.draw(increments(case, dtype)))
    close(first, np.eye(case.space.dim), dtype, units=256)
    close(second, np.zeros(second.shape), dtype, units=2000)


@partial(jax.jit, static_argnums=0)
def local_hessian(space, a, b):
    """Second derivatives of |local(q, q1)|² by a step from q."""
    q, q1 = space.exp(a), space.retract(space.exp(a), b)
    return jax.hessian(lambda d: jnp.sum(space.local(space.retract(q, d), q1) ** 2))(0 * a)


@in_precisions(double=["SE2", "SE3"], single=["SO3"])
@given(data=st.data())
def test_hessian_of_the_distance_is_finite_and_two_at_zero(case: Case, dtype, data):
    a, b = (data.draw(increments(case, dtype)) for _ in range(2))
    hessian = local_hessian(case.space, a, b)
    assert np.all(np.isfinite(hessian))
    close(hessian, np.swapaxes(hessian, 0, 1), dtype, units=2000)
    here = local_hessian(case.space, a, np.zeros_like(a))
    close(here, 2 * np.eye(case.space.dim), dtype, units=64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_log_of_quaternions_that_underflow(dtype):
    """|u|² underflows long before u does; the logarithm of ±q is nevertheless 2u."""
    log, jacobian = jax.jit(SO3().log), jax.jit(jax.jacfwd(SO3().log))
    for size in (1e-3, 1e-10, 1e-19, 1e-22, 1e-30):
        q = jnp.array([1, size, -size, 0], dtype)
        for sign in (1, -1):
            np.testing.assert_allclose(log(sign * q), [2 * size, -2 * size, 0], rtol=1e-6)
            np.testing.assert_allclose(
                jacobian(sign * q)[:, 1:], 2 * sign * np.eye(3), atol=3 * size
            )


def test_log_is_the_shorter_rotation():
    q = SO3().exp(jnp.array([0.0, 0.0, 4.0]))
    np.testing.assert_allclose(SO3().log(q), [0, 0, 4 - 2 * np.pi], rtol=1e-14)
    np.testing.assert_array_equal(SO3().log(q), SO3().log(-q))


def test_half_a_turn_exactly():
    """At w = 0 the angle is π and the derivatives are finite."""
    q = jnp.array([0.0, 0.6, 0.0, 0.8])
    np.testing.assert_allclose(SO3().log(q), np.pi * q[1:], rtol=1e-15)
    assert np.all(np.isfinite(jax.jit(jax.jacfwd(jax.jacrev(SO3().log)))(q)))


@jax.jit
def over_reverse(points, v):
    """Hessian times v, by forward over reverse mode, of a product of exponentials and a logarithm, without a loop and
    in one."""

    def turned(q, delta):
        return SO3().retract(q, delta)

    def value(q):
        return jnp.dot(jnp.array([0.3, 0.2, 0.5]), SO3().log(q)) + q[1] * q[2]

    def plain(x):
        return value(turned(turned(SO3().identity(float), x), x / 2))

    def in_a_loop(x):
        q0 = SO3().identity(float)
        return value(
            jax.lax.scan(lambda q, h: (turned(q, h * x), None), q0, jnp.array([1, 0.5]))[0]
        )

    def hessian(f):
        return jax.vmap(lambda x: jax.jvp(jax.grad(f), (x,), (v,))[1])(points)

    return hessian(plain), hessian(in_a_loop)


def test_forward_over_reverse_in_a_loop():
    """In a loop JAX drops derivative rules, so the inlined operations must have finite, correct derivatives, also at
    the identity."""
    points = jnp.array([[0.0, 0, 0], [1e-9, 0, 2e-9], [1e-4, -2e-4, 0], [0.3, -0.2, 0.7]])
    plain, looped = over_reverse(points, jnp.array([0.6, -0.8, 0.3]))
    np.testing.assert_allclose(looped, plain, rtol=0, atol=1e-12)
    assert np.max(np.abs(plain[0])) > 0.1
