"""The chain of a hundred calls by which diffrax finds the time 100 roundings before the last one, as a loop.

`diffrax` writes the chain out in each program, and it took a quarter of the time to the first trajectory
(docs/performance.md#first-values). Where the chain is not found, as with another version, the program stays as it is.
"""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

NAME = "prevbefore"  # equinox' function for the number before a number


def with_loop(function: Callable) -> Callable:
    """The same function of a list of arrays, with the chain as a loop; values and derivatives are the same."""

    def run(leaves: list[Any]) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(leaves)
        out = jaxpr_as_fun(shortened(closed))(*leaves)
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return run


def shortened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program; calls inside of its own loops and branches stay as they are."""
    jaxpr = closed.jaxpr
    chain = [e for e in jaxpr.eqns if _is_call(e)]
    if len(chain) < 2 or not _is_chain(jaxpr, chain):
        return closed
    at = jaxpr.eqns.index(chain[0])
    kept = [e for e in jaxpr.eqns if not _is_call(e)]
    return ClosedJaxpr(
        jaxpr.replace(eqns=kept[:at] + _as_loop(jaxpr, chain) + kept[at:]), closed.consts
    )


def _is_call(equation) -> bool:
    if equation.primitive.name != "custom_jvp_call":
        return False
    info = equation.params["call_jaxpr"].jaxpr.debug_info.func_src_info
    return info.startswith(f"{NAME} at ") and "equinox" in info


def _is_chain(jaxpr, chain: list[Any]) -> bool:
    """Whether each call takes the result of the one before it, which nothing else reads."""
    atoms = (*(v for e in jaxpr.eqns for v in e.invars), *jaxpr.outvars)
    uses = Counter(v for v in atoms if not isinstance(v, Literal))
    pairs = pairwise(chain)
    return all(b.invars == a.outvars and uses[a.outvars[0]] == 1 for a, b in pairs)


def _as_loop(jaxpr, chain: list[Any]) -> list[Any]:
    first, given, out = chain[0], chain[0].invars[0], chain[-1].outvars[0]
    unnamed = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    alone = jaxpr.replace(
        constvars=[], invars=[given], outvars=first.outvars, eqns=[first], debug_info=unnamed
    )
    once = jaxpr_as_fun(ClosedJaxpr(alone, ()))
    many = lambda x: jax.lax.fori_loop(0, len(chain), lambda _, y: once(y)[0], x)  # noqa: E731
    loop = jax.make_jaxpr(many)(given.aval).jaxpr
    names = {loop.invars[0]: given, loop.outvars[0]: out}
    renamed = lambda vs: [v if isinstance(v, Literal) else names.get(v, v) for v in vs]  # noqa: E731
    return [e.replace(invars=renamed(e.invars), outvars=renamed(e.outvars)) for e in loop.eqns]
