"""Problems joined one after the other, and the parts of their solution."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Time
from jaxhamel.control._checks._problem_parts import check_link, check_phases, check_result_of_phases
from jaxhamel.control._collocation._points import PiecewisePolynomial
from jaxhamel.control._collocation._start import guessed, interpolated
from jaxhamel.control._phases._clock import Together, joined_state
from jaxhamel.control._phases._terms import Link, constraint_of_phase, cost_of_phase
from jaxhamel.control._problem._boundary import FreeInitialState
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Result
from jaxhamel.mechanics import ODE, System

TIMES = 41  # number of times at which the guess of all phases is given


class Phase(NamedTuple):
    """One phase of a solution.

    `system`; `ts`: the times of the mesh [s]; `states`: (q, u) at these times; `control`: a function of t [s].
    """

    system: System
    ts: Float[Array, " N+1"]
    states: tuple[Configuration, Float[Array, "N+1 k"]]
    control: PiecewisePolynomial


def phases(
    problems: Sequence[ControlProblem], links: Sequence[Callable[..., Any] | None] | None = None
) -> ControlProblem:
    """The problem of several phases that follow one another, each with its own system, costs, constraints and times:

        J = Σ J_k ,    x_{k+1}(t_{k+1}) = x_k(t_k + T_k) ,    t_{k+1} = t_k + T_k .

    All phases are solved at once, side by side on the clock s from 0 to 1, with ẋ = T_k f_k(t_k + s T_k, x, c).

    **Arguments:**

    - `problems`: a `ControlProblem` for each phase. The first one's (q0, u0) is the initial state; the (q0, u0) of the
      others, and all guesses, only start the search. T_k is the length of `ts`, or unknown with `FreeEndTime`, whose bounds
      are on the clock of the phase's own `ts`. Time runs on from the first problem's first time: t in costs, limits and
      systems is t_k + s T_k.
    - `links`: for each phase but the last, None (the next phase begins at its last state), or a function
      (q, u, q_next, u_next) → `(r,)` of these two states that must be zero: an impact, other coordinates, a mass that is
      dropped.

    **Returns:** a `ControlProblem` for `control.Collocation`, from whose result `phases_of` takes the phases.

    **Raises:** `TypeError` or `ValueError` for fewer than two problems, for states of different kinds without a link, and
    for links that do not fit.
    """
    check_phases(problems, links)
    links = [None] * (len(problems) - 1) if links is None else links
    clock = _clock(problems)
    system = ODE(clock, clock.space)
    costs = [cost_of_phase(x, k) for k, problem in enumerate(problems) for x in problem.costs]
    shares = np.linspace(0.0, 1.0, TIMES)
    guess = _guess(problems, shares)
    q0 = jax.tree.map(lambda x: x[0], guess)
    first = joined_state(problems[0].q0, problems[0].u0)
    q0 = (*first, *q0[len(first) :])
    for k, link in enumerate(links):
        check_link(k, link, *(clock.state(j, q0) for j in (k, k + 1)))
    constraints = [
        constraint_of_phase(term, k, problem.ts[0])
        for k, problem in enumerate(problems)
        for term in problem.constraints
        if not isinstance(term, FreeInitialState)
    ]
    named = [Link(link, k, f"link of phases {k + 1} and {k + 2}") for k, link in enumerate(links)]
    dtype = problems[0].u0.dtype
    none = jnp.zeros(0, dtype)
    return ControlProblem(
        system, q0, none, jnp.asarray(shares, dtype), _Curves(clock, tuple(x.curve for x in problems)),
        tuple(costs), (*constraints, *named, _free_boundaries(problems, clock)),
        (guess, jnp.zeros((TIMES, 0), dtype)),
    )  # fmt: skip


def phases_of(result: Result) -> tuple[Phase, ...]:
    """The phases of a solution.

    **Arguments:** `result`: of `solve` with a problem of `control.phases`. **Raises:** `TypeError` for any other result.
    """
    check_result_of_phases(result, Together)
    clock: Together = getattr(result.problem.system, "function")  # noqa: B009
    found = []
    for k, system in enumerate(clock.systems):
        ts = clock.time(k, result.ts)
        of_phase = jax.vmap(lambda c, k=k: clock.part(k, c))
        values = jax.vmap(of_phase)(result.control.values)
        states = jax.vmap(lambda q, k=k: clock.state(k, q))(result.states[0])
        control = PiecewisePolynomial(ts, values, result.control.points)
        found.append(Phase(system, ts, states, control))
    return tuple(found)


class _Curves(eqx.Module):
    """The phases' initial controls as one function of s."""

    clock: Together
    curves: tuple[Any, ...]

    def __call__(self, s: Time) -> Float[Array, " m"]:
        clock = self.clock
        parts = [curve(clock.time(k, s)) for k, curve in enumerate(self.curves)]
        return jnp.concatenate(parts)


def _clock(problems: Sequence[ControlProblem]) -> Together:
    durations = tuple(problem.ts[-1] - problem.ts[0] for problem in problems)
    shapes = [eqx.filter_eval_shape(x.curve, x.ts[0]).shape[0] for x in problems]
    systems = tuple(problem.system for problem in problems)
    return Together(systems, durations, problems[0].ts[0], tuple(shapes))


def _guess(problems: Sequence[ControlProblem], shares: Float[np.ndarray, " T"]) -> tuple[Any, ...]:
    """The guesses of all phases, each at the `shares` of its own duration."""
    parts: list[Any] = []
    for problem in problems:
        at = interpolated(problem.system.space, problem.ts, guessed(problem))
        parts += joined_state(*jax.vmap(at)(jnp.asarray(shares, problem.ts.dtype)))
    return tuple(parts)


def _free_boundaries(problems: Sequence[ControlProblem], clock: Together) -> FreeInitialState:
    """Frees the initial states of all phases but the first, and the coordinates that the first phase frees itself."""
    coordinates, bounds, before = [], ([], []), 0
    for k, (problem, size) in enumerate(zip(problems, clock.sizes, strict=True)):
        own = next((x for x in problem.constraints if isinstance(x, FreeInitialState)), None)
        free = () if own is None else own.coordinates(problem.system)
        for side, name, far in zip(bounds, ("lower", "upper"), (-np.inf, np.inf), strict=True):
            full = np.full(size, far)
            if own is not None:
                full[list(free)] = np.asarray(getattr(own, name))
            side.append(full[list(free)] if k == 0 else full)
        kept = free if k == 0 else range(size)
        coordinates += [before + i for i in kept]
        before += size
    lower, upper = (np.concatenate(side) for side in bounds)
    return FreeInitialState(
        tuple(coordinates), u=False, lower=lower, upper=upper, name="states between phases"
    )
