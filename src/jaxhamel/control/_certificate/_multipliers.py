"""Whether multipliers exist: where none do, those of the search grow without bound as its tolerance falls.

Where the gradients of the active constraints depend on one another, an optimum need not be stationary. The search then
ends at points near it that satisfy the constraints within the tolerance ε only. Of the constraint x² = 0 the multiplier
there is of the size ε^(−1/2).
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import LOGGED, advance
from jaxhamel.control._interior_point._state import SearchState, resumed

# Multipliers are examined where an error of the size of the tolerance changes the cost by more than this fraction.
SENSITIVE = 1e-6
TIGHTER = 1e-3  # of the tolerance
GROWTH = 3.0  # of the largest multiplier, from which it counts as unbounded; ε^(−1/2) gives 30


def largest(state: SearchState) -> float:
    """The largest multiplier."""
    sizes = [np.max(np.abs(np.asarray(x)), initial=0.0) for x in jax.tree.leaves(state.duals)]
    return float(max(sizes))


def unbounded_multipliers(
    transcription: Transcription, state: SearchState, tolerance: Scalar
) -> str:
    """A sentence where the multipliers grow with a smaller tolerance; otherwise empty.

    The search goes on with a thousandth of the tolerance only where an error of that size changes the cost, and the
    precision allows it: in single precision rounding alone changes the multipliers.
    """
    before = largest(state)
    if TIGHTER * float(tolerance) < float(jnp.finfo(tolerance.dtype).eps):
        return ""
    if before * float(tolerance) <= SENSITIVE * (1 + abs(float(state.cost))):
        return ""
    after = largest(_tighter(transcription, state, TIGHTER * tolerance))
    if not after > GROWTH * before:
        return ""
    return (
        f"multipliers: none were found, they grow from {before:.1e} to {after:.1e} with a tolerance of "
        f"{TIGHTER:g} times the given one: the gradients of the constraints depend on one another, or "
        "no point meets these with any margin"
    )


def _tighter(transcription: Transcription, state: SearchState, tolerance: Scalar) -> SearchState:
    """The state after the search has gone on to another tolerance."""
    tolerance = jnp.asarray(tolerance, state.mu.dtype)
    begin = resumed(state._replace(mu=jnp.minimum(state.mu, tolerance)))
    return advance(transcription, begin, tolerance, jnp.asarray(LOGGED))[0]
