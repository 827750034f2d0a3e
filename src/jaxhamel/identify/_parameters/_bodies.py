"""Inertial parameters of whole bodies, in coordinates for which every value is physically possible."""

import dataclasses
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel.identify._checks._parameters import check_frozen_names, check_path, check_realisable
from jaxhamel.identify._parameters._inertia import (
    inertia_of,
    second_moments,
    upper_cholesky,
    upper_triangle,
)
from jaxhamel.identify._parameters._parameters import AbstractParameter, Prior
from jaxhamel.identify._parameters._paths import leaf_of, with_leaf

MOMENTS = ("xx", "yy", "zz")
PRODUCTS = ("xy", "yz", "xz")


class BodyInertia(AbstractParameter):
    r"""Mass, centre of mass and inertia of a rigid body: ten parameters by log-Cholesky of the pseudo-inertia.

        J = U Uᵀ ,   z = (α, log diagonal, entries above it, c) ,   m = e^2α          see `log_cholesky`

    Every z gives a body that can exist: its mass and inertia are positive, and its moments satisfy the triangle inequality.
    Entries of z that are lengths are divided by the body's initial radius of gyration, so that z has no dimension. An
    inertia given as three principal moments keeps its principal axes; the body then has seven parameters.

    **Arguments:**

    - `mass`, `com`, `path`: paths of the system's arrays for m, c and the inertia. Those of body 2 of a robot, or of another
      system with arrays for all bodies, are `"masses.2"`, `"coms.2"`, `"inertias.2"`.
    - `frozen`: any of `"mass"`, `"com"`, `"inertia"`, which keep their values.
    - `prior`: a prior on the quantities m, c_x, c_y, c_z, then the inertia's xx, yy, zz, xy, yz, xz.
    - `about_com`: whether the system's inertia is about the centre of mass; else it is about the body's origin.
    - `unit`: the unit of the inertia.

    Source: Rucker and Wensing 2022.
    """

    mass: str = eqx.field(static=True)
    com: str = eqx.field(static=True)
    path: str = eqx.field(static=True)
    frozen: tuple[str, ...] = eqx.field(static=True, default=())
    prior: Prior | None = None
    about_com: bool = eqx.field(static=True, default=True)
    unit: str = eqx.field(static=True, default="kg m²")
    length: Any = eqx.field(default=1.0, kw_only=True)
    principal: bool = eqx.field(static=True, default=False, kw_only=True)

    def resolved(self, system: Any) -> Self:
        for path in (self.mass, self.com, self.path):
            check_path(system, path)
        frozen = check_frozen_names(self.path, self.frozen, ("mass", "com", "inertia"))
        mass, _, inertia = self._of(system)
        _checks.check_positive(self.mass, mass)
        check_realisable(self.path, inertia)
        length = jnp.sqrt(jnp.trace(second_moments(inertia)) / mass)
        principal = leaf_of(system, self.path).ndim == 1
        return dataclasses.replace(self, frozen=frozen, length=length, principal=principal)

    def _of(self, system) -> tuple[Array, Array, Array]:
        """(m, c, I_C) of the body; I_C is a matrix or three principal moments, like the leaf of the inertia."""
        mass, com, inertia = (leaf_of(system, p) for p in (self.mass, self.com, self.path))
        return mass, com, inertia if self.about_com else inertia - _steiner(mass, com, inertia)

    def coordinates(self, system: Any) -> Array:
        mass, com, inertia = self._of(system)
        block = rotational_coordinates(inertia / mass, self.length)
        pieces = {"mass": 0.5 * jnp.log(mass)[None], "inertia": block, "com": com / self.length}
        return jnp.concatenate([v for k, v in pieces.items() if k not in self.frozen])

    def put(self, system: Any, z: Array) -> Any:
        mass, com, inertia = self._of(system)
        sizes = {"mass": 1, "inertia": 3 if self.principal else 6, "com": 3}
        pieces, start = {}, 0
        for name, size in sizes.items():
            if name not in self.frozen:
                pieces[name], start = z[start : start + size], start + size
        if "mass" in pieces:
            mass = jnp.exp(2 * pieces["mass"][0]).astype(mass.dtype)
        if "com" in pieces:
            com = (self.length * pieces["com"]).astype(com.dtype)
        if "inertia" in pieces:
            inertia = (mass * rotational_inertia(pieces["inertia"], self.length)).astype(
                inertia.dtype
            )
        if not self.about_com:
            inertia = inertia + _steiner(mass, com, inertia)
        for path, value in ((self.mass, mass), (self.com, com), (self.path, inertia)):
            system = with_leaf(system, path, value)
        return system

    def quantities(self, system: Any) -> Array:
        mass, com, inertia = (leaf_of(system, p) for p in (self.mass, self.com, self.path))
        return jnp.concatenate([mass[None], com, entries(inertia)])

    def names(self) -> list[str]:
        com = [f"{self.com}.{axis}" for axis in "xyz"]
        return [self.mass, *com, *entry_names(self.path, self.principal)]

    def units(self) -> list[str]:
        return ["kg", "m", "m", "m", *[self.unit] * (3 if self.principal else 6)]

    def is_frozen(self) -> list[bool]:
        parts = {"mass": 1, "com": 3, "inertia": 3 if self.principal else 6}
        return [name in self.frozen for name, count in parts.items() for _ in range(count)]

    def sizes(self, system: Any) -> Array:
        mass, com, inertia = (leaf_of(system, p) for p in (self.mass, self.com, self.path))
        long = jnp.broadcast_to(jnp.asarray(self.length, com.dtype), (3,))
        return jnp.concatenate([mass[None], long, entry_sizes(inertia)])


class RotationalInertia(AbstractParameter):
    r"""The inertia I of a body whose mass is known or has no influence, by the Cholesky factor of its second moments:

        Σ = ½ tr(I) 1 − I = V Vᵀ ,    V upper triangular.

    A matrix `(3, 3)` has six coordinates: the logarithms of V's diagonal, and the entries above it, divided by √tr Σ at the
    start. Principal moments `(3,)` have three, half the logarithms of the second moments.

    **Arguments:** `path`: path of the inertia in the system; `frozen`: True keeps it fixed; `prior`: a prior on xx, yy, zz,
    xy, yz, xz; `unit`: the unit of the inertia.
    """

    path: str = eqx.field(static=True)
    frozen: bool = eqx.field(static=True, default=False)
    prior: Prior | None = None
    unit: str = eqx.field(static=True, default="kg m²")
    length: Any = eqx.field(default=1.0, kw_only=True)
    principal: bool = eqx.field(static=True, default=False, kw_only=True)

    def resolved(self, system: Any) -> Self:
        check_path(system, self.path)
        inertia = leaf_of(system, self.path)
        check_realisable(self.path, inertia)
        length = jnp.sqrt(jnp.trace(second_moments(inertia)))
        return dataclasses.replace(self, length=length, principal=inertia.ndim == 1)

    def coordinates(self, system: Any) -> Array:
        z = rotational_coordinates(leaf_of(system, self.path), self.length)
        return z[:0] if self.frozen else z

    def put(self, system: Any, z: Array) -> Any:
        if self.frozen:
            return system
        leaf = leaf_of(system, self.path)
        new = rotational_inertia(z, self.length).astype(leaf.dtype)
        return with_leaf(system, self.path, new)

    def quantities(self, system: Any) -> Array:
        return entries(leaf_of(system, self.path))

    def names(self) -> list[str]:
        return entry_names(self.path, self.principal)

    def units(self) -> list[str]:
        return [self.unit] * len(self.names())

    def is_frozen(self) -> list[bool]:
        return [self.frozen] * len(self.names())

    def sizes(self, system: Any) -> Array:
        return entry_sizes(leaf_of(system, self.path))


def rotational_coordinates(inertia: Array, length: Any) -> Float[Array, "..."]:
    """The coordinates of an inertia: (d_1, d_2, d_3), the logarithms of the diagonal of V in Σ = V Vᵀ; for a matrix also
    the entries above it, (s_12, s_23, s_13)/length.
    """
    second = second_moments(inertia)
    if inertia.ndim == 1:
        return 0.5 * jnp.log(jnp.diagonal(second))
    upper = upper_cholesky(second)
    above = jnp.stack([upper[0, 1], upper[1, 2], upper[0, 2]])
    return jnp.concatenate([jnp.log(jnp.diagonal(upper)), above / length])


def rotational_inertia(z: Array, length: Any) -> Array:
    """The inertia from its coordinates: `(3,)` from three of them, `(3, 3)` from six."""
    if z.shape == (3,):
        second = jnp.exp(2 * z)
        return jnp.sum(second) - second
    upper = upper_triangle(jnp.exp(z[:3]), length * z[3:])
    return inertia_of(upper @ upper.T)


def entries(inertia: Array) -> Float[Array, "..."]:
    """The entries (xx, yy, zz) of an inertia; for a matrix also (xy, yz, xz)."""
    if inertia.ndim == 1:
        return inertia
    matrix = 0.5 * (inertia + inertia.T)
    above = [matrix[0, 1], matrix[1, 2], matrix[0, 2]]
    return jnp.concatenate([jnp.diagonal(matrix), jnp.stack(above)])


def entry_names(path: str, principal: bool) -> list[str]:
    """The names of the entries of an inertia: three if it is given by principal moments, else six."""
    return [f"{path}.{pair}" for pair in (MOMENTS if principal else MOMENTS + PRODUCTS)]


def entry_sizes(inertia: Array) -> Float[Array, "..."]:
    """The change of each entry that counts as 100 %: for a moment its value, for a product of inertia the mean moment."""
    values = entries(inertia)
    return jnp.concatenate([values[:3], jnp.full(values.shape[0] - 3, jnp.mean(values[:3]))])


def _steiner(mass: Any, com: Any, inertia: Any) -> Array:
    """Steiner's term m (|c|² 1 − c cᵀ), by which the inertia about the origin exceeds I_C; for principal moments its
    diagonal.

    The principal axes about the origin are those about the centre of mass only if c lies along one of them.
    """
    matrix = mass * (jnp.dot(com, com) * jnp.eye(3, dtype=com.dtype) - com[:, None] * com[None, :])
    return jnp.diagonal(matrix) if inertia.ndim == 1 else matrix
