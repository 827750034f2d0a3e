"""Groups given by generators: axioms against SciPy, the named groups, SL(2), and the selection matrices of subgroups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxhamel import System, _lapack, simulate
from jaxhamel.geometry import (
    SE2,
    SE3,
    SO2,
    SO3,
    Euclidean,
    Helical,
    MatrixGroup,
    Product,
    Schoenflies,
    hamel_coefficients,
    linear_first,
    selection_matrix,
)


def _twist(omega, v):
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = [[0, -omega[2], omega[1]], [omega[2], 0, -omega[0]], [-omega[1], omega[0], 0]]
    matrix[:3, 3] = v
    return matrix


TWISTS = np.stack([_twist(e[:3], e[3:]) for e in np.eye(6)])
SL2_GENERATORS = np.array([[[1.0, 0], [0, -1]], [[0.0, 1], [0, 0]], [[0.0, 0], [1, 0]]])
SL2 = MatrixGroup(SL2_GENERATORS)


@pytest.fixture
def rng():
    return np.random.default_rng(6)


def draw(rng, *shape):
    return jnp.asarray(rng.normal(size=shape))


@pytest.mark.parametrize(("generators", "size"), [(TWISTS, 0.6), (SL2_GENERATORS, 1.5)])
def test_axioms(rng, generators, size):
    """exp and log equal SciPy's, Ad and ad are conjugation and commutator, and dexp is the differential of exp."""
    space = MatrixGroup(generators)
    d1, d2, v = size * draw(rng, 3, space.dim)
    matrix = lambda d: np.tensordot(d, generators, 1)

    @jax.jit
    def everything(d1, d2, v):
        q, p = space.exp(d1), space.exp(d2)
        moved = jax.jvp(space.exp, (d1,), (v,))[1]
        return {
            "exp": q,
            "log": space.log(q),
            "local": space.local(q, space.retract(q, d2)),
            "Ad": space.hat(space.Ad(q) @ v) @ q - q @ space.hat(v),
            "body": space.velocity(q, moved) - space.dexp(-d1) @ v,
            "dexpinv": space.dexpinv(d1) @ (space.dexp(d1) @ v),
            "rate": space.velocity(p, space.rate(p, v)),
            "vee": space.vee(space.hat(v)),
            "inverse": space.compose(space.inverse(q), q),
        }

    found = everything(d1, d2, v)
    wanted = {
        "exp": scipy.linalg.expm(matrix(d1)),
        "log": d1,
        "local": d2,
        "Ad": np.zeros_like(generators[0]),
        "body": np.zeros(space.dim),
        "dexpinv": v,
        "rate": v,
        "vee": v,
        "inverse": np.eye(generators.shape[1]),
    }
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=2e-12, err_msg=name)
    commutator = matrix(d1) @ matrix(d2) - matrix(d2) @ matrix(d1)
    np.testing.assert_allclose(space.hat(space.ad(d1) @ d2), commutator, atol=1e-13)


def test_exp_of_large_and_small_increments():
    """exp is accurate from zero to a hundred turns, and has derivatives at zero."""
    turn = MatrixGroup([[[0.0, -1], [1, 0]]])
    exp = jax.jit(lambda delta: turn.exp(delta))
    for angle in (0.0, 1e-9, 3.0, 628.0):
        cos, sin = np.cos(angle), np.sin(angle)
        found = exp(jnp.array([angle]))
        np.testing.assert_allclose(found, [[cos, -sin], [sin, cos]], atol=1e-12)
    np.testing.assert_allclose(
        jax.jit(jax.jacrev(exp))(jnp.zeros(1))[..., 0], [[0, -1], [1, 0]], atol=1e-15
    )


@pytest.mark.parametrize(
    ("named", "generators"),
    [
        (SE3(), TWISTS),
        (SO3(), TWISTS[:3, :3, :3]),
        (SE2(), TWISTS[2:5]),
        (Schoenflies(), TWISTS[2:]),
    ],
    ids=["SE3", "SO3", "SE2", "X(z)"],
)
def test_named_groups_from_their_generators(rng, named, generators):
    """The generators of a named group give its structure constants and its Ad."""
    space = MatrixGroup(generators)
    c = named.structure_constants()
    np.testing.assert_allclose(space.structure_constants(), c, atol=1e-15)
    both = jax.jit(lambda delta: [(g.Ad(g.exp(delta)), g.dexp(delta)) for g in (space, named)])
    got, wanted = both(draw(rng, named.dim))
    np.testing.assert_allclose(got[0], wanted[0], atol=1e-13)
    np.testing.assert_allclose(got[1], wanted[1], atol=1e-13)


class LeftInvariant(System):
    """½ vᵀ v on SL(2): geodesics of a left-invariant metric."""

    space = SL2

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v)


def test_geodesics_of_sl2_keep_their_determinant_and_spatial_momentum():
    """`simulate` on a group without a class of its own keeps det q = 1 and Ad*_{q⁻¹} v."""
    found = simulate(
        LeftInvariant(), jnp.eye(2), jnp.array([0.3, 0.5, -0.9]), jnp.array([0.0, 2.0]), dt=0.02
    )
    np.testing.assert_allclose(np.linalg.det(found.q), 1, rtol=0, atol=1e-13)
    momenta = [np.linalg.inv(SL2.Ad(q)).T @ v for q, v in zip(found.q, found.u, strict=True)]
    assert np.max(np.abs(found.u[1] - found.u[0])) > 0.1
    np.testing.assert_allclose(momenta[1], momenta[0], rtol=0, atol=1e-7)


def test_generators_are_parameters():
    """The derivative by a generator is that by the pitch of a screw in exp."""

    def height(pitch):
        screw = jnp.asarray(TWISTS[2]) + pitch * jnp.asarray(TWISTS[5])
        return MatrixGroup(screw[None]).exp(jnp.array([2.0]))[2, 3]

    np.testing.assert_allclose(jax.jit(jax.grad(height))(0.3), 2.0, rtol=1e-14)


# --- selection matrices ---------------------------------------------------------------------------


def rows(*ones):
    return np.eye(6)[:, list(ones)]


@pytest.mark.skipif(
    not _lapack.CAN_WAIT_FOR_EVER, reason="this jaxlib computes a batch in one thread"
)
def test_no_batched_library_call():
    """Two batched LAPACK calls at the same time may deadlock, so each call takes one matrix."""

    def everything(q, v):
        moved = SL2.inverse(q), SL2.Ad(q), SL2.log(q), SL2.velocity(q, q)
        frame = lambda q: jnp.eye(3, dtype=q.dtype)
        return *moved, SL2.dexpinv(v), hamel_coefficients(frame, q, SL2, form="bracket")

    shapes = jax.ShapeDtypeStruct((77, 2, 2), float), jax.ShapeDtypeStruct((77, 3), float)
    text = jax.jit(jax.vmap(everything)).lower(*shapes).as_text()
    calls = [line for line in text.splitlines() if "@lapack" in line]
    assert len(calls) >= 6
    assert not [line for line in calls if "tensor<77x" in line]


def test_selection_matrices_of_the_paper():
    """(62), (77), (88): rows and columns in the order (v, ω)."""
    papers = {
        "SO3": (SO3(), [0, 1, 2], rows(3, 4, 5)),
        "SE2": (SE2(), [1, 2, 0], rows(0, 1, 5)),
        "X(z)": (Schoenflies(), [1, 2, 3, 0], rows(0, 1, 2, 5)),
        "SE3": (SE3(), [3, 4, 5, 0, 1, 2], np.eye(6)),
        "R3": (Euclidean(3), [0, 1, 2], rows(0, 1, 2)),
        "SO2": (SO2(), [0], rows(5)),
    }
    for name, (space, order, printed) in papers.items():
        H = linear_first(selection_matrix(space).T).T[:, np.array(order)]
        np.testing.assert_array_equal(H, printed, err_msg=name)
    screw = selection_matrix(Helical(jnp.asarray(0.3)))
    np.testing.assert_array_equal(screw[:, 0], [0, 0, 1, 0, 0, 0.3])


def test_selection_keeps_brackets(rng):
    """H [x, y] = [H x, H y]: subgroups by name and by generators."""
    tilted = MatrixGroup(np.stack([TWISTS[0] + 0.2 * TWISTS[3], TWISTS[4], TWISTS[5]]))
    for space in (SO3(), SE2(), Schoenflies(), Euclidean(2), tilted):
        H, (x, y) = selection_matrix(space), draw(rng, 2, space.dim)
        wanted = SE3().ad(H @ x) @ (H @ y)
        np.testing.assert_allclose(H @ (space.ad(x) @ y), wanted, atol=1e-14)
    np.testing.assert_allclose(tilted.hat(x), np.tensordot(H @ x, TWISTS, 1), atol=1e-15)


def test_no_subgroup_no_selection():
    with pytest.raises(TypeError, match="`space` is Product; it must be a subgroup"):
        selection_matrix(Product(SO3(), Euclidean(3)))


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generators", "message"),
    [
        (np.ones((2, 3)), r"`generators` has shape \(2, 3\).*\(n, d, d\)"),
        (np.ones((1, 2, 3)), r"`generators` has shape \(1, 2, 3\)"),
        (np.full((1, 1, 1), np.nan), "`generators` .*finite"),
        (np.stack([TWISTS[0], 2 * TWISTS[0]]), "`generators` are linearly dependent"),
        (TWISTS[:2], r"commutator of generators\[0\] and generators\[1\]"),
    ],
)
def test_messages(generators, message):
    with pytest.raises(ValueError, match=message):
        MatrixGroup(generators)


def test_elements_are_checked():
    with pytest.raises(ValueError, match=r"`q` has shape \(3, 3\).*\(2, 2\)"):
        SL2.check(jnp.eye(3))
    with pytest.raises(ValueError, match="`q` is a singular matrix"):
        SL2.check(jnp.ones((2, 2)))


def test_single_precision(float32):
    space = MatrixGroup(SL2_GENERATORS)
    made = jax.eval_shape(lambda d: (space.exp(d), space.rate(space.exp(d), d)), jnp.ones(3))
    assert all(part.dtype == jnp.float32 for part in made)
