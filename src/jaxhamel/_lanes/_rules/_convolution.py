"""The rule for convolutions, which become one product for each entry of the kernel:

    y_i = Σ_k w_k x_(s i + d k) ,

with a stride s, and entries of the kernel that are d places apart.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported
from jaxhamel._lanes._graph._primitive import Kind, Primitive


def convolution(
    graph: Graph, equation, interpret: Callable, x: Nodes, kernel: Nodes
) -> list[Nodes]:
    """Writes out a convolution along any number of axes. **Raises:** `Unsupported` for groups of channels or of batches."""
    params = equation.params
    if params["feature_group_count"] > 1 or params["batch_group_count"] > 1:
        raise Unsupported(f"the primitive `{equation.primitive.name}` with groups")
    run = partial(by_products, params=params, dtype=equation.outvars[0].aval.dtype)
    avals = [v.aval for v in equation.invars]
    return interpret(graph, jax.make_jaxpr(run)(*avals), [x, kernel])


def by_products(x: jax.Array, kernel: jax.Array, params: dict, dtype) -> jax.Array:
    """The convolution; axes are first brought into the order batch, channels, places."""
    order = params["dimension_numbers"]
    kernel, x = jnp.transpose(kernel, order.rhs_spec), jnp.transpose(x, order.lhs_spec)
    x = _padded(x, params)
    steps, apart = params["window_strides"], params["rhs_dilation"]
    widths = zip(x.shape[2:], kernel.shape[2:], apart, steps, strict=True)
    sizes = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in widths]
    total = jnp.zeros((len(x), len(kernel), *sizes), dtype)
    for place in np.ndindex(kernel.shape[2:]):
        starts = [k * d for k, d in zip(place, apart, strict=True)]
        ends = [i + (n - 1) * s + 1 for i, n, s in zip(starts, sizes, steps, strict=True)]
        part = lax.slice(x, (0, 0, *starts), (*x.shape[:2], *ends), (1, 1, *steps))
        product = jnp.tensordot(kernel[(slice(None), slice(None), *place)], part, ((1,), (1,)))
        total = total + jnp.moveaxis(product, 0, 1)
    return jnp.transpose(total, np.argsort(order.out_spec).tolist())


def _padded(x: jax.Array, params: dict) -> jax.Array:
    """Returns x with zeros before, after and between its entries; where the padding is negative, entries are cut off."""
    pairs = zip(params["padding"], params["lhs_dilation"], strict=True)
    around = [(low, high, apart - 1) for (low, high), apart in pairs]
    return lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *around])


CONVOLUTION: dict[str, Primitive] = {
    "conv_general_dilated": Primitive(Kind.SUM, convolution, nested=True)
}
