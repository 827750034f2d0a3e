"""From 2012: the Coriolis matrices of tables 1 and 2, theorem 5.1, and the formulas that the paper corrects or misprints."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    SE2,
    SE3,
    SO2,
    SO3,
    Euclidean,
    Helical,
    MatrixGroup,
    Schoenflies,
    angular_first,
    hamel_coefficients,
    hat,
    linear_first,
    linear_first_matrix,
    selection_matrix,
)
from jaxhamel.mechanics import (
    System,
    acceleration,
    body_acceleration,
    coriolis_matrix,
    euler_poincare,
    velocity_transformation,
)

coriolis, body_rate = eqx.filter_jit(coriolis_matrix), eqx.filter_jit(body_acceleration)


@pytest.fixture
def rng():
    return np.random.default_rng(12)


def draw(rng, *shape):
    return jnp.asarray(rng.normal(size=shape))


def mass_matrix(rng, n):
    root = np.eye(n) + 0.4 * rng.normal(size=(n, n))
    return jnp.asarray(root @ root.T)


# --- the tables, as printed: (v, ω), (u, v, r), (u, v, w, r) --------------------------------------


def spatial(p):
    """Table 1, SE(3): ad~_p."""
    return np.array(
        [
            [0, 0, 0, 0, p[2], -p[1]],
            [0, 0, 0, -p[2], 0, p[0]],
            [0, 0, 0, p[1], -p[0], 0],
            [0, p[2], -p[1], 0, p[5], -p[4]],
            [-p[2], 0, p[0], -p[5], 0, p[3]],
            [p[1], -p[0], 0, p[4], -p[3], 0],
        ]
    )


def schoenflies(p):
    """Table 1, X(z): ad~_p."""
    return np.array([[0, 0, 0, -p[1]], [0, 0, 0, p[0]], [0, 0, 0, 0], [p[1], -p[0], 0, 0]])


def planar(p):
    """Table 1, SE(2): ad~_p, eq. (83)."""
    return np.array([[0, 0, -p[1]], [0, 0, p[0]], [p[1], -p[0], 0]])


TABLE = {  # group: its space, where the paper's components are in the space's velocity, C(p)
    "SE3": (SE3(), [3, 4, 5, 0, 1, 2], spatial),
    "X(z)": (Schoenflies(), [1, 2, 3, 0], schoenflies),
    "SE2": (SE2(), [1, 2, 0], planar),
    "SO3": (SO3(), [0, 1, 2], lambda p: -np.asarray(hat(p))),  # (68), table 2
    "R3": (Euclidean(3), [0, 1, 2], lambda p: np.zeros((3, 3))),
    "R2": (Euclidean(2), [0, 1], lambda p: np.zeros((2, 2))),
    "R": (Euclidean(1), [0], lambda p: np.zeros((1, 1))),
    "H": (Helical(0.3), [0], lambda p: np.zeros((1, 1))),
    "SO2": (SO2(), [0], lambda p: np.zeros((1, 1))),
}


@pytest.mark.parametrize("name", TABLE)
def test_tables_of_coriolis_matrices(rng, name):
    """C of (57) by autodiff is the printed matrix and c^k_ij p_k; C v = −ad_vᵀ p (theorem 5.1); C is skew."""
    space, order, printed = TABLE[name]
    p, v = draw(rng, 2, space.dim)
    matrix = coriolis(space, p)
    np.testing.assert_allclose(
        matrix[np.ix_(order, order)], printed(p[jnp.array(order)]), atol=1e-15
    )
    by_brackets = np.einsum("kij,k->ij", space.structure_constants(), p)
    np.testing.assert_allclose(matrix, by_brackets, atol=1e-15)
    np.testing.assert_allclose(matrix @ v, -np.asarray(space.ad(v)).T @ p, atol=1e-14)
    np.testing.assert_allclose(matrix, -matrix.T, atol=1e-15)


def test_linear_first_gives_the_papers_order(rng):
    """Table 1, SE(3) is C after the change of order (ω, v) → (v, ω)."""
    p = draw(rng, 6)
    matrix = linear_first_matrix(coriolis(SE3(), angular_first(p)))
    np.testing.assert_allclose(matrix, spatial(p), atol=1e-15)


def test_velocity_transformation_is_the_series(rng):
    """(29): S = 1 − ½ ad + ⅙ ad² − …, on SE(3)."""
    phi = 0.8 * draw(rng, 6)
    ad, term = np.asarray(SE3().ad(phi)), np.eye(6)
    series = np.zeros((6, 6))
    for k in range(1, 40):
        series = series + term
        term = -term @ ad / (k + 1)
    np.testing.assert_allclose(velocity_transformation(SE3(), phi), series, atol=1e-13)


@pytest.mark.parametrize("name", ["SE3", "X(z)", "SO3"])
def test_any_phi_gives_the_same_matrix(rng, name):
    """(46), (47), (54): γ of S(φ) are the structure constants at every φ, so φ = 0 is chosen without loss of
    generality."""
    space = TABLE[name][0]
    phi, p = 0.7 * draw(rng, 2, space.dim)
    gamma = hamel_coefficients(lambda phi: velocity_transformation(space, phi), phi)
    np.testing.assert_allclose(gamma, space.structure_constants(), atol=1e-12)
    by_54 = jnp.einsum("sij,s->ij", gamma, p)
    np.testing.assert_allclose(by_54, coriolis(space, p), atol=1e-12)


# --- the equations of motion ----------------------------------------------------------------------


class Body(System):
    """½ vᵀ M v on any group, and a constant force."""

    space: object
    inertia: jax.Array
    torque: jax.Array

    def lagrangian(self, t, q, v):
        return 0.5 * v @ self.inertia @ v

    def force(self, t, q, v, control):
        return self.torque


SL2 = MatrixGroup([[[1.0, 0], [0, -1]], [[0.0, 1], [0, 0]], [[0.0, 0], [1, 0]]])
HEISENBERG = MatrixGroup(np.eye(9).reshape(9, 3, 3)[[1, 5, 2]])
SPACES = {"SE3": SE3(), "X(z)": Schoenflies(), "SL2": SL2, "Heisenberg": HEISENBERG}


@pytest.mark.parametrize("name", SPACES)
def test_body_acceleration_is_every_other_route(rng, name):
    """M v̇ + C(v) v = τ equals Boltzmann–Hamel of the Lagrangian on the group and Euler–Poincaré, also on groups given
    by generators."""
    space = SPACES[name]
    inertia, (v, torque) = mass_matrix(rng, space.dim), draw(rng, 2, space.dim)
    lagrangian = lambda xi, a: 0.5 * xi @ inertia @ xi
    both = jax.jit(
        lambda v, torque: (
            body_acceleration(space, inertia, v, torque),
            euler_poincare(lagrangian, space, v, force=torque)[0],
        )
    )
    found, reduced = both(v, torque)
    q = jax.jit(lambda delta: space.exp(delta))(draw(rng, space.dim))
    body = Body(space, inertia, torque)
    wanted = acceleration(body, 0.0, q, v, route="boltzmann-hamel")
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found, reduced, rtol=1e-11, atol=1e-12)
    power = v @ inertia @ found  # C does no work
    np.testing.assert_allclose(power, v @ torque, rtol=1e-11)


def test_rigid_body_written_out(rng):
    """(2)–(4), the six equations of section 4.2, (87) and (96), with M diagonal."""
    m, ix, iy, iz = 1.3, 0.4, 0.5, 0.7
    u, v, w, p, q, r = rng.normal(size=6)
    twist, diagonal = jnp.array([u, v, w, p, q, r]), jnp.array([m, m, m, ix, iy, iz])
    rate = body_rate(SE3(), jnp.diag(angular_first(diagonal)), angular_first(twist))
    wanted = [
        m * r * v - m * q * w,
        -m * r * u + m * p * w,
        m * q * u - m * p * v,
        iy * r * q - iz * q * r,
        -ix * r * p + iz * p * r,
        ix * q * p - iy * p * q,
    ]
    np.testing.assert_allclose(diagonal * linear_first(rate), wanted, rtol=1e-12)
    printed = ix * q * p - iy * r * q  # section 4.2, last equation: not Euler's (4)
    assert abs(printed - wanted[5]) > 0.1
    plane = body_rate(SE2(), jnp.diag(jnp.array([iz, m, m])), jnp.array([r, u, v]))
    np.testing.assert_allclose(plane, [0, r * v, -r * u], atol=1e-14)
    pick = body_rate(Schoenflies(), jnp.diag(jnp.array([iz, m, m, m])), jnp.array([r, u, v, w]))
    np.testing.assert_allclose(pick, [0, r * v, -r * u, 0], atol=1e-14)


def test_a_subgroup_moves_as_the_body_it_selects(rng):
    """M = Hᵀ I_b H (60): C of the subgroup is Hᵀ C_SE3(I_b H v) H."""
    body = mass_matrix(rng, 6)
    for space in (SE2(), SO3(), Schoenflies(), Helical(0.3), SO2(), Euclidean(3)):
        H = selection_matrix(space)
        v = draw(rng, space.dim)
        whole = H.T @ coriolis(SE3(), body @ H @ v) @ H
        np.testing.assert_allclose(coriolis(space, H.T @ body @ H @ v), whole, atol=1e-13)


def test_gradient_of_the_acceleration(rng):
    """∂(w·v̇)/∂M, reverse = forward = that of −M⁻¹C(v)v written by brackets, on SE(3)."""
    inertia, (v, weights) = mass_matrix(rng, 6), draw(rng, 2, 6)

    def by_57(M):
        return weights @ body_acceleration(SE3(), 0.5 * (M + M.T), v)

    def by_brackets(M):
        M = 0.5 * (M + M.T)
        return weights @ jnp.linalg.solve(M, SE3().ad(v).T @ (M @ v))

    derivatives = (jax.grad(by_57), jax.jacfwd(by_57), jax.grad(by_brackets))
    reverse, forward, wanted = jax.jit(lambda M: [of(M) for of in derivatives])(inertia)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(reverse, wanted, rtol=1e-9, atol=1e-10)


# --- what is wrong in print -----------------------------------------------------------------------


@eqx.filter_jit
def faulty_matrix(space, momentum):
    """(33), (35): C_ij = Σ_k (∂S_ji/∂φ_k − ∂S_jk/∂φ_i)|₀ p_k, the formula that the paper corrects."""
    slope = jax.jacfwd(lambda phi: velocity_transformation(space, phi))(jnp.zeros_like(momentum))
    return jnp.einsum("jik,k->ij", slope, momentum) - jnp.einsum("jki,k->ij", slope, momentum)


def test_the_corrected_formula_was_wrong(rng):
    """(33) leads to (36), −ad_{Mv}ᵀ. On SO(3) its product with v has the wrong sign; on SE(3) it does work."""
    p, v = draw(rng, 2, 3)
    np.testing.assert_allclose(faulty_matrix(SO3(), p), -SO3().ad(p).T, atol=1e-15)  # (36)
    right = coriolis(SO3(), p) @ v
    np.testing.assert_allclose(right, np.cross(v, p), atol=1e-15)
    np.testing.assert_allclose(faulty_matrix(SO3(), p) @ v, -right, atol=1e-15)
    p, v = jnp.array([0.0, 0, 0, 1, 0, 0]), jnp.array([0.0, 0, 1, 0, 1, 0])
    np.testing.assert_allclose(faulty_matrix(SE3(), p), -SE3().ad(p).T, atol=1e-15)
    assert abs(v @ faulty_matrix(SE3(), p) @ v) == 1.0  # in W; the right matrix does no work
    assert abs(v @ coriolis(SE3(), p) @ v) < 1e-15


def spin_up(matrix_of):
    """Ω̇ of a body with the moments 1, 2, 3 at Ω = (1, 1, 1)."""
    moments = jnp.array([1.0, 2.0, 3.0])
    v = jnp.ones(3)
    return -(matrix_of(SO3(), moments * v) @ v) / moments


def test_the_corrected_formula_in_numbers():
    """Euler: (I_2 − I_3)Ω_2Ω_3/I_1, …: (−1, 1, −1/3); the faulty formula gives the opposite."""
    np.testing.assert_allclose(spin_up(coriolis), [-1, 1, -1 / 3], rtol=1e-14)
    np.testing.assert_allclose(spin_up(faulty_matrix), [1, -1, 1 / 3], rtol=1e-14)


def test_index_of_49():
    """(49), (50) print ∂S_sj/∂φ_l for ∂S_sm/∂φ_l: the same at φ = 0, another matrix anywhere else; and (49) lacks v_k."""
    space, p = SO3(), jnp.array([0.3, -0.5, 0.8])

    def both(phi):
        S = lambda phi: velocity_transformation(space, phi)
        slope, B = jax.jacfwd(S)(phi), jnp.linalg.inv(S(phi))  # [s, l, m] = ∂S_sl/∂φ_m
        first = jnp.einsum("li,slm,mj,s->ij", B, slope, B, p)
        right = first - jnp.einsum("li,sml,mj,s->ij", B, slope, B, p)
        printed = first - jnp.einsum("li,sjl,mj,s->ij", B, slope, B, p)
        return right, printed

    right, printed = both(jnp.zeros(3))
    np.testing.assert_allclose(printed, right, atol=1e-15)
    right, printed = both(jnp.array([0.4, 0.1, -0.6]))
    np.testing.assert_allclose(right, coriolis(space, p), atol=1e-14)
    assert np.max(np.abs(printed - right)) > 0.05


def test_sign_of_so3_in_table_1(rng):
    """Table 1 prints ad~_p = +p̂ for SO(3); (68) and table 2 have −p̂, which is right: +p̂ v = p × v turns Euler round."""
    p, v = draw(rng, 2, 3)
    table_1 = np.array([[0, -p[2], p[1]], [p[2], 0, -p[0]], [-p[1], p[0], 0]])
    np.testing.assert_allclose(coriolis(SO3(), p), -table_1, atol=1e-15)
    np.testing.assert_allclose(coriolis(SO3(), p) @ v, np.cross(v, p), atol=1e-15)


def test_sign_of_79_and_90(rng):
    """(79) and (90) print S_r = +½ ad_φ; S begins with −½ ad_φ, (112), as (80) and (91) use it."""
    for space in (SE2(), Schoenflies()):
        slope = jax.jacfwd(lambda phi, space=space: velocity_transformation(space, phi))
        phi = draw(rng, space.dim)
        first = slope(jnp.zeros(space.dim)) @ phi
        np.testing.assert_allclose(first, -0.5 * space.ad(phi), atol=1e-15)
        assert np.max(np.abs(first - 0.5 * space.ad(phi))) > 0.1


def test_indices_of_103(rng):
    """(103): (ad_X Y)_1 with the indices 2, 3 and 5, 6 paired wrongly; from (8) it is −X_6Y_2 + X_5Y_3 − X_3Y_5 + X_2Y_6."""
    X, Y = rng.normal(size=(2, 6))
    bracket = linear_first(SE3().ad(angular_first(jnp.asarray(X))) @ angular_first(jnp.asarray(Y)))
    right = -X[5] * Y[1] + X[4] * Y[2] - X[2] * Y[4] + X[1] * Y[5]
    printed = -X[2] * Y[1] + Y[2] * X[1] - X[5] * Y[2] + Y[5] * X[4]
    np.testing.assert_allclose(bracket[0], right, rtol=1e-13)
    assert abs(printed - right) > 0.1


def slope_at_zero(space):
    """∂S_ki/∂φ_j at φ = 0."""
    slope = jax.jacfwd(lambda phi: velocity_transformation(space, phi))
    return jax.jit(slope)(np.zeros(space.dim))


def test_lemmas_of_section_5(rng):
    """(98): x̄ y = ȳ x with ȳ_ij = Σ_k ∂x̄_ik/∂x_j y_k. (101): the two terms of (57) are the same. (111) with its sign."""
    space, (x, y) = SE3(), draw(rng, 2, 6)
    of_ad = jax.jit(jax.jacfwd(space.ad))(x)
    swapped = jnp.einsum("ikj,k->ij", of_ad, y)
    np.testing.assert_allclose(space.ad(x) @ y, swapped @ x, atol=1e-14)
    slope = slope_at_zero(space)
    np.testing.assert_allclose(
        2 * jnp.einsum("kij,k->ij", slope, x), coriolis(space, x), atol=1e-15
    )
    transposed = jnp.einsum("kij,k->ij", of_ad, y)
    np.testing.assert_allclose(-transposed, coriolis(space, y), atol=1e-15)


@pytest.mark.parametrize("name", ["SO3", "SE3", "SE2", "X(z)"])
def test_the_two_slopes_of_57(rng, name):
    """(65)–(67), (79)–(81), (90)–(92): Σ_k ∂S_ki/∂φ_j p_k = ½ C and Σ_k ∂S_kj/∂φ_i p_k = −½ C, C the printed matrix."""
    space, order, printed = TABLE[name]
    order = np.array(order)
    p = draw(rng, space.dim)
    slope = slope_at_zero(space)
    first = np.einsum("kij,k->ij", slope, p)[np.ix_(order, order)]
    second = np.einsum("kji,k->ij", slope, p)[np.ix_(order, order)]
    half = 0.5 * printed(p[order])
    np.testing.assert_allclose(first, half, atol=1e-15)
    np.testing.assert_allclose(second, -half, atol=1e-15)
    phi = draw(rng, space.dim)  # (65), (79), (90) with their minus: S begins with −½ ad_φ
    np.testing.assert_allclose(slope @ phi, -0.5 * space.ad(phi), atol=1e-15)


def test_single_precision(float32):
    rate = jax.eval_shape(lambda v: body_acceleration(SE3(), jnp.eye(6), v), jnp.ones(6))
    assert rate.dtype == jnp.float32
