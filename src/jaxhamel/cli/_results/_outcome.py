"""The outcome of a command, in the form in which it is written to summary.json."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jaxhamel.cli._scenario._scenario import Scenario

PACKAGES = ("jaxhamel", "jax", "jaxlib", "diffrax", "equinox", "optax", "optimistix", "numpy")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command.

    - `status`: `success`, `stopped`, `interrupted` or `failed`; `message`: the reason.
    - `started`: the time on the monotonic clock at which the command began; `seconds`: its run time.
    - `reached`: the numbers of the result, an entry of summary.json.
    - `tiles`: headline numbers of the report, in addition to those of the motion; `lead`: the sentence under its heading.
    - `files`: files that the command has written besides those of the motion.
    - `top`: further entries of summary.json.
    - `proof`: the certificate of an optimum, as a table of the report.
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
    proof: Mapping[str, Any] = field(default_factory=dict)

    def ended_before(self, event: str) -> "Outcome":
        """The outcome of a command that ends before `event`: "success" becomes "interrupted", other statuses stay."""
        if self.status != "success":
            return self
        message = f"{self.message}; ended before {event}"
        return replace(self, status="interrupted", message=message)

    def summary(self, files: list[str]) -> dict[str, Any]:
        """The content of summary.json."""
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
    """Versions of the packages that computed the result."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
