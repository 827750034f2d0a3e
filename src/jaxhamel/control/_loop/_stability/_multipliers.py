"""Stability of a digital loop: the multipliers of its linearised period."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Complex, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration
from jaxhamel.control._checks._closed_loop import check_closed_loop
from jaxhamel.control._checks._laws import check_no_estimator, check_stays, has_memory
from jaxhamel.control._loop._closed_loop import check_first_trajectory
from jaxhamel.control._loop._periods._period import Loop, Periods, after_period, decided
from jaxhamel.control._loop._sampled import Sampled
from jaxhamel.mechanics import System
from jaxhamel.mechanics._tangent import local, retract, tangent_size
from jaxhamel.simulate._simulate import dtype_of_state


def loop_multipliers(
    system: System,
    q: Configuration,
    u: ArrayLike,
    controller: Sampled,
    *,
    t: ArrayLike = 0.0,
    steps: int = 2,
    route: str | None = None,
) -> Complex[Array, " m"]:
    """The multipliers of a digital loop about an equilibrium (q, u): the eigenvalues μ of M in δ_{k+1} = M δ_k,

        δ = (exponential coordinates of the state, the previous commands, the law's memory) .

    There is one previous command for each period of the delay, and at least one.

    Small deviations die away if all |μ| < 1; otherwise they grow by the largest |μ| in each period T, and double in
    T log 2 / log |μ|.

    **Arguments:** `system`, `controller`, `steps`, `route`: as for `closed_loop`; `q`, `u`: an equilibrium under the law's
    command there, which must be within the controller's limits; `t`: the time of the sample [s].

    **Returns:** the multipliers, the largest first.

    **Raises:** `ValueError` if the loop does not keep the state; `TypeError` for a controller with sensors or an estimator,
    and as `closed_loop`.

    Source: Åström and Wittenmark 1997, ch. 3.
    """
    found = jnp.linalg.eigvals(linear_period(system, q, u, controller, t, steps, route))
    return found[jnp.argsort(-jnp.abs(found))]


def linear_period(
    system: System, q, u, controller: Sampled, t, steps: int, route: str | None
) -> Float[Array, "m m"]:
    """The matrix M of `loop_multipliers`, for its arguments; raises the same errors."""
    check_closed_loop(system, (q, u, t), controller, (1, steps, None), route)
    dtype = dtype_of_state(q, u)
    q, u = jax.tree.map(lambda x: jnp.asarray(x, dtype), (q, u))
    check_no_estimator(controller)
    check_first_trajectory((system, q, u, controller), jnp.asarray(t, dtype), None)
    M, off = _linear(system, (q, u), controller, jnp.asarray(t, dtype), steps, route)
    check_stays(off)
    return M


@compiled
def _linear(system, state, controller: Sampled, t, steps: int, route):
    """(M, the change of the state in one period)."""
    law, dtype = controller.law, t.dtype
    plan = Periods(1, steps, route, (0, 0), None, None, controller.delay)
    memory = law.start() if has_memory(law) else None
    command = law.step(memory, t, *state)[0] if has_memory(law) else law(t, *state)
    command = jnp.asarray(command, dtype)
    others, whole = ravel_pytree(((command,) * max(controller.delay, 1), memory))
    d, zero = tangent_size(system), jnp.zeros((), dtype)

    def period(z):
        commands, memory = whole(z[d:])
        loop = Loop(*retract(system, state, z[:d]), commands, None, memory)
        parts = system, None, None, controller
        loop, applied = decided(parts, loop, (t, zero, None, None), plan)
        loop = after_period(parts, loop, (t, zero), applied, plan)
        rest: Any = (loop.commands, loop.memory)
        return jnp.concatenate([local(system, state, (loop.q, loop.u)), ravel_pytree(rest)[0]])

    first = jnp.concatenate([jnp.zeros(d, dtype), others.astype(dtype)])
    return jax.jacfwd(period)(first), (period(first) - first)[:d]
