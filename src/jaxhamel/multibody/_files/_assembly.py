"""Makes a `MultibodyTree` from the bodies, joints and controls of a file."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxhamel.multibody._files._descriptions import (
    BodyDescription,
    ControlDescription,
    JointDescription,
)
from jaxhamel.multibody._files._rotations import UNTURNED, matrix, product
from jaxhamel.multibody._files._xml import XmlElement
from jaxhamel.multibody._structure import WORLD, Joint, Structure
from jaxhamel.multibody._tree import MultibodyTree

FRICTION_RATE = 0.01  # Coulomb friction falls below this rate [rad/s, m/s]


class Placed(NamedTuple):
    """A pose on a link: the index of the link's joint or `WORLD`, position and quaternion."""

    link: int
    position: np.ndarray
    orientation: np.ndarray

    def then(self, position: np.ndarray, orientation: np.ndarray = UNTURNED) -> "Placed":
        """The pose on the same link of something with a pose in these axes."""
        place = self.position + matrix(self.orientation) @ position
        return Placed(self.link, place, product(self.orientation, orientation))


def assemble(
    file: XmlElement,
    bodies: Sequence[BodyDescription],
    controls: Sequence[ControlDescription],
    gravity: np.ndarray,
    notes: Sequence[str],
) -> MultibodyTree:
    """The tree of these bodies of a file, each of which comes after its parent.

    **Raises:** `RobotFileError` if nothing moves, or if a joint carries no mass.
    """
    joints = [joint for body in bodies for joint in body.joints]
    index = {joint.name: i for i, joint in enumerate(joints)}
    if not joints:
        raise file.error("has no joint that moves; a system needs one at least.")
    of_bodies, of_joints = _places(bodies, index)
    structure = Structure(
        joints=tuple(
            Joint(x.name, x.kind, place.link, index[x.follows] if x.follows else None)
            for x, place in zip(joints, of_joints, strict=True)
        ),
        bodies=tuple(body.name for body in bodies),
        links=tuple(place.link for place in of_bodies),
        actuators=tuple(control.name for control in controls),
        actuated=tuple(index[control.joint] for control in controls),
    )
    _check_carried(file, bodies, joints, structure)
    fields: dict[str, Any] = {
        **_of_bodies(bodies, of_bodies),
        **_of_joints(joints, of_joints, structure),
        **_of_controls(controls),
        "gravity": gravity,
        "friction_rate": FRICTION_RATE,
        "initial": structure.configuration({i: joints[i].initial for i in structure.own}),
    }
    return MultibodyTree(structure=structure, notes=tuple(notes), **fields)


def _places(
    bodies: Sequence[BodyDescription], index: dict[str, int]
) -> tuple[list[Placed], list[Placed]]:
    """The place of each body on its link, and of each joint on the link that carries it.

    The origin of a link is at the anchor of its joint, and its axes are those of the body in the file.
    """
    found: dict[str | None, Placed] = {None: Placed(WORLD, np.zeros(3), UNTURNED)}
    of_joints = []
    for body in bodies:
        place = found[body.parent].then(body.position, body.orientation)
        for joint in body.joints:
            of_joints.append(place.then(joint.anchor))
            place = Placed(index[joint.name], -joint.anchor, UNTURNED)
        found[body.name] = place
    return [found[body.name] for body in bodies], of_joints


def _check_carried(
    file: XmlElement,
    bodies: Sequence[BodyDescription],
    joints: Sequence[JointDescription],
    structure: Structure,
) -> None:
    """Checks that each joint carries some mass, or has an armature; its acceleration would not be determined."""
    loaded = np.array([joint.armature > 0 for joint in joints])
    for body, link in zip(bodies, structure.links, strict=True):
        if link != WORLD and (body.inertial.mass > 0 or np.any(body.inertial.inertia)):
            loaded |= structure.carries[link]
    for i, leader in enumerate(structure.leader):  # a joint that follows another moves with it
        loaded[leader] |= loaded[i]
    loaded = loaded[np.array(structure.leader)]
    if not np.all(loaded):
        names = ", ".join(joints[i].name for i in np.flatnonzero(~loaded).tolist())
        raise file.error(
            f"has joints that carry no mass: {names}. Their accelerations are not determined; give the bodies on them an "
            "<inertial>, fix the joints, or remove them."
        )


def _of_bodies(bodies: Sequence[BodyDescription], places: Sequence[Placed]) -> dict[str, Any]:
    return {
        "masses": [body.inertial.mass for body in bodies],
        "coms": np.array([body.inertial.com for body in bodies]),
        "inertias": np.array([body.inertial.inertia for body in bodies]),
        "body_positions": np.array([place.position for place in places]),
        "body_orientations": np.array([place.orientation for place in places]),
    }


def _of_joints(
    joints: Sequence[JointDescription], places: Sequence[Placed], structure: Structure
) -> dict[str, Any]:
    names = {"factors": "factor", "offsets": "offset", "armatures": "armature", "rest": "rest"}
    names |= {name: name for name in ("damping", "friction", "stiffness")}
    scalar = [joints[i] for i in structure.scalar_joints]
    return {
        "joint_positions": np.array([place.position for place in places]),
        "joint_orientations": np.array([place.orientation for place in places]),
        "axes": np.array([joint.axis for joint in joints]),
        "limits": np.reshape([joint.limits for joint in scalar], (-1, 2)),
        "rate_limits": np.array([joint.rate_limit for joint in scalar]),
        **{field: np.array([getattr(x, name) for x in joints]) for field, name in names.items()},
    }


def _of_controls(controls: Sequence[ControlDescription]) -> dict[str, Any]:
    return {
        "gears": np.array([control.gear for control in controls]),
        "gains": np.array([control.gain for control in controls]),
        "biases": np.reshape([control.bias for control in controls], (-1, 3)),
        "control_limits": np.reshape([control.limits for control in controls], (-1, 2)),
    }
