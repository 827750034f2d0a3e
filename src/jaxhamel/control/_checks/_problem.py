"""Checks of curves and of control problems."""

import equinox as eqx
import jax
import numpy as np

from jaxhamel._checks._arguments import (
    callable_with,
    check_count,
)
from jaxhamel._checks._times import check_control_along, check_times, first_time
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import (
    check_callable,
    check_finite,
    check_not_negative,
    check_positive,
    check_shape,
    concrete,
    inline,
)
from jaxhamel._shapes import Seen
from jaxhamel._words import counted
from jaxhamel.mechanics._checks._system import check_number_of_controls, check_state


def check_spline(coefficients, t0, t1, degree) -> None:
    """Checks that the coefficients are (J, n) with J larger than the degree, and that t0 < t1."""
    check_shape("coefficients", coefficients, ("n_coefficients", "n"), "One row for each basis.")
    check_finite("coefficients", coefficients)
    check_spline_size("coefficients", coefficients.shape[0], degree)
    _check_span("t0", t0, "t1", t1)


def check_spline_size(name: str, count, degree) -> None:
    """Checks that the degree is supported and that there are more coefficients than the degree."""
    if not isinstance(degree, int) or not 2 <= degree <= 9:
        raise ValueError(
            f"`degree` is {degree!r}; it must be a whole number from 2 to 9. Take 5, or 3."
        )
    check_count(name, count, 0)
    if count <= degree:
        got = f"has {counted(count, 'row')}" if name == "coefficients" else f"is {count}"
        raise ValueError(
            f"`{name}` {got}; a spline of degree {degree} takes at least {degree + 1}. Give more coefficients or a lower "
            "`degree`."
        )


def _check_span(first: str, t0, last: str, t1) -> None:
    check_finite(first, t0)
    check_finite(last, t1)
    start, end = concrete(t0), concrete(t1)
    if start is not None and end is not None and not start < end:
        raise ValueError(
            f"`{first}` is {start:.9g} and `{last}` is {end:.9g}; times must increase. Swap them?"
        )


def check_curve_samples(ts, values, n_coefficients) -> None:
    """Checks the samples to which a spline is fitted: increasing times, a row of values for each, and enough rows."""
    check_times(ts)
    check_shape("values", values, (len(ts), "n"), "One row for each time.")
    check_finite("values", values)
    if len(ts) < n_coefficients:
        raise ValueError(
            f"`ts` has {counted(len(ts), 'sample')}; {n_coefficients} coefficients take at least as many. "
            "Give more samples or fewer coefficients."
        )


def check_fourier(mean, cosine, sine, period) -> None:
    """Checks that the coefficients have matching shapes and that the period is positive."""
    check_shape("mean", mean, ("n",))
    check_shape("cosine", cosine, ("n_harmonics", mean.shape[0]), "One row for each harmonic.")
    check_shape("sine", sine, cosine.shape, "As many rows as `cosine`.")
    for name, value in (("mean", mean), ("cosine", cosine), ("sine", sine)):
        check_finite(name, value)
    check_positive("period", period)


def check_limits(lower, upper) -> None:
    """Checks that lower < upper and that both have the same shape."""
    check_shape("upper", upper, lower.shape, "The shape of `lower`.")
    low, high = concrete(lower), concrete(upper)
    if low is not None and high is not None and not np.all(low < high):
        raise ValueError(
            f"`lower` is {inline(low)} and `upper` is {inline(high)}; each lower limit must be "
            "below its upper one. Swap them?"
        )


def check_ramp(ramp, period) -> None:
    """Checks that 0 <= ramp <= period."""
    check_not_negative("ramp", ramp, "Give the time in which speed is gained, in s.")
    value, whole = concrete(ramp), concrete(period)
    if value is not None and whole is not None and value > whole:
        raise ValueError(
            f"`ramp` is {value:.9g} s and `period` {whole:.9g} s; the start can take no longer "
            "than the whole. Shorten `ramp`."
        )


_CURVES = Seen()  # systems and curves, whose shapes need tracing


def check_control_problem(problem) -> None:
    """Checks a control problem: state, increasing times, finite values of the curve, shapes of the guess."""
    check_state(problem.system, problem.q0, problem.u0)
    problem.system.space.check(problem.q0, "q0")
    check_finite("u0", problem.u0)
    check_times(problem.ts)
    if len(problem.ts) < 2:
        raise ValueError(
            f"`ts` has {counted(len(problem.ts), 'time')}; give the first and the last at least."
        )
    check_values_of_curve(problem.curve, problem.ts)
    start = first_time(problem.ts)
    with _CURVES.once(problem.system, start, problem.curve) as is_new:
        if is_new:
            check_shape_of_curve(problem.curve, problem.ts)
            check_number_of_controls(problem.system, start, problem.curve, "curve")
    if not problem.costs and not problem.constraints:
        raise ValueError(
            "`costs` and `constraints` are empty, so that any motion is a solution. Give one of either at least, such as "
            "costs=(control.Tracking(path, 1.0, output),)."
        )
    for item in (*problem.costs, *problem.constraints):
        item.check(problem.system, problem.ts, problem.q0, problem.u0)
        item.check_function(start, problem.q0, problem.u0, problem.curve)
    _check_guess(problem)


def check_curve(curve, ts) -> None:
    """Checks that the curve is a finite vector at each time and has parameters to search for."""
    check_values_of_curve(curve, ts)
    check_shape_of_curve(curve, ts)
    check_has_parameters(curve)


def check_values_of_curve(curve, ts) -> None:
    """Checks that the curve is a function of t that is finite at each time."""
    check_callable("curve", curve, "pytree t -> (n,), such as control.Spline")
    if not callable_with(curve, 1):
        raise TypeError("`curve` cannot be called with t alone; write it as a function of t.")
    check_control_along(ts, curve)


def check_shape_of_curve(curve, ts) -> None:
    """Checks that the curve returns a vector, `(n,)`, at the first of the times `ts`."""
    shape = getattr(called("`curve`", curve, first_time(ts)), "shape", None)
    if shape is None or len(shape) != 1:
        got = "no array" if shape is None else f"an array of shape {shape}"
        raise ValueError(f"`curve` gives {got}; it must be (n,), one entry for each motor or mass.")


def check_has_parameters(curve) -> None:
    """Checks that the curve has parameters to search for."""
    if not any(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(curve)):
        raise ValueError(
            "`curve` has no floating-point arrays, so there is nothing to search for. Give a pytree whose leaves are the "
            "free parameters, such as control.Spline or an equinox.Module, not a bare function; or take the method "
            "control.Collocation(), which has parameters of its own and takes any curve as its start."
        )


def check_terms(cost, system, ts, q0) -> None:
    """Checks that output(q) and path(t) of a tracking cost have the same shape and that the path is finite."""
    shown, wanted = (
        eqx.filter_eval_shape(f, x).shape for f, x in ((cost.output, q0), (cost.path, ts[0]))
    )
    if shown != wanted:
        raise ValueError(
            f"`path` gives an array of shape {wanted} and `output` one of shape {shown} of a configuration of "
            f"{type(system).__name__}; they must be the same. Give `output=`, a function of q."
        )
    check_control_along(ts, cost.path, "path")


def check_target(term, system) -> None:
    """Checks that the target is a state of the system, or a part of one."""
    name = type(term).__name__
    if term.q is not None:
        system.space.check(term.q, f"q` of `{name}")
        for leaf in jax.tree.leaves(term.q):
            check_finite(f"q` of `{name}", leaf)
    if term.u is not None:
        k = system.n_independent
        check_shape(
            f"u` of `{name}", term.u, (k,), f"{type(system).__name__} has {k} quasi-velocities."
        )
        check_finite(f"u` of `{name}", term.u)


def check_some_given(term, names: tuple[str, str]) -> None:
    """Checks that at least one of two arguments is given."""
    if all(getattr(term, name) is None for name in names):
        raise ValueError(
            f"`{type(term).__name__}` asks for nothing: give `{names[0]}`, `{names[1]}` or both."
        )


def check_weight(weight) -> None:
    """Checks that the weight of a cost is not negative: residuals use its square root."""
    check_not_negative("weight", weight, "To push something away, give a `Running` cost.")


def check_has_contact(system) -> None:
    """Checks that the system has contact forces."""
    if not hasattr(system, "contact_force"):
        raise TypeError(
            f"`ContactLimits` needs a system with a method contact_force(t, q, u, control); {type(system).__name__} has "
            "none. For `constraint_force` write a `Running` cost."
        )


def _check_guess(problem) -> None:
    given, start = problem.guess, (problem.q0, problem.u0)
    nodes = len(problem.ts)
    wanted = jax.tree.map(lambda x: (nodes, *x.shape), start)
    got = jax.tree.map(lambda x: tuple(x.shape), given)
    if wanted != got:
        raise ValueError(
            f"`guess` has shapes {got}; it must be (q, u) at each of the {nodes} times of `ts`: "
            f"{wanted}. Leave it out to start from (q0, u0) everywhere."
        )
    for leaf in jax.tree.leaves(given):
        check_finite("guess", leaf)
