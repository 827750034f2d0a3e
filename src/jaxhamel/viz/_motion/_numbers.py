"""Numbers that summarise a motion: distance, angular speed, contact forces, tracking error, changes of the invariants."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jaxhamel.mechanics._description._declarations import kind_of
from jaxhamel.viz._figures._one_motion import friction_needed, root_mean_square
from jaxhamel.viz._motion._run import NamedColumns, ShownMotion
from jaxhamel.viz._motion._scene_of import fastest_turn

OMEGA_COLUMNS = ("Omega_x", "Omega_y", "Omega_z")
Tiles = list[tuple[str, str]]


def numbers_of(run: ShownMotion) -> dict[str, Any]:
    """The numbers of a motion for summary.json."""
    place, found = position(run), {}
    if place is not None and place.shape[1] == 1:
        found["displacement"] = float(place[-1, 0] - place[0, 0])
    elif place is not None:
        found["distance"] = path_length(place)
    found |= contact_numbers(run) | tracking_numbers(run)
    if place is None:
        found |= last_state(run)
    return found | drifts(run)


def tiles_of(run: ShownMotion) -> Tiles:
    """The most important numbers of a motion as pairs of texts (value, meaning), for the page."""
    place = position(run)
    if place is None:
        turn = [(f"{fastest(run):.4g} rad/s", "fastest turn")] if _turns(run) else []
        return [*turn, *drift_tiles(drifts(run))]
    if place.shape[1] == 1:
        length = [(f"{place[-1, 0] - place[0, 0]:.3g} m", "displacement")]
    else:
        word = "rolled" if run.system.on_ground else "travelled"
        length = [(f"{path_length(place):.3g} m", word)]
    return [*length, *_tracking_tiles(run), *_contact_tiles(run)]


def lead_of(run: ShownMotion) -> str:
    """The sentence about the motion under the heading of the page."""
    place, body = position(run), f"The {_noun(run)}"
    if place is not None:
        verb = "rolled" if run.system.on_ground else "moved"
        ends = f"from {_place_in_words(place[0])} to {_place_in_words(place[-1])}"
        return f"{body} {verb} {path_length(place):.3g} m in {run.duration:.4g} s, {ends}."
    if _turns(run):
        return f"The body turned for {run.duration:.4g} s, at up to {fastest(run):.4g} rad/s."
    return f"{body} moved for {run.duration:.4g} s."


def _turns(run: ShownMotion) -> bool:
    """Whether the page describes the motion as a rotation: the first part of the state is an orientation, or the system does
    not name the parts of its state and has one body.
    """
    return run.parts[0][0].key == "orientation" or (
        run.system.state_names is None and len(run.along.places) == 1
    )


def _noun(run: ShownMotion) -> str:
    """The word for the system, such as "ball" for a rolling ball."""
    return kind_of(type(run.system)).removeprefix("rolling-").replace("-", " ")


def position(run: ShownMotion) -> np.ndarray | None:
    """The position of the body, `(T, d)`: those of its coordinates x, y, z that it has; None without such coordinates."""
    return next((values for _, values in _positions(run)), None)


def axes_of_position(run: ShownMotion) -> tuple[str, ...]:
    """The names of the coordinates in `position`, some of "x", "y", "z"."""
    return next((names for names, _ in _positions(run)), ())


def _positions(run: ShownMotion) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    """Yields the coordinates x, y, z of each part of the state that has some: their names, and their values `(T, d)`."""
    for part, values in run.parts:
        columns = part.names(values.shape[1])
        places = [i for i, name in enumerate(columns) if name in ("x", "y", "z")]
        if places:
            yield tuple(columns[i] for i in places), values[:, places]


def fastest(run: ShownMotion) -> float:
    """The largest angular speed [rad/s]."""
    if all(name in run.columns for name in OMEGA_COLUMNS):
        omega = np.stack([run.columns[name] for name in OMEGA_COLUMNS], axis=1)
        return float(np.max(np.linalg.norm(omega, axis=1)))
    return fastest_turn(run.ts, np.asarray(run.along.places[0][0]))


def last_state(run: ShownMotion) -> dict[str, Any]:
    """The last state for summary.json, by name: angular velocity and orientation of a body that turns about a point; for
    another system the parts of q and u.
    """
    if all(name in run.columns for name in OMEGA_COLUMNS) and run.parts[0][0].key == "orientation":
        omega = [float(run.columns[name][-1]) for name in OMEGA_COLUMNS]
        return {"final_omega": omega, "final_orientation": run.parts[0][1][-1].tolist()}
    ends = [x[-1].tolist() for part, x in run.parts if part.columns]
    names = [part.key for part, _ in run.parts if part.columns]
    return {f"final_{name}": end for name, end in zip(names, ends, strict=True)}


def contact_numbers(run: ShownMotion) -> dict[str, float]:
    """The smallest normal force [N], and the friction coefficient that the motion needs, which is infinite if the normal
    force is not positive throughout; empty for a system without a contact force.
    """
    output = run.output("forces")
    if output is None:
        return {}
    normal, ratio = friction_needed(np.asarray(output.value))
    needed = float(np.nanmax(ratio)) if np.all(normal > 0) else float("inf")
    return {"min_normal_force": float(np.min(normal)), "friction_needed": needed}


def _contact_tiles(run: ShownMotion) -> Tiles:
    found = contact_numbers(run)
    if not found:
        return []
    return [
        (f"{found['min_normal_force']:.3g} N", "smallest normal force"),
        (f"{found['friction_needed']:.3g}", "friction coefficient needed"),
    ]


def error_of(run: ShownMotion) -> np.ndarray | None:
    """The distance of the body from the reference point at each time [m], `(T,)`; None without a reference path or
    position.
    """
    place = position(run)
    if run.reference is None or place is None:
        return None
    return np.linalg.norm(place[:, : run.reference.shape[1]] - run.reference, axis=1)


def tracking_numbers(run: ShownMotion) -> dict[str, float]:
    """The root mean square and the maximum of the tracking error [m]; empty without a reference path."""
    error = error_of(run)
    if error is None:
        return {}
    rms = root_mean_square(run.ts, error)
    return {"tracking_rms": rms, "tracking_max": float(np.max(error))}


def _tracking_tiles(run: ShownMotion) -> Tiles:
    found = tracking_numbers(run)
    return [(f"{1e3 * found['tracking_rms']:.3g} mm", "tracking error, RMS")] if found else []


def relative_changes(run: ShownMotion) -> NamedColumns:
    """The relative change |x(t) − x(0)| / |x(0)| of every invariant x by its name, or |x(t) − x(0)| if x(0) = 0."""
    changes = {}
    for name, values in run.along.invariants.items():
        size = float(np.linalg.norm(values[0])) or 1.0
        changes[name] = np.linalg.norm(values - values[0], axis=1) / size
    return changes


def drifts(run: ShownMotion) -> dict[str, float]:
    """The largest relative change of each invariant along the motion, by its name for summary.json."""
    changes = relative_changes(run)
    return {f"drift_of_{name.replace(' ', '_')}": float(x.max()) for name, x in changes.items()}


def drift_tiles(drifts: Mapping[str, float]) -> Tiles:
    """The results of `drifts` as pairs of texts (value, meaning), for the page."""
    return [
        (f"{value:.1e}", f"relative drift of {name.removeprefix('drift_of_').replace('_', ' ')}")
        for name, value in drifts.items()
    ]


def path_length(path: np.ndarray) -> float:
    """The length of the polyline through the points `path`, `(T, d)`."""
    return float(np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1)))


def _place_in_words(point: np.ndarray) -> str:
    shown = ", ".join(f"{x:.3g}" for x in point + 0.0)
    return f"({shown}) m" if len(point) > 1 else f"{shown} m"
