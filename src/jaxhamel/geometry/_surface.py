"""Surfaces in space, such as uneven ground: points, orthonormal axes and curvatures, by autodiff."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Vector3
from jaxhamel.geometry._quaternion import cross

Surface = Callable[[Float[Array, " 2"]], Array]


def surface_point(surface: Surface, x: Float[Array, " 2"]) -> Vector3:
    """p(x), the point of a surface with the coordinates x.

    **Arguments:**

    - `surface`: a callable of x `(2,)`. It gives either a height h(x) [m], a number, for the point (x₁, x₂, h), or the
      point p(x) itself, `(3,)` [m], such as R (cos x₁, sin x₁, x₂) of a cylinder.
    - `x`: coordinates on the surface, `(2,)`.

    **Returns:** p `(3,)` [m]. **Raises:** `ValueError` for a surface whose value has another shape.
    """
    value = jnp.asarray(surface(x), x.dtype)
    if value.shape not in ((), (3,)):
        raise ValueError(
            f"the surface gives an array of shape {value.shape} for coordinates of shape (2,); it must give a height, a "
            "number, or a point in space, (3,)."
        )
    return value if value.shape else jnp.concatenate([x, value[None]])


class SurfaceBend(NamedTuple):
    """A surface near a point: `axes` has the rows t₁, t₂ and n; `point` and `normal` are the derivatives ∂p/∂x_b and
    ∂n/∂x_b, whose columns belong to the coordinates x₁ and x₂.
    """

    axes: Float[Array, "3 3"]
    point: Float[Array, "3 2"]
    normal: Float[Array, "3 2"]


def surface_axes(surface: Surface, x: Float[Array, " 2"]) -> Float[Array, "3 3"]:
    """Orthonormal axes of a surface at x, with p₁ and p₂ the derivatives of its point p:

        t₁ = p₁/|p₁| ,   n = p₁ × p₂ / |p₁ × p₂| ,   t₂ = n × t₁

    **Arguments:** as for `surface_point`. **Returns:** the rows t₁, t₂, n, `(3, 3)`. They are those of space for a level
    surface with the height h = const. The normal n of a height map points up; that of another surface to the side
    from which x₁ and x₂ are counter-clockwise.
    """
    first, second = jax.jacfwd(lambda x: surface_point(surface, x))(x).T
    normal = _unit(cross(first, second))
    along = _unit(first)
    return jnp.stack([along, cross(normal, along), normal])


def principal_curvatures(surface: Surface, x: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """κ₁ ≤ κ₂ [1/m], positive where the surface bends towards its normal, as the ground of a valley does.

    They are the eigenvalues of S in ∂_b n = −S_ac (t_c·p_b) t_a. A ball of radius r that rolls on the side of n fits
    into the surface where r κ₂ < 1. Derivatives of the curvatures are finite at umbilics, too, where κ₁ = κ₂.

    **Arguments:** as for `surface_point`.
    """
    bend = surface_bend(surface, x)
    (a, b), (c, d) = -(bend.axes[:2] @ bend.normal) @ inverse_of_two(bend.axes[:2] @ bend.point)
    half, squared = 0.5 * (a - d), 0.25 * ((a - d) ** 2 + (b + c) ** 2)
    apart = squared > 0
    root = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0 * half)
    return 0.5 * (a + d) + jnp.stack([-root, root])


def surface_bend(surface: Surface, x: Float[Array, " 2"]) -> SurfaceBend:
    """The axes with the derivatives of point and normal, by one differentiation of all of them."""

    def along(x):
        axes = surface_axes(surface, x)
        return (surface_point(surface, x), axes[2]), axes

    (point, normal), axes = jax.jacfwd(along, has_aux=True)(x)
    return SurfaceBend(axes, point, normal)


def inverse_of_two(matrix: Float[Array, "2 2"]) -> Float[Array, "2 2"]:
    """The inverse of a matrix of two rows, by its determinant."""
    (a, b), (c, d) = matrix
    return jnp.stack([jnp.stack([d, -b]), jnp.stack([-c, a])]) / (a * d - b * c)


def _unit(vector: Vector3) -> Vector3:
    return vector / jnp.sqrt(jnp.dot(vector, vector))
