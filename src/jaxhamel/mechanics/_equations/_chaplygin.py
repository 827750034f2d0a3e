"""Chaplygin's and Voronets' equations: coordinates q = (s, r), constraints ṡ = −F̄(q) ṙ, state (q, ṙ).

    u^α = ṡ^α + F̄^α_I ṙ^I ,     F̄ = A_1⁻¹ A_2 ,     q̇ = F ṙ ,   F = [−F̄ ; 1]      (Müller 2021, eq. 30–32)
    γ^α_IJ = ∂F̄^α_I/∂r^J − ∂F̄^α_J/∂r^I + ∂F̄^α_J/∂s^β F̄^β_I − ∂F̄^α_I/∂s^β F̄^β_J      (eq. 33)

These are three forms of the same equations. Each is computed as a residual that is affine in r̈, and solved for r̈:

    Hamel–Chaplygin (34)   d/dt ∂ℒ/∂ṙ^I − ∂ℒ/∂r^I + F̄^α_I ∂ℒ/∂s^α + ∂ℒ/∂u^α (γ^α_IJ ṙ^J + ∂F̄^α_I/∂t) = F^a_I Q_a
    Chaplygin (35)         d/dt ∂L_c/∂ṙ^I − ∂L_c/∂r^I + F̄^α_I ∂L_c/∂s^α = −∂L/∂ṡ^α (γ^α_IJ ṙ^J + ∂F̄^α_I/∂t) + F^a_I Q_a
    Voronets (36)          d/dt ∂L/∂ṙ^I − ∂L/∂r^I − F̄^α_I (d/dt ∂L/∂ṡ^α − ∂L/∂s^α) = F^a_I Q_a

with ℒ(s, r, u^α, ṙ) = L(q, u^α − F̄ṙ, ṙ) and L_c = ℒ at u^α = 0. Eq. (34) as printed lacks F̄ ∂ℒ/∂s, and is right only if
ℒ does not depend on s; (35) has this term. F̄ may depend on time, which adds the terms with ∂F̄/∂t.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Scalar, Time
from jaxhamel.geometry import Euclidean, bundle_curvature
from jaxhamel.geometry._checks import check_frame_matrix
from jaxhamel.mechanics._checks._system import check_state
from jaxhamel.mechanics._examination._boundary import KINEMATIC, check_shapes
from jaxhamel.mechanics._kinematics import applied_force, lagrangian, prepare
from jaxhamel.mechanics._small_solve import inverse, symmetric_solve
from jaxhamel.mechanics._system import System, overrides

ShapeRate = Float[Array, " k"]
ShapeAcceleration = Float[Array, " k"]


def kinematic_coefficients(system: System, t: Time, q: Configuration) -> Float[Array, "m k"]:
    """The matrix F̄ = A_1⁻¹ A_2 of the constraint rows [A_1 A_2], with which ṡ = −F̄ ṙ.

    **Arguments:** `system`: a system on R^n, whose first m coordinates are s; `t`: time [s]; `q`: configuration `(n,)`.
    **Returns:** F̄ `(m, k)`.

    **Raises:** `TypeError` on another space.

    Müller 2021, eq. (30): the coefficients of the kinematic (Ehresmann) connection; (3.8) of Müller 2023 calls them A.
    """
    return _coefficients(system, *_prepared(system, t, q))


def _coefficients(system, t, q):
    m = system.n_constraints
    rows = system.frame(t, q)[:m]
    return inverse(rows[:, :m]) @ rows[:, m:]


def kinematic_curvature(system: System, t: Time, q: Configuration) -> Float[Array, "m k k"]:
    """The curvature γ^α_IJ of the constraints, eq. (33) of Müller 2021.

    **Returns:** `(m, k, k)`, index order `[α, I, J]`. For arguments and errors see `kinematic_coefficients`.
    """
    return _curvature(system, *_prepared(system, t, q))


def _curvature(system, t, q):
    m = system.n_constraints

    def connection(s, r):
        return _coefficients(system, t, jnp.concatenate([s, r]))

    return bundle_curvature(connection, q[:m], q[m:])


def hamel_chaplygin(
    system: System, t: Time, q: Configuration, rdot: ShapeRate, control: Control = None
) -> ShapeAcceleration:
    """The accelerations r̈ from the Hamel–Chaplygin equations, in which u^α is set to zero after differentiation:

        d/dt ∂ℒ/∂ṙ^I − ∂ℒ/∂r^I + F̄^α_I ∂ℒ/∂s^α + ∂ℒ/∂u^α (γ^α_IJ ṙ^J + ∂F̄^α_I/∂t) = F^a_I Q_a .

    **Arguments:**

    - `system`: a system on `Euclidean(n)` with q = (s, r), where s has m coordinates. Its constraint rows [A_1 A_2] have a
      regular A_1, and it has no drift. The other rows of its frame are not used: the independent velocities are ṙ.
    - `t`: time [s]; `q`: configuration `(n,)`; `rdot`: ṙ `(k,)`; `control`: a callable of t, or a constant.

    **Returns:** r̈ `(k,)`. If the last rows of the frame are (0, 1), it equals `jaxhamel.acceleration`.

    **Raises:** `TypeError` on another space, `ValueError` with a drift, wrong shapes or a singular A_1.

    Müller 2021, eq. (34), with the term F̄ ∂ℒ/∂s, which follows from (14) and is missing in (34); Müller 2023, eq. (3.12).
    """
    return _solved(_hamel_chaplygin, system, t, q, rdot, control)


def chaplygin(
    system: System, t: Time, q: Configuration, rdot: ShapeRate, control: Control = None
) -> ShapeAcceleration:
    """The accelerations r̈ from Chaplygin's equations, with the constrained Lagrangian L_c(q, ṙ) = L(q, −F̄ṙ, ṙ):

        d/dt ∂L_c/∂ṙ^I − ∂L_c/∂r^I + F̄^α_I ∂L_c/∂s^α = −∂L/∂ṡ^α (γ^α_IJ ṙ^J + ∂F̄^α_I/∂t) + F^a_I Q_a .

    Without the first term on the right they would be Lagrange's equations of L_c, which hold only for holonomic constraints.

    **Arguments, Returns, Raises:** as for `hamel_chaplygin`.

    Müller 2021, eq. (35); Müller 2023, eq. (3.14), where the dot of ∂L/∂ṡ is missing.
    """
    return _solved(_chaplygin, system, t, q, rdot, control)


def voronets(
    system: System, t: Time, q: Configuration, rdot: ShapeRate, control: Control = None
) -> ShapeAcceleration:
    """The accelerations r̈ from Voronets' equations, in which F̄ is differentiated only in q̈ = F r̈ + Ḟ ṙ:

        d/dt ∂L/∂ṙ^I − ∂L/∂r^I − F̄^α_I (d/dt ∂L/∂ṡ^α − ∂L/∂s^α) = F^a_I Q_a .

    **Arguments, Returns, Raises:** as for `hamel_chaplygin`.

    Müller 2021, eq. (36), with F^α_I = −F̄^α_I. Müller 2023, eq. (3.15), has A = F̄ with the wrong sign, a misprint.
    """
    return _solved(_voronets, system, t, q, rdot, control)


def _solved(residual: Callable[..., Any], system, t, q, rdot, control) -> ShapeAcceleration:
    t, q, (rdot,), control = prepare(q, rdot, t=t, control=control, names=("rdot",))
    _check_arguments(system, t, q, rdot, control)
    return _solve(residual, system, t, q, rdot, control)


def _prepared(system, t, q) -> tuple[Scalar, Configuration]:
    _check_space(system)
    t, q, (), _ = prepare(q, t=t, control=None)
    check_shapes(system, t, q, only=KINEMATIC)
    return t, q


def _check_space(system: System) -> None:
    if not isinstance(system.space, Euclidean):
        raise TypeError(
            f"`system` {type(system).__name__} has the space {system.space}; the equations of Chaplygin and Voronets are "
            "written in coordinates q = (s, r) of Euclidean(n). Use `jaxhamel.acceleration` on any other space."
        )


def _check_arguments(
    system: System, t: Scalar, q: Configuration, rdot: ShapeRate, control: Control
) -> None:
    _check_space(system)
    name, m = type(system).__name__, system.n_constraints
    if overrides(system, "drift"):
        raise ValueError(
            f"`system` {name} has a drift; these equations hold for constraints without one. "
            "Use `jaxhamel.acceleration`, which takes affine constraints."
        )
    check_state(system, q, rdot)
    check_shapes(system, t, q, control)
    check_frame_matrix("A_1 of frame(t, q)", system.frame(t, q)[:m, :m], m)


@compiled
def _solve(residual, system, t, q, rdot, control):
    """Solves residual = 0 for r̈, where the residual is M r̈ + h with a symmetric M."""

    def of_acceleration(rddot):
        return residual(system, t, q, rdot, rddot, control)

    mass_matrix, bias = jax.jacfwd(of_acceleration, has_aux=True)(jnp.zeros_like(rdot))
    return symmetric_solve(mass_matrix, -bias)


def _hamel_chaplygin(system, t, q, rdot, rddot, control):
    def reduced(t, q, u, rdot):
        """The Lagrangian ℒ(t, q, u^α, ṙ)."""
        sdot = u - _coefficients(system, t, q) @ rdot
        return lagrangian(system, t, q, jnp.concatenate([sdot, rdot]), control)

    zero = jnp.zeros(system.n_constraints, dtype=rdot.dtype)

    def momentum(t, q, rdot):
        return jax.grad(reduced, argnums=3)(t, q, zero, rdot)

    rate = _time_derivative(system, momentum, t, q, rdot, rddot)
    by_q, by_u = jax.grad(reduced, argnums=(1, 2))(t, q, zero, rdot)
    force = _pulled_back(system, t, q, by_q + _force(system, t, q, rdot, control))
    return _twice(rate - force + by_u @ _curvature_along(system, t, q, rdot))


def _chaplygin(system, t, q, rdot, rddot, control):
    def constrained(t, q, rdot):
        """The constrained Lagrangian L_c(t, q, ṙ)."""
        return lagrangian(system, t, q, _velocity(system, t, q, rdot), control)

    rate = _time_derivative(system, jax.grad(constrained, argnums=2), t, q, rdot, rddot)
    by_q = jax.grad(constrained, argnums=1)(t, q, rdot)
    force = _pulled_back(system, t, q, by_q + _force(system, t, q, rdot, control))
    p = _momenta(system, t, q, rdot, control)[: system.n_constraints]
    return _twice(rate - force + p @ _curvature_along(system, t, q, rdot))


def _voronets(system, t, q, rdot, rddot, control):
    def momenta(t, q, rdot):
        return _momenta(system, t, q, rdot, control)

    rate = _time_derivative(system, momenta, t, q, rdot, rddot)
    v = _velocity(system, t, q, rdot)
    by_q = jax.grad(lambda q: lagrangian(system, t, q, v, control))(q)
    force = by_q + _force(system, t, q, rdot, control)
    return _twice(_pulled_back(system, t, q, rate - force))


def _velocity(system, t, q, rdot):
    """The velocity q̇ = F ṙ = (−F̄ ṙ, ṙ)."""
    return jnp.concatenate([-_coefficients(system, t, q) @ rdot, rdot])


def _pulled_back(system, t, q, covector):
    """The components F^a_I f_a = f_I − F̄^α_I f_α of a covector f along ṙ, `(k,)`."""
    m = system.n_constraints
    return covector[m:] - covector[:m] @ _coefficients(system, t, q)


def _momenta(system, t, q, rdot, control):
    """The momenta ∂L/∂q̇ `(n,)` of the unconstrained Lagrangian, at q̇ = F ṙ."""
    v = _velocity(system, t, q, rdot)
    return jax.grad(lambda v: lagrangian(system, t, q, v, control))(v)


def _force(system, t, q, rdot, control):
    if not overrides(system, "force"):
        return jnp.zeros_like(q)
    return applied_force(system, t, q, _velocity(system, t, q, rdot), control)


def _time_derivative(system, function, t, q, rdot, rddot):
    """The rate of f(t, q, ṙ) along the motion with the given r̈."""
    tangents = (jnp.ones_like(t), _velocity(system, t, q, rdot), rddot)
    return jax.jvp(function, (t, q, rdot), tangents)[1]


def _curvature_along(system, t, q, rdot):
    """The matrix γ^α_IJ ṙ^J + ∂F̄^α_I/∂t, `(m, k)`."""

    def coefficients(t):
        return _coefficients(system, t, q)

    _, in_time = jax.jvp(coefficients, (t,), (jnp.ones_like(t),))
    return _curvature(system, t, q) @ rdot + in_time


def _twice(value):
    """The residual as the value to be differentiated and as the additional output, from which `_solve` takes h."""
    return value, value
