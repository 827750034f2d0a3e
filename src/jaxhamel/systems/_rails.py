"""Rails: curves fixed in the body, along which the control masses move.

A rail maps θ to a position ζ(θ) in the body frame. All rails of one kind are one object, which maps
`theta (n,)` to the positions `(n, 3)`. Any callable pytree with this map can take its place; ζ′ and
ζ″ come from autodiff. An attribute `unit` gives the unit of θ for tables and figures.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel._checks import (
    check_finite,
    check_perpendicular,
    check_positive,
    check_shape,
    check_unit_vectors,
)
from jaxhamel.mechanics._description._parameters import as_parameter


class _PlaneRails(eqx.Module):
    """Closed curves ζ(θ) = c + x(θ) e + y(θ) n × e in planes with normal n, zero direction e."""

    unit: ClassVar[str] = "rad"  # of θ
    normal: Float[Array, "n 3"]
    zero: Float[Array, "n 3"]
    centre: Float[Array, "n 3"]

    def __init__(self, n_masses: int, normal: ArrayLike, zero: ArrayLike, centre: ArrayLike):
        self.normal, self.zero = as_parameter(normal), as_parameter(zero)
        for name, value in (("normal", self.normal), ("zero", self.zero)):
            check_shape(name, value, (n_masses, 3), "One row for each mass, in the body frame.")
            check_unit_vectors(name, value)
        check_perpendicular("zero", self.zero, "normal", self.normal)
        # a Python number, such as the default, gets the precision of the other parameters
        if isinstance(centre, int | float):
            centre = jnp.asarray(centre, self.normal.dtype)
        self.centre = _row_for_each_rail("centre", centre, self.normal)

    @property
    def n_masses(self) -> int:
        """Number of rails, one for each mass."""
        return self.normal.shape[0]

    def _in_plane(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, "n 3"]:
        quarter = jnp.cross(self.normal, self.zero)  # the direction of θ = π/2
        return self.centre + x[:, None] * self.zero + y[:, None] * quarter


class CircularRails(_PlaneRails):
    r"""Circles: ζ(θ) = c + ρ (cos θ e + sin θ n × e); θ counts right-handed about n, from e.

    **Arguments:**

    - `radius`: ρ, `(n,)` m.
    - `normal`: n, `(n, 3)` unit normals of the circles' planes, body frame.
    - `zero`: e, `(n, 3)` unit direction of θ = 0 from the centre, perpendicular to `normal`.
    - `centre`: c, `(n, 3)` m from the body's geometric centre; `(3,)` or `0` is taken for all.

    **Raises:** ValueError where shapes disagree, a radius is not positive, a vector is not a unit
    vector or `zero` is not perpendicular to `normal`.

    Source: the control rails of Putkaradze and Rogers 2018, who leave the direction of θ = 0 and the sense
    of θ open; `zero` and `normal` state them.
    """

    radius: Float[Array, " n"]

    def __init__(
        self, radius: ArrayLike, normal: ArrayLike, zero: ArrayLike, centre: ArrayLike = 0.0
    ):
        self.radius = _positive_size("radius", radius, ("n",))
        super().__init__(self.radius.shape[0], normal, zero, centre)

    def __call__(self, theta: Float[Array, " n"]) -> Float[Array, "n 3"]:
        return self._in_plane(self.radius * jnp.cos(theta), self.radius * jnp.sin(theta))


class EllipticRails(_PlaneRails):
    r"""Ellipses: ζ(θ) = c + a cos θ e + b sin θ n × e; θ is the eccentric anomaly, from e.

    **Arguments:**

    - `semi_axes`: (a, b), `(n, 2)` m: half the axis along `zero`, and half the one across it.
    - `normal`, `zero`, `centre`: as for [`CircularRails`][].

    **Raises:** ValueError as `CircularRails`.
    """

    semi_axes: Float[Array, "n 2"]

    def __init__(
        self, semi_axes: ArrayLike, normal: ArrayLike, zero: ArrayLike, centre: ArrayLike = 0.0
    ):
        self.semi_axes = _positive_size("semi_axes", semi_axes, ("n", 2))
        super().__init__(self.semi_axes.shape[0], normal, zero, centre)

    def __call__(self, theta: Float[Array, " n"]) -> Float[Array, "n 3"]:
        return self._in_plane(
            self.semi_axes[:, 0] * jnp.cos(theta), self.semi_axes[:, 1] * jnp.sin(theta)
        )


class FigureEightRails(_PlaneRails):
    r"""Lemniscates of Gerono: ζ(θ) = c + a (cos θ e + sin θ cos θ n × e), crossing at θ = ±π/2.

    **Arguments:**

    - `size`: a, `(n,)` m: from the crossing to the far end of a loop. A loop is a wide.
    - `normal`, `zero`, `centre`: as for [`CircularRails`][]; `zero` points along the figure, and
        `centre` is where it crosses itself.

    **Raises:** ValueError as `CircularRails`.
    """

    size: Float[Array, " n"]

    def __init__(
        self, size: ArrayLike, normal: ArrayLike, zero: ArrayLike, centre: ArrayLike = 0.0
    ):
        self.size = _positive_size("size", size, ("n",))
        super().__init__(self.size.shape[0], normal, zero, centre)

    def __call__(self, theta: Float[Array, " n"]) -> Float[Array, "n 3"]:
        along = self.size * jnp.cos(theta)
        return self._in_plane(along, along * jnp.sin(theta))


class StraightRails(eqx.Module):
    r"""Straight lines: ζ(θ) = o + θ d; θ is the distance from the origin o, in metres.

    **Arguments:**

    - `origin`: o, `(n, 3)` m, body frame.
    - `direction`: d, `(n, 3)` unit vectors.

    **Raises:** ValueError where shapes disagree or a direction is not a unit vector.
    """

    unit: ClassVar[str] = "m"  # of θ
    origin: Float[Array, "n 3"]
    direction: Float[Array, "n 3"]

    def __init__(self, origin: ArrayLike, direction: ArrayLike):
        self.direction = as_parameter(direction)
        check_shape("direction", self.direction, ("n", 3), "One row for each mass.")
        check_unit_vectors("direction", self.direction)
        self.origin = _row_for_each_rail("origin", origin, self.direction)

    @property
    def n_masses(self) -> int:
        """Number of rails, one for each mass."""
        return self.direction.shape[0]

    def __call__(self, theta: Float[Array, " n"]) -> Float[Array, "n 3"]:
        return self.origin + theta[:, None] * self.direction


class MixedRails(eqx.Module):
    """Several groups of rails of different kinds as one object; masses are numbered group by group.

    ```python
    MixedRails(CircularRails(...), StraightRails(...))
    ```

    **Arguments:**

    - `groups`: rails, each with its number of masses as `n_masses`.
    """

    groups: tuple[Any, ...]

    def __init__(self, *groups: Any):
        for place, group in enumerate(groups):
            if not hasattr(group, "n_masses"):
                raise TypeError(
                    f"`groups[{place}]` is a {type(group).__name__} without `n_masses`; MixedRails "
                    "takes rails that say how many masses they carry. Give it that attribute."
                )
        self.groups = groups

    @property
    def n_masses(self) -> int:
        """Number of masses of all groups."""
        return sum(group.n_masses for group in self.groups)

    @property
    def unit(self) -> str:
        """The unit of θ, or one unit for each mass with ", " between them if the groups have different ones."""
        units = [unit_of_rails(group) for group in self.groups for _ in range(group.n_masses)]
        return units[0] if len(set(units)) == 1 else ", ".join(units)

    def __call__(self, theta: Float[Array, " n"]) -> Float[Array, "n 3"]:
        positions, first = [], 0
        for group in self.groups:
            last = first + group.n_masses
            positions.append(group(theta[first:last]))
            first = last
        return jnp.concatenate(positions)


def unit_of_rails(rails: Any) -> str:
    """The unit of θ: "rad" or "m" for the rails of this package, and `rails.unit` for others; "rad or m" without one."""
    return getattr(rails, "unit", "rad or m")


def _positive_size(name: str, value: ArrayLike, shape: tuple[int | str, ...]) -> Array:
    size = as_parameter(value)
    check_shape(name, size, shape, "One entry for each mass.")
    check_positive(name, size, "Give it in metres; turn `zero` or `normal` for the other sense.")
    return size


def _row_for_each_rail(
    name: str, value: ArrayLike, like: Float[Array, "n 3"]
) -> Float[Array, "n 3"]:
    """A parameter of the rails as `(n, 3)`, a row for each; given as 0 or as `(3,)` it is the same for all rails."""
    rows = as_parameter(value)
    if rows.ndim == 2:
        check_shape(name, rows, like.shape, "One row for each mass, or one (3,) for all.")
    elif rows.shape not in ((), (3,)):
        check_shape(name, rows, (3,), "Or one row for each mass, or 0.")
    check_finite(name, rows)
    return jnp.broadcast_to(rows, like.shape)
