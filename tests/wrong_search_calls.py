"""Correct calls of searches around an optimum, of training, and of fits in stages, for `tests/wrong_calls.py`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxhamel import control, identify, mechanics
from tests.control.cart import Cart
from tests.wrong_loop_calls import FUNCTIONS
from tests.wrong_plan_calls import METHOD, begun

TIMES = np.linspace(0.0, 1.0, 21)


def _problem() -> Any:
    return control.ControlProblem(
        Cart(jnp.array(1.0)), jnp.zeros(1), jnp.zeros(1), [0.0, 1.0], mechanics.Constant(jnp.zeros(1)),
        (control.ControlEnergy(1.0),), (control.StateAtEnd(q=[1.0]),),
    )  # fmt: skip


def _loss(policy: Any, key: Any) -> Any:
    return jnp.sum(policy**2)


def _stage(system: Any) -> Any:
    run = identify.Run(TIMES, {"position": np.sin(TIMES)[:, None]}, jnp.zeros(1))
    return identify.Problem(
        system, [identify.Positive("mass")], [identify.Coordinate(0, name="position")], [run]
    )


def search_calls(objects: tuple[str, ...], real: tuple[str, ...], positive: tuple[str, ...]) -> Any:
    """Calls in the form of `right_calls`; the kinds of wrong values are those of `wrong_calls` and `wrong_loop_calls`."""
    without = lambda kinds, *names: tuple(k for k in kinds if k not in names)
    functions = (*FUNCTIONS, "None", "a word", "object")
    numbers = (*positive, "zero")
    counts = (*numbers, "fraction", "true")
    bounds = without(real, "infinite", "set")
    problem, cart = _problem(), Cart(jnp.array(1.0))
    measured = identify.Coordinate(0, name="position")
    run = identify.Run(TIMES, {"position": np.sin(TIMES)[:, None]}, jnp.zeros(1))
    mass = lambda problem: problem.system.mass
    return {
        "DesignParameter": (
            control.DesignParameter,
            {"where": lambda system: system.mass, "lower": 0.5, "upper": 2.0, "name": "mass"},
            {"where": ("None", "a word", "class", "object"), "name": without(objects, "a word")},
        ),
        "DesignParameter of a problem": (
            lambda where, lower, upper: begun(control.DesignParameter(where, lower, upper)),
            {"where": lambda system: system.mass, "lower": 0.5, "upper": 2.0},
            {"where": without(functions, "class"), "lower": (*bounds, "words"), "upper": bounds},
        ),
        "Indirect": (
            control.Indirect,
            {"direct": METHOD, "tolerance": 1e-11, "max_iterations": 3},
            {"direct": objects, "tolerance": numbers, "max_iterations": counts},
        ),
        "continuation": (
            control.continuation,
            {
                "problem": problem, "parameter": mass, "to": 1.1, "method": control.Indirect(METHOD), "step": 0.1,
                "longest": 1.0, "points": 2,
            },
            {
                "problem": objects, "parameter": functions, "to": (*real, "infinite"),
                "method": without(objects, "None"), "step": numbers, "longest": numbers, "points": counts,
            },
        ),
        "neighbouring": (
            control.neighbouring,
            {"problem": problem, "result": None},
            {"result": objects},
        ),
        "solve_many": (
            control.solve_many,
            {"problem": problem, "starts": np.zeros((2, 1)), "method": METHOD, "progress": None},
            {
                "problem": objects, "starts": (*real, "infinite"), "method": without(objects, "None"),
                "progress": ("a word", "object", "NaN", "no arguments"),
            },
        ),
        "perturbed_starts": (
            control.perturbed_starts,
            {"problem": problem, "key": jax.random.key(0), "count": 2, "scale": 0.1},
            {"problem": objects, "key": objects, "count": counts, "scale": (*real, "infinite")},
        ),
        "train": (
            control.train,
            {
                "loss": _loss, "policy": jnp.ones(2), "updates": 1, "key": jax.random.key(0),
                "optimiser": optax.sgd(0.1), "checkpoint": None,
            },
            {
                "loss": without(functions, "returns a number"), "policy": ("None", "a word", "object", "words", "integers"),
                "updates": counts, "key": objects, "optimiser": without(objects, "None"),
                "checkpoint": without(objects, "None", "a word"),
            },
        ),
        "StatePrior": (
            identify.StatePrior,
            {"quantity": measured, "mean": 0.0, "std": 1.0},
            {"quantity": objects, "mean": (*real, "infinite"), "std": without(numbers, "infinite")},
        ),
        "identify.Prior": (
            identify.Prior,
            {"mean": 1.0, "std": 0.1},
            {"mean": without(real, "nothing", "shape"), "std": without(numbers, "infinite", "nothing", "shape")},
        ),
        "identify.perturbed_starts": (
            identify.perturbed_starts,
            {"problem": _stage(cart), "key": jax.random.key(0), "count": 2, "scale": 0.1},
            {"problem": objects, "key": objects, "count": counts, "scale": (*real, "infinite")},
        ),
        "fit": (
            identify.fit,
            {"problem": _stage(cart), "max_iterations": 1, "max_seconds": 9.0, "progress": None, "correlated": False},
            {
                "max_iterations": counts, "max_seconds": without(positive, "infinite"),
                "progress": ("a word", "object", "NaN", "no arguments"),
            },
        ),
        "steady_clock": (
            identify.steady_clock,
            {"ts": TIMES},
            {"ts": (*real, "infinite", "backwards", "zeros", "negative entries")},
        ),
        "fit_stages": (
            identify.fit_stages,
            {
                "system": cart, "stages": {"first": _stage}, "max_iterations": 1, "max_seconds": 9.0,
                "progress": None, "correlated": False,
            },
            {
                "system": objects, "stages": without(objects, "dict"), "max_iterations": counts,
                "max_seconds": without(positive, "infinite"), "progress": ("a word", "object", "NaN", "no arguments"),
                "correlated": ("None", "a word", "NaN", "class", "shape"),
            },
        ),
        "fit_stages stage": (
            lambda stages: identify.fit_stages(cart, {"first": stages}, max_iterations=1),
            {"stages": _stage},
            {"stages": without(functions, "class")},
        ),
        "predict": (
            identify.predict,
            {
                "system": cart, "measurements": (measured,), "run": run, "seconds": 0.5, "dt": 0.05, "memory": 1.0,
                "priors": (), "clock": "stamps",
            },
            {
                "system": objects, "measurements": without(objects), "run": objects, "seconds": (*numbers, "infinite"),
                "dt": without(numbers, "None"), "memory": without(numbers, "None"),
                "priors": without(objects, "nothing", "dict"), "clock": (*objects, "a word"),
            },
        ),
    }  # fmt: skip
