"""`ensemble.simulate` with equal steps in lanes."""

import warnings
from typing import Any

import diffrax
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._group_steps import method_on
from jaxhamel.ensemble._rollout import rolled_out
from jaxhamel.simulate import CommutatorFree2, CommutatorFree4, LieGroup, Trajectory
from jaxhamel.simulate._simulate import most_steps
from jaxhamel.simulate._trajectory import of_equal_steps


def takes_equal_steps(members: Members, ts: ArrayLike, options: dict[str, Any]) -> bool:
    """Whether `rollout` can take the steps of `jaxhamel.simulate`: with `dt`, an explicit method, and no other options."""
    given = {name for name, value in options.items() if value is not None}
    solver = options.get("solver")
    return (
        "dt" in given
        and given <= {"dt", "solver", "route"}
        and not any(isinstance(x, jax.core.Tracer) for x in (ts, options["dt"]))
        and _is_explicit(solver, members)
        and is_of_one_kind(members)
    )


def _is_explicit(solver: Any, members: Members) -> bool:
    """Whether the solver is a Runge–Kutta method, or a method on the system's own group."""
    if solver is None or isinstance(solver, diffrax.AbstractERK):
        return True
    if not isinstance(solver, LieGroup | CommutatorFree2 | CommutatorFree4):
        return False
    space = members.with_own(members.own)[0].space
    same = jax.tree.structure(solver.space) == jax.tree.structure(space)
    return solver.space is None or (same and not jax.tree.leaves(space))


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
    """Computes the same `Trajectory` as `jax.vmap` of `jaxhamel.simulate`, up to the last of `ts` that was reached."""
    space = members.with_own(members.own)[0].space
    method = method_on(space, diffrax.Tsit5() if solver is None else solver)
    plan = Plan.of(ts, dt, method, None, None)
    taken = np.cumsum([0, *plan.counts])
    with warnings.catch_warnings():  # the user did not ask for lanes: `vmap` replaces them silently
        warnings.filterwarnings("ignore", message="lanes cannot take")
        return _described(members, ts, route, plan, taken, most_steps(None, ts, dt, False))


@jit
def _described(
    members: Members,
    ts: Float[Array, " T"],
    route: str | None,
    plan: Plan,
    taken: np.ndarray,
    max_steps: int,
) -> Trajectory:
    def one(own, q, u):
        system, _, _, control = members.with_own(own)
        return of_equal_steps((system, control), ts, (q, u), taken, max_steps)

    return jax.vmap(one)(members.own, *rolled_out(members, ts, route, plan))
