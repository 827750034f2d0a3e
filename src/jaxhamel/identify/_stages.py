"""The stages of a fit: each is a search around the point where the previous stage ended."""

import threading
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from jaxhamel import _checks
from jaxhamel._words import counted
from jaxhamel.identify import _noise as noises
from jaxhamel.identify._data._segments import refined, shortened
from jaxhamel.identify._estimate import Estimate, estimate_of
from jaxhamel.identify._linearised._information import information
from jaxhamel.identify._linearised._model import Unknowns
from jaxhamel.identify._linearised._objective import Weights, assembled, linearised, placed, size_of
from jaxhamel.identify._linearised._search import (
    SHARPNESS,
    advance,
    begin,
    candidate,
    levenberg_marquardt,
    refusable,
)
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._progress import Progress
from jaxhamel.mechanics._tangent import tangent_size

LOOSE, TIGHT = (3.0, 20.0), 150.0  # weights of the gaps: open at first, then closed
SHORT = 0.2  # fraction of each segment used in the first stages, in which wrong parameters have little effect
ROUGH = 1e-3  # a preparing stage ends when a step would lower the cost by less than this fraction
FINEST = 32  # the most steps between measurements, if `dt` is not given
BIAS = 0.01  # refine steps until integration error adds less than 1 % to the mean squared score
HOLD = 2.0  # weight (1/σ) of the temporary prior that keeps parameters near their start in the early stages


class Fit:
    """The stages of one fit, and its current state."""

    def __init__(
        self,
        problem: Problem,
        solver: Any,
        start: ArrayLike | None,
        max_iterations: int = 100,
        max_seconds: float = 600.0,
        progress: Callable[..., Any] | None = None,
        stop: threading.Event | None = None,
    ):
        self.solver = levenberg_marquardt() if solver is None else solver
        _checks.check_solver(self.solver)
        _checks.check_budget(max_iterations, max_seconds)
        _checks.check_progress(progress)
        self.problem, self.x = problem, _started(problem, start)
        # set by Ctrl-C; all fits of `fit_many` share it
        self.stop = threading.Event() if stop is None else stop
        self.max_iterations, self.max_seconds, self.progress = max_iterations, max_seconds, progress
        self.noise = noises.guessed(problem)
        self.estimates_noise = bool(np.isnan(noises.given(problem)).any())
        self.began, self.iteration = time.monotonic(), 0
        self.history: dict[str, list[Any]] = {
            key: [] for key in ("stage", "cost", "gap", "decrement")
        }
        self.converged, self.status = False, ""
        self.groups, self.stage_began, self.refinement = problem.groups, 0, 1

    def run(self) -> Estimate:
        """Runs the stages within the budget; Ctrl-C ends them at the best point so far."""
        self.began = time.monotonic()
        try:
            self._stages()
        except KeyboardInterrupt:
            if not self.iteration:  # there is no result yet
                raise
            self.stop.set()
            self._out_of_budget()
        return estimate_of(self)

    def _stages(self) -> None:
        several = any(not bool(group.last.all()) for group in self.problem.groups)
        start = self.x.z
        self._stage("states", gap=0.1, share=SHORT, only_states=True, limit=10)
        for share in (SHORT, 0.5) if several else (SHORT, 0.25, 0.5):
            self._stage("short", gap=0.1, share=share, hold=start, limit=10)
        if several:
            for gap in LOOSE:
                self._stage("loose", gap=gap, limit=20)
        self._stage("fit", gap=TIGHT, rough=self.estimates_noise)
        self._with_noise()
        if self.problem.dt is None:
            self._with_finer_steps()

    def _with_noise(self) -> None:
        """Alternates between estimating the noise and fitting, until the noise converges."""
        for _ in range(4 if self.estimates_noise else 0):
            before, there = self.noise, self._residuals()
            self.noise = noises.estimated(self.problem, before, *there, self._size())
            if np.allclose(before, self.noise, rtol=0.02):
                return
            if not self._stage("noise", gap=TIGHT, rough=False):
                return

    def _with_finer_steps(self) -> None:
        """Halves the steps until the integration error is small compared with the standard errors.

        The method has order 4, so a further halving would change the estimate 15 times less. For a ball measured at 50 Hz,
        one step for each measurement shifted ten parameters by up to 0.8 standard errors and χ² by 15.
        """
        while not self.status and self.refinement < FINEST:
            self.refinement, before = 2 * self.refinement, self.x.z
            if not self._stage("steps", gap=TIGHT, rough=False):
                return
            F = information(self.problem.model, self.groups, self.parts, self.x)
            shift = np.asarray(self.x.z - before)
            self._with_noise()
            if shift @ np.asarray(F) @ shift / 15**2 <= BIAS * len(shift):
                return

    def _stage(
        self,
        name: str,
        gap: float,
        share: float = 1.0,
        only_states: bool = False,
        hold: Array | None = None,
        limit: int = 10**6,
        rough: bool = True,
    ) -> bool:
        """Runs one search around the current point; returns whether it ran to its end."""
        if self.status or self._out_of_budget():
            return False
        self.converged, self.stage_began = False, self.iteration
        self.groups = tuple(
            refined(shortened(group, share), self.refinement) for group in self.problem.groups
        )
        parts = self._linearised(self.x)
        self._search(name, parts, self._weights(parts, gap, only_states, hold), limit, rough)
        return not self.status

    def _search(self, name: str, parts, weights, limit: int, rough: bool) -> None:
        """Steps from the current point until the search has converged or a limit is reached."""
        model, base = self.problem.model, self.x
        y = jnp.zeros_like(weights.scale)
        known = assembled(model, self.groups, parts, base, weights)
        state = begin(self.solver, y, *known)
        last = base  # the last point at which the motion is known not to break down
        for _ in range(limit):
            if not self._tell(name, known[3]):
                self.x = last
                break
            last = self.x
            y, state, done = advance(self.solver, y, state, *known)
            self.x = placed(model, base, weights, y)
            if bool(done) or self._is_there(known[3], rough):
                self.converged = True
                break
            if self._out_of_budget():
                break
            trial = placed(model, base, weights, candidate(self.solver, y, state, *known))
            parts = self._linearised(trial)
            known = refusable(assembled(model, self.groups, parts, trial, weights))

    def _weights(self, parts, gap: float, only_states: bool, hold: Array | None):
        """The weights of a search around the current point."""
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
        """The linearised segments at x."""
        noise = noises.as_array(self.noise)
        self.parts = linearised(self.problem.model, self.groups, x, noise)
        return self.parts

    def _tell(self, stage: str, told) -> bool:
        cost, gap = float(told["cost"]), float(told["gap"])
        self.iteration += 1
        for key, value in (("stage", stage), ("cost", cost), ("gap", gap)):
            self.history[key].append(value)
        if self.progress is not None:
            elapsed = time.monotonic() - self.began
            pace = elapsed / self.iteration * (self.max_iterations - self.iteration)
            left = max(min(pace, self.max_seconds - elapsed), 0.0)
            self.progress(Progress(stage, self.iteration, cost, gap, elapsed, left))
        broke = not np.isfinite(cost) and not self._may_step_back()
        if broke:
            self.converged = False
            self.status = f"the motion broke down in stage {stage!r}: {self._way_out()}"
        return not broke

    def _may_step_back(self) -> bool:
        """Whether a trial at which the motion breaks down can be rejected; gradient optimisers cannot step back."""
        return _checks.is_least_squares(self.solver) and self.iteration > self.stage_began + 1

    def _way_out(self) -> str:
        if self.iteration > 1:
            return "start from other parameters"
        return "look for a NaN in the control, or start from other parameters or with smaller steps, `dt`"

    def _is_there(self, told, rough: bool) -> bool:
        """Whether a step would lower the cost by less than 1e-5 and move each parameter by less than 1/200 of its error."""
        cost, eps = float(told["cost"]), float(jnp.finfo(self.x.z.dtype).eps)
        share = ROUGH if rough else eps**0.6
        return float(told["decrement"]) < 1e-5 + share * cost or self._stays(cost)

    def _stays(self, cost: float) -> bool:
        """Whether the stage's last steps lowered the cost by less than 1e-4 in all; gradient optimisers need more steps."""
        count = 10 if _checks.is_least_squares(self.solver) else 100
        costs = self.history["cost"][self.stage_began :]
        if len(costs) <= count or not np.isfinite(min(costs[-count:])):
            return False
        return min(costs[:-count]) - min(costs[-count:]) < 1e-4 + 1e-9 * cost

    def _out_of_budget(self) -> bool:
        elapsed = time.monotonic() - self.began
        if not self.iteration:  # the start is evaluated in any case
            return False
        if self.stop.is_set():
            self.status = f"interrupted after {counted(self.iteration, 'iteration')}: best so far"
        elif self.iteration >= self.max_iterations:
            self.status = f"out of iterations ({self.max_iterations})"
        elif elapsed > self.max_seconds:
            self.status = f"out of time ({self.max_seconds:g} s)"
        if self.status:
            self.converged = False
        return bool(self.status)

    def weighed(self):
        """Segments, cost and largest gap at the current point, with all measurements and full weight on the gaps."""
        groups, model = self.problem.groups, self.problem.model
        self.groups = tuple(refined(group, self.refinement) for group in groups)
        parts = self._linearised(self.x)
        weights = self._weights(parts, TIGHT, False, None)
        told = assembled(model, self.groups, parts, self.x, weights)[3]
        return parts, (float(told["cost"]), float(told["gap"]))

    def _residuals(self, parts=None):
        """Errors in units of the noise, and a mask of those that were measured, `(M, r)`."""
        width, groups = len(self.noise), self.problem.groups
        parts = self._linearised(self.x) if parts is None else parts
        plain = np.concatenate([np.asarray(part.plain).reshape(-1, width) for part in parts])
        there = np.concatenate([np.asarray(group.there).reshape(-1, width) for group in groups])
        return plain, there

    def _size(self) -> int:
        """The number of unknowns: parameters, and the initial state and offsets of each run."""
        runs = len(self.problem.runs)
        states = runs * tangent_size(self.problem.model.system)
        return self.x.z.shape[0] + states + self.x.offsets.size


def _started(problem: Problem, start: ArrayLike | None) -> Unknowns:
    """The starting point of a fit."""
    x = problem.guess()
    if start is None:
        return x
    _checks.check_start("start", start, x.z.shape, "One coordinate for each free parameter.")
    return eqx.tree_at(lambda x: x.z, x, jnp.asarray(start, x.z.dtype))


@eqx.filter_jit
def weights_of(model, groups, parts, x: Unknowns, gap, only_states, hold, z) -> Weights:
    """Weighs gaps by the accuracy of the measurements, and scales unknowns by the lengths of their columns."""
    D, n, dtype = size_of(model, x), tangent_size(model.system), x.z.dtype
    nodes = n * x.u.shape[0]
    plain = Weights(jnp.zeros(n, dtype), jnp.ones(D, dtype), hold, z)
    squares = assembled(model, groups, parts, x, plain)[2].diagonal
    told = jnp.sqrt(jnp.mean(squares[:nodes].reshape(-1, n), axis=0))
    natural = jnp.maximum(told, 1e-3 * jnp.max(told))
    weight = natural * gap
    # gaps get a low weight here: a damping that suits them would be too strong for motions that open no gaps
    length = jnp.sqrt(squares + jnp.pad(jnp.tile(natural, x.u.shape[0]) ** 2, (0, D - nodes)))
    scale = SHARPNESS / jnp.maximum(length, 1e-8 * jnp.max(length))
    keeps = only_states & (jnp.arange(D) >= nodes)
    return Weights(weight, jnp.where(keeps, 0.0, scale), hold, z)
