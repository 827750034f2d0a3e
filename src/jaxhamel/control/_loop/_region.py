"""The region of initial states or parameters in which a controller reaches its goal, found by simulations on a grid."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration
from jaxhamel.control._checks._closed_loop import check_closed_loop
from jaxhamel.control._checks._region import check_goal, check_grid, check_held_function
from jaxhamel.control._loop._closed_loop import closed_loop
from jaxhamel.control._loop._sampled import Sampled
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._system import check_state
from jaxhamel.mechanics._tangent import MotionState, local, retract, tangent_size
from jaxhamel.simulate._simulate import dtype_of_state

BYTES_AT_ONCE = 2**28  # largest size [bytes] of the motions that are computed at once
GridDirection = ArrayLike | Callable[[Any, Any], Any]


class Region(NamedTuple):
    """The outcome of `region` on its grid.

    - `values`: a and b on the grid, `(A,)` and `(B,)`; `held`: whether the motion is held (`region`), `(A, B)`.
    - `distance`: of the last state from the goal, max_i |δ_i| / tolerance_i, `(A, B)`; infinite where a motion breaks down.
    """

    values: tuple[Float[np.ndarray, " A"], Float[np.ndarray, " B"]]
    held: Bool[np.ndarray, "A B"]
    distance: Float[np.ndarray, "A B"]

    @property
    def share(self) -> float:
        """The share of the grid's points whose motion is held."""
        return float(np.mean(self.held))


def region(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    controller: Sampled,
    samples: int,
    *,
    along: tuple[GridDirection, GridDirection],
    values: tuple[ArrayLike, ArrayLike],
    tolerance: ArrayLike = 0.1,
    goal: MotionState | None = None,
    held: Callable[[Array, Configuration, Array], Any] | None = None,
    t0: ArrayLike = 0.0,
    steps: int = 2,
    key: Any = None,
    route: str | None = None,
) -> Region:
    """Simulates a closed loop for a grid of initial states or parameters (a, b), and tells for which the motion is held:

        x_0 = (q0 exp(δ_q), u0 + δ_u) ,    δ = a d_1 + b d_2 ,
        held  ⇔  |δ_i| ≤ tolerance_i ,  (q_goal exp(δ_q), u_goal + δ_u) being the state after K periods.

    **Arguments:**

    - `system`, `q0`, `u0`, `controller`, `samples` (K), `t0`, `steps`, `key`, `route`: as for `closed_loop`.
    - `along`: for each of a and b a direction d of the initial state in the tangent space, `(n+k,)`; or a function of
      (system, controller) that selects an array of one of them, all of whose entries are set to a or b:
      `lambda system, controller: system.mass`.
    - `values`: of a and of b, `(A,)` and `(B,)`.
    - `tolerance`: a number or `(n+k,)`.
    - `goal`: (q, u); default: for a `Regulator` the plan's state after K periods, otherwise (q0, u0).
    - `held`: a function (ts, q, u) → bool that decides for the motion of one loop, in place of the tolerance; `ts` is
      `(K+1,)`, q and u have a leading time axis. A motion that breaks down is never held.

    **Returns:** a `Region`.

    **Raises:** `ValueError` or `TypeError` for directions, values or tolerances that do not fit, and as `closed_loop`.

    All loops run in lanes, in parts of at most 256 MiB. Other values on a grid of the same size do not compile again.
    """
    check_closed_loop(system, (q0, u0, t0), controller, (samples, steps, key), route)
    dtype = dtype_of_state(q0, u0)
    start: Any = _cast((q0, u0), dtype)
    check_state(system, *start)
    grid = check_grid((system, controller), along, values, tangent_size(system))
    last = jnp.asarray(t0, dtype) + samples * controller.period.astype(dtype)
    goal = _goal(controller.law, last, start) if goal is None else goal
    check_goal(system, goal, tolerance)
    wanted = _cast((goal, tolerance), dtype)
    check_held_function(held, start, samples + 1)
    parts = _equal_parts(grid, _bytes(system, controller, samples, dtype))
    answers = []
    for i, part in enumerate(parts):
        changed, axes = _changed(system, controller, start, along, jnp.asarray(part, dtype))
        found = closed_loop(
            *changed, samples, t0=t0, steps=steps, key=_part_of(key, i), in_axes=axes, route=route
        )
        answers.append(_held_and_distance(system, wanted, held, found))
    shape, count = (len(grid[0]), len(grid[1])), len(grid[0]) * len(grid[1])
    both = [np.concatenate(x)[:count].reshape(shape) for x in zip(*answers, strict=True)]
    return Region(grid, *both)


def _cast(value: Any, dtype: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), value)


def _goal(law: Any, last: Array, start: MotionState) -> MotionState:
    return law.plan(last)[:2] if hasattr(law, "plan") else start


def _part_of(key: Any, i: int) -> Any:
    return None if key is None else jax.random.fold_in(key, i)


def _bytes(system: System, controller: Sampled, samples: int, dtype: Any) -> int:
    """The approximate number of bytes of one motion."""
    width = 2 * tangent_size(system) + (system.n_controls or 0) + controller.delay
    return samples * width * np.dtype(dtype).itemsize


def _equal_parts(
    values: tuple[np.ndarray, np.ndarray], size: int
) -> list[Float[np.ndarray, "N 2"]]:
    """All points of the grid in parts of equal length, for one program; copies of the last point fill the last part."""
    points = np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, 2)
    count = -(-len(points) * size // BYTES_AT_ONCE)
    length = -(-len(points) // count)
    filled = points[np.minimum(np.arange(count * length), len(points) - 1)]
    return list(filled.reshape(count, length, 2))


def _changed(system, controller, start: MotionState, along, points: Float[Array, "N 2"]):
    """((system, q, u, controller) for all points, with a leading axis where they differ; the axes of these arguments)."""
    parts = system, controller
    axes, size = jax.tree.map(lambda x: None, parts), tangent_size(system)
    delta = jnp.zeros((len(points), size), points.dtype)
    for direction, value in zip(along, points.T, strict=True):
        if callable(direction):

            def where(both, direction=direction) -> Any:
                return direction(*both)

            old = where(parts)
            new = jnp.broadcast_to(value.reshape(-1, *[1] * old.ndim), (len(value), *old.shape))
            parts = eqx.tree_at(where, parts, new.astype(old.dtype))
            axes = eqx.tree_at(where, axes, 0, is_leaf=lambda x: x is None)
        else:
            delta = delta + jnp.outer(value, jnp.asarray(direction, points.dtype))
    q, u = _states_around(system, start, delta)
    return (parts[0], q, u, parts[1]), (axes[0], 0, 0, axes[1])


@compiled
def _states_around(system, start: MotionState, deltas: Array) -> MotionState:
    return jax.vmap(lambda delta: retract(system, start, delta))(deltas)


@compiled
def _held_and_distance(system, wanted, held, found):
    """Returns whether the controller holds each motion, and the distance of each last state from the goal."""
    goal, tolerance = wanted
    end = jax.tree.map(lambda x: x[:, -1], (found.q, found.u))

    def away(state):
        return jnp.max(jnp.abs(local(system, goal, state)) / tolerance)

    distance = jax.vmap(away)(end)
    distance = jnp.where(found.succeeded & jnp.isfinite(distance), distance, jnp.inf)
    if held is None:
        return distance <= 1, distance
    of_all = jax.vmap(held, (0, 0, 0))(found.ts, found.q, found.u)
    return of_all & found.succeeded, distance
