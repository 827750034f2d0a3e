"""The systems, controls and points of `derivatives.py`."""

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxhamel
from jaxhamel.systems import CircularRails, RollingBall, StraightRails

# Quaternion, ratio of two velocities, their scale.
ATTITUDES = {
    "identity": [1.0, 0, 0, 0, 0.7, 1.0],
    "half a turn": [0.0, 0, 1, 0, 0.7, 1.0],
    "1e-7 short of it": [5e-8, 0, 1, 0, 0.7, 1.0],
    "half a turn, −q": [0.0, -1, 0, 0, 0.7, 1.0],
    "at rest": [1.0, 0, 0, 0, 0.7, 0.0],
}

# Quaternion, speed, two masses, place on the rail, gravity, time.
BALLS = {
    "identity": [1.0, 0, 0, 0, 1, 1, 0.7, 0.9, 9.81, 0],
    "half a turn": [0.0, 1, 0, 0, 1, 1, 0.7, 0.9, 9.81, 0],
    "at rest": [1.0, 0, 0, 0, 0, 1, 0.7, 0.9, 9.81, 0],
    "a mass of zero": [1.0, 0, 0, 0, 1, 0, 0.7, 0.9, 9.81, 0],
    "coincident masses": [1.0, 0, 0, 0, 1, 1, 0.7, 0, 9.81, 0],
    "no gravity": [1.0, 0, 0, 0, 1, 1, 0.7, 0.9, 0, 0],
    "t₀ = 5": [1.0, 0, 0, 0, 1, 1, 0.7, 0.9, 9.81, 5],
}
SOME_BALLS = {name: BALLS[name] for name in ("identity", "at rest", "t₀ = 5")}


class Pendulum(jaxhamel.System):
    """q̈ = −k sin q + control."""

    stiffness: jax.Array
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 + self.stiffness * jnp.cos(q[0])

    def force(self, t, q, v, control):
        return jnp.zeros_like(v) if control is None else control


class Rod(jaxhamel.System):
    """A pendulum in Cartesian coordinates, whose length is kept by x v_x + y v_y = 0."""

    length: jax.Array
    space = jaxhamel.Euclidean(2)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v) - 9.81 * q[1]

    def frame(self, t, q):
        return jnp.stack([q, jnp.stack([-q[1], q[0]])])

    def holonomic(self, t, q):
        return (0.5 * (jnp.dot(q, q) - self.length**2))[None]


class Swing(eqx.Module):
    """The motion a sin(1 + t) of each mass of a ball."""

    amplitude: jax.Array

    def __call__(self, t):
        return self.amplitude * jnp.sin(1.0 + t)


def ball(rails, count, p, dtype):
    """A rolling ball with the first `count` masses of a point of `BALLS`."""
    shell = {
        "radius": 1.0,
        "shell_mass": 4.0,
        "shell_inertia": [1.0, 1.1, 1.2],
        "shell_com": [0, 0, -0.05],
    }
    shell = {name: jnp.asarray(value, dtype) for name, value in shell.items()}
    return RollingBall(**shell, masses=p[5 : 5 + count], rails=rails, gravity=p[8])


def circular(dtype, p):
    """Two rails about one axis; with the place 0 both masses are always at the same point."""
    normal = jnp.array([[0.0, -1.0, 0.0]] * 2, dtype)
    second = jnp.stack([jnp.cos(p[7]), 0 * p[7], jnp.sin(p[7])])
    zero = jnp.stack([jnp.array([1.0, 0, 0], dtype), second])
    return CircularRails(radius=jnp.full(2, 0.8, dtype), normal=normal, zero=zero), 2


def straight(dtype, p):
    """Two straight rails through the centre, along x and y."""
    del p
    direction = jnp.array([[1.0, 0, 0], [0, 1.0, 0]], dtype)
    return StraightRails(jnp.zeros((2, 3), dtype), direction), 2


def none(dtype, p):
    """A ball without rails and masses."""
    del p
    nothing = jnp.zeros((0, 3), dtype)
    return CircularRails(radius=jnp.zeros(0, dtype), normal=nothing, zero=nothing), 0
