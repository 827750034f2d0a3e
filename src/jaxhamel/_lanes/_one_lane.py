"""one_lane: a function of one trajectory, as one lane where that is good."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._rules._control_flow import CALLS
from jaxhamel._lanes._transform import run_traced, traced
from jaxhamel._lanes._xla_cpu._one_loop import one_kernel_works

# As many scalar operations for each operation on arrays, at most. A right-hand side with long arrays compiles faster than
# its scalars: with ten masses (2.0 scalar operations for each) the rolling ball's first trajectory took 2.0 s as scalars
# and 1.5 as it is, with twenty (3.9) 4.3 and 1.8. With three (0.8) it takes 1.3 and 1.6; the bicycle (0.6) 2.8 and 3.8;
# the satellite with wheels (1.3), the longest of all others, 1.7 and 2.0.
MOST = 1.5
SHORT = 300  # scalar operations that are no matter
_DEAD = 8  # so many scalars that are found to be dead or known at the end, at most, for each that is not

# Lanes compute every branch, and write loops out: for one trajectory they are better left as they are.
_AS_THEY_ARE = {"cond", "while", "scan", "custom_vjp_call"}


def one_lane(f: Callable) -> Callable:
    """f itself, f(x, *shared), where it can be and is worth it as scalar operations in one kernel:

        one_lane(f)(x, *shared) = f(x, *shared) .

    What has no rule for lanes, or is too long, runs as it is, without a warning. Derivatives are those of f, each written
    out as f is; `vmap` makes lanes of it.

    **Arguments:** `f`: of pytrees of arrays; `x` is what changes from call to call.
    """

    def of_one(x: Any, *shared: Any):
        if not one_kernel_works():  # a GPU would start a program for every number
            return f(x, *shared)
        leaves, structure = jax.tree.flatten(x)
        found = []

        def flat(*entries):
            out, out_structure = jax.tree.flatten(
                f(jax.tree.unflatten(structure, entries), *shared)
            )
            found.append(out_structure)
            return [jnp.asarray(leaf) for leaf in out]

        columns = [jnp.asarray(leaf)[None] for leaf in leaves]
        closed, batched, values = traced(flat, [True] * len(columns), columns)
        if is_worth_it(closed, batched):
            out = [x[0] for x in run_traced(closed, batched, values, 1, quiet=True)]
        else:
            first = len(values) - len(leaves)
            out = jaxpr_as_fun(closed)(*values[:first], *leaves)
        return jax.tree.unflatten(found[0], out)

    return of_one


def is_worth_it(closed, batched: list[bool]) -> bool:
    """Whether a jaxpr can be written out, and compiles no more slowly then, as far as one can tell from its length."""
    names = Counter(primitives(closed.jaxpr))
    most = max(SHORT, MOST * names.total())
    if names.keys() & _AS_THEY_ARE:
        return False
    try:
        program = scalarise(closed, batched, int(_DEAD * most))
    except Unsupported:
        return False
    return program.length() <= most


def primitives(jaxpr) -> Iterator[str]:
    """The names of a jaxpr's operations, those of the functions it calls among them."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in CALLS and name not in _AS_THEY_ARE:
            called = equation.params[CALLS[name]]
            yield from primitives(getattr(called, "jaxpr", called))
        else:
            yield name
