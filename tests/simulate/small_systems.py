"""Small systems for the tests of `simulate`, which compile fast."""

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxhamel.geometry as geo
from jaxhamel.mechanics import System


class Pendulum(System):
    """q̈ = −k sin q + control."""

    stiffness: jax.Array
    space = geo.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 + self.stiffness * jnp.cos(q[0])

    def force(self, t, q, v, control):
        return jnp.zeros_like(v) if control is None else jnp.atleast_1d(control)

    def invariants(self, t, q, u, control):
        return {"energy": 0.5 * u[0] ** 2 - self.stiffness * jnp.cos(q[0])}


class Runaway(System):
    """q̈ = 2 q³: q = 1/(1 − t) from q(0) = q̇(0) = 1, infinite at t = 1."""

    space = geo.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 + 0.5 * q[0] ** 4


class Body(System):
    """A free rigid body with attitude q and body angular velocity Ω."""

    inertia: jax.Array
    space = geo.SO3()

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(self.inertia * v * v)


class Rolling(System):
    """A coin rolling in a plane seen from above: SE(2) with one constraint, no sideways slip."""

    mass: jax.Array
    space = geo.SE2()
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.sum(v * v)

    def frame(self, t, q):
        return jnp.eye(3, dtype=q.dtype)[jnp.array([2, 0, 1])]


class Sines(eqx.Module):
    """The control Σ aₖ sin(k t)."""

    a: jax.Array

    def __call__(self, t):
        k = jnp.arange(1.0, self.a.shape[0] + 1.0, dtype=self.a.dtype)
        return jnp.sum(self.a * jnp.sin(k * t))
