"""Checks in front of the equations of motion: state, control, what the system's methods return, whether they agree.

Shapes are traced once for each kind of system and arguments; values are looked at where they are concrete.
"""

import numpy as np

from jaxhamel import _checks
from jaxhamel._shapes import Seen
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar
from jaxhamel.mechanics._agreement import check_agreement
from jaxhamel.mechanics._holonomic import check_loops
from jaxhamel.mechanics._redundant import check_redundant
from jaxhamel.mechanics._system import System, counts, dtype_of, overrides

_TRACED = Seen()


def check_system(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """A state of the system, a control that fits, methods that return what they should, and that agree with each other.

    **Raises:** `ValueError` or `TypeError` that names the argument or the method.
    """
    _checks.check_state(system, q, u)
    _checks.check_control_along(np.reshape(t, 1) if _checks.concrete(t) is not None else t, control)
    _checks.check_control_of(system, t, control)
    check_forms(system, t, q, u, control)


def check_forms(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """The methods return what they should, the frame is regular, the forms agree.

    **Raises:** `ValueError` or `TypeError` that names the method.
    """
    check_methods(system, t, q, u, control)
    _checks.check_frame_at(system, t, q)
    check_redundant(system, t, q)
    check_loops(system, t, q)
    check_agreement(system, t, q, u, control)


def check_methods(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Structure, shape and dtype of everything that the system's methods return; arrays may be abstract.

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


def methods(system: System) -> list[str]:
    """The methods that the equations of motion take something from."""
    plain = ("frame", "drift", "force", "invariants")
    forms = ("inverse_frame", "bodies")
    own = [name for name in plain if overrides(system, name)]
    return ["lagrangian", *own, *(name for name in forms if counts(system, name))]
