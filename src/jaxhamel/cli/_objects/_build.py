"""A checked scenario as objects of the library: system, initial state, control, times, solver."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import systems
from jaxhamel._typing import Configuration, QuasiVelocity, Time
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import FourierSeries, Limited, Spline
from jaxhamel.control._figure_eight import figure_eight_curve
from jaxhamel.mechanics import as_control

METHODS = {
    "tsit5": diffrax.Tsit5,
    "dopri5": diffrax.Dopri5,
    "dopri8": diffrax.Dopri8,
    "bosh3": diffrax.Bosh3,
    "heun": diffrax.Heun,
    "midpoint": diffrax.Midpoint,
    "euler": diffrax.Euler,
}


class Sine(eqx.Module):
    """θ_i(t) = θ0_i + a_i sin(ω_i t + φ_i), every field `(n,)`."""

    mean: Float[Array, " n"]
    amplitude: Float[Array, " n"]
    frequency: Float[Array, " n"]
    phase: Float[Array, " n"]

    def __call__(self, t: Time) -> Float[Array, " n"]:
        return self.mean + self.amplitude * jnp.sin(self.frequency * t + self.phase)


def build_system(scenario: Scenario) -> Any:
    """The system of `[system]`."""
    table = dict(scenario["system"])
    kind = table.pop("kind")
    make, prepare = SYSTEMS[kind]
    with named("system"):
        return make(**prepare(table))


def build_initial(scenario: Scenario) -> tuple[Configuration, QuasiVelocity]:
    """The configuration and quasi-velocities of `[initial]`."""
    table = scenario["initial"]
    if "orientation" in table:
        norm = float(np.linalg.norm(table["orientation"]))
        if abs(norm - 1.0) > 1e-6:
            raise ScenarioError(
                f"`initial.orientation` has norm {norm:.9g}; it must be a unit quaternion "
                "(w, x, y, z). Divide it by its norm."
            )
    return STATES[scenario.kind](table)


def build_control(scenario: Scenario, system: Any) -> Callable[..., Any] | None:
    """The control of `[control]`, with one entry for each mass of the system."""
    n = getattr(system, "n_masses", 0)
    table = dict(scenario["control"])
    curve = table.pop("curve")
    if n == 0:
        if any(np.size(value) for value in table.values()):
            raise ScenarioError("`control` moves masses, but the system has none. Leave it out.")
        return None
    return CURVES[curve](table, n)


def build_times(scenario: Scenario) -> np.ndarray:
    """The times of `[time]`, equally spaced, both ends among them."""
    table = scenario["time"]
    if not table["end"] > table["start"]:
        raise ScenarioError(
            f"`time.end` is {table['end']:g}; it must be larger than `time.start`, "
            f"{table['start']:g}."
        )
    return np.linspace(table["start"], table["end"], table["samples"])


def solver_options(scenario: Scenario) -> dict[str, Any]:
    """`[solver]` as keyword arguments of `jaxhamel.simulate`."""
    table = scenario["solver"]
    fixed, names = table["dt"] > 0, ("rtol", "atol")
    steps = {"dt": table["dt"]} if fixed else {name: table[name] for name in names}
    if not fixed and table["method"] == "euler":
        raise ScenarioError(
            '`solver.method` "euler" has no error estimate; it needs a fixed step, `solver.dt`.'
        )
    return steps | {"solver": METHODS[table["method"]](), "max_steps": table["max_steps"]}


@contextmanager
def named(table: str) -> Iterator[None]:
    """Turn the library's messages about `radius` into one line about `system.radius`."""
    try:
        yield
    except (ValueError, TypeError) as error:
        message = " ".join(str(error).split())
        raise ScenarioError(re.sub(r"`(\w+)`", rf"`{table}.\1`", message, count=1)) from None


def check_constructed(thing: Any) -> None:
    """What its constructor says of the values of a system, or of a part of it such as its rails.

    For one whose leaves were put into it: that passes the constructor by.

    **Raises:** as the constructor.
    """
    if not isinstance(thing, eqx.Module):
        return
    arguments: list[Any] = []
    named_arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(type(thing)).parameters.items():
        value = getattr(thing, name)
        for part in value if isinstance(value, tuple) else (value,):
            check_constructed(part)
        if parameter.kind is parameter.VAR_POSITIONAL:
            arguments += value
        elif value is not None:
            named_arguments[name] = value
    type(thing)(*arguments, **named_arguments)


# Systems.


def _with_rails(table: Mapping[str, Any]) -> dict[str, Any]:
    """Masses, rails and an external force as the system takes them."""
    parameters = dict(table)
    parameters["rails"] = _rails(table["rails"], len(table["masses"]))
    if not np.any(table["external_force"]) and np.ndim(table["external_force"]):
        parameters.pop("external_force")  # none is cheaper than zero
    return parameters


def _rails(tables: list[Mapping[str, Any]], n: int) -> Any:
    if len(tables) != n:
        raise ScenarioError(
            f"`system.rails` has {len(tables)} entries but `system.masses` has {n}; "
            "each mass needs one [[system.rails]]."
        )
    groups = [_group(kind, list(rails)) for kind, rails in groupby(tables, lambda t: t["kind"])]
    if not groups:
        return None
    return groups[0] if len(groups) == 1 else systems.MixedRails(*groups)


def _group(kind: str, tables: list[Mapping[str, Any]]) -> Any:
    """Neighbouring rails of one kind as one object with a row for each."""
    columns = {
        key: np.array([table[key] for table in tables]) for key in tables[0] if key != "kind"
    }
    with named("system.rails"):
        return RAILS[kind](**columns)


RAILS = {
    "circular": systems.CircularRails,
    "elliptic": systems.EllipticRails,
    "figure-eight": systems.FigureEightRails,
    "straight": systems.StraightRails,
}
SYSTEMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rolling-ball": (systems.RollingBall, _with_rails),
    "actuated-disk": (systems.ActuatedDisk, _with_rails),
    "heavy-top": (systems.HeavyTop, dict),
    "suslov": (systems.Suslov, dict),
    "free-rigid-body": (systems.FreeRigidBody, dict),
}


# Initial states: (q, u).


def _body_state(table: Mapping[str, Any]) -> tuple[Any, ...]:
    return _array(table["orientation"]), _array(table["omega"])


def _ball_state(table: Mapping[str, Any]) -> tuple[Any, ...]:
    return (_array(table["orientation"]), _array(table["position"])), _array(table["omega"])


def _disk_state(table: Mapping[str, Any]) -> tuple[Any, ...]:
    return (_array([table["angle"]]), _array([table["position"]])), _array([table["rate"]])


STATES = {
    "rolling-ball": _ball_state,
    "actuated-disk": _disk_state,
    "heavy-top": _body_state,
    "suslov": _body_state,
    "free-rigid-body": _body_state,
}


# Controls.


def _constant(table: Mapping[str, Any], n: int) -> Any:
    return as_control(_per_mass("value", table["value"] or [0.0] * n, n))


def _sine(table: Mapping[str, Any], n: int) -> Sine:
    columns = {**table, "phase": table["phase"] or [0.0] * n}
    return Sine(**{key: _per_mass(key, value, n) for key, value in columns.items()})


def _fourier(table: Mapping[str, Any], n: int) -> FourierSeries:
    mean = _per_mass("mean", table["mean"], n)
    waves = {key: _row_per_mass(key, table[key], n) for key in ("cosine", "sine")}
    with named("control"):
        return FourierSeries(mean, **waves, period=table["period"])


def _spline(table: Mapping[str, Any], n: int) -> Spline:
    coefficients = _row_per_mass("coefficients", table["coefficients"], n)
    with named("control"):
        spline = Spline(coefficients, table["start"], table["end"], table["degree"])
        return limited(spline, table, n)


def _stored(table: Mapping[str, Any], n: int) -> Any:
    if n != 3:
        raise ScenarioError(f"`control.name` is a solution for 3 masses; the system has {n}.")
    return figure_eight_curve()


def limited(curve: Any, table: Mapping[str, Any], n: int, name: str = "control") -> Any:
    """The curve between the rail limits `lower` and `upper` of the table, if it has them."""
    if not table["lower"] and not table["upper"]:
        return curve
    bounds = [_per_mass(key, table[key], n, name) for key in ("lower", "upper")]
    with named(name):
        return Limited(curve, *bounds)


def _per_mass(key: str, value: list[Any], n: int, name: str = "control") -> Array:
    if len(value) != n:
        raise ScenarioError(
            f"`{name}.{key}` has {len(value)} entries; it must have {n}, one for each mass."
        )
    return _array(value)


def _row_per_mass(key: str, value: list[Any], n: int) -> Array:
    if value and len(value[0]) != n:
        raise ScenarioError(
            f"`control.{key}` has rows of {len(value[0])} numbers; they must have {n}, "
            "one for each mass."
        )
    return _array(value).reshape(len(value), n)


def _array(value: Any) -> Array:
    return jnp.asarray(value, dtype=float)


CURVES: dict[str, Callable[[Mapping[str, Any], int], Any]] = {
    "constant": _constant,
    "sine": _sine,
    "fourier": _fourier,
    "spline": _spline,
    "stored": _stored,
}
