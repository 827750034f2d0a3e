"""Entire functions behind every closed form of the geometry: Stumpff's C_k.

    C_k(x) = Σ_j (−1)^j x^j / (2j + k)!,     x = θ²

C_0 = cos θ, C_1 = sin θ / θ, C_2 = (1 − cos θ)/θ², C_3 = (θ − sin θ)/θ³, … They are entire in x, so that formulas in
terms of them have no singularity at the identity, and their derivatives are such functions again,

    dC_k/dx = (k C_{k+2} − C_{k+1}) / 2 ,

so derivatives of every order are as accurate as the functions (Stumpff 1959, Himmelsmechanik I).
Automatic differentiation of cos(√x) would instead divide by √x.
"""

from functools import lru_cache, partial
from math import factorial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def entire(k: int, x: Float[Array, ""]) -> Scalar:
    """C_k(x) = Σ_j (−1)^j x^j / (2j + k)!, accurate to a few units of rounding for x ≥ 0.

    **Arguments:**

    - `k`: order, a static integer ≥ 0.
    - `x`: θ², `()` or any shape, of any floating dtype (kept), radians squared.

    **Returns:** C_k(x), same shape and dtype; derivatives of every order in x are finite.
    """
    return _value(k, x)


# Under `jit`, so that it is traced once for each k, shape and dtype: the derivatives of one right-hand side call it often.
@partial(jax.jit, static_argnums=0, inline=True)
def _value(k: int, x):
    if k == 0:
        return _cos(x)
    if k == 1:
        return _sinc(x)
    if k == 2:
        return _sinc(x / 4) ** 2 / 2  # half angle: no cancellation in 1 − cos θ
    return _above_two(k, x)


@entire.defjvp
def _entire_jvp(k, primals, tangents):
    (x,), (dx,) = primals, tangents
    return entire(k, x), (k * entire(k + 2, x) - entire(k + 1, x)) / 2 * dx


# JAX's reverse mode of a loop ignores the derivative rule of `entire` and differentiates `_cos` and `_sinc` themselves. Near
# 0 both are series, because the derivatives of sin(√x)/√x cancel there: with x = |φ|², second derivatives by φ would be
# wrong by ε/|φ|.
_NEAR = 1e-3


def _cos(x):
    """cos √x."""
    near = x < _NEAR
    small = jnp.where(near, x, 0)
    series = 1 - small / 2 * (1 - small / 12 * (1 - small / 30 * (1 - small / 56)))
    return jnp.where(near, series, jnp.cos(jnp.sqrt(jnp.where(near, 1, x))))


def _sinc(x):
    """sin(√x)/√x."""
    near = x < _NEAR
    small, theta = jnp.where(near, x, 0), jnp.sqrt(jnp.where(near, 1, x))
    series = 1 - small / 6 * (1 - small / 20 * (1 - small / 42))
    return jnp.where(near, series, jnp.sin(theta) / theta)


def _above_two(k: int, x):
    near = x < _switch(k)
    series = _taylor(k, jnp.where(near, x, 0))
    return jnp.where(near, series, _climb(k, jnp.where(near, _switch(k), x)))


def _climb(k: int, x):
    """C_k(x) for large x, by the recurrence C_k = (1/(k−2)! − C_{k−2}) / x from C_1 or C_2 upwards."""
    start = 1 if k % 2 else 2
    value = entire(start, x)
    for j in range(start + 2, k + 1, 2):
        value = (1 / factorial(j - 2) - value) / x
    return value


def _taylor(k: int, x):
    """C_k(x) for small x, by Horner's scheme; the coefficients are multiplied by k!, since factorials overflow float32."""
    last = _number_of_terms(k, float(jnp.finfo(x.dtype).eps))
    coefficients = [(-1) ** j * factorial(k) / factorial(2 * j + k) for j in range(last + 1)]
    value = jnp.full_like(x, coefficients[-1])
    for a in coefficients[-2::-1]:
        value = value * x + a
    return value / factorial(k)


def _switch(k: int) -> float:
    """The x from which the recurrence is used: its steps amplify rounding errors by about k(k−1)/x; below it the series is
    accurate.
    """
    return max(4.0, k * (k - 1) / 2)


@lru_cache
def _number_of_terms(k: int, eps: float) -> int:
    """The number of terms of the series after the first, up to one below rounding at x = `_switch(k)`."""
    term, j = 1.0, 0
    while term > eps:
        j += 1
        term *= _switch(k) / ((2 * j + k) * (2 * j + k - 1))
    return j
