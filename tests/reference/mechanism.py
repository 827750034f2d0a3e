"""A plane mechanism, given by its centres of mass, its angles and the closed loops of its constraints."""

import jax
import jax.numpy as jnp

from jaxhamel import System


class Mechanism(System):
    """L = ½ Σ m |ċ|² + ½ Σ J θ̇² − V(q), holonomic constraints g(q) = 0 by their one-forms ∂g/∂q, and u = q̇_1."""

    def lagrangian(self, t, q, v):
        moving, turning = (jax.jvp(of, (q,), (v,))[1] for of in (self.centres, self.angles))
        twice = jnp.sum(self.masses * jnp.sum(moving**2, axis=1))
        return 0.5 * (twice + jnp.sum(self.inertias * turning**2)) - self.potential(q)

    def frame(self, t, q):
        first = jnp.eye(self.space.dim, dtype=q.dtype)[: self.n_independent]
        return jnp.concatenate([jax.jacfwd(self.loops)(q), first])


def unit(angle):
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def quarter(x):
    """A vector rotated by a right angle."""
    return jnp.stack([-x[1], x[0]])
