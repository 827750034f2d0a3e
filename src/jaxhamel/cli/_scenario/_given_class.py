"""Loads the class that `--system FILE.py:Class` names. This is the only way in which a command runs the user's code."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from jaxhamel._files import real
from jaxhamel.cli._scenario._validate import ScenarioError, nearest
from jaxhamel.cli._start import start_jax

if TYPE_CHECKING:
    from jaxhamel.mechanics import System

FORM = "it must be FILE.py:Class, such as --system mine.py:Trolley"


class GivenClassError(ScenarioError):
    """An error in the file of `--system`; `details`: the frames of the traceback that belong to this file."""

    def __init__(self, message: str, details: str):
        super().__init__(message)
        self.details = details


def given_class(said: str | None) -> "type[System] | None":
    """The class that the option `--system` names; None without the option.

    **Raises:** `ScenarioError` if the file or class does not exist or the class is no system, `GivenClassError` if the
    file cannot be imported.
    """
    if said is None:
        return None
    place, colon, name = said.rpartition(":")
    path = Path(place)
    if not colon or not name.isidentifier() or path.suffix != ".py":
        raise ScenarioError(f"--system {said}: {FORM}.")
    if not path.is_file():
        raise ScenarioError(f"--system {said}: there is no file {place}.")
    start_jax()
    return _system_in(_imported(path, said), name, said)


def _imported(path: Path, said: str) -> ModuleType:
    """Imports the file as a module; its folder is appended to `sys.path`, so that the file can import its neighbours."""
    path = real(path)
    name = f"jaxhamel_system_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"--system {said}: the file cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise in_given_file(error, path, f"--system {said}: the file cannot be imported") from None
    return module


def _system_in(module: ModuleType, name: str, said: str) -> "type[System]":
    from jaxhamel.mechanics import parameters_of

    found = getattr(module, name, None)
    own = [k for k, v in vars(module).items() if _is_system(v) and v.__module__ == module.__name__]
    if found is None:
        there = f"It has {', '.join(own)}." if own else "It has no subclass of jaxhamel.System."
        raise ScenarioError(
            f"--system {said}: the file has no class {name}.{nearest(name, own)} {there}"
        )
    if not _is_system(found):
        what = f"the class {name}" if isinstance(found, type) else f"a {type(found).__name__}"
        raise ScenarioError(
            f"--system {said}: {name} is {what}, not a system; it must be a subclass of "
            "jaxhamel.System."
        )
    if "kind" in {p.name for p in parameters_of(found)}:
        raise ScenarioError(
            f"--system {said}: {name} has a field `kind`, which is a key of [system] already. "
            "Give the field another name."
        )
    return found


def _is_system(thing: object) -> bool:
    from jaxhamel.mechanics import System

    return isinstance(thing, type) and issubclass(thing, System) and thing is not System


def in_given_file(error: BaseException, path: Path, message: str) -> GivenClassError:
    """The error as a `GivenClassError`, with the frames of its traceback that belong to the file."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_file(frame.filename, path)
    ]
    words = str(error).splitlines() or [""]
    reason = [f"{type(error).__name__}: {words[0]}".rstrip(": ")]
    if isinstance(error, SyntaxError):
        reason = traceback.format_exception_only(error)
    head = ["Traceback (most recent call last):\n"] if own else []
    details = "".join([*head, *traceback.format_list(own), *reason]).rstrip()
    return GivenClassError(f"{message}: {reason[-1].strip()}", details)


def of_given_class(error: BaseException, said: str | None) -> GivenClassError | None:
    """The error as a `GivenClassError` if it comes from the file of `--system`, otherwise None.

    It is also None for a `ScenarioError` that shows a `ValueError` of the file, since this is the class's own message on
    wrong values.
    """
    if said is None or isinstance(error, GivenClassError):
        return None
    path = Path(said.rpartition(":")[0])
    cause = error.__cause__ if isinstance(error, ScenarioError) else error
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    own = [_is_file(frame.filename, path) for frame in frames]
    if cause is None or not any(own):
        return None
    if cause is not error and isinstance(cause, ValueError) and own[-1]:
        return None
    return in_given_file(cause, path, f"--system {said}")


def _is_file(name: str, path: Path) -> bool:
    return real(name) == real(path)
