"""The ten inertial parameters of a rigid body, and coordinates for which every value is physically possible."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Scalar, Vector3
from jaxhamel.identify._checks._parameters import check_realisable


def pseudo_inertia(mass: ArrayLike, com: ArrayLike, inertia: ArrayLike) -> Float[Array, "4 4"]:
    r"""The pseudo-inertia matrix about the body's origin:

        J = ∫ (x, 1)(x, 1)ᵀ dm = [ Σ_C + m c cᵀ   m c ]       Σ_C = ½ tr(I_C) 1 − I_C
                                 [ m cᵀ           m   ]

    J is positive definite if and only if a distribution of positive mass has these parameters: this includes m > 0, I_C > 0
    and the triangle inequality of the principal moments.

    **Arguments:** `mass`: m [kg]; `com`: c, from the origin [m], `(3,)`; `inertia`: I_C about the centre of
    mass [kg m²], `(3, 3)` or the three principal moments `(3,)`.

    **Returns:** J, `(4, 4)`.

    **Raises:** `ValueError` for a `com` of another shape. Impossible parameters are accepted; their J is not positive
    definite.

    Source: Wensing, Kim and Slotine 2018, eq. (14); Rucker and Wensing 2022, eq. (4).
    """
    mass, com, inertia = jnp.asarray(mass), jnp.asarray(com), jnp.asarray(inertia)
    _checks.check_shape("com", com, (3,))
    first = mass * com
    second = second_moments(inertia) + mass * com[:, None] * com[None, :]
    return jnp.block([[second, first[:, None]], [first[None, :], mass[None, None]]])


def second_moments(inertia: Float[Array, "..."]) -> Float[Array, "3 3"]:
    """The second moments Σ = ∫ x xᵀ dm = ½ tr(I) 1 − I, from a rotational inertia I about the same point."""
    matrix = jnp.diag(inertia) if inertia.ndim == 1 else 0.5 * (inertia + inertia.T)
    return 0.5 * jnp.trace(matrix) * jnp.eye(3, dtype=matrix.dtype) - matrix


def inertia_of(second: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """The rotational inertia I = tr(Σ) 1 − Σ, from second moments."""
    return jnp.trace(second) * jnp.eye(3, dtype=second.dtype) - second


def log_cholesky(mass: ArrayLike, com: ArrayLike, inertia: ArrayLike) -> Float[Array, " 10"]:
    r"""The coordinates θ = (α, d_1, d_2, d_3, s_12, s_23, s_13, t_1, t_2, t_3) of the pseudo-inertia J = U Uᵀ:

                [ e^d_1  s_12   s_13   t_1 ]
        U = e^α [ 0      e^d_2  s_23   t_2 ]
                [ 0      0      e^d_3  t_3 ]
                [ 0      0      0      1   ]

    Hence m = e^2α, c = t, and Σ_C / m is the product of the upper left 3 × 3 block of U e^−α with its transpose. Every θ in
    R¹⁰ gives a body that can exist, and every such body has exactly one θ.

    **Arguments:** those of `pseudo_inertia`. **Returns:** θ, `(10,)`.

    **Raises:** `ValueError` for an inertia that no body can have.

    Source: Rucker and Wensing 2022, eq. (11), (12).
    """
    mass, com, inertia = jnp.asarray(mass), jnp.asarray(com), jnp.asarray(inertia)
    _checks.check_positive("mass", mass)
    _checks.check_shape("com", com, (3,))
    check_realisable("inertia", inertia)
    upper = upper_cholesky(second_moments(inertia) / mass)
    return jnp.concatenate(
        [0.5 * jnp.log(mass)[None], jnp.log(jnp.diagonal(upper)), _above(upper), com]
    )


def from_log_cholesky(
    theta: Float[Array, " 10"],
) -> tuple[Scalar, Vector3, Float[Array, "3 3"]]:
    """The mass, centre of mass and inertia (m, c, I_C) of the coordinates θ: the inverse of `log_cholesky`, defined for
    every θ.

    **Arguments:** `theta`: θ, `(10,)`. **Returns:** m [kg], c [m] `(3,)`, I_C [kg m²] `(3, 3)`.

    **Raises:** `ValueError` for another shape. Source: as for `log_cholesky`.
    """
    theta = jnp.asarray(theta)
    _checks.check_shape("theta", theta, (10,))
    mass = jnp.exp(2 * theta[0])
    upper = upper_triangle(jnp.exp(theta[1:4]), theta[4:7])
    return mass, theta[7:], mass * inertia_of(upper @ upper.T)


def upper_cholesky(matrix: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """The upper triangular factor U with positive diagonal of a matrix M = U Uᵀ."""
    lower = jnp.linalg.cholesky(matrix[::-1, ::-1])
    return lower[::-1, ::-1]


def upper_triangle(diagonal: Float[Array, " 3"], above: Float[Array, " 3"]) -> Float[Array, "3 3"]:
    """The upper triangular matrix with the given diagonal and (s_12, s_23, s_13) above it."""
    matrix = jnp.diag(diagonal)
    rows, columns = jnp.array([0, 1, 0]), jnp.array([1, 2, 2])
    return matrix.at[rows, columns].set(above)


def _above(upper: Float[Array, "3 3"]) -> Float[Array, " 3"]:
    return jnp.stack([upper[0, 1], upper[1, 2], upper[0, 2]])
