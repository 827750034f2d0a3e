"""The Lagrange–Poincaré equations: Hamel's equations on G × R^m, q = (g, r), in the locked velocity Ω and ṙ.

    d/dt ∂ℓ/∂Ω^α + ∂ℓ/∂Ω^β (γ^β_αI ṙ^I + γ^β_αλ Ω^λ) = e_α(ℓ) + Q_α          (Müller 2023, eq. 5.12)
    d/dt ∂ℓ/∂ṙ^I − E_I(ℓ) + ∂ℓ/∂Ω^β (B^β_IJ ṙ^J + γ^β_Iα Ω^α) = Q_I − A^α_I Q_α      (eq. 5.13)

    γ^β_αλ = c^β_αλ ,   γ^β_Iα = −γ^β_αI = c^β_αδ A^δ_I ,   γ^β_IJ = B^β_IJ      (eq. 5.6–5.8)

with ℓ(t, g, r, Ω, ṙ) = L(t, (g, r), (Ω − A ṙ, ṙ)), A = L⁻¹K the mechanical connection, B its curvature,
E_I = ∂/∂r^I − A^α_I e_α, and Q the forces dual to (ξ, ṙ). For an unbroken symmetry, e_α(ℓ) = 0, they are (1.1)–(1.2).

T must be quadratic in v, with coefficients that do not depend on g. A potential and forces may break the symmetry, and L may
have terms linear in v. The mass matrix is block diagonal (5.14):

    Ω̇ = L⁻¹ (…) ,   r̈ = (S − AᵀLA)⁻¹ (…) .

At zero momentum the equations reduce to (6.3) in shape space; with a kinematic connection in place of the mechanical one
they become (4.9).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import curvature
from jaxhamel.mechanics._checks._system import check_constraint_count, check_state
from jaxhamel.mechanics._equations._euler_lagrange import mass_matrix
from jaxhamel.mechanics._examination._boundary import check_shapes
from jaxhamel.mechanics._kinematics import (
    applied_force,
    covector,
    derivatives,
    lagrangian,
    prepare,
)
from jaxhamel.mechanics._reduction._mechanical_connection import (
    ConnectionMatrix,
    FibreVelocity,
    ShapeCoordinates,
    check_locked,
    mechanical_connection,
    structure_group,
)
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, overrides


def lagrange_poincare(
    system: System, t: Time, q: Configuration, u: Velocity, control: Control = None
) -> Velocity:
    """The accelerations (Ω̇, r̈) from the Lagrange–Poincaré equations

        d/dt ∂ℓ/∂Ω^α = e_α(ℓ) + Q_α − ∂ℓ/∂Ω^β (c^β_αλ Ω^λ − E^β_αI ṙ^I) ,    E^β_αI = c^β_αδ A^δ_I
        d/dt ∂ℓ/∂ṙ^I = E_I(ℓ) + Q_I − A^α_I Q_α − ∂ℓ/∂Ω^β (B^β_IJ ṙ^J + E^β_αI Ω^α) ,    E_I = ∂/∂r^I − A^α_I e_α .

    **Arguments:**

    - `system`: a system on `Product(G, Euclidean(m))` without constraints, with T quadratic in v and with coefficients that
      do not depend on g. Its own frame and drift are not used.
    - `t`: time [s]; `q` = (g, r); `u` = (Ω, ṙ) `(f + m,)`, the locked velocity first.
    - `control`: a callable of t, or a constant.

    **Returns:** (Ω̇, r̈) `(f + m,)`, equal to `acceleration(LockedFrame(system), t, q, u, control)`.

    **Raises:** `TypeError` on another space; `ValueError` with constraints, wrong shapes, or a kinetic energy that is not
    quadratic in v or changes with g.

    Müller 2023, eq. (1.1)–(1.2) and (5.12)–(5.13), with the sign B = γ of (5.8) (remark 5.3).
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control)
    _check_arguments(system, t, q, u, control)
    return _accelerate(system, t, q, u, control)


@compiled
def _accelerate(system, t, q, u, control):
    return _solve(_terms(system, t, q, u, control))


class LagrangePoincareTerms(NamedTuple):
    """The terms of the equations L Ω̇ = `fibre_force` and (S − AᵀLA) r̈ = `shape_force`, Müller 2023, eq. (5.14), with
    L = `locked_inertia` and S − AᵀLA = `shape_inertia`.
    """

    locked_inertia: Float[Array, "f f"]
    shape_inertia: Float[Array, "m m"]
    fibre_force: Float[Array, " f"]
    shape_force: Float[Array, " m"]


def lagrange_poincare_terms(
    system: System, t: Time, q: Configuration, u: Velocity, control: Control = None
) -> LagrangePoincareTerms:
    """The blocks L and S − AᵀLA of the mass matrix, and the right-hand sides of the Lagrange–Poincaré equations.

    **Arguments, Raises:** as for `lagrange_poincare`.
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control)
    _check_arguments(system, t, q, u, control)
    return _terms_compiled(system, t, q, u, control)


@compiled
def _terms_compiled(system, t, q, u, control) -> LagrangePoincareTerms:
    return _terms(system, t, q, u, control)


def _terms(system, t, q, u, control) -> LagrangePoincareTerms:
    group = structure_group(system)
    f = group.dim
    connection = linear_model(lambda t, r: mechanical_connection(system, t, control)(r), t, q[1])

    def velocity(t, q, u):
        return jnp.concatenate([u[:f] - connection(t, q[1]) @ u[f:], u[f:]])

    def reduced(t, q, u):
        """The Lagrangian ℓ(t, q, Ω, ṙ)."""
        return lagrangian(system, t, q, velocity(t, q, u), control)

    gradients = jax.grad(reduced, argnums=(2, 1))
    v = velocity(t, q, u)
    basis = jnp.eye(u.shape[0], dtype=u.dtype)
    (p, gradient), (bias, _), (inertia, _) = derivatives(system, gradients, t, q, v, u, basis)
    force = covector(system, q, gradient) + force_on(system, t, q, v, control)
    A = connection(t, q[1])
    fibre_turning, shape_turning = _gyroscopic_terms(
        group, connection, t, q[1], p[:f], u[:f], u[f:]
    )
    return LagrangePoincareTerms(
        locked_inertia=inertia[:f, :f],
        shape_inertia=inertia[f:, f:],
        fibre_force=force[:f] - fibre_turning - bias[:f],
        shape_force=force[f:] - force[:f] @ A - shape_turning - bias[f:],
    )


def _gyroscopic_terms(group, connection, t, r, Pi, Omega, rdot):
    """The terms Π_β (γ^β_αI ṙ^I + γ^β_αλ Ω^λ), `(f,)`, and Π_β (B^β_IJ ṙ^J + γ^β_Iα Ω^α + ∂A^β_I/∂t), `(m,)`."""
    A, in_time = jax.jvp(lambda t: connection(t, r), (t,), (jnp.ones_like(t),))
    c = group.structure_constants(A.dtype)
    B = curvature(lambda r: connection(t, r), r, group)
    E = jnp.einsum("bad,di->bai", c, A)
    fibre = jnp.einsum("b,bal,l->a", Pi, c, Omega) - jnp.einsum("b,bai,i->a", Pi, E, rdot)
    shape = jnp.einsum("b,bij,j->i", Pi, B, rdot) + jnp.einsum("b,bai,a->i", Pi, E, Omega)
    return fibre, shape + Pi @ in_time


def _solve(terms: LagrangePoincareTerms) -> Velocity:
    Omega_dot = symmetric_solve(terms.locked_inertia, terms.fibre_force)
    return jnp.concatenate([Omega_dot, symmetric_solve(terms.shape_inertia, terms.shape_force)])


def lagrange_routh(
    system: System,
    t: Time,
    q: Configuration,
    rdot: ShapeCoordinates,
    momentum: FibreVelocity | None = None,
    control: Control = None,
) -> ShapeCoordinates:
    """The accelerations r̈ for a conserved momentum μ, from (5.13) with Ω = L⁻¹ (Ad_gᵀ μ − ∂L/∂ξ|_{v=0}):

        d/dt ∂ℓ/∂ṙ^I − E_I(ℓ) + Π_β (B^β_IJ ṙ^J + E^β_αI Ω^α) = Q_I − A^α_I Q_α ,    Π = Ad_gᵀ μ

    At μ = 0 the equations contain only the shape, (S − AᵀLA) r̈ + … = Q (eq. 6.3). Otherwise they depend on g by Π, and g
    follows from ġ = g (Ω − A ṙ) (eq. 6.5, `reconstruct_with_momentum`).

    **Arguments:** as for `lagrange_poincare`, and

    - `rdot`: ṙ `(m,)`.
    - `momentum`: the momentum μ of the whole system in space, dual to ġg⁻¹, `(f,)`; None for zero.

    **Returns:** r̈ `(m,)`.

    Müller 2023, section 6(c), says that (6.3) holds with a momentum as well: it lacks γ^β_Iα Ω^α and the derivative of
    ½ Ω·L(r) Ω, see docs/ERRATA.md. Marsden, Ratiu and Scheurle (2000) call these the Lagrange–Routh equations.
    """
    group = structure_group(system)
    momentum = jnp.zeros(group.dim) if momentum is None else momentum
    t, q, (rdot, momentum), control = prepare(
        q, rdot, momentum, t=t, control=control, names=("rdot", "momentum")
    )
    _checks.check_shape(
        "momentum", momentum, (group.dim,), "One entry for each direction of the group."
    )
    _check_arguments(system, t, q, jnp.concatenate([momentum, rdot]), control)
    return _reduced(system, t, q, rdot, momentum, control)


@compiled
def _reduced(system, t, q, rdot, momentum, control):
    Omega = velocity_of_momentum(system, t, q, momentum, control)
    terms = _terms(system, t, q, jnp.concatenate([Omega, rdot]), control)
    return symmetric_solve(terms.shape_inertia, terms.shape_force)


def velocity_of_momentum(
    system: System, t: Scalar, q: Configuration, momentum: FibreVelocity, control: Control
) -> FibreVelocity:
    """The locked velocity Ω = L⁻¹ (Ad_gᵀ μ − ∂L/∂ξ|_{v=0}) of the momentum μ; the arguments are not checked."""
    group = structure_group(system)
    f, at_rest = group.dim, jnp.zeros(system.space.dim, momentum.dtype)
    gradient = jax.grad(lambda v: lagrangian(system, t, q, v, control))(at_rest)
    body = group.Ad(q[0]).T @ momentum - gradient[:f]
    return symmetric_solve(mass_matrix(system, t, q, control)[:f, :f], body)


def linear_model(
    connection: Callable[[Scalar, ShapeCoordinates], ConnectionMatrix],
    t: Scalar,
    r: ShapeCoordinates,
) -> Callable[[Scalar, ShapeCoordinates], ConnectionMatrix]:
    """The linear function of (t, r) that has the value and the first derivatives of a connection A at one (t, r).

    The equations of motion need no further derivatives, and repeated differentiation of A = L⁻¹K is costly.
    """
    value = connection(t, r)
    by_t, by_r = jax.jacfwd(connection, argnums=(0, 1))(t, r)

    def model(t_near: Scalar, r_near: ShapeCoordinates) -> ConnectionMatrix:
        return value + by_t * (t_near - t) + by_r @ (r_near - r)

    return model


def force_on(
    system: System, t: Scalar, q: Configuration, v: Velocity, control: Control
) -> Float[Array, " n"]:
    """The force Q dual to v; zero if the system defines no force."""
    if not overrides(system, "force"):
        return jnp.zeros_like(v)
    return applied_force(system, t, q, v, control)


def _check_arguments(system, t, q, u, control) -> None:
    structure_group(system)
    check_constraint_count(system, 0, "Constrained: `lagrange_dalembert_poincare`.")
    check_state(system, q, u)
    check_shapes(system, t, q, control)
    check_locked(system, t, q, u, control, "block-diagonal form of the Lagrange–Poincaré equations")
