"""Mass and inertia of the shapes of an MJCF file, homogeneous and full."""

import math

import numpy as np

from jaxhamel.multibody._files._descriptions import Inertial
from jaxhamel.multibody._files._mjcf_settings import Settings
from jaxhamel.multibody._files._rotations import matrix, to_direction
from jaxhamel.multibody._files._xml import XmlElement

DENSITY = 1000.0  # of geoms that state none [kg/m³]
WITHOUT_MASS = ("plane", "hfield")
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}


def inertial_of_shapes(geoms: list[XmlElement], settings: Settings) -> Inertial:
    """Mass, centre of mass and inertia of all geoms of a body together."""
    parts = [x for geom in geoms if (x := _inertial(geom, settings)).mass > 0]
    if not parts:
        return Inertial()
    mass = sum(part.mass for part in parts)
    com = np.sum([part.mass * part.com for part in parts], axis=0) / mass
    about_com = [part.inertia + part.mass * _shift(part.com - com) for part in parts]
    return Inertial(mass, com, np.sum(about_com, axis=0))


def _shift(d: np.ndarray) -> np.ndarray:
    """|d|² 1 − d dᵀ, of the parallel axes."""
    return d @ d * np.eye(3) - np.outer(d, d)


def _inertial(geom: XmlElement, settings: Settings) -> Inertial:
    kind = geom.text("type", "sphere")
    first, last = settings.groups
    if kind in WITHOUT_MASS or not first <= geom.number("group", 0) <= last:
        return Inertial()
    mass = geom.not_negative("mass") if "mass" in geom.attributes else None
    density = geom.not_negative("density", DENSITY)
    if mass == 0.0 or (mass is None and density == 0.0):
        return Inertial()
    if kind not in SIZES or "mesh" in geom.attributes:
        raise geom.error(
            f'gives mass to its body, but its type is "{kind}"; inertias come from {", ".join(SIZES)} alone. Give the body '
            'an <inertial>, or the geom mass="0".'
        )
    if geom.text("shellinertia", "false") == "true":
        raise geom.error(
            'has shellinertia="true", which is not supported; give the body an <inertial>.'
        )
    size, position, orientation = _dimensions(geom, kind, settings)
    volume, moments = SHAPES[kind](*size)
    mass = density * volume if mass is None else mass
    turn = matrix(orientation)
    return Inertial(mass, position, mass * turn @ np.diag(moments) @ turn.T)


def _dimensions(
    geom: XmlElement, kind: str, settings: Settings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sizes of a geom, its position and its orientation."""
    count = SIZES[kind]
    if "fromto" not in geom.attributes:
        size = geom.numbers("size", None)
        if len(size) < count or not np.all(size[:count] > 0):
            raise geom.error(
                f'has size="{geom.text("size")}"; a {kind} needs {count} positive numbers.'
            )
        return size[:count], geom.numbers("pos", 3, (0, 0, 0)), settings.orientation(geom)
    if kind == "sphere":
        raise geom.error("has fromto; a sphere has a position.")
    start, end = np.split(geom.numbers("fromto", 6), 2)
    half = float(np.linalg.norm(end - start)) / 2
    size = geom.numbers("size", None)
    across = (
        size[:1]
        if kind in ("capsule", "cylinder")
        else np.array([size[0], size[min(1, len(size) - 1)]])
    )
    if half == 0.0 or not np.all(across > 0):
        raise geom.error("has fromto of length 0, or a size that is not positive.")
    return np.append(across, half), (start + end) / 2, to_direction(end - start)


# Volume, and principal moments of inertia for unit mass, from the sizes; z is the axis of capsules and cylinders.


def _sphere(r):
    return 4.0 / 3.0 * math.pi * r**3, np.full(3, 0.4 * r * r)


def _cylinder(r, half):
    across = r * r / 4.0 + half * half / 3.0
    return 2.0 * math.pi * r * r * half, np.array([across, across, r * r / 2.0])


def _capsule(r, half):
    """A cylinder between two half balls, whose centres of mass are 3/8 r from the flat faces."""
    (straight, tube), (round_, ball) = _cylinder(r, half), _sphere(r)
    across = ball[0] + half * half + 0.75 * half * r
    volume = straight + round_
    ends = np.array([across, across, ball[2]])
    return volume, (straight * tube + round_ * ends) / volume


def _box(a, b, c):
    return 8.0 * a * b * c, np.array([b * b + c * c, a * a + c * c, a * a + b * b]) / 3.0


def _ellipsoid(a, b, c):
    moments = np.array([b * b + c * c, a * a + c * c, a * a + b * b]) / 5.0
    return 4.0 / 3.0 * math.pi * a * b * c, moments


SHAPES = {
    "sphere": _sphere,
    "capsule": _capsule,
    "cylinder": _cylinder,
    "box": _box,
    "ellipsoid": _ellipsoid,
}
