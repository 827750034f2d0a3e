"""What a mechanical system is: a configuration space, a Lagrangian, a frame of quasi-velocities, constraints, forces."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import AbstractSpace


class System(eqx.Module):
    """A mechanical system with configuration space Q, Lagrangian L(t, q, v) and quasi-velocities u = A(t, q) v + a(t, q).

    Subclass it, give the fields that are its parameters (each is a leaf: differentiable, and changing it compiles
    nothing again) and override what is not the default:

    ```python
    class Sleigh(jaxhamel.System):
        mass: jax.Array
        inertia: jax.Array
        offset: jax.Array
        space = jaxhamel.SE2()
        n_constraints = 1

        def lagrangian(self, t, q, v): ...

        def frame(self, t, q): ...
    ```

    **Class attributes:**

    - `space`: the configuration space Q, of dimension n.
    - `n_constraints`: m. The first m rows of the frame are the constraint one-forms, u^α = A^α_r v^r + a^α = 0, α < m.
      The remaining k = n − m quasi-velocities are the independent ones, which the state carries.
    - `prescribed_motion`: whether parts move in a way the control prescribes. `lagrangian` and `force` of such a system
      get the control itself, a callable of t, as last argument, because they need its rates.

    Velocities v are left-trivialised: q̇ on R^n, the body twist on a group.
    """

    space: ClassVar[AbstractSpace]
    n_constraints: ClassVar[int] = 0
    prescribed_motion: ClassVar[bool] = False

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        """L(t, q, v) of the *unconstrained* system [J]; with `prescribed_motion`, L(t, q, v, control)."""
        raise TypeError(
            f"{type(self).__name__} has no Lagrangian: define lagrangian(self, t, q, v), "
            "or lagrangian(self, t, q, v, control) with prescribed_motion = True"
        )

    def frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """A(t, q), regular, with the m constraint one-forms as its first rows; default: the identity."""
        return jnp.eye(self.space.dim, dtype=dtype_of(q))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "n n"] | None:
        """B = A⁻¹ where it is known in closed form; None (the default) solves with A instead."""
        return None

    def drift(self, t: Time, q: Configuration) -> Float[Array, " n"]:
        """a(t, q) in u = A v + a: makes constraints affine (a turntable's speed, say); default: zero."""
        return jnp.zeros(self.space.dim, dtype=dtype_of(q))

    def force(self, t: Time, q: Configuration, v: Velocity, control: Any) -> Float[Array, " n"]:
        """Generalised force Q dual to v ([N], [N m]); `control` is its value at t; default: zero."""
        return jnp.zeros(self.space.dim, dtype=dtype_of(q))

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Any:
        """The system as point masses and rigid bodies, for Gauss' principle; None (the default) where it has no such form.

        Returns an iterable of `Points` and `Spins`. The velocities given there may already use the constraints.
        """
        return None

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control
    ) -> dict[str, Array]:
        """Quantities that the exact motion keeps, by name; a trajectory's summary shows their drift. Default: none."""
        return {}

    def check_control(self, t: Time, control: Control) -> None:
        """Raise a clear error where a control does not fit the system; called at the boundary only. Default: any fits."""

    @property
    def n_independent(self) -> int:
        """k = n − m, the number of independent quasi-velocities."""
        return self.space.dim - self.n_constraints


class Constant(eqx.Module):
    """The control that has one value at all times."""

    value: Any

    def __call__(self, t: Time) -> Any:
        return self.value


def as_control(control: Control) -> Callable | None:
    """A control as a callable of t: callables and None as they are, anything else as a constant function."""
    if control is None or callable(control):
        return control
    return Constant(jax.tree.map(jnp.asarray, control))


def overrides(system: System, name: str) -> bool:
    """Whether the system's class defines `name` itself (the defaults need no arithmetic)."""
    return getattr(type(system), name) is not getattr(System, name)


def dtype_of(q: Configuration) -> jnp.dtype:
    """The floating dtype of a configuration's arrays."""
    return jnp.result_type(*jax.tree.leaves(q))
