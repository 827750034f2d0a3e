"""Correct calls of boundaries, phases, ODEs, receding horizons and slopes, for `tests/wrong_calls.py`."""

from typing import Any

import jax.numpy as jnp

import jaxhamel as jh
from jaxhamel import control
from tests.systems.ball import two_mass_ball
from tests.wrong_loop_calls import FUNCTIONS
from tests.wrong_plan_calls import begun


def _problem(*constraints: Any) -> Any:
    """The problem of a search that has just begun."""
    return begun(*constraints).problem


def _ball(slope: Any) -> Any:
    ball = two_mass_ball()
    parts = {
        name: getattr(ball, name) for name in ("radius", "shell_mass", "shell_inertia", "shell_com")
    }
    return jh.systems.RollingBall(**parts, masses=ball.masses, rails=ball.rails, slope=slope)


def _simulated(function: Any, control: Any) -> Any:
    """The simulation of an ODE under a control."""
    ode, none = jh.ODE(function, 1), jnp.zeros(0)
    return jh.simulate(ode, jnp.ones(1), none, jnp.array([0.0, 0.1]), control, dt=0.1)


def boundary_calls(
    objects: tuple[str, ...], real: tuple[str, ...], positive: tuple[str, ...]
) -> Any:
    """Calls in the form of `right_calls`; the kinds of wrong values are those of `wrong_calls` and `wrong_loop_calls`."""
    without = lambda kinds, *names: tuple(k for k in kinds if k not in names)
    functions = (*FUNCTIONS, "None", "a word", "object")
    numbers = without(positive, "None")
    counts = (*numbers, "None", "zero", "fraction", "true")
    bounds = without(real, "infinite", "set")
    chosen = without(objects, "nothing")
    problem = _problem()
    horizon = {
        "problem": problem, "period": 0.5, "intervals": 2, "degree": 2, "points": "gauss", "iterations": 1,
        "first_iterations": 2, "delay": 0, "barrier": 1e-4, "tolerance": 1e-8, "acceptable": 0.1, "late": None,
    }  # fmt: skip
    return {
        "FreeInitialState": (
            lambda q, u, lower, upper: begun(control.FreeInitialState(q, u, lower, upper)),
            {"q": True, "u": True, "lower": -1.0, "upper": 1.0},
            {"q": chosen, "u": chosen, "lower": (*bounds, "too long"), "upper": (*bounds, "too long")},
        ),
        "Periodic": (
            lambda q, u, displacement: begun(control.Periodic(q, u, displacement)),
            {"q": True, "u": True, "displacement": 0.0},
            {"q": chosen, "u": chosen, "displacement": (*real, "infinite", "too long")},
        ),
        "boundary name": (
            lambda name: control.Periodic(name=name),
            {"name": "gait"},
            {"name": without(objects, "a word")},
        ),
        "BoundaryConditions": (
            lambda function: begun(control.BoundaryConditions(function)),
            {"function": lambda q, u, q_end, u_end: q_end - q},
            {"function": without(functions, "class")},
        ),
        "phases": (
            control.phases,
            {"problems": [problem, problem], "links": [None]},
            {"problems": objects, "links": without(objects, "None")},
        ),
        "phases of one": (
            lambda problem: control.phases([_problem(), problem]),
            {"problem": problem},
            {"problem": objects},
        ),
        "phases link": (
            lambda links: control.phases([_problem(), _problem()], [links]),
            {"links": lambda q, u, q_next, u_next: q - q_next},
            {"links": without(functions, "None", "class")},
        ),
        "phases_of": (control.phases_of, {"result": None}, {"result": objects}),
        "ODE": (
            jh.ODE,
            {"function": lambda t, y, c: -y, "space": 2},
            {"function": ("None", "a word", "object", "NaN"), "space": (*objects, "zero", "fraction", "true")},
        ),
        "ODE function": (
            _simulated,
            {"function": lambda t, y, c: c - y, "control": jnp.zeros(1)},
            {"function": without(functions, "class"), "control": without(real, "None")},
        ),
        "RecedingHorizon": (
            control.RecedingHorizon,
            horizon,
            {
                "problem": objects, "period": numbers, "intervals": counts, "degree": counts, "points": objects,
                "iterations": counts, "first_iterations": counts, "delay": without(counts, "zero"), "barrier": numbers,
                "tolerance": numbers, "acceptable": without(numbers, "infinite"), "late": ("a word", "object", "NaN"),
            },
        ),
        "OnTime": (
            control.OnTime,
            {"law": control.RecedingHorizon(**horizon), "deadline": 0.1},
            {"law": objects, "deadline": (*numbers, "None", "zero")},
        ),
        "slope": (
            _ball,
            {"slope": (0.1, 0.0)},
            {"slope": (*without(real, "None"), "infinite", "too long")},
        ),
    }  # fmt: skip
