"""The command `new`: writes template files for a user's own system."""

import contextlib
import keyword
import re
import sys
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path

from jaxhamel._files import real, write_text
from jaxhamel.cli._scenario._validate import ScenarioError

TEMPLATES = {
    "{name}.py": "system.py.txt",
    "{name}.toml": "scenario.toml.txt",
    "test_{name}.py": "test_system.py.txt",
}


def run_new(name: str, out: Path) -> list[Path]:
    """Writes NAME.py, NAME.toml and test_NAME.py, all of them or none, and returns their paths.

    **Raises:** `ScenarioError` for a name that is no valid module name or is that of another module, or if one of the
    files exists.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ScenarioError(
            "a name must have small letters, digits and underscores, such as my_trolley: it becomes "
            "the name of a Python module."
        )
    if _is_module(name, out):
        raise ScenarioError(
            f"Python finds a module {name} already, whose place a file {name}.py could take. Choose another name, such as "
            f"my_{name}."
        )
    paths = {out / place.format(name=name): source for place, source in TEMPLATES.items()}
    if taken := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        raise ScenarioError(f"{', '.join(taken)} already exist; nothing was written.")
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    try:
        for path, source in paths.items():
            text = (files("jaxhamel.cli") / "templates" / source).read_text(encoding="utf-8")
            write_text(path, text.replace("NAME", name).replace("CLASS", class_name(name)))
            written.append(path)
    except BaseException:  # such as a full disk: files left behind would make a later attempt fail
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        raise
    return written


def _is_module(name: str, out: Path) -> bool:
    """Whether `import NAME` finds a module outside the current folder and the output folder."""
    own = (Path.cwd(), real(out))
    elsewhere = [place for place in sys.path if real(place) not in own]
    return name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere) is not None


def class_name(name: str) -> str:
    """The class name for a module name: `my_trolley` becomes `MyTrolley`."""
    return "".join(part.capitalize() for part in name.split("_"))
