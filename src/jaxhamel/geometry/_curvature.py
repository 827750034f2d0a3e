"""Curvature of a kinematic connection, with Müller's sign: the Hamel coefficients γ^α_IJ.

    B^α_IJ = ∂A^α_I/∂r^J − ∂A^α_J/∂r^I ± c^α_λμ A^λ_I A^μ_J      (Müller 2023, eq. 1.3, 4.3, 4.7)

on a principal bundle, + for a left connection, − for a right one, and on a trivial bundle S × R

    B^α_IJ = ∂A^α_I/∂r^J − ∂A^α_J/∂r^I + ∂A^α_J/∂s^β A^β_I − ∂A^α_I/∂s^β A^β_J .      (eq. 3.11)

B = 0 in a region if and only if the constraints are holonomic there. Gauge theory has the
opposite sign, dA(∂_I, ∂_J) = ∂_I A_J − ∂_J A_I: with it the holonomy of a small loop is −∮A = −∫B,
with Müller's +∫B (see `_phase`).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel.geometry._connection import BundleConnection, Connection, ShapeCoordinates
from jaxhamel.geometry._space import AbstractSpace

Curvature = Float[Array, "f m m"]
_HIGHEST = jax.lax.Precision.HIGHEST


def curvature(
    connection: Connection, r: ShapeCoordinates, space: AbstractSpace, *, right: bool = False
) -> Curvature:
    """B^α_IJ = ∂A^α_I/∂r^J − ∂A^α_J/∂r^I + c^α_λμ A^λ_I A^μ_J of u = g⁻¹ġ + A(r) ṙ.

    **Arguments:**

    - `connection`: `connection(r)` → A `(dim, m)`.
    - `r`: shape `(m,)`.
    - `space`: the structure group G.
    - `right`: the connection of u = ġg⁻¹ + A(r) ṙ; the sign of c is then minus.

    **Returns:** B `(dim, m, m)`, index order `[α, I, J]`, antisymmetric in I, J: the block γ^α_IJ
    of `hamel_coefficients(principal_frame(connection, space), (g, r), Product(space, ...))`.

    **Raises:** `ValueError` when A(r) is not `(dim, m)`.

    Müller 2023, eq. (4.3), left, and (4.7), right.
    """
    A = connection(r)
    _checks.check_shape("connection(r)", A, (space.dim, *r.shape), "One row a group direction.")
    c = space.structure_constants(A.dtype)
    bracket = jnp.einsum("alm,li,mj->aij", c, A, A, precision=_HIGHEST)
    return _alternated(jax.jacfwd(connection)(r)) + (-bracket if right else bracket)


def bundle_curvature(
    connection: BundleConnection, s: Float[Array, " f"], r: ShapeCoordinates
) -> Curvature:
    """B^α_IJ = ∂A^α_I/∂r^J − ∂A^α_J/∂r^I + ∂A^α_J/∂s^β A^β_I − ∂A^α_I/∂s^β A^β_J.

    **Arguments:** `connection`: `connection(s, r)` → A `(f, m)`; `s` `(f,)`; `r` `(m,)`.

    **Returns:** B `(f, m, m)`, index order `[α, I, J]`: the block γ^α_IJ of
    `hamel_coefficients(bundle_frame(connection, f), q)`.

    **Raises:** `ValueError` when A(s, r) is not `(f, m)`.

    Müller 2023, eq. (3.11); Müller 2021, eq. (33), second line.
    """
    A = connection(s, r)
    _checks.check_shape("connection(s, r)", A, (*s.shape, *r.shape), "One row a fibre direction.")
    by_s, by_r = jax.jacfwd(connection, argnums=(0, 1))(s, r)
    horizontal = by_r - jnp.einsum("aib,bj->aij", by_s, A, precision=_HIGHEST)
    return _alternated(horizontal)


def _alternated(slope: Curvature) -> Curvature:
    return slope - jnp.swapaxes(slope, 1, 2)
