"""The motion of a model over sampling periods, as estimators and predicting controllers compute it."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Control, Scalar, Time
from jaxhamel.mechanics import Constant, System, VectorField, as_control
from jaxhamel.mechanics._tangent import MotionState
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped


def flow(
    system: System, state: MotionState, t: Time, period: Scalar, control: Control, steps: int, route: str | None
) -> MotionState:  # fmt: skip
    """The state one period later, by `steps` steps of RK4."""
    field, command = VectorField(route), as_control(control)
    h = jnp.asarray(period, state[1].dtype) / steps

    def rate(t, y):
        return field(t, y, (system, command))

    for i in range(steps):
        q, u = looped(rate, RK4, t + i * h, h, state)[0]
        state = system.space.normalise(q), u
    return state


def flow_under(
    commands: Sequence[Float[Array, " p"]],
    system: System,
    state: MotionState,
    t: Scalar,
    period: Scalar,
    steps: int,
    route: str | None,
) -> MotionState:
    """The state after K periods under K `commands`, one for each period."""
    if not commands:
        return state

    def one(state, at):
        k, command = at
        return flow(system, state, t + k * period, period, Constant(command), steps, route), None

    places = jnp.arange(len(commands)).astype(state[1].dtype)
    return jax.lax.scan(one, state, (places, jnp.stack(list(commands))))[0]
