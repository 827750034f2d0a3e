"""Whether a stationary point with a direction of zero curvature is a minimum, and whether it belongs to a family of minima.

The search is repeated from points on both sides along this direction: near the point first, then at a distance at which
terms of third and fourth order in the cost can be seen beside rounding.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._certificate._violation import evaluated, largest_effect
from jaxhamel.control._collocation._tightening import largest_excess
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._interior_point import LOGGED, more_iterations
from jaxhamel.control._interior_point._state import SearchState, displaced
from jaxhamel.control._scaling._sizes import TypicalSizes, size_of

STEP = 1e-2  # the change of controls and parameters before the search is repeated, as a share of their size
# Regularisation of the Hessian: it keeps Newton's method from moving far along the family.
FLOOR = 1e-6


FAR_CHANGE = 1e-3  # relative change of the cost by a far step in the direction of largest curvature
LONGEST = 0.3  # largest far step, as a share of the size of controls and parameters, where these are not zero
SECOND_ORDER = 0.1  # largest terms of second order in the equations of motion, as a share of those of a near step's controls
SHORTENED = 8  # a near step is shortened at most this number of times, to a quarter each
# The largest change by which violations may explain that a cost is not quite equal, as a multiple of an equal one's.
EXPLAINED = 10.0
# The motion at an end keeps the limits if it violates them, between the points too, by at most this multiple of the
# solution's own violation.
KEPT = 3.0
RETURNED = 0.1  # a search that ends within this share of its step has come back to the point


class FlatDirection(NamedTuple):
    """A direction of zero curvature.

    - `c`, `p`, `x`: the change of the controls and of the parameters, of length 1 in the scaled controls and parameters, and
      that of the nodes which follows from it.
    - `largest`: the largest curvature in absolute value, per unit of the scaled controls; `alone`: whether the curvature is
      zero in this direction only.
    """

    c: Float[np.ndarray, "N s m"]
    p: Float[np.ndarray, " p"]
    x: Float[np.ndarray, "N+1 d"]
    largest: float
    alone: bool


class End(NamedTuple):
    """The end of a search from a displaced point.

    `change`: of the cost, relative to its size, infinite if the search fails; `distance`: from the point, relative to
    the step; `done`: converged; `doubt`: the part of the change that violations at both points may explain,
    infinite if they are larger than the tolerance; `keeps`: whether limits hold between the points as they do at the point.
    """

    change: float
    distance: float
    done: bool
    doubt: float = 0.0
    keeps: bool = True

    def is_lower(self, by: float) -> bool:
        """Whether the cost falls by more than `by`, whatever the violations explain, with the limits kept."""
        return self.keeps and self.change + self.doubt < -by


def kind_along(
    transcription: Transcription, state: SearchState, flat: FlatDirection, tolerance: Scalar
) -> str:
    """The kind of a point whose curvature is zero in a direction.

    `"minimum, not isolated"` if the searches from both sides end at other points with the same cost, `"not a minimum"` if
    one ends at a lower cost, `"strict minimum"` if those from far come back and no other direction is flat, otherwise
    `"undecided"`.
    """
    known = float(tolerance)
    lower, equal = max(1e-7, 10 * known), max(1e-9, known)
    sizes = transcription.sizes
    size = _largest_change(sizes, (state.w.c, state.w.p))
    near = STEP * (size + 1e-3) / _largest_change(sizes, flat[:2])
    near = _within_first_order(transcription, state, flat, near)
    kind = _kind_of_point(_ends(transcription, state, flat, near, tolerance, lower), lower, equal)
    far = _far_step(state, flat, size, _largest_change(sizes, flat[:2]))
    if kind == "not a minimum" or far <= 3 * near:
        return kind
    ends = _ends(transcription, state, flat, far, tolerance, lower)
    if any(end.is_lower(lower) for end in ends):
        return "not a minimum"
    back = [end.done and end.distance < RETURNED for end in ends]
    return "strict minimum" if flat.alone and all(back) else kind


def _within_first_order(
    transcription: Transcription, state: SearchState, flat: FlatDirection, length: float
) -> float:
    """The length of a near step at which the motion follows the controls to first order, at most the given length.

    The size of a control that is zero is only guessed: a share of it may be half a turn.
    """
    moving = _step(flat, 1.0, state.w.c.dtype)
    standing = (*moving[:2], jnp.zeros_like(moving[2]))

    def defects(step, by: float) -> Float[np.ndarray, "N s d"]:
        w = _displaced(transcription, state.w, tuple(by * x for x in step))
        return np.asarray(evaluated(transcription, w)[1].stages, float)

    at = defects(moving, 0.0)
    for _ in range(SHORTENED):
        first = np.max(np.abs(defects(standing, length) - at), initial=0.0)
        both = defects(moving, length) + defects(moving, -length)
        if not np.max(np.abs(both / 2 - at), initial=0.0) > SECOND_ORDER * first:
            break
        length /= 4
    return length


def _step(flat: FlatDirection, by: float, dtype: Any) -> tuple[Array, ...]:
    return tuple(jnp.asarray(by * x, dtype) for x in flat[:3])


def _far_step(state: SearchState, flat: FlatDirection, size: float, longest: float) -> float:
    """The length of the far steps as a multiple of the direction, whose largest entry is `longest`."""
    most = LONGEST * size / longest if size > 0 else np.inf
    if not flat.largest > 0:
        return 0.0
    return min((2 * FAR_CHANGE * (1 + abs(float(state.cost))) / flat.largest) ** 0.5, most)


def _ends(
    transcription: Transcription,
    state: SearchState,
    flat: FlatDirection,
    length: float,
    tolerance: Scalar,
    lower: float,
) -> list[End]:
    """The points at which the two searches end that begin on either side of the solution."""
    steps = [_step(flat, by, state.w.c.dtype) for by in (length, -length)]
    return [_again(transcription, state, step, tolerance, lower) for step in steps]


def _again(
    transcription: Transcription,
    state: SearchState,
    step: tuple[Array, ...],
    tolerance: Scalar,
    lower: float,
) -> End:
    """Repeats the search from the point displaced by `step`, until it ends or is feasible at a cost less by `lower`."""
    floor, one = jnp.asarray(FLOOR, state.mu.dtype), jnp.asarray(1)
    moved = _displaced(transcription, state.w, step)
    end = displaced(transcription, state._replace(floor=floor), moved)
    known = largest_effect(transcription, state.w, state.duals)
    change, doubt, size = np.inf, np.inf, 1 + abs(float(state.cost))
    for _ in range(LOGGED):
        # The call examines the iterate `end`, whose cost and errors it returns, and makes a step from it.
        w, duals = end.w, end.duals
        end, *_ = more_iterations(transcription, end, tolerance, one)
        change = float(end.cost - state.cost) / size
        doubt = np.inf
        judged = change < -lower or bool(end.done)
        if judged and float(end.errors.violation) <= float(tolerance):
            doubt = (known + largest_effect(transcription, w, duals)) / size
        if bool(end.done) or change + doubt < -lower:
            break
    else:
        change = np.inf
    way, sizes = (end.w.c - state.w.c, end.w.p - state.w.p), transcription.sizes
    distance = _largest_change(sizes, way) / _largest_change(sizes, step[:2])
    own = largest_excess(transcription, state)
    keeps = largest_excess(transcription, end) <= max(float(tolerance), KEPT * own)
    return End(change, distance, bool(end.done), doubt, keeps)


def _displaced(
    transcription: Transcription, w: CollocationPoint, step: tuple[Array, ...]
) -> CollocationPoint:
    """The iterate with other controls and parameters, and with the motion that follows from them to first order.

    If the motion stayed, the first iteration could bring the controls back to it as well as the motion to the controls.
    """
    p = _inside_bounds(transcription, w.p, step[1])
    own = p[int(transcription.free_time) : transcription.n_own]
    moved = step[2]
    x = (w.x + moved).at[0, np.asarray(transcription.free_start, int)].set(own)
    share = jnp.asarray(transcription.rule.points, w.X.dtype)[None, :, None]
    X = w.X + (1 - share) * moved[:-1, None] + share * moved[1:, None]
    return w._replace(x=x, X=X, c=w.c + step[0], p=p)


def _largest_change(sizes: TypicalSizes | None, change: tuple[Any, ...]) -> float:
    """The largest absolute value of a change (of controls, of parameters), in their sizes."""
    both = zip(change, ("c", "p"), strict=True)
    scaled = (np.abs(np.asarray(x) / np.asarray(size_of(sizes, name))) for x, name in both)
    return max(float(np.max(x, initial=0.0)) for x in scaled)


def _inside_bounds(transcription: Transcription, p: Array, step: Array) -> Array:
    """p + step, at most half of the way to a bound."""
    low, high = 0.5 * (transcription.p_lower - p), 0.5 * (transcription.p_upper - p)
    return p + jnp.clip(step, jnp.minimum(low, 0.0), jnp.maximum(high, 0.0))


def _kind_of_point(ends: list[End], lower: float, equal: float) -> str:
    """The kind of the point, from the ends of the searches on both sides.

    A cost counts as lower if it falls by more than `lower`, as equal if it changes by less than `equal`, both relative, or
    by no more than violations explain, up to `EXPLAINED` times as much; neither if limits are violated between the points:
    a motion that touches a limit at one of them may turn about this point.
    """
    if any(end.is_lower(lower) for end in ends):
        return "not a minimum"
    most = [equal + min(end.doubt, EXPLAINED * equal) for end in ends]
    level = [
        end.done and end.keeps and abs(end.change) < x and end.distance > 0.3
        for end, x in zip(ends, most, strict=True)
    ]
    return "minimum, not isolated" if all(level) else "undecided"
