"""fit: from a problem to an estimate, in stages that each start where the last one ended."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel.identify import _noise as noises
from jaxhamel.identify._estimate import Estimate, estimate_of
from jaxhamel.identify._information import information
from jaxhamel.identify._model import Unknowns
from jaxhamel.identify._objective import Weights, assembled, linearised, placed, size_of
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._progress import Progress
from jaxhamel.identify._search import (
    SHARPNESS,
    advance,
    begin,
    candidate,
    levenberg_marquardt,
)
from jaxhamel.identify._segments import refined, shortened
from jaxhamel.mechanics._tangent import tangent_size

LOOSE, TIGHT = (3.0, 20.0), 150.0  # weights of the gaps: first they may help, then they close
SHORT = 0.2  # share of each segment whose measurements count at first: there wrong parameters do little yet
ROUGH = 1e-3  # a stage that only prepares the next one ends where a step would lower the cost by less than this share
FINEST = 32  # steps from one measurement to the next, at most, unless `dt` says how many
BIAS = 0.01  # share of the mean squared score that the error of the steps may add
HOLD = 2.0  # 1/σ by which coordinates are held meanwhile, where they begin


def fit(
    problem: Problem,
    solver: Any = None,
    *,
    start: ArrayLike | None = None,
    max_iterations: int = 100,
    max_seconds: float = 600.0,
    progress: Callable | None = None,
) -> Estimate:
    """The estimate of a problem's parameters, with its uncertainty.

    First the states at the nodes are fitted to the measurements around them, at the parameters to start from;
    then everything while gaps between segments are cheap; then everything with gaps closed. Noise that is not
    given is estimated and the last stage repeated with it. Where the problem has no `dt`, steps are halved until
    their error is small beside the standard errors.

    **Arguments:**

    - `problem`: what is asked.
    - `solver`: an optimistix least-squares solver, default Levenberg–Marquardt; or an optax optimiser.
    - `start`: coordinates z to start from, `(P,)`; default those of the problem's system.
    - `max_iterations`, `max_seconds`: when to stop, over all stages, with what was reached by then.
    - `progress`: called with a `Progress` after each iteration.

    **Returns:** an `Estimate`; `print` it. A fit that does not converge is no error: `converged` and `status` say so.
    """
    solver = levenberg_marquardt() if solver is None else solver
    _checks.check_solver(solver)
    x = problem.guess()
    if start is not None:
        _checks.check_shape("start", start, x.z.shape, "One coordinate for each free parameter.")
        x = eqx.tree_at(lambda x: x.z, x, jnp.asarray(start, x.z.dtype))
    return _Fit(problem, solver, x, max_iterations, max_seconds, progress).run()


def fit_many(
    problem: Problem,
    starts: Float[Array, "S P"],
    solver: Any = None,
    *,
    at_once: int | None = None,
    **options: Any,
) -> Estimate:
    """The best of fits from several starts, see `perturbed_starts`.

    The first fit compiles the program that all share; the others run beside one another in threads, which XLA's
    programs do not hold up.

    **Arguments:** as for `fit`; `at_once`: how many threads, default one for each core. `progress` is called from all.

    **Returns:** the best `Estimate`; its `others` holds the cost that each start ended at.
    """
    _checks.check_shape("starts", starts, ("S", problem.model.coordinates().shape[0]))
    double = jax.config.read("jax_enable_x64")

    def one(z):
        with jax.enable_x64(double):  # a setting of this thread, where it was made by `with`
            return fit(problem, solver, start=z, **options)

    first, *rest = jnp.asarray(starts)
    found = [fit(problem, solver, start=first, **options)]
    with ThreadPoolExecutor(at_once or os.cpu_count()) as pool:
        found += pool.map(one, rest)
    costs = np.array([e.cost for e in found])
    best = found[int(np.nanargmin(np.where(np.isfinite(costs), costs, np.inf)))]
    return best._replace(others=costs)


def perturbed_starts(problem: Problem, key, count: int, scale: float = 0.3) -> Float[Array, "S P"]:
    """The problem's own coordinates, and `count` − 1 with normal noise of size `scale`: 0.3 is 30 % of a positive number."""
    z = problem.model.coordinates()
    noise = scale * jax.random.normal(key, (count, z.shape[0]), z.dtype)
    return z[None, :] + noise.at[0].set(0.0)


class _Fit:
    """The stages of one fit, and what is known at each moment."""

    def __init__(self, problem, solver, x, max_iterations, max_seconds, progress):
        self.problem, self.solver, self.x = problem, solver, x
        self.max_iterations, self.max_seconds, self.progress = max_iterations, max_seconds, progress
        self.noise = noises.guessed(problem)
        self.estimates_noise = bool(np.isnan(noises.given(problem)).any())
        self.began, self.iteration = time.monotonic(), 0
        self.history: dict[str, list] = {key: [] for key in ("stage", "cost", "gap", "decrement")}
        self.converged, self.status = False, ""
        self.groups, self.stage_began, self.refinement = problem.groups, 0, 1

    def run(self) -> Estimate:
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
        return estimate_of(self)

    def _with_noise(self) -> None:
        """Noise and fit in turn until the noise stays."""
        for _ in range(4 if self.estimates_noise else 0):
            before, there = self.noise, self._residuals()
            self.noise = noises.estimated(self.problem, before, *there, self._size())
            if np.allclose(before, self.noise, rtol=0.02):
                return
            if not self._stage("noise", gap=TIGHT, rough=False):
                return

    def _with_finer_steps(self) -> None:
        """Half the steps until what is left of their error is small beside the standard errors.

        The error is of order 4: halving them again would change the estimate 15 times less. On a ball measured at
        50 Hz, one step for each measurement shifted ten parameters by up to 0.8 standard errors, χ² by 15.
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
        """One search around the present point; whether it went on to its end."""
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
        """Steps from the present point until one is the last, or there may be no more."""
        model, base = self.problem.model, self.x
        y = jnp.zeros_like(weights.scale)
        known = assembled(model, self.groups, parts, base, weights)
        state = begin(self.solver, y, *known)
        for _ in range(limit):
            if not self._tell(name, known[3]):
                break
            y, state, done = advance(self.solver, y, state, *known)
            self.x = placed(model, base, weights, y)
            if bool(done) or self._is_there(known[3], rough):
                self.converged = True
                break
            if self._out_of_budget():
                break
            trial = placed(model, base, weights, candidate(self.solver, y, state, *known))
            known = assembled(model, self.groups, self._linearised(trial), trial, weights)

    def _weights(self, parts, gap: float, only_states: bool, hold: Array | None):
        """Of a search around the present point."""
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
        """The segments at x."""
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
        if not np.isfinite(cost):
            self.converged = False
            self.status = f"the motion broke down in stage {stage!r}: start from other parameters"
        return np.isfinite(cost)

    def _is_there(self, told, rough: bool) -> bool:
        """No step lowers the cost by what could be seen, 1e-5: nothing moves by more than a 200th of its error."""
        cost, eps = float(told["cost"]), float(jnp.finfo(self.x.z.dtype).eps)
        share = ROUGH if rough else eps**0.6
        return float(told["decrement"]) < 1e-5 + share * cost or self._stays(cost)

    def _stays(self, cost: float) -> bool:
        """The last steps of the stage together lowered the cost by less than 1e-4; optimisers by gradient take more."""
        count = 10 if _checks.is_least_squares(self.solver) else 100
        costs = self.history["cost"][self.stage_began :]
        if len(costs) <= count:
            return False
        return min(costs[:-count]) - min(costs[-count:]) < 1e-4 + 1e-9 * cost

    def _out_of_budget(self) -> bool:
        elapsed = time.monotonic() - self.began
        if self.iteration >= self.max_iterations:
            self.status = f"out of iterations ({self.max_iterations})"
        elif elapsed > self.max_seconds:
            self.status = f"out of time ({self.max_seconds:g} s)"
        if self.status:
            self.converged = False
        return bool(self.status)

    def _residuals(self, parts=None):
        """Errors in units of the noise and where there are any, `(M, r)`."""
        width, groups = len(self.noise), self.problem.groups
        parts = self._linearised(self.x) if parts is None else parts
        plain = np.concatenate([np.asarray(part.plain).reshape(-1, width) for part in parts])
        there = np.concatenate([np.asarray(group.there).reshape(-1, width) for group in groups])
        return plain, there

    def _size(self) -> int:
        """Unknowns of the motion: parameters, and of each run its state and offsets."""
        runs = len(self.problem.runs)
        return (
            self.x.z.shape[0] + runs * tangent_size(self.problem.model.system) + self.x.offsets.size
        )


@eqx.filter_jit
def weights_of(model, groups, parts, x: Unknowns, gap, only_states, hold, z) -> Weights:
    """Gaps weighed by what the measurements tell of a state, unknowns by the length of their columns."""
    D, n, dtype = size_of(model, x), tangent_size(model.system), x.z.dtype
    nodes = n * x.u.shape[0]
    plain = Weights(jnp.zeros(n, dtype), jnp.ones(D, dtype), hold, z)
    squares = assembled(model, groups, parts, x, plain)[2].diagonal
    told = jnp.sqrt(jnp.mean(squares[:nodes].reshape(-1, n), axis=0))
    natural = jnp.maximum(told, 1e-3 * jnp.max(told))
    weight = natural * gap
    # Gaps count little here: a damping that is light for them would be heavy for motions that open none.
    length = jnp.sqrt(squares + jnp.pad(jnp.tile(natural, x.u.shape[0]) ** 2, (0, D - nodes)))
    scale = SHARPNESS / jnp.maximum(length, 1e-8 * jnp.max(length))
    keeps = only_states & (jnp.arange(D) >= nodes)
    return Weights(weight, jnp.where(keeps, 0.0, scale), hold, z)
