"""Derivatives at all collocation points as one program of scalar operations, each point and each direction a lane.

A lane computes the derivatives of the Lagrangian's gradient, of the value and of the cost along one unit vector. For the
ball with three masses this takes half as many operations as one lane for all directions of a point, and compiles in a
quarter of the time (docs/performance.md#derivatives-of-collocation).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._one_lane import lanes_if_short
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._run_batch import run_traced, traced
from jaxhamel._lanes._xla_cpu._one_loop import in_one_kernel, one_loop_works
from jaxhamel._typing import Scalar
from jaxhamel.control._interior_point._once import once

# Lengths of programs in scalar operations. A program up to the first length has all directions in one lane. A program longer
# than the second is not turned into scalar operations: each 3,000 of them make a loop, which compiles in about two seconds.
# Tracing stops at the third length.
SHORTEST, LONGEST, MOST_TRACED = 3_000, 30_000, 150_000
# The first length for the ends of intervals, which are few, if there are at least this many directions.
SHORTEST_AT_ENDS, FEWEST_DIRECTIONS = 900, 10
BLOCK = 300  # lanes computed at a time by a long program (docs/performance.md#derivatives-of-collocation)
# Upper bound of (length of the gradient's derivative along one direction) / (length of the function). The ratio is 3.7 to 5
# for the built-in problems.
GROWTH = 6


class Derivatives(NamedTuple):
    """The value of a vector function and a cost, their first derivatives, and the Hessian of cost + multiplier · value.

    `gradient`: of the cost alone.
    """

    value: Float[Array, " f"]
    cost: Scalar
    jacobian: Float[Array, "f y"]
    gradient: Float[Array, " y"]
    hessian: Float[Array, "y y"]


def gradients(function: Callable[..., Any], y: Array, multiplier: Array) -> tuple[Array, ...]:
    """(gradient of cost + multiplier · value, value, cost) of `function`: y ↦ (value, cost)."""

    def lagrangian(y):
        value, cost = function(y)
        return cost + jnp.dot(multiplier, value), (value, cost)

    gradient, (value, cost) = jax.grad(lagrangian, has_aux=True)(y)
    return gradient, value, cost


def derivatives(function: Callable[..., Any], y: Array, multiplier: Array) -> Derivatives:
    """The derivatives of y ↦ (value, cost) at one point."""
    function = once(function, y)

    def first(y):
        values = gradients(function, y, multiplier)
        return values, values[1:]

    first = once(first, y)
    (hessian, jacobian, gradient), (value, cost) = jax.jacfwd(first, has_aux=True)(y)
    return Derivatives(value, cost, jacobian, gradient, hessian)


def derivatives_at_points(
    function: Callable[..., Any],
    at: Any,
    y: Float[Array, "B y"],
    multiplier: Float[Array, "B f"],
    shortest: int = SHORTEST,
) -> Derivatives:
    """The derivatives of y ↦ function(at, y), (value, cost), at B points.

    A lane computes the derivatives at one point or, if this program is too long, those along one direction at one point
    (docs/performance.md#derivatives-of-collocation). Arguments as for `derivatives_in_lanes`.
    """
    found = derivatives_in_lanes(function, at, y, multiplier, shortest)
    if found is not None:
        return found

    def one(at, y, multiplier):
        return derivatives(lambda y: function(at, y), y, multiplier)

    return lanes_if_short(one)(at, y, multiplier)


def derivatives_in_lanes(
    function: Callable[..., Any],
    at: Any,
    y: Float[Array, "B y"],
    multiplier: Float[Array, "B f"],
    shortest: int = SHORTEST,
) -> Derivatives | None:
    """The derivatives of y ↦ function(at, y), (value, cost), at B points.

    **Arguments:** `at`: a pytree of arrays with a leading axis `(B,)`; `multiplier`: of the value; `shortest`: the length of
    the program for one direction, in scalar operations, up to which all directions of a point are left to one lane.

    **Returns:** None if lanes cannot be used (not on a CPU, or an operation has no rule) or do not pay (the program is too
    short or too long).
    """
    many, n = y.shape
    leaves, structure = jax.tree.flatten((at, y, multiplier))
    if not one_loop_works() or _is_short(function, at, y, shortest):
        return None

    def along(*given):
        at, y, multiplier = jax.tree.unflatten(structure, given[:-1])

        def first(y):
            return gradients(lambda y: function(at, y), y, multiplier)

        (_, value, cost), tangents = jax.jvp(first, (y,), (given[-1],))
        return [value, cost, *tangents]

    unit = jnp.eye(n, dtype=y.dtype)
    flags = [True] * (len(leaves) + 1)
    closed, batched, values = traced(along, flags, _lanes_of(leaves, unit))
    if not _length_fits(closed, batched, many * n, shortest):
        return None
    shared = values[: len(values) - len(flags)]

    def of_points(leaves):
        lanes, points = _lanes_of(leaves, unit), leaves[0].shape[0]
        found = run_traced(closed, batched, shared + lanes, points * n, quiet=True)
        return [x.reshape(points, n, *x.shape[1:]) for x in found]

    value, cost, hessian, jacobian, gradient = _in_blocks(of_points, leaves, n)
    return Derivatives(value[:, 0], cost[:, 0], jnp.swapaxes(jacobian, 1, 2), gradient, hessian)


def _lanes_of(leaves: list[Array], unit: Float[Array, "y y"]) -> list[Array]:
    """The arguments of all lanes: each point has n lanes with its own arguments, one for each of the n unit vectors."""
    n = unit.shape[0]
    directions = jnp.tile(unit, (leaves[0].shape[0], 1))
    return [*(jnp.repeat(x, n, axis=0) for x in leaves), directions]


def _in_blocks(of_points: Callable, leaves: list[Array], n: int) -> list[Array]:
    """`of_points(leaves)`, computed for blocks of points with about `BLOCK` lanes each.

    A long program is many loops over the lanes, and the vectors that one loop passes to the next should stay in the cache.
    The number of points is a multiple of 8, so that no lanes are left over by the processor's vectors.
    """
    many = leaves[0].shape[0]
    points = 8 * max(1, BLOCK // (8 * n))
    blocks = -(-many // points)
    if blocks == 1:
        return of_points(leaves)
    missing = blocks * points - many
    padded = [jnp.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1), mode="edge") for x in leaves]
    found = jax.lax.map(of_points, [x.reshape(blocks, points, *x.shape[1:]) for x in padded])
    return [x.reshape(blocks * points, *x.shape[2:])[:many] for x in found]


def _is_short(function: Callable[..., Any], at: Any, y: Float[Array, "B y"], shortest: int) -> bool:
    """Whether the program of the derivatives is short, estimated from the function's length before they are traced."""
    leaves, structure = jax.tree.flatten((at, y))

    def flat(*given):
        return jax.tree.leaves(function(*jax.tree.unflatten(structure, given)))

    closed, batched, _ = traced(flat, [True] * len(leaves), leaves)
    try:
        program = scalarise(closed, batched, MOST_TRACED, whole=True, blocks=True)
    except Unsupported:
        return False
    return not program.graph.blocks and program.length() <= shortest / GROWTH


def _length_fits(closed: Any, batched: list[bool], size: int, shortest: int) -> bool:
    """Whether the program can be written out, and is neither short nor too long."""
    try:
        whole = in_one_kernel(size)
        program = scalarise(closed, batched, MOST_TRACED, whole=whole, blocks=True)
    except Unsupported:
        return False
    return not program.graph.blocks and shortest < program.length() <= LONGEST
