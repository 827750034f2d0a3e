"""A JAX primitive for a function with a derivative rule that survives every transformation.

`jax.custom_jvp` loses its rule in one case: when JAX splits a loop for reverse mode it inlines the function, and the rule
is gone if the loop is differentiated once more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad

from jaxhamel._lanes._derivatives._active_inputs import of_active, tangent_maps
from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel._lanes._own_primitive import batch_size, own_primitive

# (inputs, their tangents or None) -> (results, their tangents or None)
Rule = Callable[[list, list], tuple[Sequence, Sequence]]


def own_derivative(function: Callable, rule: Rule, values: Sequence, out: Sequence[Any]) -> list:
    """Computes `function(*values)`, a list of arrays like `out`, with `rule` as its derivative.

    Weak types of `out` are kept: with strict promotion a counter that is not weakly typed cannot be added to an int32.
    """
    shapes = tuple(
        (tuple(jnp.shape(x)), jnp.result_type(x), bool(getattr(x, "weak_type", False))) for x in out
    )
    values = [jnp.asarray(x) for x in values]
    return _own_derivative_p.bind(*values, function=function, rule=rule, out=shapes)


def differentiated_as(function: Callable, other: Callable) -> Callable:
    """`function` with the derivatives of `other`; both are functions of pytrees and have the same values."""

    def differentiable(*arguments):
        leaves, structure = jax.tree.flatten(arguments)
        shapes, of_results = jax.tree.flatten(jax.eval_shape(function, *arguments))

        def of_leaves(which, leaves):
            return jax.tree.leaves(which(*jax.tree.unflatten(structure, leaves)))

        def rule(primals, tangents):
            active = [i for i, t in enumerate(tangents) if t is not None]
            moving, at = of_active(lambda *leaves: of_leaves(other, leaves), active, primals)
            return jax.jvp(moving, at, [tangents[i] for i in active])

        def flat(*leaves):
            return of_leaves(function, leaves)

        return jax.tree.unflatten(of_results, own_derivative(flat, rule, leaves, shapes))

    return differentiable


def recomputed_as(function: Callable, other: Callable) -> Callable:
    """As `differentiated_as`, but reverse mode stores only the arguments, and computes `other` again from them."""

    def with_nothing(*arguments):
        return function(*arguments), ()

    return recomputed_from(with_nothing, lambda arguments, _: other(*arguments))


def recomputed_from(function: Callable, other: Callable) -> Callable:
    """The first result of `function`, with the derivatives of `other`, which has the same values.

    `function`: arguments → (results, more); `other`: (arguments, more) → results. Reverse mode stores the arguments and
    `more`, and computes `other` again from them. `other` may use `more` only to save work: derivatives treat it as constant.
    """

    def differentiable(*arguments):
        leaves, structure = jax.tree.flatten(arguments)
        shapes = jax.eval_shape(function, *arguments)
        of_results, of_more = map(jax.tree.structure, shapes)
        shapes, count = jax.tree.leaves(shapes), of_results.num_leaves

        def both(*leaves):
            return jax.tree.leaves(function(*jax.tree.unflatten(structure, leaves)))

        def results(*leaves):
            return jax.tree.leaves(function(*jax.tree.unflatten(structure, leaves))[0])

        def of_both(primals, tangents):
            values = own_derivative(both, of_both, primals, shapes)
            kept = [jax.lax.stop_gradient(x) for x in values[count:]]
            active = [i for i, t in enumerate(tangents) if t is not None]
            ahead, back = _by_other(other, structure, of_more, active)
            along = [tangents[i] for i in active]
            rates = linear_map(ahead, back, [*primals, *kept], along, values[:count])
            return values, [*rates, *[None] * len(kept)]

        def of_results_alone(primals, tangents):
            values, rates = of_both(primals, tangents)
            return values[:count], rates[:count]

        found = own_derivative(results, of_results_alone, leaves, shapes[:count])
        return jax.tree.unflatten(of_results, found)

    return differentiable


def _by_other(other: Callable, structure, more, active: list[int]) -> list[LinearProgram]:
    """Forward and reverse mode of `other` with respect to the `active` leaves of its arguments."""
    count = structure.num_leaves

    def of_leaves(*leaves):
        arguments = jax.tree.unflatten(structure, leaves[:count])
        return jax.tree.leaves(other(arguments, jax.tree.unflatten(more, leaves[count:])))

    return [*map(LinearProgram.in_all_forms, tangent_maps(of_leaves, active))]


def _run(*values, function, rule, out):
    del rule, out
    return list(function(*values))


def _traced_once(*values, function, rule, out):
    """The function that is lowered: `_run` under `jit`, which still has the trace by which `_whole_loop` inspected it."""
    return _run(*values, function=jax.jit(function), rule=rule, out=out)


def _abstract(*values, out, **_):
    del values
    return [ShapedArray(shape, dtype, weak_type=weak) for shape, dtype, weak in out]


def _jvp(primals, tangents, *, function, rule, out):
    del function, out
    along = [t if moves(t) else None for t in tangents]
    values, rates = rule(list(primals), along)
    pairs = zip(values, rates, strict=True)
    return list(values), [
        ad.Zero(jax.typeof(x).to_tangent_aval()) if r is None else r for x, r in pairs
    ]


def moves(tangent: Any) -> bool:
    """Whether a tangent may be nonzero: JAX does not know it to be zero, and its value is not an integer or Boolean."""
    return not isinstance(tangent, ad.Zero) and jnp.issubdtype(
        jnp.result_type(tangent), jnp.inexact
    )


def _batch(values, axes, *, function, rule, out):
    size = batch_size(values, axes)

    def of_many(primals, tangents):
        of = [None if t is None else axis for t, axis in zip(tangents, axes, strict=True)]
        return jax.vmap(rule, (list(axes), of), axis_size=size)(primals, tangents)

    many = jax.vmap(lambda *x: list(function(*x)), axes, axis_size=size)
    shapes = [
        jax.ShapeDtypeStruct((size, *shape), dtype, weak_type=weak) for shape, dtype, weak in out
    ]
    # all results have the batch axis in front; a batch of batches calls this rule again, with `many` as its function
    return own_derivative(many, of_many, values, shapes), [0] * len(out)


_own_derivative_p = own_primitive(
    "own_derivative", run=_run, abstract=_abstract, jvp=_jvp, batch=_batch, lowered=_traced_once
)
