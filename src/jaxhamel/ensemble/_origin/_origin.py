"""Describes the program that computed the numbers in a folder; it is stored there and compared before a run is resumed."""

import base64
import hashlib
import zlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxhamel.ensemble._origin._program_text import array_text, program_text

_PACKAGES = (
    *("jax", "jaxlib", "jaxhamel", "numpy", "scipy"),
    *("equinox", "diffrax", "optimistix", "lineax"),
)
_OPTIONS = ("jax_default_matmul_precision", "jax_threefry_partitionable", "jax_default_prng_impl")
KEPT_TEXT = (
    2**22
)  # the longest text of a program that is stored; for a longer one only the digest is


class Origin(NamedTuple):
    """The lines of a program's canonical text (None if only its digest is known), the digest, and versions of packages."""

    lines: list[str] | None
    digest: str
    versions: dict[str, str]

    @classmethod
    def of(
        cls, model: Callable[..., Any], first: dict[str, np.ndarray], last: dict[str, np.ndarray]
    ):
        """The origin of the numbers of a model; `first` and `last`: the first and the last block of its samples."""
        drawn = (
            f"samples {name}: {array_text(block[name])}"
            for block in (first, last)
            for name in first
        )
        options = (f"option {name}: {getattr(jax.config, name)}" for name in _OPTIONS)
        lines = [*drawn, *options, *program_text(model, first)]
        return cls(lines, _digest(lines), _versions())

    @classmethod
    def read(cls, kept: dict[str, Any] | None) -> "Origin":
        """Decodes the result of `kept`; None, for a run of a version of jaxhamel that stored none, gives an empty origin."""
        if kept is None:
            return cls(None, "", {})
        packed, lines = kept["text"], None
        if packed is not None:
            lines = zlib.decompress(base64.b64decode(packed)).decode().split("\n")
        return cls(lines, kept["digest"], kept["versions"])

    def kept(self) -> dict[str, Any]:
        """The origin as JSON."""
        text = "\n".join(self.lines or ())
        packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        short = packed if len(text) <= KEPT_TEXT else None
        return {"digest": self.digest, "versions": self.versions, "text": short}

    def versions_not_of(self, other: "Origin") -> str:
        """The packages whose versions differ from those in `other`, with the versions here: `jax 0.10.2, numpy 2.4`.

        The text is empty if no version differs.
        """
        if not self.versions:
            return "a version of jaxhamel that stored no program"
        names = sorted(self.versions.keys() | other.versions.keys())
        pairs = ((n, self.versions.get(n), other.versions.get(n)) for n in names)
        return ", ".join(f"{n} {here or '(none)'}" for n, here, there in pairs if here != there)

    def first_difference(self, other: "Origin") -> tuple[int, str, str] | None:
        """The number of the first line that differs, and that line in both programs; None if a text is not known."""
        if not self.lines or not other.lines:
            return None
        pairs = zip([*self.lines, ""], [*other.lines, ""], strict=False)
        number, (a, b) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
        return number, a.strip(), b.strip()


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _versions() -> dict[str, str]:
    """Versions of the packages that affect how a program is traced."""
    found = {"Python": python_version().rpartition(".")[0]}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
