"""`examine`: checks a system before a motion is computed, and lists its properties."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel._checks._traced import place_of
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.mechanics._checks._returns import check_returns, returns_of
from jaxhamel.mechanics._checks._system import (
    check_a_system,
    check_bodies,
    check_control_of,
    check_finite_force,
    check_frame_at,
    check_inverse,
    check_leaves,
    check_mass_matrix,
    check_state,
    check_takes_control,
)
from jaxhamel.mechanics._constraints._holonomic import check_closed, check_loops
from jaxhamel.mechanics._constraints._multipliers import check_redundant
from jaxhamel.mechanics._controls._control import at_state, checked_at_start
from jaxhamel.mechanics._controls._kinematic import driven_by, inner
from jaxhamel.mechanics._controls._moving_parts import has_loops
from jaxhamel.mechanics._equations._gauss import of_lagrangian
from jaxhamel.mechanics._examination._agreement import (
    Disagreement,
    disagreement,
    inverse_error,
    run_quickly,
)
from jaxhamel.mechanics._examination._boundary import (
    Conditioning,
    conditioning,
    methods,
    takes_control,
)
from jaxhamel.mechanics._examination._examination_table import table
from jaxhamel.mechanics._examination._hypotheses import COMPARED, steps_around
from jaxhamel.mechanics._kinematics import applied_force, lagrangian, prepare, velocity_of
from jaxhamel.mechanics._system import (
    STANDS_FOR,
    System,
    controls_of,
    overridden_below,
    overrides,
)


@dataclass(frozen=True)
class Examination:
    """The result of `examine`; `print` shows it as a table. None stands for a property that could not be determined.

    - `system`, `t`, `q`, `u`: the system and the state that were examined.
    - `problems`: one line for each problem found; `holds` is True if there are none.
    - `returns`: shape and dtype of the result of each method that the system defines, by the name of the method.
    - `quadratic`: whether ∂²L/∂v∂v does not depend on v; `homogeneous`: whether L has no terms linear in v.
    - `depends_on_time`: names of the methods that depend on t, directly or through a control.
    - `constraints`: rank and condition number of the constraint one-forms A_α, `(m, n)`.
    - `redundant`: rank and condition number of all r one-forms listed by `constraints`, `(r, n)`; None without a list.
    - `holonomic`: g of `holonomic(t, q)`, `(h,)`, zero if the loops are closed; None without holonomic constraints.
    - `mass_matrix`: rank and condition number of ∂²ℓ/∂u∂u by the independent quasi-velocities, `(k, k)`.
    - `inverse_error`: max |B A − 1| with the system's own `inverse_frame` B.
    - `bodies`: the relative differences between `bodies` and Lagrangian, at the worst of three states.
    - `route`: the equations that `acceleration` and `simulate` use by default; `why`: the reason, as a sentence.
    - `not_used`: inherited methods that are out of date, with the methods overridden below them.
    """

    system: System
    t: Any
    q: Configuration
    u: QuasiVelocity
    problems: tuple[str, ...] = ()
    returns: dict[str, Any] = field(default_factory=dict)
    quadratic: bool | None = None
    homogeneous: bool | None = None
    depends_on_time: tuple[str, ...] | None = None
    constraints: Conditioning | None = None
    redundant: Conditioning | None = None
    holonomic: np.ndarray | None = None
    mass_matrix: Conditioning | None = None
    inverse_error: float | None = None
    bodies: Disagreement | None = None
    route: str | None = None
    why: str = ""
    not_used: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """True if the examination found no problem."""
        return not self.problems

    def __str__(self) -> str:
        return table(self)


def examine(
    system: System,
    q: Configuration | None = None,
    *,
    t: Time = 0.0,
    u: QuasiVelocity | None = None,
    control: Control = None,
) -> Examination:
    """Examines a system: the results of its methods, their shapes and agreement, ranks and condition numbers.

    ```python
    print(jaxhamel.examine(system))
    ```

    Values are computed at the given state and near it; ranks and condition numbers are those at the given state.

    **Arguments:**

    - `system`: the system, with concrete parameters.
    - `q`: configuration, by default the identity of the space. `u`: independent quasi-velocities, `(k,)`, by default zero.
    - `t`: time [s].
    - `control`: a callable of t, a `Feedback`, or a constant; a system with prescribed motion needs one. The default is zero
      if the system states `n_controls` of its force, otherwise None.

    **Returns:** an `Examination`, which `print` shows as a table. Problems are listed in `problems`, not raised.

    **Raises:** `TypeError` if the argument is no system at all, or if its values are traced.
    """
    _check_examined(system, (q, t, u, control))
    check_a_system(system)
    found: dict[str, Any] = {"problems": []}
    control = _no_control(system) if control is None else control
    at: Any = (t, *_state(system, q, u), control)
    try:
        at = _arguments(system, *at)
        found["returns"] = _returns(system, *at)
        _check_values(system, at, found)
    except Exception as error:  # the following checks cannot be made
        if not (isinstance(error, ValueError | TypeError) or place_of(error)):
            raise
        found["problems"].append(_with_place(error))
    found |= _route(system, found)
    found["problems"] = tuple(found["problems"])
    return Examination(system, *at[:3], **found)


def _no_control(system: System) -> Any:
    """Zero as the control of a force, if the number of controls is known."""
    count = None if system.prescribed_motion else controls_of(system)
    return np.zeros(count) if count else None


def _state(system: System, q, u) -> tuple[Any, Any]:
    floats = [x.dtype for x in jax.tree.leaves(eqx.filter(system, eqx.is_inexact_array))]
    dtype = jnp.result_type(*floats) if floats else jnp.result_type(float)
    q = system.space.identity(dtype) if q is None else q
    return q, np.zeros(max(system.n_independent, 0), dtype) if u is None else u


def _arguments(system: System, t, q, u, control) -> tuple[Any, ...]:
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_state(system, q, u)
    start = checked_at_start(system, t, q, u, control)
    check_takes_control(system, start, takes_control(system))
    check_control_of(system, t, start)
    return t, q, u, control


def _returns(system: System, t, q, u, control) -> dict[str, Any]:
    control, given = checked_at_start(system, t, q, u, control), inner(system)
    returned = returns_of(given, methods(system), t, q, u, control)
    check_returns(given, returned, jax.tree.leaves(q)[0].dtype)
    return dict(returned)


def _check_values(system: System, at, found: dict[str, Any]) -> None:
    """Adds the properties that depend on values, and the problems, to the entries of the examination."""
    t, q, u, control = at
    system, control = driven_by(system, control), at_state(control, t, q, u)

    def noted(check: Callable, *arguments) -> None:
        try:
            check(*arguments)
        except ValueError as error:
            found["problems"].append(_one_line(error))

    noted(check_leaves, system)
    if overrides(system, "frame"):
        noted(check_frame_at, system, t, q)
    _examine_constraints(system, t, q, found, noted)
    numbers = run_quickly(_examined_values, system, t, q, u, control)
    found["constraints"] = conditioning(numbers["frame"][: system.n_constraints])
    normal = numbers["normal"]
    found["mass_matrix"] = conditioning(normal.mass_matrix)
    noted(check_mass_matrix, system, normal.mass_matrix, found["mass_matrix"])
    if np.all(np.isfinite(normal.mass_matrix)):
        noted(check_finite_force, system, normal.force)
    found["quadratic"], found["homogeneous"] = map(_hold, numbers["hypotheses"])
    found["depends_on_time"] = tuple(
        name for name, rate in numbers["rates"].items() if np.any(np.asarray(rate) != 0.0)
    )
    if "inverse_frame" in found["returns"]:
        error, room = inverse_error(system, t, q)
        found["inverse_error"] = error
        noted(check_inverse, system, t, error, room)
    found["bodies"] = disagreement(system, t, q, u, control)
    noted(check_bodies, system, t, found["bodies"])


def _examine_constraints(system: System, t, q, found: dict[str, Any], noted: Callable) -> None:
    """Adds redundant one-forms and holonomic constraints to the entries of the examination."""
    given = inner(system)
    if overrides(given, "constraints") and (rows := given.constraints(t, q)) is not None:
        noted(check_redundant, given, t, q)
        found["redundant"] = conditioning(rows)
    if has_loops(system):
        noted(check_loops, given, t, q)
        noted(check_closed, system, t, q)
        found["holonomic"] = np.asarray(system.holonomic(t, q))


def _examined_values(system: System, t, q, u, control) -> dict[str, Any]:
    """All values of the examination, computed in one program."""
    v = velocity_of(system, t, q, u)
    at_rest = jnp.zeros_like(v)
    delta_q, delta_v = steps_around(system.space, v.dtype)

    def near(delta):
        return system.space.retract(q, delta)

    parts: dict[str, Callable] = {
        "lagrangian": lambda t, q, v: lagrangian(system, t, q, v, control),
        "frame": lambda t, q, v: system.frame(t, q),
        "drift": lambda t, q, v: system.drift(t, q),
        "force": lambda t, q, v: applied_force(system, t, q, v, control),
    }

    def by_time(part):
        def rate(delta_q, delta_v):
            at = near(delta_q), at_rest + delta_v
            return jax.jvp(lambda t: part(t, *at), (t,), (jnp.ones_like(t),))[1]

        return jax.vmap(rate)(delta_q, delta_v)

    def compared(name):
        def at(dq, dv):
            return COMPARED[name](system, t, near(dq), v + dv, control)

        return jax.vmap(at)(delta_q, delta_v)

    return {
        "frame": system.frame(t, q),
        "normal": of_lagrangian(system, t, q, u, control),
        "hypotheses": [compared(name) for name in ("quadratic", "homogeneous")],
        "rates": {name: by_time(part) for name, part in parts.items() if overrides(system, name)},
    }


def _hold(compared) -> bool:
    """Whether the first two of three arrays are equal, up to rounding errors of numbers as large as the third."""
    one, other, size = map(np.asarray, compared)
    room = 1e4 * np.finfo(one.dtype).eps * np.max(np.abs(size), initial=0.0)
    difference = np.abs(one - other)
    return bool(np.all(difference[np.isfinite(difference)] <= room))


def _route(system: System, found: dict[str, Any]) -> dict[str, Any]:
    not_used = {
        name: below
        for name in (*STANDS_FOR, "invariants")
        if overrides(system, name) and (below := overridden_below(system, name))
    }
    if found.get("returns", {}).get("bodies") is not None:
        why = "Gauss' principle on the bodies that the system gives: first derivatives of velocities only"
    elif "bodies" in not_used:
        why = "Gauss' principle on the Lagrangian: the inherited bodies are out of date"
    else:
        why = "Gauss' principle on the Lagrangian: the system gives no bodies"
    return {"route": "gauss", "why": why, "not_used": not_used}


def _with_place(error: Exception) -> str:
    """The message in one line; for an error of the user's own code with its kind and its line."""
    words, place = _one_line(error), place_of(error)
    if not place or "It is line" in words:
        return words
    return f"{type(error).__name__}: {words.rstrip('.')}. {place}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _check_examined(system: Any, others: Any) -> None:
    """Checks that the argument is a system with concrete values."""
    _checks.check_kind("system", system, System, "it must be a jaxhamel.System with its values.")
    if _checks.any_tracer((system, others)):
        raise TypeError(
            "`examine` needs concrete values, but these are traced: call it outside jit, grad and vmap."
        )
