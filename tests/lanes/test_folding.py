"""Constant folding by lanes, against JAX's arithmetic on the same values."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._elementwise import ELEMENTWISE


def test_quotients_and_remainders():
    """Integers of either sign, zero divisors, and real numbers with infinities are divided as JAX divides them."""
    whole = jnp.asarray(np.stack(np.meshgrid([-7, -1, 0, 1, 7], [-2, 0, 3])).reshape(2, -1))
    real = jnp.asarray([[-7.5, 1.0, 0.0, jnp.inf, 5.0], [2.0, -3.0, 4.0, 2.0, jnp.inf]])
    for name, primitive in (("div", lax.div_p), ("rem", lax.rem_p)):
        fold = ELEMENTWISE[name].fold
        assert fold is not None
        for x, y in (whole, real):
            wanted = jax.jit(primitive.bind)(x, y)
            with np.errstate(invalid="ignore"):  # the remainder of an infinite number is NaN
                found = [fold(*pair) for pair in zip(*np.stack([x, y]), strict=True)]
            np.testing.assert_array_equal(found, wanted)
