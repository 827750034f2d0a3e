"""Normal random numbers of the sensors: the generator's published test vectors, its logarithm, the distribution."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

from jaxhamel.control._loop._periods._noise import (
    minus_two_logarithms,
    normal_numbers,
    threefry,
)


def test_published_vectors():
    """Bits of Threefry-2x32 with 20 rounds for three pairs (counter, key), as published with Random123."""
    vectors = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ]
    counters, keys, wanted = (
        np.array(column, np.uint32).T for column in zip(*vectors, strict=True)
    )
    np.testing.assert_array_equal(threefry(keys, *counters), wanted)


@pytest.mark.parametrize(("dtype", "error"), [(jnp.float64, 1e-15), (jnp.float32, 4e-7)])
def test_logarithms(dtype, error):
    """−2 ln u at the smallest and largest u, at powers of two and at random values."""
    ends = [0, 1, 2, 3, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1]
    rng = np.random.default_rng(0)
    bits = np.concatenate([ends, *(rng.integers(2**k, size=50) for k in range(1, 33))])
    exact = -2 * np.log((bits // 2 | 1) / 2.0**31)
    found = minus_two_logarithms(jnp.asarray(bits, jnp.uint32), dtype)
    np.testing.assert_allclose(found, exact, rtol=error, atol=error)
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_distribution(dtype):
    """The numbers are N(0, 1) by the Kolmogorov–Smirnov test and uncorrelated between trajectories, samples and the
    entries of a draw."""
    of = partial(normal_numbers, count=3, dtype=dtype)
    at = jax.jit(jax.vmap(jax.vmap(of, (None, 0)), (0, None)))
    keys = jax.random.bits(jax.random.key(5), (2, 2), jnp.uint32)
    found = np.asarray(at(keys, jnp.arange(20_000, dtype=jnp.uint32)), float)
    assert found.shape == (2, 20_000, 3)
    columns = np.concatenate(found, 1).T
    assert min(kstest(x, "norm").pvalue for x in columns) > 1e-3
    pairs = np.concatenate([columns, columns**2, np.roll(columns, 1, axis=1)])
    assert np.max(np.abs(np.corrcoef(pairs) - np.eye(18))) < 4.5 / np.sqrt(20_000)
