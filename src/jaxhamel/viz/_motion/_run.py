"""A simulated motion as NumPy arrays, with quantities computed along it, and the rails on which masses move."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float
from numpy import ndarray

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.mechanics import Output
from jaxhamel.mechanics._controls._control import at_state
from jaxhamel.mechanics._description._declarations import Part, parts_of, state_of

RAIL_POINTS = 73
FULL_TURN = np.linspace(0.0, 2.0 * np.pi, RAIL_POINTS)


def along(function: Callable[..., Any], *states: Any, fixed: tuple[Any, ...] = ()) -> Any:
    """The values of function(*state, *fixed) at every time; each of the `states` and each result has a leading time axis.

    If the function is a module or a method of one, its compiled program serves also for other values of its arrays.
    """
    return jax.tree.map(np.asarray, _mapped(function, states, fixed))


@compiled_with(QUICK)
def _mapped(function: Callable[..., Any], states: tuple[Any, ...], fixed: tuple[Any, ...]) -> Any:
    # through a lambda, since equinox warns if a module (a control, a path) itself is transformed
    return jax.vmap(lambda *state: function(*state, *fixed))(*states)


def mass_positions(
    system: Any, control: Any, ts: Float[ndarray, " T"]
) -> tuple[Float[ndarray, "T n"], Float[ndarray, "T n 3"]]:
    """The rail parameters θ(t) of all masses, and the positions of the masses in the body frame [m]."""
    if system.n_masses == 0:
        return np.zeros((len(ts), 0)), np.zeros((len(ts), 0, 3))
    angles = along(control, ts)
    return angles, along(system.rails, angles)


def rail_lines(
    rails: Callable[[Float[ndarray, " n"]], Float[ndarray, "n 3"]] | None,
    angles: Float[ndarray, "T n"],
) -> Float[ndarray, "n P 3"]:
    """Every rail as a polyline of P points in the body frame [m]: the whole rail if it is closed after 2π, otherwise the
    part that its mass uses.

    **Arguments:**

    - `rails`: the function from the rail parameters `(n,)` to the positions `(n, 3)` in m, as in `jaxhamel.systems`; None
      without masses.
    - `angles`: the rail parameters of the masses along the motion, `(T, n)`.
    """
    if rails is None or angles.shape[1] == 0:
        return np.zeros((0, RAIL_POINTS, 3))
    low, high = angles.min(axis=0), angles.max(axis=0)
    between = low + np.linspace(-0.04, 1.04, RAIL_POINTS)[:, None] * (high - low)
    around = np.broadcast_to(FULL_TURN[:, None], between.shape)
    found = _rail_points(rails, np.concatenate([[low, low + 2 * np.pi], around, between]))
    start, end, around, between = np.split(found, [1, 2, 2 + RAIL_POINTS])
    closed = np.all(np.abs(start - end) < 1e-5, axis=-1)[..., None]
    return np.moveaxis(np.where(closed, around, between), 1, 0)


def _rail_points(
    rails: Callable[..., Any], thetas: Float[ndarray, "P n"]
) -> Float[ndarray, "P n 3"]:
    """The positions of all masses at P sets of rail parameters."""
    if issubclass(type(rails), eqx.Module):  # in one program instead of eight small ones
        return along(rails, thetas)
    return np.stack([np.asarray(rails(theta), dtype=float) for theta in thetas])


NamedColumns = dict[str, np.ndarray]


class Along(NamedTuple):
    """Quantities along a motion, each with a leading time axis; None or empty if the system does not have the quantity.

    - `outputs`: the results of `System.outputs`; `invariants`: those of `System.invariants`, by name.
    - `places`: the quaternion and the position of each body.
    - `contact`: the contact point; `masses`: the positions of the masses on their rails.
    - `control`: the values of the control, `(T, m)`.
    - `ground`: the axes of uneven ground at the contact point, `(T, 3, 3)`.
    """

    outputs: tuple[Output, ...]
    places: tuple[tuple[np.ndarray, np.ndarray], ...]
    invariants: Any
    contact: np.ndarray | None
    masses: np.ndarray | None
    control: np.ndarray | None
    ground: np.ndarray | None


@dataclass(frozen=True, eq=False)
class ShownMotion:
    """A simulated motion as NumPy arrays, up to the last finite state.

    The motion of a control task may also have a reference `path`, a function from t to a point `(d,)`; the `costs` of the
    search, `(K,)`; the `friction_limit` of the ground; and `obstacles`, each with its name and an outline `(T, P, 3)` [m].
    `control_chart`: whether the motion has a chart of its control; one that was planned has another.
    """

    system: Any
    control: Any
    ts: np.ndarray
    q: Any
    u: np.ndarray
    path: Callable | None = None
    costs: np.ndarray | None = None
    friction_limit: float | None = None
    obstacles: tuple[tuple[str, np.ndarray], ...] = ()
    control_chart: bool = True

    @classmethod
    def of(cls, trajectory: Any, system: Any = None, control: Any = None) -> "ShownMotion":
        """The motion of a trajectory at its valid times, and its last state if the simulation ended early.

        **Arguments:** `system`, `control`: used in place of those of the trajectory, if given.
        """
        keep = np.asarray(trajectory.valid)
        if not keep.any():
            raise ValueError(
                "there is no motion to show: the equations are not finite at the initial state. Look at `initial` and "
                "`system` for numbers that are too large or too small."
            )
        ts = np.asarray(trajectory.ts)[keep]
        q, u = jax.tree.map(lambda x: np.asarray(x)[keep], (trajectory.q, trajectory.u))
        if not keep.all() and float(trajectory.t_end) > ts[-1]:
            ts = np.append(ts, float(trajectory.t_end))

            def append(rows, last):
                return np.concatenate([rows, np.asarray(last)[None]])

            q, u = jax.tree.map(append, (q, u), (trajectory.q_end, trajectory.u_end))
        system = trajectory.system if system is None else system
        return cls(system, trajectory.control if control is None else control, ts, q, u)

    @cached_property
    def along(self) -> Along:
        """The quantities of the system along the motion, computed in one program."""
        everything = Partial(_everything, self.system)
        return along(everything, self.ts, self.q, self.u, fixed=(self.control,))

    @cached_property
    def reference(self) -> np.ndarray | None:
        """The points of the reference path at `ts`, `(T, d)`; None without a reference path."""
        return None if self.path is None else along(self.path, self.ts)

    @cached_property
    def parts(self) -> list[tuple[Part, np.ndarray]]:
        """Every part of the state with its values `(T, r)`: first those of the configuration, then those of u."""
        return parts_of(state_of(self.system), self.q, self.u)

    @cached_property
    def columns(self) -> NamedColumns:
        """All columns of trajectory.csv by name: the state, then the outputs; repeated names are numbered."""
        found: NamedColumns = {}
        for part, values in self.parts:
            add_columns(found, part.names(values.shape[1]), values)
        for output in self.along.outputs:
            add_columns(found, output.columns, np.asarray(output.value))
        return found

    def output(self, name: str) -> Output | None:
        """The output of the system with the given name, along the motion; None if the system does not have it."""
        return next((o for o in self.along.outputs if o.name == name), None)

    @property
    def rails(self) -> np.ndarray:
        """Every rail as a polyline, `(n, P, 3)`."""
        angles = self.output("angles")
        positions = np.zeros((len(self.ts), 0)) if angles is None else np.asarray(angles.value)
        return rail_lines(getattr(self.system, "rails", None), positions)

    @property
    def duration(self) -> float:
        """The duration of the motion [s]."""
        return float(self.ts[-1] - self.ts[0])


def add_columns(found: NamedColumns, names: tuple[str, ...], values: np.ndarray) -> None:
    """Adds the columns of an array under their names; repeated names are numbered."""
    for name, column in zip(names, values.T, strict=False):
        free, number = name, 1
        while free in found or free == "t":
            number += 1
            free = f"{name}_{number}"
        found[free] = column


def _everything(system: Any, t: Any, q: Any, u: Any, control: Any) -> Along:
    control = at_state(control, t, q, u)
    contact = system.contact_point(q) if hasattr(system, "contact_point") else None
    masses = system.mass_positions(t, control) if hasattr(system, "mass_positions") else None
    invariants = {k: jnp.ravel(x) for k, x in system.invariants(t, q, u, control).items()}
    outputs, places = system.outputs(t, q, u, control), system.places(t, q, control)
    uneven = callable(getattr(system, "ground", None)) and hasattr(system, "ground_axes")
    ground = system.ground_axes(q) if uneven else None
    return Along(outputs, places, invariants, contact, masses, _numbers(control, t), ground)


def _numbers(control: Any, t: Any) -> Any:
    """All numbers of a control's value at a time, `(m,)`; None without a control."""
    if control is None:
        return None
    values = jax.tree.leaves(control(t) if callable(control) else control)
    return jnp.concatenate([jnp.ravel(x) for x in values]) if values else None
