"""Growth by brackets of many fields, and messages if brackets end too early; growth vectors are published ones."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, Euclidean, Product, distribution


def trailers(n):
    """A unicycle with n trailers, (x, y of its axle, its heading, theirs), with hitches of unit length (Jean 1996)."""

    def rows(q):
        c, s = jnp.cos(q[2:]), jnp.sin(q[2:])
        inside = jnp.tril(jnp.ones((n + 1, n + 1))).at[:, 0].set(0.0)
        turning = (s[:, None] * s[None] + c[:, None] * c[None]) * inside
        return jnp.concatenate([jnp.stack([s, -c], axis=1), turning], axis=1)

    return rows


def jet(n):
    """Goursat's normal form of jets of curves: q̇_i = q_{i+1} q̇_1 for 1 < i < n."""

    def rows(q):
        first = -q[2:][:, None] * jnp.eye(n)[:1]
        return first + jnp.eye(n)[1:-1]

    return rows


def cartan(q):
    """dz = y dx, dw = z dx, dp = y dz in (x, y, z, w, p), with the growth (2, 3, 5)."""
    x, _, z, w, p = jnp.eye(5)
    return jnp.stack([z - q[1] * x, w - q[2] * x, p - q[1] ** 2 * x])


def heisenberg(q):
    """dz = Σ yᵢ dxᵢ in (x₁ x₂ y₁ y₂ z), with the growth (4, 5)."""
    return jnp.concatenate([-q[2:4], jnp.zeros(2), jnp.ones(1)])[None]


def leaves(q):
    """Six integrable one-forms on R⁸, mixed by a matrix that depends on q."""
    bent = jnp.cos(q[6:])[None] * jnp.ones((6, 1))
    gradients = jnp.concatenate([jnp.eye(6), bent], axis=1)
    return (jnp.eye(6) + 0.1 * jnp.outer(q[:6], q[2:])) @ gradients


GENERIC = jnp.array([0.3, 0.8, -0.4, 0.6, 0.9, 0.2, 1.1, -0.7])
KNOWN = {
    "two trailers": (trailers(2), 5, (2, 3, 4, 5)),
    "Engel": (jet(4), 4, (2, 3, 4)),
    "Goursat": (jet(6), 6, (2, 3, 4, 5, 6)),
    "Cartan": (cartan, 5, (2, 3, 5)),
    "Heisenberg": (heisenberg, 5, (4, 5)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_default_depth_finds_published_growth(name):
    constraints, n, growth = KNOWN[name]
    result = distribution(constraints, GENERIC[:n])
    assert result.growth == growth
    assert result.decided
    assert result.completely_nonholonomic


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_too_few_brackets_decide_nothing(depth):
    """Two trailers are completely nonholonomic, but this takes brackets of four fields."""
    result = distribution(trailers(2), GENERIC[:5], depth=depth)
    assert result.growth == (2, 3, 4)[:depth]
    assert not result.decided
    assert not result.holonomic
    assert not result.completely_nonholonomic
    assert f"not decided at this depth: brackets of up to {depth} field" in str(result)
    assert "integrate" not in str(result)


def test_where_trailers_stand_at_a_right_angle_more_is_needed():
    """Jean 1996: two trailers have the degree of nonholonomy 4, and 5 = F₅ with the first at a right angle: (2, 3, 4,
    4, 5)."""
    folded = jnp.array([0.3, 0.8, -0.4, -0.4 + np.pi / 2, 0.9])
    shallow, deep = (distribution(trailers(2), folded, depth=d) for d in (4, 5))
    assert shallow.growth == (2, 3, 4, 4)
    assert shallow.nearby == deep.nearby[:4] == (2, 3, 4, 5)
    assert not shallow.decided
    assert "not decided" in str(shallow)
    assert deep.growth == (2, 3, 4, 4, 5)
    assert deep.completely_nonholonomic


def test_many_integrable_constraints_are_seen_at_once():
    result = distribution(leaves, GENERIC)
    assert result.growth == (2, 2)
    assert "holonomic: all 6 constraints integrate" in str(result)
    assert result.curvature < 1e-12


def test_one_direction_is_always_integrable():
    def line(q):
        return jnp.stack([jnp.stack([1 + q[2], q[0], q[1]]), jnp.eye(3)[1]])

    result = distribution(line, GENERIC[:3])
    assert result.growth == (1, 1)
    assert result.holonomic


def test_on_a_group_the_number_of_trailers_is_the_same():
    """On SE(2) with the trailer's angle against the unicycle, ψ̇ = −ω − v sin ψ and v_y = 0 have the growth (2, 3, 4)."""
    space = Product(SE2(), Euclidean(1))

    def rows(q):
        one, sine = jnp.ones(()), jnp.sin(q[1][0])
        return jnp.stack(
            [jnp.stack([0 * one, 0 * one, one, 0 * one]), jnp.stack([one, sine, 0 * one, one])]
        )

    result = distribution(rows, (jnp.array([0.4, 0.3, -1.2]), jnp.array([0.7])), space)
    assert result.growth == (2, 3, 4)
