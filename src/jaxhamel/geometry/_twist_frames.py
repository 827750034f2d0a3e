"""The usual representations of a rigid body's velocity, as frames A(q) on the body twist v = (Ω, V).

    body        u = (Ω, Rᵀ ṗ)          A = 1                        γ = +c      (Müller 2021, eq. 47, 72)
    spatial     u = (ω, ṗ − ω × p)     A = Ad_q = [[R, 0], [p̂ R, R]]   γ = −c      (eq. 55, 82)
    hybrid      u = (ω, ṗ)             A = diag(R, R)               γ^k_ij = −ε_kij, i, j, k ≤ 3      (eq. 83)
    mixed       u = (Ω, ṗ)             A = diag(1, R)               γ^k_ij = +ε_kij, i, j, k ≤ 3
    Euler       u = (φ̇, θ̇, ψ̇, ṗ)       A = diag(E⁻¹, R)             γ = 0

with ω = R Ω. Massa and Vignolo call the equations of motion in them Kirchhoff's (body), Newton and
Euler's (spatial), hybrid (mixed) and Lagrange's (any coordinates; here Euler's angles). Their
"hybrid" has the angular velocity in the body, Müller's has it in space.

All but Euler's are regular at every configuration.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Frame
from jaxhamel.geometry._checks import check_space_kind
from jaxhamel.geometry._hamel import FrameFunction
from jaxhamel.geometry._quaternion import quaternion_matrix
from jaxhamel.geometry._se3 import SE3
from jaxhamel.geometry._so3 import SO3
from jaxhamel.geometry._space import AbstractSpace


def body_frame(space: AbstractSpace) -> FrameFunction:
    """A = 1: the quasi-velocities are the left-trivialised velocity itself, γ^c_ab = c^c_ab.

    **Arguments:** `space`: any configuration space.

    **Returns:** `frame(q)` → `(n, n)`, for `hamel_coefficients` or a `System`.

    Müller 2021, eq. (47) on SO(3), (72) on SE(3); Massa and Vignolo, eq. (7).
    """
    return lambda q: jnp.eye(space.dim, dtype=_dtype(q))


def spatial_frame(space: AbstractSpace) -> FrameFunction:
    """A = Ad_q: the right-trivialised velocity q̇ q⁻¹, γ^c_ab = −c^c_ab.

    On SE(3) u = (ω, ṗ − ω × p): the velocity of the body's point that is passing the origin of space.

    **Arguments, Returns:** as for `body_frame`.

    Müller 2021, eq. (55) on SO(3), (82) on SE(3); Massa and Vignolo, eq. (10).
    """
    return space.Ad


def hybrid_frame(space: SE3) -> FrameFunction:
    """A = diag(R, R), u = (ω, ṗ): angular velocity and velocity of the origin, both in space axes.

    **Arguments:** `space`: `SE3()`. **Returns:** as for `body_frame`.

    **Raises:** `TypeError` on another space.

    γ^k_ij = −ε_kij for i, j, k ≤ 3; every coefficient with a larger index is zero (Müller 2021,
    eq. 83): u belongs to SO(3) × R³, where rotations do not move the translations.
    """
    check_space_kind("space", space, SE3, "SE3()")
    return lambda q: _diagonal(quaternion_matrix(q[:4]), quaternion_matrix(q[:4]))


def mixed_frame(space: SE3) -> FrameFunction:
    """A = diag(1, R), u = (Ω, ṗ): angular velocity in the body, velocity of the origin in space.

    **Arguments, Returns, Raises:** as for `hybrid_frame`.

    γ^k_ij = +ε_kij for i, j, k ≤ 3, all others are zero. Massa and Vignolo call this frame hybrid; its
    u is the left-trivialised velocity of `Product(SO3(), Euclidean(3))`.
    """
    check_space_kind("space", space, SE3, "SE3()")
    return lambda q: _diagonal(jnp.eye(3, dtype=q.dtype), quaternion_matrix(q[:4]))


def euler_frame(space: SO3 | SE3) -> FrameFunction:
    """A = diag(E⁻¹, R), u = (φ̇, θ̇, ψ̇, ṗ): rates of Euler's angles z-x-z, so that γ = 0.

        Ω = E (φ̇, θ̇, ψ̇) = φ̇ Γ + θ̇ (cos ψ, −sin ψ, 0) + ψ̇ e_3 ,    Γ = Rᵀ e_3 = (s sin ψ, s cos ψ, cos θ) ,  s = sin θ

    **Arguments:** `space`: `SO3()` or `SE3()`. **Returns:** as for `body_frame`; infinite or NaN
    where sin θ = 0.

    **Raises:** `TypeError` on another space.

    Goldstein, eq. (4.87). A depends on sines and cosines of the angles only, so no angle is computed.
    """
    check_space_kind("space", space, (SO3, SE3), "SO3() or SE3()")

    def frame(q: Float[Array, " c"]) -> Frame:
        rotation = quaternion_matrix(q[:4])
        rates = euler_rates(rotation)
        return rates if isinstance(space, SO3) else _diagonal(rates, rotation)

    return frame


def euler_rates(rotation: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """E⁻¹ of (φ̇, θ̇, ψ̇) = E⁻¹ Ω, from the rotation matrix."""
    x, y, z = rotation[2, 0], rotation[2, 1], rotation[2, 2]  # Γ
    square = x * x + y * y
    sine = jnp.sqrt(square)
    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    rows = (
        [x / square, y / square, zero],
        [y / sine, -x / sine, zero],
        [-x * z / square, -y * z / square, one],
    )
    return jnp.stack([jnp.stack(row) for row in rows])


def _diagonal(first: Float[Array, "3 3"], second: Float[Array, "3 3"]) -> Frame:
    zero = jnp.zeros((3, 3), first.dtype)
    return jnp.block([[first, zero], [zero, second]])


def _dtype(q: Configuration):
    return jnp.result_type(*jax.tree.leaves(q))


# Conversion between the order (ω, v), as here and in Müller 2021, and (v, ω), as in From 2012 and jaxlie.
#
# The change of order is the permutation P = [[0, 1], [1, 0]] (blocks of three), its own inverse and
# transpose. So twists go as P x, and so do wrenches, (moment, force) ↔ (force, moment), which leaves
# the power wᵀx the same; matrices that act on either (Ad, ad, an inertia) go as P M P.


def _swap(x, axis: int):
    return jnp.roll(x, 3, axis=axis)


def linear_first(x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6"]:
    """(ω, v) → (v, ω) of twists, (moment, force) → (force, moment) of wrenches.

    **Arguments:** `x`: `(..., 6)`. **Returns:** P x, `(..., 6)`. **Raises:** `ValueError` for another last axis.
    """
    _checks.check_last_axes("x", x, (6,), "twists or wrenches")
    return _swap(x, -1)


def angular_first(x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6"]:
    """(v, ω) → (ω, v) of twists, (force, moment) → (moment, force) of wrenches; the same permutation as `linear_first`.

    **Arguments:** `x`: `(..., 6)`. **Returns:** P x, `(..., 6)`. **Raises:** `ValueError` for another last axis.
    """
    return linear_first(x)


def linear_first_matrix(matrix: Float[Array, "*batch 6 6"]) -> Float[Array, "*batch 6 6"]:
    """P M P: the matrix `(..., 6, 6)` that acts on (v, ω) like M (Ad, ad or an inertia) on (ω, v)."""
    _checks.check_last_axes("matrix", matrix, (6, 6), "matrices on twists or wrenches")
    return _swap(_swap(matrix, -1), -2)


def angular_first_matrix(matrix: Float[Array, "*batch 6 6"]) -> Float[Array, "*batch 6 6"]:
    """P M P: the matrix `(..., 6, 6)` that acts on (ω, v) like M (Ad, ad or an inertia) on (v, ω)."""
    return linear_first_matrix(matrix)
