"""A homogeneous ball on a turntable: the constraint is affine, and the turntable does work."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO3, Euclidean, Product, quaternion_matrix
from jaxhamel.mechanics import Points, Spins, System
from jaxhamel.mechanics._description._declarations import State
from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.systems._descriptions import ROLLING
from jaxhamel.systems._own_equations import own_equations
from jaxhamel.systems._rolling import horizontal, quarter, rolling_frame, rolling_inverse_frame


class BallOnTurntable(System):
    r"""A ball that rolls on a plane turning at the rate n: z̈ = κ e_3 × ż, κ = n I/(I + m r²).

        L = ½ I |Ω|² + ½ m |ż|² on SO(3) × R² ,    ż − ω × r e_3 = n e_3 × z ,  ω = Λ Ω ,    u = Ω

    **Arguments:**

    - `radius`: r [m].
    - `mass`: m [kg].
    - `inertia`: I about any diameter [kg m²]: (2/5) m r² for a solid ball, (2/3) m r² for a shell.
    - `turn_rate`: n [rad/s], of the turntable about the z axis.

    Configuration `q = (quaternion (4,), position (2,))`, the position from the axis of the
    turntable; `u = Ω (3,)` [rad/s], body frame. The multipliers are the friction force (F_x, F_y) [N].

    **Invariants:** the speed |ż|; the centre of the orbit, as κ z + e_3 × ż; the vertical spin ω_3;
    the moving energy E − n [m (z × ż)_3 + I ω_3]. The energy E itself is not kept, unless the orbit
    has its centre on the axis.

    **Known solution:** a circle about any point, run through at the rate κ, whatever its radius:
    2n/7 for a solid ball, 2n/5 for a shell. See `solution`.

    **Raises:** ValueError for parameters that are not physical.

    Source: Weltner 1979; Neimark and Fufaev 1972.
    """

    radius: Array = parameter("radius of the ball", "m", (), positive=True, example=0.2)
    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter("about any diameter", "kg m²", (), positive=True, example=0.016)
    turn_rate: Array = parameter("of the turntable, about z", "rad/s", (), example=1.0)

    space: ClassVar[Product] = Product(SO3(), Euclidean(2))
    n_constraints = 2
    state_names: ClassVar[State | None] = ROLLING
    on_ground = True

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "mass", "inertia"), finite=("turn_rate",))

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(sphere=float(self.radius)),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        spin, motion = jnp.dot(v[:3], v[:3]), jnp.dot(v[3:], v[3:])
        return 0.5 * (self.inertia * spin + self.mass * motion)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """u = (ẋ − r ω_y, ẏ + r ω_x, Ω) plus the drift: the slip on the turntable, then Ω."""
        return rolling_frame(self.radius, quaternion_matrix(q[0]))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        return rolling_inverse_frame(self.radius, quaternion_matrix(q[0]))

    def drift(self, t: Time, q: Configuration) -> Float[Array, " 5"]:
        """(−n e_3 × z, 0): minus the velocity of the turntable below the ball is added to the slip."""
        carried = -self.turn_rate * quarter(q[1])
        return jnp.concatenate([carried, jnp.zeros(3, carried.dtype)])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point at the centre in space axes, the rotation in body axes."""
        none = jnp.zeros((1, 3), v.dtype)
        inertia = self.inertia * jnp.eye(3, dtype=v.dtype)
        centre = Points(self.mass[None], horizontal(v[3:])[None], none, none[0])
        return centre, Spins(inertia[None], v[:3][None], none)

    def invariants(
        self, t: Time, q: Configuration, u: Vector3, control: Control
    ) -> dict[str, Array]:
        z_dot = self.centre_velocity(q, u)
        vertical = jnp.dot(quaternion_matrix(q[0])[2], u)
        carried = self.mass * jnp.dot(quarter(q[1]), z_dot) + self.inertia * vertical
        kinetic = self.lagrangian(t, q, jnp.concatenate([u, z_dot]))
        return {
            "moving energy": kinetic - self.turn_rate * carried,
            "squared speed": jnp.dot(z_dot, z_dot),
            "vertical spin": vertical,
            "centre of the orbit": self.orbit_rate() * q[1] + quarter(z_dot),
        }

    # --- closed forms and other quantities of this system --------------------------------------

    @own_equations
    def orbit_rate(self) -> Scalar:
        """κ = n I/(I + m r²) [rad/s]."""
        return (
            self.turn_rate * self.inertia / (self.inertia + self.mass * self.radius * self.radius)
        )

    def centre_velocity(self, q: Configuration, u: Vector3) -> Float[Array, " 2"]:
        """ż = ω × r e_3 + n e_3 × z [m/s]."""
        omega = quaternion_matrix(q[0]) @ u
        return self.turn_rate * quarter(q[1]) - self.radius * quarter(omega[:2])

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """Ω̇ = (m r κ/I) Λᵀ ż: the torque of the friction m z̈. Arguments as for `jaxhamel.acceleration`."""
        torque = self.mass * self.radius * self.orbit_rate() * self.centre_velocity(q, u)
        return horizontal(torque / self.inertia) @ quaternion_matrix(q[0])

    @own_equations
    def solution(self, t: Time, q0: Configuration, u0: Vector3) -> Float[Array, " 2"]:
        """The exact position at time t after the state (q_0, u_0), for n ≠ 0:

        z = z_0 + (sin κt ż_0 + (1 − cos κt) e_3 × ż_0)/κ .
        """
        rate, start = self.orbit_rate(), self.centre_velocity(q0, u0)
        angle = rate * t
        along, across = jnp.sin(angle) / rate, (1.0 - jnp.cos(angle)) / rate
        return q0[1] + along * start + across * quarter(start)

    def centre(self, q: Configuration) -> Vector3:
        """The centre of the ball in space, (x, y, r) [m]."""
        return jnp.concatenate([q[1], self.radius[None]])
