"""Reading of MJCF files: inertias of shapes, classes of defaults, orientations, actuators, messages about wrong files."""

import numpy as np
import pytest

import jaxhamel
from tests.multibody import by_hand
from tests.multibody.models import MANY_JOINTS, mjcf


def one_body(inside: str, settings: str = "", after: str = "") -> str:
    return f"<mujoco>{settings}<worldbody><body name='b'><joint name='j'/>{inside}</body></worldbody>{after}</mujoco>"


# --- inertias -------------------------------------------------------------------------------------


def points_in(inside, size, each=60):
    """Midpoints of a grid over a box, those of them that are inside a shape, and the volume of a cell."""
    axis = [np.linspace(-1, 1, 2 * each + 1)[1::2] * extent for extent in size]
    grid = np.stack(np.meshgrid(*axis, indexing="ij"), axis=-1).reshape(-1, 3)
    return grid[inside(*grid.T)], np.prod(2 * np.array(size) / each)


SHAPES = {
    "sphere": ('size=".3"', lambda x, y, z: x * x + y * y + z * z < 0.09, (0.3,) * 3),
    "capsule": (
        'size=".2 .3"',
        lambda x, y, z: x * x + y * y + np.maximum(abs(z) - 0.3, 0) ** 2 < 0.04,
        (0.2, 0.2, 0.5),
    ),
    "cylinder": ('size=".2 .3"', lambda x, y, z: x * x + y * y < 0.04, (0.2, 0.2, 0.3)),
    "box": ('size=".1 .2 .3"', lambda x, y, z: x < 1, (0.1, 0.2, 0.3)),
    "ellipsoid": (
        'size=".1 .2 .3"',
        lambda x, y, z: (x / 0.1) ** 2 + (y / 0.2) ** 2 + (z / 0.3) ** 2 < 1,
        (0.1, 0.2, 0.3),
    ),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_inertias_of_shapes_are_integrals_over_their_volumes(kind):
    """Mass and moments of inertia as sums over a grid, to 1 %."""
    size, inside, box = SHAPES[kind]
    tree = mjcf(one_body(f'<geom type="{kind}" {size} density="700"/>'))
    points, cell = points_in(inside, box)
    mass = 700 * cell * len(points)
    squares = 700 * cell * np.sum(points**2, axis=0)
    np.testing.assert_allclose(tree.masses, [mass], rtol=1e-2)
    np.testing.assert_allclose(
        tree.inertias[0], np.diag(np.sum(squares) - squares), rtol=1e-2, atol=1e-12
    )


def test_geoms_of_one_body_add_up():
    """Two balls of 1 and 3 kg, 0.4 m apart along a turned capsule's axis without mass."""
    inside = """<geom size=".1" mass="1" pos="0 0 .3"/><geom size=".1" mass="3" pos="0 0 -.1"/>
        <geom type="capsule" size=".1" fromto="0 0 0 1 1 1" mass="0"/>"""
    tree = mjcf(one_body(inside))
    np.testing.assert_allclose(tree.masses, [4.0])
    np.testing.assert_allclose(tree.coms, [[0, 0, 0]], atol=1e-16)
    across = 0.4 * 4 * 0.01 + 1 * 0.3**2 + 3 * 0.1**2
    np.testing.assert_allclose(tree.inertias[0], np.diag([across, across, 0.016]), atol=1e-15)


def test_inertial_or_geoms_as_the_compiler_says():
    inside = '<inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/><geom size=".1" mass="5"/>'
    for wanted, mass in (("auto", 2.0), ("true", 5.0), ("false", 2.0)):
        tree = mjcf(one_body(inside, f'<compiler inertiafromgeom="{wanted}"/>'))
        assert float(tree.masses[0]) == mass


# --- settings -------------------------------------------------------------------------------------


def test_classes_and_angles():
    tree = mjcf(MANY_JOINTS)
    by_name = {x.name: i for i, x in enumerate(tree.structure.joints)}
    np.testing.assert_allclose(tree.armatures[by_name["door"]], 0.01)
    np.testing.assert_allclose(tree.armatures[by_name["j1"]], 0.3)
    np.testing.assert_allclose(tree.armatures[by_name["grip"]], 0.3)
    assert tree.structure.joints[by_name["grip"]].kind == "slide"
    np.testing.assert_allclose(tree.stiffness[by_name["grip"]], 30.0)
    np.testing.assert_allclose(tree.gears, [3.0, 1.0, 2.0, 1.0])
    np.testing.assert_allclose(tree.gravity, [0.3, 0, -9.81])
    np.testing.assert_allclose(tree.limits[0], [-np.pi / 2, np.pi / 2])
    np.testing.assert_allclose(tree.initial[0], [np.deg2rad(20)])
    np.testing.assert_allclose(tree.initial[1], [0.5, 0.5, -0.5, 0.5, 0, 0.2, 1])


TURNS = {
    'euler="90 0 90"': [[0, 0, 1], [1, 0, 0], [0, 1, 0]],  # about x, then about the new z
    'quat="0 0 2 0"': [[-1, 0, 0], [0, 1, 0], [0, 0, -1]],
    'axisangle="0 3 0 90"': [[0, 0, 1], [0, 1, 0], [-1, 0, 0]],
    'xyaxes="0 2 0 -1 5 0"': [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
    'zaxis="1 0 0"': [[0, 0, 1], [0, 1, 0], [-1, 0, 0]],
    'zaxis="0 0 -1"': [[1, 0, 0], [0, -1, 0], [0, 0, -1]],
}


@pytest.mark.parametrize("given", TURNS)
def test_orientations(given):
    text = one_body('<geom size=".1"/>').replace("<body ", f"<body {given} ")
    turn = by_hand.rotation(mjcf(text).joint_orientations[0])
    if given.startswith("euler"):
        x, z = (by_hand.turned_about(np.eye(3)[i], np.pi / 2) for i in (0, 2))
        np.testing.assert_allclose(turn, x @ z, atol=1e-15)
    else:
        np.testing.assert_allclose(turn, TURNS[given], atol=1e-15)


def test_controls_without_actuators_and_gravity_turned_off():
    tree = mjcf(one_body('<geom size=".1"/>', '<option><flag gravity="disable"/></option>'))
    assert tree.control_names == ("j",)
    assert any("no <actuator>" in note for note in tree.notes)
    np.testing.assert_array_equal(tree.gravity, [0, 0, 0])


def test_unnamed_elements_get_names():
    body = "<body>{}<geom size='.1'/><joint/>{}</body>"
    text = f"<mujoco><worldbody>{body.format('', body.format('', ''))}</worldbody></mujoco>"
    tree = mjcf(text)
    assert len(set(tree.body_names)) == len(set(tree.joint_names)) == 2


def test_included_files(tmp_path):
    """A file in a folder, which includes another one: the attributes of both are those of one file written out."""
    (tmp_path / "parts").mkdir()
    parts = {
        "robot.xml": one_body(
            "<include file='parts/ball.xml'/>", "<include file='parts/option.xml'/>"
        ),
        "parts/ball.xml": "<mujocoinclude><include file='parts/geom.xml'/></mujocoinclude>",
        "parts/geom.xml": "<mujocoinclude><geom size='.1' mass='3'/></mujocoinclude>",
        "parts/option.xml": "<mujoco><option gravity='0 0 -1'/><asset/></mujoco>",
    }
    for name, text in parts.items():
        (tmp_path / name).write_text(text)
    tree = jaxhamel.read_mjcf(tmp_path / "robot.xml")
    assert float(tree.masses[0]) == 3.0
    assert float(tree.gravity[2]) == -1.0


# --- wrong files ----------------------------------------------------------------------------------

BALL = '<geom size=".1"/>'
WRONG = {
    "no MJCF": ("<robot/>", "the root is <robot>; a MJCF file has <mujoco>"),
    "contact of bodies": (one_body(BALL, after="<equality><weld body1='b'/></equality>"), "<equality> is not supported"),
    "tendon": (one_body(BALL, after="<tendon><fixed/></tendon>"), "<tendon> is not supported"),
    "include": (one_body(BALL, "<include file='x.xml'/>"), 'has file="x.xml"; there is no file'),
    "included itself": (one_body(BALL, "<include file='robot.xml'/>"), "robot.xml, which is there already"),
    "flag": (one_body("<joint damping='.1'/>" + BALL, "<option><flag damper='disable'/></option>"), "in a file with damp"),
    "misspelt": (one_body("<joint dampng='1'/>" + BALL), 'has dampng.*Did you mean "damping"'),
    "misspelt default": (one_body(BALL, "<default><geom mas='1'/></default>"), "<geom> has mas, which is not supported"),
    "rotor of an actuator": (one_body(BALL, after="<actuator><motor joint='j' armature='1'/></actuator>"), "has armature"),
    "replicate": ("<mujoco><worldbody><replicate count='2'/></worldbody></mujoco>", "<replicate> is in .*worldbody"),
    "fluid": (one_body(BALL, "<option viscosity='1'/>"), "has viscosity; forces of a fluid"),
    "global": (one_body(BALL, "<compiler coordinate='global'/>"), 'coordinate="global"; it must be one of local'),
    "bounds": (one_body(BALL, "<compiler boundmass='1'/>"), "has boundmass, which is not supported"),
    "class": (one_body("<geom class='x' size='.1'/>"), 'class="x", which is no class of <default>'),
    "mesh": (one_body("<geom type='mesh' mesh='m'/>"), 'type is "mesh"; inertias come from sphere'),
    "size": (one_body("<geom type='capsule' size='.1'/>"), "a capsule needs 2 positive numbers"),
    "frame": (one_body("<frame/>"), "<frame> is in .*where it is not supported"),
    "kind": (one_body("<joint type='screw'/>"), 'type="screw"; it must be one of hinge'),
    "axis": (one_body("<joint axis='0 0 0'/>"), "an axis needs a direction"),
    "free twice": (one_body("<freejoint/>" + BALL), "must be its only joint"),
    "free inside": (one_body(BALL + "<body><freejoint/>" + BALL + "</body>"), "a child of <worldbody>"),
    "spring of a ball": (one_body("<joint type='ball' stiffness='1'/>"), "not supported for the type ball"),
    "same name": (one_body("<joint name='j'/>" + BALL), 'joint name="j"> is there twice'),
    "two orientations": (one_body(BALL).replace("<body", "<body quat='1 0 0 0' euler='0 0 0'"), "has quat and euler"),
    "muscle": (one_body(BALL, after="<actuator><muscle joint='j'/></actuator>"), "<muscle> is not supported"),
    "site": (one_body(BALL, after="<actuator><motor site='s'/></actuator>"), "acts on no joint"),
    "joint of motor": (one_body(BALL, after="<actuator><motor joint='jj'/></actuator>"), 'joint="jj".*Did you mean "j"'),
    "activation": (one_body(BALL, after="<actuator><general joint='j' dyntype='filter'/></actuator>"), 'dyntype="filter"'),
    "massless": (one_body(""), "joints that carry no mass: j"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files_are_refused_by_name(text, message):
    with pytest.raises(ValueError, match=message):
        mjcf(text)
