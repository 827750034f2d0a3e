"""Makes a `MultibodyTree` from a URDF file, ROS's format for descriptions of robots."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike

import numpy as np

from jaxhamel import _checks
from jaxhamel._checks._values import described
from jaxhamel._words import counted
from jaxhamel.multibody._files._assembly import assemble
from jaxhamel.multibody._files._descriptions import (
    UNLIMITED,
    BodyDescription,
    ControlDescription,
    Inertial,
    JointDescription,
    checked_inertial,
    symmetric,
)
from jaxhamel.multibody._files._rotations import UNTURNED, from_euler, matrix, to_direction
from jaxhamel.multibody._files._xml import XmlElement, ignored, nearest, root_of
from jaxhamel.multibody._tree import MultibodyTree

KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
GRAVITY = (0.0, 0.0, -9.81)
POSE = np.array([1.0, 0, 0, 0, 0, 0, 0])


def read_urdf(
    path: str | PathLike[str],
    *,
    floating: bool | None = None,
    actuated: Sequence[str] | None = None,
    gravity: Sequence[float] = GRAVITY,
) -> MultibodyTree:
    """Reads a robot from a URDF file.

    ```python
    robot = jaxhamel.read_urdf("robot.urdf")
    q, u = robot.initial_state()
    motion = jaxhamel.simulate(robot, q, u, ts)
    ```

    **Arguments:**

    - `path`: the file.
    - `floating`: whether the root link moves freely in space; then q begins with its pose and v with its twist (Ω, V) in its
      own axes. None, the default: it does unless its name is `world`, or a joint with type `floating` connects it.
    - `actuated`: the names of the joints with a control, a torque [N m] or force [N]. None: all revolute, continuous,
      prismatic and planar joints that follow no other one.
    - `gravity`: the acceleration of gravity in space [m/s²], `(3,)`.

    **Returns:** a `MultibodyTree`. Joints stand in the order of the tree: each after that of its parent link, and those of
    one link in the order of the file. A planar joint `j` becomes two slides `j_x`, `j_y` and a hinge `j_angle`. Damping and
    friction of `<dynamics>` act; `<limit>` becomes `limits`, `rate_limits` and `control_limits`; `<mimic>` joints follow
    others. Links without `<inertial>` have no mass. `notes` lists elements without effect, such as collision shapes.

    **Raises:** `ValueError` with file, element and name: for a file that is no URDF, several roots, cycles, unknown names,
    inertias that no rigid body can have, a robot in which nothing moves.

    Source: the specification of URDF, https://wiki.ros.org/urdf/XML.
    """
    file = root_of(path, "robot", "URDF")
    links, joints = _named(file, "link"), _named(file, "joint")
    if floating is not None and not isinstance(floating, bool):
        raise TypeError(f"`floating` is {described(floating)}; it must be True, False or None.")
    children = _children(links, joints)
    root = _root(file, links, joints)
    floats = _floats(floating, root, children[root])
    bodies = [_root_body(links[root], floats), *_bodies(links, root, children)]
    _check_all_reached(file, links, bodies)
    followed = {x.name: x for body in bodies for x in body.joints}
    for name, joint in joints.items():
        _check_mimic(joint, followed.get(name), followed)
    controls = _controls(joints, [x for body in bodies for x in body.joints], actuated)
    _checks.check_shape("gravity", gravity, (3,))
    _checks.check_finite("gravity", gravity)
    notes = [_base_note(root, floats, floating), *_notes(file, links, joints)]
    return assemble(file, bodies, controls, np.array(gravity, float), notes)


# --- the tree -------------------------------------------------------------------------------------


def _named(file: XmlElement, tag: str) -> dict[str, XmlElement]:
    """All elements with this tag, by name."""
    found: dict[str, XmlElement] = {}
    for element in file.all(tag):
        name = element.text("name")
        if name in found:
            raise element.error(f"is there twice; every <{tag}> needs a name of its own.")
        found[name] = element
    return found


def _children(
    links: dict[str, XmlElement], joints: dict[str, XmlElement]
) -> dict[str, list[XmlElement]]:
    """The joints on each link, in the order of the file."""
    found: dict[str, list[XmlElement]] = {name: [] for name in links}
    for joint in joints.values():
        _end(joint, "child", links)
        found[_end(joint, "parent", links)].append(joint)
    return found


def _end(joint: XmlElement, tag: str, links: dict[str, XmlElement]) -> str:
    """The name of a joint's parent or child."""
    element = joint.one(tag)
    if element is None:
        raise joint.error(f"has no element <{tag}>.")
    name = element.text("link")
    if name not in links:
        raise joint.error(
            f'has <{tag} link="{name}">, but the file has no such link.{nearest(name, links)}'
        )
    return name


def _root(file: XmlElement, links: dict[str, XmlElement], joints: dict[str, XmlElement]) -> str:
    """The only link that is no child."""
    if not links:
        raise file.error("has no <link>.")
    owner: dict[str, XmlElement] = {}
    for joint in joints.values():
        child = _end(joint, "child", links)
        if child in owner:
            raise joint.error(
                f'has the child "{child}", which is that of joint "{owner[child].text("name")}" already; in a tree each '
                "link is the child of one joint. Closed loops are not supported."
            )
        owner[child] = joint
    roots = [name for name in links if name not in owner]
    if not roots:
        raise file.error(
            "has no root: each link is the child of a joint, so the joints form a cycle."
        )
    if len(roots) > 1:
        raise file.error(
            f"has {len(roots)} roots, the links {', '.join(roots)}, which are children of no joint; a robot has one. "
            "Connect the others by joints, of type fixed or floating for example."
        )
    return roots[0]


def _check_all_reached(
    file: XmlElement, links: dict[str, XmlElement], bodies: Sequence[BodyDescription]
) -> None:
    lost = [name for name in links if name not in {body.name for body in bodies}]
    if lost:
        raise file.error(f"has a cycle of joints through the links {', '.join(lost)}.")


def _floats(floating: bool | None, root: str, joints: Sequence[XmlElement]) -> bool:
    """Whether the root link floats."""
    if floating is not None:
        return floating
    return root != "world" and all(joint.text("type", "") != "floating" for joint in joints)


def _root_body(link: XmlElement, floats: bool) -> BodyDescription:
    name = link.text("name")
    joint = JointDescription(name, "free", initial=POSE)
    return BodyDescription(name, None, _inertial(link), (joint,) if floats else ())


def _bodies(
    links: dict[str, XmlElement], parent: str, children: dict[str, list[XmlElement]]
) -> Iterator[BodyDescription]:
    """The links that a link carries, each after the one that carries it."""
    for joint in children[parent]:
        name = _end(joint, "child", links)
        position, orientation = _origin(joint)
        own = _joints(joint)
        yield BodyDescription(name, parent, _inertial(links[name]), own, position, orientation)
        yield from _bodies(links, name, children)


# --- links and joints -----------------------------------------------------------------------------


def _origin(element: XmlElement) -> tuple[np.ndarray, np.ndarray]:
    """Position and quaternion of <origin>; roll, pitch and yaw turn about axes that rest."""
    origin = element.one("origin")
    if origin is None:
        return np.zeros(3), UNTURNED
    angles = origin.numbers("rpy", 3, (0.0, 0.0, 0.0))
    return origin.numbers("xyz", 3, (0.0, 0.0, 0.0)), from_euler(angles, "XYZ")


def _inertial(link: XmlElement) -> Inertial:
    element = link.one("inertial")
    if element is None:
        return Inertial()
    com, orientation = _origin(element)
    mass, moments = element.one("mass"), element.one("inertia")
    if mass is None:
        raise link.error("has <inertial> without <mass>.")
    keys = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
    values = [0.0] * 6 if moments is None else [moments.number(key, 0.0) for key in keys]
    return checked_inertial(link, mass.number("value"), com, symmetric(*values), orientation)


def _joints(element: XmlElement) -> tuple[JointDescription, ...]:
    """The joint of an element: none for a fixed one, two slides and a hinge for a planar one."""
    kind = element.choice("type", KINDS, "")
    name = element.text("name")
    if kind == "fixed":
        return ()
    if kind == "floating":
        return (JointDescription(name, "free", initial=POSE),)
    axis = element.one("axis")
    direction = np.array([1.0, 0.0, 0.0]) if axis is None else axis.numbers("xyz", 3)
    if not np.any(direction):
        raise element.error('has <axis xyz="0 0 0">; an axis needs a direction.')
    dynamics = element.one("dynamics")
    damping, friction = (
        0.0 if dynamics is None else dynamics.not_negative(key) for key in ("damping", "friction")
    )
    joint = JointDescription(name, "hinge", direction, damping=damping, friction=friction)
    if kind == "planar":
        turn = matrix(to_direction(direction))
        x, y = (
            replace(joint, name=f"{name}_{letter}", kind="slide", axis=turn[:, k])
            for k, letter in enumerate("xy")
        )
        return x, y, replace(joint, name=f"{name}_angle")
    scalar = replace(joint, kind="slide" if kind == "prismatic" else "hinge")
    return (_following(element, _limited(element, kind, scalar)),)


def _limited(element: XmlElement, kind: str, joint: JointDescription) -> JointDescription:
    """The joint with the limits of <limit>; those of a continuous joint are the ones of its rate alone."""
    limit = element.one("limit")
    if limit is None:
        return joint
    rate = limit.number("velocity", np.inf) if "velocity" in limit.attributes else np.inf
    if kind == "continuous":
        return replace(joint, rate_limit=rate)
    lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
    if lower > upper:
        raise element.error(f"has the limits {lower:g} and {upper:g}; lower must not exceed upper.")
    return replace(joint, limits=(lower, upper), rate_limit=rate)


def _following(element: XmlElement, joint: JointDescription) -> JointDescription:
    mimic = element.one("mimic")
    if mimic is None:
        return joint
    factor, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
    return replace(joint, follows=mimic.text("joint"), factor=factor, offset=offset)


def _check_mimic(
    element: XmlElement, joint: JointDescription | None, joints: dict[str, JointDescription]
) -> None:
    """Checks that a joint follows one that has a coordinate of its own."""
    if joint is None or joint.follows is None:
        return
    leader = joints.get(joint.follows)
    if leader is None or leader.kind not in ("hinge", "slide") or leader.follows is not None:
        own = [x.name for x in joints.values() if x.kind != "free" and x.follows is None]
        raise element.error(
            f'has <mimic joint="{joint.follows}">, which is no joint with a coordinate of its own; these are '
            f"{', '.join(own) or 'none'}."
        )


# --- controls and notes ---------------------------------------------------------------------------


def _controls(
    elements: dict[str, XmlElement],
    joints: Sequence[JointDescription],
    actuated: Sequence[str] | None,
) -> list[ControlDescription]:
    """A torque or force for each actuated joint, in the order of the tree."""
    able = [x.name for x in joints if x.kind != "free" and x.follows is None]
    if isinstance(actuated, str):
        raise TypeError(f"`actuated` is {actuated!r}; it must be a list of names of joints.")
    for name in () if actuated is None else actuated:
        if name not in able:
            raise ValueError(
                f"`actuated` has {name!r}; it must name joints of the file: {', '.join(able)}."
            )
    chosen = able if actuated is None else [name for name in able if name in actuated]
    return [ControlDescription(name, name, limits=_effort(elements.get(name))) for name in chosen]


def _effort(element: XmlElement | None) -> tuple[float, float]:
    limit = None if element is None else element.one("limit")
    if limit is None or "effort" not in limit.attributes:
        return UNLIMITED
    effort = limit.not_negative("effort")
    return -effort, effort


def _base_note(root: str, floats: bool, floating: bool | None) -> str:
    if floats:
        advice = "" if floating else "; read_urdf(..., floating=False) fixes it"
        return f"the root link {root} moves freely in space{advice}"
    return f"the root link {root} is fixed in space"


def _notes(
    file: XmlElement, links: dict[str, XmlElement], joints: dict[str, XmlElement]
) -> Iterator[str]:
    """The elements of the file that the system ignores, in words."""
    yield from ignored(file, ("link", "joint"))
    for tag, meaning in (
        ("collision", "bodies do not collide"),
        ("visual", "links are drawn as boxes"),
    ):
        number = sum(len(link.all(tag)) for link in links.values())
        if number:
            yield f"{counted(number, f'<{tag}>', f'<{tag}>')} without effect: {meaning}"
    limits = sum(joint.one("limit") is not None for joint in joints.values())
    if limits:
        yield f"the limits of {counted(limits, 'joint')} are kept in `limits`; no motion stops there"
    for element in (*links.values(), *joints.values()):
        yield from ignored(element, KNOWN[element.tag])


KNOWN = {
    "link": ("inertial", "visual", "collision"),
    "joint": ("origin", "parent", "child", "axis", "dynamics", "limit", "mimic"),
}
