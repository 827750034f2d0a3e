"""Computes the hundredth floating-point number below another one in a single operation; diffrax does it by a hundred calls.

diffrax rounds times above this number up to the end time. Its hundred calls are part of every program, and took a quarter of
the time to the first trajectory (docs/performance.md#first-values). If the calls are not found, as with another version of
diffrax, the program stays unchanged. `ForwardMode` traces the called function once instead of a hundred times.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from types import FunctionType
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jaxtyping import Array

NAME = "prevbefore"  # equinox' function for the number before a number


class ForwardMode(diffrax.ForwardMode):
    """diffrax's forward mode with equinox' function `NAME` jitted in its loop, so that JAX traces that function once."""

    @property
    def _loop(self):
        return _with_jitted(super()._loop)


@cache
def _with_jitted(loop: Any) -> Callable:
    """diffrax's loop with equinox' function `NAME` jitted; the same loop if it does not call that function."""
    module = getattr(loop, "__globals__", {}).get("eqxi")
    if not hasattr(module, NAME) or NAME not in loop.__code__.co_names:
        return loop
    known = loop.__globals__ | {"eqxi": _Jitted(module)}
    copy = FunctionType(loop.__code__, known, loop.__name__, loop.__defaults__, loop.__closure__)
    copy.__kwdefaults__ = loop.__kwdefaults__
    return copy


class _Jitted:
    """Takes the place of a module: its function `NAME` is jitted, all other attributes are those of the module."""

    def __init__(self, module: Any):
        self._module = module
        setattr(self, NAME, jax.jit(getattr(module, NAME)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def in_one_call(function: Callable) -> Callable:
    """The same function of a list of arrays, with one call of `below` in place of the chain of calls of `NAME`.

    Values and derivatives are the same.
    """

    def run(leaves: list[Any]) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(leaves)
        out = jaxpr_as_fun(_shortened(closed))(*leaves)
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return run


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def below(x: Array, count: int) -> Array:
    """The `count`-th floating-point number below x, for x = 0 or |x| at least `count` numbers above the subnormal ones.

    As in equinox, the number below zero is −tiny, and the tangent is that of x.
    """
    tiny, kind = jnp.finfo(x.dtype).tiny, jnp.dtype(f"int{jnp.finfo(x.dtype).bits}")

    def bits(y):
        return lax.bitcast_convert_type(y, kind)

    magnitude = bits(jnp.abs(x))
    farther = jnp.where(x == 0, bits(jnp.asarray(tiny, x.dtype)) - 1, magnitude) + count
    farthest = jnp.minimum(farther, bits(jnp.asarray(jnp.inf, x.dtype)))
    down = jnp.where(x > 0, magnitude - count, farthest)
    found = lax.bitcast_convert_type(down, x.dtype)
    return jnp.where(jnp.isnan(x), x, jnp.where(x > 0, found, -found))


@below.defjvp
def _tangent_of_first(count, primals, tangents):
    return below(*primals, count), tangents[0]


def _shortened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with one call of `below` in place of the chain of calls of `NAME`.

    Calls inside of its loops and branches stay unchanged.
    """
    jaxpr = closed.jaxpr
    chain = [e for e in jaxpr.eqns if _is_call(e)]
    if len(chain) < 2 or not _is_chain(jaxpr, chain):
        return closed
    at = jaxpr.eqns.index(chain[0])
    kept = [e for e in jaxpr.eqns if not _is_call(e)]
    equations = kept[:at] + _one_call(chain) + kept[at:]
    return ClosedJaxpr(jaxpr.replace(eqns=equations), closed.consts)


def _is_call(equation) -> bool:
    """Whether an equation calls equinox' function `NAME`, either as it stands or within a `jit`."""
    if equation.primitive.name in ("jit", "pjit"):
        inner = equation.params["jaxpr"].jaxpr.eqns
        return equation.params["name"] == NAME and len(inner) == 1 and _is_call(inner[0])
    if equation.primitive.name != "custom_jvp_call":
        return False
    source = equation.params["call_jaxpr"].jaxpr.debug_info.func_src_info
    return source.startswith(f"{NAME} at ") and "equinox" in source


def _is_chain(jaxpr, chain: list[Any]) -> bool:
    """Whether each call takes the result of the call before it, and no other equation reads that result."""
    atoms = (*(v for e in jaxpr.eqns for v in e.invars), *jaxpr.outvars)
    uses = Counter(v for v in atoms if not isinstance(v, Literal))
    pairs = pairwise(chain)
    return all(b.invars == a.outvars and uses[a.outvars[0]] == 1 for a, b in pairs)


def _one_call(chain: list[Any]) -> list[Any]:
    (given,), (out,) = chain[0].invars, chain[-1].outvars
    call = jax.make_jaxpr(partial(below, count=len(chain)))(given.aval).jaxpr
    (equation,) = call.eqns
    return [equation.replace(invars=[given], outvars=[out])]
