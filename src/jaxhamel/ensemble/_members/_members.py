"""The members of an ensemble: what each has for itself and what all share."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from jaxhamel import _checks
from jaxhamel._lanes._transform import flat_axes
from jaxhamel.ensemble._members._known import Known
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System, as_control

_PARTS: tuple[str, ...] = ("system", "q0", "u0", "control")


class Members(eqx.Module):
    """(system, q0, u0, control) of every trajectory: leaves have a batch axis in front where `batched` says so."""

    leaves: list
    structure: Any = eqx.field(static=True)
    batched: tuple[bool, ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)
    known: Known = eqx.field(static=True)

    @classmethod
    def of(cls, system: System, q0: Any, u0: Any, control: Any, in_axes: Any) -> "Members":
        """Checked: one batch size, at least one trajectory, configurations of the system's space.

        **Raises:** `ValueError` that names the argument, and the trajectory where it is one.
        """
        parts = (system, _arrays(q0), _arrays(u0), _arrays(control))
        given = dict(zip(_PARTS, parts, strict=True))
        axes = _one_a_leaf(in_axes, given)
        leaves, structure = jax.tree.flatten((*parts[:3], as_control(parts[3])))
        size = _checks.check_batch(given, axes)
        _checks.check_trajectories(size, parts[2])
        _check_systems(system, axes)
        _check_states(system.space, parts[1], axes[len(jax.tree.leaves(system)) :], size)
        _check_velocities(system, parts[2], axes[len(jax.tree.leaves(parts[:2])) :])
        return cls._of_leaves(leaves, structure, axes, size)

    @classmethod
    def gathered(cls, given: dict[str, Any], in_axes: Any, shared: tuple = ()) -> "Members":
        """Of pytrees by name, initial values first, and others that all share: one batch size, at least one trajectory.

        **Raises:** `ValueError` that names the argument.
        """
        given = {name: _arrays(part) for name, part in given.items()}
        axes = _one_a_leaf(in_axes, given)
        size = _checks.check_batch(given, axes)
        _checks.check_initial_values(size, next(iter(given.values())))
        leaves, structure = jax.tree.flatten((*given.values(), *map(_arrays, shared)))
        axes += [None] * (len(leaves) - len(axes))
        return cls._of_leaves(leaves, structure, axes, size)

    @classmethod
    def _of_leaves(cls, leaves: list, structure, axes: list[int | None], size: int) -> "Members":
        known = Known.of([x for x, axis in zip(leaves, axes, strict=True) if axis is None])
        batched = tuple(axis is not None for axis in axes)
        return cls(_in_front(leaves, axes), structure, batched, size, known)

    @property
    def own(self) -> list:
        """The leaves that differ from trajectory to trajectory, batch axis in front."""
        return [x for x, varies in zip(self.leaves, self.batched, strict=True) if varies]

    @property
    def shared(self) -> tuple[list, list]:
        """The leaves that all share: arrays, and what is no array; None in each stands for one of the other."""
        return eqx.partition(
            [x for x, varies in zip(self.leaves, self.batched, strict=True) if not varies],
            eqx.is_array,
        )

    def shares(self, part: int) -> bool:
        """Whether a part, counted from 0, is the same for all trajectories."""
        return not any(jax.tree.leaves(jax.tree.unflatten(self.structure, self.batched)[part]))

    def with_numbers(self, entries: Any, shared: list, fixed: list) -> tuple:
        """(system, q0, u0, control) of one trajectory from its own leaves and both kinds of shared ones.

        Shared numbers that are known to be 0, 1 or −1 are constants there.
        """
        own, others = iter(entries), iter(self.known.filled(eqx.combine(shared, fixed)))
        filled = [next(own) if varies else next(others) for varies in self.batched]
        return jax.tree.unflatten(self.structure, filled)

    def with_own(self, entries: Any) -> tuple:
        """(system, q0, u0, control) of one trajectory, from its own leaves."""
        entries = iter(entries)
        pairs = zip(self.leaves, self.batched, strict=True)
        filled = [next(entries) if varies else x for x, varies in pairs]
        return jax.tree.unflatten(self.structure, filled)


def _in_front(leaves: list, axes: list[int | None]) -> list:
    """The batch axis first, where there is one."""
    return [
        x if axis is None else jnp.moveaxis(jnp.asarray(x), axis, 0)
        for x, axis in zip(leaves, axes, strict=True)
    ]


def _arrays(value: Any) -> Any:
    """Lists and numbers as arrays; a configuration's tuple stays one."""
    if isinstance(value, tuple):
        return tuple(_arrays(part) for part in value)
    return jnp.asarray(value) if isinstance(value, list | float | int | np.ndarray) else value


def _one_a_leaf(in_axes, given: dict[str, Any]) -> list[int | None]:
    """One axis for each leaf; what is no array (a function among the leaves) is shared."""
    axes, leaves = flat_axes(in_axes, given), jax.tree.leaves(tuple(given.values()))
    return [axis if hasattr(x, "shape") else None for axis, x in zip(axes, leaves, strict=True)]


def _check_systems(system: System, axes: list[int | None]) -> None:
    """A system built under `jax.vmap` saw no numbers: its own checks see those that stand out, where they are known.

    For each of its arrays the trajectory with the smallest entry, where that is not positive, or with one that is no number.
    """
    check = getattr(type(system), "__check_init__", None)
    leaves, structure = jax.tree.flatten(system)
    batched = {i: a for i, a in enumerate(axes[: len(leaves)]) if a is not None}
    known = {i: _checks.concrete(leaves[i]) for i in batched}
    rows = {i: np.moveaxis(x, batched[i], 0) for i, x in known.items() if x is not None}
    if check is None or len(rows) < len(batched):
        return
    for index in sorted({place for x in rows.values() for place in _standing_out(x)}):
        own = [np.asarray(rows[i][index]) if i in rows else x for i, x in enumerate(leaves)]
        try:
            check(jax.tree.unflatten(structure, own))
        except ValueError as error:
            raise _checks.wrong_member(index, error) from None


def _standing_out(x: np.ndarray) -> list[int]:
    entries = x.reshape(-1)
    if not entries.size:
        return []
    # in one pass: the least of each row first took 3 ms of (100000, 3), as long as one step of the balls
    place = int(np.argmin(entries))  # of a NaN where there is one
    return [] if entries[place] > 0 else [place * len(x) // entries.size]


def _check_states(space: AbstractSpace, q0, axes, size: int) -> None:
    """Each initial configuration is one, where the numbers are known: all are looked at together, a bad one by itself."""
    parts, structure = jax.tree.flatten(q0)
    if structure != jax.tree.structure(space.stored):
        first = [x if a is None else jnp.take(x, 0, a) for x, a in zip(parts, axes, strict=False)]
        space.check(jax.tree.unflatten(structure, first), "q0 of one trajectory")
    known = [_checks.concrete(part) for part in parts]
    if any(part is None for part in known):
        return  # nothing to look at
    columns = [_leading(part, axis, size) for part, axis in zip(known, axes, strict=False)]
    for index in _suspects(space, structure, columns):
        entry = jax.tree.unflatten(structure, [jnp.asarray(column[index]) for column in columns])
        space.check(entry, f"q0 of trajectory {index}")


def _check_velocities(system: System, u0, axes) -> None:
    """As many as are independent, in each trajectory."""
    shape, k = list(np.shape(u0)), system.n_independent
    if shape and axes[0] is not None:
        del shape[axes[0]]
    _checks.check_shape(
        "u0",
        np.zeros(shape),
        (k,),
        f"{type(system).__name__} has {k} independent quasi-velocities; that is what one trajectory has.",
    )


def _leading(part, axis: int | None, size: int):
    return (
        np.broadcast_to(part, (size, *part.shape)) if axis is None else np.moveaxis(part, axis, 0)
    )


def _suspects(space: AbstractSpace, structure, columns) -> list[int]:
    """Indices of configurations that `normalise` changes or that are not finite, or the first where shapes are wrong."""
    wanted = [x.shape for x in jax.tree.leaves(space.stored)]
    if [column.shape[1:] for column in columns] != wanted:
        return [0]
    with jax.ensure_compile_time_eval():  # under jit, too, these are numbers
        fine = _unchanged(space, jax.tree.unflatten(structure, map(jnp.asarray, columns)))
    return np.flatnonzero(~np.asarray(fine)).tolist()


@jax.jit
def _unchanged(space: AbstractSpace, q: Any) -> Bool[Array, " B"]:
    """Which configurations `normalise` leaves as they are, to 1e-6; those that are not finite it does not."""

    def one(q):
        pairs = zip(*map(jax.tree.leaves, (q, space.normalise(q))), strict=True)
        return jnp.all(jnp.stack([jnp.all(jnp.isclose(x, y, 0, 1e-6)) for x, y in pairs]))

    return jax.vmap(one)(q)
