"""Formulas of a named system beside the general equations: solved by hand, they know the system's own forces alone."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from jaxhamel import _checks
from jaxhamel.mechanics._system import overridden_below

F = TypeVar("F", bound=Callable[..., Any])


def own_equations(formula: F) -> F:
    """A method that a class below may make wrong: it is refused where Lagrangian, force, frame or drift are overridden
    below the class that defines it (a class that overrides the method as well defines it anew).

    **Raises:** `TypeError` that names method and class.
    """
    name = formula.__name__

    @wraps(formula)
    def checked(self, *arguments: Any, **options: Any) -> Any:
        _checks.check_own_equations(self, name, overridden_below(self, name))
        return formula(self, *arguments, **options)

    return checked  # pyright: ignore[reportReturnType]
