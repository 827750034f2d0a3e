"""Checks of receding-horizon controllers and of deadlines."""

from typing import Any

from jaxhamel._checks._arguments import callable_with, check_count
from jaxhamel._checks._values import (
    check_positive,
    check_shape,
    concrete,
    inline,
    type_of,
)
from jaxhamel.control._checks._closed_loop import MOST_DELAY

OF_LATE_LAWS = "start", "step", "held", "resumed"
NO_UNKNOWNS = "FreeEndTime", "FreeInitialState", "DesignParameter"


def check_receding(problem: Any, period: Any, late: Any, counts: dict[str, Any]) -> None:
    """A problem on a fixed horizon, a period within it, whole numbers of iterations and of periods as delay."""
    if not hasattr(problem, "constraints"):
        raise TypeError(
            f"`problem` is {type_of(problem)}; it must be a jaxhamel.control.ControlProblem."
        )
    for constraint in problem.constraints:
        if (name := type(constraint).__name__) in NO_UNKNOWNS:
            raise ValueError(
                f"`problem` has a {name}; horizon, initial state and system of a RecedingHorizon are given. Leave it out."
            )
    check_shape("period", period, (), "It is the sampling period [s].")
    check_positive("period", period, "It is the sampling period [s], say 0.02.")
    step, ts = concrete(period), concrete(problem.ts)
    if step is not None and ts is not None and step > ts[-1] - ts[0]:
        raise ValueError(
            f"`period` is {inline(step)} s, longer than the horizon of the problem, {ts[-1] - ts[0]:.6g} s. Give a shorter "
            "one, or a problem with a longer horizon."
        )
    for name, value in counts.items():
        check_count(name, value, 0 if name == "delay" else 1, MOST_DELAY)
    if late is not None and (not callable(late) or not callable_with(late, 1)):
        raise TypeError(f"`late` is {type_of(late)}; it must be a callable t -> bool, or None.")


def check_deadline(law: Any, deadline: Any) -> None:
    """A law that can go on with its last plan, and a positive time."""
    if isinstance(law, type) or not all(hasattr(law, name) for name in OF_LATE_LAWS):
        raise TypeError(
            f"`law` is {type_of(law)}; it must have the methods {', '.join(OF_LATE_LAWS)}, as a "
            "jaxhamel.control.RecedingHorizon has."
        )
    check_shape("deadline", deadline, (), "It is the time for one step [s].")
    check_positive("deadline", deadline, "It is the time for one step [s], say 0.01.")
