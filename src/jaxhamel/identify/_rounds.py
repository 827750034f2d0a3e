"""The rounds of a fit, each of which is a search that starts where the previous round ended."""

import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from jaxhamel import _checks
from jaxhamel._search._loop import AbstractSearch, Verdict
from jaxhamel._words import counted
from jaxhamel.identify import _noise as noises
from jaxhamel.identify._data._segments import refined, shortened
from jaxhamel.identify._estimate import Estimate, estimate_of
from jaxhamel.identify._linearised._information import information
from jaxhamel.identify._linearised._model import Unknowns
from jaxhamel.identify._linearised._objective import (
    assembled,
    linearised,
    placed,
    weights_of,
)
from jaxhamel.identify._linearised._solver import (
    after_step,
    candidate,
    first_arrays,
    levenberg_marquardt,
    refusable,
)
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._progress import Progress
from jaxhamel.mechanics._tangent import tangent_size

# factors of the gaps' weights: small at first, then large, to close the gaps
LOOSE, TIGHT = (3.0, 20.0), 150.0
SHORT_SHARE = 0.2  # share of each segment used in the first rounds: in a short time wrong parameters have little effect
ROUGH = 1e-3  # a preparing round ends when a step would lower the cost by less than this fraction
FINEST = 32  # the largest refinement of the integration steps, if `dt` is not given
BIAS = 0.01  # steps are refined until the integration error changes the parameters by less than √BIAS standard errors (RMS)
_OVER = object()  # marks the end of the rounds
HOLD = 2.0  # weight (1/σ) of the temporary prior that keeps the coordinates near their first values in the early rounds


class Fit(AbstractSearch):
    """One fit: its rounds, its current point and its noise.

    The rounds run in one generator, which yields to the loop of `AbstractSearch` after each evaluation. They check the
    budget themselves, because the noise is estimated even if the budget ends the fit.
    """

    out_of_time = "out of time ({seconds:g} s)"
    out_of_iterations = "out of iterations ({iterations})"

    def __init__(
        self,
        problem: Problem,
        solver: Any,
        start: ArrayLike | None,
        max_iterations: int = 100,
        max_seconds: float = 600.0,
        progress: Callable[..., Any] | None = None,
        stop: threading.Event | None = None,
        correlated: bool = False,
    ):
        self.solver = levenberg_marquardt() if solver is None else solver
        _checks.check_solver(self.solver)
        _checks.check_budget(max_iterations, max_seconds)
        _checks.check_progress(progress)
        super().__init__(max_iterations, max_seconds)
        self.problem, self.x = problem, _first_unknowns(problem, start)
        # set by Ctrl-C; all fits of `fit_many` share it
        self.stop = threading.Event() if stop is None else stop
        _checks.check_kind("correlated", correlated, bool, "it must be True or False.")
        self.progress, self.correlated = progress, correlated
        self.noise = noises.guessed(problem)
        self.estimates_noise = bool(np.isnan(noises.given(problem)).any())
        self.converged = self.over = False
        self.end: Verdict | None = None
        self.groups, self.round_began, self.refinement = problem.groups, 0, 1
        self.rounds = self._rounds()

    def estimate(self) -> Estimate:
        """Runs the rounds within the budget and returns the estimate; Ctrl-C ends them at the best point so far."""
        self.began = time.monotonic()
        return estimate_of(self, self.run(self.progress))

    def make_iterations(self) -> None:
        self.over = next(self.rounds, _OVER) is _OVER

    def verdict(self) -> Verdict | None:
        if not self.over:
            return None
        return self.end or Verdict(self.converged, counted(len(self.rows), self.unit))

    def ending(self) -> Verdict | None:
        return self.verdict()

    def interrupted(self) -> Verdict:
        """Stops the other fits of `fit_many`, too, and returns the verdict after Ctrl-C."""
        self.stop.set()
        return super().interrupted()

    def report(self) -> Progress:
        row, n = self.rows[-1], len(self.rows)
        pace = row["seconds"] / n * (self.iterations - n)
        left = max(min(pace, self.seconds - row["seconds"]), 0.0)
        z = np.asarray(self.x.z)
        return Progress(row["round"], n, row["cost"], row["gap"], row["seconds"], left, z)

    def _rounds(self) -> Generator[None]:
        """Runs all rounds: states only, short parts of segments, growing weight of the gaps, noise, and finer steps."""
        several = any(not bool(group.last.all()) for group in self.problem.groups)
        start = self.x.z
        yield from self._round("states", gap=0.1, share=SHORT_SHARE, only_states=True, limit=10)
        for share in (SHORT_SHARE, 0.5) if several else (SHORT_SHARE, 0.25, 0.5):
            yield from self._round("short", gap=0.1, share=share, hold=start, limit=10)
        if several:
            for gap in LOOSE:
                yield from self._round("loose", gap=gap, limit=20)
        yield from self._round("fit", gap=TIGHT, rough=self.estimates_noise)
        yield from self._with_noise()
        if self.problem.dt is None:
            yield from self._with_finer_steps()

    def _with_noise(self) -> Generator[None]:
        """Alternates between estimating the noise and fitting, at most four times, until the noise changes by
        less than 2 %.
        """
        for _ in range(4 if self.estimates_noise else 0):
            before, there = self.noise, self.residuals()
            self.noise = noises.estimated(self.problem, before, *there, self._size())
            if np.allclose(before, self.noise, rtol=0.02):
                return
            if not (yield from self._round("noise", gap=TIGHT, rough=False)):
                return

    def _with_finer_steps(self) -> Generator[None]:
        """Halves the steps until the integration error is small compared with the standard errors.

        The method has order 4, so the remaining error of the estimate is about 1/15 of its change by the last halving. For
        a ball measured at 50 Hz, one step for each measurement shifted ten parameters by up to 0.8 standard errors and χ²
        by 15.
        """
        while self.end is None and self.refinement < FINEST:
            self.refinement, before = 2 * self.refinement, self.x.z
            if not (yield from self._round("steps", gap=TIGHT, rough=False)):
                return
            F = information(self.problem.model, self.groups, self.parts, self.x)
            shift = np.asarray(self.x.z - before)
            yield from self._with_noise()
            if shift @ np.asarray(F) @ shift / 15**2 <= BIAS * len(shift):
                return

    def _round(
        self,
        name: str,
        gap: float,
        share: float = 1.0,
        only_states: bool = False,
        hold: Array | None = None,
        limit: int = 10**6,
        rough: bool = True,
    ) -> Generator[None, None, bool]:
        """Runs one search from the current point; returns whether the fit can go on with another round.

        `name`: name of the round; `gap`: factor of the gaps' weights; `share`: part of each segment that is used;
        `only_states`: whether offsets and parameters stay fixed; `hold`: coordinates near which a temporary prior keeps z;
        `limit`: largest number of iterations; `rough`: whether a low accuracy suffices.
        """
        if self._spent():
            return False
        self.converged, self.round_began = False, len(self.rows)
        self.groups = tuple(
            refined(shortened(group, share), self.refinement) for group in self.problem.groups
        )
        parts = self._linearised(self.x)
        yield from self._search(
            name, parts, self._weights(parts, gap, only_states, hold), limit, rough
        )
        return self.end is None

    def _search(self, name: str, parts, weights, limit: int, rough: bool) -> Generator[None]:
        """Takes steps from the current point until the search has converged or a limit is reached."""
        model, base = self.problem.model, self.x
        y = jnp.zeros_like(weights.scale)
        known = assembled(model, self.groups, parts, base, weights)
        state = first_arrays(self.solver, y, *known)
        last = base  # the last point at which the motion is known not to break down
        for _ in range(limit):
            self.note(round=name, cost=float(known[3]["cost"]), gap=float(known[3]["gap"]))
            yield
            if self._has_broken_down():
                self.x = last
                break
            last = self.x
            y, state, done = after_step(self.solver, y, state, *known)
            self.x = placed(model, base, weights, y)
            if bool(done) or self._has_converged(known[3], rough):
                self.converged = True
                break
            if self._spent():
                break
            trial = placed(model, base, weights, candidate(self.solver, y, state, *known))
            parts = self._linearised(trial)
            known = refusable(assembled(model, self.groups, parts, trial, weights))

    def _weights(self, parts, gap: float, only_states: bool, hold: Array | None):
        """The weights of a search around the current point; for the arguments see `_round`."""
        base, dtype = self.x, self.x.z.dtype
        return weights_of(
            self.problem.model,
            self.groups,
            parts,
            base,
            jnp.asarray(gap, dtype),
            jnp.asarray(only_states),
            jnp.asarray(0.0 if hold is None else HOLD, dtype),
            base.z if hold is None else hold,
        )

    def _linearised(self, x: Unknowns):
        """The segments linearised at x, which are also kept in `parts`."""
        noise = noises.as_array(self.noise)
        self.parts = linearised(self.problem.model, self.groups, x, noise)
        return self.parts

    def _has_broken_down(self) -> bool:
        """Whether the motion broke down at the last evaluation and the search cannot reject that point; the fit
        then ends.
        """
        row = self.rows[-1]
        broke = not np.isfinite(row["cost"]) and not self._can_reject()
        if broke:
            where = f"the motion broke down in round {row['round']!r}"
            self.end = Verdict(False, f"{where}: {self._advice()}")
        return broke

    def _can_reject(self) -> bool:
        """Whether the solver can reject a trial point at which the motion breaks down: a gradient optimiser cannot, and no
        solver can reject the first point of a round.
        """
        return _checks.is_least_squares(self.solver) and len(self.rows) > self.round_began + 1

    def _advice(self) -> str:
        """The advice to a user whose motion broke down at the first evaluation, or later."""
        if len(self.rows) > 1:
            return "start from other parameters"
        return "look for a NaN in the control, or start from other parameters or with smaller steps, `dt`"

    def _has_converged(self, numbers, rough: bool) -> bool:
        """Whether the round has converged: either an undamped step would lower the cost by less than 1e-5 plus a small share
        of it, or the last steps have hardly lowered it.

        1e-5 is the change of the cost by a step of 1/200 of a standard error.
        """
        cost, eps = float(numbers["cost"]), float(jnp.finfo(self.x.z.dtype).eps)
        share = ROUGH if rough else eps**0.6
        return float(numbers["decrement"]) < 1e-5 + share * cost or self._hardly_lowered(cost)

    def _hardly_lowered(self, cost: float) -> bool:
        """Whether the last 10 steps of the round together lowered the cost by less than 1e-4 plus 1e-9 of it.

        For a gradient optimiser these are the last 100 steps.
        """
        count = 10 if _checks.is_least_squares(self.solver) else 100
        costs = [row["cost"] for row in self.rows[self.round_began :]]
        if len(costs) <= count or not np.isfinite(min(costs[-count:])):
            return False
        return min(costs[:-count]) - min(costs[-count:]) < 1e-4 + 1e-9 * cost

    def _spent(self) -> bool:
        """Whether the fit has ended, was stopped by Ctrl-C, or has spent its budget; False before the first evaluation."""
        if self.rows and self.end is None:
            self.end = self.interrupted() if self.stop.is_set() else self.budget_spent()
        return self.end is not None

    def weighed(self):
        """The linearised segments, and (cost, largest gap), at the current point, with all measurements and the largest
        weight of the gaps.
        """
        groups, model = self.problem.groups, self.problem.model
        self.groups = tuple(refined(group, self.refinement) for group in groups)
        parts = self._linearised(self.x)
        weights = self._weights(parts, TIGHT, False, None)
        numbers = assembled(model, self.groups, parts, self.x, weights)[3]
        return parts, (float(numbers["cost"]), float(numbers["gap"]))

    def residuals(self, parts=None):
        """The errors in units of the noise, and the weights of their squares, both `(M, r)`; a missing value has weight
        zero.
        """
        width, groups = len(self.noise), self.problem.groups
        parts = self._linearised(self.x) if parts is None else parts
        plain = np.concatenate([np.asarray(part.plain).reshape(-1, width) for part in parts])
        there = [np.asarray(group.there * group.weight[:, :, None] ** 2) for group in groups]
        there = np.concatenate([weights.reshape(-1, width) for weights in there])
        return plain, there

    def _size(self) -> int:
        """The number of independent unknowns: parameters, and the initial state and offsets of each run."""
        runs = len(self.problem.runs)
        states = runs * tangent_size(self.problem.model.system)
        return self.x.z.shape[0] + states + self.x.offsets.size


def _first_unknowns(problem: Problem, start: ArrayLike | None) -> Unknowns:
    """The unknowns at which a fit starts; `start`: the coordinates z, by default those of the problem's system."""
    x = problem.guess()
    if start is None:
        return x
    _checks.check_start("start", start, x.z.shape, "One coordinate for each free parameter.")
    return eqx.tree_at(lambda x: x.z, x, jnp.asarray(start, x.z.dtype))
