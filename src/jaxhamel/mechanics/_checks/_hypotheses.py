"""Checks of the hypotheses of special equations of motion, on values at states near the given one."""

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
    """Checks that no value contradicts a hypothesis. `found` has (hypothesis, values, wanted values, size) for each
    hypothesis.

    The values are taken at several states; those that are not finite (outside of the system's domain) are skipped.
    """
    for hypothesis, values, wanted, size in found:
        change = _largest_change(values, wanted, size)
        if change:
            raise ValueError(
                f"`system` {type(system).__name__} {_WORDS[hypothesis].format(change)}. "
                f"{equations} {instead}"
            )


def _largest_change(values, wanted, size) -> float:
    """max |values − wanted|; 0 if it may be a rounding error of numbers as large as `size`, or if no value is finite."""
    values, wanted, size = concrete(values), concrete(wanted), concrete(size)
    if values is None or wanted is None or size is None:
        return 0.0
    change = np.max(np.abs(values - wanted), initial=0.0, where=np.isfinite(values - wanted))
    largest = np.max(np.abs(size), initial=0.0, where=np.isfinite(size))
    return float(change) if change > 4.0 * np.finfo(values.dtype).eps ** 0.75 * largest else 0.0


def check_no_prescribed_motion(system, equations: str, instead: str) -> None:
    """Checks that a control prescribes no motion of the system's parts."""
    if system.prescribed_motion:
        raise ValueError(
            f"`system` {type(system).__name__} has prescribed motion, so that its Lagrangian has terms linear in the "
            f"velocity and depends on time. {equations} {instead}"
        )


def check_reducible(system, dim: int, has_drift: bool) -> None:
    """Checks that the constraints are homogeneous, at most as many as group directions, without prescribed motion."""
    name, do = type(system).__name__, "Use `jaxhamel.acceleration`, which takes any system."
    if system.n_constraints > dim:
        raise ValueError(
            f"`system` {name} has {system.n_constraints} constraints; here it must have at most {dim}, the dimension of "
            f"its group: the shape is free. {do}"
        )
    if has_drift or system.prescribed_motion:
        what = "a drift" if has_drift else "prescribed motion"
        raise ValueError(
            f"`system` {name} has {what}; the nonholonomic momentum equation is that of constraints A v = 0 that do not "
            f"depend on time. {do}"
        )
