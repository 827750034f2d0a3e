"""Random systems on R⁴ at one instant, with and without forces and constraints, and their coefficients by definition."""

import jax
import jax.numpy as jnp

from jaxhamel.geometry import Euclidean
from jaxhamel.mechanics import System
from tests.mechanics.random_systems import RandomSystem, random_system

N, M, NOW = 4, 2, 0.3


class Free(System):
    """A Lagrangian that is not quadratic and a frame, both random on R⁴ and taken at one instant, so that nothing
    depends on time."""

    base: RandomSystem
    space = Euclidean(N)

    def lagrangian(self, t, q, v):
        return self.base.lagrangian(NOW, q, v)

    def frame(self, t, q):
        return self.base.frame(NOW, q)


class Pushed(Free):
    def force(self, t, q, v, control):
        return self.base.force(NOW, q, v, control)


class Constrained(Pushed):
    n_constraints = M


class ConstrainedFree(Free):
    n_constraints = M


class Split(Constrained):
    """q = (s, r), the frame [[A_1, A_2], [0, 1]] of (26) and (3.2)."""

    def frame(self, t, q):
        return jnp.concatenate([self.base.frame(NOW, q)[:M], jnp.eye(N)[M:]])


def random_state(kind, seed=6):
    base, _, q, u = random_system(seed, Euclidean(N), kind.n_constraints)
    return kind(base), q, u


def frames(system, q):
    A = system.frame(0.0, q)
    return A, jnp.linalg.inv(A)


def by_definition(system, q):
    """γ^c_ab = (∂A^c_r/∂q^s − ∂A^c_s/∂q^r) B^r_a B^s_b: (12), (23), (2.6), (2.11)."""
    slope = jax.jacfwd(lambda q: system.frame(0.0, q))(q)  # [c, r, s]
    B = frames(system, q)[1]
    return jnp.einsum("crs,ra,sb->cab", slope - jnp.swapaxes(slope, 1, 2), B, B)


class Particle(System):
    """Rosenberg's particle, ż = y ẋ, in coordinates (z, x, y), with gravity along z if asked."""

    gravity: jax.Array
    space = Euclidean(3)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v) / 2 - self.gravity * q[0]

    def frame(self, t, q):
        return jnp.eye(3).at[0, 1].set(-q[2])
