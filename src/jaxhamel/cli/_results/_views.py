"""What is written and shown of each kind of system: columns of the table, scene, plots, numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.tree_util import Partial

from jaxhamel.cli._results._motion import (
    Columns,
    Run,
    contact_numbers,
    contact_tiles,
    drift_chart,
    drift_tiles,
    drifts_of,
    duration,
    named_columns,
    omega_columns,
    orientation_columns,
    path_length,
    playback_speed,
    quantities_chart,
    relative_changes,
    rolled_lead,
    theta_columns,
    tracking_numbers,
    tracking_tiles,
)
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
    inertia_box,
    path_figure,
    rail_lines,
    rotated,
    top_edges,
)
from jaxhamel.viz._along import along, mass_positions


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


def prepare(kind: str, run: Run) -> None:
    """Computes what the view of such a run does, of as many times; what is compiled for it is known from then on."""
    relative_changes(run)
    if kind in COMPUTED:
        COMPUTED[kind](run)


def _ball_motion(run: Run) -> BallMotion:
    return BallMotion.of(run.system, run.control, run.ts, run.q, run.u, run.path)


def _disk_force(run: Run) -> np.ndarray:
    return along(run.system.contact_force, run.ts, run.q, run.u, fixed=(run.control,))


def _space_rates(run: Run) -> np.ndarray:
    return along(Partial(velocity, run.system), run.ts, run.q, run.u)


COMPUTED: dict[str, Callable[[Run], Any]] = {
    "rolling-ball": _ball_motion,
    "actuated-disk": _disk_force,
    "suslov": _space_rates,
}


def _rolling_ball(run: Run) -> View:
    motion = _ball_motion(run)
    force, angles = motion.force, motion.angles
    assert force is not None  # of a simulated ball it is known
    columns = (
        orientation_columns(run.q[0]) | named_columns("xy", motion.position) | omega_columns(run.u)
    )
    columns |= theta_columns(angles) | named_columns(("force_x", "force_y", "force_z"), force)
    length, changes = path_length(motion.position), relative_changes(run)
    reached = (
        {"distance": length}
        | contact_numbers(force)
        | tracking_numbers(motion)
        | drifts_of(changes)
    )
    tiles = [(f"{length:.3g} m", "rolled"), *tracking_tiles(motion), *contact_tiles(force)]
    lead = rolled_lead("ball", length, run, motion.position)
    scene = ball_scene(motion, speed=playback_speed(run.u))
    charts = [
        *ball_charts(motion, costs=run.costs, friction_limit=run.friction_limit),
        *drift_chart(run, changes),
    ]
    return View(columns, scene, charts, reached, tiles, lead)


def _actuated_disk(run: Run) -> View:
    system, control = run.system, run.control
    angles, masses = mass_positions(system, control, run.ts)
    angle, position = run.q[0][:, 0], run.q[1][:, 0]
    force = _disk_force(run)
    changes = relative_changes(run)
    columns = {"phi": angle, "x": position, "phi_dot": run.u[:, 0]} | theta_columns(angles)
    columns |= named_columns(("force_x", "force_y", "force_z"), force)
    rails = rail_lines(system.rails, angles)
    scene = disk_scene(run.ts, angle, position, float(system.radius), masses, rails)
    charts = [
        quantities_chart(run, "position", position[:, None], ["x"], "Position of the disk", "x / m")
    ]
    if angles.shape[1]:
        figure = angles_figure(run.ts, angles)
        charts.append(Chart("angles", figure, "Position of each mass on its rail over time"))
    figure = forces_figure(run.ts, force, weight=_weight(system))
    charts.append(Chart("forces", figure, "Normal force and friction needed over time"))
    reached = (
        {"displacement": float(position[-1] - position[0])}
        | contact_numbers(force)
        | drifts_of(changes)
    )
    tiles = [(f"{reached['displacement']:.3g} m", "displacement"), *contact_tiles(force)]
    lead = rolled_lead("disk", path_length(position[:, None]), run, position[:, None])
    return View(columns, scene, [*charts, *drift_chart(run, changes)], reached, tiles, lead)


def _heavy_top(run: Run) -> View:
    com = np.asarray(run.system.com)
    place = rotated(run.q, com)
    size = float(np.linalg.norm(com))
    edges = top_edges(com, 0.45 * size) if size > 0 else box_edges(np.ones(3))
    scene = body_scene(run.ts, run.q, edges, point=com, speed=playback_speed(run.u))
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
    omega = _space_rates(run)
    xi = np.asarray(run.system.xi)
    axis = 0.75 * xi / np.linalg.norm(xi)
    edges = [*_box(run.system.inertia), np.stack([-axis, axis])]
    scene = body_scene(
        run.ts, run.q, edges, point=axis, point_name="tip of ξ", speed=playback_speed(omega)
    )
    return _body(run, omega, scene, [], {})


def _free_rigid_body(run: Run) -> View:
    tip = np.array([0.0, 0.0, 0.75])
    scene = body_scene(
        run.ts,
        run.q,
        _box(run.system.inertia),
        point=tip,
        point_name="tip of e₃",
        speed=playback_speed(run.u),
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
    charts = [*charts, quantities_chart(run, "omega", omega, names, title, "Ω / (rad/s)")]
    changes = relative_changes(run)
    drifts = drifts_of(changes)
    fastest = float(np.max(np.linalg.norm(omega, axis=1)))
    reached = {"final_omega": omega[-1].tolist(), "final_orientation": run.q[-1].tolist()} | drifts
    tiles = [(f"{fastest:.4g} rad/s", "fastest turn"), *drift_tiles(drifts)]
    lead = f"The body turned for {duration(run):.4g} s, at up to {fastest:.4g} rad/s."
    columns = orientation_columns(run.q) | omega_columns(omega) | more
    return View(columns, scene, [*charts, *drift_chart(run, changes)], reached, tiles, lead)


# Shapes.


def _weight(disk: Any) -> float:
    return float(disk.gravity) * float(disk.disk_mass + np.sum(np.asarray(disk.masses)))


def _box(inertia: Any) -> list[np.ndarray]:
    """The box with this inertia, in the directions of its principal axes."""
    matrix = np.asarray(inertia, dtype=float)
    moments, axes = np.linalg.eigh(np.diag(matrix) if matrix.ndim == 1 else matrix)
    return [line @ axes.T for line in box_edges(inertia_box(moments))]
