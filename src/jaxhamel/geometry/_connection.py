"""Kinematic connections: constraints solved for the velocities along the fibre of a bundle.

    trivial bundle S × R:             u^α = ṡ^α + A^α_I(s, r) ṙ^I      (Müller 2023, eq. 3.8)
    principal bundle G × R^m, left:   u^α = ξ^α + A^α_I(r) ṙ^I ,  ξ = g⁻¹ġ      (eq. 4.1)
    the same, right:                  u^α = ξ̂^α + A^α_I(r) ṙ^I ,  ξ̂ = ġg⁻¹ = Ad_g ξ

With u^I = ṙ^I these are the frame [[1, A], [0, 1]], whose Hamel coefficients γ^α_IJ are the
curvature of the connection (see `curvature`), and motion with u^α = 0 is its horizontal lift,
ξ = −A(r) ṙ (see `_phase`).

Müller's A has the sign of u = ξ + A ṙ: books that write ξ = A ṙ have −A.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks, _lapack
from jaxhamel._typing import Configuration, Frame, Velocity
from jaxhamel.geometry._space import AbstractSpace

ShapeCoordinates = Float[Array, " m"]
ConnectionMatrix = Float[Array, "f m"]  # f fibre directions, m shape coordinates
Connection = Callable[[ShapeCoordinates], ConnectionMatrix]
BundleConnection = Callable[[Float[Array, " f"], ShapeCoordinates], ConnectionMatrix]


def kinematic_connection(rows: Float[Array, "f n"]) -> ConnectionMatrix:
    """A = A_1⁻¹ A_2, the connection matrix of the constraints A_1 ξ + A_2 ṙ = 0.

    **Arguments:**

    - `rows`: [A_1 A_2] `(f, f + m)`, as many constraints as there are fibre directions, which
      come first; A_1 regular.

    **Returns:** A `(f, m)`; inf or NaN where the fibre is not transversal to the constraints.

    Müller 2021, eq. (30); Müller 2023, eq. (3.8). This calls a LAPACK solve: in right-hand sides write
    A explicitly or use `jaxhamel.mechanics.chaplygin`.
    """
    fibre = rows.shape[0]
    return _lapack.solve(rows[:, :fibre], rows[:, fibre:])


def fibre_velocity(connection: ConnectionMatrix, rdot: ShapeCoordinates) -> Float[Array, " f"]:
    """ξ = −A ṙ (or ṡ = −A ṙ): the velocity along the fibre that the constraints u^α = 0 leave.

    **Arguments:** `connection`: A at the configuration, `(f, m)`; `rdot`: ṙ `(m,)`.

    **Returns:** ξ `(f,)`: g⁻¹ġ of a left, ġg⁻¹ of a right connection. Müller 2023, eq. (3.13).
    """
    return -jnp.matmul(connection, rdot, precision=jax.lax.Precision.HIGHEST)


def bundle_frame(connection: BundleConnection, fibre: int) -> Callable[[Velocity], Frame]:
    """The frame [[1, A(s, r)], [0, 1]] on R^n, q = (s, r) in one array.

    **Arguments:** `connection`: `connection(s, r)` → A `(f, m)`; `fibre`: f, the length of s.

    **Returns:** `frame(q)` → `(n, n)`, for `hamel_coefficients` or a `System` with f constraints.

    Müller 2021, eq. (32); Müller 2023, eq. (3.9).
    """

    def frame(q: Velocity) -> Frame:
        A = connection(q[:fibre], q[fibre:])
        return _bordered(jnp.eye(fibre, dtype=A.dtype), A)

    return frame


def principal_frame(
    connection: Connection, space: AbstractSpace, *, right: bool = False
) -> Callable[[Configuration], Frame]:
    """The frame [[1, A(r)], [0, 1]] on `Product(space, Euclidean(m))`, q = (g, r).

    **Arguments:**

    - `connection`: `connection(r)` → A `(dim, m)`.
    - `space`: the structure group G.
    - `right`: for a right connection, u = ġg⁻¹ + A ṙ; its frame is [[Ad_g, A], [0, 1]].

    **Returns:** `frame(q)` → `(n, n)`. Müller 2023, eq. (4.1), remark 4.1.
    """

    def frame(q: Configuration) -> Frame:
        g, r = q
        A = connection(r)
        first = space.Ad(g) if right else jnp.eye(space.dim, dtype=A.dtype)
        return _bordered(first, A)

    return frame


def _bordered(first: Float[Array, "f f"], A: ConnectionMatrix) -> Frame:
    fibre, m = A.shape
    below = jnp.eye(fibre + m, dtype=A.dtype)[fibre:]
    return jnp.concatenate([jnp.concatenate([first, A], axis=1), below])


# Curvature of a kinematic connection, with Müller's sign: the Hamel coefficients γ^α_IJ.
#
#     B^α_IJ = ∂A^α_I/∂r^J − ∂A^α_J/∂r^I ± c^α_λμ A^λ_I A^μ_J      (Müller 2023, eq. 1.3, 4.3, 4.7)
#
# on a principal bundle, + for a left connection, − for a right one, and on a trivial bundle S × R
#
#     B^α_IJ = ∂A^α_I/∂r^J − ∂A^α_J/∂r^I + ∂A^α_J/∂s^β A^β_I − ∂A^α_I/∂s^β A^β_J .      (eq. 3.11)
#
# B = 0 in a region if and only if the constraints are holonomic there. Gauge theory has the
# opposite sign, dA(∂_I, ∂_J) = ∂_I A_J − ∂_J A_I: with it the holonomy of a small loop is −∮A = −∫B,
# with Müller's +∫B (see `_phase`).


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
    _checks.check_shape(
        "connection(r)", A, (space.dim, *r.shape), "It has a row for each direction of the group."
    )
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
