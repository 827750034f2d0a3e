"""Measures the sizes of a transcription's unknowns and equations (`_sizes`) at the guess.

Derivatives are differences of values of a program that the search has compiled already: their magnitude is all that counts.
"""

import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._certificate._violation import evaluated
from jaxhamel.control._collocation._start import bent
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._scaling._sizes import (
    KnownSizes,
    TypicalSizes,
    coordinates_about_first,
    extents,
    related,
)

FAR = 4  # the second step of a difference quotient over the first one
STEPS = 5  # the largest number of steps, from 1 to 1e12, that are tried for the size of a state by the cost


def sizes_at(transcription: Transcription, w: CollocationPoint) -> TypicalSizes | None:
    """The sizes of a transcription's unknowns and equations, from the guess `w`; None if all of them count as 1."""
    x = extents(_from_first(transcription, w))
    tables = [_derivatives(transcription, at, x) for at in (w, bent(transcription, w))]
    tiny = 100 * float(np.finfo(w.X.dtype).eps)
    rates, limits, conditions = (
        _above_rounding(np.maximum(*pair), tiny) for pair in zip(*tables, strict=True)
    )
    bounds = [np.abs(np.asarray(x)[0, 0]) for x in (transcription.lower, transcription.upper)]
    largest = np.max(np.where(np.isfinite(bounds), bounds, 0.0), axis=0)
    misses = _misses(transcription, w)
    given = np.any(x > 0) or np.any(misses > 0)
    by_cost = np.zeros_like(x) if given else _sizes_by_cost(transcription, w)
    p = _parameters(transcription, w)
    tables = rates, limits, conditions
    known = KnownSizes(x, p, misses, by_cost, largest, *tables, transcription.system.space.dim)
    return related(known, w.X.dtype)


def _above_rounding(table: np.ndarray, tiny: float) -> np.ndarray:
    """Derivatives, with 0 in place of those that are below the share `tiny` of others in their row and in their column.

    So sin π = 1e-16 joins no state to its cause.
    """
    row, column = (tiny * np.max(table, axis=k, keepdims=True, initial=0.0) for k in (1, 0))
    return np.where((table < row) & (table < column), 0.0, table)


@compiled_with(QUICK)
def _from_first(transcription: Transcription, w: CollocationPoint) -> Float[Array, "N+1 d"]:
    """The coordinates of the nodes of the guess in the chart about the first one."""
    return coordinates_about_first(transcription.system.space, *transcription.states(w))


def _misses(transcription: Transcription, w: CollocationPoint) -> Float[np.ndarray, " b"]:
    """The absolute residuals of the conditions at the guess; those that are not finite count as 0."""
    residuals = np.abs(np.asarray(evaluated(transcription, w)[1].conditions, float))
    return np.where(np.isfinite(residuals), residuals, 0.0)


def _sizes_by_cost(transcription: Transcription, w: CollocationPoint) -> Float[np.ndarray, " d"]:
    """For each state the change that raises the cost of the guess by its own size; 0 where no change does."""
    cost = abs(float(evaluated(transcription, w)[0]))
    if not 0 < cost < np.inf:
        return np.zeros(w.X.shape[-1])
    return np.array([_size_by_cost(transcription, w, k, cost) for k in range(w.X.shape[-1])])


def _size_by_cost(transcription: Transcription, w: CollocationPoint, k: int, cost: float) -> float:
    """The change of the state's coordinate `k` that raises the cost by `cost`.

    A cost whose second difference is within rounding is linear in it.
    """
    base, clear = float(evaluated(transcription, w)[0]), 1e6 * float(np.finfo(w.X.dtype).eps)
    step = 1.0
    for _ in range(STEPS):
        up, down = (float(evaluated(transcription, _displaced(w, k, x))[0]) for x in (step, -step))
        squared, linear = ((up + down) / 2 - base) / cost, abs(up - down) / 2 / cost
        least = clear * max(1.0, abs(up) / cost, abs(down) / cost)
        if squared > least:
            return step / squared**0.5
        if linear > least:
            return step / linear
        step *= 1e3
    return 0.0


def _parameters(transcription: Transcription, w: CollocationPoint) -> Float[np.ndarray, " p"]:
    """The first values of the parameters; the duration in place of the last time."""
    p = np.abs(np.asarray(w.p, float))
    if transcription.free_time:
        p[0] = float(transcription.span(w.p))
    return p


def _derivatives(
    transcription: Transcription, w: CollocationPoint, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest absolute derivatives by each state and control, in three arrays: those of T f, of the limits and of the
    conditions. T is the duration, f the right-hand side."""
    least = float(np.finfo(w.X.dtype).eps) ** 0.25
    base = _values(transcription, w)
    controls = np.maximum(1.0, np.max(np.abs(np.asarray(w.c)), axis=(0, 1)))
    steps = least * np.concatenate([np.where(x > 0, x, 1.0), controls])
    steps = np.maximum(steps, 10 * max(map(_largest_rounding, base)))
    columns = []
    for k, step in enumerate(steps):
        near, far = (_values(transcription, _displaced(w, k, x)) for x in (step, FAR * step))
        columns.append([_slopes(*x, step) for x in zip(base, near, far, strict=True)])
    return tuple(np.stack(x, axis=1) for x in zip(*columns, strict=True))  # type: ignore[return-value]


def _displaced(w: CollocationPoint, k: int, step: float) -> CollocationPoint:
    """The iterate with coordinate `k` of all states and controls displaced; by NumPy, which compiles nothing."""
    d = w.X.shape[-1]
    x, X, c = (np.array(a) for a in (w.x, w.X, w.c))
    for array, column in ((x, k), (X, k)) if k < d else ((c, k - d),):
        array[..., column] += step
    return w._replace(x=x, X=X, c=c)


def _values(
    transcription: Transcription, w: CollocationPoint
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(T f up to a constant, limits, conditions); the first axis is that of the points."""
    residuals = evaluated(transcription, w)[1]
    rates = np.asarray(residuals.stages) / np.diff(np.asarray(transcription.shares))[:, None, None]
    of_points, limits = (np.concatenate(list(x)) for x in (rates, np.asarray(residuals.limits)))
    return of_points, limits, np.asarray(residuals.conditions)[None]


def _slopes(at: np.ndarray, near: np.ndarray, far: np.ndarray, step: float) -> np.ndarray:
    """The largest absolute derivatives, from values `near`, one step away, and `far`, `FAR` steps.

    Where the derivative is zero, terms of higher order leave a difference quotient that grows with the step, and rounding
    errors one that falls with it: both count as 0.
    """
    one, other = (_largest_quotients(at, x, k * step) for k, x in ((1, near), (FAR, far)))
    return np.where((other > 1.5 * one) | (other < 0.5 * one), 0.0, one)


def _largest_quotients(a: np.ndarray, b: np.ndarray, step: float) -> np.ndarray:
    """The largest absolute difference quotients; those within rounding count as 0."""
    change = np.abs(b - a)
    sure = np.isfinite(change) & (change > _rounding(a) + _rounding(b))
    return np.max(np.where(sure, change, 0.0), axis=0, initial=0.0) / step


def _rounding(values: np.ndarray) -> np.ndarray:
    """The rounding error of values, with a margin."""
    return 1e2 * np.finfo(values.dtype).eps * np.abs(values)


def _largest_rounding(values: np.ndarray) -> float:
    """The largest rounding error among the finite values; a step that changes them by less shows no derivative."""
    return float(np.max(_rounding(values), initial=0.0, where=np.isfinite(values)))
