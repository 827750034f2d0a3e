"""Positions, velocities and quasi-velocities of the parts of a Whipple bicycle, as functions of its parameters; the pitch
for which both wheels touch the ground.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Scalar, Vector3, Velocity
from jaxhamel.geometry import cross, hat, quaternion_matrix
from jaxhamel.geometry import quaternion_multiply as multiply
from jaxhamel.mechanics._description._parameters import inertia_matrix

_NEWTON_STEPS = 10  # for the pitch; five reach rounding for a lean and a steer of 1 rad


class Geometry(NamedTuple):
    """Vectors of the geometry at q, in the axes of the rear frame unless stated otherwise.

    - `up`: Γ, the vertical; `steered`: S, the rotation from fork axes to rear-frame axes.
    - `rear`, `front`: r d, from hub to point of contact; `front` in fork axes.
    - `steer_arm`: from the foot of the steer axis to the front point of contact, in fork axes.
    - `reach`: from the rear hub to the front point of contact.
    - `heading`: the horizontal unit vector perpendicular to the axle.
    """

    up: Vector3
    steered: Float[Array, "3 3"]
    rear: Vector3
    front: Vector3
    steer_arm: Vector3
    reach: Vector3
    heading: Vector3


def steer_axis(bicycle: Any) -> Vector3:
    """e, the unit vector along the steer axis, downwards, in the axes of the rear frame."""
    tilt = bicycle.steer_axis_tilt
    return jnp.stack([jnp.sin(tilt), jnp.zeros_like(tilt), -jnp.cos(tilt)])


def foot(bicycle: Any) -> Vector3:
    """The point at which the steer axis meets the ground, from the rear point of contact, for an upright bicycle."""
    zero = jnp.zeros_like(bicycle.trail)
    return jnp.stack([bicycle.wheel_base + bicycle.trail, zero, zero])


def rear_hub(bicycle: Any) -> Vector3:
    """The centre of the rear wheel from its point of contact, for an upright bicycle."""
    return bicycle.rear_radius * jnp.eye(3, dtype=bicycle.rear_radius.dtype)[2]


def front_hub(bicycle: Any) -> Vector3:
    """The centre of the front wheel from the foot of the steer axis, in axes of the fork."""
    return jnp.stack([-bicycle.trail, jnp.zeros_like(bicycle.trail), bicycle.front_radius])


def geometry(bicycle: Any, q: Configuration) -> Geometry:
    """The geometry at a configuration."""
    return geometry_of(bicycle, quaternion_matrix(q[0])[2], q[2][0])


def geometry_of(bicycle: Any, up: Vector3, steer: Scalar) -> Geometry:
    """The geometry from the vertical Γ in the axes of the rear frame and the steer angle δ, which determine it."""
    steered = rotation_about(steer_axis(bicycle), steer)
    rear, front = bicycle.rear_radius * down(up), bicycle.front_radius * down(up @ steered)
    steer_arm = front_hub(bicycle) + front
    reach = foot(bicycle) - rear_hub(bicycle) + steered @ steer_arm
    heading = cross(down(up), jnp.eye(3, dtype=up.dtype)[1])
    return Geometry(up, steered, rear, front, steer_arm, reach, heading)


def centres(bicycle: Any, q: Configuration) -> Float[Array, "4 3"]:
    """Centres of mass of R, B, H, F from the rear hub, rear frame's axes."""
    steered = rotation_about(steer_axis(bicycle), q[2][0])
    fork = jnp.stack([bicycle.fork_com - foot(bicycle), front_hub(bicycle)]) @ steered.T
    fork = fork + (foot(bicycle) - rear_hub(bicycle))[None]
    frame = bicycle.frame_com - rear_hub(bicycle)
    return jnp.concatenate([jnp.stack([jnp.zeros_like(frame), frame]), fork])


def velocities(
    bicycle: Any, q: Configuration, v: Velocity
) -> tuple[Float[Array, "4 3"], Float[Array, "4 3"]]:
    """The velocities of R, B, H, F in axes of the rear frame, and their angular velocities, each in its own body's axes."""
    omega, (steer, rear, front) = v[:3], q[2]
    axis, axle = steer_axis(bicycle), jnp.eye(3, dtype=v.dtype)[1]
    steered = rotation_about(axis, steer)
    of_fork = omega @ steered + v[6] * axis
    hub, on_axis = v[3:6] @ quaternion_matrix(q[0]), foot(bicycle)
    of_axis = hub + cross(omega, on_axis - rear_hub(bicycle))
    arms = jnp.stack([bicycle.fork_com - on_axis, front_hub(bicycle)])
    fork = of_axis[None] + jnp.stack([steered @ cross(of_fork, arm) for arm in arms])
    frame = hub + cross(omega, bicycle.frame_com - rear_hub(bicycle))
    velocity = jnp.concatenate([jnp.stack([hub, frame]), fork])
    of_rear = omega @ rotation_about(axle, rear) + v[7] * axle
    of_front = of_fork @ rotation_about(axle, front) + v[8] * axle
    return velocity, jnp.stack([of_rear, omega, of_fork, of_front])


def masses(bicycle: Any) -> Float[Array, " 4"]:
    """The masses of R, B, H, F."""
    return jnp.stack([bicycle.rear_mass, bicycle.frame_mass, bicycle.fork_mass, bicycle.front_mass])


def inertias(bicycle: Any) -> Float[Array, "4 3 3"]:
    """The inertias of R, B, H, F about their centres of mass."""
    given = (
        bicycle.rear_inertia,
        bicycle.frame_inertia,
        bicycle.fork_inertia,
        bicycle.front_inertia,
    )
    return jnp.stack([inertia_matrix(inertia) for inertia in given])


def down(up: Vector3) -> Vector3:
    """d: the unit vector across the axle e_2 that points down most."""
    x, _, z = jnp.unstack(up)
    return -jnp.stack([x, jnp.zeros_like(x), z]) / jnp.sqrt(x * x + z * z)


def up_at(lean: Scalar, pitch: Scalar) -> Vector3:
    """Γ in the axes of a rear frame that is leaned and then pitched."""
    across = jnp.cos(lean)
    return jnp.stack([-across * jnp.sin(pitch), jnp.sin(lean), across * jnp.cos(pitch)])


def rotation_about(axis: Vector3, angle: Scalar) -> Float[Array, "3 3"]:
    """cos θ + sin θ â + (1 − cos θ) a aᵀ (Rodrigues)."""
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    eye = jnp.eye(3, dtype=axis.dtype)
    return cos * eye + sin * hat(axis) + (1.0 - cos) * outer(axis, axis)


def outer(a: Array, b: Array) -> Array:
    """a bᵀ."""
    return a[:, None] * b[None, :]


def frame(bicycle: Any, q: Configuration) -> Float[Array, "9 9"]:
    """u = (slip of rear and front wheel, φ̇, δ̇, θ̇_R) on v = (Ω, ẋ_R, δ̇, θ̇_R, θ̇_F)."""
    at, rotation = geometry(bicycle, q), quaternion_matrix(q[0])
    eye = jnp.eye(9, dtype=rotation.dtype)
    none, axle, to_space = jnp.zeros_like(at.up), eye[1, :3], rotation @ at.steered
    rear = jnp.stack([none, rotation @ cross(axle, at.rear), none], axis=1)
    steering = to_space @ cross(steer_axis(bicycle), at.steer_arm)
    front = jnp.stack([steering, none, to_space @ cross(axle, at.front)], axis=1)
    return jnp.concatenate(
        [
            jnp.concatenate([-rotation @ hat(at.rear), eye[:3, :3], rear], axis=1),
            jnp.concatenate([-rotation @ hat(at.reach), eye[:3, :3], front], axis=1),
            jnp.concatenate([at.heading, jnp.zeros(6, rotation.dtype)])[None],
            eye[6:8],
        ]
    )


def inverse_frame(bicycle: Any, q: Configuration) -> Float[Array, "9 9"]:
    """B = A⁻¹. With Ω = φ̇ h + ψ̇ Γ + θ̇ a (heading, vertical, axle), c from contact to contact and

        ψ̇ Γ × c + θ̇ a × c + θ̇_F S (a × r_F d_F) = Λᵀ(s_F − s_R) − φ̇ h × c − δ̇ S (e × g) + θ̇_R a × r_R d_R

    only three equations have to be solved, those for the velocity of the front point of contact relative to the rear one.
    """
    at, rotation = geometry(bicycle, q), quaternion_matrix(q[0])
    eye = jnp.eye(9, dtype=rotation.dtype)
    axle, between = eye[1, :3], at.reach - at.rear
    turns = [cross(at.up, between), cross(axle, between), at.steered @ cross(axle, at.front)]
    dual = jnp.stack([cross(turns[i - 2], turns[i - 1]) for i in range(3)])
    steering = at.steered @ cross(steer_axis(bicycle), at.steer_arm)
    rolling = cross(axle, at.rear)
    given = jnp.stack([-cross(at.heading, between), -steering, rolling], axis=1)
    right = jnp.concatenate([-rotation.T, rotation.T, given], axis=1)
    yaw, pitch, front = (dual @ right) / jnp.dot(dual[0], turns[0])
    omega = outer(at.heading, eye[6]) + outer(at.up, yaw) + outer(axle, pitch)
    hub = eye[:3] + rotation @ (hat(at.rear) @ omega - outer(rolling, eye[8]))
    return jnp.concatenate([omega, hub, eye[7:], front[None]])


def pitch(bicycle: Any, lean: Scalar, steer: Scalar) -> Scalar:
    """θ of the rear frame about its axle [rad], positive nose down, for which both wheels touch the ground."""

    def front_height(pitch):
        at = geometry_of(bicycle, up_at(lean, pitch), steer)
        return jnp.dot(at.up, at.reach - at.rear)

    def newton(height, pitch):
        def step(_, pitch):
            value, slope = jax.jvp(height, (pitch,), (jnp.ones_like(pitch),))
            return pitch - value / slope

        return jax.lax.fori_loop(0, _NEWTON_STEPS, step, pitch)

    def divide(slope, right):
        return right / slope(jnp.ones_like(right))

    return jax.lax.custom_root(front_height, jnp.zeros_like(lean), newton, divide)


def configuration_on_ground(
    bicycle: Any,
    lean: Scalar,
    steer: Scalar,
    heading: Scalar,
    contact: Float[Array, " 2"],
    wheels: Float[Array, " 2"],
) -> Configuration:
    """The configuration in which both wheels touch the ground; all arguments of one dtype."""
    leaned = multiply(_turn_about(2, heading), _turn_about(0, lean))
    q = multiply(leaned, _turn_about(1, pitch(bicycle, lean, steer)))
    rotation = quaternion_matrix(q)
    hub = -rotation @ geometry_of(bicycle, rotation[2], steer).rear
    ground = jnp.concatenate([contact, jnp.zeros(1, contact.dtype)])
    return q, ground + hub, jnp.concatenate([steer[None], wheels])


def _turn_about(axis: int, angle: Scalar) -> Float[Array, " 4"]:
    """The quaternion of a turn about a coordinate axis."""
    half = 0.5 * angle
    vector = jnp.sin(half) * jnp.eye(3, dtype=half.dtype)[axis]
    return jnp.concatenate([jnp.cos(half)[None], vector])
