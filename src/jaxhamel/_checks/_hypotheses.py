"""Hypotheses of special equations of motion, compared on values found near a state."""

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
}


def check_hypotheses(system, found, equations: str, instead: str) -> None:
    """Nothing found contradicts a hypothesis. `found`: (hypothesis, values, wanted, size) for each of them.

    The values are taken at several states; where one is not finite (outside the domain of the system) it says nothing.
    """
    for hypothesis, values, wanted, size in found:
        change = _largest_change(values, wanted, size)
        if change:
            raise ValueError(
                f"`system` {type(system).__name__} {_WORDS[hypothesis].format(change)}. "
                f"{equations} {instead}"
            )


def _largest_change(values, wanted, size) -> float:
    """max |values − wanted|; 0 where that may be rounding of numbers as large as `size`, or where nothing is known."""
    values, wanted, size = concrete(values), concrete(wanted), concrete(size)
    if values is None or wanted is None or size is None:
        return 0.0
    change = np.max(np.abs(values - wanted), initial=0.0, where=np.isfinite(values - wanted))
    largest = np.max(np.abs(size), initial=0.0, where=np.isfinite(size))
    return float(change) if change > 4.0 * np.finfo(values.dtype).eps ** 0.75 * largest else 0.0


def check_no_prescribed_motion(system, equations: str, instead: str) -> None:
    """The system's parts do not move as a control prescribes."""
    if system.prescribed_motion:
        raise ValueError(
            f"`system` {type(system).__name__} has prescribed motion, so that its Lagrangian has terms linear in the "
            f"velocity and depends on time. {equations} {instead}"
        )
