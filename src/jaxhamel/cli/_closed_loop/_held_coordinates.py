"""The coordinates of many robots over time, with feedback and without, and those of their plan."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel._compiled import compiled
from jaxhamel.control import Regulator
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._declarations import state_of


class HeldCoordinates(NamedTuple):
    """The n coordinates of B robots at T times: with feedback (`closed`), without (`open_loop`), and as planned (`plan`)."""

    names: tuple[str, ...]
    closed: Float[np.ndarray, "B T n"]
    open_loop: Float[np.ndarray, "B T n"]
    plan: Float[np.ndarray, "T n"]


def coordinates_of(system: System, q: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and values of the coordinates that are plotted over time.

    `q` has leading axes, such as robots and times; the values have the same, followed by one axis of coordinates.
    """
    names, columns = [], []
    for part, x in zip(state_of(system).q, jax.tree.leaves(q), strict=True):
        if part.chart and part.columns:
            names.extend(part.names(x.shape[-1]))
            columns.append(np.asarray(x))
    whole = np.concatenate(columns, axis=-1) if columns else np.zeros((*_leading(q), 0))
    return tuple(names), whole


def _leading(q: Any) -> tuple[int, ...]:
    return jax.tree.leaves(q)[0].shape[:-1]


def planned_coordinates(law: Regulator, system: System, ts: np.ndarray) -> np.ndarray:
    """The coordinates of the plan at the times `ts`, `(T, n)`."""
    return coordinates_of(system, _planned(law, jnp.asarray(ts)))[1]


@compiled
def _planned(law: Regulator, ts: jax.Array) -> Any:
    return jax.vmap(lambda t: law.plan(t)[0])(ts)
