"""The reasons for the end of a simulation: diffrax's results and three additional ones, with messages."""

from typing import TYPE_CHECKING, Any

import diffrax
import numpy as np

if TYPE_CHECKING:  # equinox creates the types of its enumerations at run time

    class _Item:
        def __init__(self, value: Any, enumeration: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __or__(self, other: Any) -> Any: ...

    class _Enumeration(type):
        def __getattr__(cls, name: str) -> Any: ...
        def __getitem__(cls, item: Any) -> str: ...

    class _Results(metaclass=_Enumeration): ...
else:
    _Item, _Results = type(diffrax.RESULTS.successful), diffrax.RESULTS


class RESULTS(_Results):
    """diffrax's results, and three further failures of mechanical systems."""

    nonfinite_state = "The state or its rate of change became NaN or infinite."
    step_too_small = (
        "The steps needed became smaller than the rounding of time: the solution or its rate of "
        "change runs off to infinity, or jumps."
    )
    undefined_event = "A function of `event` is NaN there, so that its zero cannot be found."


class ResultItem(_Item):
    """An item of `RESULTS` that can also be compared with items of `diffrax.RESULTS`."""

    def __eq__(self, other: Any) -> Any:
        return super().__eq__(_promoted(other))

    def __ne__(self, other: Any) -> Any:
        return super().__ne__(_promoted(other))


def _promoted(other):
    inherits = isinstance(other, _Item) and other._enumeration in RESULTS._base_offsets
    return RESULTS.promote(other) if inherits else other


def as_result(item) -> ResultItem:
    """Any item of `RESULTS` as a `ResultItem`."""
    return ResultItem(item._value, RESULTS)


def cause_of_end(result, nonfinite) -> Any:
    """diffrax's result; `dt_min_reached` becomes `nonfinite_state` where `nonfinite` holds, elsewhere `step_too_small`."""
    result = RESULTS.promote(result)
    gave_up = result == RESULTS.dt_min_reached
    small = RESULTS.where(nonfinite, RESULTS.nonfinite_state, RESULTS.step_too_small)
    return RESULTS.where(gave_up, small, result)


def or_undefined_event(result, undefined) -> ResultItem:
    """The result; `undefined_event` where a condition is not a number."""
    return as_result(RESULTS.where(undefined, RESULTS.undefined_event, result))


_ADVICE = {
    "max_steps_reached": "Raise `max_steps`, or loosen the tolerances or lengthen `dt`.",
    "nonfinite_state": (
        "Look at the forces and the control just after this time; with a fixed step, try a "
        "smaller `dt`."
    ),
    "nonlinear_divergence": "The equations of an implicit step have no solution near: try a smaller `dt`.",
    "undefined_event": (
        "Write a function that is defined on both sides of the event, such as q[0] - 0.5 rather "
        "than its root or logarithm."
    ),
    "step_too_small": (
        "Look for a singular configuration or a force without bound near this time; stiff "
        "problems on vector spaces take an implicit `solver`."
    ),
}


def in_words(result, t_end) -> str:
    """A sentence on the end of a simulation, with cause, time and remedy, for one concrete result."""
    name = name_of(result)
    if name == "successful":
        return "reached the end"
    if name == "event_occurred":
        return f"event at t = {float(t_end):.9g}"
    sentence = f"stopped at t = {float(t_end):.9g}: {RESULTS[getattr(RESULTS, name)]}"
    return f"{sentence} {_ADVICE.get(name, '')}".rstrip()


def name_of(result) -> str:
    """The name of a concrete item of `RESULTS`."""
    value = int(np.asarray(result._value))
    items = RESULTS._name_to_item.items()
    return next(name for name, item in items if int(item._value) == value)


def is_okay(result):
    """Whether the simulation reached its regular end: the last time, or an event."""
    return (result == RESULTS.successful) | (result == RESULTS.event_occurred)
