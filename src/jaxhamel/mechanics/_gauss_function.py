"""Gauss' function, whose minimum over all accelerations that the constraints allow is the motion."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.mechanics._equations._gauss import bodies_in_motion, has_bodies, lagrangian_in_motion
from jaxhamel.mechanics._examination._boundary import check_system
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System


def gauss_function(
    system: System,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    u_dot: Float[Array, " k"],
    control: Control = None,
) -> Scalar:
    """C(u̇) = ½ Σ m |a − F/m|² + ½ Σ (I Ω̇ + Ω × I Ω − τ)·I⁻¹(I Ω̇ + Ω × I Ω − τ)   [kg m²/s⁴].

    The sums are over the `Points` and `Spins` that the system gives; a and Ω̇ are theirs at u̇. Without them it is
    ½ (v̇ − M⁻¹f)·M (v̇ − M⁻¹f), which is smaller by a function of (t, q, u) alone: the part of the points' forces that is
    balanced by constraints built into q. C is a parabola in u̇: its minimum is at `acceleration`, its Hessian is the mass
    matrix ∂²T/∂u∂u, its minimal value is ½ Σ |R|²/m of the forces of constraint R.

    **Arguments:**

    - `system`, `t`, `q`, `u`, `control`: as for `acceleration`.
    - `u_dot`: u̇, any acceleration `(k,)`.
    **Returns:** C, a scalar. Massless points and axes without inertia contribute only the part that depends on u̇, −F·a.

    **Raises:** `ValueError` for wrong shapes.

    Source: Massa and Vignolo, eq. (12); its stationarity is their (14), Gibbs and Appell's and Kane's equations.
    """
    t, q, (u, u_dot), control = prepare(q, u, u_dot, t=t, control=control, names=("u", "u_dot"))
    check_system(system, t, q, u, control)
    _checks.check_shape("u_dot", u_dot, u.shape, "One rate for each independent quasi-velocity.")
    return _gauss_function(system, t, q, u, u_dot, control)


@compiled
def _gauss_function(system, t, q, u, u_dot, control):
    if has_bodies(system, t, q, u, control):
        parts, bias, jacobian = bodies_in_motion(system, t, q, u, control)
        rates = [b + jnp.tensordot(u_dot, j, axes=1) for b, j in zip(bias, jacobian, strict=True)]
        terms = [part.constraint(rate) for part, rate in zip(parts, rates, strict=True)]
        return jnp.sum(jnp.stack(terms))
    mass_matrix, force, at_rest, free = lagrangian_in_motion(system, t, q, u, control)
    residual = mass_matrix @ (at_rest + free @ u_dot) - force
    return 0.5 * jnp.dot(residual, symmetric_solve(mass_matrix, residual))
