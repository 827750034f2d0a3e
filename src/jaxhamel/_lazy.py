"""A package whose names are imported when they are first asked for."""

from __future__ import annotations

from types import ModuleType

TYPE_CHECKING = False  # as in `typing`: the command line takes over Ctrl-C as soon as it has imported little more than this
if TYPE_CHECKING:
    from typing import Any


class Package(ModuleType):
    """The module `jaxhamel`: `_FOLDERS` are its folders with names of their own, `_HOMES` says where the others are from."""

    _FOLDERS: tuple[str, ...]
    _HOMES: dict[str, tuple[str, ...]]
    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        if name == "__version__":
            found: Any = import_module("importlib.metadata").version(self.__name__)
        elif name in self._FOLDERS:
            return import_module(f"{self.__name__}.{name}")
        else:
            home = next((home for home, names in self._HOMES.items() if name in names), None)
            if home is None:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            found = getattr(import_module(home), name)
        self.__dict__[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        """A folder that is imported becomes an attribute; not `simulate`, which is the function of that name."""
        if not (
            isinstance(value, ModuleType) and any(name in names for names in self._HOMES.values())
        ):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(
            {name for name in super().__dir__() if name.startswith("_")} | {*self.__all__}
        )
