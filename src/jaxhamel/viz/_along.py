"""Evaluates functions along a simulated motion, and the rails on which masses move, as NumPy arrays."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with

RAIL_POINTS = 73
FULL_TURN = np.linspace(0.0, 2.0 * np.pi, RAIL_POINTS)


def along(function: Callable[..., Any], *states: Any, fixed: tuple[Any, ...] = ()) -> Any:
    """The values of function(*state, *fixed) at every time; each of the `states` and each result has a leading time axis.

    If the function is a module or a method of one, its compiled program serves also for other values of its arrays.
    """
    return jax.tree.map(np.asarray, _mapped(function, states, fixed))


@compiled_with(QUICK)
def _mapped(function: Callable[..., Any], states: tuple[Any, ...], fixed: tuple[Any, ...]) -> Any:
    # through a lambda, since equinox warns if a module (a control, a path) itself is transformed
    return jax.vmap(lambda *state: function(*state, *fixed))(*states)


def mass_positions(
    system: Any, control: Any, ts: Float[ndarray, " T"]
) -> tuple[Float[ndarray, "T n"], Float[ndarray, "T n 3"]]:
    """The rail parameters θ(t) of all masses, and the positions of the masses in the body frame [m]."""
    if system.n_masses == 0:
        return np.zeros((len(ts), 0)), np.zeros((len(ts), 0, 3))
    angles = along(control, ts)
    return angles, along(system.rails, angles)


def rail_lines(
    rails: Callable[[Float[ndarray, " n"]], Float[ndarray, "n 3"]] | None,
    angles: Float[ndarray, "T n"],
) -> Float[ndarray, "n P 3"]:
    """Every rail as a polyline of P points in the body frame [m]: the whole rail if it is closed after 2π, otherwise the
    part that its mass uses.

    **Arguments:**

    - `rails`: the function from the rail parameters `(n,)` to the positions `(n, 3)` in m, as in `jaxhamel.systems`; None
      without masses.
    - `angles`: the rail parameters of the masses along the motion, `(T, n)`.
    """
    if rails is None or angles.shape[1] == 0:
        return np.zeros((0, RAIL_POINTS, 3))
    low, high = angles.min(axis=0), angles.max(axis=0)
    between = low + np.linspace(-0.04, 1.04, RAIL_POINTS)[:, None] * (high - low)
    around = np.broadcast_to(FULL_TURN[:, None], between.shape)
    found = _rail_points(rails, np.concatenate([[low, low + 2 * np.pi], around, between]))
    start, end, around, between = np.split(found, [1, 2, 2 + RAIL_POINTS])
    closed = np.all(np.abs(start - end) < 1e-5, axis=-1)[..., None]
    return np.moveaxis(np.where(closed, around, between), 1, 0)


def _rail_points(
    rails: Callable[..., Any], thetas: Float[ndarray, "P n"]
) -> Float[ndarray, "P n 3"]:
    """The positions of all masses at P sets of rail parameters."""
    if issubclass(type(rails), eqx.Module):  # in one program instead of eight small ones
        return along(rails, thetas)
    return np.stack([np.asarray(rails(theta), dtype=float) for theta in thetas])
