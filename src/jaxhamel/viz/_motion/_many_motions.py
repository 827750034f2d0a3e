"""Paths and coordinates of many motions of one system, for figures. The paths are those of the point that the system's
drawing traces.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel.geometry._quaternion import quaternion_rotate
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._declarations import state_of

FLAT = 0.01  # a path counts as a line if its width is smaller than this share of its length


class TracedPoint(eqx.Module):
    """A point of a body, projected onto the plane of the two coordinate axes along which the plan moves it.

    - `point`: `(3,)` in the body's axes [m].
    - `body`: index of the body in `System.places`.
    - `axes`: the two axes of the plane, 0, 1, 2 for x, y, z.
    """

    point: Float[Array, " 3"]
    body: int = eqx.field(static=True)
    axes: tuple[int, int] = eqx.field(static=True)

    @property
    def labels(self) -> tuple[str, str]:
        """The names of the two axes of the plane, such as ("x", "z")."""
        first, second = self.axes
        return "xyz"[first], "xyz"[second]


def traced_point(system: System, ts: Array, q: Any) -> TracedPoint | None:
    """The first point that the system's drawing traces; without one, the origin of its first body.

    None for a system without bodies, or if the plan `q` moves the point along a straight line only.
    """
    at_start = jax.tree.map(lambda x: x[0], q)
    if not jax.eval_shape(lambda t, q: system.places(t, q, None), ts[0], at_start):
        return None
    shapes = enumerate(shape.trail for shape in system.shapes())
    body, trail = next(((i, x) for i, x in shapes if x is not None), (0, np.zeros(3)))
    point = TracedPoint(jnp.asarray(trail, ts.dtype), body, (0, 1))
    extent = np.ptp(np.asarray(_positions(point, system, ts, q)), axis=0)
    first, second = sorted(np.argsort(-extent, kind="stable")[:2].tolist())
    if min(extent[first], extent[second]) <= FLAT * max(extent):
        return None
    return TracedPoint(point.point, body, (first, second))


def traced(point: TracedPoint, system: System, ts: Array, q: Any) -> Float[np.ndarray, "K 2"]:
    """The positions of the point in its plane at the times `ts` [m]."""
    return np.asarray(_positions(point, system, ts, q))[:, list(point.axes)]


def traced_by_all(
    point: TracedPoint, system: System, ts: Array, q: Any
) -> Float[np.ndarray, "B K 2"]:
    """The positions of the point on many robots [m]; all robots are taken to have the lengths of the planned system."""
    return np.asarray(_of_all(point, system, ts, q))[..., list(point.axes)]


@compiled
def _positions(point: TracedPoint, system: System, ts: Array, q: Any) -> Float[Array, "K 3"]:
    return _positions_along(point, system, ts, q)


@compiled
def _of_all(point: TracedPoint, system: System, ts: Array, q: Any) -> Float[Array, "B K 3"]:
    return jax.vmap(lambda q: _positions_along(point, system, ts, q))(q)


def _positions_along(point: TracedPoint, system: System, ts: Array, q: Any) -> Float[Array, "K 3"]:
    def at(t, q):
        turned, position = system.places(t, q, None)[point.body]
        return position + quaternion_rotate(turned, point.point)

    return jax.vmap(at)(ts, q)


def coordinates_of(system: System, q: Any) -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray]:
    """Names, units and values of the coordinates that are plotted over time.

    `q` has leading axes, such as robots and times; the values have the same, followed by one axis of coordinates.
    """
    names, units, columns = [], [], []
    for part, x in zip(state_of(system).q, jax.tree.leaves(q), strict=True):
        if part.chart and part.columns:
            names.extend(part.names(x.shape[-1]))
            units.extend(part.units(x.shape[-1]))
            columns.append(np.asarray(x))
    whole = np.concatenate(columns, axis=-1) if columns else np.zeros((*_leading(q), 0))
    return tuple(names), tuple(units), whole


def _leading(q: Any) -> tuple[int, ...]:
    return jax.tree.leaves(q)[0].shape[:-1]
