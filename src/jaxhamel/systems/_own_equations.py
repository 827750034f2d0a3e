"""Closed-form equations of named systems, which do not hold for a subclass that changes the system."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from jaxhamel.mechanics._checks._system import check_own_equations
from jaxhamel.mechanics._system import overridden_below

F = TypeVar("F", bound=Callable[..., Any])


def own_equations(formula: F) -> F:
    """Decorates a closed-form method so that subclasses cannot use it by mistake.

    The method raises for a subclass that overrides Lagrangian, force, frame or drift but not the method itself.

    **Raises:** `TypeError` that names method and class.
    """
    name = formula.__name__

    @wraps(formula)
    def checked(self, *arguments: Any, **options: Any) -> Any:
        check_own_equations(self, name, overridden_below(self, name))
        return formula(self, *arguments, **options)

    return checked  # pyright: ignore[reportReturnType]
