"""Hamel coefficients: signs, published values, the definition by finite differences, invariance."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    SE3,
    SO3,
    Euclidean,
    Helical,
    Product,
    hamel_coefficients,
    hamel_contraction,
    hat,
    quaternion_matrix,
)
from tests.geometry.cases import CASES, by_case, close

EPSILON = np.zeros((3, 3, 3))
for _i, _j, _k in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]:
    EPSILON[_i, _j, _k], EPSILON[_i, _k, _j] = 1, -1


def stack(rows):
    return jnp.stack([jnp.stack(row) for row in rows])


def euler_body(angles):
    """Body angular velocity from the rates of (φ, θ, ψ), sequence z-x-z (Goldstein, eq. 4.87)."""
    s, c = jnp.sin(angles), jnp.cos(angles)
    zero = jnp.zeros_like(s[0])
    return stack(
        [
            [s[1] * s[2], c[2], zero],
            [s[1] * c[2], -s[2], zero],
            [c[1], zero, jnp.ones_like(zero)],
        ]
    )


def euler_space(angles):
    """Spatial angular velocity from the same rates."""
    s, c = jnp.sin(angles), jnp.cos(angles)
    zero = jnp.zeros_like(s[0])
    return stack(
        [
            [zero, c[0], s[0] * s[1]],
            [zero, s[0], -c[0] * s[1]],
            [jnp.ones_like(zero), zero, c[1]],
        ]
    )


@pytest.mark.parametrize(("frame", "sign"), [(euler_body, 1), (euler_space, -1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_euler_angles_fix_the_signs(frame, sign, dtype):
    """Test number one: the body frame gives +ε, the space frame −ε (Müller 2021, eq. 47 and 55)."""
    gamma = hamel_coefficients(frame, jnp.array([0.4, 1.1, -0.7], dtype))
    close(gamma, sign * EPSILON, dtype)


class RandomFrame(eqx.Module):
    """A(x) = 1 + Σ_s M_s sin(x_s + phase_s)/n, where `chart` maps q to the coordinates x."""

    mixing: jax.Array
    phase: jax.Array

    def __init__(self, n: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.mixing = jnp.asarray(rng.uniform(-1, 1, (n, n, n)) / n)
        self.phase = jnp.asarray(rng.uniform(-3, 3, n))

    def __call__(self, q):
        x = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(q)])
        waves = jnp.sin(x[: self.phase.size] + self.phase)
        return jnp.eye(self.phase.size) + jnp.einsum("cra,a->cr", self.mixing, waves)


def richardson(function, q, h=1e-2):
    """∂f/∂q by central differences in NumPy, extrapolated three times; slope index last."""

    def central(step):
        shifts = step * np.eye(len(q))
        pairs = [(function(q + e), function(q - e)) for e in shifts]
        return np.stack([(plus - minus) / (2 * step) for plus, minus in pairs], axis=-1)

    table = [central(h / 2**i) for i in range(4)]
    for order in (4, 16, 64):
        table = [(order * b - a) / (order - 1) for a, b in pairwise(table)]
    return table[0]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_definition_on_vector_spaces(n):
    """Eq. (12) of Müller 2021 as printed, with slopes by Richardson's extrapolation."""
    frame, q = RandomFrame(n, seed=n), np.linspace(-1, 1, n)
    slope = richardson(lambda x: np.asarray(frame(jnp.asarray(x))), q)
    B = np.linalg.inv(np.asarray(frame(jnp.asarray(q))))
    antisymmetric = slope - np.swapaxes(slope, 1, 2)
    expected = np.einsum("crs,ra,sb->cab", antisymmetric, B, B)
    np.testing.assert_allclose(hamel_coefficients(frame, jnp.asarray(q)), expected, atol=1e-11)


@pytest.mark.parametrize(**by_case)
def test_invariant_frames_give_the_structure_constants(case):
    """A = 1: +c; A = Ad(q), the spatial velocity: −c (Müller 2021, eq. 72, 82 on SE(3))."""
    space = case.space
    q = space.exp(jnp.linspace(-0.8, 1.2, space.dim))
    c = space.structure_constants()
    body = lambda q: jnp.eye(space.dim)
    for frame, expected in ((body, c), (space.Ad, -c)):
        gamma = jax.jit(lambda q, frame=frame: hamel_coefficients(frame, q, space))(q)
        close(gamma, expected, np.float64, units=64)


def test_structure_constants_of_rigid_motions():
    """[ω, ω'] = ω × ω', [ω, v'] = ω × v', [v, v'] = 0."""
    c = np.zeros((6, 6, 6))
    c[:3, :3, :3] = c[3:, :3, 3:] = EPSILON
    c[3:, 3:, :3] = EPSILON
    np.testing.assert_array_equal(SE3().structure_constants(), c)


def hybrid_on_se3(q):
    R = quaternion_matrix(q[:4])
    return jax.scipy.linalg.block_diag(R, R)


def hybrid_on_product(q):
    return jax.scipy.linalg.block_diag(quaternion_matrix(q[0]), jnp.eye(3))


def hybrid_on_angles(q):
    return jax.scipy.linalg.block_diag(euler_space(q[:3]), jnp.eye(3))


def test_hybrid_twist_is_one_tensor_on_three_spaces():
    """(ω in space, ṗ): −ε and zero (Müller 2021, eq. 83), whichever space describes the pose."""
    expected = np.zeros((6, 6, 6))
    expected[:3, :3, :3] = -EPSILON
    rotation, position = SO3().exp(jnp.array([0.3, -1.0, 2.0])), jnp.array([1.0, 2.0, -0.5])
    pose = jnp.concatenate([rotation, position])
    angles = jnp.concatenate([jnp.array([0.4, 1.1, -0.7]), position])
    both = Product(SO3(), Euclidean(3))
    close(hamel_coefficients(hybrid_on_se3, pose, SE3()), expected, np.float64)
    close(hamel_coefficients(hybrid_on_product, (rotation, position), both), expected, np.float64)
    close(hamel_coefficients(hybrid_on_angles, angles), expected, np.float64)


@pytest.mark.parametrize("n", [2, 4])
def test_holonomic_frames_give_zero_on_vector_spaces(n):
    """u = dx/dt of coordinates x(q)."""
    shape = RandomFrame(n, seed=7)
    frame = jax.jacfwd(lambda q: shape(q) @ jnp.cos(q) + q)
    close(hamel_coefficients(frame, jnp.linspace(0, 1, n)), np.zeros((n, n, n)), np.float64, 64)


@pytest.mark.parametrize("space", [SO3(), SE3()], ids=["SO3", "SE3"])
def test_holonomic_frames_give_zero_on_groups(space):
    """u = dx/dt of the exponential coordinates x = log q: A = dexp(−x)⁻¹."""
    q = space.exp(jnp.linspace(-0.6, 1.0, space.dim))
    frame = lambda q: space.dexpinv(-space.log(q))
    gamma = jax.jit(lambda q: hamel_coefficients(frame, q, space))(q)
    close(gamma, np.zeros((space.dim,) * 3), np.float64, units=64)


ON_SPACES = [Euclidean(4), SO3(), SE3(), CASES[-1].space]
on_spaces = pytest.mark.parametrize("space", ON_SPACES, ids=lambda s: type(s).__name__)


@on_spaces
def test_contraction_is_the_tensor_contracted(space):
    """p_b γ^b_ac u^c = B^r_a G_r, and G does no work."""
    n = space.dim
    rng = np.random.default_rng(n)
    q = space.exp(jnp.asarray(rng.uniform(-1, 1, n)))
    p, v = jnp.asarray(rng.normal(size=(2, n)))
    frame = RandomFrame(n, seed=1)
    gamma, A = jax.jit(lambda q: (hamel_coefficients(frame, q, space), frame(q)))(q)
    G = jax.jit(lambda q: hamel_contraction(frame, q, p, v, space))(q)
    expected = jnp.einsum("b,bac,c->a", p, gamma, A @ v)
    close(jnp.linalg.solve(A.T, G), expected, np.float64, units=200)
    close(G @ v, 0.0, np.float64, units=200)
    close(gamma, -np.swapaxes(gamma, 1, 2), np.float64)


def test_contraction_on_rotations_is_the_published_coriolis_matrix():
    """C(v) v with C = −hat(M v) (From 2012, eq. 68), which is Ω × M Ω."""
    p, v = jnp.array([1.0, -2.0, 0.5]), jnp.array([0.3, 0.2, -0.7])
    G = hamel_contraction(lambda q: jnp.eye(3), SO3().identity(), p, v, SO3())
    close(G, -hat(p) @ v, np.float64, units=2)


def test_contraction_builds_no_tensor():
    n = 6
    frame, x = RandomFrame(n), jnp.ones(n)
    matrices = lambda q: jnp.eye(n) + jnp.outer(jnp.sin(q), jnp.cos(q))
    jaxpr = jax.make_jaxpr(lambda q: hamel_contraction(matrices, q, x, x))(x)
    ranks = [v.aval.ndim for equation in jaxpr.eqns for v in equation.outvars]
    assert max(ranks) == 2
    assert frame(x).shape == (n, n)


@pytest.mark.parametrize("space", [Euclidean(3), SO3()], ids=["Euclidean", "SO3"])
def test_jacobi_identity_of_frame_fields(space):
    """E_a γ^d_bc + γ^d_ae γ^e_bc, summed cyclically over a, b, c, is zero; γ is differentiable."""
    frame = RandomFrame(3, seed=3)
    q = space.exp(jnp.array([0.5, -0.2, 0.9]))

    @jax.jit
    def cyclic(q):
        gamma = hamel_coefficients(frame, q, space)
        slope = jax.jacfwd(lambda d: hamel_coefficients(frame, space.retract(q, d), space))
        along = jnp.einsum("dbcr,ra->dabc", slope(jnp.zeros(3)), jnp.linalg.inv(frame(q)))
        return along + jnp.einsum("dae,ebc->dabc", gamma, gamma)

    term = cyclic(q)
    total = term + jnp.einsum("dabc->dbca", term) + jnp.einsum("dabc->dcab", term)
    assert jnp.max(jnp.abs(term)) > 0.1
    close(total, np.zeros((3, 3, 3, 3)), np.float64, units=200)


def test_parameters_of_a_frame_are_differentiable_and_points_batch():
    """A = [[1, 0], [0, exp(k x)]] has γ^1_01 = −∂A^1_1/∂x B^0_0 B^1_1 = −k, and γ^1_10 = k."""

    def frame_of(k):
        return lambda q: jnp.diag(jnp.stack([jnp.ones_like(k), jnp.exp(k * q[0])]))

    coefficient = lambda k, q: hamel_coefficients(frame_of(k), q)[1, 0, 1]
    points = np.array([[0.0, 1.0], [0.5, -1.0]])
    values = jax.jit(jax.vmap(coefficient, in_axes=(None, 0)))(2.0, points)
    np.testing.assert_allclose(values, [-2, -2], rtol=1e-14)
    slope = jax.jit(jax.grad(coefficient))(2.0, points[1])
    np.testing.assert_allclose(slope, -1, rtol=1e-14)


def test_singular_frames_are_refused():
    with pytest.raises(ValueError, match=r"`frame\(q\)` is singular.*choose another frame"):
        hamel_coefficients(euler_body, jnp.array([0.3, 0.0, 0.2]))


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"`frame\(q\)` has shape \(2, 2\).*\(3, 3\)"):
        hamel_coefficients(lambda q: jnp.eye(2), jnp.zeros(3))
    with pytest.raises(ValueError, match=r"`q` has type tuple.*space="):
        hamel_coefficients(lambda q: jnp.eye(2), (jnp.zeros(1), jnp.zeros(1)))
    with pytest.raises(ValueError, match=r"`q` has a quaternion of norm 2.*space.normalise"):
        hamel_coefficients(SO3().Ad, jnp.array([2.0, 0, 0, 0]), SO3())


def test_frames_with_nan_are_refused():
    with pytest.raises(ValueError, match=r"(?s)`frame\(q\)` is .*finite"):
        hamel_coefficients(lambda q: jnp.full((2, 2), jnp.nan), jnp.zeros(2))


def test_a_matrix_is_no_frame_and_a_class_no_space():
    with pytest.raises(TypeError, match=r"`frame` is of type .*; it must be a callable"):
        hamel_coefficients(jnp.eye(2), jnp.zeros(2))
    with pytest.raises(TypeError, match=r"`frame\(q\)` is of type tuple; .*array \(2, 2\)"):
        hamel_coefficients(lambda q: (jnp.eye(2), 0.0), jnp.zeros(2))
    with pytest.raises(
        TypeError, match=r"`space` is the class SO3; it must be a space such as SO3\(\)"
    ):
        hamel_coefficients(lambda q: jnp.eye(3), jnp.zeros(4), SO3)
    with pytest.raises(ValueError, match="`pitch` is nan"):
        Helical(jnp.asarray(jnp.nan))
