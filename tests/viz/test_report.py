"""The page's text is self-contained, escaped and small, and states missing data."""

import json
import re
from html.parser import HTMLParser

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.viz import (
    BallMotion,
    Chart,
    Pose,
    Report,
    Scene,
    Trail,
    ball_charts,
    ball_report,
    ball_scene,
    body_scene,
    box_edges,
    disk_scene,
    inertia_box,
    path_figure,
    rotated,
    snapshot,
    top_edges,
)
from jaxhamel.viz._motion._run import along
from tests.viz.motions import circular_rails, figure_eight_motion, rolled


@pytest.fixture(scope="module")
def motion():
    return figure_eight_motion(samples=4000)


@pytest.fixture(scope="module")
def page(motion):
    costs = np.geomspace(1.0, 1e-6, 40)
    return Report(
        "A <title> & more",
        "lead",
        ball_scene(motion),
        ball_charts(motion, costs=costs, friction_limit=0.2),
        tiles=[("2.0 mm", "tracking error")],
        tables={"Reached": {"cost": 1.25e-5, "converged": True, "masses": [0.5, 0.25]}},
        warning="ended early",
    ).html()


def found(pattern, page):
    match = re.search(pattern, page, re.DOTALL)
    assert match is not None
    return match[1]


def embedded(page):
    return json.loads(found(r'<script id="scene"[^>]*>(.*?)</script>', page))


def test_page_needs_nothing_from_elsewhere(page):
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "@import" not in page
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket", page)


def test_page_is_smaller_than_three_megabytes(page):
    assert len(page.encode()) < 3_000_000


def test_no_placeholder_is_left(page):
    assert "{{" not in page


def test_text_is_escaped(page):
    assert "<h1>A &lt;title&gt; &amp; more</h1>" in page


def test_tables_show_values(page):
    assert "<td class='short'>1.25e-05</td>" in page
    assert "<td class='short'>yes</td>" in page
    assert "<td class='short'>0.5, 0.25</td>" in page


def test_identifiers_are_unique(page):
    class Identifiers(HTMLParser):
        found: list

        def handle_starttag(self, tag, attrs):
            self.found += [value for key, value in attrs if key == "id"]

    parser = Identifiers()
    parser.found = []
    parser.feed(page)
    assert len(parser.found) > 20
    assert len(set(parser.found)) == len(parser.found)


def test_script_end_in_the_data_cannot_end_the_script(motion):
    scene = Scene(
        motion.ts,
        [Trail(0 * rotated(motion.quaternion, np.ones(3)), label="</script>")],
        np.zeros((len(motion.ts), 3)),
        1.0,
    )
    page = Report("t", "l", scene).html()
    assert embedded(page)["things"][0]["label"] == "</script>"


def test_data_is_downsampled_and_keeps_both_ends(page, motion):
    data = embedded(page)
    assert len(data["ts"]) == 1500
    assert data["ts"][0] == motion.ts[0]
    assert data["ts"][-1] == motion.ts[-1]
    pose = data["poses"][0]
    assert len(pose["q"]) == 4 * 1500
    np.testing.assert_allclose(pose["q"][-4:], motion.quaternion[-1], atol=1e-5)
    np.testing.assert_allclose(pose["p"][-3:-1], motion.position[-1], atol=1e-5)


def test_same_input_gives_the_same_page(motion):
    def make():
        return Report("t", "l", ball_scene(motion), ball_charts(motion)).html()

    assert make() == make()


def test_charts_apply_only_where_there_is_data(motion):
    bare = BallMotion(
        motion.ts,
        motion.quaternion,
        motion.position,
        0.1,
        motion.angles,
        motion.masses,
        motion.rails,
    )
    assert [chart.name for chart in ball_charts(bare)] == ["path", "angles"]
    names = [chart.name for chart in ball_charts(motion, costs=np.ones(3))]
    assert names == ["path", "error", "angles", "forces", "cost"]


def test_ball_without_masses_has_a_page():
    motion = figure_eight_motion(samples=50)
    empty = BallMotion(
        motion.ts,
        motion.quaternion,
        motion.position,
        0.1,
        np.zeros((50, 0)),
        np.zeros((50, 0, 3)),
        np.zeros((0, 9, 3)),
    )
    assert [chart.name for chart in ball_charts(empty)] == ["path"]
    assert embedded(Report("t", "l", ball_scene(empty)).html())["things"]


def test_other_bodies_have_scenes():
    ts = np.linspace(0, 1, 30)
    turn = rolled(np.column_stack([ts, ts]), 0.2)
    top = body_scene(
        ts, turn, top_edges(np.array([0.0, 1.0, 0.0]), 0.4), point=np.array([0.0, 1.0, 0.0])
    )
    box = body_scene(ts, turn, box_edges(inertia_box(np.array([1.0, 2.0, 2.5]))))
    mass = np.tile(np.array([[[0.0, 0.0, -0.5]]]), (30, 1, 1))
    disk = disk_scene(ts, ts, -ts, 1.0, mass, np.zeros((1, 5, 3)))
    for scene in (top, box, disk):
        assert len(embedded(Report("t", "l", scene).html())["things"]) >= 2
        assert snapshot(scene, 0.5).axes


def test_inertia_box_has_the_moments_it_was_made_for():
    sides = inertia_box(np.array([1.0, 2.0, 2.5]))
    moments = np.array(
        [
            sides[1] ** 2 + sides[2] ** 2,
            sides[0] ** 2 + sides[2] ** 2,
            sides[0] ** 2 + sides[1] ** 2,
        ]
    )
    np.testing.assert_allclose(moments / moments[0], [1.0, 2.0, 2.5], rtol=1e-12)


def test_rotated_agrees_with_scipy():
    from scipy.spatial.transform import Rotation

    quaternion = figure_eight_motion(samples=40).quaternion
    vector = np.array([0.3, -0.2, 0.9])
    expected = Rotation.from_quat(quaternion, scalar_first=True).apply(vector)
    np.testing.assert_allclose(rotated(quaternion, vector), expected, atol=1e-13)


@pytest.fixture(scope="module")
def trajectory():
    import equinox as eqx
    import jax.numpy as jnp

    from jaxhamel.simulate import simulate
    from jaxhamel.systems import CircularRails, RollingBall

    class Swing(eqx.Module):
        def __call__(self, t):
            return jnp.stack([-1.2 + 0.3 * jnp.sin(2 * t)])

    rails = CircularRails(jnp.array([0.07]), jnp.array([[0.0, -1, 0]]), jnp.array([[1.0, 0, 0]]))
    ball = RollingBall(0.1, 1.0, jnp.full(3, 0.0067), jnp.zeros(3), jnp.array([0.5]), rails, 9.81)
    start = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))
    return simulate(ball, start, jnp.zeros(3), np.linspace(0, 1, 11), Swing(), max_steps=20)


def test_ball_motion_of_a_trajectory_as_far_as_it_came(trajectory):
    assert not trajectory.succeeded  # stopped by too few steps, on purpose
    motion = BallMotion.from_trajectory(trajectory, lambda t: np.array([0.1, 0.0]) * t)
    count = int(np.sum(trajectory.valid))
    assert 1 < count < 11
    assert len(motion.ts) == count
    theta = -1.2 + 0.3 * np.sin(2 * motion.ts)
    expected = 0.07 * np.stack([np.cos(theta), 0 * theta, np.sin(theta)], axis=1)
    np.testing.assert_allclose(motion.masses[:, 0], expected, atol=1e-15)
    np.testing.assert_allclose(motion.reference[:, 0], 0.1 * motion.ts, rtol=1e-14)
    assert motion.weight == pytest.approx(1.5 * 9.81)
    force = trajectory.system.contact_force(
        motion.ts[-1],
        (motion.quaternion[-1], motion.position[-1]),
        trajectory.u[count - 1],
        trajectory.control,
    )
    np.testing.assert_allclose(motion.force[-1], force, rtol=1e-12)
    assert "<canvas" in ball_report(motion).html()


def test_other_numbers_compile_nothing_again():
    """The programs for the figures of a ball at rest, compiled in advance, serve the rolling ball."""
    traced = []

    class Scaled(eqx.Module):
        factor: jax.Array

        def of(self, t, x, y):
            traced.append(x)
            return self.factor * t * (x + y)

    ts, x = np.linspace(0.0, 1.0, 5), np.arange(10.0).reshape(5, 2)
    for factor in (2.0, 3.0):
        found = along(Scaled(jnp.asarray(factor)).of, ts, factor * x, fixed=(np.ones(2),))
        np.testing.assert_allclose(found, factor * ts[:, None] * (factor * x + 1))
    assert len(traced) == 1


def test_rail_lines_close_where_the_rail_does():
    from jaxhamel.viz import rail_lines

    closed = rail_lines(circular_rails(0.07), np.zeros((5, 3)))
    np.testing.assert_allclose(closed[:, 0], closed[:, -1], atol=1e-12)
    straight = rail_lines(lambda s: np.stack([s, 0 * s, 0 * s], axis=1), np.array([[-0.2], [0.3]]))
    assert straight[0, 0, 0] < -0.2
    assert straight[0, -1, 0] > 0.3


def test_scene_refuses_wrong_length():
    ts = np.linspace(0, 1, 5)
    with pytest.raises(
        ValueError, match=r"`focus` has shape \(4, 3\); its first axis must have length 5"
    ):
        Scene(ts, [], np.zeros((4, 3)), 1.0)
    pose = Pose(np.tile([1.0, 0, 0, 0], (6, 1)), np.zeros((5, 3)))
    from jaxhamel.viz import Sphere

    with pytest.raises(ValueError, match=r"`Sphere.pose.quaternion` has shape \(6, 4\)"):
        Scene(ts, [Sphere(1.0, pose)], np.zeros((5, 3)), 1.0)


def test_scene_refuses_what_is_not_finite():
    trail = np.zeros((5, 3))
    trail[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"`Trail.points` is not finite at row 3"):
        Scene(np.linspace(0, 1, 5), [Trail(trail)], np.zeros((5, 3)), 1.0)


def test_chart_of_a_path_knows_its_axes(page):
    boxes = json.loads(found(r"id=\"chart-path\" data-times='.*?' data-paths='(.*?)'", page))
    assert boxes[0]["xlim"][0] < -1.0 < 1.0 < boxes[0]["xlim"][1]
    assert 0 < boxes[0]["left"] < boxes[0]["right"] <= 1


def test_chart_follows_the_theme(motion):
    chart = Chart("path", path_figure(motion.position), "d")
    page = Report("t", "l", ball_scene(motion), [chart]).html()
    svg = page[page.index("<svg") : page.index("</svg>")]
    assert "var(--path)" in svg
    assert "#334e7d" not in svg
