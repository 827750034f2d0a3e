"""Cuts runs into segments of equal shape, which are integrated in parallel.

A segment has the times t_0 < … < t_K of its measurements, with one or more integration steps between neighbouring times. It
starts at a node, whose state is unknown. Shorter segments are padded with intervals of length zero without measurements.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxhamel.control import Spline
from jaxhamel.identify._checks._runs import check_column_count
from jaxhamel.identify._data._measurements import AbstractMeasurement
from jaxhamel.identify._data._runs import Run
from jaxhamel.mechanics._controls._recorded import Recorded


class Segments(eqx.Module):
    """N segments of runs whose controls have the same pytree structure.

    - `ts`: times of the measurements, `(N, K+1)`; `counts`: steps in each interval, `(K,)`, the same for all segments.
    - `values`: the measured values, `(N, K+1, d)` for each measurement; `there`: 1 for a measured value, 0 for a missing
      one, `(N, K+1, r)`, with the error components of all measurements one after the other; `weight`: the factor of the
      residuals at each time, `(N, K+1)`.
    - `run`: index of the segment's run, `(N,)`; `first`, `last`: whether the segment is the first or last of its run.
    - `control`: the runs' controls, each array with a leading axis of N; `row`: index of the node's time in its run.
    """

    ts: Float[Array, "N K+1"]
    counts: Int[Array, " K"]
    values: tuple[Float[Array, "N K+1 d"], ...]
    there: Float[Array, "N K+1 r"]
    weight: Float[Array, "N K+1"]
    run: Int[Array, " N"]
    first: Bool[Array, " N"]
    last: Bool[Array, " N"]
    control: Any
    row: np.ndarray = eqx.field(static=False)

    @property
    def count(self) -> int:
        """The number N of segments."""
        return self.ts.shape[0]


def segments_of(
    runs: Sequence[Run],
    measurements: tuple[AbstractMeasurement, ...],
    count: Sequence[int],
    dt: float | None,
) -> tuple[Segments, ...]:
    """Cuts run i into `count[i]` segments; runs whose controls have the same pytree structure form one group."""
    groups: dict[Any, list[int]] = {}
    for i, run in enumerate(runs):
        groups.setdefault(_structure(run.control), []).append(i)
    return tuple(
        _segments_of_group(runs, members, measurements, count, dt) for members in groups.values()
    )


def _structure(control) -> Any:
    # segments have parts of a record or a spline, padded to one length
    if isinstance(control, Recorded):
        return "recorded", control.between, control.values.shape[1:], control.values.dtype
    if isinstance(control, Spline):
        return "spline", control.degree, control.coefficients.shape[1:], control.coefficients.dtype
    arrays, others = eqx.partition(control, eqx.is_array)
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(arrays))
    structure = jax.tree.structure(arrays)
    return structure, shapes, tuple(jax.tree.leaves(others))


def _segments_of_group(runs, members, measurements, count, dt) -> Segments:
    pieces = [
        (i, row, *piece) for i in members for row, piece in _pieces(runs[i], measurements, count[i])
    ]
    length = max(len(ts) for _, _, ts, *_ in pieces)
    dtype = jnp.result_type(float)
    padded = [_padded(length, *piece) for _, _, *piece in pieces]
    ts, values, there, weight = (
        np.stack([p[0] for p in padded]),
        [np.stack(v) for v in zip(*(p[1] for p in padded), strict=True)],
        np.stack([p[2] for p in padded]),
        np.stack([p[3] for p in padded]),
    )
    run = np.array([i for i, *_ in pieces])
    return Segments(
        ts=jnp.asarray(ts, dtype),
        counts=jnp.asarray(_steps_in_intervals(ts, dt)),
        values=tuple(jnp.asarray(v, dtype) for v in values),
        there=jnp.asarray(there, dtype),
        weight=jnp.asarray(weight, dtype),
        run=jnp.asarray(run),
        first=jnp.asarray(np.append(True, np.diff(run) != 0)),
        last=jnp.asarray(np.append(np.diff(run) != 0, True)),
        control=_stacked(_controls_during(ts, [runs[i].control for i in run])),
        row=np.array([row for _, row, *_ in pieces]),
    )


def _controls_during(ts: np.ndarray, controls: list[Any]) -> list[Any]:
    """The controls of segments with the times `ts`, `(N, K+1)`: of records and splines only the rows that act there."""
    if not isinstance(controls[0], Recorded | Spline):
        return controls
    parts = [c.part(row[0], row[-1]) for c, row in zip(controls, ts, strict=True)]
    longest = max(len(jax.tree.leaves(part)[0]) for part in parts)
    return [part.padded(longest) for part in parts]


def _stacked(controls: list[Any]) -> Any:
    arrays = [eqx.filter(control, eqx.is_array) for control in controls]
    others = eqx.filter(controls[0], eqx.is_array, inverse=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), others)


def _pieces(run: Run, measurements, count: int):
    """Yields for each segment of a run the row of its node, and its times, values, mask of measured values, and weights."""
    rows = len(run.ts)
    nodes = np.unique(np.linspace(0, rows - 1, min(count, max(rows - 1, 1)) + 1).astype(int))
    values, there = _values_and_mask(run, measurements)
    ends = nodes[1:] if len(nodes) > 1 else np.array([0])
    for k, end in enumerate(ends):
        start = int(nodes[k])
        keep = np.arange(start, end + 1)
        seen = there[keep].copy()
        if k < len(ends) - 1:
            # the measurements at the end are the first row of the next segment
            seen[-1] = 0.0
        yield start, (run.ts[keep], [v[keep] for v in values], seen, np.sqrt(run.weights[keep]))


def _values_and_mask(run: Run, measurements):
    """The values, with missing ones replaced by placeholders, and a mask of the measured ones."""
    values, there = [], []
    for measurement in measurements:
        given = run.values.get(measurement.name)
        if given is None:
            given = np.full((len(run.ts), measurement.size), np.nan)
        check_column_count(run.name, measurement.name, given.shape[1], measurement.size)
        known = np.isfinite(given)
        if measurement.error_size != measurement.size:
            known = np.broadcast_to(known.all(axis=1, keepdims=True), known.shape)
        values.append(np.where(known, given, np.asarray(measurement.missing)))
        there.append(known[:, : measurement.error_size].astype(float))
    return values, np.concatenate(there, axis=1)


def _steps_in_intervals(ts: np.ndarray, dt: float | None) -> np.ndarray:
    """The number of steps in each interval, `(K,)`, such that no segment has a step longer than dt; 1 if dt is None."""
    longest = np.max(np.diff(ts, axis=1), axis=0)
    if dt is None:
        return np.ones(len(longest), int)
    return np.maximum(np.ceil(longest / dt - 1e-6).astype(int), 1)


def _padded(length: int, ts, values, there, weight):
    """A segment with `length` times: the last one is repeated, without measurements."""
    more = length - len(ts)

    def repeat(x):
        return np.concatenate([x, np.repeat(x[-1:], more, axis=0)])

    nothing = np.zeros((more, there.shape[1]))
    there = np.concatenate([there, nothing])
    return repeat(ts), [repeat(v) for v in values], there, repeat(weight)


def shortened(group: Segments, share: float) -> Segments:
    """The segments with only the measurements in the first part `share` of each; those at its first three times stay."""
    ts = np.asarray(group.ts)
    early = ts <= ts[:, :1] + share * (ts[:, -1:] - ts[:, :1]) + 1e-12
    early[:, :3] = True
    there = group.there * jnp.asarray(early[:, :, None], group.there.dtype)
    return eqx.tree_at(lambda g: g.there, group, there)


def refined(group: Segments, factor: int) -> Segments:
    """The segments with `factor` times as many steps."""
    return eqx.tree_at(lambda g: g.counts, group, group.counts * factor)
