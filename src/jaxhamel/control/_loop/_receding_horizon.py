"""Receding-horizon control: an optimal control problem improved by a few iterations in each sampling period."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxhamel import _checks
from jaxhamel._typing import Configuration, QuasiVelocity, Scalar, Time
from jaxhamel.control._certificate._endings import broken
from jaxhamel.control._checks._controllers import check_receding, check_start, check_state_shapes
from jaxhamel.control._collocation._collocation import Collocation
from jaxhamel.control._collocation._points import PiecewisePolynomial, rule
from jaxhamel.control._collocation._start import first_iterate, guessed, transcribe
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._state import SearchState, first_state
from jaxhamel.control._loop._moving_plan import (
    HESSIANS,
    begun_at,
    improved,
    plan_later,
    warm_start,
)
from jaxhamel.control._loop._prediction import flow_under
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.geometry import AbstractSpace

FIRST_BARRIER = 0.1  # μ before the first sample


class HorizonMemory(NamedTuple):
    """The memory of a receding horizon from one sample to the next, and how its iterations went.

    - `t`: the time at which the latest plan begins [s]; `search`: the plan with its multipliers; `waiting`: commands that
      are yet to act.
    - `samples`: the number of samples so far; `missed`: the number of samples whose plan was late; `failed`: the number of
      samples whose plan was not finite or violated its constraints by more than `acceptable`. In both cases the previous
      plan was used, shifted in time.
    - `violation`: the largest residual of equations and limits among the plans that were used.
    """

    t: Scalar
    search: SearchState
    waiting: tuple[Float[Array, " p"], ...]
    samples: Int[Array, ""]
    missed: Int[Array, ""]
    failed: Int[Array, ""]
    violation: Scalar


class RecedingHorizon(eqx.Module):
    """A law that solves an optimal control problem in each sampling period, from the state x_k of the sample:

        c_k = (1/T) ∫ c*(t) dt over [t_k, t_k + T] ,
        c* = argmin J over [t_k, t_k + H]   subject to   the problem's constraints, x(t_k) = x_k .

    The problem is transcribed as by `Collocation`. In each sample the last plan is shifted by one period, is made to begin
    at the new state, and is improved by a few iterations of the interior-point method (real-time iteration), whose barrier
    parameter stays at `barrier`. Limits hold at the collocation points.

    **Arguments:**

    - `problem`: a `ControlProblem` of duration H with a fixed end time. Its costs and constraints are called with the
      absolute time; its initial state, curve and guess start the search for the first plan.
    - `period`: T [s], that of the `Sampled` that uses the law.
    - `intervals`, `degree`, `points`: the mesh, as for `Collocation`.
    - `iterations`: the largest number of iterations in each sample; `first_iterations`: in the first sample;
      `most_iterations`: in a sample whose plan violates its constraints by more than `acceptable` after `iterations`, as
      after a large disturbance, or where a step is shortened at a limit.
    - `delay`: the number of periods from a sample to the time at which its command acts, as in `Sampled`. The plan begins
      at that time, at the state that the model predicts.
    - `hessian`: `"gauss-newton"` (default): the Hessian of the Lagrangian is that of the costs, without the curvature of
      residuals, equations of motion and limits. An iteration takes about a third of the time that it takes with
      `"exact"` and compiles faster; iterations converge quickly if the residuals are small, as in tracking. `"exact"`: all
      second derivatives, for costs that are far from zero at the optimum.
    - `barrier`: μ; smaller values come nearer to limits and need more iterations.
    - `tolerance`: of stationarity and violation, at which the iterations of a sample end early; `acceptable`: the largest
      violation of a plan that is used.
    - `late`: None, or a function t → bool, true if the plan of the sample at t is not ready in time. Then the last plan is
      used, shifted in time, and the sample is counted as `missed`. For deadlines on the clock see `OnTime`.

    It is a law with memory: `start()` gives the first one, `step(memory, t, q, u)` → (command, memory). In `closed_loop` it
    is the law of `Sampled(law, period)`; the result has the last memory as `trajectory.control.memory`, with the counts
    `missed` and `failed`. On a robot compile it by `equinox.filter_jit(law.step)`, since `jax.jit` refuses methods of a
    pytree, or use `OnTime`.

    **Raises:** `TypeError` or `ValueError` for problems with a free end time, a free initial state or design parameters, a
    period longer than the horizon, costs, constraints or equations of motion that are not finite at the guess, and as
    `Collocation`.

    Source: Diehl, Bock and Schlöder 2005 (real-time iteration); Zanelli, Domahidi, Jerez and Morari 2017 (fixed barrier).
    """

    transcription: Transcription
    first: CollocationPoint
    period: Scalar
    iterations: Int[Array, ""]
    first_iterations: Int[Array, ""]
    most_iterations: Int[Array, ""]
    barrier: Scalar
    tolerance: Scalar
    acceptable: Scalar
    delay: int = eqx.field(static=True)
    hessian: str = eqx.field(static=True)
    late: Callable[[Time], Any] | None
    in_lanes: ClassVar[bool] = False

    def __init__(
        self,
        problem: ControlProblem,
        period: ArrayLike,
        *,
        intervals: int = 20,
        degree: int = 2,
        points: str = "gauss",
        iterations: int = 1,
        first_iterations: int = 100,
        most_iterations: int = 10,
        delay: int = 0,
        hessian: str = "gauss-newton",
        barrier: float = 1e-4,
        tolerance: float = 1e-8,
        acceptable: float = 0.1,
        late: Callable[[Time], Any] | None = None,
    ):
        _checks.check_outside("problem", problem)
        Collocation(intervals, degree, points, tolerance=tolerance, barrier=barrier)  # checks
        _checks.check_positive_number("acceptable", acceptable, "It is a residual, say 0.1.")
        counts = {"intervals": intervals, "iterations": iterations, "delay": delay}
        counts |= {"first_iterations": first_iterations, "most_iterations": most_iterations}
        check_receding(problem, period, late, counts)
        _checks.check_choice("hessian", hessian, tuple(HESSIANS))
        dtype = problem.u0.dtype
        shares = jnp.linspace(0.0, 1.0, intervals + 1, dtype=dtype)
        self.transcription = transcribe(problem, rule(points, degree), shares)
        begin, end = (problem.q0, problem.u0), problem.ts[-1]
        self.first = first_iterate(
            self.transcription, problem.ts, guessed(problem), problem.curve, begin, end
        )
        check_start(broken(self.transcription, self.first))

        def number(x):
            return jnp.asarray(x, dtype)

        self.period, self.barrier = number(period), number(barrier)
        self.tolerance, self.acceptable = number(tolerance), number(acceptable)
        self.iterations, self.most_iterations = (
            jnp.asarray(iterations),
            jnp.asarray(most_iterations),
        )
        self.first_iterations = jnp.asarray(first_iterations)
        self.delay, self.late, self.hessian = delay, late, hessian

    @property
    def made_for(self) -> tuple[AbstractSpace, int]:
        """The space and the number of quasi-velocities of the states that the law takes."""
        system = self.transcription.system
        return system.space, system.n_independent

    def start(self) -> HorizonMemory:
        """The memory before the first sample."""
        t, zero = self.transcription.t0, jnp.zeros((), int)
        search = first_state(self.transcription, self.first, jnp.asarray(FIRST_BARRIER, t.dtype))
        waiting = (self._mean(t, self.first),) * self.delay
        return HorizonMemory(t, search, waiting, zero, zero, zero, jnp.zeros_like(t))

    def step(
        self, memory: HorizonMemory, t: Time, q: Configuration, u: QuasiVelocity
    ) -> tuple[Float[Array, " p"], HorizonMemory]:
        """(command, memory) of the sample at t, from the state (q, u) at t."""
        t = jnp.asarray(t, self.period.dtype)
        begins, system = t + self.delay * self.period, self.transcription.system
        check_state_shapes(self.made_for, q, u)
        at = flow_under(memory.waiting, system, (q, u), t, self.period, 1, None)
        old = self._shifted(memory, begins)
        transcription = eqx.tree_at(lambda x: x.t0, self.transcription, begins)
        begin = warm_start(transcription, old._replace(w=begun_at(old.w, *at)))
        many = jnp.where(memory.samples == 0, self.first_iterations, self.iterations)
        counts = many, jnp.maximum(many, self.most_iterations)
        new, found = improved(
            transcription,
            begin,
            self.tolerance,
            self.barrier,
            counts,
            self.acceptable,
            self.hessian,
        )
        failed = found > self.acceptable
        missed = jnp.asarray(False) if self.late is None else jnp.asarray(self.late(t))
        kept = jax.tree.map(lambda a, b: jnp.where(failed | missed, a, b), old, new)
        command = self._mean(begins, kept.w)
        waiting = (*memory.waiting, command)[1:] if self.delay else ()
        used = jnp.where(failed | missed, memory.violation, jnp.maximum(memory.violation, found))

        def one(x):
            return x.astype(int)

        return command, HorizonMemory(
            begins, kept, waiting, memory.samples + 1, memory.missed + one(missed),
            memory.failed + one(failed & ~missed), used,
        )  # fmt: skip

    def held(self, memory: HorizonMemory, t: Time) -> tuple[Float[Array, " p"], HorizonMemory]:
        """(command, memory) at t from the last plan alone, for a sample whose plan is not ready."""
        begins = jnp.asarray(t, self.period.dtype) + self.delay * self.period
        search = self._shifted(memory, begins)
        command = self._mean(begins, search.w)
        waiting = (*memory.waiting, command)[1:] if self.delay else ()
        return command, memory._replace(
            t=begins, search=search, waiting=waiting,
            samples=memory.samples + 1, missed=memory.missed + 1,
        )  # fmt: skip

    def resumed(self, planned: HorizonMemory, memory: HorizonMemory) -> HorizonMemory:
        """`memory`, which went on while a step was late, with the plan of `planned`, the memory after that step."""
        return memory._replace(t=planned.t, search=planned.search)

    def plan(self, memory: HorizonMemory) -> tuple[Array, tuple[Any, Array], PiecewisePolynomial]:
        """(times, (q, u) at these times, control) of the last plan."""
        ts = self._times(memory.t)
        control = PiecewisePolynomial(ts, memory.search.w.c, self.transcription.rule.points)
        return ts, self.transcription.states(memory.search.w), control

    def _times(self, t: Scalar) -> Float[Array, " N+1"]:
        return t + self.transcription.shares * self.transcription.duration

    def _shifted(self, memory: HorizonMemory, t: Scalar) -> SearchState:
        """The last plan and its multipliers, shifted in time so that the plan begins at t."""
        length = self.transcription.duration * self.transcription.shares[1]
        w, duals = plan_later(
            self.transcription, memory.search.w, memory.search.duals, (t - memory.t) / length
        )
        return memory.search._replace(w=w, duals=duals)

    def _mean(self, t: Scalar, w: CollocationPoint) -> Float[Array, " p"]:
        """The mean of the plan's control over the first period."""
        control = PiecewisePolynomial(self._times(t), w.c, self.transcription.rule.points)
        places = t + self.transcription.constants("points") * self.period
        return self.transcription.constants("weights") @ jax.vmap(control)(places)
