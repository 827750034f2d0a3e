"""The tables `[[montecarlo.spread]]`: distributions about the scenario's values, and the system of one sample."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._system import check_constructed, named
from jaxhamel.cli._scenario._validate import ScenarioError, brief, nearest
from jaxhamel.ensemble import Distribution
from jaxhamel.identify._parameters._paths import leaf_of, leaf_paths, with_leaf
from jaxhamel.mechanics import System

CONTROL_KEYS = {"control.offset": "offset", "control.scale": "scale", "control.delay": "delay"}


class Nominal(NamedTuple):
    """System, initial state and control of a scenario without random deviations."""

    system: System
    q0: Configuration
    u0: QuasiVelocity
    control: Control


def nominal_of(run: PreparedRun) -> Nominal:
    """System, initial state and control of a run."""
    return Nominal(run.system, run.q0, run.u0, run.control)


class Disturbed(eqx.Module):
    """The control θ(t) = offset + scale θ₀(t − delay); every field is `(n,)` or a number."""

    control: Any
    offset: Array
    scale: Array
    delay: Array

    def __call__(self, t: Time) -> Array:
        return self.offset + self.scale * self.control(t - self.delay)


def distributions(
    spread: list[Mapping[str, Any]], nominal: Nominal, table: str = "montecarlo"
) -> dict[str, Distribution]:
    """The distribution of each spread parameter, by its key: about the nominal value, with the width of its table.

    **Arguments:** `spread`: the tables `[[montecarlo.spread]]` or `[[closed_loop.spread]]`; `table`: the name of the outer
    table, for messages. Only `montecarlo` may spread the control.

    **Raises:** `ScenarioError` for a key that is no number of the scenario, or that is given twice.
    """
    found: dict[str, Distribution] = {}
    for i, entry in enumerate(spread):
        _check_given_once(entry["key"], found, f"{table}.spread.{i}.key")
        n = getattr(nominal.system, "n_masses", 0) if table == "montecarlo" else 0
        value = _nominal_value(entry["key"], nominal, f"{table}.spread.{i}.key", n)
        found[entry["key"]] = _distribution(entry, value, f"{table}.spread")
    return found


def _check_given_once(key: str, others: Mapping[str, Any], where: str) -> None:
    for other in others:
        if key == other:
            raise ScenarioError(f"`{where}` {key!r} is given twice.")
        if f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}."):
            raise ScenarioError(
                f"`{where}` {key!r} has numbers of {other!r}, which is spread, too."
            )


def member(sample: Mapping[str, Any], nominal: Nominal) -> Nominal:
    """System, initial state and control of one trajectory: the nominal ones with the values of its sample."""
    system, q0, u0, control = nominal
    for key, x in sample.items():
        if key.startswith("initial.q"):
            q0 = system.space.retract(q0, _deviation(key, x, system.space.dim))
        elif key.startswith("initial.u"):
            u0 = u0 + _deviation(key, x, len(u0))
        elif not key.startswith("control."):
            system = with_leaf(system, key.removeprefix("system."), x)
    own = _control_parts(sample, system)
    return Nominal(system, q0, u0, _disturbed(control, own) if own else control)


def _control_parts(sample: Mapping[str, Any], system: Any) -> dict[str, Array]:
    """The fields of `Disturbed` that a sample has, by name; entries that it leaves out have no deviation."""
    own: dict[str, Array] = {}
    for key, x in sample.items():
        name, _, index = key.removeprefix("control.").partition(".")
        if key in CONTROL_KEYS:
            own[name] = x
        elif f"control.{name}" in CONTROL_KEYS and key.startswith("control."):
            none = jnp.full(system.n_masses, float(name == "scale"), x.dtype)
            own[name] = own.get(name, none).at[int(index)].set(x)
    return own


def _deviation(key: str, x: Array, size: int) -> Array:
    """The deviation of the initial q or u, whose entries are zero but for that of a key such as `initial.q.1`."""
    index = key.split(".")[2:]
    return jnp.zeros(size, x.dtype).at[int(index[0])].set(x) if index else x


def members(samples: Mapping[str, Any], nominal: Nominal) -> tuple[Nominal, Nominal]:
    """Systems, initial states and controls of many samples, and their axes: 0 for a leaf that differs, else None.

    Values that all trajectories share are not repeated.
    """
    shapes = []

    def varied(sample):
        leaves, structure = jax.tree.flatten(member(sample, nominal))
        changes = [isinstance(x, jax.core.Tracer) for x in leaves]
        shapes.append((leaves, structure, changes))
        return [x for x, differs in zip(leaves, changes, strict=True) if differs]

    own = iter(jax.vmap(varied)(dict(samples)))
    leaves, structure, changes = shapes[-1]
    every = [next(own) if differs else x for x, differs in zip(leaves, changes, strict=True)]
    axes = [0 if differs else None for differs in changes]
    return jax.tree.unflatten(structure, every), jax.tree.unflatten(structure, axes)


def check_sample(sample: Mapping[str, np.ndarray], nominal: Nominal) -> None:
    """Checks that the parameters of one sample are accepted by the system's constructor.

    **Raises:** `ValueError` with the constructor's message, in which the parameter is named as in a scenario.
    """
    system = member({key: jnp.asarray(x) for key, x in sample.items()}, nominal).system
    try:
        with named("system"):
            check_constructed(system)
    except ScenarioError as error:
        raise ValueError(str(error)) from None


def _disturbed(control: Control, own: Mapping[str, Array]) -> Disturbed:
    # NumPy arrays stay concrete while JAX traces: at a time that all trajectories share, spline knots are located only once.
    dtype = next(iter(own.values())).dtype
    zero, one = np.zeros((), dtype), np.ones((), dtype)
    return Disturbed(control, **{"offset": zero, "scale": one, "delay": zero, **own})


def _nominal_value(key: str, nominal: Nominal, where: str, n: int) -> np.ndarray:
    """The nominal value of the parameter `key`; `n`: the number of controls that may differ, 0 if none may."""
    known = {
        "initial.q": np.zeros(nominal.system.space.dim),
        "initial.u": np.zeros(np.shape(nominal.u0)),
        **({"control.offset": np.zeros(n), "control.scale": np.ones(n)} if n else {}),
        **({"control.delay": np.zeros(())} if n else {}),
    }
    known = {f"system.{path}": x for path, x in leaf_paths(nominal.system).items()} | known
    whole = next((name for name in known if f"{key}.".startswith(f"{name}.")), "")
    try:
        value, index = known[whole], key.removeprefix(whole).removeprefix(".")
        return np.asarray(leaf_of(jnp.asarray(value), index) if index else value)
    except LookupError:
        raise ScenarioError(
            f"`{where}` is {brief(key)}, which is no number of this scenario.{nearest(key, known)} "
            f"It may be one of {', '.join(known)}, or an entry of one of these, such as `initial.u.0`."
        ) from None


def _distribution(entry: Mapping[str, Any], value: np.ndarray, where: str) -> Distribution:
    """The distribution of a parameter about its nominal value `value`."""
    scale = np.abs(value) if entry.get("relative") else np.ones_like(value)
    match entry["distribution"]:
        case "normal":
            return Distribution("normal", mean=value, std=_width(entry, "std", scale, where))
        case "uniform":
            half = _width(entry, "half_width", scale, where)
            return Distribution("uniform", low=value - half, high=value + half)
        case _:
            if np.any(value <= 0):
                raise ScenarioError(
                    f"`{where}` of {entry['key']!r} is lognormal, but the scenario's value is "
                    f"{value.tolist()}; it must be positive. Take the distribution normal."
                )
            return Distribution(
                "lognormal", median=value, sigma=np.full(value.shape, entry["sigma"])
            )


def _width(entry: Mapping[str, Any], name: str, scale: np.ndarray, where: str) -> np.ndarray:
    if np.any(scale == 0):
        raise ScenarioError(
            f"`{where}` of {entry['key']!r} is relative, but an entry of the scenario's value is 0; "
            "give an absolute one."
        )
    return entry[name] * scale
