"""Correct calls of closed loops, driven systems and pages, for `tests/wrong_calls.py`, and kinds of wrong functions."""

import tempfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel as jh
from jaxhamel import control, mechanics, systems
from tests.control.cart import Cart
from tests.systems.ball import two_mass_ball

FUNCTIONS = {
    "no arguments": lambda: jnp.zeros(1),
    "returns None": lambda *a: None,
    "returns a word": lambda *a: "left",
    "returns NaN": lambda *a: jnp.full(1, jnp.nan),
    "returns a number": lambda *a: 1.0,
    "returns a list": lambda *a: [1.0],
    "returns a tuple": lambda *a: (jnp.zeros(1), jnp.zeros(1)),
    "returns another shape": lambda *a: jnp.zeros((3, 4)),
    "returns complex": lambda *a: jnp.zeros(1, complex),
    "returns integers": lambda *a: jnp.zeros(1, int),
    "looks at the value": lambda *a: jnp.zeros(1) if a[0] > 0 else jnp.ones(1),
    "raises": lambda *a: 1 / 0,
    "class": Cart,
    "jitted without arguments": jax.jit(lambda: jnp.zeros(1)),
}
MATRICES = {
    "zeros": np.zeros(2),
    "negative entries": -np.ones(2),
    "not symmetric": np.array([[1.0, 2.0], [0.0, 1.0]]),
    "indefinite": np.array([[1.0, 3.0], [3.0, 1.0]]),
    "NaN inside": np.array([np.nan, 1.0]),
    "too long": np.ones(7),
    "3-D": np.ones((2, 2, 2)),
}
SPECIAL: dict[str, Any] = {
    "true": True,
    "fraction": 1.5,
    "zero": 0,
    "empty tuple": (),
    "empty word": "",
    "integers": np.array([1, 2]),
    "single": np.float32(0.1),
    "backwards": np.array([1.0, 0.0]),
    "lambda": lambda: 0,
}
WRONG_HERE: dict[str, Any] = {**FUNCTIONS, **MATRICES, **SPECIAL}


def _law(t, q, u):
    return -q - u


def loop_calls(objects: tuple[str, ...], real: tuple[str, ...], positive: tuple[str, ...]) -> Any:
    """Calls in the form of `right_calls`; the kinds of wrong values are those of `wrong_calls` and the names of
    `WRONG_HERE`."""
    functions, matrices = tuple(FUNCTIONS), tuple(MATRICES)
    optional = tuple(k for k in positive if k != "None")
    cart, q, u = Cart(jnp.array(1.0)), jnp.zeros(1), jnp.zeros(1)
    sampled = control.Sampled(_law, 0.1)
    sensors = control.Sensors((lambda s, t, q, u, c: q,))
    ts = np.linspace(0.0, 1.0, 5)
    plan = {
        "system": cart, "ts": ts, "q": jnp.zeros((5, 1)), "u": jnp.zeros((5, 1)),
        "control": jnp.zeros(1), "state_cost": jnp.ones(2), "control_cost": jnp.ones(1),
        "final_cost": jnp.ones(2), "steps": 1, "route": None,
    }  # fmt: skip
    loop = {
        "system": cart, "q0": q, "u0": u, "controller": sampled, "samples": 3, "t0": 0.0,
        "steps": 2, "key": None, "in_axes": None, "route": None,
    }  # fmt: skip
    some = tuple(k for k in objects if k != "None")
    counts = (*optional, "true", "fraction")
    no_words = tuple(k for k in objects if k != "a word")
    axes, inertias = [[1.0, 0, 0]], [0.08]
    satellite = systems.SatelliteMixed(axes, inertias, mass=5.0, inertia=[0.9, 1.1, 1.4])
    motion = jh.simulate(cart, q, u, ts, jnp.zeros(1))
    return {
        "Sampled": (
            control.Sampled,
            {
                "law": _law, "period": 0.1, "delay": 0, "lower": -1.0, "upper": 1.0, "rate": 1.0,
                "start": 0.0,
            },
            {
                "law": (*objects, "no arguments", "class"), "period": (*positive, "zero", "true"),
                "delay": (*counts, "None"), "lower": real, "upper": real, "rate": (*positive, "zero"), "start": real,
            },
        ),
        "Sampled sensors": (control.Sampled, {"law": lambda t, y: y, "period": 0.1, "sensors": sensors}, {"sensors": some}),
        "Sampled model": (control.Sampled, {"law": _law, "period": 0.1, "model": cart}, {"model": some}),
        "Sensors": (
            control.Sensors,
            {"measurements": sensors.measurements, "noise": 0.1, "bias": 0.0, "resolution": 0.0},
            {
                "measurements": (*objects, "empty tuple"), "noise": positive, "bias": real,
                "resolution": positive,
            },
        ),
        "Held": (
            control.Held,
            {"first": 0.0, "period": 0.1, "commands": jnp.zeros((3, 1))},
            {"first": real, "period": (*positive, "zero"), "commands": (*objects, "zero")},
        ),
        "closed_loop": (
            control.closed_loop,
            loop,
            {
                "system": objects, "q0": (*real, "too long"), "u0": (*real, "too long"), "controller": (*objects, "lambda"),
                "samples": (*counts, "None", "zero"), "t0": (*real, "zeros"), "steps": (*counts, "None", "zero"),
                "key": some, "in_axes": some, "route": some,
            },
        ),
        "closed_loop law": (
            lambda law: control.closed_loop(cart, q, u, control.Sampled(law, 0.1), 3),
            {"law": _law}, {"law": functions},
        ),
        "closed_loop sensor": (
            lambda measurement: control.closed_loop(
                cart, q, u, control.Sampled(lambda t, y: y, 0.1, sensors=control.Sensors((measurement,))), 3
            ),
            {"measurement": sensors.measurements[0]}, {"measurement": functions},
        ),
        "regulate": (
            control.regulate,
            plan,
            {
                "system": objects, "ts": (*real, "backwards", "too long"),
                "q": (*real, "too long"), "u": (*real, "too long"),
                "control": (*real, *functions), "state_cost": (*some, *matrices), "control_cost": (*some, *matrices),
                "final_cost": (*some, *matrices), "steps": (*counts, "zero"), "route": some,
            },
        ),
        "Feedback": (jh.Feedback, {"function": _law}, {"function": (*objects, "no arguments")}),
        "simulate Feedback": (
            lambda function: jh.simulate(cart, q, u, ts, jh.Feedback(function)),
            {"function": _law}, {"function": functions},
        ),
        "Kinematic": (jh.Kinematic, {"system": cart}, {"system": objects}),
        "Kinematic control": (
            lambda control: jh.simulate(jh.Kinematic(cart), q, jnp.zeros(0), ts, control),
            {"control": jnp.zeros(1)}, {"control": (*real, *functions, "too long")},
        ),
        "Kinematic u0": (
            lambda u0: jh.simulate(jh.Kinematic(cart), q, u0, ts, jnp.zeros(1)),
            {"u0": jnp.zeros(0)}, {"u0": tuple(k for k in (*real, "too long") if k != "nothing")},
        ),
        "MovingParts": (
            jh.MovingParts,
            {"system": two_mass_ball(), "n_parts": 2},
            {"system": (*objects, "lambda"), "n_parts": (*counts, "zero")},
        ),
        "MovingParts.state": (
            jh.MovingParts(two_mass_ball()).state,
            {
                "q": (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2)), "u": jnp.zeros(3),
                "theta": jnp.zeros(2), "theta_dot": jnp.zeros(2),
            },
            {"q": real, "u": real, "theta": real, "theta_dot": real},
        ),
        "ZeroMomentum": (
            mechanics.ZeroMomentum,
            {"base": satellite},
            {"base": objects},
        ),
        "report": (
            jh.report,
            {"trajectory": motion, "out": tempfile.mkdtemp(), "title": "x"},
            {"trajectory": objects, "out": no_words, "title": no_words},
        ),
    }  # fmt: skip
