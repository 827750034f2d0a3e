"""Reading of URDF files: every element that has an effect, and messages about wrong files."""

import jax
import numpy as np
import pytest

import jaxhamel
from tests.multibody import by_hand
from tests.multibody.models import MIMIC, arm, urdf


def test_joints_follow_the_tree_and_not_the_file():
    tree = urdf(arm())
    assert tree.joint_names == ("shoulder", "elbow", "grip")
    assert tree.body_names == ("base", "upper", "fore", "tool", "finger")
    assert [part.shape for part in jax.tree.leaves(tree.initial)] == [(7,), (3,)]
    np.testing.assert_array_equal(tree.limits, [[-1, 2], [-np.inf, np.inf], [-np.inf, np.inf]])
    np.testing.assert_array_equal(tree.rate_limits, [4, np.inf, np.inf])
    np.testing.assert_array_equal(tree.control_limits[0], [-30, 30])


def test_base_floats_unless_it_is_the_world_or_held():
    assert urdf(arm()).space.dim == 9
    assert urdf(arm(), floating=False).space.dim == 3
    assert "moves freely" in urdf(arm()).notes[0]
    text = arm().replace('"base"', '"world"')
    assert urdf(text).space.dim == 3
    assert urdf(text, floating=True).space.dim == 9
    joint = '<link name="world"/><joint name="free" type="floating"><parent link="world"/><child link="base"/></joint>'
    tree = urdf(arm().replace("</robot>", joint + "</robot>"))
    assert tree.space.dim == 9
    assert [x.name for x in tree.structure.joints] == ["free", "shoulder", "elbow", "grip"]


def test_fixed_links_and_turned_inertias_move_with_their_links():
    """The tool is fixed to the fore arm, turned by a quarter; its inertia is turned by roll, pitch and yaw."""
    tree = urdf(arm())
    tool = tree.body_names.index("tool")
    assert tree.structure.links[tool] == tree.structure.links[tree.body_names.index("fore")]
    roll, pitch, yaw = (
        by_hand.turned_about(np.eye(3)[i], angle) for i, angle in enumerate((0.1, 0.2, 0.3))
    )
    turn = yaw @ pitch @ roll
    inertia = np.array([[0.01, 0.001, 0], [0.001, 0.012, 0], [0, 0, 0.006]])
    np.testing.assert_allclose(tree.inertias[tool], turn @ inertia @ turn.T, atol=1e-15)
    quarter = by_hand.turned_about(np.eye(3)[1], np.pi / 2)
    np.testing.assert_allclose(by_hand.rotation(tree.body_orientations[tool]), quarter, atol=1e-15)
    np.testing.assert_allclose(tree.body_positions[tool], [0.5, 0, 0])


def test_mimic_joint_has_no_coordinate():
    tree = urdf(arm(MIMIC))
    assert tree.joint_names == tree.control_names == ("shoulder", "elbow")
    assert tree.space.dim == 8
    assert tree.factors[3] == -0.3
    assert tree.offsets[3] == 0.2


def test_planar_joint_moves_across_its_axis():
    text = arm().replace('type="prismatic"', 'type="planar"')
    tree = urdf(text)
    assert tree.joint_names[-3:] == ("grip_x", "grip_y", "grip_angle")
    x, y, z = np.asarray(tree.axes[-3:])
    np.testing.assert_allclose(np.cross(x, y), z, atol=1e-15)
    np.testing.assert_allclose(z, [0, 1, 0], atol=1e-15)


def test_notes_name_what_has_no_effect():
    notes = urdf(arm().replace("</robot>", "<gazebo/><gazebo/></robot>")).notes
    for words in (
        "1 <collision> without effect",
        "limits of 1 joint",
        "2 elements <gazebo> without effect",
    ):
        assert any(words in note for note in notes), words


LINK = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
JOINT = '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/>{}</joint>'


def robot(*parts):
    return f"<robot name='r'>{''.join(parts)}</robot>"


def fixed(*ends):
    return JOINT.format("-".join(ends), "fixed", *ends, "")


def hinge(inside):
    return robot(A, B, JOINT.format("j", "revolute", "a", "b", inside))


A, B, C = map(LINK.format, "abc")
HINGE = JOINT.format("j", "revolute", "a", "b", "")
WRONG = {
    "no XML": ("<robot>", "robot.urdf: the file is no XML"),
    "no URDF": ("<sdf/>", "the root is <sdf>; a URDF file has <robot>"),
    "no link": ("<robot name='r'/>", "has no <link>"),
    "two roots": (robot(A, B), "has 2 roots, the links a, b"),
    "cycle": (
        robot(A, B, HINGE, fixed("b", "a")),
        "has no root.*form a cycle",
    ),
    "cycle beside the tree": (
        robot(A, B, C, LINK.format("d"), HINGE, fixed("c", "d"), fixed("d", "c")),
        "has a cycle of joints through the links c, d",
    ),
    "two parents": (
        robot(A, B, C, HINGE, fixed("a", "c"), fixed("c", "b")),
        'joint name="c-b"> has the child "b", which is that of joint "j" already',
    ),
    "unknown link": (robot(A, B, JOINT.format("j", "fixed", "a", "bb", "")), 'link="bb".*Did you mean "b"'),
    "same name": (robot(A, A), 'link name="a"> is there twice'),
    "kind": (robot(A, B, JOINT.format("j", "screw", "a", "b", "")), 'type="screw"; it must be one of revolute'),
    "axis": (hinge('<axis xyz="0 0 0"/>'), "an axis needs a direction"),
    "numbers": (hinge('<axis xyz="0 0"/>'), 'xyz="0 0", 2 numbers; it must have 3'),
    "words": (hinge('<axis xyz="0 0 z"/>'), "it must be numbers"),
    "infinite": (hinge('<axis xyz="0 0 inf"/>'), "must be finite"),
    "limits": (hinge('<limit lower="2" upper="1"/>'), "lower must not exceed upper"),
    "damping": (hinge('<dynamics damping="-1"/>'), "damping=-1; it must be 0 or more"),
    "mass": (robot(A.replace('value="1"', 'value="-1"')), "mass -1 kg"),
    "no mass": (robot(A.replace('<mass value="1"/>', "")), "<inertial> without <mass>"),
    "moments": (robot(A.replace('ixx="1"', 'ixx="3"')), "no rigid body has one larger than the sum"),
    "negative moments": (robot(A.replace('ixx="1"', 'ixx="-1"')), "none may be negative"),
    "massless": (robot(A, '<link name="b"/>', HINGE), "joints that carry no mass: j"),
    "mimic": (hinge('<mimic joint="x"/>'), 'mimic joint="x">, which is no joint'),
    "mimic itself": (hinge('<mimic joint="j"/>'), "which is no joint with a coordinate"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files_are_refused_by_name(text, message):
    with pytest.raises(ValueError, match=message):
        urdf(text)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="no joint that moves"):
        urdf(robot(A), floating=False)
    with pytest.raises(ValueError, match="`actuated` has 'x'; it must name joints of the file: j"):
        urdf(robot(A, B, HINGE), actuated=("x",))
    with pytest.raises(TypeError, match="`actuated` is 'j'; it must be a list"):
        urdf(robot(A, B, HINGE), actuated="j")
    with pytest.raises(TypeError, match="`floating` is 1; it must be True, False or None"):
        urdf(robot(A, B, HINGE), floating=1)
    with pytest.raises(ValueError, match=r"`gravity` has shape \(2,\)"):
        urdf(robot(A, B, HINGE), gravity=(0.0, 1.0))
    with pytest.raises(FileNotFoundError, match=r"there is no file nowhere\.urdf"):
        jaxhamel.read_urdf("nowhere.urdf")
    with pytest.raises(TypeError, match="`path` is of type int"):
        jaxhamel.read_urdf(3)
