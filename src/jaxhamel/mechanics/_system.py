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

    A subclass declares its parameters as fields and overrides the methods that differ from their defaults. Derivatives by
    the parameters are possible, and new values of them do not compile anew.

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
    - `n_constraints`: the number m of constraints. The first m rows of the frame are the constraint one-forms,
      u^α = A^α_r v^r + a^α = 0, α < m. The other k = n − m quasi-velocities are the independent ones, u of the state.
    - `prescribed_motion`: whether the control prescribes the motion of some parts. `lagrangian` and `force` of such a
      system receive the control itself, a callable of t, as last argument, because they need its rates.
    - `n_controls`: the number of controls, as a number or a property. None means that a system without a `force` of its own
      has no control, and any other system may have any number of them.
    - `state_names`: names and units of the parts of q, u and the control, for scenarios, tables and figures; None: "q", "u"
      and "control".
    - `on_ground`: whether the plane z = 0 is drawn. If the system has a field `ground`, a callable of x `(2,)` that gives
      a height, this uneven ground is drawn in its place (`geometry.surface_point`).

    Velocities v are left-trivialised: v = q̇ on R^n, and v is the body twist on a group.
    """

    space: ClassVar[AbstractSpace]
    n_constraints: ClassVar[int] = 0
    prescribed_motion: ClassVar[bool] = False
    n_controls: ClassVar[int | None] = None
    state_names: ClassVar[State | None] = None
    on_ground: ClassVar[bool] = False

    @property
    def unit_of_parts(self) -> str:
        """The SI unit of the prescribed motion θ of the parts, for tables and figures; several with ", " between them."""
        return "rad or m"

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        """The Lagrangian L(t, q, v) of the system without constraints [J]; with `prescribed_motion`, L(t, q, v, control)."""
        raise TypeError(
            f"{type(self).__name__} has no Lagrangian: define lagrangian(self, t, q, v), "
            "or lagrangian(self, t, q, v, control) with prescribed_motion = True"
        )

    def frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """The frame A(t, q), a regular matrix whose first m rows are the constraint one-forms; default: the identity."""
        return jnp.eye(self.space.dim, dtype=dtype_of(q))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "n n"] | None:
        """The inverse frame B = A⁻¹ in closed form; None, the default, if A is to be inverted numerically.

        An inherited inverse is used only if no subclass below it overrides `frame`.
        """
        return None

    def drift(self, t: Time, q: Configuration) -> Float[Array, " n"]:
        """The drift a(t, q) in u = A v + a, which makes constraints affine, as the speed of a turntable does;
        default: zero.
        """
        return jnp.zeros(self.space.dim, dtype=dtype_of(q))

    def holonomic(self, t: Time, q: Configuration) -> Float[Array, " h"]:
        """The values g(t, q) that vanish on configurations that satisfy the holonomic constraints (closed loops); default:
        none.

        The differentials of g must be combinations of the constraint one-forms: g adds no constraint, but fixes the
        constants of integration. A trajectory's summary shows the drift from g = 0; `simulate(..., project=True)` removes
        it.
        """
        return jnp.zeros(0, dtype=dtype_of(q))

    def constraints(self, t: Time, q: Configuration) -> Float[Array, "r n"] | None:
        """All r constraint one-forms if some are redundant; None, the default, if they are the frame's first m rows.

        The first m rows of the frame are then independent combinations of them, and `constraint_force` returns the r
        multipliers of least norm.
        """
        return None

    def force(self, t: Time, q: Configuration, v: Velocity, control: Any) -> Float[Array, " n"]:
        """The generalised force Q dual to v ([N], [N m]); `control` is the value of the control at t; default: zero."""
        return jnp.zeros(self.space.dim, dtype=dtype_of(q))

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Any:
        """The system as point masses and rigid bodies, for Gauss' principle; None (the default) if it has no such form.

        The result is an iterable of `Points` and `Spins`. The velocities in them may already satisfy the constraints. Bodies
        describe the same system as Lagrangian, force and constraints: inherited bodies are used only if no subclass below
        them overrides one of these.
        """
        return None

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control
    ) -> dict[str, Array]:
        """The conserved quantities of the exact motion, by name; a trajectory's summary shows their drift. Default: none.

        Inherited invariants are not shown if a subclass below them overrides Lagrangian, force, frame or drift.
        """
        return {}

    def check_configuration(self, q: Configuration) -> None:
        """Raises an error for a configuration of the space that the system cannot have, such as a ball in a valley narrower
        than itself. It is called only before computations, with known numbers. Default: every configuration is possible.
        """

    def check_control(self, t: Time, control: Control) -> None:
        """Raises an error for a control that does not fit the system. It is called only before computations, not in a
        right-hand side. Default: every control fits.
        """

    def initial_state(self) -> tuple[Configuration, Float[Array, " k"]]:
        """The initial state (q, u) of scenarios that give none; default: the identity, at rest."""
        return self.space.identity(jnp.result_type(float)), jnp.zeros(self.n_independent)

    def outputs(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control
    ) -> tuple[Output, ...]:
        """Further quantities for tables and figures, such as forces; `control` is a callable of t. Default: empty."""
        return ()

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        """The pose (quaternion, position) of every body that is drawn; default: one for each factor of q with a rotation."""
        return places_of(self, q)

    def shapes(self) -> tuple[Shape, ...]:
        """The shapes that are drawn at `places`, for concrete parameters; by default the axes of each body."""
        return ()

    def prepared(self) -> "System":
        """The same system for many evaluations with the same parameters: whatever depends on them alone may be computed
        here, once for a whole motion. Default: the system itself.
        """
        return self

    @property
    def n_independent(self) -> int:
        """The number k = n − m of independent quasi-velocities."""
        return self.space.dim - self.n_constraints


# Methods that describe the same as other methods, which are the values of this table: such a method is used only if no
# subclass of the class that defines it overrides one of these others.
STANDS_FOR: dict[str, tuple[str, ...]] = {
    "bodies": ("lagrangian", "force", "frame", "drift", "n_constraints", "space"),
    "inverse_frame": ("frame", "space"),
}
_THE_SYSTEM = ("lagrangian", "force", "frame", "drift", "n_constraints", "space")
# names for which `System` has no valid default
_WITHOUT_DEFAULT = ("lagrangian", "space")


def overrides(system: System, name: str) -> bool:
    """Whether the system's class, or a base class of it below `System`, defines `name`, as a method, by assignment or as a
    field.
    """
    return _provider(type(system), name) is not System


def overridden_below(system: System, name: str) -> tuple[str, ...]:
    """The methods on which the definition of `name` relies and which a subclass below this definition overrides. If there
    are any, `name` is out of date.

    `bodies` relies on Lagrangian, forces and constraints, `inverse_frame` on the frame, and every other method (invariants,
    closed forms, contact forces) on the whole equations of motion. For example, a subclass of `RollingBall` with an
    additional force inherits bodies without that force.
    """
    kind = type(system)
    above = kind.__mro__[kind.__mro__.index(_provider(kind, name)) :]
    return tuple(
        other for other in STANDS_FOR.get(name, _THE_SYSTEM) if _is_replaced(kind, other, above)
    )


def is_ours(system: System) -> bool:
    """Whether the system's class belongs to this package, whose tests examine it."""
    return type(system).__module__.split(".")[0] == __name__.split(".")[0]


def has_valid(system: System, name: str) -> bool:
    """Whether the system defines `name`, and no subclass has since changed the equations on which it relies."""
    return overrides(system, name) and not overridden_below(system, name)


def _is_replaced(kind: type, name: str, above: tuple[type, ...]) -> bool:
    """Whether one of the classes `above` defines `name`, and a class between them and `kind` overrides it."""
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
    """The number of controls of a system; None if its class does not state it, or a subclass has a force of its own."""
    if system.n_controls is None:
        return None if system.prescribed_motion or overrides(system, "force") else 0
    return None if "force" in overridden_below(system, "n_controls") else system.n_controls


def dtype_of(q: Configuration) -> jnp.dtype:
    """The floating dtype of a configuration's arrays."""
    return jnp.result_type(*jax.tree.leaves(q))
