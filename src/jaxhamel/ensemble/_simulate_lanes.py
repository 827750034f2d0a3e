"""`ensemble.simulate` in lanes: by equal steps, and by adaptive steps of each trajectory."""

import warnings
from typing import Any

import diffrax
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel.ensemble._adaptive_steps._adaptive_paths import AdaptiveOptions, Paths, adaptive_paths
from jaxhamel.ensemble._adaptive_steps._adaptive_step import ARRIVED, NOT_FINITE, TOO_MANY
from jaxhamel.ensemble._adaptive_steps._step_form import FEWEST
from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._equal_steps._recorded_steps import before_jumps, end_at_records
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._embedded_pairs import is_embedded_pair
from jaxhamel.ensemble._methods._group_steps import method_on
from jaxhamel.ensemble._rollout import mechanical_equation, rolled_out
from jaxhamel.mechanics._controls._recorded import records_in
from jaxhamel.simulate import RESULTS, CommutatorFree2, CommutatorFree4, LieGroup, Trajectory
from jaxhamel.simulate._results import as_result
from jaxhamel.simulate._simulate import most_steps, tolerances_of
from jaxhamel.simulate._trajectory import SystemAndControl, nan_where, of_equal_steps


def takes_equal_steps(members: Members, ts: ArrayLike, options: dict[str, Any]) -> bool:
    """Whether `rollout` can take the steps asked for: equal ones, by an explicit method, without further options."""
    given = {name for name, value in options.items() if value is not None}
    solver = options.get("solver")
    return (
        "dt" in given
        and given <= {"dt", "solver", "route"}
        and not any(isinstance(x, jax.core.Tracer) for x in (ts, options["dt"]))
        and _is_explicit(solver, members)
        and is_of_one_kind(members)
        and end_at_records(members.control, ts, options["dt"])
    )


def _is_explicit(solver: Any, members: Members) -> bool:
    """Whether the solver is a Runge–Kutta method, or a method on the system's own group."""
    if solver is None or isinstance(solver, diffrax.AbstractERK):
        return True
    if not isinstance(solver, LieGroup | CommutatorFree2 | CommutatorFree4):
        return False
    space = members.space
    same_structure = jax.tree.structure(solver.space) == jax.tree.structure(space)
    return solver.space is None or (same_structure and not jax.tree.leaves(space))


def is_of_one_kind(members: Members) -> bool:
    """Whether all numbers of the state have the same floating dtype."""
    _, q0, u0, _ = members.with_own(members.own)
    kinds = {jnp.result_type(x) for x in jax.tree.leaves((q0, u0))}
    return len(kinds) == 1 and all(jnp.issubdtype(kind, jnp.floating) for kind in kinds)


def in_equal_steps(
    members: Members,
    ts: ArrayLike,
    dt: Any,
    solver: Any = None,
    route: str | None = None,
) -> Trajectory:
    """Computes the same `Trajectory` as `jax.vmap` of `jaxhamel.simulate`, but `t_end` is the last of `ts` reached."""
    method = method_on(members.space, diffrax.Tsit5() if solver is None else solver)
    method = before_jumps(method, members.control, ts, dt)
    plan = Plan.of(ts, dt, method, None, None)
    taken = np.cumsum([0, *plan.counts])
    with warnings.catch_warnings():  # the user did not ask for lanes: `vmap` replaces them silently
        warnings.filterwarnings("ignore", message="lanes cannot take")
        most = most_steps(None, ts, dt, False)
        return _described(members, members.prepared(), ts, route, plan, taken, most)


@jit
def _described(
    members: Members,
    once: Members,
    ts: Float[Array, " T"],
    route: str | None,
    plan: Plan,
    taken: np.ndarray,
    max_steps: int,
) -> Trajectory:
    def one(own, q, u):
        system, _, _, control = members.with_own(own)
        return of_equal_steps((system, control), ts, (q, u), taken, max_steps)

    return jax.vmap(one)(members.own, *rolled_out(once, ts, route, plan))


# `ensemble.simulate` with adaptive steps in lanes.


_OPTIONS = {"rtol", "atol", "solver", "max_steps", "route"}


def takes_adaptive_steps(members: Members, ts: ArrayLike, options: dict[str, Any]) -> bool:
    """Whether lanes can take the steps asked for: adaptive, by an explicit Runge–Kutta pair, without further options."""
    given = {name for name, value in options.items() if value is not None}
    solver = options.get("solver")
    space = members.space
    return (
        given <= _OPTIONS
        and (solver is None or is_embedded_pair(solver))
        and (space.independent or space.projects)
        and is_of_one_kind(members)
        and len(np.shape(ts)) == 1
        and np.shape(ts)[0] > 1
        and members.size >= FEWEST
        # a lane would reject many steps at each jump, and lose digits; `simulate` ends a step there
        and not any(record.between == "held" for record in records_in(members.control))
    )


def in_adaptive_steps(members: Members, ts: ArrayLike, options: dict[str, Any]) -> Trajectory:
    """Computes the same `Trajectory` as `jax.vmap` of `jaxhamel.simulate`, in lanes."""
    tolerances = tolerances_of(options.get("rtol"), options.get("atol"), None, jnp.result_type(ts))
    solver = diffrax.Tsit5() if options.get("solver") is None else options["solver"]
    most = most_steps(options.get("max_steps"), ts, None, False)
    with warnings.catch_warnings():  # the user did not ask for lanes: `vmap` replaces them silently
        warnings.filterwarnings("ignore", message="lanes cannot take")
        return _described_adaptive(
            members, ts, options.get("route"), AdaptiveOptions(solver, most, *tolerances)
        )


@jit
def _described_adaptive(
    members: Members, ts: Float[Array, " T"], route: str | None, asked: AdaptiveOptions
) -> Trajectory:
    """Integrates all members with adaptive steps and describes each path as a `Trajectory`."""

    def one(own, found: Paths) -> Trajectory:
        system, _, _, control = members.with_own(own)
        valid = ts <= found.t_end
        (q, u), (q_end, u_end) = found.states, found.end
        kept = jnp.asarray(found.kept, int)
        tried = jnp.asarray(found.tried, int)
        return Trajectory(
            ts=ts,
            q=nan_where(~valid, q),
            u=nan_where(~valid, u),
            valid=valid,
            t_end=found.t_end,
            q_end=q_end,
            u_end=u_end,
            result=as_result(_cause(found.stands)),
            stats={
                "num_steps": tried,
                "num_accepted_steps": kept,
                "num_rejected_steps": tried - kept,
                "max_steps": asked.max_steps,
            },
            interpolation=None,
            given=SystemAndControl.of(system, control),
        )

    return jax.vmap(one)(
        members.own, adaptive_paths(mechanical_equation(route), members, ts, asked)
    )


def _cause(stands) -> Any:
    results: Any = RESULTS
    broken = results.where(stands == NOT_FINITE, results.nonfinite_state, results.step_too_small)
    late = results.where(stands == TOO_MANY, results.max_steps_reached, broken)
    return results.where(stands == ARRIVED, results.successful, late)
