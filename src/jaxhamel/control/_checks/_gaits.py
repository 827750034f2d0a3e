"""Checks of gait problems: mechanism, loop in shape space, and objective."""

import jax
import numpy as np

from jaxhamel._checks._values import (
    check_finite,
    check_not_negative,
    check_positive,
    check_shape,
    type_of,
)


def check_mechanism(mechanism) -> None:
    """Checks that the mechanism is a connection or has one; with momentum, it needs both momentum methods."""
    if not callable(mechanism) and not hasattr(mechanism, "connection"):
        raise TypeError(
            f"`mechanism` is {type_of(mechanism)}; it must be a connection r -> A(r), or an object with a "
            "method `connection(r)`, such as systems.CoupledSnakeboard. Give the connection of your system."
        )
    named = [hasattr(mechanism, name) for name in ("momentum_velocity", "momentum_rate")]
    if any(named) and not all(named):
        raise TypeError(
            f"`mechanism` is {type_of(mechanism)} with one of `momentum_velocity(r)` and "
            "`momentum_rate(r, rdot, p)`; momentum takes both. Add the other, or drop it."
        )


def check_gait_problem(problem) -> None:
    """Checks the settings of a gait problem, and that mechanism, curve, objective and group fit together."""
    check_mechanism(problem.mechanism)
    _check_gait_curve(problem.curve)
    if not callable(problem.objective):
        check_shape("objective", problem.objective, (problem.space.dim,), _OBJECTIVE)
        check_finite("objective", problem.objective)
        if getattr(problem.objective, "shape", None) is None:
            raise TypeError(f"`objective` is {type_of(problem.objective)}; {_OBJECTIVE}")
    if problem.per not in ("cycle", "length"):
        raise ValueError(
            f"`per` is {problem.per!r}; it must be 'cycle' or 'length'. Take one of them."
        )
    check_not_negative("effort_weight", problem.effort_weight, "Give the price of effort.")
    if problem.length is not None:
        check_positive("length", problem.length, "Give the length of the loop in shape space.")
    for name in ("cycles", "steps"):
        check_positive(name, getattr(problem, name), "Give a whole number larger than zero.")
    _check_connection(problem)


_OBJECTIVE = "It must be an array (dim,), a weight for each component of log g, or a function of g."


def _check_gait_curve(curve) -> None:
    if not all(hasattr(curve, name) for name in ("mean", "cosine", "sine", "period")):
        raise TypeError(
            f"`curve` is {type_of(curve)}; a gait is a control.FourierSeries, which closes. "
            "Start from control.elliptic_gait(centre, radii, harmonics=4)."
        )


def _check_connection(problem) -> None:
    connection = getattr(problem.mechanism, "connection", problem.mechanism)
    m = np.shape(problem.curve.mean)[0]
    found = jax.eval_shape(connection, problem.curve.mean)
    check_shape(
        "connection(r)",
        found,
        (problem.space.dim, m),
        "It has a row for each direction of the group, a column for each shape variable.",
    )
