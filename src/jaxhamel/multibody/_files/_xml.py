"""Elements of an XML file with the place of each, so that messages can name file, element and attribute."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from jaxhamel._checks._values import type_of


class RobotFileError(ValueError):
    """A file of a robot that cannot be read as a tree of rigid bodies."""


class XmlElement:
    """An element of a file, with checked attributes.

    - `tag`: its tag; `place`: file and element in words; `attributes`: by default those in the file.
    """

    def __init__(
        self, element: ElementTree.Element, file: str, attributes: Mapping[str, str] | None = None
    ):
        self._element, self._file = element, file
        self.tag = element.tag
        self.attributes = dict(element.attrib if attributes is None else attributes)

    def __iter__(self) -> Iterator["XmlElement"]:
        return (
            XmlElement(child, self._file) for child in self._element if isinstance(child.tag, str)
        )

    @property
    def place(self) -> str:
        """File and element, such as `robot.urdf: <joint name="hip">`."""
        name = self.attributes.get("name")
        return (
            f'{self._file}: <{self.tag} name="{name}">' if name else f"{self._file}: <{self.tag}>"
        )

    def with_attributes(self, attributes: Mapping[str, str]) -> "XmlElement":
        """The same element with other attributes."""
        return XmlElement(self._element, self._file, attributes)

    def error(self, message: str) -> RobotFileError:
        """An error about this element."""
        return RobotFileError(f"{self.place} {message}")

    def descendants(self) -> Iterator["XmlElement"]:
        """All elements inside this one."""
        for child in self:
            yield child
            yield from child.descendants()

    def all(self, tag: str) -> list["XmlElement"]:
        """The children with this tag."""
        return [child for child in self if child.tag == tag]

    def one(self, tag: str) -> "XmlElement | None":
        """The only child with this tag; None if there is none."""
        found = self.all(tag)
        if len(found) > 1:
            raise self.error(f"has {len(found)} elements <{tag}>; at most one is accepted.")
        return found[0] if found else None

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute as text; required without a default."""
        if name in self.attributes:
            return self.attributes[name]
        if default is None:
            raise self.error(f"has no attribute {name}.")
        return default

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """An attribute that is one of several words."""
        word = self.text(name, default)
        if word not in choices:
            raise self.error(f'has {name}="{word}"; it must be one of {", ".join(choices)}.')
        return word

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is one finite number."""
        return float(self.numbers(name, 1, None if default is None else (default,))[0])

    def numbers(
        self, name: str, count: int | None, default: tuple[float, ...] | None = None
    ) -> np.ndarray:
        """An attribute of `count` finite numbers (None: any number of them), separated by spaces."""
        if name not in self.attributes and default is not None:
            return np.array(default, float)
        words = self.text(name).split()
        try:
            found = np.array([float(word) for word in words])
        except ValueError:
            raise self.error(f'has {name}="{self.text(name)}"; it must be numbers.') from None
        if count is not None and len(found) != count:
            raise self.error(
                f'has {name}="{self.text(name)}", {len(found)} numbers; it must have {count}.'
            )
        if not np.all(np.isfinite(found)):
            raise self.error(f'has {name}="{self.text(name)}"; every number must be finite.')
        return found

    def not_negative(self, name: str, default: float = 0.0) -> float:
        """An attribute that is a number, 0 or more."""
        number = self.number(name, default)
        if number < 0:
            raise self.error(f"has {name}={number:g}; it must be 0 or more.")
        return number


def root_of(
    path: str | PathLike[str], tag: str, kind: str, include: str | None = None
) -> XmlElement:
    """The root of an XML file, which must have this tag.

    `include`: the tag of elements that stand for the children of the root of another file, whose path the attribute `file`
    has, relative to the folder of the first file; None: there are no such elements.

    **Raises:** `TypeError` for an argument that is no path, `FileNotFoundError`, `RobotFileError` for a file that is no XML
    or has another root.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"`path` is {type_of(path)}; it must be the path of a {kind} file.")
    file = Path(fspath(path))
    if not file.is_file():
        raise FileNotFoundError(f"`path`: there is no file {file}; give the path of a {kind} file.")
    root = _parsed(file)
    if root.tag != tag:
        raise RobotFileError(f"{file.name}: the root is <{root.tag}>; a {kind} file has <{tag}>.")
    if include is not None:
        _include(root, include, file, {file.resolve()})
    return XmlElement(root, file.name)


def _parsed(file: Path) -> ElementTree.Element:
    try:
        return ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        raise RobotFileError(f"{file.name}: the file is no XML: {error}.") from None


def _include(element: ElementTree.Element, tag: str, first: Path, known: set[Path]) -> None:
    """Replaces each element inside `element` that includes a file; `known`: the files that are there already."""
    for place, child in reversed([*enumerate(element)]):
        if child.tag == tag:
            root = _included(XmlElement(child, first.name), first, known)
            _include(root, tag, first, known)
            element[place : place + 1] = [*root]
        else:
            _include(child, tag, first, known)


def _included(element: XmlElement, first: Path, known: set[Path]) -> ElementTree.Element:
    """The root of the file that an element includes."""
    file = (first.parent / element.text("file")).resolve()
    if not file.is_file():
        raise element.error(f'has file="{element.text("file")}"; there is no file {file}.')
    if file in known:
        raise element.error(f"has the file {file.name}, which is there already; include it once.")
    known.add(file)
    return _parsed(file)


def ignored(element: XmlElement, known: tuple[str, ...]) -> Iterator[str]:
    """Notes on the children of an element whose tags have no effect."""
    for tag, number in Counter(child.tag for child in element if child.tag not in known).items():
        several = f"{number} elements <{tag}>" if number > 1 else f"an element <{tag}>"
        yield f"{element.place} has {several} without effect"


def nearest(name: str, names: Iterable[str]) -> str:
    """The sentence " Did you mean …?" with the most similar name; empty if none is similar."""
    found = get_close_matches(name, names, 1)
    return f' Did you mean "{found[0]}"?' if found else ""
