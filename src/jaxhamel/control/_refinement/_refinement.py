"""Decides when and how a mesh is refined: first its nodes move, which compiles nothing, then its intervals are doubled."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel.control._collocation._start import transcribe
from jaxhamel.control._collocation._tightening import again
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._state import SearchState, start
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._refinement._error import residual_errors
from jaxhamel.control._refinement._mesh import evenly_spread, expected_error
from jaxhamel.control._refinement._transfer import transferred

DOUBLINGS = 4
SAFETY = 0.5  # the mesh must be expected to have at most this share of the stated error
RESTART = 1e-4  # barrier parameter μ with which the search goes on where there are limits


class Refinement:
    """The mesh refinement of one search; `errors`: of the intervals of the latest mesh that was solved."""

    def __init__(self, problem: ControlProblem, error: float | None):
        self.problem, self.error = problem, error
        self.errors: Float[np.ndarray, " N"] | None = None
        self.doublings = 0
        self.has_moved = False

    @property
    def met(self) -> bool:
        """Whether the stated error is met, or none was stated."""
        return self.error is None or self.errors is None or self.largest <= self.error

    @property
    def largest(self) -> float:
        """The largest error of an interval."""
        return float(np.max(self.errors)) if self.errors is not None else float("nan")

    def words(self, transcription: Transcription) -> str:
        """States the error that is left."""
        count = transcription.shares.shape[0] - 1
        return (
            f"the error between the nodes is {self.largest:.1e} with {count} intervals, and `error` asks for "
            f"{self.error:.1e}: take more intervals, or put a time of `ts` where the control jumps"
        )

    def refined(
        self, transcription: Transcription, state: SearchState
    ) -> tuple[Transcription, SearchState] | None:
        """The problem on the next mesh, and where its search starts; None if the error is met, or no more is tried."""
        if self.error is None:
            return None
        self.errors = np.asarray(residual_errors(transcription, state.w))
        if self.met:
            return None
        shares = self._next_mesh(np.asarray(transcription.shares), len(transcription.rule.points))
        if shares is None:
            return None
        mesh = jnp.asarray(shares, transcription.shares.dtype)
        new = transcribe(self.problem, transcription.rule, mesh)
        w, duals = transferred(transcription, state.w, state.duals, new)
        begin = start(new, w, jnp.asarray(RESTART, state.mu.dtype))._replace(duals=duals)
        return new, again(new, begin, RESTART) if new.limits else begin

    def _next_mesh(self, shares: Float[np.ndarray, " N+1"], degree: int):
        errors, order, count = np.asarray(self.errors, float), degree + 1, shares.size - 1
        if self.has_moved:
            if self.doublings >= DOUBLINGS:
                return None
            count *= self._factor(errors, order)
        self.has_moved = True
        return evenly_spread(shares.astype(float), errors, order, count)

    def _factor(self, errors: Float[np.ndarray, " N"], order: int) -> int:
        """2, or 4 where the error of twice as many intervals would still be too large."""
        error = expected_error(errors, order, 2 * errors.size)
        too_large = error > SAFETY * float(self.error or 0.0)
        twice = 2 if too_large and self.doublings + 2 <= DOUBLINGS else 1
        self.doublings += twice
        return 2**twice
