"""sin, cos and atan2 by additions, multiplications and one division, so that LLVM vectorises them.

**sin and cos together:**

    x = n π/2 + r ,  |r| ≤ π/4 ;   sin r ≈ r + r³ p(r²) ,   cos r ≈ 1 − r²/2 + r⁴ q(r²)

XLA calls the C library for each single sine on a CPU; in the ball with three masses that was more than half of the time.
π/2 is subtracted in three pieces (Cody and Waite, Software Manual for the Elementary Functions, 1980, chapter 8); p and q
are minimax polynomials (Remez' algorithm). The error is at most 2e-16 (1.2e-7 in single precision) for |x| below 1.6e6
(3,200), and beyond that the effect of one rounding of x.

**atan2:**

    a = min(|x|, |y|) , b = max(|x|, |y|) ;   atan(a/b) = atan r  or  π/4 + atan r ,   r = a/b  or  (a − b)/(a + b) ,
    |r| ≤ tan(π/8) ;   atan r ≈ r + r³ p(r²)

XLA calls the C library for each single value on a CPU, and a loop with such a call is not vectorised at all: a regulator on
SO(3), whose logarithm needs one atan2, made a rollout of the ball four times as slow. p is a minimax polynomial (Remez'
algorithm); the error is at most 3 units in the last place. Signs of zero, infinities and NaN are those of
the C library; an angle below the smallest normal number is 0.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array


class _SineNumbers(NamedTuple):
    # π/2 as a sum; all terms but the last have few digits, so that n times the term is exact
    half_pi: tuple[float, ...]
    sine: tuple[float, ...]  # p
    cosine: tuple[float, ...]  # q


_SINE = {
    np.dtype(np.float64): _SineNumbers(
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
    np.dtype(np.float32): _SineNumbers(
        (1.5703125, 0.0004837512969970703, 7.549790126404332e-08),
        (-0.166666547, 0.00833209973, -0.000195037958),
        (0.0416666546, -0.00138876532, 2.44636697e-05),
    ),
}


def has_sine(dtype) -> bool:
    """Whether there are polynomials for the sine and cosine in this dtype."""
    return np.dtype(dtype) in _SINE


def sine_and_cosine(x: Array) -> tuple[Array, Array]:
    """sin x and cos x; NaN where x is not finite.

    Its forty operations are calls of `lax`: with operators and `jnp.where` they take three times as long to trace, and every
    program traces them anew (docs/performance.md#first-values).
    """
    dtype = np.dtype(x.dtype)
    numbers, of = _SINE[dtype], dtype.type
    n = lax.floor(lax.add(lax.mul(x, of(2 / np.pi)), of(0.5)))  # GPU kernels know no `round`
    r = x
    for piece in numbers.half_pi:
        r = lax.sub(r, lax.mul(n, of(piece)))
    short = lax.lt(lax.abs(r), of(1))
    r = lax.select(short, r, lax.mul(of(0), r))  # |r| ≥ 1: x is so large that n mod 4 is not known
    z = lax.mul(r, r)
    by_sine, by_cosine = (_polynomial(p, z, of) for p in (numbers.sine, numbers.cosine))
    sine = lax.add(r, lax.mul(lax.mul(r, z), by_sine))
    cosine = lax.sub(of(1), lax.mul(of(0.5), z))
    cosine = lax.add(cosine, lax.mul(lax.mul(z, z), by_cosine))
    quarter = lax.sub(n, lax.mul(of(4), lax.floor(lax.mul(n, of(0.25)))))
    one, two, three = (lax.eq(quarter, of(k)) for k in (1, 2, 3))
    odd, below = lax.bitwise_or(one, three), lax.bitwise_or(one, two)
    first, second = lax.select(odd, cosine, sine), lax.select(odd, sine, cosine)
    return (
        lax.select(lax.ge(quarter, of(2)), lax.neg(first), first),
        lax.select(below, lax.neg(second), second),
    )


def _polynomial(coefficients: tuple[float, ...], z: Array, of) -> Any:
    value: Any = of(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = lax.add(lax.mul(value, z), of(c))
    return value


class _ArctangentNumbers(NamedTuple):
    polynomial: tuple[float, ...]  # p
    quarter: tuple[float, float]  # π/4 and its rounding error; multiplied by 2 and 4 for π/2 and π


_ARCTANGENT = {
    np.dtype(np.float64): _ArctangentNumbers(
        (
            -0.3333333333333022,
            0.1999999999910467,
            -0.1428571419652696,
            0.11111106703561016,
            -0.09090783528564843,
            0.07690083352829782,
            -0.06641246227251614,
            0.056931646966435184,
            -0.043608251097152724,
            0.02128013921153953,
        ),
        (0.7853981633974483, 3.06287113727155e-17),
    ),
    np.dtype(np.float32): _ArctangentNumbers(
        (
            -0.33333315505244054,
            0.19998489436651212,
            -0.1424384874658482,
            0.10596001636774584,
            -0.06083453577658413,
        ),
        (0.785398185253143, -2.1855694e-08),
    ),
}

_TAN_PI_8 = 0.41421356237309503


def has_arctangent(dtype) -> bool:
    """Whether there is a polynomial for the arctangent in this dtype."""
    return np.dtype(dtype) in _ARCTANGENT


def arctangent(y: Array, x: Array) -> Array:
    """atan2(y, x), in [−π, π]; NaN where x or y is NaN."""
    numbers, of = _ARCTANGENT[np.dtype(y.dtype)], np.dtype(y.dtype).type
    first, rest = map(of, numbers.quarter)
    across, along = jnp.abs(y), jnp.abs(x)
    steep = across > along
    low, high = jnp.where(steep, along, across), jnp.where(steep, across, along)
    equal = low == of(np.inf)  # both are infinite: the angle is that of (1, 1)
    low, high = jnp.where(equal, of(1), low), jnp.where(equal | (high == 0), of(1), high)
    turned = low > of(_TAN_PI_8) * high
    half = of(0.5) * low, of(0.5) * high  # their sum is finite
    ratio = jnp.where(turned, half[0] - half[1], low) / jnp.where(turned, half[0] + half[1], high)
    z = ratio * ratio
    angle = ratio + ratio * (z * _polynomial(numbers.polynomial, z, of))
    angle = jnp.where(turned, first + (angle + rest), angle)
    angle = jnp.where(steep, of(2) * first - (angle - of(2) * rest), angle)
    backward = (x < 0) | ((x == 0) & (of(1) / x < 0))
    angle = jnp.where(backward, of(4) * first - (angle - of(4) * rest), angle)
    negative = (y < 0) | ((y == 0) & (of(1) / y < 0))
    missing = lax.ne(x, x) | lax.ne(y, y)
    return jnp.where(missing, x + y, jnp.where(negative, -angle, angle))
