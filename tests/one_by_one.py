"""A batch computed by the program of a single entry, which is called for each entry."""

from collections.abc import Callable

import jax
import numpy as np


def of_each(function: Callable) -> Callable:
    """As `jax.jit(jax.vmap(function))`, but without `vmap`, under which programs take longer to trace and to compile."""
    program = jax.jit(function)

    def of_batch(*batch):
        batch = jax.tree.map(np.asarray, batch)
        size = len(jax.tree.leaves(batch)[0])
        found = [program(*jax.tree.map(lambda x, i=i: x[i], batch)) for i in range(size)]
        return jax.tree.map(lambda *x: np.stack(x), *found)

    return of_batch
