"""Systems with moving parts whose control is the parts' acceleration: position and rate of the parts belong to the state."""

import re
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._checks import check_arrays, check_finite, check_shape, check_velocity
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Velocity
from jaxhamel.geometry import AbstractSpace, Euclidean, Product
from jaxhamel.mechanics._checks._feedback import check_moving_parts
from jaxhamel.mechanics._checks._system import check_a_system, check_control_value, check_state
from jaxhamel.mechanics._controls._control import as_control, at_state
from jaxhamel.mechanics._controls._kinematic import Kinematic
from jaxhamel.mechanics._description._declarations import Output, Part, State, state_of
from jaxhamel.mechanics._description._drawing import Place, Shape
from jaxhamel.mechanics._system import System, has_valid, overrides


class Parabola(eqx.Module):
    """The motion θ(t) = θ_0 + θ̇_0 (t − t_0) + ½ θ̈_0 (t − t_0)², with given value and rates at the time t_0."""

    time: Scalar
    value: Float[Array, " p"]
    rate: Float[Array, " p"]
    acceleration: Float[Array, " p"]

    def __call__(self, t: Time) -> Float[Array, " p"]:
        """The value θ(t)."""
        since = t - self.time
        return self.value + since * (self.rate + 0.5 * since * self.acceleration)


class MovingParts(System):
    """A system with prescribed internal motion θ, whose control is the acceleration of θ:

        θ̈ = control(t) ,    u̇ = acceleration(system, t, q, u, θ) .

    θ and θ̇ become part of the state, so that the control can depend on them (`jaxhamel.Feedback`). This class works for
    every system with `prescribed_motion`: a ball with masses on rails, a disk with internal masses, a user's own system.

    ```python
    driven = jaxhamel.MovingParts(ball)
    q0, u0 = driven.state(q, Omega, theta, theta_dot)
    jaxhamel.simulate(driven, q0, u0, ts, jaxhamel.Feedback(controller))
    ```

    **Arguments:**

    - `system`: a system with `prescribed_motion`.
    - `n_parts`: p, the number of entries of θ; None if the system defines it (`n_controls`).

    **State:** q of the system with θ `(p,)` as its last factor, and u of the system followed by θ̇ `(p,)`. `state` makes it
    from q, u, θ and θ̇; `inside` gives back q, u and θ, with which the methods of the system are called (contact forces,
    outputs).

    **Control:** a function of t with the values θ̈ `(p,)`, or a `Feedback` (t, q, u) → θ̈ of this state.

    The Lagrangian is that of the system as a function of θ and θ̇, so that `energy` includes the energy of the parts, which
    the motors change. Forces of the system act on its own velocities only, not on θ̇.

    **Raises:** `TypeError` for a system without prescribed motion.
    """

    system: System
    n_parts: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_a_system(self.system)
        check_moving_parts(self.system, self.n_parts)

    @property
    def space(self) -> Product:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The space Q × R^p of (q, θ)."""
        own = self.system.space
        factors: tuple[AbstractSpace, ...] = own.spaces if isinstance(own, Product) else (own,)
        return Product(*factors, Euclidean(self.n_controls))

    @property
    def n_constraints(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of constraints of the inner system."""
        return self.system.n_constraints

    @property
    def n_controls(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """p, the number of entries of θ."""
        if self.n_parts is not None:
            return self.n_parts
        return int(self.system.n_controls or 0)

    @property
    def state_names(self) -> State:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The parts of the inner system's state, θ and θ̇, and of the control θ̈."""
        own, unit = state_of(self.system), self.system.unit_of_parts
        place = Part("parts", "theta", unit, "prescribed motion of the parts")
        rate = Part("part_rates", "theta_dot", _per(unit, "s"), "of the parts")
        second = Part("accelerations", "theta_ddot", _per(unit, "s²"), "of the parts")
        return State((*own.q, place), (*own.u, rate), (second,))

    @property
    def on_ground(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the plane z = 0 is drawn for the inner system."""
        return self.system.on_ground

    # --- conversion between this state and that of the inner system -------------------------------

    def state(
        self, q: Configuration, u: QuasiVelocity, theta: Array, theta_dot: Array
    ) -> tuple[Configuration, QuasiVelocity]:
        """The state (q, u) of this system, from q and u of the inner system, θ and θ̇.

        **Raises:** `ValueError` or `TypeError` for a state, θ or θ̇ of wrong shape.
        """
        u, theta, theta_dot = self._given(q, u, theta, theta_dot)
        parts = q if isinstance(self.system.space, Product) else (q,)
        return (*parts, theta), jnp.concatenate([u, theta_dot])

    def _given(self, q, u, theta, theta_dot) -> tuple[Array, Array, Array]:
        """The arrays u, θ and θ̇, after a check of their shapes and of q."""
        parts = {"theta": theta, "theta_dot": theta_dot}
        check_arrays(q=q, u=u, **parts)
        check_velocity("u", u)
        u = jnp.asarray(u)
        check_state(self.system, q, u)
        for name, value in parts.items():
            check_shape(name, value, (self.n_controls,), "One entry for each part.")
            check_finite(name, value)
        return u, jnp.asarray(theta), jnp.asarray(theta_dot)

    def inside(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
    ) -> tuple[Configuration, QuasiVelocity, Parabola]:
        """q and u of the inner system, and a function of time for the motion of its parts, which has θ, θ̇ and θ̈ of this
        state at the time t.

        `control`: the function of t, `Feedback` or constant that gives θ̈; None for θ̈ = 0.
        """
        k = self.system.n_independent
        value = _second_rates(control, t, q, u)
        second = jnp.zeros_like(q[-1]) if value is None else value
        return self._own(q), u[:k], Parabola(jnp.asarray(t, u.dtype), q[-1], u[k:], second)

    def _own(self, q: Configuration) -> Configuration:
        """The configuration of the inner system."""
        return q[:-1] if isinstance(self.system.space, Product) else q[0]

    def _motion_of_parts(self, t: Time, q: Configuration, rate: Array) -> Parabola:
        """The motion of the parts with θ of q, the given θ̇ at the time t, and θ̈ = 0."""
        return Parabola(jnp.asarray(t, rate.dtype), q[-1], rate, jnp.zeros_like(rate))

    # --- the methods for the general equations of motion -----------------------------------

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        """The Lagrangian L(t, q, v, θ) of the inner system, with θ and θ̇ from the state."""
        n = self.system.space.dim
        motion = self._motion_of_parts(t, q, v[n:])
        return self.system.lagrangian(t, self._own(q), v[:n], motion)  # pyright: ignore[reportCallIssue]

    def frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """The frame [[A, 0], [0, 1]] with A of the inner system."""
        return self._bordered(self.system.frame(t, self._own(q)))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "n n"] | None:
        """The inverse frame [[B, 0], [0, 1]] with B of the inner system; None if that defines none."""
        if not overrides(self.system, "frame"):
            return self.frame(t, q)
        known = has_valid(self.system, "inverse_frame")
        own = self.system.inverse_frame(t, self._own(q)) if known else None
        return None if own is None else self._bordered(own)

    def drift(self, t: Time, q: Configuration) -> Float[Array, " n"]:
        """The drift (a, 0) with a of the inner system."""
        return self._padded(self.system.drift(t, self._own(q)))

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " n"]:
        """The force (Q, 0) with Q of the inner system, without the forces of the motors, which follow from θ̈."""
        n = self.system.space.dim
        motion = self._motion_of_parts(t, q, v[n:])
        return self._padded(self.system.force(t, self._own(q), v[:n], motion))

    def holonomic(self, t: Time, q: Configuration) -> Float[Array, " h"]:
        """The holonomic constraints g(t, q) of the inner system."""
        return self.system.holonomic(t, self._own(q))

    def constraints(self, t: Time, q: Configuration) -> Float[Array, "r n"] | None:
        """The constraint one-forms of the inner system, with zeros for θ̇; None if it lists none."""
        rows = self.system.constraints(t, self._own(q))
        return None if rows is None else jnp.pad(rows, ((0, 0), (0, self.n_controls)))

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives p finite numbers, θ̈."""
        name = type(self.system).__name__
        check_control_value(
            t, control, (self.n_controls,), f"the accelerations of the moving parts of {name}"
        )

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        """The outputs of the inner system."""
        q, u, motion = self.inside(t, q, u, control)
        return self.system.outputs(t, q, u, motion)

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        """The poses of the inner system's bodies."""
        return self.system.places(
            t, self._own(q), self._motion_of_parts(t, q, jnp.zeros_like(q[-1]))
        )

    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the inner system's bodies."""
        return self.system.shapes()

    def _bordered(self, own: Float[Array, "n n"]) -> Float[Array, "n n"]:
        p, unit = self.n_controls, jnp.eye(self.n_controls, dtype=own.dtype)
        right = jnp.zeros((own.shape[0], p), own.dtype)
        return jnp.block([[own, right], [right.T, unit]])

    def _padded(self, own: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.concatenate([own, jnp.zeros(self.n_controls, own.dtype)])


def _second_rates(control: Control, t: Time, q: Configuration, u: QuasiVelocity) -> Any:
    """The value θ̈ of a control at one state; None without a control."""
    found = at_state(as_control(control), t, q, u)
    return None if found is None else found(t)


def has_loops(system: System) -> bool:
    """Whether the system or its inner system defines holonomic constraints."""
    return overrides(innermost(system), "holonomic")


def innermost(system: System) -> System:
    """The system inside `MovingParts` and `Kinematic`, otherwise the system itself."""
    while isinstance(system, Kinematic | MovingParts):
        system = system.system
    return system


def _per(unit: str, time: str) -> str:
    """The units divided by a unit of time: "rad or m" becomes "rad/s or m/s"."""
    return re.sub(r"\b(?!or\b)[^\s,]+", rf"\g<0>/{time}", unit)
