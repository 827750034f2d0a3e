"""Arrays of all lanes as lists of their entries, and back."""

import math

import jax.numpy as jnp
import numpy as np


def entries_of_array(batched: bool, value) -> list:
    """The entries of an array: (B,) vectors if it has a leading axis of lanes, otherwise scalars."""
    if not batched:
        return list(jnp.ravel(value)) if np.ndim(value) else [value]
    flat = jnp.reshape(value, (value.shape[0], math.prod(value.shape[1:])))
    return [flat[:, i] for i in range(flat.shape[1])]


def array_of_entries(entries: list, aval, size: int):
    """One array with a leading axis of lanes, of (B,) vectors."""
    if not entries:
        return jnp.zeros((size, *aval.shape), aval.dtype)
    columns = [jnp.broadcast_to(jnp.asarray(x, aval.dtype), (size,)) for x in entries]
    return jnp.reshape(jnp.stack(columns, axis=1), (size, *aval.shape))
