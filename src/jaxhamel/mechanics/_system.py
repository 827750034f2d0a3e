"""The base class of mechanical systems: configuration space, Lagrangian, frame of quasi-velocities, constraints, forces."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._description._declarations import Output, State
from jaxhamel.mechanics._description._drawing import Place, Shape, places_of


class System(eqx.Module):
    """A mechanical system with configuration space Q, Lagrangian L(t, q, v) and quasi-velocities u = A(t, q) v + a(t, q).

    A subclass declares its parameters as fields (each is a leaf: differentiable, and changing its value does not
    recompile) and overrides the methods that differ from their defaults:

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
    - `prescribed_motion`: whether the control prescribes the motion of some parts. `lagrangian` and `force` of such a
      system receive the control itself, a callable of t, as last argument, because they need its rates.
    - `n_controls`: number of controls, as a number or a property; None: 0 for a system without a `force` of its own,
      otherwise any number.
    - `state_names`: names and units of the parts of q and u, for scenarios, tables and figures; None: q and u.
    - `on_ground`: whether the plane z = 0 is drawn.

    Velocities v are left-trivialised: q̇ on R^n, the body twist on a group.
    """

    space: ClassVar[AbstractSpace]
    n_constraints: ClassVar[int] = 0
    prescribed_motion: ClassVar[bool] = False
    n_controls: ClassVar[int | None] = None
    state_names: ClassVar[State | None] = None
    on_ground: ClassVar[bool] = False

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
        """B = A⁻¹ where it is known in closed form; None (the default) solves with A instead.

        An inherited inverse is used only if no subclass below it overrides `frame`.
        """
        return None

    def drift(self, t: Time, q: Configuration) -> Float[Array, " n"]:
        """a(t, q) in u = A v + a: makes constraints affine (a turntable's speed, say); default: zero."""
        return jnp.zeros(self.space.dim, dtype=dtype_of(q))

    def holonomic(self, t: Time, q: Configuration) -> Float[Array, " h"]:
        """g(t, q), zero on configurations that satisfy the holonomic constraints (closed loops); default: none.

        Their differentials must be among the constraint one-forms: g adds no constraint, but fixes the constants of
        integration. A trajectory's summary shows the drift from g = 0; `simulate(..., project=True)` removes it.
        """
        return jnp.zeros(0, dtype=dtype_of(q))

    def constraints(self, t: Time, q: Configuration) -> Float[Array, "r n"] | None:
        """All r constraint one-forms, if some are redundant; None (the default) if they are the frame's first m rows.

        The frame has m independent combinations of them; `constraint_force` then returns the r multipliers of least norm.
        """
        return None

    def force(self, t: Time, q: Configuration, v: Velocity, control: Any) -> Float[Array, " n"]:
        """Generalised force Q dual to v ([N], [N m]); `control` is its value at t; default: zero."""
        return jnp.zeros(self.space.dim, dtype=dtype_of(q))

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Any:
        """The system as point masses and rigid bodies, for Gauss' principle; None (the default) if it has no such form.

        Returns an iterable of `Points` and `Spins`. The velocities given there may already use the constraints. Bodies are
        another form of Lagrangian, force and constraints: inherited bodies are used only if no subclass below them
        overrides one of these.
        """
        return None

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control
    ) -> dict[str, Array]:
        """Conserved quantities of the exact motion, by name; a trajectory's summary shows their drift. Default: none.

        Inherited ones are not shown if a subclass below them overrides Lagrangian, force, frame or drift.
        """
        return {}

    def check_control(self, t: Time, control: Control) -> None:
        """Raises an error for a control that does not fit the system. It is called only before computations, not in a
        right-hand side. Default: every control fits.
        """

    def initial_state(self) -> tuple[Configuration, Float[Array, " k"]]:
        """Default initial state (q, u) of scenarios; default: the identity, at rest."""
        return self.space.identity(jnp.result_type(float)), jnp.zeros(self.n_independent)

    def outputs(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control
    ) -> tuple[Output, ...]:
        """Further quantities for tables and figures, such as forces; `control` is a callable of t. Default: empty."""
        return ()

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        """(quaternion, position) of every body that is drawn; default: one for each factor of q with a rotation."""
        return places_of(self, q)

    def shapes(self) -> tuple[Shape, ...]:
        """The shape to draw at each of `places`, for concrete parameters; default: the axes of each place."""
        return ()

    @property
    def n_independent(self) -> int:
        """k = n − m, the number of independent quasi-velocities."""
        return self.space.dim - self.n_constraints


# Methods that restate other methods (the values of this table): they are used only if no subclass of the class that defines
# them overrides one of these others.
STANDS_FOR: dict[str, tuple[str, ...]] = {
    "bodies": ("lagrangian", "force", "frame", "drift", "n_constraints", "space"),
    "inverse_frame": ("frame", "space"),
}
_THE_SYSTEM = ("lagrangian", "force", "frame", "drift", "n_constraints", "space")
# names that `System` itself does not define: their defaults are placeholders
_WITHOUT_DEFAULT = ("lagrangian", "space")


def overrides(system: System, name: str) -> bool:
    """Whether the system's class, or a base class of it below `System`, defines `name`: as a method, by assignment or as a
    field.
    """
    return _provider(type(system), name) is not System


def overridden_below(system: System, name: str) -> tuple[str, ...]:
    """The methods restated by `name` that a subclass below the definition of `name` overrides, which makes `name` outdated.

    `bodies` restates Lagrangian, forces and constraints, `inverse_frame` the frame, and everything else (invariants,
    closed forms, contact forces) the whole equations of motion. For example, a subclass of `RollingBall` with an additional
    force inherits bodies without that force.
    """
    kind = type(system)
    above = kind.__mro__[kind.__mro__.index(_provider(kind, name)) :]
    return tuple(
        other for other in STANDS_FOR.get(name, _THE_SYSTEM) if _is_replaced(kind, other, above)
    )


def is_ours(system: System) -> bool:
    """Whether the system's class belongs to this package, whose tests examine it."""
    return type(system).__module__.split(".")[0] == __name__.split(".")[0]


def counts(system: System, name: str) -> bool:
    """Whether the system defines `name`, and the definition is up to date."""
    return overrides(system, name) and not overridden_below(system, name)


def _is_replaced(kind: type, name: str, above: tuple[type, ...]) -> bool:
    """Whether one of the classes `above` defines `name`, but a subclass below them overrides it for `kind`."""
    stop = above.index(System) if name in _WITHOUT_DEFAULT else len(above)
    return _provider(kind, name) not in above and any(_defines(c, name) for c in above[:stop])


def _provider(kind: type, name: str) -> type:
    """The class from which `kind` inherits `name`."""
    return next(c for c in kind.__mro__ if _defines(c, name) or c is System)


def _defines(kind: type, name: str) -> bool:
    """Whether a class defines `name` in its body or as a field of its own."""
    own = _fields(kind).get(name)  # these include fields that base classes define
    is_own = own is not None and all(_fields(b).get(name) is not own for b in kind.__mro__[1:])
    return is_own or name in vars(kind)


def _fields(kind: type) -> dict[str, Any]:
    return vars(kind).get("__dataclass_fields__", {})


def controls_of(system: System) -> int | None:
    """Number of controls of this system; None if its class does not state it, or a subclass has a force of its own."""
    if system.n_controls is None:
        return None if system.prescribed_motion or overrides(system, "force") else 0
    return None if "force" in overridden_below(system, "n_controls") else system.n_controls


def dtype_of(q: Configuration) -> jnp.dtype:
    """The floating dtype of a configuration's arrays."""
    return jnp.result_type(*jax.tree.leaves(q))
