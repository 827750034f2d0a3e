"""Checks of a system at a state: route, state, frame, control."""

import math
from dataclasses import fields
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._traced import called, looks_at_values
from jaxhamel._checks._values import (
    any_tracer,
    check_finite,
    check_shape,
    concrete,
    inline,
    is_real,
    path_of,
    type_of,
)
from jaxhamel._compiled import compiled
from jaxhamel._shapes import Seen
from jaxhamel.geometry._checks import singular_below, smallest_relative_singular_value
from jaxhamel.mechanics._checks._constraints import redundant_rows
from jaxhamel.mechanics._system import System, controls_of


def check_route(route, routes) -> None:
    """Checks the name of a route to the equations of motion."""
    if route is not None and (not isinstance(route, str) or route not in routes):
        raise ValueError(
            f"`route` is {route!r}; it must be one of {', '.join(map(repr, routes))}, "
            "or None for the fastest."
        )


def check_a_system(system, argument: str = "system") -> None:
    """Checks that the argument is a system (not its class) whose parameters are arrays of numbers, and that it has at most
    as many constraints as dimensions.
    """
    if isinstance(system, type) or not hasattr(system, "n_constraints"):
        raise TypeError(
            f"`{argument}` is {type_of(system)}; it must be a jaxhamel.System with its values."
        )
    name = type(system).__name__
    space: Any = getattr(system, "space", None)
    if isinstance(space, type) or not hasattr(space, "retract"):
        raise TypeError(
            f"`space` of {name} is {'missing' if space is None else type_of(space)}; a system has a configuration space as "
            "class attribute, with parentheses: `space = jaxhamel.SO3()`, `space = jaxhamel.Euclidean(3)`."
        )
    m = system.n_constraints
    if not isinstance(m, int | np.integer) or isinstance(m, bool) or m < 0:
        raise TypeError(
            f"`n_constraints` of {name} is {m!r}; it must be a whole number, 0 or more."
        )
    if m > space.dim:
        raise ValueError(
            f"`n_constraints` of {name} is {m}; its space has only {space.dim} dimensions. Set it to the number of "
            "independent constraint one-forms."
        )
    if any(map(_has_words, jax.tree.leaves(system))):
        leaves = tree_flatten_with_path(system)[0]
        wrong = ", ".join(f"`{path_of(keys)}`" for keys, leaf in leaves if _has_words(leaf))
        raise TypeError(
            f"{wrong} of {name}: entries are no numbers; give real numbers in SI units."
        )
    _check_comparable(system)


def _check_comparable(system) -> None:
    """Checks that JAX can compare the parts of a system that are no numbers, to find its compiled program."""
    name = type(system).__name__
    if not all(map(_is_comparable, jax.tree.leaves(system))):
        leaves = tree_flatten_with_path(system)[0]
        keys, leaf = next(entry for entry in leaves if not _is_comparable(entry[1]))
        raise TypeError(
            f"`{path_of(keys)}` of {name} is {type_of(leaf)}, in which JAX finds no numbers. Make its class an "
            "equinox.Module, register it by jax.tree_util.register_dataclass, or give its numbers in a dict."
        )
    static = [field.name for field in fields(system) if field.metadata.get("static")]
    if wrong := [key for key in static if _is_long_array(getattr(system, key))]:
        raise TypeError(
            f"`{wrong[0]}` of {name} is an array in a static field, which JAX cannot compare. Leave out `static=True`, or "
            "give a tuple."
        )


def _is_long_array(value) -> bool:
    return isinstance(value, np.ndarray | jax.Array) and value.size != 1


def _is_comparable(leaf) -> bool:
    return eqx.is_array_like(leaf) or _has_hash(leaf)


def _has_hash(thing) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _has_words(leaf) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OUSmM"


def check_order(system, q, u, names: tuple[str, str] = ("q", "u")) -> None:
    """Checks that q and u are not given in the wrong order."""
    swapped = _shapes_in(u) == _shapes_in(system.space.stored) != _shapes_in(q)
    if swapped and _shapes_in(q) == [(system.n_independent,)]:
        raise ValueError(
            f"`{names[0]}` and `{names[1]}` are swapped: {names[0]} is the configuration, of shape "
            f"{_one_or_all(_shapes_in(u))}, and comes first."
        )


def _shapes_in(tree) -> list[tuple]:
    return [tuple(np.shape(leaf)) for leaf in jax.tree.leaves(tree)]


def _one_or_all(shapes: list[tuple]):
    return shapes[0] if len(shapes) == 1 else tuple(shapes)


def check_state(system, q, u) -> None:
    """Checks that q is a configuration of the system's space and u has one entry for each independent quasi-velocity."""
    check_a_system(system)
    check_order(system, q, u)
    system.space.check(q, "q")
    k = system.n_independent
    next_step = (
        f"{type(system).__name__} has {k} independent quasi-velocities: {system.space.dim} "
        f"dimensions less {system.n_constraints} constraints."
    )
    check_shape("u", u, (k,), next_step)
    check_finite("u", u)


def check_frame_at(system, t, q) -> None:
    """Checks that the system can have the configuration q, that A(t, q) is (n, n), finite and regular, and that its
    constraint rows are independent.
    """
    n, m = system.space.dim, system.n_constraints
    if not any_tracer((system, q)):
        system.check_configuration(q)
    matrix = (system.frame if any_tracer((system, t, q)) else partial(_frame, system))(t, q)
    check_shape(
        "frame(t, q)", matrix, (n, n), "It is A of u = A v, with one row for each quasi-velocity."
    )
    check_finite("frame(t, q)", matrix)
    array = concrete(matrix)
    if array is None or n == 0:
        return
    smallest = smallest_relative_singular_value(array[:m])
    if smallest < singular_below(array):
        redundant = redundant_rows(array[:m]) or [m - 1]
        raise ValueError(
            f"the first {m} rows of `frame(t, q)` are dependent constraint one-forms at t = {t}: "
            f"their smallest singular value is {smallest:.3g} of the largest. Constraints must be "
            f"independent; drop {_rows_in_words(redundant)}, which follows from those before it, and lower `n_constraints` "
            f"to {m - len(redundant)}. For the multipliers of all of them, of least norm, return all from "
            "`constraints(t, q)`."
        )
    smallest = smallest_relative_singular_value(array)
    if smallest < singular_below(array):
        raise ValueError(
            f"`frame(t, q)` is singular at t = {t}: its smallest singular value is {smallest:.3g} "
            "of the largest. A of u = A v must be invertible; choose other quasi-velocities for "
            "the free directions, or another start if the frame has a singular configuration."
        )


def _rows_in_words(rows: list[int]) -> str:
    return "row " + " and row ".join(map(str, rows))


@compiled
def _frame(system, t, q):
    """The frame, by one compiled program; evaluated operation by operation, a rolling ball's frame takes 2 ms."""
    return system.frame(t, q)


def check_control_of(system, t, control) -> None:
    """Runs the system's own `check_control`: once for each structure and shapes of a control, and each time only if the
    check depends on values.
    """
    check = type(system).check_control
    with _CONTROLS.once(system, t, control) as is_new:
        by_value = is_new and looks_at_values("`control`", check, system, t, control)
        if by_value:
            _BY_VALUE.add(check)
        if is_new:
            check_number_of_controls(system, t, control)
    if check in _BY_VALUE:
        check(system, t, control)


def check_number_of_controls(system, t, control, name: str = "control") -> None:
    """Checks that a control has as many numbers as the system's `n_controls`, if the system states a number."""
    wanted = controls_of(system) if isinstance(system, System) else None
    if not wanted or control is None:
        return
    sizes = [tuple(leaf.shape) for leaf in jax.tree.leaves(called(f"`{name}`", control, t))]
    if sum(math.prod(shape) for shape in sizes) != wanted:
        got = sizes[0] if len(sizes) == 1 else sizes
        raise ValueError(
            f"`{name}` has values of shape {got}; {type(system).__name__} takes ({wanted},), since its `n_controls` "
            f"is {wanted}."
        )


def check_takes_control(system, control, takes: bool) -> None:
    """Checks that a control is given only to a system that uses one; otherwise the control would be ignored silently.

    A bare function without parameters of its own is accepted, since it may serve several systems.
    """
    has_numbers = not all(callable(leaf) for leaf in jax.tree.leaves(control))
    if has_numbers and not takes:
        raise ValueError(
            f"`control` is given, but {type(system).__name__} takes none: it has no `force(self, t, q, v, control)` of its "
            "own, and `prescribed_motion` is False. Leave it out, or define a force."
        )


_CONTROLS = Seen()


_BY_VALUE = set()  # checks that depend on values, which therefore run each time


def check_inverse(system, t, error: float, room: float) -> None:
    """Checks that B A = 1: that the `error` of the system's `inverse_frame` is within `room`, the rounding of its terms."""
    if error > room:
        raise ValueError(
            f"`inverse_frame` of {type(system).__name__} is not the inverse of its `frame`: an entry of B A differs from "
            f"the identity's by {error:.3g} at t = {t}. Correct it, or leave it out: then the package inverts A."
        )


def check_leaves(system) -> None:
    """Checks that no number of the system is NaN; the message names the field."""
    for keys, leaf in tree_flatten_with_path(system)[0]:
        array = concrete(leaf)
        if array is not None and array.dtype.kind in "fVc" and np.any(np.isnan(array)):
            raise ValueError(
                f"`{path_of(keys)}` of {type(system).__name__} is {inline(array)}; a NaN there makes the whole motion NaN."
            )


def check_mass_matrix(system, matrix, found) -> None:
    """Checks that ∂²ℓ/∂u∂u is finite and regular; otherwise the message names the fields that are zero."""
    if found.is_full:
        return
    if not np.all(np.isfinite(matrix)):
        raise ValueError(
            f"the mass matrix of {type(system).__name__} has entries that are NaN or infinite. Look for the root or the "
            "logarithm of a negative number, the derivative of a root or norm at zero, or a division by zero in its "
            "kinetic energy, or give another state."
        )
    zero = [path_of(keys) for keys, leaf in tree_flatten_with_path(system)[0] if _is_zero(leaf)]
    fields = (
        f" These of its fields are zero: {', '.join(f'`{name}`' for name in zero)}." if zero else ""
    )
    missing = np.flatnonzero(~np.any(np.asarray(matrix) != 0, axis=0))
    where = (
        f", no kinetic energy belongs to u[{', '.join(map(str, missing))}]" if len(missing) else ""
    )
    raise ValueError(
        f"the mass matrix of {type(system).__name__} is singular: rank {found.rank} of {min(found.shape)}{where}. "
        f"Without inertia for every independent quasi-velocity, u̇ is not determined.{fields}"
    )


def check_finite_force(system, force) -> None:
    """Checks that f of M u̇ = f, `(k,)`, is finite at the examined state."""
    if not np.all(np.isfinite(force)):
        raise ValueError(
            f"the forces of {type(system).__name__} at this state are {inline(force)}, from the derivatives of its "
            "Lagrangian, its `force` and its frame. Look for a division by zero or the derivative of a root, norm or "
            "arctan2 at zero, or give another state."
        )


def any_field_is_zero(system) -> bool:
    """Whether all entries of an array of the system are 0; traced arrays count as not 0."""
    return any(map(_is_zero, jax.tree.leaves(system)))


def _is_zero(leaf) -> bool:
    array = concrete(leaf)
    return array is not None and array.size > 0 and not np.any(array)


def check_own_equations(system, method: str, replaced: tuple[str, ...]) -> None:
    """Checks that a closed-form equation of a named system is not used by a subclass that changes the system."""
    if replaced:
        name, others = type(system).__name__, " and ".join(f"`{other}`" for other in replaced)
        raise TypeError(
            f"`{method}` of {name} is inherited from a class below which {others} "
            f"{'is' if len(replaced) == 1 else 'are'} overridden; its formula does not take this into account. Override "
            f"`{method}`, too, or use the general equations: jaxhamel.acceleration, jaxhamel.constraint_force, "
            "jaxhamel.simulate."
        )


def check_bodies(system, t, found) -> None:
    """Checks that bodies and Lagrangian have the same mass matrix and force, to a relative tolerance of 1e-3."""
    if found is None or max(found.mass_matrix, found.force) < _AGREE:
        return
    what = "mass matrices (kinetic energies)" if found.mass_matrix >= _AGREE else "forces"
    worst = max(found.mass_matrix, found.force)
    name = type(system).__name__
    raise ValueError(
        f"`bodies` of {name} disagree with its `lagrangian` and `force`: their {what} differ by {worst:.3g} (relative), and "
        f"at t = {t}, u = {inline(found.u)} bodies give u̇ = {inline(found.of_bodies)}, the Lagrangian "
        f"{inline(found.of_lagrangian)}. Each must describe the whole system: correct one of them, or leave `bodies` out."
    )


_AGREE = 1e-3


def check_control_value(t, control, shape, meaning: str) -> None:
    """Checks that a control gives a finite array of the given shape at time t."""
    accepts = f"a callable of t (or a constant) with values of shape {shape}: {meaning}"
    if control is None:
        raise ValueError(f"`control` is missing; this system takes {accepts}.")
    value = control(t)
    if getattr(value, "shape", None) != shape:
        got = getattr(value, "shape", type(value).__name__)
        raise ValueError(f"`control` has values of shape {got}; it must be {accepts}.")
    if not is_real(value):
        raise TypeError(f"`control` has values of type {value.dtype}; they must be real numbers.")
    array = concrete(value)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"`control` is {inline(array)} at t = {t}; it must be finite at all times. "
            "Look for a NaN among its coefficients or a time outside its span."
        )


def check_constraint_count(system, wanted: int, why: str) -> None:
    """Checks that the system has the number of constraints that an equation needs; `why` completes the message."""
    if system.n_constraints != wanted:
        raise ValueError(
            f"`system` {type(system).__name__} has {system.n_constraints} constraints; here it must "
            f"have {wanted}. {why}"
        )


def check_same_structure(name: str, got, wanted) -> None:
    """Checks that two pytrees have the same structure and shapes."""

    def shapes(tree):
        return jax.tree.map(np.shape, tree)

    if jax.tree.structure(got) != jax.tree.structure(wanted) or shapes(got) != shapes(wanted):
        raise ValueError(f"`{name}` has shapes {shapes(got)}; it must have {shapes(wanted)}.")
