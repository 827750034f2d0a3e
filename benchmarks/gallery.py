"""Solves the built-in problems of optimal control and draws docs/gallery: five instants of each motion, and its control.

    python benchmarks/gallery.py [--quick] [--only NAME …]

writes `docs/gallery/NAME.png` of each problem whose certificate holds, and prints a row for each. `--quick` takes the
first of them and writes nothing. The last line is a JSON object.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

jax.config.update("jax_enable_x64", True)

from jaxhamel import control  # noqa: E402
from jaxhamel.cli._objects._plan import PROBLEMS, build_collocation, build_plan  # noqa: E402
from jaxhamel.cli._objects._prepared import PreparedRun  # noqa: E402
from jaxhamel.cli._scenario._scenario import load  # noqa: E402
from jaxhamel.viz import path_figure, save  # noqa: E402
from jaxhamel.viz._figures._canvas import canvas, time_axis  # noqa: E402
from jaxhamel.viz._motion._charts_of import edges_of, names_and_label  # noqa: E402
from jaxhamel.viz._motion._numbers import position  # noqa: E402
from jaxhamel.viz._motion._plan_page import (  # noqa: E402
    controls_along,
    names_and_units_of_controls,
    shown_motion,
)
from jaxhamel.viz._motion._scene_of import scene_of  # noqa: E402
from jaxhamel.viz._snapshot import draw_scene, framed  # noqa: E402
from jaxhamel.viz._style import LIGHT, MATPLOTLIB, roles  # noqa: E402

PICTURES = Path(__file__).parents[1] / "docs" / "gallery"
INSTANTS = (0.0, 0.3, 0.5, 0.7, 1.0)  # shares of the duration


def picture(result: control.Result) -> Figure:
    """Draws the instants of the motion from one camera, and the control over time."""
    scene = scene_of(shown_motion(result))
    assert scene is not None
    duration = float(scene.ts[-1] - scene.ts[0])
    times = [float(scene.ts[0]) + share * duration for share in INSTANTS]
    target, zoom = framed(scene, times)
    with rc_context(MATPLOTLIB):
        figure = canvas(9.0, 3.9)
        grid = figure.add_gridspec(2, len(INSTANTS), height_ratios=(1.2, 1.0))
        for i, time_shown in enumerate(times):
            axes = figure.add_subplot(grid[0, i])
            draw_scene(axes, scene, time_shown, zoom=zoom, target=target)
            axes.set_box_aspect(1.0)
            axes.set_title(
                f"{INSTANTS[i] * duration:.3g} s", loc="center", fontsize=9, fontweight="normal"
            )
        axes = figure.add_subplot(grid[1, :])
        ts = np.asarray(result.trajectory.ts)
        names, label = names_and_label(*names_and_units_of_controls(result))
        for name, line, role in zip(
            names, controls_along(result, ts).T, roles(len(names)), strict=True
        ):
            axes.plot(ts, line, color=LIGHT[role], label=name)
        time_axis(axes, ts, "", label)
        if len(names) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def path_past_obstacles(result: control.Result) -> Figure | None:
    """Draws the path from above, if there are obstacles on the ground."""
    motion = shown_motion(result)
    place = position(motion)
    if not motion.obstacles or place is None or place.shape[1] < 2:
        return None
    return path_figure(place[:, :2], obstacles=edges_of(motion))


def solved(name: str) -> tuple[control.Result, float]:
    scenario = load(name)
    begun = time.perf_counter()
    problem = build_plan(PreparedRun.of(scenario))
    result = control.solve(problem, build_collocation(scenario, 900.0))
    return result, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(PROBLEMS))
    given = parser.parse_args()
    rows = {}
    for name in given.only[:1] if given.quick else given.only:
        result, seconds = solved(name)
        certificate = result.certificate
        assert certificate is not None
        rows[name] = {
            "cost": result.cost,
            "holds": certificate.holds,
            "stationarity": certificate.stationarity,
            "violation": certificate.violation,
            "transcription_error": certificate.transcription_error,
            "second_order": certificate.second_order,
            "iterations": len(result.history["cost"]),
            "seconds": round(seconds, 1),
        }
        print(name, rows[name], flush=True)
        if certificate.holds and not given.quick:
            PICTURES.mkdir(exist_ok=True)
            save(picture(result), PICTURES / f"{name}.png", dpi=120)
            path = path_past_obstacles(result)
            if path is not None:
                save(path, PICTURES / f"{name}-path.png", dpi=120)
    print(json.dumps({"solved": sum(row["holds"] for row in rows.values()), "rows": rows}))


if __name__ == "__main__":
    main()
