"""Checks of regulators about a plan: the plan, costs, gains."""

import warnings

import jax
import numpy as np

from jaxhamel._checks._times import check_control_along, check_time_array, check_times
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import (
    check_arrays,
    check_finite,
    check_one_array,
    check_real,
    check_shape,
    concrete,
    described,
    type_of,
)
from jaxhamel.mechanics import ROUTES, Feedback
from jaxhamel.mechanics._checks._system import check_a_system, check_route
from jaxhamel.mechanics._controls._moving_parts import innermost


def check_regulated(system, ts, q, u, route) -> None:
    """Checks that the system, times and states are given as numbers, and the route by its name."""
    check_a_system(system)
    check_time_array(ts)
    check_arrays(q=q, u=u)
    for part in jax.tree.leaves(q):
        check_finite("q", part)
    check_one_array("u", u, "an array with one row for each time of `ts`")
    check_route(route, ROUTES)


def check_plan(system, ts, q, u, control) -> int:
    """Checks that (q, u) is a motion at equally spaced times with a control; returns the number of the control's entries."""
    if system.prescribed_motion:
        raise TypeError(
            f"`system` is {type(system).__name__}, whose control prescribes the motion of its parts; regulate "
            "jaxhamel.MovingParts(system), where it is part of the state."
        )
    check_times(ts)
    _check_equal_steps(concrete(ts))
    rows = ts.shape[0]
    wanted = jax.tree.map(lambda x: (rows, *x.shape), system.space.stored)
    got = jax.tree.map(lambda x: tuple(np.shape(x)), q)
    if got != wanted:
        raise ValueError(
            f"`q` has shapes {got}; it must be a configuration at each of the {rows} times of `ts`: {wanted}."
        )
    check_shape("u", u, (rows, system.n_independent), "One row for each time of `ts`.")
    check_finite("u", u)
    if control is None:
        raise ValueError(
            "`control` is missing: a regulator corrects a control. Give the plan's, a callable of t or a constant."
        )
    if isinstance(control, Feedback):
        raise TypeError(
            "`control` is a Feedback; a regulator corrects a control of time alone. Give the plan's as a callable of t, for "
            "example jaxhamel.control.Held of the values along the plan."
        )
    values = check_control_along(ts, control)
    if getattr(values, "ndim", None) == 2:  # one vector for each time
        value = jax.ShapeDtypeStruct(values.shape[1:], values.dtype, weak_type=values.weak_type)
    else:
        value = called("`control`", control, ts[0])
    if getattr(value, "dtype", u.dtype) != u.dtype and not getattr(value, "weak_type", False):
        raise TypeError(
            f"`control` gives {value.dtype} where the plan is {u.dtype}; both must be of one floating dtype."
        )
    shape = getattr(value, "shape", None)
    if shape is None or len(shape) != 1:
        got = type_of(value) if shape is None else f"of shape {shape}"
        raise ValueError(f"`control` has a value that is {got}; it must be one array (p,).")
    if np.dtype(value.dtype).kind not in "iufV":  # V: bfloat16 and similar types
        raise TypeError(f"`control` has values of {value.dtype}; they must be real numbers.")
    return shape[0]


def _check_equal_steps(times) -> None:
    if times is None:
        return
    if len(times) < 2:
        raise ValueError("`ts` has 1 time; a plan has two or more.")
    steps = np.diff(times)
    if np.max(np.abs(steps - steps.mean())) > 1e-4 * steps.mean():
        raise ValueError(
            f"`ts` has steps from {steps.min():.6g} to {steps.max():.6g} s; they must be equal. Simulate the plan at "
            "jnp.linspace(first, last, count)."
        )


def check_cost(name: str, cost, size: int, positive: bool) -> None:
    """Checks that a cost is a diagonal or a symmetric matrix of the right size, positive (semi-)definite."""
    check_real(name, cost)
    if cost.shape not in ((size,), (size, size)):
        raise ValueError(
            f"`{name}` has shape {cost.shape}; it must be ({size},), a diagonal, or ({size}, {size})."
        )
    check_finite(name, cost)
    array = concrete(cost)
    if array is None:
        return
    matrix = np.diag(array) if array.ndim == 1 else array
    room = 1e-6 * np.max(np.abs(matrix), initial=0.0)
    if np.max(np.abs(matrix - matrix.T), initial=0.0) > room:
        raise ValueError(f"`{name}` is not symmetric. Take half the sum of it and its transpose.")
    least = np.min(np.linalg.eigvalsh(matrix), initial=np.inf)
    if least < -room or (positive and least <= 0):
        wanted = "positive" if positive else "zero or more"
        raise ValueError(f"`{name}` has the eigenvalue {least:.6g}; all must be {wanted}.")


def check_frame(system, ts, signs) -> None:
    """Checks that the frame is regular along a plan; `signs`: those of its determinant at the times `ts`."""
    signs, ts = concrete(signs), concrete(ts)
    if signs is None or ts is None or (np.all(signs == signs[0]) and signs[0] != 0):
        return
    changed = np.nonzero((signs != signs[0]) | (signs == 0))[0][0]
    raise ValueError(
        f"The frame of {type(innermost(system)).__name__} is singular on the plan, near t = {ts[changed]:.4g} s: its "
        "determinant changes sign or is 0 there, so that quasi-velocities and constraints do not determine the velocity, "
        "and gains would have no meaning. Give a plan that stays on one side of this configuration, or a `frame` that is "
        "regular there."
    )


def check_linearised(ts, A, B) -> None:
    """Checks that the matrices of the linearised equations at the times `ts` are finite."""
    ts, A, B = concrete(ts), concrete(A), concrete(B)
    if ts is None or A is None or B is None:
        return
    finite = np.all(np.isfinite(A), axis=(1, 2)) & np.all(np.isfinite(B), axis=(1, 2))
    if np.all(finite):
        return
    raise ValueError(
        f"The linearised equations of motion are not finite at t = {ts[np.argmin(finite)]:.4g} s of the plan. Look there "
        "for a singular mass matrix or frame, and for a function without a derivative, such as the norm of zero."
    )


def check_gains(gains, steps) -> None:
    """Checks that gains are finite: the integration of P is unstable if its steps are long for a fast closed loop."""
    array = concrete(gains)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"The gains are not finite: with `steps` = {described(steps)} in each interval of `ts` the Riccati equation is "
            f"unstable, because the closed loop is fast. Give more `steps`, for example {2 * int(steps)}, or a larger "
            "`control_cost`; if that does not help, look for NaN in the plan."
        )


def check_accuracy(error, wanted: float, steps: int) -> None:
    """Warns if P(ts[0]) of the Riccati equation is less accurate than wanted with the largest number of steps tried."""
    found = concrete(error)
    if found is not None and not found <= wanted:
        warnings.warn(
            f"P(ts[0]) has an estimated error of {float(found):.1e} of its largest entry with {steps} "
            f"step{'s' * (steps > 1)} of the Riccati equation in each interval of `ts`; {wanted:.0e} is wanted. Give "
            f"`steps`, for example {2 * steps}, or finer `ts`.",
            stacklevel=3,
        )


def check_result(result) -> None:
    """Checks that `result` is one of `solve`, and that its motion reaches the end."""
    if not hasattr(result, "trajectory") or not hasattr(result, "problem"):
        raise TypeError(
            f"`result` is {type_of(result)}; it must be the result of jaxhamel.control.solve. For any other motion give its "
            "system, times, states and control to regulate."
        )
    if not bool(result.trajectory.succeeded):
        raise ValueError(
            f"`result` has a motion that breaks down at t = {float(result.trajectory.t_end):.6g} s; there is no plan to "
            "hold to. Search again with more iterations or from another start."
        )
