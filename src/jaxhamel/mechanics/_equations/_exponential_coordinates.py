"""The equations of a body on a Lie group in exponential coordinates φ, at φ = 0, where these have no singularity.

    M v̇ + C(v) v = τ ,     C_ij(v) = Σ_k (∂S_ki/∂φ_j − ∂S_kj/∂φ_i)|_{φ=0} (M v)_k ,     v = S(φ) φ̇      (From 2012, eq. 57)

with S(φ) = 1 − ½ ad_φ + ⅙ ad_φ² − … = dexp(−φ). On every Lie group C_ij = c^k_ij (Mv)_k, so that C(v) v = −ad_vᵀ M v:
theorem 5.1. Many matrices C have the same product C(v) v; this one is skew, so that C(v) v does no work.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Velocity
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._small_solve import symmetric_solve


def velocity_transformation(space: AbstractSpace, phi: Velocity) -> Float[Array, "n n"]:
    """The matrix S(φ) of v = S(φ) φ̇ for q = q̄·exp(φ): S = 1 − ½ ad_φ + ⅙ ad_φ² − … = dexp(−φ), in closed form, `(n, n)`.

    **Raises:** `ValueError` for a φ of the wrong shape. From 2012, eq. (28), (29), (59), table 2.
    """
    _check_vectors(space, phi=phi)
    return space.dexp(-phi)


def coriolis_matrix(space: AbstractSpace, momentum: Float[Array, " n"]) -> Float[Array, "n n"]:
    """The matrix C_ij = Σ_k (∂S_ki/∂φ_j − ∂S_kj/∂φ_i)|_{φ=0} p_k of M v̇ + C(v) v = τ, with p = M v, by autodiff of S.

    **Arguments:** `space`: the group; `momentum`: p = M v, dual to v, `(n,)`. **Returns:** C `(n, n)`, skew.

    **Raises:** `ValueError` for a momentum of the wrong shape.

    From 2012, eq. (57), (109), tables 1 and 2. Twists are (ω, v) here; for the order of From, (v, ω), see
    `linear_first_matrix`.
    """
    _check_vectors(space, momentum=momentum)
    slope = jax.jacfwd(lambda phi: velocity_transformation(space, phi))(jnp.zeros_like(momentum))
    return jnp.einsum("kij,k->ij", slope - jnp.swapaxes(slope, 1, 2), momentum)


def body_acceleration(
    space: AbstractSpace,
    inertia: Float[Array, "n n"],
    v: Velocity,
    force: Float[Array, " n"] | None = None,
) -> Velocity:
    """The acceleration v̇ of M v̇ + C(v) v = τ, for a body with left-invariant kinetic energy ½ vᵀ M v on any Lie group.

    **Arguments:**

    - `space`: the group: one that has a name, or a `MatrixGroup` given by generators.
    - `inertia`: M `(n, n)`, constant in the body; on a subgroup of SE(3) Hᵀ I_b H, see `geometry.selection_matrix`.
    - `v`: body velocity `(n,)`; `force`: τ, dual to v, `(n,)`; None for no force.

    **Returns:** v̇ `(n,)`. **Raises:** `ValueError` for arrays of the wrong shape.

    From 2012, eq. (48), (104), theorem 5.1.
    """
    _checks.check_shape(
        "inertia", inertia, (space.dim, space.dim), "It is M of the kinetic energy ½ vᵀ M v."
    )
    _check_vectors(space, v=v, **({} if force is None else {"force": force}))
    momentum = inertia @ v
    right = -(coriolis_matrix(space, momentum) @ v)
    return symmetric_solve(inertia, right if force is None else force + right)


def _check_vectors(space, **vectors) -> None:
    for name, vector in vectors.items():
        _checks.check_shape(name, vector, (space.dim,), "One entry for each dimension of `space`.")
