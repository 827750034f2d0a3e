"""An unknown initial state, and conditions that relate the last state to the first, as for periodic motions and gaits."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel._checks._values import check_callable
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._checks._collocation import check_bounds, check_name
from jaxhamel.control._checks._problem_parts import (
    check_depends,
    check_displacement,
    check_rows,
    check_selection,
    check_some_coordinates,
)
from jaxhamel.control._problem._costs import AbstractConstraint
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import parameter

Chosen = bool | tuple[int, ...]
EndState = tuple[Configuration, QuasiVelocity]


def chosen(which: Chosen, count: int) -> tuple[int, ...]:
    """The indices of the chosen coordinates among `count`; `which`: True: all, False: none, or the indices."""
    if isinstance(which, bool):
        return tuple(range(count)) if which else ()
    return tuple(int(i) for i in which)


class FreeInitialState(AbstractConstraint):
    """Makes the initial state, or a part of it, an unknown of the problem:

        q(t_0) = q0 exp(δ_q) ,   u(t_0) = u0 + δ_u ,   lower ≤ (δ_q, δ_u) ≤ upper for the free coordinates.

    **Arguments:**

    - `q`, `u`: True: all coordinates of δ_q or δ_u are free; False: none is; or the indices of the free ones, such as
      `(0, 2)`.
    - `lower`, `upper`: a number, or one for each free coordinate, those of q first; infinite: no limit.
    - `name`: for messages.

    The search starts at the first state of the problem's `guess`, by default (q0, u0). On a group δ_q should stay below
    half a turn. `result.states` begins with the initial state that was found. For a cost or a prior of the initial state use
    `control.InitialCost`, for conditions `control.BoundaryConditions`. `control.Collocation` solves such problems; other
    methods refuse them.
    """

    q: Chosen = eqx.field(static=True, default=True)
    u: Chosen = eqx.field(static=True, default=True)
    lower: Any = parameter(default=-jnp.inf)
    upper: Any = parameter(default=jnp.inf)
    name: str = eqx.field(static=True, default="free initial state")
    at_end = None

    def __check_init__(self) -> None:
        check_name(self.name)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        check_selection(self.name, "q", self.q, system.space.dim)
        check_selection(self.name, "u", self.u, system.n_independent)
        count = len(self.coordinates(system))
        check_some_coordinates(self.name, count)
        check_bounds(self.name, self.lower, self.upper, (count,), strict=True)

    def coordinates(self, system: System) -> tuple[int, ...]:
        """The indices of the free coordinates among (δ_q, δ_u)."""
        n = system.space.dim
        of_u = chosen(self.u, system.n_independent)
        return (*chosen(self.q, n), *(n + i for i in of_u))

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " 0"]:
        """An empty array: the initial state has bounds, but no condition."""
        return jnp.zeros(0, u.dtype)


class AbstractBoundaryConditions(AbstractConstraint):
    """Conditions that relate the states at both ends, between(first, last) = 0. Only `Collocation` takes them."""

    at_end = None

    @abstractmethod
    def between(self, system: System, first: EndState, last: EndState) -> Float[Array, " r"]:
        """The residual, from the states (q, u) at the first and the last time."""

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " 0"]:
        """An empty array: the condition relates both ends, so that it has no residual at one end alone."""
        return jnp.zeros(0, u.dtype)


class BoundaryConditions(AbstractBoundaryConditions):
    """The condition function(q, u, q_end, u_end) = 0 on the states at the first and the last time.

    **Arguments:** `function`: a callable pytree (q, u, q_end, u_end) → `(r,)` or one number, smooth; `name`: for messages.
    """

    function: Callable[..., Any]
    name: str = eqx.field(static=True, default="boundary conditions")

    def __check_init__(self) -> None:
        check_callable("function", self.function, "(q, u, q_end, u_end) -> (r,)")
        check_name(self.name)

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        name, at = f"the function of `{self.name}`", (q, u, q, u)
        check_rows(name, self.function, *at, arguments="(q, u, q_end, u_end)")
        check_depends(name, self.function, *at)

    def between(self, system: System, first: EndState, last: EndState) -> Float[Array, " r"]:
        """The function's value."""
        return jnp.atleast_1d(self.function(*first, *last))


class Periodic(AbstractBoundaryConditions):
    """The last state is the first one, up to a given displacement:

        q(t_N) = q(t_0) exp(displacement) ,    u(t_N) = u(t_0) .

    A gait moves a body by a displacement of its group while its shape returns.

    **Arguments:**

    - `q`, `u`: the coordinates in which the condition holds: True: all; False: none; or their indices, such as `(0, 2)`. For
      q they are coordinates of log((q(t_0) exp(displacement))⁻¹ q(t_N)).
    - `displacement`: δ, `(n,)`, in the tangent space of the first configuration (on a group, in the axes of the body), or 0.
    - `name`: for messages.

    With `control.FreeInitialState` the initial state is found as well; without it the motion returns to the given one.
    """

    q: Chosen = eqx.field(static=True, default=True)
    u: Chosen = eqx.field(static=True, default=True)
    displacement: Any = parameter(default=0.0)
    name: str = eqx.field(static=True, default="periodic")

    def __check_init__(self) -> None:
        check_name(self.name)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        n, k = system.space.dim, system.n_independent
        check_selection(self.name, "q", self.q, n)
        check_selection(self.name, "u", self.u, k)
        check_some_coordinates(self.name, len(chosen(self.q, n)) + len(chosen(self.u, k)))
        check_displacement(self.name, self.displacement, n)

    def between(self, system: System, first: EndState, last: EndState) -> Float[Array, " r"]:
        """(log((q(t_0) exp δ)⁻¹ q(t_N)), u(t_N) − u(t_0)) in the coordinates in which the condition holds."""
        (q, u), (q_end, u_end) = first, last
        space = system.space
        delta = jnp.broadcast_to(jnp.asarray(self.displacement, u.dtype), (space.dim,))
        off = space.local(space.retract(q, delta), q_end)
        of_q, of_u = chosen(self.q, space.dim), chosen(self.u, u.shape[0])
        return jnp.concatenate([off[np.asarray(of_q, int)], (u_end - u)[np.asarray(of_u, int)]])
