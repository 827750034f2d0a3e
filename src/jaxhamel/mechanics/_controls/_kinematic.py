"""Kinematic systems: the independent quasi-velocities are the control, and the configuration is the whole state."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._checks._hypotheses import check_no_prescribed_motion
from jaxhamel.mechanics._checks._system import check_a_system, check_control_value
from jaxhamel.mechanics._controls._control import at_state
from jaxhamel.mechanics._description._declarations import State, state_of
from jaxhamel.mechanics._description._drawing import Place, Shape
from jaxhamel.mechanics._system import System, dtype_of, has_valid, overrides


class Kinematic(System):
    """A system whose independent quasi-velocities are prescribed by the control:

        q̇ = rate(q, v) ,    v = B(t, q) ((0, control(t)) − a(t, q)) .

    Its state is q alone, and u has shape (0,). Examples are a unicycle, a ball rolled by a plate, a gait, and a satellite at
    zero momentum (`jaxhamel.mechanics.ZeroMomentum`). Masses have no effect, and the system needs no Lagrangian.

    ```python
    unicycle = jaxhamel.Kinematic(jaxhamel.systems.KnifeEdge(mass=1.0, inertia=1.0, slope=0.0))
    jaxhamel.simulate(unicycle, jnp.zeros(3), jnp.zeros(0), ts, control=jnp.array([1.0, 0.5]))
    ```

    **Arguments:**

    - `system`: any system, with n dimensions, m constraints and k = n − m independent quasi-velocities.

    **Control:** a function of t whose values are the independent quasi-velocities of `system`, `(k,)`, in its units; or a
    `jaxhamel.Feedback`, which is called with (t, q, u), u of shape (0,).

    `jaxhamel.constraint_force` gives all n multipliers on the rows of the frame, the last k of which are the forces that
    drive the prescribed velocities; like `energy`, it needs the system's Lagrangian.

    **Raises:** `TypeError` if the argument is not a system.
    """

    system: System

    def __check_init__(self) -> None:
        check_a_system(self.system)

    @property
    def space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The configuration space of the inner system."""
        return self.system.space

    @property
    def n_constraints(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """n, since every quasi-velocity is prescribed."""
        return self.space.dim

    @property
    def n_controls(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """k, the number of independent quasi-velocities of the inner system."""
        return self.system.n_independent

    @property
    def state_names(self) -> State:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The names of the inner system for q, and those of its u for the control; u has no parts."""
        inner = state_of(self.system)
        return State(inner.q, (), inner.u)

    @property
    def on_ground(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the plane z = 0 is drawn for the inner system."""
        return self.system.on_ground

    def driven(self, control: Control) -> "Kinematic":
        """The system with the control built in, so that its constraints are affine; the system itself if the control is
        None.
        """
        return self if control is None else _Driven(self.system, control)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        """The Lagrangian of the inner system."""
        check_no_prescribed_motion(
            self.system,
            "The control of a Kinematic system is its quasi-velocities, so that no control prescribes that motion.",
            "Compute energies and forces of the inner system.",
        )
        return self.system.lagrangian(t, q, v)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " n"]:
        """The force of the inner system without a control."""
        return self.system.force(t, q, v, None)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """The frame A(t, q) of the inner system."""
        return self.system.frame(t, q)

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "n n"] | None:
        """The inverse frame B(t, q) of the inner system; None if it defines none."""
        if not overrides(self.system, "frame"):
            return self.system.frame(t, q)  # the identity
        return self.system.inverse_frame(t, q) if has_valid(self.system, "inverse_frame") else None

    def drift(self, t: Time, q: Configuration) -> Float[Array, " n"]:
        """Raises `TypeError`, since the drift a − (0, control) needs a control, see `driven`."""
        raise TypeError(
            "a Kinematic system has no velocity without its control: pass `control`, the independent quasi-velocities"
        )

    def holonomic(self, t: Time, q: Configuration) -> Float[Array, " h"]:
        """The holonomic constraints g(t, q) of the inner system."""
        return self.system.holonomic(t, q)

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives k finite numbers, the independent quasi-velocities."""
        name = type(self.system).__name__
        meaning = f"the independent quasi-velocities of {name}"
        check_control_value(t, control, (self.system.n_independent,), meaning)

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        """The poses of the inner system's bodies."""
        return self.system.places(t, q, None if self.system.prescribed_motion else control)

    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the inner system's bodies."""
        return self.system.shapes()


class _Driven(Kinematic):
    """A Kinematic system with a control built in, so that its constraints are affine: (0, control(t)) is subtracted from its
    quasi-velocities, all of which then vanish.
    """

    control: Any

    def drift(self, t: Time, q: Configuration) -> Float[Array, " n"]:
        """The drift a(t, q) − (0, control(t)) with a of the inner system."""
        value = at_state(self.control, t, q, jnp.zeros(0, dtype_of(q)))(t)
        none = jnp.zeros(self.system.n_constraints, value.dtype)
        prescribed = jnp.concatenate([none, value])
        own = overrides(self.system, "drift")
        return self.system.drift(t, q) - prescribed if own else -prescribed


def inner(system: System) -> System:
    """The system inside of a Kinematic one; any other system is returned itself."""
    return system.system if isinstance(system, Kinematic) else system


def driven_by(system: System, control: Control) -> System:
    """A Kinematic system with the control built in; any other system is returned itself."""
    return system.driven(control) if isinstance(system, Kinematic) else system
