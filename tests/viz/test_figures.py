"""Figures plot the data that they were given, without registering in pyplot."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from jaxhamel.viz import (
    angles_figure,
    ball_scene,
    cost_figure,
    error_figure,
    forces_figure,
    friction_needed,
    path_figure,
    quantities_figure,
    root_mean_square,
    save,
    snapshot,
)
from jaxhamel.viz._figures._canvas import canvas, settle
from jaxhamel.viz._figures._one_motion import _room_for_zero
from jaxhamel.viz._scene import Sphere, Trail
from jaxhamel.viz._snapshot import DISTANCE, Camera, framed
from tests.viz.motions import figure_eight_motion

TS = np.linspace(0.0, 4.0, 50)


def lines(figure, k=0):
    return {line.get_label(): line for line in figure.axes[k].lines}


def test_friction_needed_is_the_ratio_of_the_components():
    force = np.array([[3.0, 4.0, 10.0], [0.0, 0.0, 5.0], [1.0, 0.0, -2.0]])
    normal, ratio = friction_needed(force)
    np.testing.assert_allclose(normal, [10.0, 5.0, -2.0])
    np.testing.assert_allclose(ratio, [0.5, 0.0, np.nan])


@pytest.mark.parametrize(("values", "limits"), [([-2, 8], [-2.5]), ([1, 11], [0.0]), ([9, 10], [])])
def test_room_for_zero(values, limits):
    """The lower limit is a twentieth of the range below the least value. It is zero if all values are positive, and
    unchanged if zero is far away."""
    found = []
    _room_for_zero(SimpleNamespace(set_ylim=lambda bottom: found.append(bottom)), np.array(values))
    np.testing.assert_allclose(found, limits)


def test_path_has_equal_scales_and_units():
    path = np.column_stack([np.cos(TS), 0.2 * np.sin(TS)])
    figure = path_figure(path, 1.01 * path)
    axes = figure.axes[0]
    assert axes.get_aspect() == 1.0
    assert axes.get_xlabel() == "x / m"
    np.testing.assert_array_equal(lines(figure)["path"].get_xydata(), path)
    np.testing.assert_array_equal(lines(figure)["reference"].get_xydata(), 1.01 * path)


def test_angles_have_one_line_for_each_mass():
    angles = np.column_stack([np.sin(TS), np.cos(TS)])
    found = lines(angles_figure(TS, angles))
    np.testing.assert_array_equal(found["mass 2"].get_ydata(), angles[:, 1])
    assert set(found) == {"mass 1", "mass 2"}


def test_forces_show_zero_when_the_ball_nearly_leaves_the_ground():
    force = np.column_stack([0 * TS, 0 * TS, 10 + 9 * np.sin(TS)])
    assert forces_figure(TS, force).axes[0].get_ylim()[0] <= 0
    calm = np.column_stack([0 * TS, 0 * TS, 10 + 0.1 * np.sin(TS)])
    assert forces_figure(TS, calm).axes[0].get_ylim()[0] > 9


def test_error_is_shown_in_millimetres_when_small():
    figure = error_figure(TS, np.full_like(TS, 0.003))
    assert figure.axes[0].get_ylabel() == "tracking error / mm"
    assert "RMS 3 mm" in lines(figure)
    assert error_figure(TS, 1 + TS).axes[0].get_ylabel() == "tracking error / m"


def test_root_mean_square_weighs_by_time():
    ts = np.array([0.0, 1.0, 1.0 + 1e-9, 2.0])
    assert root_mean_square(ts, np.array([0.0, 0.0, 1.0, 1.0])) == pytest.approx(np.sqrt(0.5))
    assert root_mean_square(np.zeros(1), np.array([3.0])) == 3.0


def test_cost_is_logarithmic_where_positive_and_leaves_out_what_is_not_finite():
    figure = cost_figure(np.array([1.0, np.nan, 0.1]))
    assert figure.axes[0].get_yscale() == "log"
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xdata(), [1, 3])
    assert cost_figure(np.array([1.0, -1.0])).axes[0].get_yscale() == "linear"
    mean = lines(cost_figure(np.arange(6.0) ** 2, averaged=3))["mean of the last 3"].get_xydata()
    np.testing.assert_allclose(mean, [[3, 5 / 3], [4, 14 / 3], [5, 29 / 3], [6, 50 / 3]])


def test_horizon_has_its_own_axis():
    figure = cost_figure(np.array([1.0, 0.5]), horizon=np.array([0.75, 1.5]))
    assert figure.axes[1].get_ylabel() == "horizon / s"


def test_a_frame_contains_the_whole_motion():
    """At each time the ball's outline, seen from the camera, lies within the picture and reaches its margin on one axis."""
    scene = ball_scene(figure_eight_motion())
    times = [0.0, 1.0, 3.0]
    target, zoom = framed(scene, times)
    camera = Camera.looking_at(np.asarray(target), scene.view, DISTANCE * scene.extent / zoom)
    trail = next(thing for thing in scene.things if isinstance(thing, Trail))
    turn = np.linspace(0.0, 2.0 * np.pi, 60)
    ball = next(thing for thing in scene.things if isinstance(thing, Sphere))
    ring = ball.radius * (
        np.cos(turn)[:, None] * camera.axes[0] + np.sin(turn)[:, None] * camera.axes[1]
    )
    centres = [scene.focus[np.argmin(np.abs(scene.ts - t))] for t in times]
    seen = camera.project(np.concatenate([trail.points, *(x + ring for x in centres)]))
    assert 0.8 < np.max(np.abs(seen)) < 1.0


@pytest.mark.parametrize("name", ["path", "snapshot"])
def test_png_is_written_opaque_and_repeatable(tmp_path, name):
    motion = figure_eight_motion(samples=60)
    make = {
        "path": lambda: path_figure(motion.position),
        "snapshot": lambda: snapshot(ball_scene(motion), 3.0),
    }[name]
    save(make(), tmp_path / "a.png", dpi=60)
    save(make(), tmp_path / "b.png", dpi=60)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    from matplotlib.image import imread

    assert imread(tmp_path / "a.png")[..., 3].min() == 1.0


@pytest.mark.parametrize(("count", "name"), [(2, "a"), (14, "a"), (4, "limits of the control")])
def test_titles_stand_above_legends(count, name):
    """Also above a legend of three rows, whose fourteen lines all look different. Long names take more rows."""
    values = np.sin(TS[:, None] + np.arange(count))
    names = [f"{name} {i}" for i in range(count)]
    figure = quantities_figure(TS, values, names, title="Angles", ylabel="a / rad")
    figure.canvas.draw()
    axes = figure.axes[0]
    title = next(x for x in (axes.title, axes._left_title, axes._right_title) if x.get_text())
    above, below = title.get_window_extent(), axes.get_legend().get_window_extent()
    assert title.get_text() == "Angles"
    assert above.y0 >= below.y1
    assert below.x1 <= figure.bbox.x1
    assert below.y0 >= axes.get_window_extent().y1
    assert len({(x.get_color(), x.get_linestyle()) for x in axes.lines}) == count


def test_legends_are_read_in_rows_and_stay_inside_the_figure():
    def legend_of(names):
        values = np.sin(TS[:, None] + np.arange(len(names)))
        figure = quantities_figure(TS, values, names, title="Limits", ylabel="a / rad")
        figure.canvas.draw()
        return figure, figure.axes[0].get_legend()

    _, legend = legend_of([f"a{i}" for i in range(7)])
    texts = sorted(
        legend.get_texts(), key=lambda x: (-x.get_window_extent().y0, x.get_window_extent().x0)
    )
    assert [text.get_text() for text in texts] == [f"a{i}" for i in range(7)]
    figure, legend = legend_of([f"limits of the control {i}" for i in range(4)])
    assert legend.get_window_extent().x1 < figure.bbox.x1


def test_a_settled_figure_stays_as_it_was_laid_out():
    """The axes of a settled figure keep their places if a label grows; settling again does no new layout."""
    laid_out, settled = (path_figure(np.outer(TS, [1, 2])) for _ in range(2))
    before = laid_out.axes[0].get_position().bounds
    laid_out.draw_without_rendering()
    settle(settled)
    wanted = laid_out.axes[0].get_position().bounds
    assert settled.axes[0].get_position().bounds == wanted != before
    for figure in (laid_out, settled):
        figure.axes[0].set_ylabel("y", fontsize=40)
    settle(settled)
    settled.draw_without_rendering()
    laid_out.draw_without_rendering()
    assert settled.axes[0].get_position().bounds == wanted
    assert laid_out.axes[0].get_position().bounds != wanted


def test_a_settled_figure_is_drawn_once_for_each_file(monkeypatch):
    """A settled figure is drawn once per file and equals a plain matplotlib figure with this layout."""
    draws, draw = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda *given: draws.append(given) or draw(*given))
    files = []
    for figure in (canvas(), Figure(figsize=(6.4, 3.7), layout="constrained")):
        figure.subplots().plot(TS, TS**2)
        files.append(io.BytesIO())
        save(figure, files[-1], dpi=60)
    assert len(draws) == 1 + 2
    assert files[0].getvalue() == files[1].getvalue()


def test_style_of_the_reader_is_left_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    quantities_figure(TS, TS[:, None], ["t"], title="t", ylabel="t / s")
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_not_imported():
    import subprocess

    code = "import sys, jaxhamel.viz; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numbers_beyond_the_ticks_are_not_drawn():
    """A motion that breaks down at 1e308 is not drawn there, since matplotlib cannot count its ticks."""
    values = np.array([[0.0], [1.7e308], [-1.7e308]])
    figure = quantities_figure(TS[:3], values, ["a"], title="t", ylabel="y")
    save(figure, io.BytesIO())
    np.testing.assert_array_equal(lines(figure)["a"].get_ydata(), [0.0, np.nan, np.nan])


def test_obstacles_are_drawn():
    edge = np.array([[0.4, 0.1], [0.6, 0.1], [0.5, 0.3]])
    figure = path_figure(np.array([[0.0, 0.0], [1.0, 0.0]]), obstacles=[("a rock", edge)])
    (drawn,) = figure.axes[0].patches
    assert isinstance(drawn, Polygon)
    np.testing.assert_array_equal(drawn.get_xy()[:3], edge)
    assert "a rock" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
