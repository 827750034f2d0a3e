"""Equations of Massa and Vignolo as printed, for a rotation with a known rate: (5), (6) and (9) hold, (10a) and (10b)
do not."""

import numpy as np

from tests.mechanics.printed import EPSILON

RNG = np.random.default_rng(1)
R = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
R *= np.linalg.det(R)  # a rotation, not a reflection
OMEGA, B, B_DOT = RNG.normal(size=(3, 3))  # in the body; the position and its rate
RATE = R @ (-EPSILON @ OMEGA)  # Ṙ = R Ω̃
IN_SPACE = R @ OMEGA


def axial(matrix):
    """½ ε_ipq M_pq."""
    return 0.5 * np.einsum("ipq,pq->i", EPSILON, matrix)


def same(found, right):
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-13)


def test_5_6_and_9_hold():
    same(axial(R @ RATE.T), IN_SPACE)  # (5a), (9b)
    same(axial(RATE.T @ R), OMEGA)  # (5b)
    same(-axial(R.T @ RATE), OMEGA)  # (6b)
    same(B_DOT + R @ RATE.T @ B, B_DOT - np.cross(IN_SPACE, B))  # (9a)


def test_10_slips():
    """(10b) prints R_kp Ṙ_kq, which gives −Ω in the body, for R_pk Ṙ_qk. (10a) contracts the vector ω̂ with ε_ijr in
    place of the matrix."""
    same(axial(np.einsum("pk,qk->pq", R, RATE)), IN_SPACE)
    printed = axial(np.einsum("kp,kq->pq", R, RATE))
    same(printed, -OMEGA)
    assert np.max(np.abs(printed - IN_SPACE)) > 0.1
    same(B_DOT + np.einsum("ijr,j,r->i", EPSILON, B, IN_SPACE), B_DOT - np.cross(IN_SPACE, B))
