"""How a command ended, in the words of summary.json."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jaxhamel.cli._scenario._scenario import Scenario

PACKAGES = ("jaxhamel", "jax", "jaxlib", "diffrax", "equinox", "optax", "optimistix", "numpy")


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    `status` is `success`, `stopped`, `interrupted` or `failed`, `message` says it in words, `started` is when the command
    began on the monotonic clock; `tiles` and `lead` add to those of the motion in the report;
    `files` are those that the command has written itself; `top` are entries of summary.json beside the usual ones.
    """

    command: str
    scenario: Scenario
    status: str
    message: str
    started: float
    seconds: float = 0.0
    reached: Mapping[str, Any] = field(default_factory=dict)
    tiles: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    files: tuple[str, ...] = ()
    top: Mapping[str, Any] = field(default_factory=dict)

    def summary(self, files: list[str]) -> dict[str, Any]:
        """What summary.json holds."""
        return {
            "command": self.command,
            "scenario": self.scenario.name,
            "status": self.status,
            "message": self.message,
            "asked": dict(self.scenario.tables),
            **self.top,
            "reached": dict(self.reached),
            "seconds": round(self.seconds, 3),
            "versions": versions(),
            "files": [*files, *self.files],
        }


def versions() -> dict[str, str]:
    """Versions of what computed the result."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
