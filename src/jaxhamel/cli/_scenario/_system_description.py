"""Describes the scenario keys of a system as plain data; `systems.json` has the descriptions of all named systems.

With this file a wrong scenario is refused before the classes and JAX are imported, which takes longer than the check. The
file is generated from the classes by `python -m jaxhamel.cli._scenario._system_description`; a test compares the two.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxhamel.cli._start import import_jax

if TYPE_CHECKING:
    from jaxhamel.mechanics import Parameter, Part, System

FILE = files("jaxhamel.cli._scenario") / "systems.json"
Description = Mapping[str, Any]


@cache
def named_descriptions() -> Mapping[str, Description]:
    """The description of every named system by its kind, without importing JAX; the rolling ball comes first."""
    return json.loads(FILE.read_text("utf-8"))


@cache
def named_systems() -> "dict[str, type[System]]":
    """The class of every system in `jaxhamel.systems` by its kind; the rolling ball comes first."""
    import_jax()
    from jaxhamel import systems
    from jaxhamel.mechanics import System

    public = (getattr(systems, name) for name in dir(systems))
    found = {kind_of(c): c for c in public if isinstance(c, type) and issubclass(c, System)}
    return dict(sorted(found.items(), key=lambda entry: (entry[0] != "rolling-ball", entry[0])))


def class_of(kind: object, given: "type[System] | None" = None) -> "type[System] | None":
    """The class `given` if there is one, otherwise the class of the kind; None for an unknown kind."""
    return given or (named_systems().get(kind) if isinstance(kind, str) else None)


def kind_of(cls: type) -> str:
    """The name of a class in scenarios: `RollingBall` becomes `rolling-ball`."""
    from jaxhamel.mechanics._description._declarations import kind_of

    return kind_of(cls)


def description_of(cls: "type[System]") -> Description:
    """The keys that a class declares: its parameters (entry `system`) and the parts of its state (entry `initial`)."""
    from jaxhamel.mechanics import System, parameters_of

    own_start = cls.initial_state is not System.initial_state
    names = cls.state_names
    parts = () if names is None else (*names.q, *names.u)
    return {
        "system": {p.name: _described_parameter(p) for p in parameters_of(cls)},
        "initial": {part.key: _described_part(part, own_start) for part in parts},
    }


def _described_parameter(p: "Parameter") -> Description:
    about = {"kind": p.kind, "about": p.notes.about, "required": p.required}
    match p.kind:
        case "rails":
            return about
        case "module" | "modules" | "table":
            return {**about, "absent": p.default is None, "parts": WhenRead(partial(_parts, p))}
        case "text":
            bounds: dict[str, Any] = {"choices": p.notes.choices}
        case "numbers":
            notes = p.notes
            bounds = {"shapes": notes.shapes, "positive": notes.positive, "least": notes.least}
        case _:
            bounds = {}
    return {**about, "unit": p.notes.unit, **bounds, **({} if p.required else _default(p))}


def _parts(p: "Parameter") -> Description:
    return {part.name: _described_parameter(part) for part in p.parts}


class WhenRead(Mapping[str, Any]):
    """A mapping that `make()` computes when it is first read: the keys of a class may contain tables of the same class."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]):
        self._found = cache(make)

    def __getitem__(self, key: str) -> Any:
        return self._found()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


def _default(p: "Parameter") -> Description:
    return {"default": as_written(p.notes.none_as if p.default is None else p.default)}


def _described_part(part: "Part", own_start: bool) -> Description:
    about = {"about": part.about, "unit": part.unit, "size": part.size}
    return about if own_start or part.size is None else {**about, "default": _rest(part, part.size)}


def _rest(part: "Part", size: int) -> Any:
    """The start of a part of the state, if the class has no initial state of its own: a unit quaternion or zeros."""
    zero = [0.0] * size
    return [1.0, *zero[1:]] if part.columns[:1] == ("qw",) else zero if size > 1 else 0.0


def as_written(value: Any) -> Any:
    """A parameter value as a scenario has it: arrays and tuples become lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [as_written(entry) for entry in value] if isinstance(value, list | tuple) else value


def generated() -> str:
    """The content of `systems.json`, from the classes: one line for each system."""
    lines = (
        f"{json.dumps(kind)}: {json.dumps(description_of(cls), ensure_ascii=False, default=dict)}"
        for kind, cls in named_systems().items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(str(FILE)).write_text(generated(), encoding="utf-8")
