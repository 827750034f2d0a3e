"""Checks of the method `Ipopt`, and the import of its package."""

from importlib import import_module
from typing import Any

import jax.numpy as jnp

from jaxhamel._checks._values import described, type_of


def check_ipopt(method, collocation) -> None:
    """Checks the settings of `Ipopt`; `collocation`: the class of its direct method."""
    if not isinstance(method.direct, collocation):
        raise TypeError(
            f"`direct` is {type_of(method.direct)}; it must be a control.Collocation, whose transcription IPOPT solves."
        )
    pairs = isinstance(method.options, tuple) and all(
        isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str) for x in method.options
    )
    if not pairs:
        raise TypeError(
            f"`options` is {described(method.options)}; it must be a tuple of pairs, such as "
            '(("mu_strategy", "adaptive"),).'
        )


def imported_ipyopt(dtype) -> Any:
    """The package ipyopt. **Raises:** `TypeError` for single precision, `ImportError` where it is absent."""
    if dtype != jnp.float64:
        raise TypeError(
            f"the problem has the precision {dtype}; IPOPT computes in float64: set jax_enable_x64."
        )
    try:
        return import_module("ipyopt")
    except ImportError as error:
        raise ImportError(
            "control.Ipopt needs the package ipyopt, which is not installed: pip install jaxhamel[ipopt]. "
            "control.Collocation needs nothing more."
        ) from error
