"""Built-in problems of rolling balls: driven by three masses or by two pendula, past an obstacle."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._built_in._arguments import checked, number
from jaxhamel.control._built_in._parts import ConditionsAtEnd, least_effort, smooth_step
from jaxhamel.control._collocation._limits import PathLimit
from jaxhamel.control._problem._curves import Spline
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


def rolling_straight(radius: Array, place: Array, duration: Array) -> Callable[..., Any]:
    """The motion of a ball that rolls straight from the origin to `place`, as a function of the share s of `duration`:

    s ↦ (quaternion, position, (rotation vector, its first, its second derivative by time)) .
    """
    length = jnp.sqrt(jnp.sum(place * place))
    along = place / jnp.where(length > 0, length, 1.0)
    axis = jnp.stack([-along[1], along[0], jnp.zeros_like(length)])

    def at(s):
        way, speed, second = smooth_step(s), 6.0 * s * (1.0 - s), 6.0 - 12.0 * s
        turn = length / radius * axis
        turns = (way * turn, speed / duration * turn, second / duration**2 * turn)
        return SO3().exp(turns[0]), way * place, turns

    return at


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
    rolling = rolling_straight(ball.radius, place, number(duration))
    parts = in_balance(ball.rails, lambda s: rolling(s)[0])
    return _rolling_problem(ball, place, duration, (), parts)


def in_balance(rails: Any, orientation: Callable[[Array], Array]) -> Spline:
    """The masses' angles θ(s), 0 ≤ s ≤ 1, with which their centre stays below the ball's while `orientation`(s) turns.

    Newton's method goes from each s to the next, with the smallest change of θ.
    """
    rest = jnp.asarray(REST, jnp.result_type(float))
    shares = jnp.linspace(0.0, 1.0, 201)

    def balanced(theta, s):
        turned = quaternion_matrix(orientation(s))[:2]

        def offset(theta):
            return turned @ jnp.mean(rails(theta), axis=0)

        size = jnp.mean(jnp.sum(rails(rest) ** 2, axis=1))
        for _ in range(4):
            slope = jax.jacfwd(offset)(theta)
            gram = slope @ slope.T + 1e-3 * size * jnp.eye(2)
            theta = theta - slope.T @ jnp.linalg.solve(gram, offset(theta))
        return theta, theta

    _, table = jax.lax.scan(balanced, rest, shares)
    return Spline.fit(np.asarray(shares), np.asarray(table), 20)


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
    rolling = rolling_straight(ball.radius, place, duration)
    left = jnp.stack([-place[1], place[0]]) / jnp.sqrt(jnp.sum(place * place))

    def rate(s):
        return jax.jvp(parts, (s,), (1.0 / duration,))[1]

    def guess(s):
        turned, at, turns = rolling(s)
        theta, (rates, second) = parts(s), jax.jvp(rate, (s,), (1.0 / duration,))
        at = at + number(bow) * jnp.sin(jnp.pi * smooth_step(s)) * left
        return (turned, at, theta), jnp.concatenate([turns[1], rates]), second

    start = ((SO3().identity(rest.dtype), jnp.zeros(2), rest), jnp.zeros(6))
    rails: Any = ball.rails
    size = jnp.sqrt(jnp.sum(rails(rest)[0] ** 2))
    there = ConditionsAtEnd(AtRestThere(rails, place, size), name="rest at the end")
    return least_effort(driven, start, duration, (there, *constraints), guess)


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

    def parts(s):
        """The masses' angles: two masses move to the axle, the third turns against the rolling."""
        aside, way = smooth_step(jnp.minimum(2.0 * s, 1.0)), smooth_step(s)
        back = -way * distance / ball.radius
        turn = 0.5 * jnp.pi * aside
        return jnp.asarray(REST, s.dtype) + jnp.stack([-turn, turn, back - turn])

    limits = (
        PathLimit(
            Clearance(middle, clear), 0.0, name="distance to obstacle", unit="m", outline=edge
        ),
        PathLimit(Grip(MovingParts(ball), number(friction)), lower=0.0, name="friction"),
        PathLimit(RailAngles((0, 1)), -rail, rail, name="rails", unit="rad"),
    )
    place = jnp.stack([distance, jnp.zeros_like(distance)])
    return _rolling_problem(ball, place, duration, limits, parts, 1.2 * clear)


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
    rolling = rolling_straight(ball.radius, place, number(duration))

    def guess(s):
        turned, at, (turn, rate, _) = rolling(s)
        return (turned, at, -turn[:2]), jnp.concatenate([rate, -rate[:2]]), jnp.zeros(2)

    start = ((SO3().identity(place.dtype), jnp.zeros(2), jnp.zeros(2)), jnp.zeros(5))
    size = jnp.sqrt(jnp.sum(ball.coms[0] ** 2))
    there = AtRestThere(PendulumPositions(ball), place, size)
    constraint = ConditionsAtEnd(there, name="rest at the end")
    return least_effort(ball, start, duration, (constraint,), guess)


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
