"""The sizes of the unknowns, conditions and cost of multiple shooting, found from its first quadratic model."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._collocation._start import guessed
from jaxhamel.control._methods._shooting import QuadraticModel
from jaxhamel.control._problem._curves import free_arrays
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._scaling._cost_unit import unit_of
from jaxhamel.control._scaling._sizes import (
    KnownSizes,
    coordinates_about_first,
    extents,
    related,
)
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._tangent import tangent_size


class ShootingSizes(NamedTuple):
    """The numbers by which the search divides its unknowns z, the conditions d and the cost.

    `unknowns`, `(z,)`: those of the states of the nodes, then of the parameters; `conditions`, `(c,)`: those of the gaps,
    then of the conditions at both ends; `cost`: the unit of the cost.
    """

    unknowns: Float[Array, " z"]
    conditions: Float[Array, " c"]
    cost: Float[Array, ""]


def unit_sizes(unknowns: int, conditions: int, dtype: Any) -> ShootingSizes:
    """Sizes of 1 for the given numbers of unknowns and conditions."""
    return ShootingSizes(
        jnp.ones(unknowns, dtype), jnp.ones(conditions, dtype), jnp.ones((), dtype)
    )


def in_sizes(sizes: ShootingSizes, model: QuadraticModel) -> QuadraticModel:
    """The model in sizes: cost, conditions and unknowns are each divided by their sizes."""
    z, c, cost = sizes
    return QuadraticModel(
        model.cost / cost, z * model.g / cost, z[:, None] * model.H * z[None] / cost,
        model.d / c, model.D * z[None] / c[:, None], model.tracking,
    )  # fmt: skip


def sizes_of_model(problem: ControlProblem, model: QuadraticModel) -> ShootingSizes:
    """The sizes of a problem, from its quadratic model at the guess, all of whose sizes are 1."""
    z, c = _related(problem, jax.tree.map(np.asarray, model))
    typical = abs(float(model.cost)) + 0.5 * float(np.diagonal(model.H) @ z**2)
    dtype = model.g.dtype
    return ShootingSizes(*(jnp.asarray(x, dtype) for x in (z, c, unit_of(typical))))


def _related(problem: ControlProblem, model: QuadraticModel) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of unknowns and conditions; the parameters of the curve count as controls of the whole motion."""
    n, N = tangent_size(problem.system), len(problem.ts) - 1
    d, D, of_nodes = np.abs(model.d[n * N :]), np.abs(model.D[n * N :]), slice(n * N)
    curvatures = np.sum(np.diagonal(model.H)[of_nodes].reshape(N, n), axis=0)
    by_cost = np.sqrt(np.divide(2 * model.cost, curvatures, out=np.zeros(n), where=curvatures > 0))
    none = np.zeros(0)
    columns = [D[:, n * (N - 1) : n * N], D[:, n * N :]]
    known = KnownSizes(
        extents(_coordinates(problem.system.space, guessed(problem))), none, d, by_cost, none, _rates(problem, model),
        np.zeros((0, n + D.shape[1] - n * N)), np.concatenate(columns, axis=1),
    )  # fmt: skip
    found = related(known, np.float64, over_intervals=True)
    if found is None:
        return np.ones(model.g.shape), np.ones(model.d.shape)
    x, p, _, conditions, _ = (np.asarray(size, float) for size in found)
    nodes = np.tile(x, N)
    return np.concatenate([nodes, _of_components(problem.curve, p)]), np.concatenate(
        [nodes, conditions]
    )


def _of_components(curve: Any, sizes: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """The least of the sizes of all parameters that belong to one component of the control: the last axis of an array.

    Some parameters, such as the outer coefficients of a spline, have little effect, which would make their sizes large.
    """
    found, ends = [], np.cumsum([x.size for x in free_arrays(curve)])
    for array, own in zip(free_arrays(curve), np.split(sizes, ends[:-1]), strict=True):
        rows = own.reshape(-1, array.shape[-1] if array.ndim > 1 else array.size)
        found.append(np.broadcast_to(np.min(rows, axis=0), rows.shape).ravel())
    return np.concatenate(found)


def _rates(problem: ControlProblem, model: QuadraticModel) -> Float[np.ndarray, "n n+P"]:
    """The largest changes of the states over an interval by each state and parameter, for each, times N_i.

    N_i is the duration of the motion divided by that of the interval, so that they are derivatives of T f.
    """
    n, N = tangent_size(problem.system), len(problem.ts) - 1
    ts = np.asarray(problem.ts, float)
    D = model.D[: n * N].reshape(N, n, -1)
    found = np.zeros((n, n + D.shape[2] - n * N))
    for i in range(N):
        before, after = (slice(n * (i + k), n * (i + k + 1)) for k in (-1, 0))
        own, others = D[i][:, before] if i else -D[i][:, after], D[i][:, after]
        change, rounding = np.abs(own + others), np.abs(own) + np.abs(others)
        change = np.where(change > 1e2 * np.finfo(D.dtype).eps * rounding, change, 0.0)
        both = np.concatenate([change, np.abs(D[i][:, n * N :])], axis=1)
        found = np.maximum(found, both * (ts[-1] - ts[0]) / (ts[i + 1] - ts[i]))
    return found


@compiled_with(QUICK)
def _coordinates(space: AbstractSpace, states: Any) -> Float[Array, "N+1 n"]:
    """The coordinates of the states of the guess in the chart about the first one."""
    return coordinates_about_first(space, *states)
