"""Normal random numbers for the errors of sensors, independent for each trajectory and each sample.

    ξ₁ = r cos φ ,  ξ₂ = r sin φ ,    r = √(−2 ln u) ,  u uniform in (0, 1) ,  φ uniform in [−π, π)

(Box and Muller, Annals of Mathematical Statistics 29, 1958). u and φ are made of the 64 bits of one evaluation of
Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), whose counter is (trajectory, pair): the numbers of a trajectory do
not depend on the number of trajectories. u is an odd multiple of 2⁻³¹, so that |ξ| is below 6.6.

JAX's own normal numbers are slower on a CPU: XLA calls the C library for each inverse error function, and JAX runs the
rounds of Threefry one after the other over arrays. The operations here run in lanes (docs/performance.md#closed-loops).
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt32

from jaxhamel.control._loop._periods._period import Periods

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)
_CENTRE = np.sqrt(0.5)  # c of `minus_two_logarithms`


def noise_keys(key: Any, plan: Periods) -> UInt32[Array, "K 2"] | None:
    """Threefry's keys at all samples, from a key of any of JAX's generators; None without a key or without sensors."""
    if key is None or plan.width[1] == 0:
        return None

    def of(k):
        return jax.random.bits(jax.random.fold_in(key, k), (2,), jnp.uint32)

    return jax.vmap(of)(jnp.arange(plan.samples))


def noise_in(key: Array | None, trajectory: Array, count: int, dtype) -> Float[Array, " r"]:
    """The noise ξ ~ N(0, 1) of the `count` measured numbers of a trajectory in the sample with this key; 0 without a key."""
    if key is None:
        return jnp.zeros(count, dtype)
    return normal_numbers(key, trajectory, count, dtype)


def normal_numbers(
    key: UInt32[Array, "2"], trajectory: Array, count: int, dtype
) -> Float[Array, " n"]:
    """`count` independent numbers ~ N(0, 1) of the trajectory with this index."""
    pairs = jnp.arange(-(-count // 2), dtype=jnp.uint32)
    first, second = threefry(key, jnp.broadcast_to(trajectory, pairs.shape), pairs)
    r = jnp.sqrt(minus_two_logarithms(first, dtype))
    angle = _number(second, dtype) * np.asarray(np.pi * 2.0**-31, dtype)
    return jnp.concatenate([r * jnp.cos(angle), r * jnp.sin(angle)])[:count]


def threefry(key: UInt32[Array, "2"], x0: Array, x1: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds: 64 random bits for each counter (x0, x1)."""
    keys = key[0], key[1], key[0] ^ key[1] ^ _PARITY
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = _rotated(x1, rotation) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def _rotated(x: Array, by: int) -> Array:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


def minus_two_logarithms(bits: Array, dtype) -> Array:
    """−2 ln u of u = n 2⁻³¹, n the first 31 bits with the last one set.

    With e leading zeros, u = 2⁻ᵉ m, m in [½, 1), and ln m = ln c + 2 artanh s, s = (m − c)/(m + c), c = √½, |s| < 0.172.
    """
    of = partial(np.asarray, dtype=dtype)
    odd = (bits >> np.uint32(1)) | np.uint32(1)
    zeros = lax.clz(odd) - np.uint32(1)
    m = _number(odd << zeros, dtype) * of(2.0**-31)
    s = (m - of(_CENTRE)) / (m + of(_CENTRE))
    z, series = s * s, of(0.0)
    for k in range(8, -1, -1):
        series = series * z + of(4 / (2 * k + 1))
    of_exponent = _number(zeros, dtype) * of(2 * np.log(2.0))
    return of_exponent + jnp.maximum(of(-2 * np.log(_CENTRE)) - s * series, of(0.0))


def _number(bits: Array, dtype) -> Array:
    """Reads 32 bits as a signed integer, and converts it to a floating-point number."""
    return lax.bitcast_convert_type(bits, jnp.int32).astype(dtype)
