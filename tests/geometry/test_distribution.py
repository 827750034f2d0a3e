"""Growth vectors and integrability of constraints, against published ones and by two methods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    SE2,
    SO3,
    Euclidean,
    Product,
    distribution,
    frobenius,
    hamel_coefficients,
    lie_bracket,
    quaternion_matrix,
)

BALL = Product(SO3(), Euclidean(2))
BALL_AT = (SO3().exp(jnp.asarray([0.4, -0.7, 0.9])), jnp.asarray([0.3, 1.2]))


def ball(q):
    """ẋ = R ω_y, ẏ = −R ω_x with the spatial angular velocity ω = R(q) Ω; the ball may spin about the vertical."""
    rotation, radius = quaternion_matrix(q[0]), 0.4
    rows = jnp.stack([-radius * rotation[1], radius * rotation[0]])
    return jnp.concatenate([rows, jnp.eye(2)], axis=1)


def ball_without_spin(q):
    spin = jnp.concatenate([quaternion_matrix(q[0])[2], jnp.zeros(2)])
    return jnp.concatenate([ball(q), spin[None]])


def disk(q):
    """A rolling disk (x, y, heading φ, roll θ): ẋ = R θ̇ cos φ, ẏ = R θ̇ sin φ."""
    zero = jnp.zeros_like(q[0])
    return jnp.stack(
        [
            jnp.stack([zero + 1, zero, zero, -0.5 * jnp.cos(q[2])]),
            jnp.stack([zero, zero + 1, zero, -0.5 * jnp.sin(q[2])]),
        ]
    )


def sleigh(q):
    """A blade without sideways velocity: v_y = 0 in the body, on SE(2)."""
    return jnp.asarray([[0.0, 0.0, 1.0]])


def sphere(q):
    """q·q̇ = 0, which confines q to a sphere, multiplied by a function so that it is no gradient."""
    return (jnp.exp(q[1]) * q)[None]


def mixed(q):
    """ż = y ẋ (contact), and a hidden constant of motion w + x z, in (x, y, z, w)."""
    contact = jnp.stack([-q[1], 0 * q[0], 0 * q[0] + 1, 0 * q[0]])
    total = jax.grad(lambda q: q[3] + q[0] * q[2] + jnp.sin(q[1]))(q)
    return jnp.stack([contact + q[3] * total, (2 + q[0]) * total])


def trailer(q):
    """A car with a trailer, (x, y, heading, trailer's heading): growth (2, 3, 4), two constraints."""
    s, c = jnp.sin, jnp.cos
    zero = jnp.zeros_like(q[0])
    first = jnp.stack([s(q[2]), -c(q[2]), zero, zero])
    pull = s(q[2] - q[3])
    second = jnp.stack([c(q[2]) * pull, s(q[2]) * pull, zero, zero - 1.0])
    return jnp.stack([first, second])


GENERIC = jnp.asarray([0.3, 0.8, -0.4, 0.6])
KNOWN = {
    # name: (constraints, q, space, growth, words)
    "ball": (ball, BALL_AT, BALL, (3, 5), "completely nonholonomic"),
    "ball-no-spin": (ball_without_spin, BALL_AT, BALL, (2, 3, 5), "completely nonholonomic"),
    "disk": (disk, GENERIC, None, (2, 3, 4), "completely nonholonomic"),
    "sleigh": (sleigh, GENERIC[:3], SE2(), (2, 3), "completely nonholonomic"),
    "trailer": (trailer, GENERIC, None, (2, 3, 4), "completely nonholonomic"),
    "sphere": (sphere, GENERIC[:3], None, (2, 2), "holonomic: all 1 constraints integrate"),
    "mixed": (mixed, GENERIC, None, (2, 3, 3), "1 of 2 constraints integrate, motion stays on "),
}
by_name = pytest.mark.parametrize("name", KNOWN)


@by_name
def test_growth(name):
    """Ball (3, 5) and without spin (2, 3, 5); disk (2, 3, 4); sleigh (2, 3) (Bloch 2003; Murray,
    Li and Sastry 1994, chapter 8)."""
    constraints, q, space, growth, words = KNOWN[name]
    result = distribution(constraints, q, space)
    assert result.growth == growth
    assert words in str(result)
    assert result.regular
    assert result.holonomic == (name == "sphere")
    assert result.completely_nonholonomic == (growth[-1] == result.dimension)
    assert (result.curvature < 1e-12) == result.holonomic


@pytest.mark.parametrize("name", ["ball", "mixed"])
def test_frame_independence(name):
    """Constraint rows mixed and scaled by functions of q define the same distribution: the same
    growth, the same curvature in orthonormal directions."""
    constraints, q, space, growth, _ = KNOWN[name]

    def mixed_rows(q):
        x = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(q))
        rows = constraints(q)
        m = rows.shape[0]
        return 1e-3 * (jnp.eye(m) * jnp.exp(x) + jnp.sin(x + jnp.arange(1.0 * m))[:, None]) @ rows

    before, after = distribution(constraints, q, space), distribution(mixed_rows, q, space)
    assert after.growth == growth
    np.testing.assert_allclose(
        np.linalg.norm(_singular_values(mixed_rows, q, space)),
        np.linalg.norm(_singular_values(constraints, q, space)),
        rtol=1e-9,
        atol=1e-12,
    )
    assert before.holonomic == after.holonomic


def _singular_values(constraints, q, space):
    """Singular values of the tensor γ for orthonormal rows, which do not depend on the basis."""
    gamma = np.asarray(frobenius(constraints, q, space))
    values, vectors = np.linalg.eigh(np.asarray(constraints(q) @ constraints(q).T))
    root = vectors / np.sqrt(values)
    return np.linalg.svd((root.T @ gamma.reshape(len(gamma), -1)), compute_uv=False)


@pytest.mark.parametrize("name", ["ball-no-spin", "mixed"])
def test_frobenius_is_the_block_of_a_whole_frame(name):
    """Tᵀ γ T = γ^α_IJ of `hamel_coefficients` for any completion of the frame, B_I = X T."""
    constraints, q, space, *_ = KNOWN[name]
    rows = np.asarray(constraints(q))
    m, n = rows.shape
    below = jnp.asarray(np.random.default_rng(0).normal(size=(n - m, n)))
    frame = lambda q: jnp.concatenate([constraints(q), below])
    expected = jax.jit(lambda q: hamel_coefficients(frame, q, space)[:m, m:, m:])(q)
    basis = np.linalg.inv(frame(q))[:, m:]
    kernel = np.linalg.svd(rows)[2][m:]
    gamma = np.einsum(
        "aij,ik,jl->akl", frobenius(constraints, q, space), kernel @ basis, kernel @ basis
    )
    np.testing.assert_allclose(gamma, expected, atol=1e-12)


def test_brackets_are_the_hamel_coefficients():
    """[B_a, B_b] = γ^c_ab B_c (Müller 2021, eq. 18), on a group."""

    def frame(q):
        return jnp.concatenate([ball(q), jnp.eye(5)[:3] + 0.1 * jnp.sin(q[1][0])])

    field = lambda a: lambda q: jnp.linalg.inv(frame(q))[:, a]
    gamma, B = hamel_coefficients(frame, BALL_AT, BALL), jnp.linalg.inv(frame(BALL_AT))
    for a, b in [(0, 2), (2, 3), (3, 4)]:
        bracket = jax.jit(lambda q, a=a, b=b: lie_bracket(field(a), field(b), q, BALL))(BALL_AT)
        np.testing.assert_allclose(bracket, B @ gamma[:, a, b], atol=1e-13)
        assert np.max(np.abs(bracket)) > 1e-2


def test_a_singular_point_is_reported():
    """Martinet: ż = y² ẋ has growth (2, 2, 3) on y = 0 and (2, 3) beside it."""

    def martinet(q):
        return jnp.stack([-(q[1] ** 2), 0 * q[0], 0 * q[0] + 1])[None]

    q = jnp.asarray([0.4, 0.0, -1.0])
    shallow, deep = distribution(martinet, q), distribution(martinet, q, depth=3)
    assert shallow.growth == (2, 2)
    assert shallow.nearby == (2, 3)
    assert not shallow.holonomic
    assert "singular here" in str(shallow)
    assert deep.growth == (2, 2, 3)
    assert deep.completely_nonholonomic


def test_nothing_and_everything_constrained():
    free = distribution(lambda q: jnp.zeros((0, 3)), GENERIC[:3])
    assert free.growth == (3,)
    assert str(free).startswith("unconstrained")
    stuck = distribution(lambda q: jnp.eye(2), GENERIC[:2])
    assert stuck.growth == (0,)
    assert stuck.holonomic


def test_single_precision(float32):
    result = distribution(trailer, jnp.asarray([0.3, 0.8, -0.4, 0.6]))
    assert result.growth == (2, 3, 4)
    assert result.tolerance > 1e-4


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"dependent rows"):
        distribution(lambda q: jnp.ones((2, 3)), GENERIC[:3])
    with pytest.raises(ValueError, match=r"constraints\(q\).*\(m, 3\)"):
        distribution(lambda q: jnp.ones((1, 2)), GENERIC[:3])
    with pytest.raises(TypeError, match="constraints"):
        distribution(jnp.ones((1, 3)), GENERIC[:3])
    with pytest.raises(ValueError, match="depth"):
        distribution(sphere, GENERIC[:3], depth=0)
