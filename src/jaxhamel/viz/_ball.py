"""A rolling ball: its motion as plain arrays, its 3-D scene, and its plots."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from jaxhamel.viz._charts import Chart
from jaxhamel.viz._figures._one_motion import (
    angles_figure,
    cost_figure,
    error_figure,
    forces_figure,
    path_figure,
)
from jaxhamel.viz._motion._run import along, mass_positions, rail_lines
from jaxhamel.viz._report import Report
from jaxhamel.viz._scene import Arrow, Curve, Points, Pose, Scene, Sphere, Thing, Trail
from jaxhamel.viz._style import roles


@dataclass(frozen=True, eq=False)
class BallMotion:
    """The data for figures of a rolling ball, sampled at `ts`.

    **Arguments:**

    - `ts`: the times [s], `(T,)`.
    - `quaternion`: the orientation, scalar first, from the body to the space frame, `(T, 4)`.
    - `position`: the position of the contact point on the ground [m], above which the centre is, `(T, 2)`.
    - `radius`: the radius of the ball [m].
    - `angles`: the rail parameter of every mass (rad on closed rails, m on straight ones), `(T, n)`.
    - `masses`: the positions of the masses in the body frame [m], `(T, n, 3)`.
    - `rails`: every rail as a polyline in the body frame [m], `(n, P, 3)`.
    - `force`: the force of the ground on the ball in the space frame [N], `(T, 3)`; None if it was not computed.
    - `weight`: the weight of the whole ball [N].
    - `reference`: the point of the reference path at each time [m], `(T, 2)`; None without a reference path.
    """

    ts: Float[ndarray, " T"]
    quaternion: Float[ndarray, "T 4"]
    position: Float[ndarray, "T 2"]
    radius: float
    angles: Float[ndarray, "T n"]
    masses: Float[ndarray, "T n 3"]
    rails: Float[ndarray, "n P 3"]
    force: Float[ndarray, "T 3"] | None = None
    weight: float | None = None
    reference: Float[ndarray, "T 2"] | None = None

    @classmethod
    def of(
        cls,
        system: Any,
        control: Any,
        ts: Float[ndarray, " T"],
        q: tuple[Float[ndarray, "T 4"], Float[ndarray, "T 2"]],
        u: Float[ndarray, "T 3"],
        path: Callable[..., Any] | None = None,
    ) -> "BallMotion":
        """The motion of a `jaxhamel.systems.RollingBall` at simulated states.

        **Arguments:** `path`: the reference path, a function from the time to a point `(2,)` in m.
        """
        angles, masses = mass_positions(system, control, ts)
        return cls(
            ts=np.asarray(ts),
            quaternion=np.asarray(q[0]),
            position=np.asarray(q[1]),
            radius=float(system.radius),
            angles=angles,
            masses=masses,
            rails=rail_lines(system.rails, angles),
            force=along(system.contact_force, ts, q, u, fixed=(control,)),
            weight=float(system.gravity) * float(system.shell_mass + np.sum(system.masses)),
            reference=None if path is None else along(path, ts),
        )

    @classmethod
    def from_trajectory(
        cls, trajectory: Any, path: Callable[..., Any] | None = None
    ) -> "BallMotion":
        """The motion of a rolling ball's `jaxhamel.Trajectory`, up to its last valid state."""
        keep = np.asarray(trajectory.valid)
        state = (trajectory.ts, trajectory.q, trajectory.u)
        ts, q, u = jax.tree.map(lambda x: np.asarray(x)[keep], state)
        return cls.of(trajectory.system, trajectory.control, ts, q, u, path)

    @property
    def error(self) -> Float[ndarray, " T"] | None:
        """The tracking error |z(t) − z_d(t)|, the distance of the ball from the reference point [m]; None without a
        reference.
        """
        if self.reference is None:
            return None
        return np.linalg.norm(self.position - self.reference, axis=1)


def ball_scene(motion: BallMotion, *, speed: float = 1.0) -> Scene:
    """The 3-D scene of the rolling ball, with its masses, rails and the contact force."""
    above = np.full(len(motion.ts), motion.radius)
    centre = np.column_stack([motion.position, above])
    contact = centre - np.array([0.0, 0.0, motion.radius])
    pose = Pose(motion.quaternion, centre)
    return Scene(
        motion.ts,
        [*_on_the_ground(motion, contact), *_the_ball(motion, pose), *_force(motion, contact)],
        focus=centre,
        extent=2.0 * motion.radius,
        speed=speed,
        view=(-62.0, 22.0),
    )


def _on_the_ground(motion: BallMotion, contact: np.ndarray) -> list[Thing]:
    trail = Trail(contact, label="path of the contact point")
    if motion.reference is None:
        return [trail]
    reference = np.column_stack([motion.reference, np.zeros(len(motion.ts))])
    drawn = reference[:: max(1, len(reference) // 400)]
    return [Curve(drawn, role="reference", dashed=True, width=2.0, label="reference path"), trail]


def _the_ball(motion: BallMotion, pose: Pose) -> list[Thing]:
    names = roles(motion.angles.shape[1])
    rails = [
        Curve(line, pose, role, width=2.2) for line, role in zip(motion.rails, names, strict=True)
    ]
    balls = Points(motion.masses, 0.085 * motion.radius, pose, names, label="masses on rails")
    return [Sphere(motion.radius, pose), *rails, *([balls] if names else [])]


def _force(motion: BallMotion, contact: np.ndarray) -> list[Thing]:
    if motion.force is None:
        return []
    typical = motion.weight or float(np.median(np.abs(motion.force[:, 2])))
    scale = 2.3 * motion.radius / max(typical, 1e-12)
    return [Arrow(contact, motion.force, scale, label="contact force")]


def ball_charts(
    motion: BallMotion,
    *,
    costs: Float[ndarray, " K"] | None = None,
    friction_limit: float | None = None,
) -> list[Chart]:
    """The charts of a rolling ball for which there are data: path, tracking error, angles, forces and cost.

    **Arguments:** `costs`: the cost after each iteration of a search, `(K,)`; `friction_limit`: the coefficient of friction
    of the ground.
    """
    charts = [_path_chart(motion)]
    if motion.error is not None:
        charts.append(
            Chart(
                "error",
                error_figure(motion.ts, motion.error),
                "Distance of the ball from the reference path over time",
            )
        )
    if motion.angles.shape[1]:
        charts.append(
            Chart(
                "angles",
                angles_figure(motion.ts, motion.angles),
                "Position of each mass on its rail over time",
            )
        )
    if motion.force is not None:
        figure = forces_figure(
            motion.ts, motion.force, weight=motion.weight, friction_limit=friction_limit
        )
        charts.append(Chart("forces", figure, "Normal force and friction needed over time"))
    if costs is not None and len(costs):
        charts.append(Chart("cost", cost_figure(costs), "Cost at every iteration of the optimiser"))
    return charts


def _path_chart(motion: BallMotion) -> Chart:
    return Chart(
        "path",
        path_figure(motion.position, motion.reference),
        "Path of the ball on the ground, seen from above",
    )


def ball_report(
    motion: BallMotion, *, title: str = "A rolling ball", costs: Float[ndarray, " K"] | None = None
) -> Report:
    """The page of a rolling ball, which `Path("report.html").write_text(ball_report(motion).html())` writes to a file.

    **Arguments:** `costs`: the cost after each iteration of a search, `(K,)`.
    """
    length = float(np.sum(np.linalg.norm(np.diff(motion.position, axis=0), axis=1)))
    lead = f"The ball rolled {length:.3g} m in {motion.ts[-1] - motion.ts[0]:.4g} s."
    return Report(title, lead, ball_scene(motion), ball_charts(motion, costs=costs))
