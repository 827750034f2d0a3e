"""`lax.while_loop` as a program of arrays whose reverse mode is a given function."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxhamel._lanes._derivatives._derivatives import is_float
from jaxhamel._lanes._divided._jaxprs import traced_constants_first


class LoopProgram(NamedTuple):
    """A loop x_{i+1} = g(p, x_i) that runs while c(p′, x_i) holds; the state x is a list of arrays, the turns count from 0.

    - `condition`, `body`: the traced c and g. The inputs of the loop are p′, p, p″ and x_0.
    - `buffers`: the indices of those entries of x to which g only writes, each place at most once.
    - `repeated`: ĝ, by which reverse mode repeats a turn: x_{i+1} = ĝ(p″, x̂_i). x̂_i has the entries `results` of x_{i+1}
      and all others of x_i, so that ĝ costs less than g.
    """

    condition: ClosedJaxpr
    body: ClosedJaxpr
    repeated: ClosedJaxpr
    buffers: frozenset[int]
    results: frozenset[int]

    @property
    def size(self) -> int:
        """The number of arrays in x."""
        return len(self.body.out_avals)

    @property
    def kept(self) -> list[int]:
        """The indices of the entries of x that a turn reads: all but the buffers."""
        return [i for i in range(self.size) if i not in self.buffers]

    @property
    def moving(self) -> list[int]:
        """The indices of the floating-point entries of x that a turn passes to the next one."""
        avals = self.body.out_avals
        return [i for i in self.kept if i not in self.results and is_float(avals[i])]

    def divided(self, inputs: Sequence) -> list[list]:
        """Splits the inputs of the loop into p′, p, p″ and x_0."""
        programs = self.condition, self.body, self.repeated
        ends = np.cumsum([len(x.in_avals) - self.size for x in programs]).tolist()
        return [list(inputs[i:j]) for i, j in zip([0, *ends], [*ends, None], strict=True)]

    def full(self, kept: Sequence, x: Sequence) -> list:
        """A state with the entries `kept`, and the buffers of x."""
        state = dict(zip(self.kept, kept, strict=True))
        return [state.get(i, x[i]) for i in range(self.size)]

    def goes_on(self, p: Sequence, x: Sequence) -> Any:
        return jaxpr_as_fun(self.condition)(*p, *x)[0]

    def next_state(self, p: Sequence, x: Sequence) -> list:
        return list(jaxpr_as_fun(self.body)(*p, *x))

    def repeated_state(self, p: Sequence, x: Sequence) -> list:
        return list(jaxpr_as_fun(self.repeated)(*p, *x))

    def run(self, *inputs: Any) -> list:
        """Runs the loop and returns the state at its end."""
        first, p, _, x = self.divided(inputs)
        return lax.while_loop(lambda x: self.goes_on(first, x), lambda x: self.next_state(p, x), x)


# (program, inputs, whether each has a tangent, cotangents of the end) -> cotangents of p″ and x_0
Reverse = Callable[[LoopProgram, list, list[bool], list], tuple[list, list]]


def run_with_reverse(
    condition: Callable,
    body: Callable,
    init: Any,
    buffers: Callable,
    reverse: Reverse,
    results: Callable = lambda _: (),
    repeated: Callable = lambda state: state,
) -> Any:
    """`lax.while_loop(condition, body, init)`, differentiated by `reverse`, also with respect to captured values.

    **Arguments:** `buffers`, `results`: functions that select these parts of a state (`LoopProgram`). `repeated`: maps x̂_i
    to the state, with the same leaves, from which `body` repeats a turn.
    """
    leaves, structure = jax.tree.flatten(init)
    leaves = [jnp.asarray(x) for x in leaves]
    numbered = jax.tree.unflatten(structure, range(len(leaves)))
    dtypes = [x.dtype for x in leaves]

    def goes_on(*x):
        return [jnp.asarray(condition(jax.tree.unflatten(structure, x)))]

    def turn(*x, repeats=False):
        state = jax.tree.unflatten(structure, x)
        out = jax.tree.leaves(body(repeated(state) if repeats else state))
        return [jnp.asarray(y, dtype) for y, dtype in zip(out, dtypes, strict=True)]

    functions = goes_on, turn, partial(turn, repeats=True)
    programs, values = zip(*(_traced(f, leaves) for f in functions), strict=True)
    parts = (frozenset(jax.tree.leaves(part(numbered))) for part in (buffers, results))
    program = LoopProgram(*programs, *parts)
    strong = [jnp.asarray(x, dtype) for x, dtype in zip(leaves, dtypes, strict=True)]
    out = _differentiable(program, reverse)(*values[0], *values[1], *values[2], *strong)
    return jax.tree.unflatten(structure, out)


def _traced(function: Callable, leaves: list) -> tuple[ClosedJaxpr, list]:
    # weak types matter to strict promotion inside of the function, but not to the program that is traced
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in leaves]
    return traced_constants_first(jax.make_jaxpr(function)(*shapes))


def _differentiable(program: LoopProgram, reverse: Reverse) -> Callable:
    """`program.run` as a function of the loop's inputs, with `reverse` as its reverse mode."""
    run = jax.custom_vjp(program.run)

    def forward(*given: CustomVJPPrimal):
        inputs = [jnp.asarray(x.value) for x in given]
        return run(*inputs), (inputs, Flags(tuple(x.perturbed for x in given)))

    def backward(kept, bars):
        inputs, flags = [jnp.asarray(x) for x in kept[0]], kept[1].moving
        first, body, again, _ = program.divided(flags)
        avals = program.body.out_avals
        found_bars = [_of_float(bar, aval) for bar, aval in zip(bars, avals, strict=True)]
        of_p, of_x = reverse(program, inputs, again, found_bars)
        found = [None] * len(first + body) + of_p + of_x
        return tuple(bar if moves else None for bar, moves in zip(found, flags, strict=True))

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run


class Flags:
    """A flag for each input, whether it has a tangent, as a pytree without leaves."""

    def __init__(self, moving: tuple[bool, ...]):
        self.moving = moving


jax.tree_util.register_pytree_node(Flags, lambda x: ((), x.moving), lambda moving, _: Flags(moving))


def _of_float(bar: Any, aval: Any) -> Any:
    """The cotangent of a floating-point array; None for any other array, which has none."""
    return dense(bar, aval) if is_float(aval) else None


def dense(bars: Any, like: Any) -> Any:
    """The cotangents, with arrays of zeros for those that JAX knows to be zero."""

    def is_zero(x):
        return isinstance(x, SymbolicZero)

    def fill(bar, x):
        return jnp.zeros(x.shape, x.dtype) if is_zero(bar) else bar

    return jax.tree.map(fill, bars, like, is_leaf=is_zero)
