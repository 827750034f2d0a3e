"""The sizes of a transcription's unknowns and equations: the search divides them by these numbers, so that they are about 1.

A force may be of 1e-6 N and a distance of 1e7 m. A search that treats them alike regularises, ends and judges violations by
numbers that fit neither. The sizes are found from the guess, from the bounds of the limits, and from the derivatives of the
equations of motion: a force has the size that moves a velocity by its own size during the motion, or that of its limit if
this is smaller. Where the guess stays at the initial state, a state has the size that would meet a condition, or else the
one that changes the cost by its own size.

A size between `LEAST` and `LARGEST` counts as 1; a problem whose sizes all lie there is not scaled. All sizes are powers of
two, so that divisions by them cause no rounding.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration
from jaxhamel.geometry import AbstractSpace

LEAST, LARGEST = 2.0**-7, 2.0**7
# The share of the size that others give a state below which its own counts as unknown, over the rounding error.
NEXT_TO_NOTHING = 1e3


class TypicalSizes(NamedTuple):
    """The sizes of states (ξ, u), controls, parameters, conditions at both ends, and values of the path limits."""

    x: Float[Array, " d"]
    c: Float[Array, " m"]
    p: Float[Array, " p"]
    conditions: Float[Array, " b"]
    limits: Float[Array, " r"]


def size_of(sizes: TypicalSizes | None, name: str) -> Array | float:
    """The sizes of one kind of unknowns or constraints, `name`, by which they are divided; 1 if nothing is scaled."""
    return 1.0 if sizes is None else getattr(sizes, name)


def in_size(x: Array, size: Array | float) -> Array:
    """x / size; the shape of `size` is that of the last axes of `x`."""
    return x / jnp.broadcast_to(jnp.asarray(size, x.dtype), x.shape)


def of_size(x: Array, size: Array | float) -> Array:
    """x · size; the shape of `size` is that of the last axes of `x`."""
    return x * jnp.broadcast_to(jnp.asarray(size, x.dtype), x.shape)


class KnownSizes(NamedTuple):
    """The sizes known before they are related to one another; 0 for an unknown size.

    - `x`: the largest differences of the guess from its first state; `p`: the first values of the parameters.
    - `misses`: the residuals of the conditions at the guess; `by_cost`: the changes of each state that change the cost of
      the guess by its own size.
    - `limits`: the largest absolute values of finite bounds.
    - `rates`, `of_limits`, `of_conditions`: the largest absolute derivatives of T f (the rates times the duration), of the
      limits and of the conditions by the states and controls.
    - `coordinates`: the number of the first states, the coordinates of configurations, which have the size 1 if nothing else
      is known of them.
    """

    x: Float[np.ndarray, " d"]
    p: Float[np.ndarray, " p"]
    misses: Float[np.ndarray, " b"]
    by_cost: Float[np.ndarray, " d"]
    limits: Float[np.ndarray, " r"]
    rates: Float[np.ndarray, "d d+m"]
    of_limits: Float[np.ndarray, "r d+m"]
    of_conditions: Float[np.ndarray, "b d+m"]
    coordinates: int = 0


def related(measured: KnownSizes, dtype: Any, over_intervals: bool = False) -> TypicalSizes | None:
    """The sizes, as arrays of a dtype; None if all of them count as 1.

    `over_intervals`: whether `rates` are changes over whole intervals, which join a state directly to all its causes.
    """
    d = len(measured.x)
    rates = in_time_of_motion(measured.rates, d)
    x = measured.x
    if not np.any(x > 0):  # beside a guess that moves, conditions are missed by rounding only
        x = _least(measured.misses, measured.of_conditions[:, :d])
    x = x if np.any(x > 0) else measured.by_cost
    x = _considerable(x, rates, over_intervals, NEXT_TO_NOTHING * float(jnp.finfo(dtype).eps))
    unknowns = sizes_of_unknowns(x, rates, over_intervals, 0.0)
    unknowns = _with_motions_apart(unknowns, rates, measured.coordinates)
    within = _least(measured.limits, measured.of_limits)[d:]
    unknowns[d:] = np.where(within > 0, np.minimum(unknowns[d:], within), unknowns[d:])
    limits = np.where(measured.limits > 0, measured.limits, _largest(measured.of_limits, unknowns))
    conditions = _largest(measured.of_conditions, unknowns)
    parts = unknowns[:d], unknowns[d:], np.abs(measured.p), conditions, limits
    found = [_rounded(x) for x in parts]
    if all(np.all(x == 1.0) for x in found):
        return None
    return TypicalSizes(*(jnp.asarray(x, dtype) for x in found))


def in_time_of_motion(rates: np.ndarray, d: int) -> np.ndarray:
    """The derivatives of the rates times a time of the motion: its duration or, where states change faster, their own time.

    The spectral radius of |T ∂f/∂x| does not depend on the units of the states.
    """
    radius = np.max(np.abs(np.linalg.eigvals(rates[:, :d])), initial=0.0)
    return rates / max(1.0, float(radius))


def sizes_of_unknowns(
    known: np.ndarray, rates: np.ndarray, over_intervals: bool = False, apart: float = 1.0
) -> np.ndarray:
    """The sizes of states and controls.

    From the known sizes follow first the sizes of the causes, the unknowns that change a state of known size by that size;
    then the sizes of the states that unknowns of known size change. An unknown without any such relation has the size
    `apart`.
    Over intervals the least size counts, directly or by a chain of others, and a state is not larger than others make it.
    """
    d, count = len(known), rates.shape[1]
    sizes = np.concatenate([known, np.zeros(count - d)])
    fixed = sizes > 0
    for _ in range(count):  # a chain of integrators has as many links as unknowns
        causes = _least(sizes[:d], rates)
        lower = over_intervals & ~fixed & (causes > 0) & (causes < sizes)
        sizes = np.where(lower, causes, _filled(sizes, causes))
    made = _largest(rates, sizes)
    lower = over_intervals & ~fixed[:d] & (made > 0) & (made < sizes[:d])
    sizes[:d] = np.where(lower, made, sizes[:d])
    for _ in range(d):
        sizes[:d] = _filled(sizes[:d], _largest(rates, sizes))
        sizes = _filled(sizes, _least(sizes[:d], rates))
    return np.where(sizes > 0, sizes, apart)


def _with_motions_apart(sizes: np.ndarray, rates: np.ndarray, coordinates: int) -> np.ndarray:
    """The sizes, in which 0 stands for an unknown without a relation to the known ones; 1 in place of it or, if others are
    scaled, the size by which it changes one of the first states, `coordinates` in number, by 1.

    A body that turns about one axis has torques about the others, too. If a torque of 1e6 N m turns it by 1 rad, theirs are
    not of 1 N m.
    """
    free = sizes == 0
    sizes = np.where(free & (np.arange(len(sizes)) < coordinates), 1.0, sizes)
    if not np.all(_rounded(sizes) == 1.0):
        for _ in range(len(sizes)):
            sizes = _filled(sizes, _least(sizes[: len(rates)], rates))
    return np.where(sizes > 0, sizes, 1.0)


def _considerable(
    known: np.ndarray, rates: np.ndarray, over_intervals: bool, share: float
) -> np.ndarray:
    """The known sizes of states, with 0 for those below a `share` of the sizes that follow without them.

    A target of sin π = 1e-16 m beside 1 m is a rounded 0.
    """
    for k in np.flatnonzero((known > 0) & (known < share * np.max(known, initial=0.0))):
        others = np.where(np.arange(len(known)) == k, 0.0, known)
        if known[k] < share * sizes_of_unknowns(others, rates, over_intervals)[k]:
            known = others
    return known


def _filled(sizes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The known sizes, and those of `others` for the unknowns without a known size."""
    return np.where(sizes > 0, sizes, others)


def _least(of_values: np.ndarray, derivatives: np.ndarray) -> np.ndarray:
    """For each unknown the least size that changes one of the values by its size; 0 where it changes none of known size."""
    links = (derivatives > 0) & (of_values[:, None] > 0)
    shape = derivatives.shape
    sizes = np.divide(of_values[:, None], derivatives, out=np.full(shape, np.inf), where=links)
    least = np.min(sizes, axis=0, initial=np.inf)
    return np.where(np.isfinite(least), least, 0.0)


def _largest(derivatives: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The largest change of each value if each unknown changes by its size."""
    return np.max(derivatives * sizes[None], axis=1, initial=0.0)


def coordinates_about_first(
    space: AbstractSpace, q: Configuration, u: Float[Array, "N+1 k"]
) -> Float[Array, "N+1 d"]:
    """The coordinates of configurations in the chart about the first one, and the quasi-velocities."""
    first = jax.tree.map(lambda x: x[0], q)
    return jnp.concatenate([jax.vmap(lambda x: space.local(first, x))(q), u], axis=1)


def extents(coordinates: Float[Array, "N+1 d"]) -> Float[np.ndarray, " d"]:
    """The largest absolute value of each coordinate; those that are not finite count as 0."""
    sizes = np.abs(np.asarray(coordinates, float))
    return np.max(np.where(np.isfinite(sizes), sizes, 0.0), axis=0)


def _rounded(sizes: np.ndarray) -> np.ndarray:
    """The nearest powers of two; 1 for sizes between `LEAST` and `LARGEST`, and for unknown ones."""
    known = np.isfinite(sizes) & (sizes > 0)
    moderate = ~known | ((sizes >= LEAST) & (sizes <= LARGEST))
    return np.where(moderate, 1.0, 2.0 ** np.round(np.log2(np.where(known, sizes, 1.0))))
