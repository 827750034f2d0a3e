"""Reads trees of rigid bodies from MJCF files, the format of MuJoCo."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from os import PathLike

import numpy as np

from jaxhamel._words import counted
from jaxhamel.multibody._files._assembly import assemble
from jaxhamel.multibody._files._descriptions import (
    UNLIMITED,
    BodyDescription,
    Inertial,
    JointDescription,
    checked_inertial,
    symmetric,
)
from jaxhamel.multibody._files._mjcf_attributes import check_attributes, check_flags
from jaxhamel.multibody._files._mjcf_controls import controls_of, limits_of
from jaxhamel.multibody._files._mjcf_settings import MAIN, Settings
from jaxhamel.multibody._files._mjcf_shapes import inertial_of_shapes
from jaxhamel.multibody._files._rotations import UNTURNED
from jaxhamel.multibody._files._xml import XmlElement, root_of
from jaxhamel.multibody._tree import MultibodyTree

GRAVITY = (0.0, 0.0, -9.81)
JOINTS = ("joint", "freejoint")
NAMED = {"body": ("body",), "joint": JOINTS}
KINDS = ("hinge", "slide", "ball", "free")
# sections and elements that change no motion, and those that would change it
HARMLESS = (
    "compiler",
    "option",
    "size",
    "visual",
    "statistic",
    "default",
    "asset",
    "worldbody",
    "actuator",
)
REFUSED = ("equality", "tendon", "deformable", "extension")
IN_BODY = ("inertial", "joint", "freejoint", "geom", "site", "camera", "light", "body")
FLUID = ("density", "viscosity", "wind")


def read_mjcf(path: str | PathLike[str]) -> MultibodyTree:
    """Reads a tree of rigid bodies from an MJCF file (MuJoCo's XML); MuJoCo is not needed.

    ```python
    robot = jaxhamel.read_mjcf("robot.xml")
    q, u = robot.initial_state()
    motion = jaxhamel.simulate(robot, q, u, ts)
    ```

    Joints of the types hinge, slide, ball and free, in MuJoCo's order, with armature, damping, frictionloss, stiffness,
    springref and ref; inertias from `<inertial>` or from geoms (sphere, capsule, cylinder, box, ellipsoid, by mass or
    density); classes of `<default>` and `childclass`; `<include>`; `<option gravity>`; the actuators motor, position,
    velocity, and general without activation. Without `<actuator>` each hinge and slide has a control, its torque [N m] or
    force [N].

    Coordinates are MuJoCo's, but a free body's pose is (quaternion, position), and its velocity the twist (Ω, V) in the
    body's axes, V = Rᵀ ṗ, where MuJoCo has (ṗ, Ω).

    There is no contact, and limits of joints, controls and forces stop nothing; `notes` lists those that the file contains.
    Sensors, keyframes, cameras and options of the solver have no effect. Coulomb friction f of a joint at the rate r is
    −f r/√(r² + ε²), ε = `friction_rate`, where MuJoCo has a constraint.

    **Arguments:** `path`: the file.

    **Returns:** a `MultibodyTree`; `initial_state()` gives MuJoCo's `qpos0`, at rest.

    **Raises:** `ValueError` with file, element and name: for a file that is no MJCF, for elements that would change the
    motion and are not supported (equality constraints, tendons, meshes that give mass, fluids, plug-ins, …), for attributes
    of bodies, joints, geoms and actuators that are not known, wrong numbers.

    Source: the reference of MJCF, https://mujoco.readthedocs.io/en/stable/XMLreference.html.
    """
    file = root_of(path, "mujoco", "MJCF", include="include")
    _check_sections(file)
    check_attributes(file)
    check_flags(file)
    reader = _Reader(file, Settings.of(file))
    bodies = [
        body
        for world in file.all("worldbody")
        for element in world.all("body")
        for body in reader.bodies(element, None, world.text("childclass", MAIN))
    ]
    joints = {joint.name: joint for body in bodies for joint in body.joints}
    controls = controls_of(file, reader.settings, joints)
    notes = [*reader.notes(), *_notes(file)]
    return assemble(file, bodies, controls, _gravity(file), notes)


class _Reader:
    """Reads the bodies of a file, and counts the elements without effect."""

    def __init__(self, file: XmlElement, settings: Settings):
        self.settings = settings
        self.shapes = self.limits = 0
        self._names = {kind: _given_names(file, tags) for kind, tags in NAMED.items()}

    def notes(self) -> Iterator[str]:
        """The elements of the file's bodies that have no effect, in words."""
        if self.shapes:
            yield f"{counted(self.shapes, 'geom')} without contact: bodies do not collide"
        if self.limits:
            number = counted(self.limits, "joint")
            yield f"the limits of {number} are kept in `limits`; no motion stops there"

    def bodies(
        self, element: XmlElement, parent: str | None, inherited: str
    ) -> Iterator[BodyDescription]:
        """A body and those inside it."""
        _check_children(element)
        if element.text("mocap", "false") == "true" or element.number("gravcomp", 0.0):
            raise element.error("has mocap or gravcomp, which are not supported.")
        inherited = element.text("childclass", inherited)
        name = self._name(element, "body", "body")
        joints = tuple(self._joint(x, name, inherited) for x in element if x.tag in JOINTS)
        position = element.numbers("pos", 3, (0.0, 0.0, 0.0))
        orientation = self.settings.orientation(element)
        if any(joint.kind == "free" for joint in joints):
            joints = (_free_alone(element, parent, joints, position, orientation),)
            position, orientation = np.zeros(3), UNTURNED
        inertial = self._inertial(element, inherited)
        yield BodyDescription(name, parent, inertial, joints, position, orientation)
        for child in element.all("body"):
            yield from self.bodies(child, name, inherited)

    def _name(self, element: XmlElement, kind: str, made: str) -> str:
        """The name of an element; one that begins with `made` if it has none."""
        if name := element.text("name", ""):
            return name
        used = self._names[kind]
        name = (
            made
            if made not in used
            else next(x for k in count(2) if (x := f"{made}_{k}") not in used)
        )
        used.add(name)
        return name

    def _inertial(self, element: XmlElement, inherited: str) -> Inertial:
        """From <inertial> or from the geoms, as <compiler inertiafromgeom> has it."""
        geoms = [self.settings.with_defaults(geom, inherited) for geom in element.all("geom")]
        self.shapes += len(geoms)
        given, wanted = element.one("inertial"), self.settings.from_shapes
        if wanted == "true" or (wanted == "auto" and given is None):
            return inertial_of_shapes(geoms, self.settings)
        return Inertial() if given is None else self._given_inertial(given)

    def _given_inertial(self, element: XmlElement) -> Inertial:
        com, orientation = element.numbers("pos", 3), self.settings.orientation(element)
        if "fullinertia" in element.attributes:
            inertia = symmetric(*element.numbers("fullinertia", 6))
        else:
            inertia = np.diag(element.numbers("diaginertia", 3, (0.0, 0.0, 0.0)))
        return checked_inertial(element, element.number("mass"), com, inertia, orientation)

    def _joint(self, element: XmlElement, body: str, inherited: str) -> JointDescription:
        if element.tag == "freejoint":
            if element.text("align", "false") == "true":
                raise element.error('has align="true", which is not supported.')
            return JointDescription(self._name(element, "joint", f"{body}_free"), "free")
        element = self.settings.with_defaults(element, inherited)
        kind = element.choice("type", KINDS, "hinge")
        name = self._name(element, "joint", f"{body}_{kind}")
        _check_joint(element, kind)
        angle = self.settings.angle if kind == "hinge" else float
        reference = angle(element.number("ref", 0.0))
        axis = element.numbers("axis", 3, (0.0, 0.0, 1.0))
        if not np.any(axis):
            raise element.error('has axis="0 0 0"; an axis needs a direction.')
        limits = UNLIMITED
        if kind in ("hinge", "slide"):
            limits = limits_of(element, "range", "limited", self.settings, kind == "hinge")
        self.limits += "range" in element.attributes
        return JointDescription(
            name,
            kind,
            axis,
            np.zeros(3) if kind == "free" else element.numbers("pos", 3, (0.0, 0.0, 0.0)),
            offset=-reference,
            armature=element.not_negative("armature"),
            damping=element.not_negative("damping"),
            friction=element.not_negative("frictionloss"),
            stiffness=element.not_negative("stiffness"),
            rest=angle(element.number("springref", 0.0)) - reference,
            limits=limits,
            initial=UNTURNED if kind == "ball" else np.array([reference]),
        )


def _check_children(element: XmlElement) -> None:
    """Checks that a body has no elements inside it that are not supported."""
    for child in element:
        if child.tag not in IN_BODY:
            raise child.error(
                f"is in {element.place}, where it is not supported; MuJoCo's mj_saveLastXML writes files without it."
            )


def _given_names(file: XmlElement, tags: tuple[str, ...]) -> set[str]:
    """The names that the file gives to elements with these tags, each of which may be there only once."""
    found: set[str] = set()
    for element in file.descendants():
        name = element.text("name", "")
        if element.tag in tags and name:
            if name in found:
                raise element.error(f"is there twice; every {tags[0]} needs a name of its own.")
            found.add(name)
    return found


def _check_joint(element: XmlElement, kind: str) -> None:
    """Checks that a joint has no forces that are not supported."""
    if np.any(element.numbers("springdamper", 2, (0.0, 0.0))):
        raise element.error("has springdamper, which is not supported; give stiffness and damping.")
    if kind in ("ball", "free") and element.number("stiffness", 0.0):
        raise element.error(f"has a stiffness, which is not supported for the type {kind}.")


def _free_alone(
    element: XmlElement,
    parent: str | None,
    joints: Sequence[JointDescription],
    position: np.ndarray,
    orientation: np.ndarray,
) -> JointDescription:
    """The free joint of a body, whose initial pose is that of the body."""
    if parent is not None or len(joints) > 1:
        raise element.error(
            "has a free joint; this must be its only joint, and the body a child of <worldbody>."
        )
    return replace(joints[0], initial=np.concatenate([orientation, position]))


def _check_sections(file: XmlElement) -> None:
    """Checks that no section of the file would change the motion and is not supported."""
    for section in file:
        if section.tag in REFUSED and [*section]:
            raise section.error(
                "is not supported: only rigid bodies, joints and actuators at joints are. Remove it, or describe the system "
                "by a Lagrangian of your own."
            )
        if section.tag == "worldbody":
            _check_children(section)
    for option in file.all("option"):
        for name in FLUID:
            if np.any(option.numbers(name, None, (0.0,))):
                raise option.error(f"has {name}; forces of a fluid are not supported.")


def _gravity(file: XmlElement) -> np.ndarray:
    """The acceleration of gravity; zero if a flag turns it off."""
    gravity = np.array(GRAVITY)
    for option in file.all("option"):
        gravity = option.numbers("gravity", 3, tuple(gravity))
        for flag in option.all("flag"):
            if flag.choice("gravity", ("enable", "disable"), "enable") == "disable":
                return np.zeros(3)
    return gravity


def _notes(file: XmlElement) -> Iterator[str]:
    """The elements of the file's sections that have no effect, in words."""
    for section in file:
        if section.tag not in HARMLESS and [*section]:
            yield f"{section.place} without effect"
    if not file.all("actuator"):
        yield "the file has no <actuator>: each hinge and slide has a control of its own"
    forces = sum(
        any(name in element.attributes for name in ("forcerange", "actuatorfrcrange"))
        for element in file.descendants()
    )
    if forces:
        yield f"the force limits of {counted(forces, 'element')} without effect"
