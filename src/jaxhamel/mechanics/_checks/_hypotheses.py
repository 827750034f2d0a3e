"""Checks of the hypotheses of special equations of motion and of relative equilibria, by values at states near the given
one.
"""

import numpy as np

from jaxhamel._checks._values import concrete

_WORDS = {
    "quadratic": (
        "has a kinetic energy that is not quadratic in the velocity: its mass matrix ∂²L/∂v∂v "
        "changes with v by up to {:.3g}"
    ),
    "homogeneous": "has a Lagrangian with terms linear in the velocity: ∂L/∂v is up to {:.3g} at v = 0",
    "steady": "has a mass matrix that changes with time, at a rate of up to {:.3g}",
    "place": "has a force that depends on the velocity: it changes with v by up to {:.3g}",
    "invariant": "has a Lagrangian that changes with g: its derivative by g is up to {:.3g}",
    "free": "has a force along the group, of up to {:.3g}",
    "metric": "has a kinetic energy that is not invariant: its mass matrix changes with g by up to {:.3g}",
    "constraints": "has constraints that are not invariant: carried along by the group they differ by up to {:.3g}",
    "scleronomic": "has constraints that depend on time, at a rate of up to {:.3g}",
    "shape rows": "has a frame whose last rows are not (0, 1), those of ṙ: they differ by up to {:.3g}",
    "basis": "has constraints that `basis` violates, by up to {:.3g}",
}


def check_hypotheses(system, found, equations: str, instead: str) -> None:
    """Checks that no value contradicts a hypothesis.

    **Arguments:** `found`: for each hypothesis its name, values at several states, the values that it demands, and the size
    of their terms; values that are not finite (outside of the system's domain) are left out. `equations`, `instead`:
    sentences for the message.
    """
    for hypothesis, values, wanted, size in found:
        change = _largest_change(values, wanted, size)
        if change:
            raise ValueError(
                f"`system` {type(system).__name__} {_WORDS[hypothesis].format(change)}. "
                f"{equations} {instead}"
            )


def _largest_change(values, wanted, size) -> float:
    """The largest |values − wanted|; 0 if it may be a rounding error of numbers as large as `size`, or if no value is
    finite.
    """
    values, wanted, size = concrete(values), concrete(wanted), concrete(size)
    if values is None or wanted is None or size is None:
        return 0.0
    change = np.max(np.abs(values - wanted), initial=0.0, where=np.isfinite(values - wanted))
    largest = np.max(np.abs(size), initial=0.0, where=np.isfinite(size))
    return float(change) if change > 4.0 * np.finfo(values.dtype).eps ** 0.75 * largest else 0.0


def check_no_prescribed_motion(system, equations: str, instead: str) -> None:
    """Checks that the system has no prescribed motion."""
    if system.prescribed_motion:
        raise ValueError(
            f"`system` {type(system).__name__} has prescribed motion, so that its Lagrangian has terms linear in the "
            f"velocity and depends on time. {equations} {instead}"
        )


def check_reducible(system, dim: int, has_drift: bool) -> None:
    """Checks that a system can be reduced by its group: its constraints are homogeneous and at most as many as the group has
    dimensions, and it has no prescribed motion.
    """
    name, do = type(system).__name__, "Use `jaxhamel.acceleration`, which takes any system."
    if system.n_constraints > dim:
        raise ValueError(
            f"`system` {name} has {system.n_constraints} constraints; here it must have at most {dim}, the dimension of "
            f"its group: the shape is free. {do}"
        )
    if has_drift or system.prescribed_motion:
        what = "a drift" if has_drift else "prescribed motion"
        raise ValueError(
            f"`system` {name} has {what}; the nonholonomic momentum equation holds for constraints A v = 0 that do not "
            f"depend on time. {do}"
        )


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
    """Checks the symmetry: f at the state Ψ_s(x), `here`, equals f at x pushed forward by Ψ_s, `pushed`."""
    here, pushed = concrete(here), concrete(pushed)
    if here is None or pushed is None:
        return
    change = np.max(np.abs(here - pushed), initial=0.0)
    if change > _rounding(here):
        raise ValueError(
            f"`symmetry` is none of `system` {type(system).__name__}: its equations of motion change by up to {change:.3g} "
            "under it. Give an action(s, q) that moves everything on which the Lagrangian, the forces and the constraints "
            "depend (a turn about the vertical turns orientation and position)."
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
            f"with the parameter free, the relative equilibria that the symmetry does not move into one another are {what} "
            f"here, not a curve. {do}"
        )


def _rounding(field) -> float:
    """A bound of the rounding errors of the equations of motion, from their values `field`."""
    return (
        1e4 * float(np.finfo(field.dtype).eps) * (1.0 + float(np.max(np.abs(field), initial=0.0)))
    )
