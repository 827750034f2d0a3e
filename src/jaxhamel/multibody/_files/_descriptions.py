"""Bodies, joints and controls as a file describes them, in numbers of NumPy; lengths in m, angles in rad."""

from dataclasses import dataclass, field

import numpy as np

from jaxhamel.multibody._files._rotations import UNTURNED

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
