"""The class of the module `jaxhamel`, which imports its public names on first use."""

from __future__ import annotations

from types import ModuleType

# As in `typing`, whose import would delay the command line's handler of Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Package(ModuleType):
    """The module `jaxhamel`: `_FOLDERS` are its public sub-packages, `_HOMES` maps modules to the names that they define."""

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
        """Sets an attribute, but not to the sub-package `simulate`, since `jaxhamel.simulate` is the function."""
        if not (
            isinstance(value, ModuleType) and any(name in names for names in self._HOMES.values())
        ):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(
            {name for name in super().__dir__() if name.startswith("_")} | {*self.__all__}
        )
