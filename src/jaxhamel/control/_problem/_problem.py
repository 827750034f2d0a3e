"""A control problem: a system, its initial state, a curve with free parameters, costs and constraints."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, QuasiVelocity
from jaxhamel.control._checks._problem import check_control_problem
from jaxhamel.control._problem._costs import (
    AbstractConstraint,
    AbstractCost,
    MassAcceleration,
    Tracking,
    last_factor,
)
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import with_array_leaves
from jaxhamel.mechanics._examination._boundary import check_forms


class ControlProblem(eqx.Module):
    r"""The problem to find the free parameters p of a control curve θ(t; p) that minimise

        J = ½ Σ_costs [ ∫ |r|² dt + |r_end|² ]   subject to   the equations of motion, constraints = 0 .

    **Arguments:**

    - `system`: the system; `q0`, `u0`: initial state.
    - `ts`: the first time, the nodes of multiple shooting, and the last time, `(N+1,)` [s].
    - `curve`: the initial control, a callable pytree t -> `(n,)` whose free parameters are optimised.
    - `costs`, `constraints`: see `jaxhamel.control.Tracking` and the other costs; their numbers are converted to the dtype
      of the state.
    - `guess`: initial guess of the states at `ts`, `(q, u)` with leading time axes; default (q0, u0) at all times.

    **Raises:** `ValueError` or `TypeError` for shapes that do not fit, NaN, times out of order, a curve without free
    parameters.
    """

    system: System
    q0: Configuration
    u0: QuasiVelocity
    ts: Float[Array, " N+1"]
    curve: Any
    costs: tuple[Any, ...]
    constraints: tuple[Any, ...]
    guess: tuple[Configuration, QuasiVelocity]

    def __init__(
        self,
        system: System,
        q0: Configuration,
        u0: ArrayLike,
        ts: ArrayLike,
        curve: Callable[..., Any],
        costs: tuple[Any, ...],
        constraints: tuple[Any, ...] = (),
        guess: tuple[Any, ...] | None = None,
    ):
        _checks.check_kind(
            "system", system, System, "it must be a jaxhamel.System with its values."
        )
        system = with_array_leaves(system)
        _checks.check_arrays(q0=q0, u0=u0)
        _checks.check_velocity("u0", u0)
        _checks.check_time_array(ts)
        leaves = [jnp.asarray(x) for x in (*jax.tree.leaves(q0), u0)]
        dtype = jnp.result_type(*[x.dtype for x in leaves])
        dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)

        def is_list(x):
            return isinstance(x, list)

        def cast(tree):
            return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree, is_leaf=is_list)

        self.system, self.curve = system, curve
        self.q0, self.u0, self.ts = cast(q0), cast(u0), cast(ts)
        _checks.check_times(self.ts)
        self.costs = _in_dtype(dtype, _checks.each_of("costs", costs, AbstractCost))
        self.constraints = _in_dtype(
            dtype, _checks.each_of("constraints", constraints, AbstractConstraint)
        )
        if guess is not None:
            _checks.check_arrays(guess=guess)
        self.guess = _constant(self.q0, self.u0, self.ts) if guess is None else cast(guess)
        check_control_problem(self)
        check_forms(system, self.ts[0], self.q0, self.u0, curve)

    @property
    def tracking(self) -> Tracking | None:
        """The first tracking cost, whose error is reported."""
        return next((cost for cost in self.costs if isinstance(cost, Tracking)), None)


def TrackingProblem(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    ts: ArrayLike,
    curve: Callable[..., Any],
    path: Callable[..., Any],
    *,
    tracking_weight: ArrayLike = 1.0,
    acceleration_weight: ArrayLike = 0.0,
    output: Callable[..., Any] = last_factor,
    costs: tuple[Any, ...] = (),
    constraints: tuple[Any, ...] = (),
    guess: tuple[Any, ...] | None = None,
) -> ControlProblem:
    """A `ControlProblem` whose motion follows `path` under a smooth control:

        J = ½ ∫ w |output(q) − path(t)|² + a |θ̈|² dt + further `costs` .

    **Arguments:** `system`, `q0`, `u0`, `ts`, `curve`, `constraints` and `guess` as for `ControlProblem`; `path`: t ->
    `(d,)`, `output`: q -> `(d,)`, default the last factor of q; `tracking_weight`: w; `acceleration_weight`: a; `costs`:
    further costs.

    **Returns:** a `ControlProblem`. **Raises:** as `ControlProblem`.
    """
    _checks.check_callable("path", path, "t -> (d,)")
    follow = Tracking(path, tracking_weight, output)
    smooth = MassAcceleration(acceleration_weight)
    return ControlProblem(system, q0, u0, ts, curve, (follow, smooth, *costs), constraints, guess)


def _in_dtype(dtype: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Converts the real numbers of costs and constraints to the dtype of the state."""

    def converted(x):
        return x.astype(dtype) if eqx.is_inexact_array(x) and jnp.isrealobj(x) else x

    return jax.tree.map(converted, parts)


def _constant(q0, u0, ts):
    """The state (q0, u0) at all times of `ts`."""

    def repeat(x):
        return jnp.broadcast_to(x[None], (*ts.shape, *x.shape))

    return jax.tree.map(repeat, q0), repeat(u0)
