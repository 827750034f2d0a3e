"""Built-in problems in the plane: disk, unicycle, sleigh, snakeboard, cart with pole."""

import equinox as eqx
import jax.numpy as jnp
from jax.tree_util import Partial
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._built_in._arguments import checked, number
from jaxhamel.control._built_in._parts import least_effort, on_geodesic, smooth_step
from jaxhamel.control._problem._costs import StateAtEnd
from jaxhamel.control._problem._limits import PathLimit
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import Kinematic, MovingParts
from jaxhamel.systems import (
    ActuatedDisk,
    CartPole,
    ChaplyginSleigh,
    CircularRails,
    CoupledSnakeboard,
    KnifeEdge,
)


@checked(ActuatedDisk)
def disk_to_point(
    distance: ArrayLike = 1.0,
    duration: ArrayLike = 5.0,
    *,
    system: ActuatedDisk | None = None,
    constraints: tuple[PathLimit, ...] = (),
) -> ControlProblem:
    r"""A disk rolls from rest to rest, driven by one mass inside, with least ∫ θ̈² dt.

    **Arguments:** `distance` [m] along x, `duration` [s]; `system`: a disk with one mass on a circular rail, whose lowest
    point is at θ = −π/2; `constraints`: further constraints.

    **Returns:** a `ControlProblem` of the `MovingParts` of the disk. For the defaults J = 0.258317584642551.
    """
    disk = standard_disk() if system is None else system
    driven = MovingParts(disk)
    angle = -number(distance) / disk.radius
    hangs = jnp.full(1, -0.5 * jnp.pi)
    start = (jnp.zeros(1), jnp.zeros(1), hangs)
    end = (angle[None], number(distance)[None], hangs - angle)
    there = StateAtEnd(q=end, u=jnp.zeros(2))
    guess = Partial(_disk_rolling, driven, start, end)
    return least_effort(driven, (start, jnp.zeros(2)), duration, (there, *constraints), guess)


def _disk_rolling(driven: MovingParts, start: Configuration, end: Configuration, s: Array):
    """The guess (q, u, control) of a disk that rolls straight from `start` to `end`."""
    return on_geodesic(driven.space, start, end, smooth_step(s)), jnp.zeros(2), jnp.zeros(1)


def standard_disk() -> ActuatedDisk:
    """The disk of Putkaradze and Rogers 2018, eq. (3.39), with m_0 = 4, d_2 = 1 and one mass 1 on a circle of 0.8."""
    rails = CircularRails(number([0.8]), number([[0.0, -1.0, 0.0]]), number([[1.0, 0.0, 0.0]]))
    return ActuatedDisk(number(1.0), number(4.0), number(1.0), masses=number([1.0]), rails=rails)


class Behind(eqx.Module):
    """The function z − (gap + speed t) of a path limit: at most 0 while a disk at z stays behind a body that moves ahead."""

    gap: Array
    speed: Array

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> Array:
        return q[1] - (self.gap + self.speed * t)


class MovingPost(eqx.Module):
    """The outline at time t of a post as high as the disk, at z = gap + speed t: its ends, `(2, 3)` [m]."""

    gap: Array
    speed: Array
    height: Array

    def __call__(self, t: Time) -> Array:
        zero = jnp.zeros_like(self.gap)
        foot = jnp.stack([self.gap + self.speed * t, zero, zero])
        return jnp.stack([foot, foot.at[2].set(self.height)])


@checked(ActuatedDisk)
def disk_obstacle(
    distance: ArrayLike = 1.0,
    duration: ArrayLike = 5.0,
    gap: ArrayLike = 0.1,
    speed: ArrayLike = 0.2,
    *,
    system: ActuatedDisk | None = None,
) -> ControlProblem:
    """The problem `disk_to_point` behind an obstacle that moves ahead of the disk: z ≤ `gap` + `speed` t.

    **Arguments:** `distance` [m], `duration` [s], `system` as for `disk_to_point`; `gap` [m], `speed` [m/s].

    **Returns:** a `ControlProblem`.
    """
    radius = standard_disk().radius if system is None else system.radius
    post = MovingPost(number(gap), number(speed), 2.0 * radius)
    behind = PathLimit(
        Behind(post.gap, post.speed), upper=0.0, name="distance to obstacle", unit="m", outline=post
    )
    return disk_to_point(distance, duration, system=system, constraints=(behind,))


@checked(KnifeEdge)
def unicycle_sideways(
    shift: ArrayLike = 1.0, duration: ArrayLike = 1.0, *, system: KnifeEdge | None = None
) -> ControlProblem:
    """A unicycle moves sideways with least ∫ v² + ω² dt; the controls are its speed v and its turning rate ω.

    **Arguments:** `shift` [m] along y; `duration` [s]; `system`: the knife edge.

    **Returns:** a `ControlProblem` of the `Kinematic` knife edge. For the defaults J = 11.1581587152.
    """
    blade = KnifeEdge(number(1.0), number(1.0), number(0.0)) if system is None else system
    shift, duration = number(shift), number(duration)
    end = jnp.zeros(3).at[2].set(shift)
    guess = Partial(_unicycle_driven, shift, duration)
    start = (jnp.zeros(3), jnp.zeros(0))
    return least_effort(Kinematic(blade), start, duration, (StateAtEnd(q=end),), guess)


def _unicycle_driven(shift: Array, duration: Array, s: Array):
    """The guess (q, u, control) of a blade whose rates are prescribed."""
    q, v = back_and_forth(s, shift)
    return q, jnp.zeros(0), v / duration


def back_and_forth(s: Array, shift: Array) -> tuple[Array, Array]:
    """The guess (pose, (v, ω)) at time s of a blade that moves sideways in unit time: back, forward across, and back."""
    turn = 2.0 * jnp.pi * s
    sense = jnp.where(shift < 0, -1.0, 1.0)
    pose = [sense * 0.6 * (1.0 - jnp.cos(turn)), -0.34 * jnp.abs(shift) * jnp.sin(turn), s * shift]
    rates = [-3.0 * jnp.abs(shift) * jnp.cos(turn), sense * 3.3 * jnp.sin(turn)]
    return jnp.stack(pose), jnp.stack(rates)


@checked(ChaplyginSleigh)
def sleigh_park(
    shift: ArrayLike = 1.0, duration: ArrayLike = 5.0, *, system: ChaplyginSleigh | None = None
) -> ControlProblem:
    """Chaplygin's sleigh parks sideways, from rest to rest, with least ∫ F² + τ² dt.

    **Arguments:** `shift` [m] along y; `duration` [s]; `system`: the sleigh, by default with mass 1 kg, inertia 1 kg m²
    and its centre of mass 0.5 m ahead of the blade.

    **Returns:** a `ControlProblem`. For the defaults J = 5.94025427607, and 4.46587180252 with the offset 0.
    """
    sleigh = ChaplyginSleigh(number(1.0), number(1.0), number(0.5)) if system is None else system
    end = jnp.zeros(3).at[2].set(number(shift))
    guess = Partial(_sleigh_driven, number(shift), number(duration))
    start = (jnp.zeros(3), jnp.zeros(2))
    there = StateAtEnd(q=end, u=jnp.zeros(2))
    return least_effort(sleigh, start, duration, (there,), guess)


def _sleigh_driven(shift: Array, duration: Array, s: Array):
    """The guess (q, u, control) of a sleigh from rest to rest."""
    q, v = back_and_forth(s, shift)
    return q, jnp.sin(jnp.pi * s) * v / duration, jnp.zeros(2)


@checked(CoupledSnakeboard)
def snakeboard_park(
    shift: ArrayLike = 0.3, duration: ArrayLike = 5.0, *, system: CoupledSnakeboard | None = None
) -> ControlProblem:
    """A snakeboard parks sideways, from rest to rest, by the torques on rotor and trucks, with least ∫ |τ|² dt.

    **Arguments:** `shift` [m] along y; `duration` [s]; `system`: the snakeboard with coupled trucks, φ_b = −φ_f. Rotor and
    trucks return to the angle 0.

    **Returns:** a `ControlProblem`. For the defaults J = 0.229995619170.
    """
    board = standard_snakeboard() if system is None else system
    start = (jnp.zeros(3), jnp.zeros(2))
    end = (jnp.zeros(3).at[2].set(number(shift)), jnp.zeros(2))
    guess = Partial(_snakeboard_driven, number(shift))
    there = StateAtEnd(q=end, u=jnp.zeros(3))
    return least_effort(board, (start, jnp.zeros(3)), duration, (there,), guess)


def _snakeboard_driven(shift: Array, s: Array):
    """The guess (q, u, control) of a snakeboard whose rotor and trucks swing."""
    pose = jnp.stack([jnp.sin(jnp.pi * s), jnp.zeros_like(s), s * shift])
    angles = jnp.stack([0.5 * jnp.sin(4 * jnp.pi * s), 0.3 * jnp.sin(6 * jnp.pi * s)])
    return (pose, angles), jnp.zeros(3), jnp.zeros(2)


def standard_snakeboard() -> CoupledSnakeboard:
    """The snakeboard with m = 3, J = 0.11, J_r = 0.05, J_w = 0.013, ℓ = 0.3."""
    return CoupledSnakeboard(*map(number, (3.0, 0.11, 0.05, 0.013, 0.3)))


class ControlItself(eqx.Module):
    """The function control(t) of a path limit, for limits on the control itself."""

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> Array:
        return control(t)  # pyright: ignore[reportOptionalCall]


class CartPosition(eqx.Module):
    """The position x of the cart [m]."""

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> Array:
        return q[:1]


@checked(CartPole, positive=("force", "travel"))
def cart_pole(
    distance: ArrayLike = 1.0,
    duration: ArrayLike = 2.0,
    force: ArrayLike = 20.0,
    travel: ArrayLike = 2.0,
    *,
    system: CartPole | None = None,
) -> ControlProblem:
    """A cart swings its pole up, from rest to rest, with least ∫ F² dt (Kelly 2017, section 6).

    **Arguments:** `distance` [m] from start to end; `duration` [s]; `force`: limit of |F| [N]; `travel`: limit of |x| [m];
    `system`: the cart.

    **Returns:** a `ControlProblem`. For the defaults J = 58.807667458.
    """
    cart = CartPole() if system is None else system
    end = jnp.stack([number(distance), number(jnp.pi)])
    force, travel = number(force), number(travel)
    limits = (
        PathLimit(ControlItself(), -force, force, name="force on the cart", unit="N"),
        PathLimit(CartPosition(), -travel, travel, name="travel of the cart", unit="m"),
    )
    guess, there = Partial(_swinging_up, end), StateAtEnd(q=end, u=jnp.zeros(2))
    return least_effort(cart, (jnp.zeros(2), jnp.zeros(2)), duration, (there, *limits), guess)


def _swinging_up(end: Array, s: Array):
    """The guess (q, u, control) with a configuration that grows linearly to `end`."""
    return s * end, jnp.zeros(2), jnp.zeros(1)
