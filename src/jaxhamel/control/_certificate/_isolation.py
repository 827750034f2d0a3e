"""Whether a stationary point with a direction of zero curvature belongs to a family of minima.

The search is repeated from points on both sides along this direction.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import LOGGED, advance
from jaxhamel.control._interior_point._state import SearchState, resumed

STEP = 1e-2  # the change of controls and parameters before the search is repeated, as a share of their size
FLOOR = (
    1e-6  # regularisation of the Hessian: it keeps Newton's method from moving far along the family
)


def kind_along(
    transcription: Transcription,
    state: SearchState,
    change: tuple[Float[np.ndarray, "N s m"], Float[np.ndarray, " p"]],
    tolerance: Scalar,
) -> str:
    """The kind of a point with zero curvature along a change of the controls and parameters.

    `"minimum, not isolated"` if the searches from both sides end at other points with the same cost, `"not a minimum"` if
    one ends at a lower cost, otherwise `"undecided"`.
    """
    size = _largest_entry((state.w.c, state.w.p)) + 1e-3
    share = STEP * size / _largest_entry(change)
    step = jax.tree.map(lambda x: jnp.asarray(share * x, state.w.c.dtype), change)
    known = float(tolerance)  # violations of this size change the cost by about as much
    steps = step, jax.tree.map(jnp.negative, step)
    ends = [_again(transcription, state, each, tolerance) for each in steps]
    return _kind_of_point(ends, max(1e-7, known), max(1e-9, known))


def _again(
    transcription: Transcription, state: SearchState, step: tuple[Array, Array], tolerance: Scalar
) -> Any:
    """Repeats the search from the point moved by `step`; None if it does not converge.

    **Returns:** (change of the cost relative to its size, distance of the end from the point relative to the step).
    """
    c, p = state.w.c + step[0], _inside_bounds(transcription, state.w.p, step[1])
    floor = jnp.asarray(FLOOR, state.mu.dtype)
    begin = resumed(state._replace(w=state.w._replace(c=c, p=p), floor=floor))
    end, *_ = advance(transcription, begin, tolerance, jnp.asarray(LOGGED))
    if not bool(end.done):
        return None
    moved = _largest_entry((end.w.c - state.w.c, end.w.p - state.w.p)) / _largest_entry(step)
    return float(end.cost - state.cost) / (1 + abs(float(state.cost))), moved


def _largest_entry(arrays: tuple[Any, Any]) -> float:
    """The largest absolute value of all entries."""
    return max(float(np.max(np.abs(np.asarray(x)), initial=0.0)) for x in arrays)


def _inside_bounds(transcription: Transcription, p: Array, step: Array) -> Array:
    """p + step, at most half of the way to a bound."""
    low, high = 0.5 * (transcription.p_lower - p), 0.5 * (transcription.p_upper - p)
    return p + jnp.clip(step, jnp.minimum(low, 0.0), jnp.maximum(high, 0.0))


def _kind_of_point(ends: list[Any], lower: float, equal: float) -> str:
    """The kind of the point, from the ends of the searches on both sides.

    A cost counts as lower if it falls by more than `lower`, as equal if it changes by less than `equal`, both relative.
    """
    known = [end for end in ends if end is not None]
    if any(change < -lower for change, _ in known):
        return "not a minimum"
    same = [abs(change) < equal and moved > 0.3 for change, moved in known]
    return "minimum, not isolated" if len(same) == 2 and all(same) else "undecided"
