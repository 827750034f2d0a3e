"""A JAX primitive for a linear map whose transpose is a separate program.

JAX transposes a linear function by transposing each of its operations, which it cannot do for a loop of unknown length.
For a simulation there are programs for both directions: forward mode, and the backward pass through checkpoints. Both are
given to the primitive, and JAX traces only the one that it needs. `jax.custom_derivatives.linear_call` does the same but
cannot be vmapped; `jax.lax.custom_linear_solve` can, but it always traces both directions, and tracing the backward one is
slow.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel._lanes._own_primitive import batch_size, own_primitive


class LinearProgram(NamedTuple):
    """A function of (parameters, x), linear in x, in several forms with the same values.

    - `run`: the cheapest form, used when nothing differentiates it with respect to the parameters;
    - `for_jvp`: differentiable in forward mode, to any order;
    - `for_any`: differentiable in both modes, to any order; the most expensive form.
    - `run_many`: takes the place of `run` in a batch, and where a derivative with respect to the parameters is computed as
      well; None stands for `run`.
    - `columns`: reverse mode with respect to at most this many parameters, counted number by number, differentiates
      `for_jvp` along each of them instead of transposing `for_any`.
    """

    run: Callable
    for_jvp: Callable
    for_any: Callable
    columns: int = 0
    run_many: Callable | None = None

    @classmethod
    def in_all_forms(cls, function: Callable) -> "LinearProgram":
        """Makes a program of a function that serves as all three forms: JAX can differentiate it in both modes."""
        return cls(function, function, function)

    def among_others(self) -> "LinearProgram":
        """The program with `run_many` in place of `run`."""
        return self if self.run_many is None else self._replace(run=self.run_many)


def linear_map(
    forward: LinearProgram,
    transpose: LinearProgram,
    parameters: Sequence[Any],
    x: Sequence[Any],
    out: Sequence[Any],
) -> list[Any]:
    """Computes y = forward(parameters, x), whose transpose is x̄ = transpose(parameters, ȳ).

    **Arguments:** `parameters`, `x`: lists of arrays, x of inexact dtypes. `out`: shapes and dtypes of y. Both programs
    take two lists of arrays, return one list, and capture no tracers.
    """
    return _linear_map_p.bind(
        *parameters,
        *x,
        forward=forward,
        transpose=transpose,
        n=len(parameters),
        out=tuple((jnp.shape(o), jnp.result_type(o)) for o in out),
    )


def _run(*arguments, forward, transpose, n, out):
    del transpose, out
    return forward.run(list(arguments[:n]), list(arguments[n:]))


def _traced_once(*arguments, forward, **others):
    """The function that is lowered: `_run` under `jit`, which still has the trace by which `_whole_loop` inspected it."""
    return _run(*arguments, forward=forward._replace(run=jax.jit(forward.run)), **others)


def _abstract(*arguments, out, **_):
    del arguments
    return [jax.core.ShapedArray(shape, dtype) for shape, dtype in out]


def _jvp(primals, tangents, *, forward, transpose, n, out):
    parameters, x = list(primals[:n]), list(primals[n:])
    moving = [i for i, t in enumerate(tangents[:n]) if not isinstance(t, ad.Zero)]
    taken = forward.among_others() if moving else forward

    def apply(v):
        return linear_map(taken, transpose, parameters, v, _structs(out))

    y, y_dot = apply(x), apply([_dense(t) for t in tangents[n:]])
    if moving:
        along = [tangents[i] for i in moving]
        second = _along_parameters(forward, moving, parameters, x, along, _structs(out))
        y_dot = [a + b for a, b in zip(y_dot, second, strict=True)]
    return y, y_dot


def _along_parameters(program, moving, parameters, x, along, out):
    """The derivative with respect to the parameters, ∂forward(p, x)/∂p · ṗ, as a linear map of ṗ with its transpose."""
    n = len(parameters)

    def partial(function, given):
        fixed, v = given[:n], given[n:]

        def fill(p):
            return function(with_entries(fixed, moving, p), v)

        return fill, [fixed[i] for i in moving]

    def forwards(function):
        def tangent(given, p_dot):
            fill, p = partial(function, given)
            return jax.jvp(fill, (p,), (p_dot,))[1]

        return tangent

    def backwards(given, y_bar):
        fill, p = partial(program.for_any, given)
        return jax.vjp(fill, p)[1](y_bar)[0]

    def by_columns(given, y_bar):
        fill, p = partial(program.for_jvp, given)
        return transposed_by_columns(lambda e: jax.jvp(fill, (p,), (e,))[1], p, y_bar)

    few = sum(jnp.size(parameters[i]) for i in moving) <= program.columns
    by_jvp, back = forwards(program.for_jvp), by_columns if few else backwards
    forward = LinearProgram(by_jvp, by_jvp, forwards(program.for_any), program.columns)
    transpose = LinearProgram(back, back, backwards, program.columns)
    return linear_map(forward, transpose, parameters + x, along, out)


def _transpose(y_bar, *arguments, forward, transpose, n, out):
    parameters, x = list(arguments[:n]), arguments[n:]
    avals = [v.aval if ad.is_undefined_primal(v) else v for v in x]
    x_bar = linear_map(transpose, forward, parameters, [_dense(c) for c in y_bar], avals)
    return [None] * n + list(x_bar)


def _batch(arguments, axes, *, forward, transpose, n, out):
    size = batch_size(arguments, axes)
    leading = [
        a if i is None else jnp.moveaxis(a, i, 0) for a, i in zip(arguments, axes, strict=True)
    ]
    p_axes = [None if i is None else 0 for i in axes[:n]]
    # all of x gets a batch axis, so that the transpose, whose x̄ is batched throughout, has the same shapes
    x = [
        jnp.broadcast_to(a, (size, *a.shape)) if i is None else a
        for a, i in zip(leading[n:], axes[n:], strict=True)
    ]
    outs = [jax.ShapeDtypeStruct((size, *shape), dtype) for shape, dtype in out]
    y = linear_map(_vmapped(forward, p_axes), _vmapped(transpose, p_axes), leading[:n], x, outs)
    return y, [0] * len(y)


def _vmapped(program: LinearProgram, p_axes) -> LinearProgram:
    if all(axis is None for axis in p_axes):
        p_axes = None

    def each(f):
        return jax.vmap(f, in_axes=(p_axes, 0))

    program = program.among_others()
    run, for_jvp, for_any = each(program.run), each(program.for_jvp), each(program.for_any)
    return LinearProgram(run, for_jvp, for_any, program.columns)


def _dense(tangent):
    return ad.instantiate_zeros(tangent)


def _structs(out):
    return [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in out]


_linear_map_p = own_primitive(
    "linear_map",
    run=_run,
    abstract=_abstract,
    jvp=_jvp,
    batch=_batch,
    transpose=_transpose,
    lowered=_traced_once,
)


# The transpose of a linear map by its columns, each computed forward.


def transposed_by_columns(forward: Callable, x: Sequence[Any], y_bar: Sequence[Any]) -> list[Any]:
    """The transpose of a linear map: x̄_i = Σ_j ȳ_j forward(e_i)_j, evaluated for all unit vectors e_i at once.

    **Arguments:** `forward`: linear, of a list of arrays shaped as `x`, to a list shaped as `y_bar`.
    """
    columns = _along_each(forward, _basis(x))
    total = sum(_dot(column, bar) for column, bar in zip(columns, y_bar, strict=True))
    return _split(total, x)


def _along_each(forward, vectors):
    """`forward` of each of the stacked vectors, under `vmap`; of a single one without, which is faster."""
    if len(vectors[0]) > 1:
        return jax.vmap(forward)(vectors)
    return [y[None] for y in forward([v[0] for v in vectors])]


def _basis(x):
    """The unit vectors of a list of arrays, stacked: a list of arrays with one more leading axis."""
    ends = np.cumsum([v.size for v in x])
    eye = np.eye(ends[-1])
    blocks = np.split(eye, ends[:-1], axis=1)
    return [
        jnp.asarray(block.reshape(ends[-1], *v.shape), dtype=v.dtype)
        for block, v in zip(blocks, x, strict=True)
    ]


def _dot(column, bar):
    # An unused output has ȳ = 0 but may have an infinite tangent (an unused buffer); it must not contribute NaN.
    bar = bar[None, ...]
    terms = jnp.where(bar == 0, jnp.zeros_like(column), column * bar)
    return jnp.sum(terms.reshape(column.shape[0], -1), axis=1)


def _split(total, x):
    ends = np.cumsum([v.size for v in x])
    pieces = jnp.split(total, ends[:-1])
    return [piece.reshape(v.shape).astype(v.dtype) for piece, v in zip(pieces, x, strict=True)]
