"""Random kinematic connections, and the groups they are tested on."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SE3, SO2, SO3

GROUPS = [SO2(), SO3(), SE2(), SE3()]
by_group = pytest.mark.parametrize("space", GROUPS, ids=[type(g).__name__ for g in GROUPS])


def random_connection(seed, rows, columns, features):
    """A smooth random matrix function A(x), `(rows, columns)`, of `features` numbers x."""
    generator = np.random.default_rng(seed)
    out, inner = generator.normal(size=(rows, columns, 4)), generator.normal(size=(4, features))
    return lambda x: jnp.tensordot(jnp.asarray(out), jnp.sin(jnp.asarray(inner) @ x + 0.3), axes=1)
