"""The figures and the headline numbers of an ensemble, for the report of `montecarlo`."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel.cli._objects._ensemble_model import EnsembleModel
from jaxhamel.ensemble import Study
from jaxhamel.systems import RollingBall
from jaxhamel.viz import (
    Chart,
    coordinates_figure,
    fan_figure,
    growth_figure,
    histograms_figure,
    landing_figure,
)
from jaxhamel.viz._motion._charts_of import symbol, with_unit
from jaxhamel.viz._motion._many_motions import (
    coordinates_of,
    traced,
    traced_by_all,
    traced_point,
)
from jaxhamel.viz._motion._run import ShownMotion

PATHS_SHOWN = 200  # number of trajectories drawn in the fan of paths

LABELS = {
    "end_x": "x at the end / m",
    "end_y": "y at the end / m",
    "min_normal_force": "smallest normal force / N",
    "max_friction": "friction coefficient needed in contact",
    "tracking_rms": "tracking error, RMS / m",
    "tracking_max": "tracking error, largest / m",
}


def _labels_of_ends(run: ShownMotion) -> dict[str, str]:
    """The label of each number of the last state, with its unit."""
    found = {}
    for part, values in run.parts:
        size = values.shape[1]
        for name, unit in zip(part.names(size), part.units(size), strict=False):
            found[f"end_{name}"] = with_unit(f"{symbol(name)} at the end", unit)
    return found


def tiles(statistics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headline numbers of an ensemble as (value, meaning), for the report."""
    found = []
    if statistics.get("lift_off", {}).get("probability"):
        found.append(
            (f"{100 * statistics['lift_off']['probability']:.3g} %", "would leave the ground")
        )
    if "slip" in statistics:
        found.append((f"{100 * statistics['slip']['probability']:.3g} %", "would slip"))
    rms = statistics["quantities"].get("tracking_rms", {})
    if rms.get("n"):
        most = 1e3 * rms["quantiles"]["0.95"]["value"]
        found.append((f"{most:.3g} mm", "tracking error, 95 % below"))
    return found


def charts(study: Study, model: EnsembleModel, run: ShownMotion) -> list[Chart]:
    """Charts of the paths and, for a system without a ball, of the coordinates of many trajectories, and a histogram of each
    quantity.
    """
    finite = {name: x[np.isfinite(x)] for name, x in study.values.items()}
    labels = _labels_of_ends(run) | LABELS
    shown = {labels.get(name, name): x for name, x in finite.items() if len(x)}
    first = jax.tree.map(lambda x: x[: min(PATHS_SHOWN, study.trajectories)], study.first)
    found = []
    if isinstance(model.nominal.system, RollingBall):
        if len(finite["end_x"]):
            ends = np.column_stack([finite["end_x"], finite["end_y"]])
            title = "Paths on the ground"
            found += _path_charts(
                model.ts, first, run.ts, np.asarray(run.q[1]), ends, title, ("x", "y")
            )
    else:
        found += [*_traced_charts(model.ts, first, run), *_coordinate_charts(model.ts, first, run)]
    if shown:
        figure = histograms_figure(shown)
        found.append(Chart("histograms", figure, "Histogram of each quantity with its quantiles"))
    return found


def _traced_charts(ts: np.ndarray, q: Any, run: ShownMotion) -> list[Chart]:
    """The charts of the paths of the point that the system's drawing traces; empty if all move along one line."""
    q, nominal, times = jax.tree.map(jnp.asarray, (q, run.q, run.ts))
    everywhere = jax.tree.map(
        lambda x, y: jnp.concatenate([x, y.reshape(-1, *x.shape[1:])]), nominal, q
    )
    finite = np.isfinite(np.concatenate(list(map(_rows, jax.tree.leaves(everywhere))), axis=1)).all(
        axis=1
    )
    all_times = jnp.concatenate([times, jnp.tile(ts, len(jax.tree.leaves(q)[0]))])[finite]
    point = traced_point(run.system, all_times, jax.tree.map(lambda x: x[finite], everywhere))
    if point is None:
        return []
    paths = traced_by_all(point, run.system, jnp.asarray(ts), q)
    ends = paths[np.isfinite(paths).all(axis=(1, 2)), -1]
    if not len(ends):
        return []
    path = traced(point, run.system, times, nominal)
    return _path_charts(ts, paths, run.ts, path, ends, "Paths", point.labels)


def _rows(x: Any) -> np.ndarray:
    return np.asarray(x).reshape(len(x), -1)


def _path_charts(
    ts: np.ndarray,
    paths: Float[np.ndarray, "B T 2"],
    times: np.ndarray,
    nominal: Float[np.ndarray, "S 2"],
    ends: Float[np.ndarray, "N 2"],
    title: str,
    labels: tuple[str, str],
) -> list[Chart]:
    """Charts of the paths at the times `ts`, their distances from the nominal path (given at `times`), and their ends."""
    fan = fan_figure(paths, nominal, title=title, labels=labels)
    landing = landing_figure(ends, nominal[-1], labels=labels)
    growth = growth_figure(ts, np.linalg.norm(paths - _at(ts, times, nominal), axis=-1))
    return [
        Chart("fan", fan, "Paths of many trajectories and the nominal one"),
        Chart("growth", growth, "How far the trajectories are from the nominal one at each time"),
        Chart("landing", landing, "Where the trajectories end, with the ellipses of half and 95 %"),
    ]


def _coordinate_charts(ts: np.ndarray, q: Any, run: ShownMotion) -> Iterator[Chart]:
    """Yields the chart of the coordinates over time, if the system has any besides an orientation."""
    names, units, nominal = coordinates_of(run.system, run.q)
    if names:
        labels = [with_unit(symbol(x), unit) for x, unit in zip(names, units, strict=True)]
        values = coordinates_of(run.system, q)[-1]
        figure = coordinates_figure(ts, values, _at(ts, run.ts, nominal), labels)
        yield Chart("coordinates", figure, "Coordinates of the trajectories over time")


def _at(
    ts: np.ndarray, times: np.ndarray, values: Float[np.ndarray, "S n"]
) -> Float[np.ndarray, "T n"]:
    """Values at the times `ts`, by linear interpolation of those at `times`."""
    return np.column_stack([np.interp(ts, times, x) for x in values.T])
