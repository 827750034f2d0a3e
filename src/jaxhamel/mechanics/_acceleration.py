"""Acceleration, constraint forces and velocities of any system; three routes lead to the same accelerations."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Multiplier, QuasiVelocity, Time, Velocity
from jaxhamel.mechanics._checks._system import check_route, check_state
from jaxhamel.mechanics._constraints._multipliers import (
    multiplier_of_motion,
    multipliers,
    of_least_norm,
)
from jaxhamel.mechanics._controls._control import at_state
from jaxhamel.mechanics._controls._kinematic import driven_by
from jaxhamel.mechanics._controls._moving_parts import MovingParts
from jaxhamel.mechanics._equations._boltzmann_hamel import boltzmann_hamel
from jaxhamel.mechanics._equations._gauss import gauss
from jaxhamel.mechanics._examination._boundary import (
    KINEMATIC,
    check_determined,
    check_shapes,
    check_system,
)
from jaxhamel.mechanics._kinematics import prepare, quasi_velocity_of, velocity_of
from jaxhamel.mechanics._system import System

ROUTES: dict[str, Callable[..., Any]] = {
    "boltzmann-hamel": boltzmann_hamel,
    "multipliers": multipliers,
    "gauss": gauss,
}


def choose_route(system: System, route: str | None) -> str:
    """The requested route, or the fastest one: Gauss' principle, on bodies if the system defines them.

    Gauss' form needs no second derivative of the frame and no n × n solve (docs/performance.md#equations-of-motion).
    """
    check_route(route, ROUTES)
    return "gauss" if route is None else route


def motion(
    system: System,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    control: Control,
    route: str | None = None,
) -> tuple[Velocity, Float[Array, " k"]]:
    """The velocity v and acceleration u̇ of any system under any control; unchecked, for right-hand sides."""
    system, control = driven_by(system, control), at_state(control, t, q, u)
    if isinstance(system, MovingParts):
        return _with_parts(system, t, q, u, control, route)
    v = velocity_of(system, t, q, u)
    if not system.n_independent:
        return v, jnp.zeros_like(u)
    return v, ROUTES[choose_route(system, route)](system, t, q, u, control)


def _with_parts(system: MovingParts, t, q, u, control, route):
    """The velocity (v, θ̇) and the acceleration (u̇, θ̈) of a system with moving parts."""
    own_q, own_u, parts = system.inside(t, q, u, control)
    v, u_dot = motion(system.system, t, own_q, own_u, parts, route)
    return jnp.concatenate([v, parts.rate]), jnp.concatenate([u_dot, parts.acceleration])


def acceleration(
    system: System,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    control: Control = None,
    *,
    route: str | None = None,
) -> Float[Array, " k"]:
    """The accelerations u̇ of the independent quasi-velocities, from the Boltzmann–Hamel equations

        d/dt ∂ℓ/∂u^a − E_a(ℓ) + ∂ℓ/∂u^b γ^b_ac u^c = Q_a ,   a independent.

    **Arguments:**

    - `system`: the system.
    - `t`: time [s]; `q`: configuration; `u`: the k = n − m independent quasi-velocities.
    - `control`: a callable of t, a `jaxhamel.Feedback`, or a constant; None for a system that takes none.
    - `route`: the equations that are solved: `"boltzmann-hamel"` (the equations above in exponential coordinates),
      `"multipliers"` (Euler–Lagrange equations with forces of constraint; the mass matrix M must be regular) or `"gauss"`
      (Gauss' principle, on points and bodies if the system defines them). None, the default, takes the fastest.

    The three routes agree up to rounding errors times a condition number: for `"boltzmann-hamel"` and `"gauss"` those of the
    rows of A and of the mass matrix in the free directions, B_aᵀ M B_b; for `"multipliers"` that of the constraint rows in
    the metric of M. Nearly dependent constraints, or masses many orders of magnitude apart, make these numbers large.

    **Returns:** u̇, `(k,)`.

    **Raises:** `ValueError` for wrong shapes, a singular frame, dependent constraints or an unknown route.

    Source: Müller 2021, eq. (14), (22)–(24); From 2012, eq. (57); Massa–Vignolo, eq. (12). Müller's index order of γ is
    kept; books that write γ^c_ab u^a instead have the opposite sign.
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_system(system, t, q, u, control)
    u_dot = _accelerate(system, t, q, u, control, choose_route(system, route))
    check_determined(u_dot, system, t, q, u, control)
    return u_dot


@compiled
def _accelerate(system, t, q, u, control, route):
    return motion(system, t, q, u, control, route)[1]


def constraint_force(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> Multiplier:
    """The multipliers λ of d/dt ∂L/∂v − ∂L/∂q = Q + A_αᵀ λ, one for each constraint one-form.

    For a rolling body whose one-forms are the velocity of the contact point, λ is the force of the ground on the body [N].
    λ is the residual of the unconstrained equations in the constrained directions, λ_α = B^r_α (M v̇ − f)_r.

    **Arguments:** as for `acceleration`. **Returns:** λ, `(m,)`; for a system that lists redundant one-forms in
    `constraints`, the multipliers of least norm on all of them, `(r,)`. Source: Müller 2021, eq. (23).
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_system(system, t, q, u, control)
    return _constraint_force(system, t, q, u, control, choose_route(system, None))


@compiled
def _constraint_force(system, t, q, u, control, route):
    u_dot = motion(system, t, q, u, control, route)[1]
    system, control = driven_by(system, control), at_state(control, t, q, u)
    multiplier = multiplier_of_motion(system, t, q, u, u_dot, control)
    return of_least_norm(system, t, q, multiplier)


def velocity(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> Velocity:
    """The left-trivialised velocity v = B(t, q) ((0, u) − a(t, q)), `(n,)`, of the quasi-velocities u `(k,)`.

    It depends on `control` only where the quasi-velocities are prescribed (`jaxhamel.Kinematic`).
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_state(system, q, u)
    check_shapes(system, t, q, only=KINEMATIC)
    return velocity_of(driven_by(system, control), t, q, u)


def quasi_velocity(system: System, t: Time, q: Configuration, v: Velocity) -> QuasiVelocity:
    """The independent quasi-velocities of a velocity v `(n,)`: the last k rows of A(t, q) v + a(t, q), `(k,)`. Components of
    v that violate the constraints are dropped.
    """
    t, q, (v,), _ = prepare(q, v, t=t, control=None, names=("v",))
    check_shapes(system, t, q, only=KINEMATIC)
    _checks.check_shape("v", v, (system.space.dim,), "One entry for each dimension of the space.")
    return quasi_velocity_of(system, t, q, v)


class VectorField(eqx.Module):
    """The right-hand side (q̇, u̇) of the equations of motion as a callable (t, y, args) for any solver of diffrax, with
    y = (q, u) and args = (system, control).

    ```python
    diffrax.diffeqsolve(diffrax.ODETerm(jaxhamel.VectorField()), diffrax.Tsit5(), 0.0, 1.0, 0.01, (q0, u0),
                        args=(system, control))
    ```

    q̇ has the coordinates in which q is stored (the four numbers of a quaternion, for example). Wrap the solver in
    `jaxhamel.LieGroup` to keep configurations on their group up to rounding errors. The arguments are not checked.
    """

    route: str | None = eqx.field(static=True, default=None)

    def __call__(self, t: Time, y: Any, args: Any) -> Any:
        (q, u), (system, control) = y, args
        v, u_dot = motion(system, t, q, u, control, self.route)
        return system.space.rate(q, v), u_dot


vector_field: VectorField = VectorField()
