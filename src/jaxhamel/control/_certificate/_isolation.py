"""Whether a stationary point with a direction of zero curvature belongs to a family of minima.

The search is repeated from points on both sides along this direction.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import LOGGED, advance
from jaxhamel.control._interior_point._state import SearchState, resumed

STEP = 1e-2  # of the controls, as a share of their size
FLOOR = 1e-6  # regularisation, so that Newton's method does not run away along the family


def kind_along(
    transcription: Transcription,
    state: SearchState,
    change: Float[np.ndarray, "N s m"],
    tolerance: Scalar,
) -> str:
    """The kind of a point with zero curvature along a change of the controls.

    `"minimum, not isolated"` where the search from both sides ends at other points with the same cost, `"not a minimum"`
    where it ends lower, otherwise `"undecided"`.
    """
    size = float(jnp.max(jnp.abs(state.w.c))) + 1e-3
    step = jnp.asarray(STEP * size * change / np.max(np.abs(change)), state.w.c.dtype)
    known = float(tolerance)  # violations of this size change the cost by about as much
    ends = [_again(transcription, state, sign * step, tolerance) for sign in (1, -1)]
    return _judged(ends, max(1e-7, known), max(1e-9, known))


def _again(transcription: Transcription, state: SearchState, step: Array, tolerance: Scalar) -> Any:
    """(change of the cost relative to its size, distance from the point relative to the step); None if not converged."""
    w, floor = state.w._replace(c=state.w.c + step), jnp.asarray(FLOOR, state.mu.dtype)
    begin = resumed(state._replace(w=w, floor=floor))
    end, *_ = advance(transcription, begin, tolerance, jnp.asarray(LOGGED))
    if not bool(end.done):
        return None
    moved = float(jnp.max(jnp.abs(end.w.c - state.w.c)) / jnp.max(jnp.abs(step)))
    return float(end.cost - state.cost) / (1 + abs(float(state.cost))), moved


def _judged(ends: list[Any], lower: float, equal: float) -> str:
    """The kind by the ends of both searches; `lower`, `equal`: relative changes of the cost that count as such."""
    known = [end for end in ends if end is not None]
    if any(change < -lower for change, _ in known):
        return "not a minimum"
    same = [abs(change) < equal and moved > 0.3 for change, moved in known]
    return "minimum, not isolated" if len(same) == 2 and all(same) else "undecided"
