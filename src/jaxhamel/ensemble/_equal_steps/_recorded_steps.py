"""Equal steps under a recorded control: whether they end at the record's times, and stages that end before its jumps."""

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Control
from jaxhamel.ensemble._checks._members import refuse_record_within_steps
from jaxhamel.ensemble._methods._group_steps import CommutatorFree, MuntheKaas
from jaxhamel.mechanics._controls._recorded import Recorded, records_in
from jaxhamel.simulate._solvers._runge_kutta import Tableau
from jaxhamel.simulate._step_size import steps_in


def end_at_records(control: Control, ts: Any, dt: Any) -> bool:
    """Whether no step contains a time of a record; True for any other control. `ts` and `dt` are known."""
    records = records_in(control)
    return not records or time_within_step(records, ts, dt) is None


def time_within_step(records: list[Recorded], ts: Any, dt: Any) -> float | None:
    """A time of the records within a step, None if there is none, NaN if a record is traced."""
    if _checks.any_tracer([record.edges for record in records]):
        return math.nan
    edges = np.concatenate([np.ravel(np.asarray(record.edges)) for record in records])
    ends = _ends(np.asarray(ts, float), float(dt))
    times = np.unique(edges)
    times = times[(times > ends[0]) & (times < ends[-1])]
    near = _near(ends, edges)
    after = ends[np.clip(np.searchsorted(ends, times), 0, len(ends) - 1)]
    before = ends[np.clip(np.searchsorted(ends, times) - 1, 0, len(ends) - 1)]
    inside = (after - times > near) & (times - before > near)
    return float(times[inside][0]) if inside.any() else None


def before_jumps(method: Any, control: Control, ts: Any, dt: Any) -> Any:
    """The method whose stages at the end of a step come earlier by rounding, so that they see the value before a jump.

    The shift of c is a power of two: it is a constant of the program, and nearly equal times share one.

    **Raises:** `ValueError` for a record with a time within a step.
    """
    records = records_in(control)
    if not records:
        return method
    within = time_within_step(records, ts, dt)
    if within is not None:
        refuse_record_within_steps(within)
    if all(record.between == "linear" for record in records):
        return method
    ends = _ends(np.asarray(ts, float), float(dt))
    near = max(_near(ends, np.asarray(record.edges)) for record in records)
    share = 2 * near / float(np.min(np.diff(ends)))
    return _earlier(method, 2.0 ** math.ceil(math.log2(share)))


def _ends(ts: np.ndarray, dt: float) -> Float[np.ndarray, " S"]:
    """The ends of all steps, and the first time."""
    parts = [
        np.linspace(a, b, n + 1)[1:]
        for a, b, n in zip(ts[:-1], ts[1:], steps_in(ts, dt), strict=True)
    ]
    return np.concatenate([ts[:1], *parts])


def _near(ends: np.ndarray, edges: Array | np.ndarray) -> float:
    """The difference up to which two times count as equal."""
    largest = max(np.max(np.abs(ends)), np.max(np.abs(np.asarray(edges))))
    return 8 * float(np.finfo(edges.dtype).eps) * float(largest)


def _earlier(method: Any, share: float) -> Any:
    def shifted(nodes):
        return tuple(min(c, 1.0 - share) for c in nodes)

    if isinstance(method, Tableau):
        return method._replace(c=shifted(method.c))
    if isinstance(method, MuntheKaas):
        return MuntheKaas(_earlier(method.tableau, share))
    assert isinstance(method, CommutatorFree)
    return method._replace(nodes=shifted(method.nodes))
