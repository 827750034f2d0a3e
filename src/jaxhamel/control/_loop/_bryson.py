"""Bryson's rule: the costs of a regulator from the sizes of its plan, for users who give none."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel.control._scaling._sizes import (
    coordinates_about_first,
    extents,
    in_time_of_motion,
    sizes_of_unknowns,
)
from jaxhamel.geometry import SE2, SE3, AbstractSpace, Euclidean, Product, Schoenflies
from jaxhamel.mechanics import Part, System
from jaxhamel.mechanics._description._declarations import state_of

# An entry is at least this share of the size that the others give it by the equations of motion.
SHARE = 0.1
# Entries below this share of the largest one count as rounding errors of a plan in which they do not move.
ROUNDING = 1e-9
# The numbers of neighbouring entries of the same unit in exponential coordinates of a group: angles, then lengths.
OF_GROUPS: dict[type[AbstractSpace], tuple[int, ...]] = {
    SE2: (1, 2),
    SE3: (3, 3),
    Schoenflies: (1, 3),
}
EntryKind = Any  # entries with equal kinds have the same size


class PlanSizes(NamedTuple):
    """The sizes of the entries of the state δ = (δ_q, δ_u), `(d,)`, and of the control, `(p,)`; all are positive."""

    state: Float[np.ndarray, " d"]
    control: Float[np.ndarray, " p"]


def bryson(sizes: Float[np.ndarray, " d"]) -> Float[Array, "d d"]:
    """The matrix diag(1/size²) of a cost: each entry that deviates by its own size adds 1 to the quadratic form."""
    return jnp.asarray(np.diag(1.0 / sizes**2))


def plan_sizes(system: System, ts, q, u, control: Array, A: Array, B: Array) -> PlanSizes:
    """The sizes of the entries of the state and of the control along a plan, for Bryson's rule.

    The size of an entry of the state is its largest absolute value along the plan: of the configuration in exponential
    coordinates about the first one, and of the quasi-velocities. The size of a control is its largest distance from its
    mean: a constant thrust that carries a weight does not count. Two rules complete them:

    - Entries of one part of the state with the same unit have the largest size among them, so that the axes of a frame
      do not matter. The size of a control is at least `SHARE` times the largest one of its part and unit.
    - An entry is at least `SHARE` times the size that follows from the other entries by the equations of motion: that
      which changes another entry by its size during the plan or, if it changes none, that by which the others change it.
      If no entry of the state moves, those of the configuration count as 1 (m, rad), and all others follow.

    In other units of an entry its size is another number, but the same length or force. **Arguments:** `control`:
    `(N+1, p)`; `A`, `B`: of the linearised equations, with an axis for the N + 1 times.

    **Raises:** `ValueError` if the numbers of the plan are traced.
    """
    if _checks.any_tracer((ts, q, u, control, A, B)):
        raise ValueError(
            "`state_cost` and `control_cost` have default values that follow from the numbers of the plan, which are not "
            "known inside jit, grad or vmap. Give both, for example those in `costs` of a regulator that was made outside."
        )
    rates = _rates(np.asarray(ts), np.asarray(A), np.asarray(B))
    kinds = _kinds_of_state(system)
    moved = _largest_of_kind(
        kinds, _without_rounding(extents(coordinates_about_first(system.space, q, u)))
    )
    if not np.any(moved > 0):
        moved = np.where(np.arange(len(moved)) < system.space.dim, 1.0, 0.0)
        whole = sizes_of_unknowns(moved, rates)
        return PlanSizes(whole[: len(moved)], _sizes_of_control(system, control, whole))
    state = np.maximum(moved, SHARE * _implied(kinds, moved, rates))
    whole = SHARE * sizes_of_unknowns(moved, rates)
    return PlanSizes(state, _sizes_of_control(system, control, whole))


def _rates(ts: np.ndarray, A: np.ndarray, B: np.ndarray) -> Float[np.ndarray, "d d+p"]:
    """Estimates how far each entry of the state moves during the plan if an entry of the state, or a control, is displaced
    by 1: entry i, displaced quantity j.
    """
    both = np.max(np.abs(np.concatenate([A, B], axis=2)), axis=0)
    return in_time_of_motion(float(ts[-1] - ts[0]) * both, A.shape[1])


def _without_rounding(sizes: np.ndarray) -> np.ndarray:
    """Replaces sizes that may be rounding errors alone by 0."""
    return np.where(sizes > ROUNDING * np.max(sizes, initial=0.0), sizes, 0.0)


def _implied(kinds: Sequence[EntryKind], moved: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Estimates the sizes of entries of the state by the equations of motion, from the sizes `moved` of entries of other
    kinds; 0 where no entry of another kind moves.
    """
    found = np.zeros(len(moved))
    for kind in set(kinds):
        own = np.array([x == kind for x in kinds])
        others = np.where(own, 0.0, moved)
        if np.any(others > 0):
            found[own] = np.max(sizes_of_unknowns(others, rates)[: len(moved)][own])
    return found


def _largest_of_kind(kinds: Sequence[EntryKind], sizes: np.ndarray) -> np.ndarray:
    """The sizes, each replaced by the largest one of its kind."""
    return np.array(
        [max(y for other, y in zip(kinds, sizes, strict=True) if other == kind) for kind in kinds]
    )


def _sizes_of_control(system: System, control: Array, least: np.ndarray) -> np.ndarray:
    """The sizes of the controls along the plan; `least` ends with the smallest ones."""
    moved = extents(control - jnp.mean(control, axis=0, keepdims=True))
    kinds = _kinds_of_parts("control", state_of(system).control, len(moved))
    moved = np.maximum(moved, SHARE * _largest_of_kind(kinds, moved))
    return np.maximum(moved, least[len(least) - len(moved) :])


def _kinds_of_state(system: System) -> list[EntryKind]:
    """The kind of every entry of δ: the part of the state and the unit; without a unit every entry has its own kind."""
    names, factors = state_of(system), list(_factors(system.space))
    if len(factors) == len(names.q):
        parts = zip(factors, names.q, strict=True)
        found = [
            x for i, (space, part) in enumerate(parts) for x in _kinds_of_factor(i, space, part)
        ]
    else:
        found = [("q", i, "") for i in range(system.space.dim)]
    return [*found, *_kinds_of_parts("u", names.u, system.n_independent)]


def _factors(space: AbstractSpace) -> list[AbstractSpace]:
    """The factors of a space, those of products inside of it too."""
    if not isinstance(space, Product):
        return [space]
    return [x for factor in space.spaces for x in _factors(factor)]


def _kinds_of_factor(place: int, space: AbstractSpace, part: Part) -> list[EntryKind]:
    if isinstance(space, Euclidean):
        return _kinds_of_parts(("q", place), (part,), space.dim)
    counts = OF_GROUPS.get(type(space), (space.dim,))
    return [("q", place, i) for i, count in enumerate(counts) for _ in range(count)]


def _kinds_of_parts(name: Any, parts: Sequence[Part], size: int) -> list[EntryKind]:
    """The kinds of `size` entries of some neighbouring parts."""
    free = sum(part.size is None for part in parts)
    rest = size - sum(part.size or 0 for part in parts)
    if free > 1 or rest < 0 or (rest > 0 and not free):
        return [(name, i) for i in range(size)]
    widths = [rest if part.size is None else part.size for part in parts]
    found = [(i, unit) for i, part in enumerate(parts) for unit in part.units(widths[i])]
    return [(name, i, unit) if unit else (name, "alone", k) for k, (i, unit) in enumerate(found)]
