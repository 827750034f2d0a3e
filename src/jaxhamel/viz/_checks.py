"""Checks of the data of figures."""

import numpy as np

from jaxhamel._words import counted


def check_frames(name: str, value, count: int) -> None:
    """Checks that an array has one row for each of `count` times, with finite entries."""
    array = np.asarray(value)
    if array.ndim == 0 or len(array) != count:
        raise ValueError(
            f"`{name}` has shape {array.shape}; its first axis must have length {count}, one row for each entry of `ts`. "
            "Give arrays sampled at the same times."
        )
    if not np.all(np.isfinite(array)):
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(
            f"`{name}` is not finite at row {row}; a picture needs finite numbers. "
            "Give the arrays only up to the time at which the simulation broke down."
        )


def check_shape_plane(limits, plane, at) -> None:
    """Checks the plane of shapes to be drawn.

    `limits` are two increasing intervals, `plane` the indices of two different shape coordinates, and `at` has values for
    all shape coordinates if there are more than two.
    """
    array = np.asarray(limits, dtype=float)
    if (
        array.shape != (2, 2)
        or not np.all(np.isfinite(array))
        or not np.all(array[:, 0] < array[:, 1])
    ):
        raise ValueError(
            f"`limits` is {limits!r}; it must be ((low, high), (low, high)), low below high, for the two shape "
            "coordinates that are drawn. Give for example ((-1.5, 1.5), (-1.5, 1.5))."
        )
    m = 2 if at is None else np.size(at)
    if len(set(plane)) != 2 or not all(0 <= axis < m for axis in plane):
        raise ValueError(
            f"`plane` is {plane!r}; it must be two different shape coordinates below {m}, such as (0, 1). "
            "With more than two shape coordinates give all their values in `at`."
        )


def check_names(name: str, value, count: int) -> None:
    """Checks that there is a name for each of `count` rows of a connection."""
    if len(value) != count:
        raise ValueError(
            f"`{name}` has {counted(len(value), 'entry')}; the connection has {counted(count, 'row')}, one for each group "
            f"direction. Give {count}."
        )


def check_gait_curve(name: str, value) -> None:
    """Checks that a curve in shape space has at least nine finite points with at least two coordinates each."""
    array = np.asarray(value)
    if (
        array.ndim != 2
        or array.shape[0] < 9
        or array.shape[1] < 2
        or not np.all(np.isfinite(array))
    ):
        raise ValueError(
            f"the gait {name!r} in `gaits` has shape {array.shape}; it must be an array (T, m) of finite points along the "
            "loop, with T at least 9. Sample the curve: jax.vmap(curve)(times)."
        )


def check_planar_path(name: str, value) -> None:
    """Checks that a planar path is an array (T, 3) of at least two finite poses (angle, x, y)."""
    array = np.asarray(value)
    if array.ndim != 2 or array.shape[1] != 3 or len(array) < 2 or not np.all(np.isfinite(array)):
        raise ValueError(
            f"`{name}` has shape {array.shape}; it must be an array (T, 3) of finite poses (angle, x, y), such as g of "
            "control.gait_motion on SE2()."
        )
