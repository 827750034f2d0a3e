"""The mechanical connection of a system on G × R^m, q = (g, r), whose kinetic energy does not depend on g.

    T = ½ (ξ, ṙ)·[[L(r), K(r)], [K(r)ᵀ, S(r)]] (ξ, ṙ) ,    ξ = g⁻¹ġ      (Müller 2023, eq. 5.3–5.4)
    Ω = ξ + A(r) ṙ ,    A = L⁻¹ K                                      (eq. 5.5)

L is the locked inertia. Ω is the locked velocity: with all joints locked, it would give the same momentum
L Ω = L ξ + K ṙ = ∂T/∂ξ. In (Ω, ṙ) the mass matrix is block diagonal (5.14), and the frame [[1, A], [0, 1]] has the Hamel
coefficients

    γ^α_βδ = c^α_βδ ,    γ^α_Jβ = −γ^α_βJ = c^α_βδ A^δ_J ,    γ^α_IJ = B^α_IJ      (eq. 5.6–5.8)

with B = `jaxhamel.geometry.curvature` of the connection. G may be any space of the package, also a product. Unless B = 0,
no frame h(g, r) has the velocity Ω (remark 5.1); the base moves with ξ = Ω − A ṙ.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Velocity
from jaxhamel.geometry import AbstractSpace, Euclidean, Product
from jaxhamel.geometry._connection import ConnectionMatrix, ShapeCoordinates
from jaxhamel.mechanics._checks._symmetric import (
    check_bundle,
    check_motion_given,
    check_same_metric,
)
from jaxhamel.mechanics._checks._system import check_a_system, check_constraint_count, check_state
from jaxhamel.mechanics._description._drawing import Place
from jaxhamel.mechanics._description._drawing import Shape as DrawnShape
from jaxhamel.mechanics._equations._euler_lagrange import mass_matrix
from jaxhamel.mechanics._examination._boundary import check_shapes
from jaxhamel.mechanics._examination._hypotheses import require, steps_around
from jaxhamel.mechanics._kinematics import prepare, velocity_of
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, dtype_of

FibreVelocity = Float[Array, " f"]


class MassBlocks(NamedTuple):
    """The blocks `locked` = L, `coupling` = K and `shape` = S of the mass matrix M = [[L, K], [Kᵀ, S]] of (ξ, ṙ), Müller
    2023, eq. (5.4).
    """

    locked: Float[Array, "f f"]
    coupling: Float[Array, "f m"]
    shape: Float[Array, "m m"]


def mass_blocks(system: System, t: Time, q: Configuration, control: Control = None) -> MassBlocks:
    """The blocks L, K and S of the mass matrix ∂²L/∂v∂v at v = 0, v = (ξ, ṙ).

    **Arguments:** `system`: a system on `Product(G, Euclidean(m))`; `t`: time [s]; `q` = (g, r); `control`: needed only by
    systems with prescribed motion.

    **Returns:** `MassBlocks`: L `(f, f)`, K `(f, m)`, S `(m, m)`, where f is the dimension of G.

    **Raises:** `TypeError` on another space.

    Müller 2023, eq. (5.3)–(5.4); by autodiff from the Lagrangian alone.
    """
    fibre = structure_group(system).dim
    t, q, (), control = prepare(q, t=t, control=control)
    check_shapes(system, t, q, control, ("lagrangian",))
    matrix = mass_matrix(system, t, q, control)
    return MassBlocks(matrix[:fibre, :fibre], matrix[:fibre, fibre:], matrix[fibre:, fibre:])


def locked_inertia(
    system: System, t: Time, q: Configuration, control: Control = None
) -> Float[Array, "f f"]:
    """The locked inertia L(r) of T = ½ ξ·L ξ + …, `(f, f)`: that of the system with its joints locked.

    **Arguments, Raises:** as for `mass_blocks`.
    """
    return mass_blocks(system, t, q, control).locked


class MechanicalConnection(eqx.Module):
    """The mechanical connection A(r) = L(r)⁻¹ K(r), `(f, m)`, as a function of the shape, a pytree with the system's
    parameters.

    The functions of `jaxhamel.geometry` for connections accept it (`curvature`, `reconstruct`, `geometric_phase`, …), with
    `connection.group` as their `space`.
    """

    system: System
    t: Time
    control: Control

    @property
    def group(self) -> AbstractSpace:
        """The group G."""
        return structure_group(self.system)

    def __call__(self, r: ShapeCoordinates) -> ConnectionMatrix:
        return _connection_matrix(self, r)


@compiled
def _connection_matrix(connection: MechanicalConnection, r: ShapeCoordinates) -> ConnectionMatrix:
    q = (connection.group.identity(r.dtype), r)
    blocks = mass_blocks(connection.system, connection.t, q, connection.control)
    return symmetric_solve(blocks.locked, blocks.coupling)


def mechanical_connection(
    system: System, t: Time = 0.0, control: Control = None
) -> MechanicalConnection:
    """The connection A(r) = L(r)⁻¹ K(r) of Ω = ξ + A(r) ṙ.

    **Arguments:**

    - `system`: a system on `Product(G, Euclidean(m))`, with a kinetic energy that is quadratic in v and does not depend on
      g. Its own frame is not used: ξ is the velocity on G. Potentials and forces may depend on g.
    - `t`, `control`: needed if the kinetic energy depends on them.

    **Returns:** a callable r `(m,)` → A `(f, m)`.

    **Raises:** `TypeError` on another space; `ValueError` for a kinetic energy that is not quadratic in v or changes
    with g, at states near g = 1, r = 0.

    Müller 2023, eq. (5.5): Müller's A has the sign of Ω = ξ + A ṙ. At zero momentum ξ = −A ṙ.
    """
    group = structure_group(system)
    connection = MechanicalConnection(system, t, control)
    if not _checks.any_tracer(connection):
        _check_near_identity(system, group, t, control)
    return connection


_ANY_LAGRANGIAN = "Use `jaxhamel.acceleration`, which takes any Lagrangian."


def _check_near_identity(system, group, t, control) -> None:
    leaves = jax.tree.leaves(eqx.filter(system, eqx.is_inexact_array))
    dtype = jnp.result_type(*leaves) if leaves else jnp.result_type(float)
    zero = jnp.zeros(system.space.dim - group.dim, dtype)
    t, q, (), control = prepare((group.identity(zero.dtype), zero), t=t, control=control)
    check_shapes(system, t, q, control, ("lagrangian",))
    v = jnp.zeros(system.space.dim, zero.dtype)
    check_locked(system, t, q, v, control, "mechanical connection")


def check_locked(
    system: System, t: Scalar, q: Configuration, v: Velocity, control: Control, name: str
) -> None:
    """Checks that the kinetic energy near q is quadratic in v and independent of g; `name`: the equations that need it."""
    if _checks.any_tracer((system, t, q, v, control)):
        return
    equations = f"The {name} assumes T = ½ v·M(t, r) v."
    require(system, t, q, v, control, ("quadratic",), equations, _ANY_LAGRANGIAN)
    for here, at_identity in zip(*_masses_on_group(system, t, q, control), strict=True):
        check_same_metric(system, here, at_identity)


@compiled
def _masses_on_group(system, t, q, control):
    """The mass matrix at j elements of the group, that of q first, and at the identity, repeated; both `(j, n, n)`."""
    group = structure_group(system)
    zero = group.identity(dtype_of(q)), q[1]
    here, _ = steps_around(system.space, dtype_of(q))
    mass = jax.vmap(lambda q: mass_matrix(system, t, q, control))
    places = jax.vmap(lambda step: (group.retract(q[0], step[: group.dim]), q[1]))(here)
    at_identity = mass_matrix(system, t, zero, control)
    return mass(places), jnp.broadcast_to(at_identity[None], (here.shape[0], *at_identity.shape))


def locked_velocity(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> FibreVelocity:
    """The locked velocity Ω = ξ + A(r) ṙ, `(f,)`: the velocity of the base that would give the same momentum with all joints
    locked.

    **Arguments:** `system`: as for `mechanical_connection`; `t`: time [s]; `q` = (g, r); `u`: the system's own
    quasi-velocities; `control`: needed only by systems with prescribed motion.

    **Raises:** `TypeError` on another space, `ValueError` for wrong shapes.

    Müller 2023, eq. (5.5). For the satellite, the paper prints it with a minus below (5.22).
    """
    fibre = structure_group(system).dim
    t, q, (u,), control = prepare(q, u, t=t, control=control)
    check_state(system, q, u)
    check_shapes(system, t, q, control)
    v = velocity_of(system, t, q, u)
    return v[:fibre] + mechanical_connection(system, t, control)(q[1]) @ v[fibre:]


class LockedFrame(System):
    """A system with the quasi-velocities (Ω, ṙ), in the frame [[1, A(r)], [0, 1]] of its mechanical connection.

    `acceleration(LockedFrame(system), t, q, (Ω, ṙ))` is (Ω̇, r̈) by the general equations, and equals the closed form of
    `lagrange_poincare`. The `hamel_coefficients` of this frame are (5.6)–(5.8).

    **Arguments:** `base`: a system as for `mechanical_connection`, without constraints; `motion`: for a base with
    `prescribed_motion` the control on which its kinetic energy depends, the same as in the call of `acceleration`. It is
    needed here because a frame receives no control. If `acceleration` gets another control, Ω refers to the positions of the
    masses by `motion`, and the equations still hold.

    **Raises:** `TypeError` on another space, `ValueError` if the base has constraints, or prescribed motion without
    `motion`.

    Müller 2023, eq. (5.11).
    """

    base: System
    motion: Control = None

    def __check_init__(self) -> None:
        structure_group(self.base, "base")
        check_constraint_count(self.base, 0, "The locked velocity needs every direction.")
        check_motion_given(self.base, self.motion)

    @property
    def space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The space G × R^m of the base."""
        return self.base.space

    @property
    def prescribed_motion(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the base has prescribed motion."""
        return self.base.prescribed_motion

    def lagrangian(self, t: Time, q: Configuration, v: Velocity, *control: Control) -> Scalar:
        return self.base.lagrangian(t, q, v, *control)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """The frame [[1, A], [0, 1]] with the mechanical connection A."""
        return self._bordered(self._connection(t, q))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """The inverse frame [[1, −A], [0, 1]] with the mechanical connection A."""
        return self._bordered(-self._connection(t, q))

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Velocity:
        return self.base.force(t, q, v, control)

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control fits the base."""
        self.base.check_control(t, control)

    def _connection(self, t: Time, q: Configuration) -> ConnectionMatrix:
        return mechanical_connection(self.base, t, self.motion)(q[1])

    def _bordered(self, A: ConnectionMatrix) -> Float[Array, "n n"]:
        fibre = A.shape[0]
        return jnp.eye(self.space.dim, dtype=A.dtype).at[:fibre, fibre:].set(A)


class ZeroMomentum(LockedFrame):
    """A free system whose momentum is zero, so that changes of its shape move it in the group by the mechanical connection:

        Ω = ξ + A(r) ṙ = 0 ,    u = ṙ .

    The zero momentum is written as constraints. The state is therefore (q, ṙ), and the control of
    `jaxhamel.Kinematic(ZeroMomentum(system))` is the rate of the shape, ṙ. Examples are gaits, falling cats, and satellites
    turned by their wheels.

    **Arguments**, **Raises:** as for `LockedFrame`.

    Source: Müller 2023, eq. (5.11) with Ω = 0; Montgomery 1990 (the falling cat).
    """

    @property
    def n_constraints(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The dimension of the group."""
        return structure_group(self.base).dim

    @property
    def on_ground(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the plane z = 0 is drawn for the base."""
        return self.base.on_ground

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        """The poses of the base's bodies."""
        return self.base.places(t, q, control)

    def shapes(self) -> tuple[DrawnShape, ...]:
        """The shapes of the base's bodies."""
        return self.base.shapes()


def structure_group(system: System, argument: str = "system") -> AbstractSpace:
    """The group G of a system on `Product(G, Euclidean(m))`.

    **Raises:** `TypeError` on any other space, or if the argument is no system.
    """
    check_a_system(system, argument)
    factors = list(system.space.spaces) if isinstance(system.space, Product) else []
    check_bundle(system, len(factors) == 2 and isinstance(factors[1], Euclidean))
    return factors[0]
