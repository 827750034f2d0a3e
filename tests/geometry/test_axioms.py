"""Group axioms and the defining identities of exp, log, Ad and ad, in all regimes.

The reference is a matrix representation: the Lie algebra in NumPy (tests/geometry/cases.py), `scipy.linalg.expm` and
matrix products.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from tests.geometry.cases import Case, by_case, by_case_and_dtype, close, compiled, increments

precisions = pytest.mark.parametrize(**by_case_and_dtype)


def operations(case: Case, *names: str):
    return [compiled(case.space, name) for name in names]


def axioms(case: Case, a, b, c):
    """Pairs of matrices that must be equal, by the axiom's name."""
    exp, product, M, inv, Ad, retract = operations(
        case, "exp", "compose", "matrix", "inverse", "Ad", "retract"
    )
    qa, qb, qc = exp(a), exp(b), exp(c)
    e = case.space.identity(a.dtype)
    eye = jnp.eye(M(e).shape[0], dtype=a.dtype)
    return {
        "associative": (M(product(product(qa, qb), qc)), M(product(qa, product(qb, qc)))),
        "homomorphism": (M(product(qa, qb)), M(qa) @ M(qb)),
        "left neutral": (M(product(e, qa)), M(qa)),
        "right neutral": (M(product(qa, e)), M(qa)),
        "inverse": (M(product(inv(qa), qa)), eye),
        "other inverse": (M(product(qa, inv(qa))), eye),
        "exp of minus": (M(exp(-a)), M(inv(qa))),
        "retract": (M(retract(qa, b)), M(qa) @ M(qb)),
        "Ad homomorphism": (Ad(product(qa, qb)), Ad(qa) @ Ad(qb)),
        "Ad of exp": (Ad(qa) @ a, a),
    }


@precisions
@given(data=st.data())
def test_group_axioms(case: Case, dtype, data):
    deltas = [data.draw(increments(case, dtype)) for _ in range(3)]
    for name, (left, right) in axioms(case, *deltas).items():
        close(left, right, dtype, units=64 if name == "associative" else 32)


@precisions
@given(data=st.data())
def test_exp_is_the_matrix_exponential(case: Case, dtype, data):
    exp, matrix = operations(case, "exp", "matrix")
    delta = data.draw(increments(case, dtype))
    expected = scipy.linalg.expm(case.algebra(delta.astype(np.float64)))
    close(matrix(exp(delta)), expected, dtype)


@precisions
@given(data=st.data())
def test_log_and_local_invert_exp_and_retract(case: Case, dtype, data):
    exp, log, retract, local, matrix = operations(case, "exp", "log", "retract", "local", "matrix")
    a, b = (data.draw(increments(case, dtype)) for _ in range(2))
    q0 = exp(a)
    q1 = retract(q0, b)
    close(log(exp(b)), b, dtype)
    close(matrix(retract(q0, local(q0, q1))), matrix(q1), dtype, units=32)
    if all(np.linalg.norm(b[r]) < 3 for r in case.rotations):  # rounding of q0 may cross the cut
        close(local(q0, q1), b, dtype, units=64)


@partial(jax.jit, static_argnums=0)
def adjoint_along(space, x):
    """d/ds Ad(exp(s x)) at s = 0."""
    return jax.jvp(lambda d: space.Ad(space.exp(d)), (jnp.zeros_like(x),), (x,))[1]


@precisions
@given(data=st.data())
def test_Ad_is_conjugation(case: Case, dtype, data):
    exp, Ad = operations(case, "exp", "Ad")
    a = data.draw(increments(case, dtype))
    M = scipy.linalg.expm(case.algebra(a.astype(np.float64)))
    conjugate = _components(case, lambda e: M @ e @ np.linalg.inv(M))
    close(Ad(exp(a)), conjugate, dtype, units=64)


@precisions
@given(data=st.data())
def test_ad_is_the_derivative_of_Ad_and_the_commutator(case: Case, dtype, data):
    x, y = (data.draw(increments(case, dtype)) for _ in range(2))
    ad = compiled(case.space, "ad")(x)
    close(adjoint_along(case.space, x), ad, dtype)
    exact_y = y.astype(np.float64)
    X, Y = case.algebra(x.astype(np.float64)), case.algebra(exact_y)
    bracket = case.algebra(np.asarray(ad, np.float64) @ exact_y)
    close(bracket.astype(dtype), X @ Y - Y @ X, dtype)


def _components(case: Case, action):
    """The matrix of a linear map of the algebra, by least squares on its basis."""
    basis = [case.algebra(e) for e in np.eye(case.space.dim)]
    images = np.array([action(E).ravel() for E in basis]).T
    return np.linalg.lstsq(np.array([E.ravel() for E in basis]).T, images, rcond=None)[0]


@pytest.mark.parametrize(**by_case)
def test_structure_constants(case: Case):
    """Antisymmetry and the Jacobi identity, exactly: the numbers are 0 and ±1."""
    c = np.asarray(case.space.structure_constants())
    np.testing.assert_array_equal(c, -np.swapaxes(c, 1, 2))
    jacobi = np.einsum("dae,ebc->dabc", c, c)
    jacobi = jacobi + np.einsum("dabc->dbca", jacobi) + np.einsum("dabc->dcab", jacobi)
    np.testing.assert_array_equal(jacobi, 0)


@pytest.mark.parametrize(**by_case)
def test_structure_constants_contract_to_ad(case: Case):
    x = np.linspace(-1, 1, case.space.dim)
    c = case.space.structure_constants()
    close(np.einsum("cab,a->cb", c, x), case.space.ad(jnp.asarray(x)), np.float64)
    assert case.space.structure_constants(np.float32).dtype == np.float32


@partial(jax.jit, static_argnums=0)
def moving(space, q, v):
    """d/ds retract(q, s v) at s = 0."""
    return jax.jvp(lambda d: space.retract(q, d), (jnp.zeros_like(v),), (v,))[1]


@precisions
@given(data=st.data())
def test_rate_is_the_derivative_of_retract_and_velocity_inverts_it(case: Case, dtype, data):
    exp, rate, velocity = operations(case, "exp", "rate", "velocity")
    a, v = (data.draw(increments(case, dtype)) for _ in range(2))
    q = exp(a)
    qdot = rate(q, v)
    close(velocity(q, qdot), v, dtype)
    close_leaves(qdot, moving(case.space, q, v), dtype)


@precisions
@given(data=st.data())
def test_normalise_leaves_a_configuration_alone(case: Case, dtype, data):
    exp, normalise = operations(case, "exp", "normalise")
    q = exp(data.draw(increments(case, dtype)))
    case.space.check(q)  # exp gives unit quaternions without it
    close_leaves(normalise(q), q, dtype)


def close_leaves(got, want, dtype) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        close(a, b, dtype)
