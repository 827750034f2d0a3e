"""Three forms of the Hamel coefficients, the frames of rigid bodies, transposition: Müller 2021, (11)–(18), (42)–(83)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxhamel.geometry import (
    SE2,
    SE3,
    SO3,
    Euclidean,
    Product,
    body_frame,
    euler_frame,
    hamel_coefficients,
    hybrid_frame,
    mixed_frame,
    spatial_frame,
)
from tests.geometry.cases import close
from tests.one_by_one import of_each

FORMS = ("exterior", "alternated", "bracket")
EPSILON = np.zeros((3, 3, 3))
for _i, _j, _k in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]:
    EPSILON[_i, _j, _k], EPSILON[_i, _k, _j] = 1, -1


def random_frame(weights, space):
    """A(q) = 1 + ½ Σ_f W_f sin(storage coordinates + f)/n, with `weights` (n, n, storage) in (−1, 1)."""

    def frame(q):
        x = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(q)])
        waves = jnp.sin(x + jnp.arange(1.0, x.size + 1))
        return jnp.eye(space.dim) + 0.5 * weights @ waves / space.dim

    return frame


SPACES = {
    "Euclidean": (Euclidean(3), 3),
    "SO3": (SO3(), 4),
    "SE2xR": (Product(SE2(), Euclidean(1)), 4),
}


def programs(space):
    """The three forms and the family's transposition, compiled once for any frame."""

    def forms(weights, q):
        frame = random_frame(weights, space)
        return [hamel_coefficients(frame, q, space, form=form) for form in FORMS]

    def transposition(weights, q, x, y, z):
        """(dδπ − δdπ)/dt at t = ε = 0 of the motion q·exp(tx)·exp(εy + tεz), and (dπ/dt, δπ)."""
        frame = random_frame(weights, space)

        def along(t, e):
            return space.retract(space.retract(q, t * x), e * y + t * e * z)

        def pi(t, e, dt, de):
            where, rate = jax.jvp(along, (t, e), (dt, de))
            return frame(where) @ space.velocity(where, rate)

        one, no = jnp.ones(()), jnp.zeros(())
        d_delta = jax.jvp(lambda t: pi(t, no, no, one), (no,), (one,))[1]
        delta_d = jax.jvp(lambda e: pi(no, e, one, no), (no,), (one,))[1]
        return d_delta - delta_d, pi(no, no, one, no), pi(no, no, no, one)

    return jax.jit(forms), jax.jit(transposition), jax.jit(space.exp)


COMPILED = {}


def compiled(name):
    if name not in COMPILED:
        COMPILED[name] = programs(SPACES[name][0])
    return COMPILED[name]


@pytest.mark.parametrize("name", SPACES)
@given(seed=st.integers(0, 10**6))
def test_three_forms_agree(name, seed):
    """(12), (16) and (17) on random frames, and (11): (dδπ^a − δdπ^a)/dt = γ^a_cb u^b δπ^c along random families."""
    space, storage = SPACES[name]
    n, rng = space.dim, np.random.default_rng(seed)
    weights = jnp.asarray(rng.uniform(-1, 1, (n, n, storage)))
    forms, transposition, exp = compiled(name)
    q = exp(jnp.asarray(rng.uniform(-1, 1, n)))
    exterior, *others = forms(weights, q)
    assert np.max(np.abs(exterior)) > 1e-2
    for other in others:
        np.testing.assert_allclose(other, exterior, rtol=0, atol=1e-12)
    x, y, z = jnp.asarray(rng.normal(size=(3, n)))
    left, u, delta = transposition(weights, q, x, y, z)
    right = np.einsum("acb,b,c->a", exterior, u, delta)
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-11)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match=r"`form` is 'lie'; it must be one of 'exterior', 'alt"):
        hamel_coefficients(jnp.diag, jnp.ones(2), form="lie")


def test_forms_in_single_precision(float32):
    q = SO3().exp(jnp.array([0.3, -0.5, 0.2], jnp.float32))
    frame = spatial_frame(SO3())
    forms = jax.jit(lambda q: [hamel_coefficients(frame, q, SO3(), form=f) for f in FORMS])
    for gamma in forms(q):
        assert gamma.dtype == jnp.float32
        close(gamma, -EPSILON, np.float32, units=64)


# --- the frames of rigid bodies -------------------------------------------------------------------


def rotations(sign):
    """sign·ε_kij in the angular block, and zero if an index is above three: (83) and its mixed twin."""
    table = np.zeros((6, 6, 6))
    table[:3, :3, :3] = sign * EPSILON
    return table


def screws():
    """c_kij of (165): [ω, ω'] = ω × ω', [ω, v'] = ω × v', [v, ω'] = v × ω'."""
    table = rotations(1)
    table[3:, :3, 3:] = table[3:, 3:, :3] = EPSILON
    return table


TABLES = {
    # name: (frame, space, closed form of γ)
    "SO3-body (47)": (body_frame, SO3(), EPSILON),
    "SO3-spatial (55)": (spatial_frame, SO3(), -EPSILON),
    "SO3-Euler": (euler_frame, SO3(), np.zeros((3, 3, 3))),
    "SE3-body (72)": (body_frame, SE3(), screws()),
    "SE3-spatial (82)": (spatial_frame, SE3(), -screws()),
    "SE3-hybrid (83)": (hybrid_frame, SE3(), rotations(-1)),
    "SE3-mixed": (mixed_frame, SE3(), rotations(1)),
    "SE3-Euler": (euler_frame, SE3(), np.zeros((6, 6, 6))),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_rigid_bodies(name):
    """γ of each representation is constant and agrees by all three forms."""
    make, space, expected = TABLES[name]
    frame, rng = make(space), np.random.default_rng(3)

    @of_each
    def tables(q):
        return [hamel_coefficients(frame, q, space, form=form) for form in FORMS]

    q = jax.jit(jax.vmap(space.exp))(jnp.asarray(rng.uniform(-1, 1, (3, space.dim))))
    for table in tables(q):
        np.testing.assert_allclose(table, np.broadcast_to(expected, table.shape), atol=1e-11)


def pose(t):
    """A motion R = R_z(φ) R_x(θ) R_z(ψ), p(t), as matrices, analytic in t."""
    phi, theta, psi = 0.3 + 0.7 * t, 0.9 - 0.4 * t, -0.5 + 1.1 * t

    def turn(angle, axis):
        generator = -EPSILON[axis]
        return np.eye(3) + np.sin(angle) * generator + (1 - np.cos(angle)) * (generator @ generator)

    rotation = turn(phi, 2) @ turn(theta, 0) @ turn(psi, 2)
    return rotation, np.array([np.sin(t), 0.2 + t, 0.4 - t * t])


def vee(matrix):
    return np.array([matrix[2, 1], matrix[0, 2], matrix[1, 0]])


def test_what_the_quasi_velocities_are():
    """Against matrices and their time derivatives: Ω = (RᵀṘ)^∨, ω = (ṘRᵀ)^∨, ṗ, Rᵀṗ, ṗ − ω × p, Euler's rates."""
    (rotation, p), step = pose(0.0), pose(1e-30j)
    rate, p_dot = (x.imag / 1e-30 for x in step)
    half = 0.5 * np.sqrt(1 + np.trace(rotation))
    q = jnp.asarray(np.concatenate([[half], vee(rotation - rotation.T) / (4 * half), p]))
    in_body, in_space = vee(rotation.T @ rate), vee(rate @ rotation.T)
    v = jnp.asarray(np.concatenate([in_body, rotation.T @ p_dot]))
    expected = {
        body_frame: v,
        spatial_frame: np.concatenate([in_space, p_dot - np.cross(in_space, p)]),
        hybrid_frame: np.concatenate([in_space, p_dot]),
        mixed_frame: np.concatenate([in_body, p_dot]),
        euler_frame: np.concatenate([[0.7, -0.4, 1.1], p_dot]),
    }
    for make, u in expected.items():
        np.testing.assert_allclose(make(SE3())(q) @ v, u, atol=1e-13, err_msg=make.__name__)
    for make in (body_frame, spatial_frame, euler_frame):
        on_rotations = make(SO3())(q[:4]) @ v[:3]
        np.testing.assert_allclose(on_rotations, expected[make][:3], atol=1e-13)


@pytest.mark.parametrize("make", [hybrid_frame, mixed_frame, euler_frame])
def test_frames_of_other_spaces_are_refused(make):
    with pytest.raises(TypeError, match=r"`space` is Euclidean.*SE3\(\).*function of q"):
        make(Euclidean(3))
