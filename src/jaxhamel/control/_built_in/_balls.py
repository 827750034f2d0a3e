"""Built-in problems of rolling balls: driven by three masses or by two pendula, past an obstacle."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._built_in._arguments import checked, number
from jaxhamel.control._built_in._parts import (
    ConditionsAtEnd,
    least_effort,
    smooth_step,
    spline_through,
)
from jaxhamel.control._problem._curves import Spline
from jaxhamel.control._problem._limits import PathLimit
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.geometry import SO3, quaternion_matrix
from jaxhamel.mechanics import MovingParts
from jaxhamel.systems import CircularRails, RollingBall, RollingPendulumBall

# Angles of the three masses at which their centre is below the ball's centre.
REST = (0.0, -0.5 * jnp.pi, -0.5 * jnp.pi)


def three_mass_ball(radius: float, rail: float) -> RollingBall:
    """A ball with a thin shell of 1 kg and three masses of 0.5 kg on circular rails in its three coordinate planes."""
    rails = CircularRails(
        radius=number([rail] * 3),
        normal=number([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        zero=number([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    )
    shell = number([2.0 / 3.0 * radius**2] * 3)
    masses = number([0.5] * 3)
    return RollingBall(number(radius), number(1.0), shell, number([0.0] * 3), masses, rails)


class AtRestThere(eqx.Module):
    """The residuals of rest in balance at `place`: (the ball's position − `place`, all velocities, offset / `size`).

    The offset is the horizontal distance of the mean position of the inner masses from the ball's centre.
    """

    positions: Callable[..., Array]
    place: Array
    size: Array

    def __call__(self, q: Configuration, u: QuasiVelocity) -> Array:
        mean = jnp.mean(self.positions(q[2]), axis=0) / self.size
        offset = quaternion_matrix(q[0])[:2] @ mean
        return jnp.concatenate([q[1] - self.place, u, offset])


def rolling_straight(radius: Array, place: Array, duration: Array, s: Array) -> Any:
    """(quaternion, position, (rotation vector, its first, its second derivative by time)) of a ball that rolls straight
    from the origin to `place`, at the share s of `duration`.
    """
    length = jnp.sqrt(jnp.sum(place * place))
    along = place / jnp.where(length > 0, length, 1.0)
    axis = jnp.stack([-along[1], along[0], jnp.zeros_like(length)])
    way, speed, second = smooth_step(s), 6.0 * s * (1.0 - s), 6.0 - 12.0 * s
    turn = length / radius * axis
    turns = (way * turn, speed / duration * turn, second / duration**2 * turn)
    return SO3().exp(turns[0]), way * place, turns


@checked(RollingBall)
def ball_to_point(
    x: ArrayLike = 0.5,
    y: ArrayLike = 0.25,
    duration: ArrayLike = 4.0,
    *,
    system: RollingBall | None = None,
) -> ControlProblem:
    r"""A ball driven by masses on rails rolls from rest to rest with least ∫ |θ̈|² dt.

    It ends in balance: the centre of the masses is above the point of contact. Its orientation and the masses' positions
    at the end are free. In the guess the ball rolls straight, with the masses in balance at all times.

    **Arguments:** `x`, `y`: where the ball ends [m]; `duration` [s]; `system`: a ball with three equal masses, which are
    in balance at the angles (0, −π/2, −π/2); by default of radius 0.1 m with rails of 0.07 m.

    **Returns:** a `ControlProblem` of the `MovingParts` of the ball. For the defaults J = 4.3328672.
    """
    ball = three_mass_ball(0.1, 0.07) if system is None else system
    place = jnp.stack([number(x), number(y)])
    parts = in_balance(ball.rails, Partial(rolling_straight, ball.radius, place, number(duration)))
    return _rolling_problem(ball, place, duration, (), parts)


def in_balance(rails: Any, rolling: Callable[[Array], Any]) -> Spline:
    """The masses' angles θ(s), 0 ≤ s ≤ 1, with which their centre stays below the ball's along the motion `rolling`."""
    shares = jnp.linspace(0.0, 1.0, 201)
    return spline_through(_balanced(rails, rolling, shares), jnp.ones_like(shares[-1]), degree=5)


@compiled_with(QUICK)
def _balanced(rails: Any, rolling: Callable[[Array], Any], shares: Array) -> Array:
    """The masses' angles at all `shares`. Newton's method goes from each to the next, with the smallest change of θ."""
    rest = jnp.asarray(REST, jnp.result_type(float))

    def balanced(theta, s):
        turned = quaternion_matrix(rolling(s)[0])[:2]

        def offset(theta):
            return turned @ jnp.mean(rails(theta), axis=0)

        size = jnp.mean(jnp.sum(rails(rest) ** 2, axis=1))
        for _ in range(4):
            slope = jax.jacfwd(offset)(theta)
            gram = slope @ slope.T + 1e-3 * size * jnp.eye(2)
            theta = theta - slope.T @ jnp.linalg.solve(gram, offset(theta))
        return theta, theta

    return jax.lax.scan(balanced, rest, shares)[1]


def _rolling_problem(
    ball: RollingBall,
    place: Array,
    duration: ArrayLike,
    constraints: tuple[PathLimit, ...],
    parts: Callable[[Array], Array],
    bow: ArrayLike = 0.0,
) -> ControlProblem:
    """The problem of rolling to rest at `place` with least ∫ |θ̈|² dt.

    In the guess the masses' angles are `parts`(s), and the path departs from the straight line by up to `bow` [m].
    """
    driven, rest = MovingParts(ball), jnp.asarray(REST, jnp.result_type(float))
    duration = number(duration)
    guess = Partial(_rolled, ball.radius, place, duration, parts, number(bow))
    start = ((SO3().identity(rest.dtype), jnp.zeros(2), rest), jnp.zeros(6))
    rails: Any = ball.rails
    there = AtRestThere(rails, place, _distance_of_first(rails, rest))
    constraint = ConditionsAtEnd(there, name="rest at the end")
    return least_effort(driven, start, duration, (constraint, *constraints), guess)


def _rolled(
    radius: Array, place: Array, duration: Array, parts: Callable[..., Array], bow: Array, s: Array
) -> tuple[Configuration, Array, Array]:
    """The guess (q, u, θ̈) of `_rolling_problem` at the share s of the duration."""
    turned, at, turns = rolling_straight(radius, place, duration, s)
    left = jnp.stack([-place[1], place[0]]) / jnp.sqrt(jnp.sum(place * place))

    def rate(s):
        return jax.jvp(parts, (s,), (1.0 / duration,))[1]

    theta, (rates, second) = parts(s), jax.jvp(rate, (s,), (1.0 / duration,))
    at = at + bow * jnp.sin(jnp.pi * smooth_step(s)) * left
    return (turned, at, theta), jnp.concatenate([turns[1], rates]), second


@compiled_with(QUICK)
def _distance_of_first(rails: Any, angles: Array) -> Array:
    """The distance of the first mass from the ball's centre [m]."""
    return jnp.sqrt(jnp.sum(rails(angles)[0] ** 2))


class Clearance(eqx.Module):
    """The function |z − centre|² − distance² [m²] of a path limit, for the centre z of a ball and a round obstacle."""

    centre: Array
    distance: Array

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> Array:
        away = q[1] - self.centre
        return (jnp.dot(away, away) - self.distance**2)[None]


class Cylinder(eqx.Module):
    """The outline of a standing cylinder at any time: both edges as one line, `(2 P, 3)` [m]; `height` [m]."""

    centre: Array
    radius: Array
    height: Array

    def __call__(self, t: Time) -> Array:
        turn = jnp.linspace(0.0, 2.0 * jnp.pi, 61, dtype=self.radius.dtype)
        edge = self.centre[None] + self.radius * jnp.stack([jnp.cos(turn), jnp.sin(turn)], axis=1)
        heights = (jnp.zeros_like(turn), jnp.full_like(turn, self.height))
        return jnp.concatenate([jnp.column_stack([edge, z]) for z in heights])


class Grip(eqx.Module):
    """The function (N, μ² N² − |f|²) of a path limit, with the ground's normal force N and friction force f on the ball,
    divided by the ball's weight.

    Both numbers are positive while the ball neither leaves the ground nor slips; `friction`: μ.
    """

    driven: MovingParts
    friction: Array

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> Array:
        ball: Any = self.driven.system
        q, u, motion = self.driven.inside(t, q, u, control)
        weight = ball.gravity * (ball.shell_mass + jnp.sum(ball.masses))
        force = ball.contact_force(t, q, u, motion) / weight
        hold = (self.friction * force[2]) ** 2 - force[0] ** 2 - force[1] ** 2
        return jnp.stack([force[2], hold])


class RailAngles(eqx.Module):
    """The changes of some masses' angles since the start, θ − θ(0) [rad]; `masses`: their indices."""

    masses: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> Array:
        places = jnp.array(self.masses)
        return q[2][places] - jnp.asarray(REST, q[2].dtype)[places]


@checked(RollingBall, positive=("obstacle", "friction", "rail"))
def ball_obstacle(
    distance: ArrayLike = 1.0,
    duration: ArrayLike = 4.0,
    obstacle: ArrayLike = 0.1,
    friction: ArrayLike = 0.3,
    rail: ArrayLike = 2.0,
    *,
    system: RollingBall | None = None,
) -> ControlProblem:
    """The problem `ball_to_point` along x, past a round obstacle halfway, with limits on friction and rails.

    **Arguments:** `distance` [m]; `duration` [s]; `obstacle`: radius of the obstacle [m]; `friction`: coefficient of
    friction of the ground; `rail`: the largest change of the first two masses' angles from the start [rad]; `system`: a ball
    with three masses, by default of radius 0.15 m with rails of 0.1 m.

    **Returns:** a `ControlProblem` of the `MovingParts` of the ball.
    """
    ball = three_mass_ball(0.15, 0.1) if system is None else system
    distance, rail = number(distance), number(rail)
    middle = jnp.stack([0.5 * distance, jnp.zeros_like(distance)])
    clear = number(obstacle) + ball.radius
    edge = Cylinder(middle, number(obstacle), ball.radius)
    parts = Partial(_two_on_axle, distance / ball.radius)
    limits = (
        PathLimit(
            Clearance(middle, clear), 0.0, name="distance to obstacle", unit="m", outline=edge
        ),
        PathLimit(Grip(MovingParts(ball), number(friction)), lower=0.0, name="friction"),
        PathLimit(RailAngles((0, 1)), -rail, rail, name="rails", unit="rad"),
    )
    place = jnp.stack([distance, jnp.zeros_like(distance)])
    return _rolling_problem(ball, place, duration, limits, parts, 1.2 * clear)


def _two_on_axle(turns: Array, s: Array) -> Array:
    """The masses' angles while the ball rolls by `turns` [rad]: two move to the axle, one turns against the rolling."""
    aside = 0.5 * jnp.pi * smooth_step(jnp.minimum(2.0 * s, 1.0))
    back = -smooth_step(s) * turns
    return jnp.asarray(REST, s.dtype) + jnp.stack([-aside, aside, back - aside])


class PendulumPositions(eqx.Module):
    """The positions of the pendula's centres of mass in the ball's frame as a function of their angles θ."""

    ball: RollingPendulumBall

    def __call__(self, angles: Array) -> Array:
        return self.ball.pendulum_positions(angles)


@checked(RollingPendulumBall)
def pendulum_ball_to_point(
    x: ArrayLike = 0.6,
    y: ArrayLike = 0.3,
    duration: ArrayLike = 4.0,
    *,
    system: RollingPendulumBall | None = None,
) -> ControlProblem:
    """A ball driven by two pendula rolls from rest to rest, in balance at the end, with least ∫ |τ|² dt.

    **Arguments:** `x`, `y`: where the ball ends [m]; `duration` [s]; `system`: a ball with two equal pendula about e_1 and
    e_2 which hang down at angle 0; by default of radius 0.2 m and 1 kg, with pendula of 0.5 kg and 0.1 m.

    **Returns:** a `ControlProblem`, whose controls are the torques of the pendula [N m].
    """
    ball = standard_pendulum_ball() if system is None else system
    place = jnp.stack([number(x), number(y)])
    guess = Partial(_hanging, ball.radius, place, number(duration))
    start = ((SO3().identity(place.dtype), jnp.zeros(2), jnp.zeros(2)), jnp.zeros(5))
    size = jnp.sqrt(jnp.sum(ball.coms[0] ** 2))
    there = AtRestThere(PendulumPositions(ball), place, size)
    constraint = ConditionsAtEnd(there, name="rest at the end")
    return least_effort(ball, start, duration, (constraint,), guess)


def _hanging(radius: Array, place: Array, duration: Array, s: Array):
    """The guess (q, u, control) of a ball that rolls straight while its pendula hang down."""
    turned, at, (turn, rate, _) = rolling_straight(radius, place, duration, s)
    return (turned, at, -turn[:2]), jnp.concatenate([rate, -rate[:2]]), jnp.zeros(2)


def standard_pendulum_ball() -> RollingPendulumBall:
    """A ball of 0.2 m and 1 kg with two pendula of 0.5 kg and 0.1 m about e_1 and e_2."""
    return RollingPendulumBall(
        radius=number(0.2),
        shell_mass=number(1.0),
        shell_inertia=number([0.03] * 3),
        shell_com=number([0.0] * 3),
        masses=number([0.5] * 2),
        inertias=number([[0.001] * 3] * 2),
        pivots=number([[0.0] * 3] * 2),
        axes=number([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        coms=number([[0.0, 0.0, -0.1]] * 2),
    )
