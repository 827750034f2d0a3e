"""Built-in problems of bodies that turn by closed motions of others: a ball under a plate, a satellite, a falling cat."""

import jax.numpy as jnp
from jax.tree_util import Partial
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxhamel.control._built_in._arguments import checked, number
from jaxhamel.control._built_in._parts import (
    ConditionsAtEnd,
    FactorAtEnd,
    least_effort_driven,
)
from jaxhamel.control._problem._costs import StateAtEnd
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.geometry import SO3
from jaxhamel.mechanics import Kinematic
from jaxhamel.mechanics._description._drawing import about_x, about_z
from jaxhamel.systems import FallingCat, NonSpinningBall, TwoWheelSatellite


@checked(NonSpinningBall, planar=("shift",))
def plate_ball(
    angle: ArrayLike = 0.5 * jnp.pi,
    shift: ArrayLike = 0.0,
    duration: ArrayLike = 1.0,
    *,
    system: NonSpinningBall | None = None,
) -> ControlProblem:
    """A ball rolls under a plate without slipping or spinning and ends turned about the vertical, with least ∫ |ż|² dt.

    **Arguments:** `angle`: the turn ψ [rad]; `shift`: the displacement of the centre from start to end [m], a number along x
    or `(2,)`; `duration` [s]; `system`: the ball, by default of radius 1 m.

    **Returns:** a `ControlProblem` of the `Kinematic` ball, whose controls are the centre's velocity ż. For the defaults
    J = 30.6326881525, and 62.3108150058 for ψ = π (the problem of Jurdjevic 1993).
    """
    ball = (
        NonSpinningBall(number(1.0), number(1.0), number([0.4, 0.4, 0.4]))
        if system is None
        else system
    )
    angle, duration = number(angle), number(duration)
    shift = number(shift)
    shift = jnp.stack([shift, jnp.zeros_like(shift)]) if shift.ndim == 0 else shift
    sense = jnp.where(angle < 0, -1.0, 1.0)
    # The guess is close to the optimal loop, which has the length √(19.5 ψ) r and turns by 1.46 rounds, faster at its ends.
    speed = ball.radius * jnp.sqrt(19.5 * jnp.maximum(jnp.abs(angle), 0.1)) / duration
    control = Partial(_loop, sense, speed, shift / duration)
    start = (SO3().identity(angle.dtype), jnp.zeros(2))
    there = StateAtEnd(q=(about_z(angle), shift))
    return least_effort_driven(Kinematic(ball), start, duration, (there,), control)


def _loop(sense: Array, speed: Array, drift: Array, s: Array) -> Array:
    """The centre's velocity along a loop, plus `drift`."""
    heading = -sense * (9.2 * s + 0.6 * jnp.sin(2.0 * jnp.pi * s))
    return speed * jnp.stack([jnp.cos(heading), jnp.sin(heading)]) + drift


@checked(TwoWheelSatellite)
def satellite_turn(
    angle: ArrayLike = 0.5 * jnp.pi,
    duration: ArrayLike = 10.0,
    *,
    system: TwoWheelSatellite | None = None,
) -> ControlProblem:
    """A satellite at zero momentum turns about e_3 by wheels about e_1 and e_2, with least ∫ |wheel rates|² dt.

    **Arguments:** `angle` [rad]; `duration` [s]; `system`: the satellite. The wheels' angles at the end are free.

    **Returns:** a `ControlProblem` of `Kinematic(system)`. For the defaults J = 199.923721699. With equal
    moments Θ_1 = Θ_2: J = (Θ_1/J_w)² ψ (4π − ψ)/T.
    """
    satellite = TwoWheelSatellite() if system is None else system
    angle, duration = number(angle), number(duration)
    swing = jnp.sqrt(jnp.maximum(jnp.abs(angle) * (4.0 * jnp.pi - jnp.abs(angle)), 0.01)) / duration
    rates = swing * satellite.locked() / satellite.wheel_inertia
    sense = jnp.where(angle < 0, -1.0, 1.0)
    control = Partial(_wheel_rates, sense, rates)
    start = (SO3().identity(angle.dtype), jnp.zeros(2))
    there = ConditionsAtEnd(FactorAtEnd(SO3(), about_z(angle)), name="orientation at the end")
    return least_effort_driven(Kinematic(satellite), start, duration, (there,), control)


def _wheel_rates(sense: Array, rates: Array, s: Array) -> Array:
    """The rates of two wheels that go round once."""
    turn = 2.0 * jnp.pi * s
    return -rates * jnp.stack([jnp.cos(turn), sense * jnp.sin(turn)])


@checked(FallingCat)
def falling_cat(
    angle: ArrayLike = jnp.pi,
    bend: ArrayLike = 0.8,
    duration: ArrayLike = 1.0,
    *,
    system: FallingCat | None = None,
) -> ControlProblem:
    """A falling cat turns over about its spine and ends bent as it began, with least ∫ |ḃ|² dt.

    **Arguments:** `angle` [rad]; `bend`: b_1 at both ends [rad]; `duration` [s]; `system`: the cat.

    **Returns:** a `ControlProblem` of `Kinematic(system)`, whose controls are the rates of the bend. For the
    defaults J = 57.2326104701.
    """
    cat = FallingCat() if system is None else system
    angle, bend, duration = number(angle), number(bend), number(duration)
    sense = jnp.where(angle < 0, -1.0, 1.0)
    size = jnp.where(jnp.abs(bend) < 0.1, 0.8, bend)
    control = Partial(_bending, sense, 2.0 * jnp.pi * size / duration)
    shape = jnp.stack([bend, jnp.zeros_like(bend)])
    start = (SO3().identity(angle.dtype), shape)
    there = StateAtEnd(q=(about_x(angle), shape))
    return least_effort_driven(Kinematic(cat), start, duration, (there,), control)


def _bending(sense: Array, rate: Array, s: Array) -> Array:
    """The rates of a bend that goes round once."""
    turn = 2.0 * jnp.pi * s
    return rate * jnp.stack([-jnp.sin(turn), -sense * jnp.cos(turn)])
