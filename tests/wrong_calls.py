"""Wrong calls drawn at random, and how each ends. By hand, not by pytest:

    python -m tests.wrong_calls --seed 1 --calls 400 --out calls.jsonl

A call is a right one with one argument replaced by another kind of value: None, a word, a complex number, a class in place
of an object, a ragged list, NaN, infinity, a negative or a huge number, an array of another shape. It should be refused
with a message of this package. `foreign`: the error comes from another package, or does not name the argument; `silent`:
there is no error at all; `refused`: as it should be. Values that an argument accepts (infinite times, a negative
coordinate) are not drawn for it.
"""

import argparse
import inspect
import json
import random
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel as jh
from jaxhamel import control, ensemble, geometry, identify, mechanics, systems
from tests.wrong_boundary_calls import boundary_calls
from tests.wrong_loop_calls import WRONG_HERE, loop_calls
from tests.wrong_plan_calls import plan_calls
from tests.wrong_search_calls import search_calls

PACKAGE = Path(jh.__file__).parent


class Plane(jh.System):
    """A mass in a plane, as a class outside the package."""

    mass: jax.Array
    space = jh.Euclidean(2)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.dot(v, v) - 0.5 * jnp.dot(q, q)

    def force(self, t, q, v, control):
        return control


def _frame(q):
    return jnp.eye(2)


WRONG: dict[str, Any] = {
    "None": None,
    "a word": "heavy",
    "complex": 1j,
    "complex array": np.array([1j, 2.0]),
    "class": jh.SO3,
    "object": object(),
    "ragged": [1.0, [2.0, 3.0]],
    "NaN": float("nan"),
    "infinite": float("inf"),
    "negative": -1.0,
    "huge": 10**400,
    "shape": np.ones((2, 3, 4)),
    "nothing": np.zeros(0),
    "words": np.array(["a", "b"]),
    "set": {1.0, 2.0},
    "dict": {"a": 1.0},
}
NUMBERS = ("NaN", "infinite", "negative", "huge")
ALWAYS = tuple(kind for kind in WRONG if kind not in NUMBERS)
WRONG |= {kind: value for kind, value in WRONG_HERE.items() if kind not in WRONG}
POSITIVE = (*ALWAYS, "NaN", "infinite", "negative", "huge")  # masses, radii, steps
REAL = (*ALWAYS, "NaN", "infinite", "huge")  # coordinates, velocities
CALLS = (
    "None",
    "a word",
    "complex",
    "ragged",
    "NaN",
    "huge",
    "shape",
    "words",
    "set",
    "object",
)  # an argument that must be a function
OBJECT = ALWAYS + NUMBERS  # an argument that must be an object of the package


def right_calls() -> dict[
    str, tuple[Callable[..., Any], dict[str, Any], dict[str, tuple[str, ...]]]
]:
    """Callables, their correct arguments, and the kinds of values that are wrong for each argument."""
    plane, q, u = Plane(jnp.asarray(1.0)), jnp.ones(2), jnp.zeros(2)
    ts, force = np.array([0.0, 1.0]), jnp.ones(2)
    at = {"system": plane, "t": 0.0, "q": q, "u": u, "control": force}
    kinds = {"system": OBJECT, "t": REAL, "q": REAL, "u": REAL, "control": REAL}
    motion = {"system": plane, "q0": q, "u0": u, "ts": ts, "control": force, "dt": 0.5}
    kinds_of_motion = {"system": OBJECT, "q0": REAL, "u0": REAL, "ts": REAL, "control": REAL}
    step = {"dt": tuple(k for k in POSITIVE if k != "None")}
    found: dict[str, Any] = {
        name: (getattr(jh, name), at, kinds)
        for name in ("acceleration", "constraint_force", "energy", "momentum", "examine")
        if name != "momentum" or "control" in inspect.signature(jh.momentum).parameters
    }
    found["velocity"] = (jh.velocity, _only(at, "system", "t", "q", "u"), kinds)
    v = {"system": plane, "t": 0.0, "q": q, "v": u}
    found["quasi_velocity"] = (jh.quasi_velocity, v, {**kinds, "v": REAL})
    found["simulate"] = (jh.simulate, motion, kinds_of_motion | step)
    for name in ("rtol", "atol", "max_steps", "solver", "adjoint", "event", "route"):
        wrong = tuple(
            k for k in OBJECT if k != "None" and (name != "event" or k not in ("dict", "class"))
        )
        found[f"simulate {name}"] = (
            jh.simulate,
            {k: x for k, x in motion.items() if k != "dt"} | {name: None},
            {name: wrong},
        )
    for space in (
        jh.SO2(),
        jh.SO3(),
        jh.SE2(),
        jh.SE3(),
        jh.Euclidean(2),
        jh.Helical(1.0),
        jh.Schoenflies(),
    ):
        for name in ("exp", "log"):
            method = getattr(space, name)
            (argument,) = inspect.signature(method).parameters
            right = jnp.zeros(space.dim) if name == "exp" else space.identity(float)
            call = f"{type(space).__name__}.{name}"
            found[call] = (method, {argument: right}, {argument: (*ALWAYS, "huge")})
    found["Euclidean"] = (jh.Euclidean, {"n": 2}, {"n": POSITIVE})
    found["Helical"] = (jh.Helical, {"pitch": 1.0}, {"pitch": REAL})
    found["Product"] = (jh.Product, {"factors": (jh.SO3(),)}, {})
    found |= _systems() | _control(plane, q, u, ts, force) | _many(plane, q, u, ts, force)
    found |= loop_calls(OBJECT, REAL, POSITIVE) | plan_calls(OBJECT, REAL, POSITIVE)
    found |= search_calls(OBJECT, REAL, POSITIVE) | boundary_calls(OBJECT, REAL, POSITIVE)
    return found


def _only(arguments, *names):
    return {name: arguments[name] for name in names}


def _systems():
    found = {}
    rails = systems.CircularRails(jnp.ones(1), jnp.eye(3)[1:2], jnp.eye(3)[:1])
    ball = {
        "radius": 1.0, "shell_mass": 1.0, "shell_inertia": jnp.ones(3), "shell_com": jnp.zeros(3),
        "masses": jnp.ones(1), "rails": rails,
    }  # fmt: skip
    of_ball = dict.fromkeys(("radius", "shell_mass", "shell_inertia", "masses"), POSITIVE)
    of_ball |= {"shell_com": REAL, "rails": OBJECT}
    found["RollingBall"] = (systems.RollingBall, ball, of_ball)
    lengths = {"radius": jnp.ones(1), "axis": jnp.eye(3)[1:2], "start": jnp.eye(3)[:1]}
    names = list(inspect.signature(systems.CircularRails).parameters)
    lengths = dict(zip(names, lengths.values(), strict=False))
    found["CircularRails"] = (systems.CircularRails, lengths, dict.fromkeys(names[:3], REAL))
    for name in (
        "ChaplyginSleigh",
        "KnifeEdge",
        "FreeRigidBody",
        "HeavyTop",
        "Suslov",
        "Satellite",
        "RollingDisk",
    ):
        kind = getattr(systems, name)
        parameters = [
            p for p in inspect.signature(kind).parameters.values() if p.default is p.empty
        ]
        right = {p.name: 1.0 if "inert" not in p.name else jnp.ones(3) for p in parameters}
        found[name] = (kind, right, dict.fromkeys(right, ALWAYS))
    return found


def _control(plane, q, u, ts, force):
    curve = control.Spline(jnp.zeros((7, 2)), 0.0, 1.0) if _takes(control.Spline, 3) else None
    found: dict[str, Any] = {}
    if curve is not None:
        path = lambda t: jnp.ones(2) * t
        costs = (control.Tracking(path, 1.0, lambda q: q),)
        problem = {
            "system": plane,
            "q0": q,
            "u0": u,
            "ts": np.linspace(0, 1, 3),
            "curve": curve,
            "costs": costs,
        }
        kinds = {
            "system": OBJECT,
            "q0": REAL,
            "u0": REAL,
            "ts": REAL,
            "curve": CALLS,
            "costs": OBJECT,
        }
        found["ControlProblem"] = (control.ControlProblem, problem, kinds)
        found["ControlProblem []"] = (
            control.ControlProblem,
            problem | {"costs": ()},
            {"costs": ("nothing",)},
        )
        found["solve"] = (control.solve, {"problem": None}, {"problem": OBJECT})
    tracking = {"path": force, "weight": 1.0, "output": lambda q: q}
    found["Tracking"] = (
        control.Tracking,
        tracking,
        {"path": CALLS, "weight": POSITIVE, "output": CALLS},
    )
    return found


def _takes(kind, count):
    names = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    return len(names) <= count


def _many(plane, q, u, ts, force):
    many = {"system": plane, "q0": q[None], "u0": u[None], "ts": ts, "control": force, "dt": 0.5}
    many["in_axes"] = (None, 0, 0, None)
    kinds = {
        "system": OBJECT,
        "q0": REAL,
        "u0": REAL,
        "ts": REAL,
        "control": REAL,
        "in_axes": OBJECT,
    }
    spread = {"x": ensemble.Distribution("normal", mean=1.0, std=1.0)}
    study = {"model": lambda s: {"y": s["x"]}, "distributions": spread, "n": 10}
    names = list(inspect.signature(ensemble.monte_carlo).parameters)[:3]
    study = dict(zip(names, study.values(), strict=True))
    of_study = dict(zip(names, (CALLS, OBJECT, POSITIVE), strict=True))
    drawn = {"kind": "normal", "mean": 1.0, "std": 1.0}
    names = list(inspect.signature(ensemble.Distribution).parameters)[:1]
    of_drawn = {names[0]: OBJECT, "mean": REAL, "std": POSITIVE}
    drawn[names[0]] = drawn.pop("kind")
    problem = {"system": plane, "parameters": [], "measurements": [], "runs": []}
    return {
        "ensemble.simulate": (ensemble.simulate, many, kinds),
        "ensemble.rollout": (ensemble.rollout, many, kinds),
        "monte_carlo": (
            ensemble.monte_carlo,
            study | {"seed": 0},
            of_study | {"seed": ("None", *POSITIVE)},
        ),
        "Distribution": (ensemble.Distribution, drawn, of_drawn),
        "lanes": (ensemble.lanes, {"f": jnp.sin}, {"f": CALLS}),
        "identify.Problem": (
            identify.Problem,
            _first(identify.Problem, problem),
            {"system": OBJECT, "runs": OBJECT},
        ),
        "identify.fit": (
            identify.fit,
            _first(identify.fit, {"problem": None}),
            {"problem": OBJECT},
        ),
        "Positive": (
            identify.Positive,
            _first(identify.Positive, {"path": "mass"}),
            {"path": OBJECT},
        ),
        "hat": (geometry.hat, _first(geometry.hat, {"x": jnp.ones(3)}), None),
        "cross": (
            geometry.cross,
            _first(geometry.cross, {"a": jnp.ones(3), "b": jnp.ones(3)}),
            None,
        ),
        "hamel_coefficients": (
            geometry.hamel_coefficients,
            {"frame": _frame, "q": q, "space": jh.Euclidean(2)},
            {"frame": CALLS, "q": REAL, "space": tuple(k for k in OBJECT if k != "None")},
        ),
        "modes": (mechanics.modes, _first(mechanics.modes, {"system": plane}), {"system": OBJECT}),
        "linearise": (
            mechanics.linearise,
            {"system": plane, "t": 0.0, "q": q, "u": u, "control": force},
            {"system": OBJECT, "t": REAL, "q": REAL, "u": REAL, "control": REAL},
        ),
        "citation": (jh.citation, {"system": plane}, {}),
    }


def _first(function, right):
    """The correct values, under the names of the function's first arguments."""
    names = list(inspect.signature(function).parameters)
    return dict(zip(names, right.values(), strict=False))


FUNCTIONS_OF_PROBLEMS = ("PathLimit", "RunningCost", "FinalCost", "ConditionsAtEnd")
BOUNDARIES = (("BoundaryConditions", "function"), ("phases link", "links"))
# values that these arguments accept: arrays of means, any whole number as seed, a name that is looked up later
ACCEPTED = {
    *(("Distribution", argument, "shape") for argument in ("mean", "std")),
    ("monte_carlo", "seed", "huge"),
    ("Positive", "path", "a word"),
    *(("examine", argument, "None") for argument in ("q", "u")),
    *(("Sampled", argument, "infinite") for argument in ("rate", "lower", "upper")),
    ("Sampled", "period", "true"),
    *(("regulate", argument, "zeros") for argument in ("state_cost", "final_cost")),
    ("MovingParts", "n_parts", "zero"),
    ("Kinematic control", "control", "returns integers"),
    *(
        ("closed_loop sensor", "measurement", f"returns {value}")
        for value in ("integers", "a number")
    ),
    ("closed_loop sensor", "measurement", "looks at the value"),  # fails in the user's own line
    *(
        (f"{kind} function", "function", "returns NaN") for kind in FUNCTIONS_OF_PROBLEMS
    ),  # said by the search
    *((*boundary, "returns NaN") for boundary in BOUNDARIES),  # likewise
    (
        "ODE function",
        "function",
        "returns NaN",
    ),  # said by the trajectory, which ends where it began
    ("ODE function", "control", "dict"),  # any pytree; fails in the user's own line
    ("fit_stages stage", "stages", "looks at the value"),  # fails in the user's own line
    *((f"{kind}Cost function", "function", "returns a number") for kind in ("Running", "Final")),
}


def ending(call: Callable[..., Any], arguments: dict[str, Any], name: str) -> tuple[str, str]:
    """How a call ends, and its message."""
    try:
        found = call(**arguments)
        if isinstance(found, mechanics.Examination) and not found.holds:
            return "refused", found.problems[0]  # `examine` reports all faults in its result
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        frames = traceback.extract_tb(error.__traceback__)
        ours = bool(frames) and Path(frames[-1].filename).is_relative_to(PACKAGE)
        named = name in str(error) or "`" in str(error)
        if isinstance(error, ZeroDivisionError) and not ours:
            return "refused", said  # the user's own function raises it
        by_python = isinstance(error, TypeError) and "argument" in str(error) and named
        return ("refused" if (ours and named) or by_python else "foreign"), said
    return "silent", ""


def all_calls() -> list[tuple[str, str, str]]:
    """All triples (callable, argument, kind of wrong value)."""
    calls = []
    for name, (_, right, kinds) in right_calls().items():
        kinds = dict.fromkeys(right, ALWAYS) if kinds is None else kinds
        calls += [(name, a, kind) for a in right for kind in kinds.get(a, ())]
    return [call for call in calls if call not in ACCEPTED]


def drawn(seed: int, count: int) -> list[tuple[str, str, str, str, str]]:
    """The endings of `count` random calls: (callable, argument, kind of wrong value, ending, message)."""
    calls, right = all_calls(), right_calls()
    random.Random(seed).shuffle(calls)
    found = []
    for name, argument, kind in calls[:count]:
        call, arguments, _ = right[name]
        with warnings.catch_warnings(action="ignore"):
            end = ending(call, {**arguments, argument: WRONG[kind]}, argument)
        found.append((name, argument, kind, *end))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    found = drawn(asked.seed, asked.calls)
    for name, argument, kind, end, said in found:
        if end != "refused":
            print(f"{end}: {name}({argument}={kind}) {said[:160]}", flush=True)
        if asked.out is not None:
            with asked.out.open("a") as out:
                out.write(json.dumps([name, argument, kind, end, said]) + "\n")
    ends = Counter(end for *_, end, _ in found)
    print(f"of {len(all_calls())} calls {len(found)}: {dict(ends)}")


if __name__ == "__main__":
    main()
