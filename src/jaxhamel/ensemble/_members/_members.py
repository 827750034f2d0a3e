"""The members of an ensemble: per-trajectory and shared parts of system, state and control."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from jaxhamel import _checks
from jaxhamel._lanes._transform import axes_of_leaves, lists_as_arrays
from jaxhamel.ensemble._checks._members import (
    check_initial_values,
    check_one_system,
    check_trajectories,
    wrong_member,
)
from jaxhamel.ensemble._members._known import Known
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System, as_control
from jaxhamel.mechanics._checks._system import (
    any_field_is_zero,
    check_frame_at,
    check_takes_control,
)
from jaxhamel.mechanics._controls._control import with_arrays
from jaxhamel.mechanics._controls._kinematic import inner
from jaxhamel.mechanics._description._parameters import with_array_leaves
from jaxhamel.mechanics._examination._agreement import check_agreement
from jaxhamel.mechanics._examination._boundary import (
    check_methods,
    check_regular_mass,
    takes_control,
)
from jaxhamel.mechanics._system import is_ours, overrides
from jaxhamel.simulate._simulate import dtype_of_state

_PARTS: tuple[str, ...] = ("system", "q0", "u0", "control")


class Members(eqx.Module):
    """The inputs of all trajectories: (system, q0, u0, control) of mechanical systems (`of`), or others (`gathered`).

    - `leaves`, `structure`: these inputs; leaves marked in `batched` have a leading batch axis, all trajectories share the
      others. `size`: the number of trajectories.
    - `known`: shared numbers that are 0, 1 or −1.
    """

    leaves: list[Any]
    structure: Any = eqx.field(static=True)
    batched: tuple[bool, ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)
    known: Known = eqx.field(static=True)

    @classmethod
    def of(cls, system: System, q0: Any, u0: Any, control: Any, in_axes: Any) -> "Members":
        """The members, after checks: one batch size, at least one trajectory, configurations of the system's space.

        **Raises:** `ValueError` that names the argument, and the trajectory if a single one is wrong.
        """
        check_one_system(system)
        _checks.check_arrays(q0=q0, u0=u0)
        _checks.check_velocity("u0", u0)
        if control is not None and not callable(control):
            control = with_arrays(control)
        parts = (system, lists_as_arrays(q0), lists_as_arrays(u0), control)
        given = dict(zip(_PARTS, parts, strict=True))
        axes = axes_of_leaves(in_axes, given)
        leaves, structure = jax.tree.flatten(with_array_leaves((*parts[:3], as_control(control))))
        size = _checks.check_batch(given, axes)
        check_trajectories(size, parts[2])
        _check_systems(system, axes)
        first = _first_system(system, axes)
        _check_states(first.space, parts[1], axes[len(jax.tree.leaves(system)) :], size)
        _check_velocities(first, parts[2], axes[len(jax.tree.leaves(parts[:2])) :])
        members = cls._of_leaves(leaves, structure, axes, size)
        members._check_system()
        return members

    @classmethod
    def gathered(
        cls, given: dict[str, Any], in_axes: Any, shared: tuple[Any, ...] = ()
    ) -> "Members":
        """The members with the inputs `given` by name, initial values first, and further inputs that all of them share.

        **Raises:** `ValueError` that names the argument.
        """
        given = {name: lists_as_arrays(part) for name, part in given.items()}
        axes = axes_of_leaves(in_axes, given)
        size = _checks.check_batch(given, axes)
        check_initial_values(size, next(iter(given.values())))
        leaves, structure = jax.tree.flatten((*given.values(), *map(lists_as_arrays, shared)))
        axes += [None] * (len(leaves) - len(axes))
        return cls._of_leaves(leaves, structure, axes, size)

    @classmethod
    def _of_leaves(
        cls, leaves: list[Any], structure, axes: list[int | None], size: int
    ) -> "Members":
        known = Known.of([x for x, axis in zip(leaves, axes, strict=True) if axis is None])
        batched = tuple(axis is not None for axis in axes)
        return cls(_in_front(leaves, axes), structure, batched, size, known)

    @property
    def control(self) -> Any:
        """The controls of mechanical systems; arrays of which the trajectories have their own have a leading axis."""
        return self.with_own(self.own)[3]

    def _check_system(self) -> None:
        """Checks the methods of the system with the shapes of one trajectory, and their agreement with values of the first.

        A frame that all trajectories share must be regular, and so must the mass matrices of suspicious trajectories.
        """
        abstract = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in self.own]
        system, q0, u0, control = self.with_own(abstract)
        dtype = dtype_of_state(q0, u0)

        def cast(x):
            return jax.ShapeDtypeStruct(jnp.shape(x), dtype)

        t, q0, u0 = jax.tree.map(cast, (0.0, q0, u0))
        check_takes_control(system, control, takes_control(system))
        check_methods(system, t, q0, u0, control)
        if not is_ours(inner(system)) and not _checks.any_tracer(self.leaves):
            first = _first_of(self.with_own([x[0] for x in self.own]), dtype)
            check_agreement(*first)
            if self.shares(0) and self.shares(1):  # a singular frame is then that of all
                check_frame_at(*first[:3])
            for index in self._perhaps_without_inertia(first[0]):
                self._check_inertia(index, dtype)

    def _perhaps_without_inertia(self, first: System) -> list[int]:
        """The indices of suspicious trajectories, whose mass matrix may be singular.

        They are those with the smallest entry of a field that differs among them, if that is not positive; and the first
        one, as an example of all, if a shared field is zero.
        """
        batched = self.batched[: len(jax.tree.leaves(first))]
        varying = [x for x, varies in zip(self.leaves, batched, strict=False) if varies]
        found = {index for x in varying for index in _suspicious_index(np.asarray(x))}
        return sorted(found | ({0} if any_field_is_zero(first) else set()))

    def _check_inertia(self, index: int, dtype) -> None:
        """Checks that the mass matrix of one trajectory is regular at its start."""
        try:
            check_regular_mass(*_first_of(self.with_own([x[index] for x in self.own]), dtype))
        except ValueError as error:
            raise wrong_member(index, error) from None

    def prepared(self) -> "Members":
        """The same members, where a shared system stores the numbers that depend on its parameters alone, as in `simulate`.

        Lanes would compute these numbers once for all trajectories, but in each step, and compile them with the step.
        """
        if not self.shares(0):
            return self
        system, *others = self.with_own(self.own)
        if not overrides(system, "prepared"):
            return self
        once = _prepared(system)
        leaves, structure = jax.tree.flatten((once, *others))
        rest = self.batched[len(jax.tree.leaves(system)) :]
        batched = (*[False] * len(jax.tree.leaves(once)), *rest)
        known = Known.of([x for x, varies in zip(leaves, batched, strict=True) if not varies])
        return Members(leaves, structure, batched, self.size, known)

    @property
    def own(self) -> list[Any]:
        """The leaves that differ from trajectory to trajectory, batch axis in front."""
        return [x for x, varies in zip(self.leaves, self.batched, strict=True) if varies]

    @property
    def shared(self) -> tuple[list[Any], list[Any]]:
        """The shared leaves in two lists, arrays and others; at the place of a leaf in the one, the other has None."""
        return eqx.partition(
            [x for x, varies in zip(self.leaves, self.batched, strict=True) if not varies],
            eqx.is_array,
        )

    def shares(self, part: int) -> bool:
        """Whether all trajectories share the input with this index."""
        return not any(jax.tree.leaves(jax.tree.unflatten(self.structure, self.batched)[part]))

    def with_numbers(self, entries: Any, shared: list[Any], fixed: list[Any]) -> tuple[Any, ...]:
        """The inputs of one trajectory, from its own leaves and both kinds of shared leaves.

        Shared numbers that are known to be 0, 1 or −1 become constants.
        """
        own, others = iter(entries), iter(self.known.with_constants(eqx.combine(shared, fixed)))
        filled = [next(own) if varies else next(others) for varies in self.batched]
        return jax.tree.unflatten(self.structure, filled)

    @property
    def space(self) -> AbstractSpace:
        """The configuration space of the first trajectory; others may differ from it in numbers, but not in shapes."""
        return self.with_own([x[0] for x in self.own])[0].space

    def with_own(self, entries: Any) -> tuple[Any, ...]:
        """The inputs of one trajectory: its own arrays, and those that all trajectories share."""
        entries = iter(entries)
        pairs = zip(self.leaves, self.batched, strict=True)
        filled = [next(entries) if varies else x for x, varies in pairs]
        return jax.tree.unflatten(self.structure, filled)


@eqx.filter_jit
def _prepared(system: System) -> System:
    return system.prepared()


def _first_of(member: tuple[Any, ...], dtype) -> tuple[Any, ...]:
    """The inputs (system, t, q, u, control) of one trajectory at t = 0, with the state in one dtype."""
    system, q0, u0, control = member

    def cast(x):
        return jnp.asarray(x, dtype)

    return system, cast(0.0), jax.tree.map(cast, q0), cast(u0), control


def _first_system(system: System, axes: list[int | None]) -> System:
    """The system of the first trajectory; if its space cannot depend on its fields, the batched system itself."""
    if not isinstance(getattr(type(system), "space", None), property):
        return system
    leaves, structure = jax.tree.flatten(system)
    pairs = zip(leaves, axes, strict=False)
    return jax.tree.unflatten(structure, [x if a is None else jnp.take(x, 0, a) for x, a in pairs])


def _in_front(leaves: list[Any], axes: list[int | None]) -> list[Any]:
    """Moves each batch axis to the front."""
    return [
        x if axis is None else jnp.moveaxis(jnp.asarray(x), axis, 0)
        for x, axis in zip(leaves, axes, strict=True)
    ]


def _check_systems(system: System, axes: list[int | None]) -> None:
    """Runs the system's own checks, which `jax.vmap` skipped while it built the batch, on suspicious trajectories.

    A trajectory is suspicious if it has the smallest entry of an array and that is not positive, or if it has a NaN.
    """
    check = getattr(type(system), "__check_init__", None)
    leaves, structure = jax.tree.flatten(system)
    batched = {i: a for i, a in enumerate(axes[: len(leaves)]) if a is not None}
    known = {i: _checks.concrete(leaves[i]) for i in batched}
    rows = {i: np.moveaxis(x, batched[i], 0) for i, x in known.items() if x is not None}
    if check is None or len(rows) < len(batched):
        return
    for index in sorted({place for x in rows.values() for place in _suspicious_index(x)}):
        own = [np.asarray(rows[i][index]) if i in rows else x for i, x in enumerate(leaves)]
        try:
            check(jax.tree.unflatten(structure, own))
        except ValueError as error:
            raise wrong_member(index, error) from None


def _suspicious_index(x: np.ndarray) -> list[int]:
    """A list with the index of the trajectory that has the smallest entry or a NaN; empty if all entries are positive."""
    entries = x.reshape(-1)
    if not entries.size:
        return []
    # a single pass over all entries: the minimum of each row took as long as one step of the ensemble
    place = int(np.argmin(entries))  # the position of a NaN if there is one
    return [] if entries[place] > 0 else [place * len(x) // entries.size]


def _check_states(space: AbstractSpace, q0, axes, size: int) -> None:
    """Checks concrete initial configurations: first all of them together, then each suspicious one separately."""
    parts, structure = jax.tree.flatten(q0)
    if structure != jax.tree.structure(space.stored):
        first = [x if a is None else jnp.take(x, 0, a) for x, a in zip(parts, axes, strict=False)]
        space.check(jax.tree.unflatten(structure, first), "q0 of one trajectory")
    known = [_checks.concrete(part) for part in parts]
    if any(part is None for part in known):
        return  # no concrete values
    columns = [_leading(part, axis, size) for part, axis in zip(known, axes, strict=False)]
    for index in _suspects(space, structure, columns):
        entry = jax.tree.unflatten(structure, [jnp.asarray(column[index]) for column in columns])
        space.check(entry, f"q0 of trajectory {index}")


def _check_velocities(system: System, u0, axes) -> None:
    """Checks that u0 of one trajectory has the shape of the system's independent quasi-velocities."""
    shape, k = list(np.shape(u0)), system.n_independent
    if shape and axes[0] is not None:
        del shape[axes[0]]
    _checks.check_shape(
        "u0",
        np.zeros(shape),
        (k,),
        f"{type(system).__name__} has {k} independent quasi-velocities; u0 of one trajectory has one entry for each.",
    )


def _leading(part, axis: int | None, size: int):
    return (
        np.broadcast_to(part, (size, *part.shape)) if axis is None else np.moveaxis(part, axis, 0)
    )


def _suspects(space: AbstractSpace, structure, columns) -> list[int]:
    """The indices of configurations that are not finite or that `normalise` changes; [0] if the shapes are wrong."""
    wanted = [x.shape for x in jax.tree.leaves(space.stored)]
    if [column.shape[1:] for column in columns] != wanted:
        return [0]
    with jax.ensure_compile_time_eval():  # under jit, too, these are numbers
        fine = _unchanged(space, jax.tree.unflatten(structure, map(jnp.asarray, columns)))
    known = _checks.concrete(fine)  # None under jit if the system makes its space from arrays
    return [] if known is None else np.flatnonzero(~known).tolist()


@jax.jit
def _unchanged(space: AbstractSpace, q: Any) -> Bool[Array, " B"]:
    """Whether `normalise` leaves each configuration unchanged, to 1e-6; False for those that are not finite."""

    def one(q):
        pairs = zip(*map(jax.tree.leaves, (q, space.normalise(q))), strict=True)
        return jnp.all(jnp.stack([jnp.all(jnp.isclose(x, y, 0, 1e-6)) for x, y in pairs]))

    return jax.vmap(one)(q)
