"""Drawings of a system: shapes, each fixed to a body, and the poses of the bodies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration
from jaxhamel.geometry import SE2, SE3, SO2, SO3, AbstractSpace, Helical, Product, Schoenflies

Place = tuple[Float[Array, " 4"], Float[Array, " 3"]]  # quaternion and position of a body
Polyline = Float[np.ndarray, "P 3"]
CIRCLE = np.linspace(0.0, 2.0 * np.pi, 49)


@dataclass(frozen=True, eq=False)
class Shape:
    """The drawing of one body, in the body's own axes [m].

    - `lines`: polylines `(P, 3)`; `points`: centres of small balls, `(n, 3)`; `sphere`: radius of a sphere about the origin.
    - `trail`: a point `(3,)` whose path through space is drawn with the name `trail_name`; None draws no path.
    - `triad`: whether the body's axes are drawn.
    """

    lines: Sequence[Polyline] = ()
    points: Float[np.ndarray, "n 3"] | None = None
    sphere: float | None = None
    trail: Float[np.ndarray, " 3"] | None = None
    trail_name: str = "origin"
    triad: bool = False


FRAME = Shape(trail=np.zeros(3), triad=True)


def places_of(system: Any, q: Configuration) -> tuple[Place, ...]:
    """The poses of the bodies in a configuration, one for each factor with a rotation.

    A factor R^n is taken as the position of the preceding body only if the system's class names it `position`: the numbers
    of any other factor may be joint angles.
    """
    keys = [part.key for part in system.state_names.q] if system.state_names is not None else []
    found: list[Place] = []
    for i, (space, x) in enumerate(_factors(system.space, q)):
        if (place := _frame(space, x)) is not None:
            found.append(place)
        elif keys[i : i + 1] == ["position"] and found:
            height = getattr(system, "radius", 0.0) * jnp.ones(1, x.dtype)
            found[-1] = found[-1][0], jnp.concatenate([x, height])[:3]
    return tuple(found)


def _factors(space: AbstractSpace, q: Configuration) -> Iterator[tuple[AbstractSpace, Array]]:
    if isinstance(space, Product):
        for factor, part in zip(space.spaces, q, strict=True):
            yield from _factors(factor, part)
    else:
        yield space, q


def _frame(space: AbstractSpace, q: Array) -> Place | None:
    """The pose of a factor with a rotation; None for any other factor."""
    zero = jnp.zeros(3, q.dtype)
    match space:
        case SO3():
            return q, zero
        case SE3():
            return q[:4], q[4:]
        case SO2():
            return about_z(q[0]), zero
        case SE2():
            return about_z(q[0]), jnp.append(q[1:], zero[0])
        case Schoenflies():
            return about_z(q[0]), q[1:]
        case Helical(pitch=pitch):
            return about_z(q[0]), zero.at[2].set(pitch * q[0])
    return None


def about_z(angle: Float[Array, ""]) -> Float[Array, " 4"]:
    """The quaternion of a rotation about e_3."""
    half = 0.5 * angle
    return jnp.stack([jnp.cos(half), jnp.zeros_like(half), jnp.zeros_like(half), jnp.sin(half)])


def about_x(angle: Float[Array, ""]) -> Float[Array, " 4"]:
    """The quaternion of a rotation about e_1."""
    half = 0.5 * angle
    return jnp.stack([jnp.cos(half), jnp.sin(half), jnp.zeros_like(half), jnp.zeros_like(half)])


def about_y(angle: Float[Array, ""]) -> Float[Array, " 4"]:
    """The quaternion of a rotation about e_2."""
    half = 0.5 * angle
    return jnp.stack([jnp.cos(half), jnp.zeros_like(half), jnp.sin(half), jnp.zeros_like(half)])


def ring(radius: float, axis: Any = (0.0, 0.0, 1.0), centre: Any = (0.0, 0.0, 0.0)) -> Polyline:
    """A circle about an axis through its centre."""
    e1, e2 = perpendicular(np.asarray(axis, dtype=float))
    turned = np.cos(CIRCLE)[:, None] * e1[None] + np.sin(CIRCLE)[:, None] * e2[None]
    return np.asarray(centre, dtype=float)[None] + float(radius) * turned


def wheel(
    radius: float, axis: Any = (0.0, 1.0, 0.0), centre: Any = (0.0, 0.0, 0.0)
) -> list[Polyline]:
    """A circle about an axis, and two of its diameters."""
    rim = ring(radius, axis, centre)
    return [rim, rim[[0, 24]], rim[[12, 36]]]


def segment(*points: Any) -> Polyline:
    """The polyline through points `(3,)`."""
    return np.asarray(points, dtype=float)


def box_edges(size: Float[np.ndarray, " 3"]) -> list[Polyline]:
    """The twelve edges of a box about the origin with sides of the lengths `size` [m], as six polylines."""
    x, y, z = 0.5 * np.asarray(size, dtype=float)
    face = np.array([[x, y, 0], [-x, y, 0], [-x, -y, 0], [x, -y, 0], [x, y, 0]], dtype=float)
    low, high = face - np.array([[0, 0, z]]), face + np.array([[0, 0, z]])
    posts = [np.stack([low[k], high[k]]) for k in range(4)]
    return [low, high, *posts]


def inertia_box(inertia: Float[np.ndarray, " 3"], longest: float = 1.0) -> Float[np.ndarray, " 3"]:
    """The lengths of the sides of a homogeneous box with these principal moments, scaled so that the longest is `longest`.

    With I₁ = m (b² + c²) / 12 and so on, a² = 6 (I₂ + I₃ − I₁) / m.
    """
    moments = np.asarray(inertia, dtype=float)
    sides = np.sqrt(np.maximum(moments.sum() - 2.0 * moments, 1e-3 * moments.max()))
    return longest * sides / sides.max()


def box_of(inertia: Any, mass: Any = None) -> list[Polyline]:
    """The edges of the homogeneous box with this inertia, in the directions of its principal axes.

    **Arguments:** `inertia`: the inertia about the box's centre [kg m²], `(3,)` or `(3, 3)`; `mass`: the mass of the box
    [kg], which determines its size; without it, the longest side is 1 m.
    """
    matrix = np.asarray(inertia, dtype=float)
    moments, axes = np.linalg.eigh(np.diag(matrix) if matrix.ndim == 1 else matrix)
    longest = 1.0 if mass is None else np.sqrt(6.0 * (moments.sum() - 2.0 * moments[0]) / mass)
    return [line @ axes.T for line in box_edges(inertia_box(moments, float(longest)))]


def top_edges(axis: Float[np.ndarray, " 3"], radius: float) -> list[Polyline]:
    """The edges of a spinning top: a line from the pivot along `axis` [m, in the body frame], and a flywheel at its end."""
    axis = np.asarray(axis, dtype=float)
    e1, e2 = perpendicular(axis)
    spokes = [np.stack([axis - radius * e, axis + radius * e]) for e in (e1, e2)]
    return [np.stack([0.0 * axis, 1.25 * axis]), ring(radius, axis, axis), *spokes]


def perpendicular(
    axis: Float[np.ndarray, " 3"],
) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]]:
    """Two unit vectors e_1 and e_2 that form a right-handed frame with the direction of `axis` as e_3."""
    unit = axis / np.linalg.norm(axis)
    e1 = np.cross(np.eye(3)[np.argmin(np.abs(unit))], unit)
    e1 = e1 / np.linalg.norm(e1)
    return e1, np.cross(unit, e1)
