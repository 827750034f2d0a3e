"""Settings of an MJCF file that apply to many elements: `<compiler>`, and the classes of `<default>`."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jaxhamel.multibody._files._rotations import (
    UNTURNED,
    about,
    from_euler,
    from_matrix,
    to_direction,
)
from jaxhamel.multibody._files._xml import XmlElement, nearest

MAIN = "main"  # the class of elements that name none
ACTUATORS = ("motor", "position", "velocity", "general")
ORIENTATIONS = ("quat", "axisangle", "euler", "xyaxes", "zaxis")
REFUSED = {"settotalmass": "-1", "boundmass": "0", "boundinertia": "0", "alignfree": "false"}


@dataclass(frozen=True)
class Settings:
    """Attributes of `<compiler>`, and the default attributes of each class.

    - `degrees`: whether angles are in degrees. `sequence`: of Euler's angles, such as "xyz".
    - `from_shapes`: whether inertias come from geoms: `"auto"` for bodies without `<inertial>`, `"true"`, `"false"`.
    - `groups`: the first and the last group of geoms that give inertia.
    - `limited`: whether a `range` limits by itself.
    - `classes`: for each class the attributes of each tag.
    """

    degrees: bool
    sequence: str
    from_shapes: str
    groups: tuple[int, int]
    limited: bool
    classes: dict[str, dict[str, dict[str, str]]]

    @classmethod
    def of(cls, file: XmlElement) -> "Settings":
        """The settings of a file."""
        attributes = {k: v for x in file.all("compiler") for k, v in x.attributes.items()}
        compiler = (file.one("compiler") or file).with_attributes(attributes)
        compiler.choice("coordinate", ("local",), "local")
        for name, harmless in REFUSED.items():
            if compiler.text(name, harmless) not in (harmless, "false"):
                raise compiler.error(f"has {name}, which is not supported; remove it.")
        sequence = compiler.text("eulerseq", "xyz")
        if len(sequence) != 3 or set(sequence.lower()) - set("xyz"):
            raise compiler.error(
                f'has eulerseq="{sequence}"; it must be three of x, y, z, X, Y, Z.'
            )
        first, last = compiler.numbers("inertiagrouprange", 2, (0, 5))
        return cls(
            compiler.choice("angle", ("degree", "radian"), "degree") == "degree",
            sequence,
            compiler.choice("inertiafromgeom", ("auto", "true", "false"), "auto"),
            (int(first), int(last)),
            compiler.choice("autolimits", ("true", "false"), "true") == "true",
            _classes(file),
        )

    def with_defaults(
        self, element: XmlElement, inherited: str, tag: str | None = None
    ) -> XmlElement:
        """The element with the default attributes of its class, or of the class that it inherits from a body."""
        name = element.text("class", inherited)
        if name not in self.classes:
            raise element.error(
                f'has class="{name}", which is no class of <default>.{nearest(name, self.classes)}'
            )
        tag = element.tag if tag is None else tag
        return element.with_attributes(self.classes[name].get(tag, {}) | element.attributes)

    def angle(self, number: float) -> float:
        """An angle of the file in rad."""
        return float(np.deg2rad(number)) if self.degrees else number

    def orientation(self, element: XmlElement) -> np.ndarray:
        """The orientation of an element as a unit quaternion."""
        given = [name for name in ORIENTATIONS if name in element.attributes]
        if len(given) > 1:
            raise element.error(f"has {' and '.join(given)}; one of them gives the orientation.")
        return _READERS[given[0]](self, element) if given else UNTURNED

    def _quat(self, element: XmlElement) -> np.ndarray:
        q = element.numbers("quat", 4)
        return q / _length(element, "quat", q)

    def _axisangle(self, element: XmlElement) -> np.ndarray:
        *axis, angle = element.numbers("axisangle", 4)
        _length(element, "axisangle", np.array(axis))
        return about(np.array(axis), self.angle(angle))

    def _euler(self, element: XmlElement) -> np.ndarray:
        angles = [self.angle(angle) for angle in element.numbers("euler", 3)]
        return from_euler(np.array(angles), self.sequence)

    def _xyaxes(self, element: XmlElement) -> np.ndarray:
        x, y = np.split(element.numbers("xyaxes", 6), 2)
        x = x / _length(element, "xyaxes", x)
        y = y - (x @ y) * x
        y = y / _length(element, "xyaxes", y)
        return from_matrix(np.stack([x, y, np.cross(x, y)], axis=1))

    def _zaxis(self, element: XmlElement) -> np.ndarray:
        z = element.numbers("zaxis", 3)
        _length(element, "zaxis", z)
        return to_direction(z)


_READERS = {
    "quat": Settings._quat,
    "axisangle": Settings._axisangle,
    "euler": Settings._euler,
    "xyaxes": Settings._xyaxes,
    "zaxis": Settings._zaxis,
}


def _length(element: XmlElement, name: str, vector: np.ndarray) -> float:
    length = float(np.linalg.norm(vector))
    if length < 1e-14:
        raise element.error(f'has {name}="{element.text(name)}"; it needs a direction.')
    return length


def _classes(file: XmlElement) -> dict[str, dict[str, dict[str, str]]]:
    """The default attributes of each tag, by class; `main` is always there."""
    found: dict[str, dict[str, dict[str, str]]] = {MAIN: {}}
    for element in file.all("default"):
        for name, attributes in _nested(element, found[MAIN], MAIN):
            found[name] = attributes
    return found


def _nested(
    element: XmlElement, inherited: dict[str, dict[str, str]], fallback: str | None = None
) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    """A class and those inside it, each with the attributes that it inherits."""
    own = {tag: dict(attributes) for tag, attributes in inherited.items()}
    for child in element:
        if child.tag != "default":
            tag = "actuator" if child.tag in ACTUATORS else child.tag
            own.setdefault(tag, {}).update(child.attributes)
    yield element.text("class", fallback), own
    for child in element.all("default"):
        yield from _nested(child, own)
