"""Bodies, joints and controls as a file describes them (NumPy, lengths in m, angles in rad), and checks of inertias."""

from dataclasses import dataclass, field

import numpy as np

from jaxhamel.multibody._files._rotations import UNTURNED, matrix
from jaxhamel.multibody._files._xml import XmlElement

Vector = np.ndarray
NOWHERE = np.zeros(3)
UNLIMITED = (-np.inf, np.inf)


@dataclass(frozen=True)
class Inertial:
    """Mass [kg], centre of mass [m], and inertia `(3, 3)` about it [kg m²], in the axes of a body."""

    mass: float = 0.0
    com: Vector = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))


@dataclass(frozen=True)
class JointDescription:
    """A joint between a body and its parent, in the axes of the body.

    - `kind`: `"hinge"`, `"slide"`, `"ball"` or `"free"`. `anchor`: its position; `axis`: its direction, of any length.
    - `follows`: the joint that it follows, with displacement = `factor` · coordinate + `offset`.
    - `initial`: the coordinates with which motions begin: a number, a quaternion or a pose.
    - `limits`: of the coordinate; `rate_limit`: of its rate. Other fields: as in `MultibodyTree`.
    """

    name: str
    kind: str
    axis: Vector = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    anchor: Vector = field(default_factory=lambda: np.zeros(3))
    follows: str | None = None
    factor: float = 1.0
    offset: float = 0.0
    armature: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0
    limits: tuple[float, float] = UNLIMITED
    rate_limit: float = np.inf
    initial: Vector = field(default_factory=lambda: np.zeros(1))


@dataclass(frozen=True)
class BodyDescription:
    """A body with its pose on its parent (None: the world) and the joints between the two, the first one at the parent.

    Without joints the body is fixed to its parent. A free joint gives the pose itself; `position` and `orientation` (a
    quaternion) are then zero.
    """

    name: str
    parent: str | None
    inertial: Inertial
    joints: tuple[JointDescription, ...] = ()
    position: Vector = field(default_factory=lambda: np.zeros(3))
    orientation: Vector = field(default_factory=lambda: UNTURNED)


@dataclass(frozen=True)
class ControlDescription:
    """A control with the name of its joint; the other fields as in `MultibodyTree`."""

    name: str
    joint: str
    gear: float = 1.0
    gain: float = 1.0
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    limits: tuple[float, float] = UNLIMITED


SLACK = 1e-3  # files have few digits: how far, relatively, moments may violate what holds for a rigid body


def checked_inertial(
    element: XmlElement, mass: float, com: np.ndarray, inertia: np.ndarray, orientation: np.ndarray
) -> Inertial:
    """Mass, centre of mass and inertia, the latter turned from axes with this orientation to those of the body.

    **Raises:** `RobotFileError` if no rigid body can have them.
    """
    if mass < 0:
        raise element.error(f"has the mass {mass:g} kg; it must be 0 or more.")
    moments = np.linalg.eigvalsh(inertia)
    slack = SLACK * np.max(np.abs(moments))
    if moments[0] < -slack:
        raise element.error(
            f"has the principal moments of inertia {_listed(moments)} kg m²; none may be negative. Look at the signs of the "
            "products of inertia."
        )
    if moments[2] > moments[0] + moments[1] + slack:
        raise element.error(
            f"has the principal moments of inertia {_listed(moments)} kg m²; no rigid body has one larger than the sum "
            "of the other two. Look at units and products of inertia."
        )
    turn = matrix(orientation)
    return Inertial(mass, com, turn @ inertia @ turn.T)


def symmetric(xx: float, yy: float, zz: float, xy: float, xz: float, yz: float) -> np.ndarray:
    """The symmetric matrix with these entries."""
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], float)


def _listed(moments: np.ndarray) -> str:
    return ", ".join(f"{moment:.4g}" for moment in moments)
