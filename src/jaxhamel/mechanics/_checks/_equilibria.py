"""Checks of relative equilibria: invariance of the equations of motion, and convergence."""

import numpy as np

from jaxhamel._checks._values import concrete


def check_autonomous(system, found) -> None:
    """Checks that the equations of motion do not depend on time; `found` has f and ∂f/∂t."""
    field, rate = (concrete(x) for x in found)
    if field is None or rate is None:
        return
    change = np.max(np.abs(rate), initial=0.0)
    if change > _rounding(field):
        raise ValueError(
            f"the equations of motion of `system` {type(system).__name__} depend on time, at a rate of {change:.3g} at t; "
            "a steady motion needs equations that do not. Freeze the time in the system (or its control), or use "
            "`jaxhamel.mechanics.linearise` along a motion."
        )


def check_commutes(system, here, pushed) -> None:
    """Checks the symmetry: at a moved state, the equations of motion are the moved equations of motion."""
    here, pushed = concrete(here), concrete(pushed)
    if here is None or pushed is None:
        return
    change = np.max(np.abs(here - pushed), initial=0.0)
    if change > _rounding(here):
        raise ValueError(
            f"`symmetry` is none of `system` {type(system).__name__}: its equations of motion change by up to {change:.3g} "
            "under it. Give an action(s, q) that moves everything the Lagrangian, the forces and the constraints know "
            "(a turn about the vertical turns orientation and position)."
        )


def check_found(converged, residual, max_steps: int) -> None:
    """Checks that Newton's method has converged."""
    if concrete(converged) is not None and not bool(converged):
        raise RuntimeError(
            f"no relative equilibrium was found in {max_steps} steps: the residual is {float(residual):.3g}. "
            "Start nearer to one, leave more components `free`, drop a condition, or raise `max_steps` or `tolerance`."
        )


def check_indices(name: str, indices, size: int) -> None:
    """Checks that the indices are different whole numbers below `size`."""
    array = np.asarray(indices)
    whole = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    if not whole or np.any(array < 0) or np.any(array >= size) or len(set(array)) < array.size:
        raise ValueError(
            f"`{name}` is {indices!r}; it must be a list of different indices from 0 to {size - 1}, of the components of "
            "(δ_q, δ_u)."
        )


def check_curve_of_solutions(dimension: int) -> None:
    """Checks that the solutions form a curve, apart from the symmetry."""
    if dimension != 1:
        what = "a single point" if dimension < 1 else f"a family of dimension {dimension}"
        do = "Drop a condition." if dimension < 1 else f"Add {dimension - 1} to `conditions`."
        raise ValueError(
            f"with the parameter free the relative equilibria are {what} here (apart from what the symmetry does to "
            f"them), not a curve. {do}"
        )


def _rounding(field) -> float:
    return (
        1e4 * float(np.finfo(field.dtype).eps) * (1.0 + float(np.max(np.abs(field), initial=0.0)))
    )
