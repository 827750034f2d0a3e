"""Sizes and errors that pages state, for motions made by hand."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel.control import problems
from jaxhamel.mechanics import ODE, Kinematic, Part, State
from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.systems import KnifeEdge, TwoWheelSatellite
from jaxhamel.viz._motion import _charts_of, _numbers, _plan_page
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import _size, rows_drawn, scene_of
from jaxhamel.viz._scene import Pose


def pose(*positions):
    return Pose(np.tile([1.0, 0.0, 0.0, 0.0], (len(positions), 1)), np.array(positions))


def test_tracking_error(monkeypatch):
    """An error t on [0, 3] has the RMS √3, up to the trapezoidal rule's error, and the maximum 3."""
    ts = np.linspace(0.0, 3.0, 3001)
    monkeypatch.setattr(_numbers, "error_of", lambda run: run.ts)
    found = _numbers.tracking_numbers(type("Run", (), {"ts": ts})())
    np.testing.assert_allclose(found["tracking_rms"], np.sqrt(3.0), rtol=1e-6)
    assert found["tracking_max"] == 3.0


@pytest.mark.parametrize(("torque", "charts"), [(2.0, 1), (0.0, 0)])
def test_the_control_has_a_chart_with_its_name_and_unit(torque, charts):
    """The torque of each wheel over time; without torques there is none."""
    satellite = TwoWheelSatellite()
    q, u = satellite.initial_state()
    ts, control = np.linspace(0.0, 1.0, 3), lambda t: torque * jnp.stack([t, 1.0 - t])
    motion = jaxhamel.simulate(satellite, q, u, ts, control, dt=0.5)
    found = [c for c in _charts_of.charts_of(ShownMotion.of(motion)) if c.key == "control"]
    assert len(found) == charts
    if found:
        (axes,) = found[0].figure.axes
        assert axes.get_ylabel() == "torque / N m"
        np.testing.assert_allclose(axes.lines[0].get_ydata(), torque * ts)


def test_contact_numbers():
    """Without a known force there are no numbers; a body that lifts off needs infinite friction."""
    run = lambda force: SimpleNamespace(output=lambda name: force and SimpleNamespace(value=force))
    assert _numbers.contact_numbers(run(None)) == {}
    found = _numbers.contact_numbers(run([[3.0, 4.0, 10.0], [0.0, 1.0, 5.0]]))
    assert found == {"min_normal_force": 5.0, "friction_needed": 0.5}
    found = _numbers.contact_numbers(run([[3.0, 4.0, 10.0], [0.0, 1.0, -1.0]]))
    assert found == {"min_normal_force": -1.0, "friction_needed": float("inf")}


def test_size_of_a_scene():
    """The size is the radius of the second body plus its distance from the first; without extent it is a fifth of the
    way, and 1 m at rest."""
    first, second = pose([0, 0, 0.0], [1, 0, 0.0]), pose([0, 2, 0.0], [1, 1, 0.0])
    np.testing.assert_allclose(_size([Shape(), Shape(sphere=0.5)], [first, second]), 2.5)
    np.testing.assert_allclose(_size([Shape()], [first]), 0.2)
    assert _size([Shape()], [pose([0, 0, 0.0], [0, 0, 0.0])]) == 1.0


@dataclass
class Run:
    """A motion with place q and a force at the origin."""

    ts: np.ndarray
    q: np.ndarray
    u: np.ndarray
    force: float = 1.0
    reference = None
    system = SimpleNamespace(shapes=lambda: (), on_ground=False)
    obstacles = ()

    @property
    def along(self):
        turns = np.tile([1.0, 0.0, 0.0, 0.0], (len(self.ts), 1))
        contact = np.zeros((len(self.ts), 3))
        return SimpleNamespace(places=[(turns, self.q)], contact=contact, masses=None, ground=None)

    def output(self, name):
        force = np.full((len(self.ts), 3), self.force)
        return SimpleNamespace(value=force, level=None) if name == "forces" else None


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1e300])
def test_a_motion_is_drawn_as_long_as_its_numbers_can_be(wrong):
    """A motion is drawn up to its last row with finite numbers, and all numbers of its figures are finite."""
    q = np.column_stack([np.arange(5.0), np.zeros((5, 2))])
    run = Run(np.arange(5.0), q, q)
    scene = scene_of(run)
    assert scene is not None
    assert len(scene.ts) == rows_drawn(run) == 5
    run.q[3, 1] = wrong
    scene = scene_of(run)
    assert scene is not None
    assert len(scene.ts) == rows_drawn(run) == 3
    assert scene.extent < 10.0
    assert scene_of(Run(run.ts, run.q, run.u, wrong)) is None


@pytest.mark.parametrize(
    ("columns", "names", "label"),
    [
        (("angle", "x", "y"), ["angle"], "angle / rad"),
        (("x", "y", "z"), ["z"], "z / m"),
        (("angle", "x", "y", "z"), ["angle / rad", "z / m"], "pose"),
    ],
)
def test_unit_of_what_a_path_leaves_out(monkeypatch, columns, names, label):
    """The path shows x and y. Of a part in "rad, m", the chart shows the angle, or the angle and the height, each with its
    unit in the legend."""
    found = []
    monkeypatch.setattr(_charts_of, "quantities_chart", lambda *given: found.append(given))
    left = [column for column in columns if column not in ("x", "y")]
    values = np.arange(4.0 * len(columns)).reshape(4, -1)
    list(_charts_of._part_chart(None, Part("pose", columns, "rad, m"), values))
    ((_, _, shown, legend, title, said),) = found
    assert said == label
    assert legend == names
    assert shown.shape[1] == len(left)
    assert title.lower() == ", ".join(left)


def test_columns_as_symbols():
    columns = (
        "theta_1",
        "phi_dot",
        "b_2_dot",
        "theta_ddot_3",
        "wheel_angle_1",
        "v_x",
        "angle",
        "q1_1",
        "q_12",
    )
    symbols = [
        "θ₁", "φ\u0307", "ḃ₂", "θ\u0308₃", "wheel angle 1", "v_x", "angle", "q₁,₁", "q₁₂",
    ]  # fmt: skip
    assert list(map(_charts_of.symbol, columns)) == symbols


@pytest.mark.parametrize(
    ("names", "stem"),
    [
        (["Ω₁", "Ω₂"], "Ω"), (["wheel angle 1", "wheel angle 2"], "wheel angle"), (["v_x", "v_y"], "v"), (["x", "θ"], ""),
        (["height", "heading"], ""), (["σ"], "σ"), (["b₁", "c₁"], ""), (["q₂,₁", "q₂,₁₂"], "q"),
    ],
)  # fmt: skip
def test_common_part_of_names(names, stem):
    assert _charts_of.common(names) == stem


@pytest.mark.parametrize(
    ("key", "about", "title"),
    [
        ("speed", "σ, forward where φ = 0", "σ, forward where φ = 0"), ("bend", "about e2 and e3", "Bend about e2 and e3"),
        ("omega", "angular velocity", "Angular velocity"), ("rate", "of cart and pole", "Rate of cart and pole"),
    ],
)  # fmt: skip
def test_titles_of_parts(key, about, title):
    assert _charts_of.title_of(Part(key, (key,), "", about)) == title


def test_units_of_columns():
    assert Part("pose", ("angle", "x", "y"), "rad, m").units(3) == ("rad", "m", "m")
    assert Part("rates", "r", "rad/s").units(2) == ("rad/s", "rad/s")
    assert Part("rate", ("x_dot", "theta_dot"), "m/s, rad/s").units(2) == ("m/s", "rad/s")
    assert Part("twist", ("omega", "v_x", "v_y"), "rad/s, m/s").units(3)[1:] == ("m/s", "m/s")
    assert Part("twist", ("u_1", "u_2", "u_3"), "rad/s, m/s").units(3) == ("rad/s, m/s",) * 3


@pytest.mark.parametrize(
    ("system", "names", "units"),
    [
        (problems.CartPole(), ["force"], ["N"]),
        (Kinematic(KnifeEdge(mass=1.0, inertia=1.0, slope=0.0)), ["v", "omega"], ["m/s", "rad/s"]),
        (ODE(lambda t, y, c: c, 2), ["control_1", "control_2"], []),
    ],
)
def test_names_of_controls(system, names, units):
    problem = SimpleNamespace(system=system, ts=[0.0])
    result: Any = SimpleNamespace(problem=problem, control=lambda t: np.zeros(len(names)))
    assert _plan_page.names_and_units_of_controls(result) == (names, units)


def test_a_path_in_a_vertical_plane_has_its_own_axes():
    """Coordinates x and z are drawn as such, not as x and y seen from above."""
    names = State((Part("q", ("x", "z", "angle"), "m, m, rad"),), ())
    system = SimpleNamespace(state_names=names, on_ground=False, space=None)
    q = np.column_stack([np.linspace(0.0, 1.0, 4), np.linspace(2.0, 1.0, 4), np.zeros(4)])
    run = ShownMotion(system, None, np.arange(4.0), q, np.zeros((4, 0)))
    (path,) = _charts_of._path(run)
    axes = path.figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x / m", "z / m")
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), q[:, :2])
    assert path.description == "Path of the body"
