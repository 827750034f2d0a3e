"""simulate: many motions of one kind of system at once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control
from jaxhamel.ensemble._lanes import flat_axes
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System
from jaxhamel.simulate import Trajectory
from jaxhamel.simulate import simulate as simulate_one


def simulate(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    ts: ArrayLike,
    control: Control = None,
    *,
    in_axes: Any = 0,
    **options: Any,
) -> Trajectory:
    """The motions of an ensemble, each as `jaxhamel.simulate` computes it:

        result[b] = jaxhamel.simulate(system[b], q0[b], u0[b], ts, control[b]) .

    **Arguments:**

    - `system`, `q0`, `u0`, `control`: as for `jaxhamel.simulate`; what differs from trajectory to trajectory has a batch
      axis in each of its arrays: a system built by `jax.vmap(make_system)(parameters)`, `u0` of shape `(B, k)`.
    - `ts`: times [s], `(T,)`, the same for all.
    - `in_axes`: as for `jax.vmap` over `(system, q0, u0, control)`: an integer, None, or one entry for each of the four.
      `in_axes=(None, 0, 0, None)` is one system under one control from many states.
    - `options`: as for `jaxhamel.simulate`: `rtol`, `atol`, `dt`, `solver`, `route`, …

    **Returns:** a `Trajectory` whose arrays have a leading ensemble axis: `q`, `u` are `(B, T, …)`, `result` has one
    entry for each trajectory. One that breaks down does not disturb the others.

    **Raises:** `ValueError` for no trajectory at all, batch sizes that differ, or a state that cannot be, with its index.
    """
    q0, u0, control = _arrays(q0), _arrays(u0), _arrays(control)
    axes = _four(in_axes, (system, q0, u0, control))
    leaves, structure = jax.tree.flatten((system, q0, u0, control))
    size = _checks.check_batch(leaves, axes)
    _checks.check_trajectories(size, u0)
    _check_states(system.space, q0, axes[_count(system) :], size)
    arrays = [i for i, axis in enumerate(axes) if axis is not None]

    def one(*entries):
        filled = list(leaves)
        for i, entry in zip(arrays, entries, strict=True):
            filled[i] = entry
        system, q0, u0, control = jax.tree.unflatten(structure, filled)
        return simulate_one(system, q0, u0, ts, control, **options)

    return jax.vmap(one, [axes[i] for i in arrays])(*(jnp.asarray(leaves[i]) for i in arrays))


def _arrays(value) -> Any:
    """Lists and numbers as arrays; a configuration's tuple stays one."""
    if isinstance(value, tuple):
        return tuple(_arrays(part) for part in value)
    return jnp.asarray(value) if isinstance(value, list | float | int | np.ndarray) else value


def _four(in_axes, args) -> list[int | None]:
    """One axis for each leaf; what is no array (a function among the leaves) is shared."""
    axes = flat_axes(in_axes, args)
    leaves = jax.tree.leaves(args)
    return [axis if hasattr(x, "shape") else None for axis, x in zip(axes, leaves, strict=True)]


def _count(tree) -> int:
    return len(jax.tree.leaves(tree))


def _check_states(space: AbstractSpace, q0, axes, size: int) -> None:
    """Each initial configuration is one, where the numbers are known: all are looked at together, a bad one by itself."""
    parts, structure = jax.tree.flatten(q0)
    known = [_checks.concrete(part) for part in parts]
    if any(part is None for part in known) or structure != jax.tree.structure(_identity(space)):
        return  # nothing to look at, or for `jaxhamel.simulate` to explain
    columns = [_leading(part, axis, size) for part, axis in zip(known, axes, strict=False)]
    for index in _suspects(space, structure, columns):
        entry = jax.tree.unflatten(structure, [jnp.asarray(column[index]) for column in columns])
        space.check(entry, f"q0 of trajectory {index}")


def _identity(space: AbstractSpace):
    return jax.eval_shape(space.identity)


def _leading(part, axis: int | None, size: int):
    return (
        np.broadcast_to(part, (size, *part.shape)) if axis is None else np.moveaxis(part, axis, 0)
    )


def _suspects(space: AbstractSpace, structure, columns) -> list[int]:
    """Indices of configurations that `normalise` changes or that are not finite, or the first where shapes are wrong."""
    wanted = [x.shape for x in jax.tree.leaves(_identity(space))]
    if [column.shape[1:] for column in columns] != wanted:
        return [0]
    normal = jax.vmap(space.normalise)(jax.tree.unflatten(structure, map(jnp.asarray, columns)))
    fine = [
        np.isclose(column, x, rtol=0, atol=1e-6).reshape(len(column), -1).all(axis=1)
        for column, x in zip(columns, jax.tree.leaves(normal), strict=True)
    ]
    return np.flatnonzero(~np.all(fine, axis=0)).tolist()
