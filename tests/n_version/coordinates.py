"""The motion in coordinates: Euler and Lagrange's equations with multipliers, without the package's equations.

Around q the coordinates are φ, q(φ) = q·exp(φ), and L̃(t, φ, φ̇) = L(t, q(φ), v(φ, φ̇)) with v from the derivative of the
stored numbers. At φ = 0, with second derivatives by differentiating twice and LAPACK's solution of

    [M̃  −Ãᵀ] [φ̈]   [ ∂L̃/∂φ − ∂²L̃/∂φ̇∂φ φ̇ − ∂²L̃/∂φ̇∂t + Q̃ ]
    [Ã    0 ] [λ ] = [ −(d/dt at φ̈ = 0)(A v + a)_α         ] ,

Ã = ∂(A v + a)_α/∂φ̇. Frames, Hamel's coefficients, ad and dexp do not occur: spaces give `retract` and `velocity` alone.
"""

import jax
import jax.numpy as jnp

from jaxhamel.mechanics import as_control


def by_coordinates(system, t, q, u, control=None):
    """(u̇, λ, cond) of the equations above; cond is the condition number of the matrix."""
    space, m, n = system.space, system.n_constraints, system.space.dim
    control = as_control(control)
    origin = jnp.zeros(n, u.dtype)

    def state(phi, phi_dot):
        at, q_dot = jax.jvp(lambda phi: space.retract(q, phi), (phi,), (phi_dot,))
        return at, space.velocity(at, q_dot)

    def lagrangian(t, phi, phi_dot):
        extra = (control,) if system.prescribed_motion else ()
        return system.lagrangian(t, *state(phi, phi_dot), *extra)

    def quasi(t, phi, phi_dot):
        at, v = state(phi, phi_dot)
        return system.frame(t, at) @ v + system.drift(t, at)

    def force(phi_dot):
        at, v = state(origin, phi_dot)
        given = control if control is None or system.prescribed_motion else control(t)
        return system.force(t, at, v, given)  # φ̇ = v at the origin

    frame = system.frame(t, q)
    v = jnp.linalg.solve(frame, jnp.concatenate([jnp.zeros(m, u.dtype), u]) - system.drift(t, q))
    momentum = jax.grad(lagrangian, 2)
    at_rest = (jnp.ones_like(t), v, origin)  # the tangent of (t, φ, φ̇) at φ̈ = 0
    bias = jax.jvp(momentum, (t, origin, v), at_rest)[1]
    mass = jax.jacfwd(momentum, 2)(t, origin, v)
    rows = jax.jacfwd(quasi, 2)(t, origin, v)
    turning = jax.jvp(quasi, (t, origin, v), at_rest)[1]
    right = jax.grad(lagrangian, 1)(t, origin, v) - bias + force(v)
    none = jnp.zeros((m, m), u.dtype)
    matrix = jnp.block([[mass, -rows[:m].T], [rows[:m], none]])
    solution = jnp.linalg.solve(matrix, jnp.concatenate([right, -turning[:m]]))
    rates = rows @ solution[:n] + turning
    return rates[m:], solution[n:], jnp.linalg.cond(matrix)
