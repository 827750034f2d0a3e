"""Builds the system of `[system]` and the state of `[initial]`, for any class of systems."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import systems
from jaxhamel._typing import Configuration, QuasiVelocity
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._system_description import as_written
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.geometry import SE3, SO3, AbstractSpace, Product
from jaxhamel.mechanics import Parameter, System, parameters_of
from jaxhamel.mechanics._description._declarations import State, state_of
from jaxhamel.mechanics._description._parameters import NOTES, FieldNotes, as_parameter


def build_system(scenario: Scenario) -> Any:
    """Builds the system of `[system]`."""
    cls, table = scenario.system_class, scenario["system"]
    parameters = {p.name: _given_value(p, table) for p in parameters_of(cls)}
    with named("system"):
        return cls(**parameters)


def build_initial(
    scenario: Scenario, system: System | None = None
) -> tuple[Configuration, QuasiVelocity]:
    """The state (q, u) of `[initial]`; missing values are those of the system's `initial_state`."""
    known: System = build_system(scenario) if system is None else system
    table, names = scenario["initial"], state_of(known)
    _check_one_way(table, names)
    with named("initial"):
        q, u = known.initial_state()
        leaves, structure = jax.tree.flatten(q)
        leaves = [_leaf(part.key, table, x) for part, x in zip(names.q, leaves, strict=True)]
        start = jax.tree.unflatten(structure, leaves), _velocities(names, table, u)
    return state_in(known, table, "initial", start)


def state_in(
    system: System, table: Mapping[str, Any], where: str, start: tuple | None = None
) -> tuple[Configuration, QuasiVelocity]:
    """The state (q, u) from a table's keys `q` and `u`; a missing one is that of `start`, by default `initial_state()`."""
    q, u = system.initial_state() if start is None else start
    if "q" in table:
        q = _configuration(table["q"], *jax.tree.flatten(q), f"{where}.q")
    if "u" in table:
        u = _array_of_shape(f"{where}.u", table["u"], u.shape)
    _check_units(system.space, q, state_of(system), where, "q" in table)
    return q, u


@contextmanager
def named(table: str | None) -> Iterator[None]:
    """A context that turns an error of the library into a `ScenarioError` of one line.

    With the table `system` an error about `radius` names `system.radius`. None keeps the message, as is right for an error
    about a method of the user's own class. A name that every class of systems has, such as `n_constraints`, is no key.
    """
    try:
        yield
    except ScenarioError:
        raise
    except (ValueError, TypeError) as error:
        message = " ".join(str(error).split())
        if table is not None:
            message = re.sub(r"`(\w+)`", partial(_key_in, table), message, count=1)
        raise ScenarioError(message) from error


def _key_in(table: str, word: re.Match[str]) -> str:
    """A name between backquotes as a key of the table, unless it is an attribute of all systems."""
    return word[0] if hasattr(System, word[1]) else f"`{table}.{word[1]}`"


def check_constructed(thing: Any) -> None:
    """Checks the present values of a system and of its parts (such as its rails) by calling their constructors again.

    This is for systems whose leaves were replaced without a constructor call. It also checks the bounds that the fields
    declare (`jaxhamel.parameter`), which a user's constructor need not check.

    **Raises:** the errors of the constructors.
    """
    if not isinstance(thing, eqx.Module):
        return
    _check_declared(thing)
    arguments: list[Any] = []
    named_arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(type(thing)).parameters.items():
        if not hasattr(thing, name):
            return  # a custom constructor, whose arguments are not the fields
        value = getattr(thing, name)
        for part in jax.tree.leaves(value, is_leaf=lambda x: isinstance(x, eqx.Module)):
            check_constructed(part)
        if parameter.kind is parameter.VAR_POSITIONAL:
            arguments += value
        elif value is not None:
            named_arguments[name] = value
    type(thing)(*arguments, **named_arguments)


def _check_declared(thing: eqx.Module) -> None:
    for field in dataclasses.fields(thing):
        notes, value = field.metadata.get(NOTES, FieldNotes()), getattr(thing, field.name)
        if not isinstance(value, jax.Array | np.ndarray):
            continue
        if notes.positive and not np.all(np.asarray(value) > 0):
            raise ValueError(
                f"`{field.name}` is {np.asarray(value).tolist()}; it must be positive."
            )
        if notes.least is not None and not np.all(np.asarray(value) >= notes.least):
            found = np.asarray(value).tolist()
            raise ValueError(f"`{field.name}` is {found}; it must be at least {notes.least:g}.")


# --- parameters -----------------------------------------------------------------------------------


def _given_value(p: Parameter, table: Mapping[str, Any], path: str = "system") -> Any:
    given = table[p.name]
    match p.kind:
        case "rails":
            masses = table.get("masses")
            return _rails(given, len(given if masses is None else masses))
        case "module" | "modules" | "table":
            return _object(p, given, f"{path}.{p.name}")
        case "numbers":
            if given is None or given == as_written(p.notes.none_as):
                return None
            return as_parameter(_as_numbers(f"{path}.{p.name}", given))
    return given


def _object(p: Parameter, given: Any, path: str) -> Any:
    """The value of a parameter that is an object with parameters, several ones, or a dictionary."""
    if given is None or (p.kind == "modules" and not given and not p.required):
        return p.default
    if p.kind == "module":
        if not p.required and p.default is not None and _is_default(p, given):
            return jax.tree.map(as_parameter, p.default)
        return _made(p, given, path)
    if p.kind == "modules":
        return p.collect(_made(p, entry, f"{path}.{i}") for i, entry in enumerate(given))
    if p.make is not None:
        return {name: _made(p, entry, f"{path}.{name}") for name, entry in given.items()}
    return _with_arrays(given, path)


def _is_default(p: Parameter, given: Any) -> bool:
    """Whether a value of a scenario is the default of the parameter."""
    if p.kind == "module" and given is not None and p.default is not None:
        return all(_is_default(part, given.get(part.name)) for part in p.parts)
    return not given if p.kind in ("rails", "modules") else given == as_written(p.default)


def _made(p: Parameter, given: Mapping[str, Any], path: str) -> Any:
    assert p.make is not None
    with named(path):
        return p.make(**{i.name: _given_value(i, given, path) for i in p.parts})


def _with_arrays(value: Any, path: str) -> Any:
    """A table of a dictionary with arrays in place of numbers and of lists of numbers."""
    if isinstance(value, Mapping):
        return {name: _with_arrays(entry, f"{path}.{name}") for name, entry in value.items()}
    if isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        return [_with_arrays(entry, f"{path}.{i}") for i, entry in enumerate(value)]
    if isinstance(value, bool | str):
        return value
    return as_parameter(_as_numbers(path, value))


def _as_numbers(key: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=float)
    except ValueError:
        raise ScenarioError(
            f"`{key}` has lists of different lengths; neighbouring lists must be equally long."
        ) from None


def _rails(tables: list[Mapping[str, Any]], n: int) -> Any:
    if len(tables) != n:
        raise ScenarioError(
            f"`system.rails` has {len(tables)} entries but `system.masses` has {n}; "
            "each mass needs one [[system.rails]]."
        )
    groups = [
        _rails_of_kind(kind, list(rails)) for kind, rails in groupby(tables, lambda t: t["kind"])
    ]
    if not groups:
        return None
    return groups[0] if len(groups) == 1 else systems.MixedRails(*groups)


def _rails_of_kind(kind: str, tables: list[Mapping[str, Any]]) -> Any:
    """One rail object for several neighbouring rails of the same kind; each rail is a row of its arrays."""
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


# --- the state ------------------------------------------------------------------------------------


def _check_one_way(table: Mapping[str, Any], names: State) -> None:
    """Checks that a table does not give both `q` and the keys of its parts, such as `position`; likewise for `u`."""
    for whole, parts in (("q", names.q), ("u", names.u)):
        others = [part.key for part in parts if part.key != whole]
        if whole in table and not all(_at_rest(table.get(key)) for key in others):
            raise ScenarioError(
                f"`initial.{whole}` and `initial.{others[0]}` give the same numbers; leave one of them out."
            )


def _at_rest(value: Any) -> bool:
    """Whether the value of a key is a default: None, zero or the unit quaternion."""
    return value is None or not np.any(value) or list(np.ravel(value)) == [1.0, 0.0, 0.0, 0.0]


def _leaf(key: str, table: Mapping[str, Any], default: Any) -> Any:
    if key not in table or key == "q":
        return default
    return _array_of_shape(f"initial.{key}", table[key], default.shape)


def _velocities(names: State, table: Mapping[str, Any], u: Any) -> Any:
    """The quasi-velocities u, in which the parts that the table gives are replaced."""
    fixed = sum(part.size or 0 for part in names.u)
    start = 0
    for part in names.u:
        size = len(u) - fixed if part.size is None else part.size
        if part.key in table and part.key != "u":
            given = _array_of_shape(f"initial.{part.key}", table[part.key], (size,))
            u = u.at[start : start + size].set(given)
        start += size
    return u


def _configuration(value: Any, leaves: Sequence[Any], structure: Any, key: str) -> Configuration:
    """A configuration from nested lists (one for each array) or from one list of all numbers."""
    parts = value if isinstance(value, list) else [value]
    if len(leaves) > 1 and all(isinstance(part, list) for part in parts):
        return _nested(value, leaves, structure, key)
    sizes = [x.size for x in leaves]
    flat = _array_of_shape(key, parts, (sum(sizes),))
    ends = np.cumsum(sizes)
    split = [flat[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return jax.tree.unflatten(structure, split)


def _nested(value: list, leaves: Sequence[Any], structure: Any, key: str) -> Configuration:
    flat = value
    while any(isinstance(x, list) and x and isinstance(x[0], list) for x in flat):
        flat = [y for x in flat for y in (x if x and isinstance(x[0], list) else [x])]
    if len(flat) != len(leaves):
        raise ScenarioError(
            f"`{key}` has {len(flat)} lists; it must have {len(leaves)}, one for each factor, "
            f"of {', '.join(str(x.size) for x in leaves)} numbers."
        )
    arrays = [_array_of_shape(key, x, like.shape) for x, like in zip(flat, leaves, strict=True)]
    return jax.tree.unflatten(structure, arrays)


def _array_of_shape(key: str, value: Any, shape: tuple[int, ...]) -> Any:
    flat = np.ravel(_as_numbers(key, value))
    wanted = int(np.prod(shape))
    if flat.size != wanted:
        raise ScenarioError(
            f"`{key}` has {flat.size} numbers; it must have {wanted} for this system."
        )
    return jnp.asarray(flat.reshape(shape), dtype=float)


def _check_units(
    space: AbstractSpace, q: Configuration, names: State, where: str, whole: bool
) -> None:
    """Checks that the quaternions of a configuration have unit norm."""
    for part, turns, x in zip(
        names.q, _begins_with_quaternion(space), jax.tree.leaves(q), strict=True
    ):
        norm = float(np.linalg.norm(x[:4])) if turns else 1.0
        if abs(norm - 1.0) > 1e-6:
            key = "q" if whole else part.key
            raise ScenarioError(
                f"`{where}.{key}` has norm {norm:.9g}; it must be a unit quaternion "
                "(w, x, y, z). Divide it by its norm."
            )


def _begins_with_quaternion(space: AbstractSpace) -> Iterator[bool]:
    """For each array of a configuration, whether it begins with a quaternion."""
    if isinstance(space, Product):
        for factor in space.spaces:
            yield from _begins_with_quaternion(factor)
    else:
        yield isinstance(space, SO3 | SE3)
