"""Checks in front of the equations of motion: state, control, and the results of the system's methods.

Shapes are traced once for each kind of system and arguments; values are checked where they are concrete.
"""

import numpy as np
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel._shapes import Seen
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar
from jaxhamel.mechanics._constraints._holonomic import check_loops
from jaxhamel.mechanics._constraints._redundant import check_redundant
from jaxhamel.mechanics._equations._gauss import of_lagrangian
from jaxhamel.mechanics._examination._agreement import check_agreement, run_quickly
from jaxhamel.mechanics._examination._conditioning import conditioning
from jaxhamel.mechanics._system import System, counts, dtype_of, overrides

_TRACED = Seen()


def check_system(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks that the state belongs to the system, that the control fits, and that the system's methods are valid and
    consistent.

    **Raises:** `ValueError` or `TypeError` that names the argument or the method.
    """
    _checks.check_state(system, q, u)
    _checks.check_control_along(np.reshape(t, 1) if _checks.concrete(t) is not None else t, control)
    _checks.check_control_of(system, t, control)
    check_forms(system, t, q, u, control)


def check_forms(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks that the system uses a given control, that its methods return valid arrays, that the frame is regular, and that
    the
    forms of the system agree.

    **Raises:** `ValueError` or `TypeError` that names the method.
    """
    _checks.check_takes_control(system, control, takes_control(system))
    check_methods(system, t, q, u, control)
    _checks.check_frame_at(system, t, q)
    check_redundant(system, t, q)
    check_loops(system, t, q)
    check_agreement(system, t, q, u, control)


def takes_control(system: System) -> bool:
    """Whether any method of the system can depend on a control."""
    return system.prescribed_motion or any(overrides(system, x) for x in ("force", "check_control"))


def check_methods(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks structure, shape and dtype of the results of all methods of the system; the arguments may be abstract arrays.

    **Raises:** `ValueError` or `TypeError` that names the method.
    """
    kind = (system, t, q, u, control)
    if not _TRACED.is_new(*kind):
        return
    try:
        returned = _checks.returns_of(system, methods(system), t, q, u, control)
        _checks.check_returns(system, returned, dtype_of(q))
    except Exception:
        _TRACED.forget(*kind)
        raise


def check_determined(
    u_dot: Array, system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Finds the reason for accelerations that are not finite: NaN parameters or a singular mass matrix.

    **Raises:** `ValueError` with that reason; for any other overflow nothing is raised.
    """
    found = _checks.concrete(u_dot)
    if found is None or np.all(np.isfinite(found)):
        return
    if not _checks.any_tracer((system, t, q, u, control)):
        check_regular_mass(system, t, q, u, control)


def check_regular_mass(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks that no parameter is NaN and that ∂²ℓ/∂u∂u is regular.

    **Raises:** `ValueError` that names the field.
    """
    _checks.check_leaves(system)
    if overrides(system, "lagrangian"):
        matrix = run_quickly(of_lagrangian, system, t, q, u, control).mass_matrix
        _checks.check_mass_matrix(system, matrix, conditioning(matrix))


def methods(system: System) -> list[str]:
    """The methods that the equations of motion call."""
    plain = ("frame", "drift", "force")
    forms = ("inverse_frame", "bodies", "invariants")
    own = [name for name in plain if overrides(system, name)]
    given = [name for name in forms if counts(system, name)]
    # a system that gives bodies needs no Lagrangian
    needed = overrides(system, "lagrangian") or "bodies" not in given
    return [*(["lagrangian"] if needed else []), *own, *given]
