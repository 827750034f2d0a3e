"""Validates the arguments of `ensemble.simulate` other than its members."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.core
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._shapes import shapes_of
from jaxhamel.ensemble._members._members import Members
from jaxhamel.mechanics import ROUTES
from jaxhamel.mechanics._controls._at_start import at_start
from jaxhamel.mechanics._controls._control import Feedback
from jaxhamel.simulate._simulate import dtype_of_state


def times_checked(
    members: Members, ts: ArrayLike, options: Mapping[str, Any]
) -> Float[Array | np.ndarray, " T"]:
    """Checks the times, and converts them to the dtype of the state.

    **Raises:** `ValueError` or `TypeError` as `jaxhamel.simulate` does: for wrong shapes, and for wrong values that all
    trajectories share.
    """
    system, q0, u0, control = members.with_own(members.own)
    _checks.check_arrays(ts=ts)
    dtype = dtype_of_state(q0, u0)
    traced = isinstance(ts, jax.core.Tracer)
    times = ts.astype(dtype) if traced else np.asarray(ts, dtype)  # known under jit, too
    _checks.check_times(times)
    _checks.check_steps(*(options.get(name) for name in ("rtol", "atol", "dt")))
    _checks.check_options(
        *(options.get(name) for name in ("solver", "adjoint", "max_steps", "route"))
    )
    _checks.check_route(options.get("route"), ROUTES)
    _motion_shapes(members, times)
    if members.shares(3) and not isinstance(control, Feedback):
        _checks.check_control_along(times, control)
    if members.shares(0) and members.shares(1):
        _checks.check_frame_at(system, times[0], q0)
    return times


@shapes_of
def _motion_shapes(members: Members, ts: Float[Array, " T"]) -> None:
    """Checks the shapes that frame and control return; traced once for each kind of ensemble, because tracing is slow."""

    def check(*own):
        system, q0, u0, control = members.with_own(own)
        system.check_control(ts[0], at_start(system, ts[0], q0, u0, control))
        _checks.check_frame_at(system, ts[0], q0)
        return own

    jax.vmap(check)(*members.own)
