"""Checks of curves, control problems and the methods that solve them."""

import jax
import numpy as np

from jaxhamel._checks._simulation import check_control_along, check_times
from jaxhamel._checks._systems import check_state
from jaxhamel._checks._values import (
    _kind,
    _short,
    check_callable,
    check_finite,
    check_not_negative,
    check_positive,
    check_shape,
    concrete,
)
from jaxhamel._words import counted


def check_spline(coefficients, t0, t1, degree) -> None:
    """Coefficients `(J, n)`, more than the degree; times in order."""
    check_shape("coefficients", coefficients, ("n_coefficients", "n"), "One row for each basis.")
    check_finite("coefficients", coefficients)
    if not isinstance(degree, int) or not 2 <= degree <= 9:
        raise ValueError(
            f"`degree` is {degree!r}; it must be a whole number from 2 to 9. Take 5, or 3."
        )
    if coefficients.shape[0] <= degree:
        raise ValueError(
            f"`coefficients` has {counted(coefficients.shape[0], 'row')}; a spline of degree {degree} takes "
            f"at least {degree + 1}. Give more coefficients or a lower `degree`."
        )
    _check_span("t0", t0, "t1", t1)


def _check_span(first: str, t0, last: str, t1) -> None:
    check_finite(first, t0)
    check_finite(last, t1)
    start, end = concrete(t0), concrete(t1)
    if start is not None and end is not None and not start < end:
        raise ValueError(
            f"`{first}` is {start:.9g} and `{last}` is {end:.9g}; times must increase. Swap them?"
        )


def check_samples(ts, values, n_coefficients) -> None:
    """Samples to fit a spline to: increasing times, a row of values for each, enough of them."""
    check_times(ts)
    check_shape("values", values, (len(ts), "n"), "One row for each time.")
    check_finite("values", values)
    if len(ts) < n_coefficients:
        raise ValueError(
            f"`ts` has {counted(len(ts), 'sample')}; {n_coefficients} coefficients take at least as many. "
            "Give more samples or fewer coefficients."
        )


def check_fourier(mean, cosine, sine, period) -> None:
    """Shapes that belong together, a positive period."""
    check_shape("mean", mean, ("n",))
    check_shape("cosine", cosine, ("n_harmonics", mean.shape[0]), "One row for each harmonic.")
    check_shape("sine", sine, cosine.shape, "As many rows as `cosine`.")
    for name, value in (("mean", mean), ("cosine", cosine), ("sine", sine)):
        check_finite(name, value)
    check_positive("period", period)


def check_limits(lower, upper) -> None:
    """lower < upper, of one shape."""
    check_shape("upper", upper, lower.shape, "The shape of `lower`.")
    low, high = concrete(lower), concrete(upper)
    if low is not None and high is not None and not np.all(low < high):
        raise ValueError(
            f"`lower` is {_short(low)} and `upper` is {_short(high)}; each lower limit must be "
            "below its upper one. Swap them?"
        )


def check_ramp(ramp, period) -> None:
    """0 <= ramp <= period."""
    check_not_negative("ramp", ramp, "Give the time in which speed is gained, in s.")
    value, whole = concrete(ramp), concrete(period)
    if value is not None and whole is not None and value > whole:
        raise ValueError(
            f"`ramp` is {value:.9g} s and `period` {whole:.9g} s; the start can take no longer "
            "than the whole. Shorten `ramp`."
        )


def check_control_problem(problem) -> None:
    """The state is one of the system's, times increase, the curve is finite along them, the guess fits."""
    check_state(problem.system, problem.q0, problem.u0)
    problem.system.space.check(problem.q0, "q0")
    check_finite("u0", problem.u0)
    check_times(problem.ts)
    check_callable("curve", problem.curve, "pytree t -> (n,), such as control.Spline")
    check_control_along(problem.ts, problem.curve)
    for name, kind in (("costs", "running"), ("constraints", "residual")):
        for item in getattr(problem, name):
            if not hasattr(item, kind):
                raise TypeError(
                    f"`{name}` holds {_kind(item)}; it takes objects of jaxhamel.control with a "
                    f"method `{kind}`, in a tuple."
                )
    _check_guess(problem)


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


def check_shooting(method) -> None:
    """Steps even and positive, an explicit Runge–Kutta solver, limits positive."""
    if not isinstance(method.steps, int) or method.steps < 2 or method.steps % 2:
        raise ValueError(
            f"`steps` is {method.steps!r}; it must be an even number, 2 or more, best "
            "a multiple of 6, for the rule that integrates costs."
        )
    if not hasattr(method.solver, "tableau") or not hasattr(method.solver.tableau, "a_lower"):
        raise TypeError(
            f"`solver` is {_kind(method.solver)}; multiple shooting takes an explicit Runge–Kutta "
            "method of diffrax, such as diffrax.Dopri8() or diffrax.Tsit5()."
        )
    for name in ("max_iterations", "max_seconds", "damping", "penalty", "defect_tolerance"):
        check_positive(name, getattr(method, name), "Give a number larger than zero.")


def check_samples_per_interval(samples) -> None:
    """An even number, for the quadrature."""
    if not isinstance(samples, int) or samples < 2 or samples % 2:
        raise ValueError(
            f"`samples` is {samples!r}; it must be an even number, 2 or more, best a multiple of "
            "6, for the rule that integrates costs."
        )


def check_optimiser(optimiser) -> None:
    """An optax optimiser."""
    if not hasattr(optimiser, "init") or not hasattr(optimiser, "update"):
        raise TypeError(
            f"`optimiser` is {_kind(optimiser)}; it must be an optax optimiser such as "
            "optax.adam(1e-2) or optax.lbfgs(), with the parentheses."
        )


def check_method(method, name: str) -> None:
    """A method of optimisation, able to do what is asked."""
    if not callable(getattr(method, name, None)) or isinstance(method, type):
        raise TypeError(
            f"`method` is {_kind(method)}; it must be one that can `{name}`: "
            "control.MultipleShooting(), control.GradientDescent(optax.adam(1e-2)) or, for one "
            "start, control.SingleShooting()."
        )
