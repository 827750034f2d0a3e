"""`lanes_if_short`: `lanes` for functions that compile as fast in lanes as under `jax.vmap`; `jax.vmap` for all others."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from jaxhamel._lanes._one_lane import is_worth_it
from jaxhamel._lanes._transform import run_traced, traced
from jaxhamel._lanes._xla_cpu._one_loop import one_loop_works


def lanes_if_short(f: Callable) -> Callable:
    """`jax.vmap(f)`, written out for lanes where f is short enough and all its primitives have a rule:

        lanes_if_short(f)(x)[b] = f(x[b]) .

    Under `vmap`, second derivatives of small systems pass through some hundred small arrays, each written to memory by a
    loop of its own; in lanes they are one loop (docs/performance.md#derivatives-of-collocation). f is traced once in either
    case.

    **Arguments:** `f`: a function of pytrees of arrays, each with a leading axis of lanes in the call.
    """

    def batched(*args):
        leaves, structure = jax.tree.flatten(args)
        found = []

        def flat(*entries):
            out, out_structure = jax.tree.flatten(f(*jax.tree.unflatten(structure, entries)))
            found.append(out_structure)
            return [jnp.asarray(leaf) for leaf in out]

        closed, varies, values = traced(flat, [True] * len(leaves), leaves)
        size = leaves[0].shape[0]
        if one_loop_works() and is_worth_it(closed, varies):
            out = run_traced(closed, varies, values, size, quiet=True)
        else:
            axes = [0 if x else None for x in varies]
            out = jax.vmap(jaxpr_as_fun(closed), axes, axis_size=size)(*values)
        return jax.tree.unflatten(found[0], out)

    return batched
