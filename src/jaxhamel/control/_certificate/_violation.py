"""Finds the constraint that a result violates most, also between the collocation points, and by how much."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from jaxhamel._lanes._one_lane import lanes_if_short
from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, QUICK, compiled_with
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import (
    Duals,
    Residuals,
    ends_unknowns,
    evaluate,
    stage_unknowns,
    weights_at,
    with_start,
)
from jaxhamel.control._problem._boundary import AbstractBoundaryConditions
from jaxhamel.control._scaling._scaled import scaled_residuals
from jaxhamel.control._scaling._sizes import size_of

MUCH_LARGER = 1e3  # a limit binds if its multiplier times distance is at least this multiple of the least such product
FINER_GRID = 10  # points per collocation point at which limits are evaluated


def worst_violation(transcription: Transcription, w: CollocationPoint) -> tuple[float, str]:
    """Returns (the largest violation, as a multiple of its constraint's size, and the constraint's name)."""
    residuals = scaled_residuals(transcription.sizes, evaluated(transcription, w)[1])
    found = {"the equations of motion": _largest_residual(residuals[:2])}
    conditions = np.abs(np.asarray(residuals.conditions))
    names = names_of_conditions(transcription, w)
    for name, value in zip(names, conditions, strict=True):
        found[name] = max(found.get(name, 0.0), float(value))
    for name, value in _limit_violations(transcription, w):
        found[name] = max(found.get(name, 0.0), value)
    worst = max(found, key=lambda name: found[name] if found[name] == found[name] else np.inf)
    return found[worst], worst


def _largest_residual(residuals) -> float:
    return max(float(np.max(np.abs(np.asarray(x)))) for x in residuals)


evaluated = compiled_with(QUICK)(evaluate)


def largest_effect(transcription: Transcription, w: CollocationPoint, duals: Duals) -> float:
    """Σ |λ r| with the residuals r of all constraints: the most by which these change the cost, to first order."""
    return float(np.sum(np.abs(effects(duals, evaluated(transcription, w)[1]))))


def effects(duals: Duals, residuals: Residuals) -> Float[np.ndarray, " n"]:
    """λ r for the residual r of each constraint, by NumPy, which compiles nothing: its change of the cost."""
    multipliers = duals.stages, duals.costates[1:], duals.conditions, duals.limits
    pairs = zip(multipliers, residuals, strict=True)
    return np.concatenate([(np.asarray(a) * np.asarray(b)).ravel() for a, b in pairs])


def names_of_conditions(transcription: Transcription, w: CollocationPoint) -> list[str]:
    """For each condition, the name of its constraint; conditions at the first time come first."""
    y_first, y_last = eqx.filter_eval_shape(ends_unknowns, transcription, w)
    names = []
    for at_end in (False, True):
        for term in _conditions_at(transcription, at_end):
            alone = eqx.tree_at(lambda t: t.constraints, transcription, (term,))
            end, y = (alone.last, y_last) if at_end else (alone.first, y_first)
            count = eqx.filter_eval_shape(end, w, y)[0].shape[0]
            names += [getattr(term, "name", type(term).__name__)] * count
    return names


def _conditions_at(transcription: Transcription, at_end: bool) -> list[Any]:
    """The constraints with conditions at one end, in their order; constraints that relate both ends come last at the end."""
    terms = [x for x in transcription.constraints if x.at_end == at_end]
    if not at_end:
        return terms
    both = AbstractBoundaryConditions
    return [*terms, *(x for x in transcription.constraints if isinstance(x, both))]


def _limit_violations(transcription: Transcription, w: CollocationPoint) -> list[tuple[str, float]]:
    if not transcription.limits:
        return []
    over = over_bounds(transcription, w) / np.asarray(size_of(transcription.sizes, "limits"))
    names = names_of_limits(transcription, w, with_unit=True)
    return list(zip(names, over.tolist(), strict=True))


def excesses(
    transcription: Transcription, w: CollocationPoint, finer: int = FINER_GRID
) -> tuple[Float[np.ndarray, "N r"], Float[np.ndarray, "N r"]]:
    """The largest violations of each limit in each interval: of its lower bound, and of its upper bound.

    The bounds of `transcription` are equal at all points of an interval, as the problem's are.
    """
    values = np.asarray(on_fine_grid(transcription, w, finer))
    lower, upper = (np.asarray(x)[:, :1] for x in (transcription.lower, transcription.upper))
    below, above = lower - values, values - upper
    return np.maximum(below, 0.0).max(axis=1), np.maximum(above, 0.0).max(axis=1)


def over_bounds(
    transcription: Transcription, w: CollocationPoint, finer: int = FINER_GRID
) -> Float[np.ndarray, " r"]:
    """The largest violation of each limit, also between the points, at `finer` places for each."""
    return np.max([x.max(axis=0) for x in excesses(transcription, w, finer)], axis=0)


def names_of_limits(
    transcription: Transcription, w: CollocationPoint, with_unit: bool = False
) -> list[str]:
    """The name of each row of the limits."""
    names = []
    for limit, count in zip(transcription.limits, row_counts(transcription, w), strict=True):
        names += [limit.quantity if with_unit else limit.label] * count
    return names


def binding(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> Bool[np.ndarray, "N s r"]:
    """Whether a limit binds at a point: in its size, its multiplier is larger than its distance from the bound."""
    lower, upper, slack, of_lower, of_upper = map(
        np.asarray, (transcription.lower, transcription.upper, w.slack, duals.low, duals.high)
    )
    size = np.asarray(size_of(transcription.sizes, "limits")) ** 2
    either = (of_lower * size > slack - lower) | (of_upper * size > upper - slack)
    return either | (lower == upper)


def binding_limits(transcription: Transcription, w: CollocationPoint, duals: Duals) -> list[str]:
    """The names of the limits whose multiplier is larger than their distance from the bound, or whose product of both is
    much larger than the barrier parameter, as at bounds that were moved inwards.

    The least of these products is about the barrier parameter: at bounds that do not bind all of them are equal to it, or 0.
    """
    lower, upper, slack, of_lower, of_upper = map(
        np.asarray, (transcription.lower, transcription.upper, w.slack, duals.low, duals.high)
    )
    size = np.asarray(size_of(transcription.sizes, "limits"))
    multipliers = np.stack([of_lower, of_upper]) * size
    distances = np.stack([slack - lower, upper - slack]) / size
    counts = np.isfinite(distances) & (lower < upper)
    products = np.multiply(multipliers, distances, out=np.zeros_like(distances), where=counts)
    binds = multipliers > distances
    barrier = np.min(products, initial=np.inf, where=counts & ~binds & (products > 0.0))
    beyond = binds | (products > MUCH_LARGER * barrier)
    either = np.any(beyond, axis=0) | (lower == upper)
    rows = np.any(either, axis=(0, 1)).tolist()
    names = names_of_limits(transcription, w)
    return sorted({name for name, one in zip(names, rows, strict=True) if one})


def row_counts(transcription: Transcription, w: CollocationPoint) -> list[int]:
    """The number of rows of each limit."""
    counts = []
    for limit in transcription.limits:
        alone = eqx.tree_at(lambda t: t.limits, transcription, (limit,))
        counts.append(eqx.filter_eval_shape(on_fine_grid, alone, w).shape[-1])
    return counts


@compiled_with(FEW_RUNS)
def on_fine_grid(transcription: Transcription, w: CollocationPoint, finer: int = FINER_GRID):
    """The limits' functions on a grid ten times finer than the collocation points, ends included, `(N, M, r)`."""
    count = finer * len(transcription.rule.points)
    at = tuple(np.linspace(0.0, 1.0, count + 1).tolist())
    N, M, places = w.X.shape[0], count + 1, weights_at(transcription, at)

    def unknowns(interval, X, c):
        return stage_unknowns(places.X @ with_start(interval, X), places.c @ c, w.p)

    intervals = transcription.intervals(w)
    y = jax.vmap(unknowns)(intervals, w.X, w.c).reshape(N * M, -1)
    shares = jnp.asarray(np.tile(at, N), w.X.dtype)
    repeated = jax.tree.map(lambda x: jnp.repeat(x, M, axis=0), intervals)
    return lanes_if_short(transcription.limit)(repeated, shares, y).reshape(N, M, -1)
