"""Checks of the state, the control, and the results of the system's methods, before equations of motion are evaluated.

Shapes are traced once for each kind of system and arguments; values are checked if they are concrete.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from jaxhamel import _checks
from jaxhamel._checks._traced import called
from jaxhamel._shapes import Seen
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar
from jaxhamel.mechanics._checks._feedback import check_form_of_control
from jaxhamel.mechanics._checks._returns import MissingControl, check_returns, returns_of
from jaxhamel.mechanics._checks._system import (
    check_a_system,
    check_control_of,
    check_frame_at,
    check_leaves,
    check_mass_matrix,
    check_state,
    check_takes_control,
)
from jaxhamel.mechanics._constraints._holonomic import check_loops
from jaxhamel.mechanics._constraints._multipliers import check_redundant
from jaxhamel.mechanics._controls._control import Constant, at_state, checked_at_start
from jaxhamel.mechanics._controls._kinematic import Kinematic, inner
from jaxhamel.mechanics._controls._moving_parts import MovingParts, has_loops
from jaxhamel.mechanics._controls._recorded import check_recorded
from jaxhamel.mechanics._equations._gauss import of_lagrangian
from jaxhamel.mechanics._examination._agreement import check_agreement, run_quickly
from jaxhamel.mechanics._system import System, controls_of, dtype_of, has_valid, overrides

_TRACED = Seen()


def check_system(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks that the state belongs to the system, that the control fits, and that the system's methods are valid and
    consistent.

    **Raises:** `ValueError` or `TypeError` that names the argument or the method.
    """
    check_state(system, q, u)
    reshape: Any = jnp.reshape if _checks.concrete(t) is None else np.reshape
    check_control(system, reshape(t, 1), q, u, control)
    check_forms(system, t, q, u, control)


def check_control(
    system: System, ts: Array, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks that a control fits the system and is finite at all times `ts`; a feedback is checked only at the first of
    them.

    **Raises:** `ValueError` or `TypeError` that names the control.
    """
    start = _checks.first_time(ts)
    check_recorded(system, ts, control)
    control = checked_at_start(system, start, q, u, control)
    _checks.check_control_along(ts, control)
    check_control_of(system, start, control)


def check_forms(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks at a state that a system uses the control, that its methods return valid arrays, that its frame is regular, and
    that its different descriptions agree.

    **Raises:** `ValueError` or `TypeError` that names the method.
    """
    control = checked_at_start(system, t, q, u, control)
    if isinstance(system, MovingParts):
        own_q, own_u, parts = parts_inside(system, t, q, u, control)
        return check_forms(system.system, t, own_q, own_u, parts)
    check_takes_control(system, control, takes_control(system))
    if isinstance(system, Kinematic) and control is not None:
        check_control_of(system, t, control)
    check_methods(system, t, q, u, control)
    check_frame_at(system, t, q)
    check_redundant(inner(system), t, q)
    check_loops(inner(system), t, q)
    check_agreement(system, t, q, u, control)


def takes_control(system: System) -> bool:
    """Whether any method of the system can depend on a control."""
    return system.prescribed_motion or any(overrides(system, x) for x in ("force", "check_control"))


def check_shapes(
    system: System,
    t: Scalar,
    q: Configuration,
    control: Control = None,
    only: tuple[str, ...] | None = None,
) -> None:
    """Checks, for equations other than `acceleration`, that the control fits and the methods return valid arrays.

    **Arguments:** `only`: names of the methods that these equations use; None for all. If the equations have no control,
    these are methods without control, such as `KINEMATIC`. Arrays may be abstract.

    **Raises:** `ValueError` or `TypeError` that names the method.
    """
    check_a_system(system)
    system.space.check(q, "q")
    if only is not None and isinstance(system, MovingParts):
        return  # its own methods need the motion of the parts
    if only is None:
        check_control_of(system, t, control)
        check_takes_control(system, control, takes_control(system))
    u: Any = np.zeros(system.n_independent, dtype_of(q))
    check_methods(system, t, q, u, control, only)


KINEMATIC = ("frame", "inverse_frame", "drift")
UNFORCED = ("lagrangian", *KINEMATIC, "holonomic", "constraints")


def check_unforced(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks as `check_system`, for a quantity that does not depend on forces: a control that only forces need may be
    missing.

    **Raises:** `ValueError` or `TypeError` that names the argument or the method.
    """
    try:
        check_system(system, t, q, u, control)
    except MissingControl:
        if system.prescribed_motion:
            raise
        check_methods(system, t, q, u, control, UNFORCED)
        check_frame_at(system, t, q)


def check_methods(
    system: System,
    t: Scalar,
    q: Configuration,
    u: QuasiVelocity,
    control: Control,
    only: tuple[str, ...] | None = None,
) -> None:
    """Checks structure, shape and dtype of the results of the system's methods: of all, or of those named in `only`. The
    arguments may be abstract arrays.

    **Raises:** `ValueError` or `TypeError` that names the method.
    """
    control = checked_at_start(system, t, q, u, control)
    if isinstance(system, MovingParts):
        own_q, own_u, parts = parts_inside(system, t, q, u, control)
        return check_methods(system.system, t, own_q, own_u, parts, only)
    kind = (system, t, q, u, control, only)
    with _TRACED.once(*kind) as is_new:
        if is_new:
            given = inner(system)
            names = [name for name in methods(system) if only is None or name in only]
            _check_returned(given, names, t, q, u, control)


def _check_returned(system: System, names: list[str], t, q, u, control: Control) -> None:
    """Checks the results of the methods `names`.

    If they are valid with a control that is one array (p,), but not with the form of `control`, the error names the control.
    """

    def check(control: Control) -> None:
        check_returns(system, returns_of(system, names, t, q, u, control), dtype_of(q))

    try:
        check(control)
    except (TypeError, ValueError) as error:
        wanted = controls_of(system)
        if control is None or wanted is None:
            raise
        try:
            check(Constant(jnp.zeros(wanted, dtype_of(q))))
        except (TypeError, ValueError):
            raise error from None
        check_form_of_control(system, wanted, called("`control`", control, t), error)
        raise


def parts_inside(system: MovingParts, t, q, u, control):
    """The state (q, u) of the inner system, and the motion of its parts; arrays may be abstract."""
    at = (t, q, u, control)
    if any(isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves(at)):
        return eqx.filter_eval_shape(system.inside, *at)
    if _checks.any_tracer((system, at)):
        return system.inside(*at)
    return run_quickly(_state_inside, system, *at)


def _state_inside(system: MovingParts, t, q, u, control):
    return system.inside(t, q, u, control)


def check_determined(
    u_dot: Array, system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Finds the reason for accelerations that are not finite: NaN parameters or a singular mass matrix.

    **Raises:** `ValueError` with this reason; no error is raised for another reason, such as an overflow.
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
    check_leaves(system)
    if overrides(system, "lagrangian") and system.n_independent:
        matrix = run_quickly(of_lagrangian, system, t, q, u, at_state(control, t, q, u)).mass_matrix
        check_mass_matrix(system, matrix, conditioning(matrix))


def methods(system: System) -> list[str]:
    """The names of the system's methods that the equations of motion call."""
    kinematic, system = isinstance(system, Kinematic), inner(system)
    plain = ("frame", "drift") if kinematic else ("frame", "drift", "force")
    forms = ("inverse_frame",) if kinematic else ("inverse_frame", "bodies", "invariants")
    own = [name for name in (*plain, "constraints") if overrides(system, name)]
    own += ["holonomic"] if has_loops(system) else []
    given = [name for name in forms if has_valid(system, name)]
    if kinematic:
        return [*own, *given]
    # the Lagrangian is called only if the system defines one or gives no bodies
    needed = overrides(system, "lagrangian") or "bodies" not in given
    return [*(["lagrangian"] if needed else []), *own, *given]


class Conditioning(NamedTuple):
    """The rank and the condition number of a matrix by its singular values σ_i.

    - `shape`: the shape of the matrix.
    - `rank`: the number of σ_i > 100 ε σ_1.
    - `condition`: σ_1 / σ_min, infinite for a matrix without full rank, 1 for one without entries.
    """

    shape: tuple[int, ...]
    rank: int
    condition: float

    @property
    def is_full(self) -> bool:
        """Whether the rows, or the columns if there are fewer, are linearly independent."""
        return self.rank == min(self.shape)


def conditioning(matrix: ArrayLike) -> Conditioning:
    """The rank and condition number of `matrix`, `(m, n)`; with entries that are not finite, the rank is 0."""
    array = np.asarray(matrix)
    if min(array.shape) == 0:
        return Conditioning(array.shape, 0, 1.0)
    if not np.all(np.isfinite(array)):
        return Conditioning(array.shape, 0, np.inf)
    values = np.linalg.svd(array, compute_uv=False)
    rank = int(np.sum(values > 100.0 * np.finfo(array.dtype).eps * values[0]))
    full = rank == min(array.shape)
    return Conditioning(array.shape, rank, float(values[0] / values[-1]) if full else np.inf)
