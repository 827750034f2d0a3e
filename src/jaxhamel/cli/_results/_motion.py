"""A simulated motion, and what is told of it whatever the system: columns of the table, numbers, plots."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxhamel.viz import BallMotion, Chart, friction_needed, quantities_figure, root_mean_square
from jaxhamel.viz._along import along

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Run:
    """A simulated motion as NumPy arrays, up to the last finite state.

    `path` (t -> `(2,)`, asked for), `costs` `(K,)` and `friction_limit` are there for a task.
    """

    system: Any
    control: Any
    ts: np.ndarray
    q: Any
    u: np.ndarray
    path: Callable[..., Any] | None = None
    costs: np.ndarray | None = None
    friction_limit: float | None = None


# Columns of the table.


def named_columns(names: Any, values: np.ndarray) -> Columns:
    """Names, and the columns of an array."""
    return dict(zip(names, values.T, strict=True))


def orientation_columns(quaternion: np.ndarray) -> Columns:
    """A quaternion."""
    return named_columns(("qw", "qx", "qy", "qz"), quaternion)


def omega_columns(omega: np.ndarray) -> Columns:
    """A body angular velocity."""
    return named_columns(("Omega_x", "Omega_y", "Omega_z"), omega)


def theta_columns(angles: np.ndarray) -> Columns:
    """Positions of the masses on their rails."""
    return named_columns([f"theta_{i + 1}" for i in range(angles.shape[1])], angles)


# Numbers.


def contact_numbers(force: np.ndarray) -> dict[str, float]:
    """Smallest normal force, and the friction coefficient that the motion needs."""
    normal, ratio = friction_needed(force)
    needed = float(np.nanmax(ratio)) if np.all(normal > 0) else float("inf")
    return {"min_normal_force": float(np.min(normal)), "friction_needed": needed}


def contact_tiles(force: np.ndarray) -> list[tuple[str, str]]:
    """The same, to look at."""
    numbers = contact_numbers(force)
    return [
        (f"{numbers['min_normal_force']:.3g} N", "smallest normal force"),
        (f"{numbers['friction_needed']:.3g}", "friction coefficient needed"),
    ]


def tracking_numbers(motion: BallMotion) -> dict[str, float]:
    """Distance from the path that was asked for."""
    if motion.error is None:
        return {}
    rms = root_mean_square(motion.ts, motion.error)
    return {"tracking_rms": rms, "tracking_max": float(np.max(motion.error))}


def tracking_tiles(motion: BallMotion) -> list[tuple[str, str]]:
    """The same, to look at."""
    found = tracking_numbers(motion)
    return [(f"{1e3 * found['tracking_rms']:.3g} mm", "tracking error, RMS")] if found else []


def _invariants(run: Run) -> Columns:
    """Every invariant along the run, `(T, …)`."""
    return along(run.system.invariants, run.ts, run.q, run.u, fixed=(run.control,))


def relative_changes(run: Run) -> Columns:
    """|x(t) − x(0)| / |x(0)| of every invariant; absolute where it starts at zero."""
    changes = {}
    for name, values in _invariants(run).items():
        flat = values.reshape(len(run.ts), -1)
        size = float(np.linalg.norm(flat[0])) or 1.0
        changes[name] = np.linalg.norm(flat - flat[0], axis=1) / size
    return changes


def drifts_of(changes: Columns) -> dict[str, float]:
    """The largest change of each invariant."""
    return {f"drift_of_{_key(name)}": float(change.max()) for name, change in changes.items()}


def drift_tiles(drifts: Mapping[str, float]) -> list[tuple[str, str]]:
    """The same, to look at."""
    return [
        (f"{value:.1e}", f"relative drift of {name.removeprefix('drift_of_').replace('_', ' ')}")
        for name, value in drifts.items()
    ]


def drift_chart(run: Run, changes: Columns) -> list[Chart]:
    """Their changes over time; none where a system has no invariants."""
    if not changes:
        return []
    values = np.stack(list(changes.values()), axis=1)
    power = int(np.floor(np.log10(values.max()))) if values.max() > 0 else 0
    title, ylabel = "What the exact motion keeps", f"relative change / 10{_raised(power)}"
    return [quantities_chart(run, "invariants", values / 10.0**power, list(changes), title, ylabel)]


def quantities_chart(run: Run, name: str, values, names, title: str, ylabel: str) -> Chart:
    """Quantities over time."""
    figure = quantities_figure(run.ts, values, names, title=title, ylabel=ylabel)
    return Chart(name, figure, f"{title} over time")


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _key(name: str) -> str:
    return name.replace(" ", "_")


def path_length(path: np.ndarray) -> float:
    """Of a polygon, `(T, d)`."""
    return float(np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1)))


def duration(run: Run) -> float:
    """In seconds."""
    return float(run.ts[-1] - run.ts[0])


def rolled_lead(body: str, length: float, run: Run, path: np.ndarray) -> str:
    """The sentence that says how far a body rolled."""
    ends = f"from {_place(path[0])} to {_place(path[-1])}"
    return f"The {body} rolled {length:.3g} m in {duration(run):.4g} s, {ends}."


def _place(point: np.ndarray) -> str:
    shown = ", ".join(f"{x:.3g}" for x in point + 0.0)
    return f"({shown}) m" if len(point) > 1 else f"{shown} m"


def playback_speed(omega: np.ndarray) -> float:
    """Playback speed at which nothing turns faster than about 1.5 turns a second."""
    fastest = float(np.max(np.linalg.norm(omega, axis=1)))
    return min(1.0, 10.0 / max(fastest, 1e-9))
