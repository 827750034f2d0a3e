"""Builds control, times and solver options from a checked scenario."""

from collections.abc import Callable, Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Time
from jaxhamel.cli._objects._recorded_control import recorded_control
from jaxhamel.cli._objects._state_feedback import with_feedback
from jaxhamel.cli._objects._system import build_initial as build_initial
from jaxhamel.cli._objects._system import build_system as build_system
from jaxhamel.cli._objects._system import check_constructed as check_constructed
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import FourierSeries, Limited, Spline
from jaxhamel.control._figure_eight import figure_eight_curve
from jaxhamel.mechanics import as_control
from jaxhamel.mechanics._system import controls_of

SOLVERS = {
    "tsit5": diffrax.Tsit5,
    "dopri5": diffrax.Dopri5,
    "dopri8": diffrax.Dopri8,
    "bosh3": diffrax.Bosh3,
    "heun": diffrax.Heun,
    "midpoint": diffrax.Midpoint,
    "euler": diffrax.Euler,
}


class Sine(eqx.Module):
    """The control θ_i(t) = θ0_i + a_i sin(ω_i t + φ_i); every field has the shape `(n,)`."""

    mean: Float[Array, " n"]
    amplitude: Float[Array, " n"]
    frequency: Float[Array, " n"]
    phase: Float[Array, " n"]

    def __call__(self, t: Time) -> Float[Array, " n"]:
        return self.mean + self.amplitude * jnp.sin(self.frequency * t + self.phase)


def build_control(scenario: Scenario, system: Any) -> Callable[..., Any] | None:
    """The control of `[control]`, see `build_curve`, with the feedback of `[feedback]` if that needs no plan."""
    return with_feedback(scenario, system, build_curve(scenario, system))


def build_curve(scenario: Scenario, system: Any) -> Callable[..., Any] | None:
    """The control of `[control]`, a curve with one number for each control that the system takes; None without controls.

    If the control is in the columns of each run's file, these are returned as `identify.ControlColumns`.
    """
    table = dict(scenario["control"])
    curve, given = table.pop("curve"), controls_of(system)
    has_values = any(np.size(value) for value in table.values())
    if given == 0:
        if has_values:
            raise ScenarioError("`control` moves masses, but the system has none. Leave it out.")
        return None
    if curve == "recorded":
        return recorded_control(scenario, given)
    if not has_values and not (system.prescribed_motion and given):
        return None
    return CURVES[curve](table, _controls_in_table(table) if given is None else given)


def _controls_in_table(table: Mapping[str, Any]) -> int:
    """The number of controls for which the table `[control]` has values."""
    lists = [value for value in table.values() if isinstance(value, list) and value]
    return len(lists[0][0] if isinstance(lists[0][0], list) else lists[0]) if lists else 0


def build_times(scenario: Scenario) -> np.ndarray:
    """The times of `[time]`, equally spaced, including both ends."""
    table = scenario["time"]
    return np.linspace(table["start"], table["end"], table["samples"])


def solver_options(scenario: Scenario) -> dict[str, Any]:
    """The table `[solver]` as keyword arguments of `jaxhamel.simulate`."""
    table = scenario["solver"]
    fixed, names = table["dt"] > 0, ("rtol", "atol")
    steps = {"dt": table["dt"]} if fixed else {name: table[name] for name in names}
    return steps | {"solver": SOLVERS[table["method"]](), "max_steps": table["max_steps"]}


# Controls.


def _constant(table: Mapping[str, Any], n: int) -> Any:
    return as_control(_per_mass("value", table["value"] or [0.0] * n, n))


def _sine(table: Mapping[str, Any], n: int) -> Sine:
    columns = {**table, "phase": table["phase"] or [0.0] * n}
    return Sine(**{key: _per_mass(key, value, n) for key, value in columns.items()})


def _fourier(table: Mapping[str, Any], n: int) -> Any:
    mean = _per_mass("mean", table["mean"], n)
    waves = {key: _row_per_mass(key, table[key], n) for key in ("cosine", "sine")}
    with named("control"):
        return limited(FourierSeries(mean, **waves, period=table["period"]), table, n)


def _spline(table: Mapping[str, Any], n: int) -> Spline:
    coefficients = _row_per_mass("coefficients", table["coefficients"], n)
    with named("control"):
        spline = Spline(coefficients, table["start"], table["end"], table["degree"])
        return limited(spline, table, n)


def _stored_curve(table: Mapping[str, Any], n: int) -> Any:
    if n != 3:
        raise ScenarioError(f"`control.name` is a solution for 3 masses; the system has {n}.")
    return figure_eight_curve()


def limited(curve: Any, table: Mapping[str, Any], n: int, name: str = "control") -> Any:
    """The curve, limited to the masses' positions `lower` and `upper` of the table, if these are given."""
    if not table["lower"] and not table["upper"]:
        return curve
    bounds = [_per_mass(key, table[key], n, name) for key in ("lower", "upper")]
    with named(name):
        return Limited(curve, *bounds)


def _per_mass(key: str, value: list[Any], n: int, name: str = "control") -> Array:
    if len(value) != n:
        raise ScenarioError(
            f"`{name}.{key}` has {len(value)} entries; it must have {n}, one for each control."
        )
    return _float_array(value)


def _row_per_mass(key: str, value: list[Any], n: int) -> Array:
    if value and len(value[0]) != n:
        raise ScenarioError(
            f"`control.{key}` has rows of {len(value[0])} numbers; they must have {n}, "
            "one for each control."
        )
    return _float_array(value).reshape(len(value), n)


def _float_array(value: Any) -> Array:
    return jnp.asarray(value, dtype=float)


CURVES: dict[str, Callable[[Mapping[str, Any], int], Any]] = {
    "constant": _constant,
    "sine": _sine,
    "fourier": _fourier,
    "spline": _spline,
    "stored": _stored_curve,
}
