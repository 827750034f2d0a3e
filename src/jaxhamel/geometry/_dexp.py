"""The differential of exp where ad is cubic: ad³ = −θ² ad (SO(3), SE(2), Schoenflies).

    dexp_x    = Σ ad_x^k / (k+1)!        = 1 + C_2(θ²) ad + C_3(θ²) ad²
    dexp_x⁻¹  = Σ B_k ad_x^k / k!        = 1 − ad/2 + f(θ²) ad²,   f = (1 − (θ/2) cot(θ/2)) / θ²

f(0) = 1/12 (Iserles, Munthe-Kaas, Nørsett and Zanna
2000, Acta Numerica 9). With C_k entire (see `_entire`) both are smooth through θ = 0; dexp⁻¹ has
its first pole at θ = 2π.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.geometry._entire import entire


def square(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """M M at full precision; by default accelerators round the factors of float32 products to ten bits."""
    return jnp.matmul(matrix, matrix, precision=jax.lax.Precision.HIGHEST)


def cubic_dexp(ad: Float[Array, "n n"], x: Scalar) -> Float[Array, "n n"]:
    """1 + C_2(x) ad + C_3(x) ad², for ad³ = −x ad."""
    eye = jnp.eye(ad.shape[0], dtype=ad.dtype)
    return eye + entire(2, x) * ad + entire(3, x) * square(ad)


def cubic_dexpinv(ad: Float[Array, "n n"], x: Scalar) -> Float[Array, "n n"]:
    """1 − ad/2 + f(x) ad², for ad³ = −x ad; pole at x = (2π)²."""
    eye = jnp.eye(ad.shape[0], dtype=ad.dtype)
    return eye - ad / 2 + inverse_coefficient(x) * square(ad)


def inverse_coefficient(x: Scalar) -> Scalar:
    """f(x) = (1 − (θ/2) cot(θ/2)) / θ² = (C_2 − C_3) / (4 C_1) at x/4, x = θ².

    With the half angle only C_3 needs a series; the equal expression (C_3 − 2 C_4) / (2 C_2) at x needs two.
    """
    y = x / 4
    return (entire(2, y) - entire(3, y)) / (4 * entire(1, y))


def half_cotangent(x: Scalar) -> Scalar:
    """(θ/2) cot(θ/2) = C_0(x/4) / C_1(x/4), x = θ²."""
    return entire(0, x / 4) / entire(1, x / 4)
