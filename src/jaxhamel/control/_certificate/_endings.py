"""Sentences on why a search by collocation has failed: values are not finite, the cost falls without bound, or constraints
cannot be met together."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from jaxhamel.control._certificate._certificate import bounds_of
from jaxhamel.control._certificate._smoothness import (
    has_infinite_derivative,
    has_jump,
    not_smooth,
)
from jaxhamel.control._certificate._violation import (
    evaluated,
    names_of_conditions,
    names_of_limits,
    on_fine_grid,
    over_bounds,
    worst_violation,
)
from jaxhamel.control._collocation._elastic import Elastic, least_violations, original
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Duals
from jaxhamel.control._scaling._sizes import size_of

SMALL = 1e-4  # a violation below this share of the largest one comes from the barrier
# A motion crosses a limit if it exceeds it by more than this share of the range of its values along the motion.
CROSSED = 3e-3
# Places for each point at which the violations of limits that cannot be met are measured.
FINEST_GRID = 200
# The longest interval, in time constants of the motion, on which a contradiction is believed.
LONGEST_IN_TIME_CONSTANTS = 50.0
PRESSED = 0.01  # a constraint that holds is named if relaxing it by its size lowers the sum of violations by this or more


def not_finite(
    transcription: Transcription,
    w: CollocationPoint,
    row: dict[str, Any],
    parts: Any = None,
    may_compile: bool = True,
) -> str:
    """A sentence that names the quantities that are not finite at the iterate `w`; empty if all are finite.

    **Arguments:** `row`: the iterate's cost, violation and gradient norm, from the history; `parts`: its derivatives;
    `may_compile`: whether there is time to look for the function whose derivative is not finite.
    """
    if not (np.isfinite(row["cost"]) and np.isfinite(row["violation"])):
        found = ", ".join(broken(transcription, w)) or "the cost or the motion"
        return f"not finite where the search starts: {found}; look for a NaN there, in control and guess"
    if np.isfinite(row["gradient_norm"]):
        return ""
    if all(np.all(np.isfinite(np.asarray(x))) for x in jax.tree.leaves(parts)):
        return (
            "the linear equations of a step have no finite solution: numbers differ too much in size; choose units in which "
            "states, controls and the whole time are about 1"
        )
    found = not_smooth(transcription, w, has_infinite_derivative) if may_compile else []
    if not found:
        return (
            "a derivative is not finite where the search stands, as that of a root or a norm at zero is: look for one in "
            "costs, constraints and equations of motion, or start elsewhere by `guess` and `curve`"
        )
    return (
        f"a derivative of {' and '.join(found)} is not finite where the search stands, as that of a root or a norm at zero "
        "is; write it without one, such as jnp.sqrt(x @ x + 1e-6) for |x|, or start elsewhere by `guess` and `curve`"
    )


def rough(transcription: Transcription, w: CollocationPoint) -> str:
    """A sentence that names the functions whose gradients jump at the iterate `w`; empty if none does."""
    found = not_smooth(transcription, w, has_jump)
    if not found:
        return ""
    return (
        f"the gradient of {' and '.join(found)} jumps where the search stands, as that of |x| at 0 does, but Newton's "
        "method needs a smooth one: write jnp.sqrt(x**2 + 1e-6) for |x|, or add a control s with s ≥ x and s ≥ -x "
        "by control.PathLimit and let the cost have s in place of |x|"
    )


def broken(transcription: Transcription, w: CollocationPoint) -> list[str]:
    """The names of cost, equations of motion, conditions and limits whose values are not finite."""
    cost, residuals = evaluated(transcription, w)
    motion = all(np.all(np.isfinite(np.asarray(x))) for x in residuals[:2])
    good: dict[str, bool] = {
        "the cost": bool(np.isfinite(float(cost))),
        "the equations of motion": motion,
    }
    rows = np.isfinite(np.asarray(residuals.conditions))
    limits = np.isfinite(np.asarray(residuals.limits)).all(axis=(0, 1))
    finite = np.concatenate([rows, limits])
    for name, is_good in zip(_constraint_names(transcription, w), finite.tolist(), strict=True):
        good[f"`{name}`"] = good.get(f"`{name}`", True) and is_good
    return [name for name, is_good in good.items() if not is_good]


def _constraint_names(transcription: Transcription, w: CollocationPoint) -> list[str]:
    return [*names_of_conditions(transcription, w), *names_of_limits(transcription, w)]


def without_bound(costs: tuple[Any, ...], value: float) -> str:
    """A sentence on a cost that falls without bound, to `value` so far; it names the terms that are not sums of squares."""
    kinds = {type(cost).__name__ for cost in costs if hasattr(cost, "value")}
    names = " and ".join(f"`{name}`" for name in sorted(kinds))
    return (
        f"the cost falls below {value:.1e} by {names}; bound the control or the state by "
        "control.PathLimit, or add control.ControlEnergy"
    )


def on_coarse_mesh(rates: Float[np.ndarray, "N s d d"]) -> str:
    """Words for a contradiction on a mesh whose intervals are far longer than a time constant of the motion, since it may
    come from the mesh; empty on other meshes.

    **Arguments:** `rates`: the derivatives of h f, the changes of the state over the intervals, by the state.
    """
    if not np.all(np.isfinite(rates)):
        return ""
    longest = np.max(np.abs(np.linalg.eigvals(rates)), initial=0.0)
    if longest <= LONGEST_IN_TIME_CONSTANTS:
        return ""
    return (
        f" on a mesh whose intervals are up to {longest:.0f} time constants of the motion long, and perhaps only there "
        "(give more `intervals`, or leave out what decays so fast)"
    )


def contradiction(
    transcription: Transcription, elastic: Elastic, w: CollocationPoint, duals: Duals
) -> str:
    """A sentence that names the constraints that cannot be met together: those violated at the end `w`, by how much, and
    those that hold there and whose multipliers are not small."""
    violations, counts = measured_violations(transcription, elastic, w)
    names = _constraint_names(transcription, original(transcription, w))
    found: dict[str, float] = {}
    for name, value, is_large in zip(names, violations, counts, strict=True):
        if is_large:
            found[name] = found.get(name, 0.0) + float(value)
    parts = [f"`{name}` by {value:.4g}" for name, value in found.items()]
    pressed = zip(names, _pressures(transcription, duals), strict=True)
    kept = dict.fromkeys(f"`{name}`" for name, x in pressed if x > PRESSED and name not in found)
    beside = f", while {' and '.join(kept)} {'holds' if len(kept) == 1 else 'hold'}" if kept else ""
    return f"constraints cannot be met together; the least sum of violations found is {', '.join(parts)}{beside}"


def measured_violations(
    transcription: Transcription, elastic: Elastic, w: CollocationPoint
) -> tuple[Float[np.ndarray, " b+r"], Bool[np.ndarray, " b+r"]]:
    """(the violation of each condition and of each limit at the end `w` of an elastic search, whether it counts).

    Those of limits of the state are measured between the points, too. A limit of the control that holds at the points counts
    as met, since its polynomials overshoot bounds where the control jumps.
    """
    violations = np.concatenate(least_violations(elastic, w))
    sizes = sizes_of_constraints(transcription, violations)
    shares = violations / sizes
    counts = shares > max(negligible_violation(w), SMALL * float(np.max(shares, initial=0.0)))
    if any(elastic.of_state):
        at = transcription, original(transcription, w)
        first = len(violations) - len(elastic.of_state)
        far = np.concatenate([np.zeros(first, bool), exceeded(*at)])
        over = np.concatenate([violations[:first], over_bounds(*at, FINEST_GRID)])
        of_state = np.concatenate([np.zeros(first, bool), np.asarray(elastic.of_state)])
        violations = np.where(of_state, over, violations)
        counts = counts | (of_state & far)
    return violations, counts


def exceeded(transcription: Transcription, w: CollocationPoint) -> Bool[np.ndarray, " r"]:
    """For each limit, whether the motion exceeds it, at the points or between them, by more than `CROSSED` times the range
    of its values.
    """
    values = np.asarray(on_fine_grid(transcription, w))
    far = CROSSED * np.ptp(values, axis=(0, 1))
    return over_bounds(transcription, w) > far


def _largest_bounds(transcription: Transcription) -> Float[np.ndarray, " r"]:
    """The larger magnitude of the two bounds of each limit, 0 if both are infinite."""
    bounds = np.stack([np.asarray(x)[0, 0] for x in (transcription.lower, transcription.upper)])
    return np.max(np.where(np.isfinite(bounds), np.abs(bounds), 0.0), axis=0)


def _pressures(transcription: Transcription, duals: Duals) -> np.ndarray:
    """By how much the sum of violations falls if a constraint is relaxed by its size: 1 for those that are violated."""
    of_limits = np.abs(np.asarray(duals.limits)).sum(axis=(0, 1))
    rows = transcription.lower.shape[2]
    of_limits = of_limits.reshape(len(of_limits) // rows if rows else 0, rows).sum(axis=0)
    both = np.concatenate([np.abs(np.asarray(duals.conditions)), of_limits])
    return both * sizes_of_constraints(transcription, both)


def sizes_of_constraints(transcription: Transcription, like: np.ndarray) -> np.ndarray:
    """The sizes of all conditions and limits, in this order, as many as `like` has entries."""
    sizes = transcription.sizes
    if sizes is None:
        return np.ones_like(like)
    return np.concatenate([np.asarray(sizes.conditions), np.asarray(sizes.limits)])


def between_the_points(transcription: Transcription, w: CollocationPoint) -> str:
    """A sentence that names the limit that is violated most between the points of a solution; empty if all hold there.

    Beside a limit whose bounds are large, a violation counts as a share of these.
    """
    if not transcription.limits:
        return ""
    own = np.asarray(size_of(transcription.sizes, "limits"))
    sizes = np.maximum(_largest_bounds(transcription), own)
    over = over_bounds(transcription, w)
    worst = int(np.argmax(over / sizes))
    if not over[worst] > negligible_violation(w) * sizes[worst]:
        return ""
    name = names_of_limits(transcription, w)[worst]
    return (
        f"met at the collocation points only: `{name}` is violated by {over[worst]:.3g} between them or at an end; give "
        "more `intervals`, or perhaps the constraints cannot be met together"
    )


def negligible_violation(w: CollocationPoint) -> float:
    """The largest violation with which a constraint counts as met; as in a certificate, it depends on the precision."""
    return bounds_of(w.X.dtype).violation


def no_step(transcription: Transcription, w: CollocationPoint, many: str) -> str:
    """A sentence on a search that finds no step towards an optimum; it names the most violated constraint, if any is."""
    words = f"no step leads closer to an optimum after {many}"
    violation, worst = worst_violation(transcription, w)
    if violation <= negligible_violation(w):
        return words
    return f"{words}; violated by {violation:.1e}: {worst}; perhaps the constraints cannot be met together"
