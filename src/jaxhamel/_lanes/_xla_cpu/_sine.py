"""Computes sin and cos together by additions and multiplications only, so that LLVM vectorises them.

    x = n π/2 + r ,  |r| ≤ π/4 ;   sin r ≈ r + r³ p(r²) ,   cos r ≈ 1 − r²/2 + r⁴ q(r²)

XLA calls the C library for each single sine on a CPU; in the ball with three masses that was more than half of the time.
π/2 is subtracted in three pieces (Cody and Waite, Software Manual for the Elementary Functions, 1980, chapter 8); p and q
are minimax polynomials (Remez' algorithm). The error is at most 2e-16 (1.2e-7 in single precision) for |x| below 1.6e6
(3,200), and beyond that the effect of one rounding of x.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array


class _Numbers(NamedTuple):
    half_pi: tuple[
        float, ...
    ]  # in pieces; all but the last are so short that n times the piece is exact
    sine: tuple[float, ...]  # p
    cosine: tuple[float, ...]  # q


_NUMBERS = {
    np.dtype(np.float64): _Numbers(
        (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
        (
            -0.1666666666666664,
            0.008333333333323648,
            -0.00019841269830131068,
            2.7557313646850735e-06,
            -2.5050733749621142e-08,
            1.5894661538947832e-10,
        ),
        (
            0.04166666666666665,
            -0.001388888888888283,
            2.4801587294619666e-05,
            -2.755731573548276e-07,
            2.0875897224629917e-09,
            -1.1367951190407842e-11,
        ),
    ),
    np.dtype(np.float32): _Numbers(
        (1.5703125, 0.0004837512969970703, 7.549790126404332e-08),
        (-0.166666547, 0.00833209973, -0.000195037958),
        (0.0416666546, -0.00138876532, 2.44636697e-05),
    ),
}


def has_sine(dtype) -> bool:
    """Whether there are polynomials for a dtype."""
    return np.dtype(dtype) in _NUMBERS


def sine_and_cosine(x: Array) -> tuple[Array, Array]:
    """sin x and cos x; NaN where x is not finite."""
    dtype = np.dtype(x.dtype)
    numbers, of = _NUMBERS[dtype], dtype.type
    n = lax.floor(x * of(2 / np.pi) + of(0.5))  # GPU kernels know no `round`
    r = x
    for piece in numbers.half_pi:
        r = r - n * of(piece)
    r = jnp.where(jnp.abs(r) < of(1), r, of(0) * r)  # x is so large that n has lost the quarter
    z = r * r
    sine = r + (r * z) * _polynomial(numbers.sine, z, of)
    cosine = (of(1) - of(0.5) * z) + (z * z) * _polynomial(numbers.cosine, z, of)
    quarter = n - of(4) * jnp.floor(n * of(0.25))
    odd = (quarter == of(1)) | (quarter == of(3))
    first, second = jnp.where(odd, cosine, sine), jnp.where(odd, sine, cosine)
    below = (quarter == of(1)) | (quarter == of(2))
    return (
        jnp.where(quarter >= of(2), -first, first),
        jnp.where(below, -second, second),
    )


def _polynomial(coefficients: tuple[float, ...], z: Array, of) -> Array:
    value = of(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * z + of(c)
    return value
