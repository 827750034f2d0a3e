"""Computes atan2 by one division, additions and multiplications, so that LLVM vectorises it.

    a = min(|x|, |y|) , b = max(|x|, |y|) ;   atan(a/b) = atan r  or  π/4 + atan r ,   r = a/b  or  (a − b)/(a + b) ,
    |r| ≤ tan(π/8) ;   atan r ≈ r + r³ p(r²)

XLA calls the C library for each single value on a CPU, and a loop with such a call is not vectorised at all: a regulator on
SO(3), whose logarithm needs one atan2, made a rollout of the ball four times as slow. p is a minimax polynomial (Remez'
algorithm); the error is at most 3 units in the last place. Signs of zero, infinities and NaN are those of
the C library; an angle below the smallest normal number is 0.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array


class _Numbers(NamedTuple):
    polynomial: tuple[float, ...]  # p
    quarter: tuple[float, float]  # π/4 and its rounding error; multiplied by 2 and 4 for π/2 and π


_NUMBERS = {
    np.dtype(np.float64): _Numbers(
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
    np.dtype(np.float32): _Numbers(
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
    """Whether there is a polynomial for a dtype."""
    return np.dtype(dtype) in _NUMBERS


def arctangent(y: Array, x: Array) -> Array:
    """atan2(y, x), in (−π, π]; NaN where one of them is."""
    numbers, of = _NUMBERS[np.dtype(y.dtype)], np.dtype(y.dtype).type
    first, rest = map(of, numbers.quarter)
    across, along = jnp.abs(y), jnp.abs(x)
    steep = across > along
    low, high = jnp.where(steep, along, across), jnp.where(steep, across, along)
    equal = low == of(np.inf)  # both infinite: as two ones
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


def _polynomial(coefficients: tuple[float, ...], z: Array, of) -> Array:
    value = of(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * z + of(c)
    return value
