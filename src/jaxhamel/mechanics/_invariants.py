"""Energy, momentum and power balance of a system."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.mechanics._acceleration import motion
from jaxhamel.mechanics._constraints._multipliers import multiplier_of_motion
from jaxhamel.mechanics._controls._control import at_state
from jaxhamel.mechanics._controls._kinematic import driven_by
from jaxhamel.mechanics._equations._boltzmann_hamel import momentum_of
from jaxhamel.mechanics._examination._boundary import check_system, check_unforced
from jaxhamel.mechanics._kinematics import applied_force, lagrangian, prepare, velocity_of
from jaxhamel.mechanics._system import System, overrides


def energy(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> Scalar:
    """The energy E = v·∂L/∂v − L [J], at the velocity v of the quasi-velocities u.

    For L = T − V with T quadratic in v it is T + V. With prescribed motion it is Jacobi's energy, in which the kinetic
    energy of the prescribed velocities has the opposite sign.

    **Arguments:** as for `acceleration`; a `control` that only forces need may be missing. **Returns:** a scalar.
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_unforced(system, t, q, u, control)
    return _energy(system, t, q, u, control)


@compiled
def _energy(system, t, q, u, control):
    system, control = driven_by(system, control), at_state(control, t, q, u)
    v = velocity_of(system, t, q, u)
    value, rate = jax.jvp(lambda v: lagrangian(system, t, q, v, control), (v,), (v,))
    return rate - value


def momentum(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> Float[Array, " n"]:
    """The momenta p_a = ∂ℓ/∂u^a = B^r_a ∂L/∂v^r of all n quasi-velocities; the constrained ones come first.

    **Arguments:** as for `energy`. **Returns:** `(n,)`. Source: Müller 2021, eq. (14).
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_unforced(system, t, q, u, control)
    return _momentum(system, t, q, u, control)


@compiled
def _momentum(system, t, q, u, control):
    system, control = driven_by(system, control), at_state(control, t, q, u)
    return momentum_of(system, t, q, velocity_of(system, t, q, u), control)


class PowerBalance(NamedTuple):
    """The rate of the energy and its contributions, all in W: `rate` = `force` + `constraint` + `explicit_time`.

    - `rate`: dE/dt along the motion.
    - `force`: Q·v, the power of the forces.
    - `constraint`: λ·(A_α v) = −λ·a_α, which is zero unless the constraints are affine.
    - `explicit_time`: −∂L/∂t, which includes the power of prescribed motion.
    """

    rate: Scalar
    force: Scalar
    constraint: Scalar
    explicit_time: Scalar


def power_balance(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> PowerBalance:
    """The terms of dE/dt = Q·v + λ·(A_α v) − ∂L/∂t, where dE/dt is computed along the motion, independently of the
    right-hand side.

    **Arguments:** as for `acceleration`. **Returns:** a `PowerBalance`.
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_system(system, t, q, u, control)
    return _power_balance(system, t, q, u, control)


@compiled
def _power_balance(system, t, q, u, control):
    v, u_dot = motion(system, t, q, u, control)
    system, control = driven_by(system, control), at_state(control, t, q, u)
    multiplier = multiplier_of_motion(system, t, q, u, u_dot, control)
    _, rate = jax.jvp(
        lambda t, q, u: _energy(system, t, q, u, control),
        (t, q, u),
        (jnp.ones_like(t), system.space.rate(q, v), u_dot),
    )
    explicit_time = -jax.grad(lambda t: lagrangian(system, t, q, v, control))(t)
    force = jnp.dot(applied_force(system, t, q, v, control), v)
    constraint = jnp.zeros_like(rate)
    if overrides(system, "drift"):
        constraint = -jnp.dot(multiplier, system.drift(t, q)[: system.n_constraints])
    return PowerBalance(rate, force, constraint, explicit_time)
