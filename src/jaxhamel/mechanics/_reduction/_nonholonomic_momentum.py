"""The nonholonomic connection and the momentum equation of constrained systems with symmetry.

On G × R^m with invariant constraints A_1(r) ξ + A_2(r) ṙ = 0, the directions E of the group that they allow, A_1 E = 0, have
momenta

    p_b = ⟨∂ℓ/∂ξ, E_b(r)⟩ ,    ξ = −A(r) ṙ + E(r) I(r)⁻¹ p ,    I = Eᵀ L E      (connection, locked inertia)
    ṗ_b = ⟨∂ℓ/∂ξ, [ξ, E_b] + ∂E_b/∂r^I ṙ^I⟩ + ⟨F, E_b⟩                          (momentum equation)
    d/dt (∂ℓ/∂ṙ^I − ⟨∂ℓ/∂ξ, A_I⟩) = F_I − ⟨F, A_I⟩ − ⟨∂ℓ/∂ξ, [ξ, A_I] + ∂A_I/∂r^J ṙ^J⟩      (reduced equations)

with F = e(L) + Q along the group, F_I = ∂L/∂r^I + Q_I in shape space, and the connection

    A = [A_1 ; Eᵀ L]⁻¹ [A_2 ; Eᵀ K] .

The momentum and the reduced equations are cases of one equation, for any direction (η(r), y) that the constraints allow:
d/dt ⟨∂L/∂v, (η, y)⟩ = force along (η, y) + ⟨∂ℓ/∂ξ, [ξ, η] + η̇⟩. Without constraints, E = 1 and A = L⁻¹K, and they are the
Lagrange–Poincaré equations. With as many constraints as group directions there is no p, A is the kinematic connection, and
they are the Lagrange–d'Alembert–Poincaré equations. For a right-invariant system ξ = ġg⁻¹, and [ξ, ·] has the opposite sign.

Müller 2023, remark 4.4 (horizontal symmetries); Bloch, Krishnaprasad, Marsden and Murray 1996, theorems 5.4 and 7.1.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Time
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._checks._hypotheses import check_hypotheses, check_reducible
from jaxhamel.mechanics._checks._system import check_state
from jaxhamel.mechanics._examination._boundary import KINEMATIC, check_shapes
from jaxhamel.mechanics._examination._hypotheses import require, steps_around
from jaxhamel.mechanics._kinematics import InverseFrame, covector, lagrangian, prepare
from jaxhamel.mechanics._reduction._lagrange_poincare import force_on
from jaxhamel.mechanics._reduction._mechanical_connection import (
    ConnectionMatrix,
    FibreVelocity,
    ShapeCoordinates,
    structure_group,
)
from jaxhamel.mechanics._small_solve import inverse, symmetric_solve
from jaxhamel.mechanics._system import System, dtype_of, overrides

Momentum = Float[Array, " s"]
Basis = Callable[[ShapeCoordinates], Float[Array, "f s"]]


class NonholonomicConnection(eqx.Module):
    """The functions A(r), E(r) and I(r) of ξ = −A ṙ + E I⁻¹ p, in a pytree with the system's parameters.

    The functions of `jaxhamel.geometry` for connections accept it as a callable r → A `(f, m)`; so does
    `control.gait_motion`, which also uses `momentum_velocity` and `momentum_rate`.

    **Arguments:** see `nonholonomic_connection`; None for `basis` stands for E(r) of the system's frame.
    """

    system: System
    basis: Basis | None
    t: Time
    right: bool = eqx.field(static=True)

    @property
    def group(self) -> AbstractSpace:
        """The group G."""
        return structure_group(self.system)

    def __call__(self, r: ShapeCoordinates) -> ConnectionMatrix:
        return self.connection(r)

    def connection(self, r: ShapeCoordinates) -> ConnectionMatrix:
        """The connection A(r), `(f, m)`."""
        f = self.group.dim
        rows, mass = self.rows(r), self.mass(r)
        momenta = self.directions(r).T @ mass[:f]
        whole = jnp.concatenate([rows, momenta])
        return inverse(whole[:, :f]) @ whole[:, f:]

    def directions(self, r: ShapeCoordinates) -> Float[Array, "f s"]:
        """The group velocities E(r) that the constraints allow with the shape at rest, as columns, `(f, s)`."""
        if self.basis is not None:
            return self.basis(r)
        f, c = self.group.dim, self.system.n_constraints
        q = (self.group.identity(r.dtype), r)
        t = jnp.asarray(self.t, r.dtype)
        return InverseFrame.at(self.system, t, q)(t, q)[:f, c:f]

    def locked_inertia(self, r: ShapeCoordinates) -> Float[Array, "s s"]:
        """The locked inertia I(r) = Eᵀ L E, `(s, s)`."""
        f, E = self.group.dim, self.directions(r)
        return E.T @ self.mass(r)[:f, :f] @ E

    def momentum_velocity(self, r: ShapeCoordinates) -> Float[Array, "f s"]:
        """The group velocities of unit momenta, E I⁻¹, as columns, `(f, s)`."""
        return symmetric_solve(self.locked_inertia(r), self.directions(r).T).T

    def velocity(self, r: ShapeCoordinates, rdot: ShapeCoordinates, p: Momentum) -> FibreVelocity:
        """The group velocity ξ = −A ṙ + E I⁻¹ p, `(f,)`."""
        return self.momentum_velocity(r) @ p - self.connection(r) @ rdot

    def momentum(self, r: ShapeCoordinates, xi: FibreVelocity, rdot: ShapeCoordinates) -> Momentum:
        """The momentum p = Eᵀ (L ξ + K ṙ), `(s,)`."""
        f = self.group.dim
        return self.directions(r).T @ (self.mass(r)[:f] @ jnp.concatenate([xi, rdot]))

    def momentum_rate(self, r: ShapeCoordinates, rdot: ShapeCoordinates, p: Momentum) -> Momentum:
        """The rate ṗ_b = ⟨∂ℓ/∂ξ, [ξ, E_b] + ∂E_b/∂r^I ṙ^I⟩ of the momentum without forces along the group, `(s,)`."""
        xi = self.velocity(r, rdot, p)
        P = self.mass(r)[: self.group.dim] @ jnp.concatenate([xi, rdot])
        return P @ self.transport(self.directions, r, rdot, xi)

    def transport(
        self, columns: Callable, r: ShapeCoordinates, rdot: ShapeCoordinates, xi: FibreVelocity
    ) -> Array:
        """The vectors [ξ, η] + ∂η/∂r^I ṙ^I for each column η(r), with −[ξ, η] for a right-invariant system."""
        value, rate = jax.jvp(columns, (r,), (rdot,))
        bracket = self.group.ad(xi) @ value
        return rate - bracket if self.right else rate + bracket

    def rows(self, r: ShapeCoordinates, g: Configuration | None = None) -> Float[Array, "c n"]:
        """The constraint one-forms [A_1 A_2] on (ξ, ṙ) at the configuration (g, r); g is the identity by default."""
        q = (self.group.identity(r.dtype) if g is None else g, r)
        return self.system.frame(jnp.asarray(self.t, r.dtype), q)[: self.system.n_constraints]

    def mass(self, r: ShapeCoordinates, g: Configuration | None = None) -> Float[Array, "n n"]:
        """The mass matrix [[L, K], [Kᵀ, S]] of (ξ, ṙ) at the configuration (g, r); g is the identity by default."""
        q = (self.group.identity(r.dtype) if g is None else g, r)
        t = jnp.asarray(self.t, r.dtype)
        rest = jnp.zeros(self.system.space.dim, r.dtype)
        return jax.hessian(lambda v: lagrangian(self.system, t, q, v, None))(rest)


def nonholonomic_connection(
    system: System, basis: Basis | None = None, t: Time = 0.0, *, right: bool = False
) -> NonholonomicConnection:
    """The nonholonomic connection ξ = −A(r) ṙ + E(r) I(r)⁻¹ p, which combines the kinematic and the mechanical connection.

    **Arguments:**

    - `system`: a system on `Product(G, Euclidean(m))` with at most dim G constraints, which are homogeneous and invariant
      under G, and with an invariant kinetic energy T = ½ v·M(r) v. Potentials and forces may break the symmetry.
    - `basis`: the function r → E `(f, s)`, whose s = dim G − (number of constraints) columns span the kernel of A_1(r). By
      default E is taken from the system's frame, whose last m rows must then be (0, 1); the rows between these and the
      constraints define the velocities to which p belongs.
    - `t`: time [s], if rows of the frame depend on it.
    - `right`: whether the invariance is under g ↦ g h; then ξ = ġg⁻¹.

    **Returns:** a `NonholonomicConnection`, a callable r → A `(f, m)`.

    **Raises:** `TypeError` on another space; `ValueError` for more constraints than dim G, a drift, prescribed motion, and,
    at states near g = 1, r = 0, for another kinetic energy, constraints that are not invariant or depend on time, a basis
    that violates them, or a frame without ṙ as its last rows.

    Bloch, Krishnaprasad, Marsden and Murray 1996, section 6, with Müller's sign of A.
    """
    group = structure_group(system)
    check_reducible(system, group.dim, overrides(system, "drift"))
    connection = NonholonomicConnection(system, basis, t, right)
    if not _checks.any_tracer((system, t, basis)):
        _check_near_identity(connection)
    return connection


def _check_near_identity(connection: NonholonomicConnection) -> None:
    """Checks the assumptions of the equations, at states near g = 1, r = 0."""
    system, group = connection.system, connection.group
    leaves = jax.tree.leaves(eqx.filter(system, eqx.is_inexact_array))
    dtype = jnp.result_type(*leaves) if leaves else jnp.result_type(float)
    r, v = jnp.zeros(system.space.dim - group.dim, dtype), jnp.zeros(system.space.dim, dtype)
    t, q, (), _ = prepare((group.identity(dtype), r), t=connection.t, control=None)
    check_shapes(system, t, q, only=("lagrangian", *KINEMATIC))
    hypotheses = ("quadratic", "homogeneous", "steady")
    require(system, t, q, v, None, hypotheses, _EQUATIONS, _INSTEAD)
    names = ("metric", "constraints", "scleronomic", "basis" if connection.basis else "shape rows")
    found = zip(names, _examined(connection, t, q), strict=True)
    named = [(name, values, 0.0 * values, size) for name, (values, size) in found]
    check_hypotheses(system, named, _EQUATIONS, _INSTEAD)


_EQUATIONS = "The nonholonomic momentum equation holds for an invariant T = ½ v·M(r) v and invariant constraints."
_INSTEAD = "Set `right` for the other invariance, give a `basis`, or use `jaxhamel.acceleration`, which takes any system."


@compiled
def _examined(connection, t, q):
    """Arrays that must vanish, each with the size of its terms, at several (g, r): the changes of M and of the constraints
    with g, the rate of the constraints, and the violation of the constraints by the basis.
    """
    system, group = connection.system, connection.group
    f, c = group.dim, system.n_constraints

    def at(step):
        eye = jnp.eye(step.size, dtype=step.dtype)
        g, r = group.retract(q[0], step[:f]), q[1] + step[f:]
        to_body = jax.vmap(lambda x: _body_velocity(connection, (g, r), x), 1, 1)(eye)
        mass, rows = connection.mass(r), connection.rows(r)
        here = to_body.T @ connection.mass(r, g) @ to_body
        allowed = InverseFrame.at(system, t, (group.identity(r.dtype), r))(
            t, (group.identity(r.dtype), r)
        )
        violation = connection.rows(r, g) @ to_body @ allowed[:, c:]
        rate = jax.jvp(lambda t: system.frame(t, (g, r))[:c], (t,), (jnp.ones_like(t),))[1]
        E = connection.directions(r)
        of_basis = rows[:, :f] @ E
        if connection.basis is None:
            of_basis = system.frame(t, (g, r))[f:] - eye[f:]
        return (here - mass, mass), (violation, rows), (rate, rows), (of_basis, E)

    return jax.vmap(at)(steps_around(system.space, dtype_of(q))[0])


class MomentumEquations(NamedTuple):
    """The results of the reduced equations: `momentum`, the rate ṗ `(s,)`; `shape`, the acceleration r̈ `(m,)`."""

    momentum: Momentum
    shape: ShapeCoordinates


def nonholonomic_momentum_equations(
    system: System,
    t: Time,
    q: Configuration,
    momentum: Momentum,
    rdot: ShapeCoordinates,
    control: Control = None,
    *,
    basis: Basis | None = None,
    right: bool = False,
) -> MomentumEquations:
    """The rate ṗ and the acceleration r̈ by the reduced equations of a nonholonomic system with symmetry:

        ṗ_b = ⟨∂ℓ/∂ξ, [ξ, E_b] + Ė_b⟩ + ⟨F, E_b⟩
        d/dt (∂ℓ/∂ṙ^I − ⟨∂ℓ/∂ξ, A_I⟩) = F_I − ⟨F, A_I⟩ − ⟨∂ℓ/∂ξ, [ξ, A_I] + Ȧ_I⟩ .

    **Arguments:** `system`, `basis`, `right`: as for `nonholonomic_connection`; `t`, `q` = (g, r); `momentum`: p `(s,)`;
    `rdot`: ṙ `(m,)`; `control`: a callable of t, or a constant.

    **Returns:** ṗ `(s,)` and r̈ `(m,)`, which do not depend on g unless the forces do. g follows from ġ = g ξ with
    ξ = `nonholonomic_connection(system).velocity(r, rdot, p)`.

    **Raises:** as `nonholonomic_connection`, and `ValueError` for wrong shapes.

    Bloch, Krishnaprasad, Marsden and Murray 1996, theorem 5.4 (ṗ) and 7.1 (r̈).
    """
    connection = nonholonomic_connection(system, basis, t, right=right)
    t, q, (momentum, rdot), control = prepare(
        q, momentum, rdot, t=t, control=control, names=("momentum", "rdot")
    )
    count = connection.group.dim - system.n_constraints
    check_state(system, q, jnp.concatenate([momentum, rdot]))
    _checks.check_shape("momentum", momentum, (count,), "One entry for each column of E.")
    check_shapes(system, t, q, control)
    return _reduced(connection, t, q, momentum, rdot, control)


@compiled
def _reduced(connection, t, q, p, rdot, control) -> MomentumEquations:
    r, f, mass = q[1], connection.group.dim, connection.mass
    xi = connection.velocity(r, rdot, p)
    force = _forces(connection, t, q, jnp.concatenate([xi, rdot]), control)
    P = mass(r)[:f] @ jnp.concatenate([xi, rdot])
    E_rate = connection.transport(connection.directions, r, rdot, xi)
    p_dot = P @ E_rate + force[:f] @ connection.directions(r)

    def horizontal_momentum(r, rdot, p):
        """The momenta ∂ℓ/∂ṙ^I − ⟨∂ℓ/∂ξ, A_I⟩."""
        whole = mass(r) @ jnp.concatenate([connection.velocity(r, rdot, p), rdot])
        return whole[f:] - whole[:f] @ connection.connection(r)

    _, bias = jax.jvp(horizontal_momentum, (r, rdot, p), (rdot, jnp.zeros_like(rdot), p_dot))
    inertia = jax.jacfwd(horizontal_momentum, argnums=1)(r, rdot, p)
    A_rate = connection.transport(connection.connection, r, rdot, xi)
    along = force[f:] - force[:f] @ connection.connection(r) - P @ A_rate
    return MomentumEquations(p_dot, symmetric_solve(inertia, along - bias))


def _body_velocity(connection, q, v):
    """The velocity (g⁻¹ġ, ṙ) that belongs to v = (ξ, ṙ)."""
    if not connection.right:
        return v
    group = connection.group
    xi = group.Ad(group.inverse(q[0])) @ v[: group.dim]
    return jnp.concatenate([xi, v[group.dim :]])


def _forces(connection, t, q, x, control):
    """The forces (F, F_I) of the reduced equations, e(L) + Q, dual to x = (ξ, ṙ).

    L is differentiated at fixed x; along the group the directions e are those of the connection's ξ.
    """
    system, group = connection.system, connection.group

    def of_place(q):
        return lagrangian(system, t, q, _body_velocity(connection, q, x), control)

    force = covector(system, q, jax.grad(of_place)(q))
    force = force + force_on(system, t, q, _body_velocity(connection, q, x), control)
    if not connection.right:
        return force
    to_body = group.Ad(group.inverse(q[0]))
    return jnp.concatenate([force[: group.dim] @ to_body, force[group.dim :]])
