"""The operations that tests perform by NumPy give the results of JAX's programs."""

import jax
import jax.numpy as jnp
import numpy as np

X = np.linspace(-1e39, 1e40, 24).reshape(4, 6)


def moves(x, i):
    """One operation of each kind."""
    starts = (i, jnp.asarray(9, i.dtype))
    return [
        jnp.asarray(X),
        jnp.zeros((2, 3)),
        jnp.full(3, x[0, 0]),
        x[:, None, ::2],
        x.astype(jnp.float32),
        i.astype(float),
        (x > 0).astype(int),
        x[1:, -1],
        jax.lax.dynamic_slice(x, starts, (2, 3)),
        x.T,
        x.reshape(2, -1),
        jnp.concatenate([x, x], 1),
        jnp.stack([x, 2.0 - x], 1),
        jax.lax.broadcasted_iota(int, (2, 3), 1),
        jnp.full((2,), 2.0),
    ]


def test_moves_are_those_of_programs():
    x, i = jnp.asarray(X), jnp.asarray(np.asarray(-1))
    for found, wanted in zip(moves(x, i), jax.jit(moves)(x, i), strict=True):
        assert isinstance(found, jax.Array)
        assert (found.shape, found.dtype, found.weak_type) == (
            wanted.shape,
            wanted.dtype,
            wanted.weak_type,
        )
        np.testing.assert_array_equal(found, wanted)


def test_moved_numbers_share_no_memory():
    whole = np.ones(1032)
    x = whole[-whole.ctypes.data // 8 % 8 :][:1024]  # JAX shares memory aligned to 64 bytes
    copies = [jnp.array(x), jnp.asarray(x)[:]]
    x[:] = 0.0
    for copy in copies:
        np.testing.assert_array_equal(copy, 1.0)


def test_real_numbers_become_integers_by_jax():
    found = jnp.asarray(np.array([1e30, np.nan])).astype(jnp.int32)
    np.testing.assert_array_equal(found, [2**31 - 1, 0])
