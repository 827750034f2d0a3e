"""Checks of inertias that a file gives."""

import numpy as np

from jaxhamel.multibody._files._descriptions import Inertial
from jaxhamel.multibody._files._rotations import matrix
from jaxhamel.multibody._files._xml import XmlElement

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
