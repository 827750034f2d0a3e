"""Checks of the indirect method, of continuation, and of the method `Ipopt` with the import of its package."""

from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._checks._arguments import (
    check_budget,
    check_called_with,
    check_count,
    check_number,
    check_positive_number,
)
from jaxhamel._checks._values import described, type_of
from jaxhamel.control._collocation._collocation import Collocation
from jaxhamel.control._problem._boundary import (
    AbstractBoundaryConditions,
    FreeInitialState,
)
from jaxhamel.control._problem._costs import ControlAt
from jaxhamel.control._problem._scalar_costs import InitialCost


def check_indirect(method) -> None:
    """Checks the settings of the indirect method."""
    if not isinstance(method.direct, Collocation):
        raise TypeError(
            f"`direct` is {type_of(method.direct)}; it must be a control.Collocation, whose costates start the shooting."
        )
    check_positive_number(
        "tolerance", method.tolerance, "Give a number larger than zero, say 1e-11."
    )
    check_budget(method.max_iterations, 1.0)


def check_no_control_at_end(problem) -> None:
    """Checks that a problem has no condition on the control or at the first time, and no cost at the first time."""
    for term in problem.constraints:
        boundary = FreeInitialState | AbstractBoundaryConditions
        if isinstance(term, ControlAt | boundary) or term.at_end is False:
            raise TypeError(
                f"`constraints` has a `{type(term).__name__}`, a condition on the control or the first time, which Indirect "
                "cannot keep; take control.Collocation()."
            )
    for cost in problem.costs:
        if isinstance(cost, InitialCost):
            raise TypeError(
                "`costs` has an `InitialCost`, a cost at the first time, which Indirect cannot keep; take "
                "control.Collocation()."
            )


def check_continuation(problem, parameter, to, step, longest, points) -> None:
    """Checks the arguments of a continuation."""
    check_called_with("parameter", parameter, 1, "problem -> a number of it")
    try:
        found = parameter(problem)
    except Exception as error:
        raise TypeError(
            f"`parameter` fails on the problem: {error}. It must select one number of it, as lambda problem: "
            "problem.system.mass does."
        ) from error
    if not any(found is leaf for leaf in jax.tree.leaves(problem)) or np.shape(found) != ():
        raise TypeError(
            f"`parameter` gives {type_of(found)} of shape {np.shape(found)}; it must select one number of the problem "
            "itself, an array of shape (), such as lambda problem: problem.system.mass."
        )
    check_number("to", to, "It is the last value of the parameter.")
    check_positive_number("step", step, "Give a number larger than zero, say 0.1.")
    check_positive_number("longest", longest, "Give a number larger than zero, say 1.")
    check_count("points", points)


def check_has_start(reason: str | None) -> None:
    """Raises `ValueError` if there is no extremal to start from; `reason`: why there is none, or None if there is one."""
    if reason is not None:
        raise ValueError(f"a continuation needs an extremal to start from: {reason}.")


def check_is_in_the_equations(derivative) -> None:
    """Checks that the equations depend on the parameter."""
    if not np.any(derivative):
        raise ValueError(
            "`parameter` selects a number that Pontryagin's conditions do not depend on, such as the initial state, a "
            "time of `ts` or a bound. Take one of the system, of a cost or of a condition at the end."
        )


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
    """The package ipyopt. **Raises:** `TypeError` for single precision, `ImportError` if it is not installed."""
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
