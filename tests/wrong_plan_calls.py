"""Correct calls of collocation, plans and filters, for `tests/wrong_calls.py`."""

from typing import Any

import jax.numpy as jnp

from jaxhamel import control, mechanics
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from tests.control.cart import Cart
from tests.wrong_loop_calls import FUNCTIONS, MATRICES

METHOD = control.Collocation(intervals=2, degree=2)


def begun(*constraints: Any, costs: Any = (), **changes: Any) -> Any:
    """A search before its first iteration: the transcription and all checks."""
    problem = {
        "system": Cart(jnp.array(1.0)), "q0": jnp.zeros(1), "u0": jnp.zeros(1), "ts": [0.0, 1.0],
        "curve": mechanics.Constant(jnp.zeros(1)), "costs": (control.ControlEnergy(1.0), *costs),
        "constraints": (control.StateAtEnd(q=[1.0]), *constraints),
    }  # fmt: skip
    return CollocationSearch(METHOD, control.ControlProblem(**(problem | changes)))


def plan_calls(objects: tuple[str, ...], real: tuple[str, ...], positive: tuple[str, ...]) -> Any:
    """Calls in the form of `right_calls`; the kinds of wrong values are those of `wrong_calls` and `wrong_loop_calls`."""
    functions = (*FUNCTIONS, "None", "a word", "object")
    numbers = tuple(k for k in positive if k != "None")
    counts = (*numbers, "true", "fraction", "zero")
    bounds = tuple(k for k in real if k not in ("infinite", "set"))
    cart, q, u = Cart(jnp.array(1.0)), jnp.zeros(1), jnp.zeros(1)
    sensors = control.StateSensors(0.1)
    limit = lambda t, q, u, control: u
    ends = lambda q, u: q - 1.0
    value = lambda t, q, u, control: jnp.sum(u)
    return {
        "Collocation": (
            control.Collocation,
            {
                "intervals": 2, "degree": 2, "points": "gauss", "tolerance": 1e-9, "max_iterations": 5,
                "max_seconds": 9.0, "barrier": 0.1,
            },
            {
                "intervals": tuple(k for k in counts if k != "None"), "degree": (*counts, "None"), "points": objects,
                "tolerance": (*numbers, "None", "zero"), "max_iterations": (*counts, "None"),
                "max_seconds": (*tuple(k for k in numbers if k != "infinite"), "None"),
                "barrier": (*numbers, "None", "zero"),
            },
        ),
        "PathLimit": (
            control.PathLimit,
            {"function": limit, "lower": -1.0, "upper": 1.0, "name": "limit"},
            {
                "function": (*functions[-3:], "class"), "lower": bounds, "upper": bounds,
                "name": tuple(k for k in objects if k != "a word"),
            },
        ),
        "PathLimit function": (
            lambda function: begun(control.PathLimit(function, -1.0, 1.0)),
            {"function": limit}, {"function": functions},
        ),
        "FreeEndTime": (
            control.FreeEndTime,
            {"lower": 0.5, "upper": 2.0},
            {"lower": real, "upper": real},
        ),
        "FreeEndTime of a problem": (
            lambda lower: begun(control.FreeEndTime(lower, 2.0)),
            {"lower": 0.5}, {"lower": (*numbers, "zero")},
        ),
        "RunningCost": (
            control.RunningCost,
            {"function": value, "weight": 1.0},
            {"function": ("None", "a word", "class"), "weight": real},
        ),
        "RunningCost function": (
            lambda function: begun(costs=(control.RunningCost(function),)),
            {"function": value}, {"function": functions},
        ),
        "FinalCost function": (
            lambda function: begun(costs=(control.FinalCost(function),)),
            {"function": value}, {"function": functions},
        ),
        "FinalCost": (
            lambda weight: begun(costs=(control.FinalCost(value, weight),)),
            {"weight": 1.0}, {"weight": positive},
        ),
        "ConditionsAtEnd": (
            control.ConditionsAtEnd,
            {"function": ends, "name": "ends"},
            {
                "function": ("None", "a word", "class"),
                "name": tuple(k for k in objects if k != "a word"),
            },
        ),
        "ConditionsAtEnd function": (
            lambda function: begun(control.ConditionsAtEnd(function)),
            {"function": ends}, {"function": functions},
        ),
        "collocation problem": (
            begun,
            {"ts": [0.0, 1.0], "curve": mechanics.Constant(jnp.zeros(1)), "guess": None},
            {
                "ts": (*real, "backwards", "zeros"), "curve": (*FUNCTIONS, "None", "a word"),
                "guess": tuple(k for k in objects if k != "None"),
            },
        ),
        "sensitivity": (control.sensitivity, {"result": None}, {"result": objects}),
        "plan_of": (control.plan_of, {"result": None}, {"result": objects}),
        "StateSensors": (
            control.StateSensors,
            {"noise": 0.1, "bias": 0.0, "resolution": 0.1},
            {
                "noise": positive, "bias": real,
                "resolution": tuple(k for k in positive if k != "None"),
            },
        ),
        "KalmanFilter": (
            control.KalmanFilter,
            {
                "system": cart, "sensors": sensors, "q": q, "u": u, "covariance": jnp.ones(2), "process_noise": 0.1,
                "iterations": 1, "steps": 1, "route": None,
            },
            {
                "system": objects, "sensors": objects, "q": (*real, "too long"), "u": (*real, "too long"),
                "covariance": (*objects, *(k for k in MATRICES if k != "zeros")),
                "process_noise": (*positive, *(k for k in MATRICES if k != "zeros")),
                "iterations": (*counts, "None"), "steps": (*counts, "None"),
                "route": tuple(k for k in objects if k != "None"),
            },
        ),
        "problems.plate_ball": (
            control.problems.plate_ball,
            {"angle": 1.0, "shift": 0.0, "duration": 1.0},
            {"angle": real, "shift": real, "duration": (*positive, "zero")},
        ),
        "problems.disk_to_point": (
            control.problems.disk_to_point,
            {"distance": 1.0, "duration": 5.0, "system": None},
            {
                "distance": real, "duration": (*positive, "zero"),
                "system": tuple(k for k in objects if k != "None"),
            },
        ),
        "problems.cart_pole": (
            control.problems.cart_pole,
            {"distance": 1.0, "duration": 2.0, "force": 20.0, "travel": 2.0},
            {
                "distance": real, "duration": (*positive, "zero"), "force": (*positive, "zero"),
                "travel": (*positive, "zero"),
            },
        ),
    }  # fmt: skip
