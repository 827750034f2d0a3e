"""Checks of symmetric systems: their spaces, invariant metrics and constraints, and locked inertias."""

import numpy as np

from jaxhamel._checks._values import (
    concrete,
)


def check_bundle(system, is_bundle: bool) -> None:
    """Checks that the system lives on G × R^m, with the group first and the shape second."""
    if not is_bundle:
        raise TypeError(
            f"`system` {type(system).__name__} has the space {system.space}; connections and the "
            "Lagrange–Poincaré equations are written on Product(G, Euclidean(m)), the group first "
            "and the shape second. Order the factors so, or use `jaxhamel.acceleration`."
        )


def check_motion_given(system, motion) -> None:
    """Checks that the argument `motion` is given if the system has prescribed motion."""
    if system.prescribed_motion and motion is None:
        raise ValueError(
            f"`motion` is missing: the kinetic energy of {type(system).__name__} depends on the motion that its control "
            "prescribes, and so does the locked velocity. Give LockedFrame(system, motion) the control with which "
            "`acceleration` is called."
        )


def check_same_metric(system, here, at_identity) -> None:
    """Checks that the mass matrix does not depend on the group part of q: at q it equals that at the identity."""
    change = _change(here, at_identity, 0.0)
    if change:
        raise ValueError(
            f"the kinetic energy of `system` {type(system).__name__} changes with g: its mass matrix "
            f"differs by up to {change:.3g} between q and the identity of the group. The "
            "Lagrange–Poincaré equations need a left-invariant metric; use `jaxhamel.acceleration`."
        )


def check_invariant_constraints(system, here, wanted, right: bool) -> None:
    """Checks that the kinematic connection at q equals that at the identity, transported by the group."""
    change = _change(here, wanted, 1.0)
    if change:
        side, other_side = ("right", "left") if right else ("left", "right")
        raise ValueError(
            f"the constraints of `system` {type(system).__name__} are not {side}-invariant: their "
            f"connection differs by up to {change:.3g} from the one at the identity of the group. "
            f"Say `right={not right}` if they are {other_side}-invariant, or use "
            "`jaxhamel.acceleration`."
        )


def _change(here, wanted, least: float) -> float:
    """The largest difference of two arrays; 0 if it may be a rounding error of numbers as large as they or `least`, or if
    the values are traced.
    """
    one, other = concrete(here), concrete(wanted)
    if one is None or other is None:
        return 0.0
    change, size = np.max(np.abs(one - other), initial=0.0), np.max(np.abs(one), initial=least)
    return float(change) if change > 1e4 * float(np.finfo(one.dtype).eps) * size else 0.0


def check_rigid_motions(system, moves_rigidly: bool) -> None:
    """Checks that the group is that of the motions of a rigid body, SE(3) or SE(2)."""
    if not moves_rigidly:
        raise TypeError(
            f"`system` {type(system).__name__} has the space {system.space}; a centre of mass needs "
            "Product(SE3(), Euclidean(m)) or Product(SE2(), Euclidean(m))."
        )


def check_rigid_inertia(system, here, wanted) -> None:
    """Checks that the locked inertia has the form of a rigid body's, with mass and lever arms."""
    change = _change(here, wanted, 0.0)
    if change:
        raise ValueError(
            f"the locked inertia of `system` {type(system).__name__} is not that of rigid bodies: it differs by up to "
            f"{change:.3g} from [[Θ, m d̂], [−m d̂, m 1]]. It has no centre of mass about which to take the momentum; use "
            "`jaxhamel.mechanics.spatial_momentum`."
        )
