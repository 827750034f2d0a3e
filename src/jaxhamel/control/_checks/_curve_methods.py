"""Checks of the methods that search among the parameters of a curve: shooting, least squares, gradient descent."""

import diffrax

from jaxhamel._checks._arguments import (
    check_budget,
    check_count,
    check_seconds,
    is_least_squares,
)
from jaxhamel._checks._values import (
    check_not_negative,
    check_positive,
    type_of,
)
from jaxhamel.control._checks._problem import check_has_parameters


def check_for_curves(problem, method: str) -> None:
    """Checks that a method that searches among the parameters of a curve can solve the problem."""
    for term in problem.constraints:
        if term.at_end is None:
            raise TypeError(
                f"`constraints` has a `{type(term).__name__}`, which {method} cannot keep; take control.Collocation()."
            )
    for cost in problem.costs:
        if hasattr(cost, "value"):
            raise TypeError(
                f"`costs` has a `{type(cost).__name__}`, which is no residual as {method} needs; take control.Collocation()."
            )
    check_has_parameters(problem.curve)


def check_shooting(method) -> None:
    """Checks the settings of multiple shooting: an even number of steps, an explicit Runge–Kutta solver, positive limits."""
    if not isinstance(method.steps, int) or method.steps < 2 or method.steps % 2:
        raise ValueError(
            f"`steps` is {method.steps!r}; it must be an even number, 2 or more, best "
            "a multiple of 6, for the rule that integrates costs."
        )
    if not isinstance(method.solver, diffrax.AbstractERK):
        raise TypeError(
            f"`solver` is {type_of(method.solver)}; multiple shooting takes an explicit Runge–Kutta "
            "method of diffrax, such as diffrax.Dopri8() or diffrax.Tsit5()."
        )
    check_budget(method.max_iterations, method.max_seconds)
    if method.goal is not None:
        check_positive("goal", method.goal, "It is an RMS in m, or None: as low as it goes.")
    for name in ("cost_tolerance", "damping", "penalty", "switch", "defect_tolerance"):
        check_positive(name, getattr(method, name), "Give a number larger than zero.")


def check_descent(method) -> None:
    """Checks the settings of gradient descent: optimiser, limits, and options of the residual."""
    check_optimiser(method.optimiser)
    check_count("iterations", method.iterations)
    check_seconds(method.max_seconds)
    check_not_negative("gradient_tolerance", method.gradient_tolerance)
    _check_residual(method)


def check_least_squares(method) -> None:
    """Checks the settings of least squares: optimistix solver or None, limits, and options of the residual."""
    if method.solver is not None and not is_least_squares(method.solver):
        raise TypeError(
            f"`solver` is {type_of(method.solver)}; it must be an optimistix least-squares solver such as "
            "optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8), or None."
        )
    check_count("max_steps", method.max_steps)
    for name in ("rtol", "atol"):
        check_positive(name, getattr(method, name), "It is a tolerance, say 1e-10.")
    _check_residual(method)


def _check_residual(method) -> None:
    """Checks the settings that `jaxhamel.control.residual` takes."""
    _check_samples_per_interval(method.samples)
    check_positive("penalty", method.penalty, "Give a number larger than zero.")
    if not isinstance(method.options, dict):
        raise TypeError(
            f"`options` is {type_of(method.options)}; it must be a dict of keywords for jaxhamel.simulate."
        )


def _check_samples_per_interval(samples) -> None:
    """Checks that the number of samples is even, as the quadrature requires."""
    if not isinstance(samples, int) or samples < 2 or samples % 2:
        raise ValueError(
            f"`samples` is {samples!r}; it must be an even number, 2 or more, best a multiple of "
            "6, for the rule that integrates costs."
        )


def check_optimiser(optimiser) -> None:
    """Checks that the optimiser is one of optax."""
    if not hasattr(optimiser, "init") or not hasattr(optimiser, "update"):
        raise TypeError(
            f"`optimiser` is {type_of(optimiser)}; it must be an optax optimiser such as "
            "optax.adam(1e-2) or optax.lbfgs(), with the parentheses."
        )


def check_method(method, name: str) -> None:
    """Checks that `method` is a control method, an instance that has the function `name` (`run` or `run_many`)."""
    if not callable(getattr(method, name, None)) or isinstance(method, type):
        raise TypeError(
            f"`method` is {type_of(method)}; it must be one that can `{name}`: control.Collocation(), "
            "control.MultipleShooting(), control.GradientDescent(optax.adam(1e-2)) or, for one start, "
            "control.SingleShooting(), control.Indirect(), control.Ipopt()."
        )
