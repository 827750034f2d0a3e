"""What is written and shown of each kind of system: columns of the table, scene, plots, numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxhamel.mechanics import velocity
from jaxhamel.viz import (
    BallMotion,
    Chart,
    Scene,
    angles_figure,
    ball_charts,
    ball_scene,
    body_scene,
    box_edges,
    disk_scene,
    forces_figure,
    friction_needed,
    inertia_box,
    path_figure,
    quantities_figure,
    rail_lines,
    root_mean_square,
    rotated,
    top_edges,
)
from jaxhamel.viz._along import along, mass_positions

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
    path: Callable | None = None
    costs: np.ndarray | None = None
    friction_limit: float | None = None


@dataclass(frozen=True, eq=False)
class View:
    """A run made presentable: `lead` is the sentence under the heading, `tiles` what matters."""

    columns: Columns
    scene: Scene
    charts: list[Chart]
    reached: Mapping[str, Any]
    tiles: list[tuple[str, str]]
    lead: str


def view(kind: str, run: Run) -> View:
    """The view of a run of a system of this kind."""
    return VIEWS[kind](run)


def _rolling_ball(run: Run) -> View:
    system = run.system
    motion = BallMotion.of(system, run.control, run.ts, run.q, run.u, run.path)
    force, angles = motion.force, motion.angles
    assert force is not None  # of a simulated ball it is known
    columns = _orientation(run.q[0]) | _named("xy", motion.position) | _omega(run.u)
    columns |= _thetas(angles) | _named(("force_x", "force_y", "force_z"), force)
    length, changes = _length(motion.position), _relative_changes(run)
    reached = {"distance": length} | _contact(force) | _tracking(motion) | _drifts(changes)
    tiles = [(f"{length:.3g} m", "rolled"), *_tracking_tiles(motion), *_contact_tiles(force)]
    lead = _rolled("ball", length, run, motion.position)
    scene = ball_scene(motion, speed=_speed(run.u))
    charts = [
        *ball_charts(motion, costs=run.costs, friction_limit=run.friction_limit),
        *_drift_chart(run, changes),
    ]
    return View(columns, scene, charts, reached, tiles, lead)


def _actuated_disk(run: Run) -> View:
    system, control = run.system, run.control
    angles, masses = mass_positions(system, control, run.ts)
    angle, position = run.q[0][:, 0], run.q[1][:, 0]
    force = along(lambda *state: system.contact_force(*state, control), run.ts, run.q, run.u)
    changes = _relative_changes(run)
    columns = {"phi": angle, "x": position, "phi_dot": run.u[:, 0]} | _thetas(angles)
    columns |= _named(("force_x", "force_y", "force_z"), force)
    rails = rail_lines(system.rails, angles)
    scene = disk_scene(run.ts, angle, position, float(system.radius), masses, rails)
    charts = [
        _quantities(run, "position", position[:, None], ["x"], "Position of the disk", "x / m")
    ]
    if angles.shape[1]:
        figure = angles_figure(run.ts, angles)
        charts.append(Chart("angles", figure, "Position of each mass on its rail over time"))
    figure = forces_figure(run.ts, force, weight=_weight(system))
    charts.append(Chart("forces", figure, "Normal force and friction needed over time"))
    reached = (
        {"displacement": float(position[-1] - position[0])} | _contact(force) | _drifts(changes)
    )
    tiles = [(f"{reached['displacement']:.3g} m", "displacement"), *_contact_tiles(force)]
    lead = _rolled("disk", _length(position[:, None]), run, position[:, None])
    return View(columns, scene, [*charts, *_drift_chart(run, changes)], reached, tiles, lead)


def _heavy_top(run: Run) -> View:
    com = np.asarray(run.system.com)
    place = rotated(run.q, com)
    size = float(np.linalg.norm(com))
    edges = top_edges(com, 0.45 * size) if size > 0 else box_edges(np.ones(3))
    scene = body_scene(run.ts, run.q, edges, point=com, speed=_speed(run.u))
    path = path_figure(place[:, :2], title="Path of the centre of mass, from above")
    charts = [Chart("path", path, "Path of the centre of mass seen from above")]
    return _body(
        run,
        run.u,
        scene,
        charts,
        {"com_x": place[:, 0], "com_y": place[:, 1], "com_z": place[:, 2]},
    )


def _suslov(run: Run) -> View:
    omega = along(lambda *state: velocity(run.system, *state), run.ts, run.q, run.u)
    xi = np.asarray(run.system.xi)
    axis = 0.75 * xi / np.linalg.norm(xi)
    edges = [*_box(run.system.inertia), np.stack([-axis, axis])]
    scene = body_scene(run.ts, run.q, edges, point=axis, point_name="tip of ξ", speed=_speed(omega))
    return _body(run, omega, scene, [], {})


def _free_rigid_body(run: Run) -> View:
    tip = np.array([0.0, 0.0, 0.75])
    scene = body_scene(
        run.ts,
        run.q,
        _box(run.system.inertia),
        point=tip,
        point_name="tip of e₃",
        speed=_speed(run.u),
    )
    return _body(run, run.u, scene, [], {})


VIEWS: dict[str, Callable[[Run], View]] = {
    "rolling-ball": _rolling_ball,
    "actuated-disk": _actuated_disk,
    "heavy-top": _heavy_top,
    "suslov": _suslov,
    "free-rigid-body": _free_rigid_body,
}


def _body(run: Run, omega: np.ndarray, scene: Scene, charts: list[Chart], more: Columns) -> View:
    """The view of a body that turns about a point."""
    names = ["Ω₁", "Ω₂", "Ω₃"]
    title = "Angular velocity in the body frame"
    charts = [*charts, _quantities(run, "omega", omega, names, title, "Ω / (rad/s)")]
    changes = _relative_changes(run)
    drifts = _drifts(changes)
    fastest = float(np.max(np.linalg.norm(omega, axis=1)))
    reached = {"final_omega": omega[-1].tolist(), "final_orientation": run.q[-1].tolist()} | drifts
    tiles = [(f"{fastest:.4g} rad/s", "fastest turn"), *_drift_tiles(drifts)]
    lead = f"The body turned for {_duration(run):.4g} s, at up to {fastest:.4g} rad/s."
    columns = _orientation(run.q) | _omega(omega) | more
    return View(columns, scene, [*charts, *_drift_chart(run, changes)], reached, tiles, lead)


# Shapes.


def _weight(disk: Any) -> float:
    return float(disk.gravity) * float(disk.disk_mass + np.sum(np.asarray(disk.masses)))


def _box(inertia: Any) -> list[np.ndarray]:
    """The box with this inertia, in the directions of its principal axes."""
    matrix = np.asarray(inertia, dtype=float)
    moments, axes = np.linalg.eigh(np.diag(matrix) if matrix.ndim == 1 else matrix)
    return [line @ axes.T for line in box_edges(inertia_box(moments))]


# Columns of the table.


def _named(names: Any, values: np.ndarray) -> Columns:
    return dict(zip(names, values.T, strict=True))


def _orientation(quaternion: np.ndarray) -> Columns:
    return _named(("qw", "qx", "qy", "qz"), quaternion)


def _omega(omega: np.ndarray) -> Columns:
    return _named(("Omega_x", "Omega_y", "Omega_z"), omega)


def _thetas(angles: np.ndarray) -> Columns:
    return _named([f"theta_{i + 1}" for i in range(angles.shape[1])], angles)


# Numbers.


def _contact(force: np.ndarray) -> dict[str, float]:
    normal, ratio = friction_needed(force)
    needed = float(np.nanmax(ratio)) if np.all(normal > 0) else float("inf")
    return {"min_normal_force": float(np.min(normal)), "friction_needed": needed}


def _contact_tiles(force: np.ndarray) -> list[tuple[str, str]]:
    numbers = _contact(force)
    return [
        (f"{numbers['min_normal_force']:.3g} N", "smallest normal force"),
        (f"{numbers['friction_needed']:.3g}", "friction coefficient needed"),
    ]


def _tracking(motion: BallMotion) -> dict[str, float]:
    if motion.error is None:
        return {}
    rms = root_mean_square(motion.ts, motion.error)
    return {"tracking_rms": rms, "tracking_max": float(np.max(motion.error))}


def _tracking_tiles(motion: BallMotion) -> list[tuple[str, str]]:
    found = _tracking(motion)
    return [(f"{1e3 * found['tracking_rms']:.3g} mm", "tracking error, RMS")] if found else []


def _invariants(run: Run) -> Columns:
    """Every invariant along the run, `(T, …)`."""
    return along(lambda *state: run.system.invariants(*state, run.control), run.ts, run.q, run.u)


def _relative_changes(run: Run) -> Columns:
    """|x(t) − x(0)| / |x(0)| of every invariant; absolute where it starts at zero."""
    changes = {}
    for name, values in _invariants(run).items():
        flat = values.reshape(len(run.ts), -1)
        size = float(np.linalg.norm(flat[0])) or 1.0
        changes[name] = np.linalg.norm(flat - flat[0], axis=1) / size
    return changes


def _drifts(changes: Columns) -> dict[str, float]:
    return {f"drift_of_{_key(name)}": float(change.max()) for name, change in changes.items()}


def _drift_tiles(drifts: Mapping[str, float]) -> list[tuple[str, str]]:
    return [
        (f"{value:.1e}", f"relative drift of {name.removeprefix('drift_of_').replace('_', ' ')}")
        for name, value in drifts.items()
    ]


def _drift_chart(run: Run, changes: Columns) -> list[Chart]:
    if not changes:
        return []
    values = np.stack(list(changes.values()), axis=1)
    power = int(np.floor(np.log10(values.max()))) if values.max() > 0 else 0
    title, ylabel = "What the exact motion keeps", f"relative change / 10{_raised(power)}"
    return [_quantities(run, "invariants", values / 10.0**power, list(changes), title, ylabel)]


def _quantities(run: Run, name: str, values, names, title: str, ylabel: str) -> Chart:
    figure = quantities_figure(run.ts, values, names, title=title, ylabel=ylabel)
    return Chart(name, figure, f"{title} over time")


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _key(name: str) -> str:
    return name.replace(" ", "_")


def _length(path: np.ndarray) -> float:
    return float(np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1)))


def _duration(run: Run) -> float:
    return float(run.ts[-1] - run.ts[0])


def _rolled(body: str, length: float, run: Run, path: np.ndarray) -> str:
    ends = f"from {_place(path[0])} to {_place(path[-1])}"
    return f"The {body} rolled {length:.3g} m in {_duration(run):.4g} s, {ends}."


def _place(point: np.ndarray) -> str:
    shown = ", ".join(f"{x:.3g}" for x in point + 0.0)
    return f"({shown}) m" if len(point) > 1 else f"{shown} m"


def _speed(omega: np.ndarray) -> float:
    """Playback speed at which nothing turns faster than about 1.5 turns a second."""
    fastest = float(np.max(np.linalg.norm(omega, axis=1)))
    return min(1.0, 10.0 / max(fastest, 1e-9))
