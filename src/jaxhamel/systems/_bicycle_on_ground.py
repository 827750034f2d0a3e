"""A Whipple bicycle with both wheels on the ground: its rear frame's pitch, which lean and steer determine."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Scalar
from jaxhamel.geometry import quaternion_matrix
from jaxhamel.geometry import quaternion_multiply as multiply
from jaxhamel.systems._bicycle_geometry import geometry_of, up_at

_NEWTON_STEPS = 10  # for the pitch; five reach rounding for a lean and a steer of 1 rad


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
