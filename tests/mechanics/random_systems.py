"""Random mechanical systems on any space: Lagrangian, frame, drift, force, all with random smooth coefficients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System


def features(t, q):
    """Smooth functions of time and configuration, made of stored coordinates, which are global, so angles need no
    wrapping."""
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(q)]
    return jnp.concatenate([*leaves, jnp.stack([jnp.sin(t), jnp.cos(2 * t)])])


class RandomSystem(System):
    """L = ½ vᵀ M v + b·v + ε Σ (w·v)⁴ − V with M, b, w, V, A, a and Q random functions of (t, q)."""

    space: AbstractSpace
    weights: dict
    quartic: jax.Array
    n_constraints: int = eqx.field(static=True)

    def _field(self, name, t, q):
        w = self.weights[name]
        return jnp.tensordot(w["out"], jnp.sin(w["in"] @ features(t, q) + w["shift"]), axes=1)

    def lagrangian(self, t, q, v):
        n = self.space.dim
        field = self._field("energy", t, q)  # all fields at once take a third fewer operations
        products = field[:-1].reshape(n + 2, n) @ v  # R v, b·v, w·v
        stretched = v + 0.3 * products[:n]  # M = (1 + 0.3 R)ᵀ(1 + 0.3 R)
        kinetic = 0.5 * jnp.dot(stretched, stretched) + products[n]
        return kinetic + self.quartic * products[n + 1] ** 4 - field[-1]

    def frame(self, t, q):
        return jnp.eye(self.space.dim) + 0.3 * self._field("frame", t, q)

    def drift(self, t, q):
        return self._field("drift", t, q)

    def force(self, t, q, v, control):
        damping = 0.1 * v
        return self._field("force", t, q) - damping + (0.0 if control is None else control)


def random_weights(generator, space, sizes, batch, hidden):
    """Coefficients of random fields out·sin(in·features + shift); `sizes` maps each name to the shape of its field."""
    normal = lambda *shape: generator.normal(size=(*batch, *shape))
    leaves = jax.tree.leaves(space.identity(jnp.float64))
    n_features = sum(leaf.size for leaf in leaves) + 2
    return {
        name: {
            "in": jnp.asarray(normal(hidden, n_features)),
            "shift": jnp.asarray(normal(hidden)),
            "out": jnp.asarray(normal(*size, hidden) / (space.dim * hidden) ** 0.5),
        }
        for name, size in sizes.items()
    }


def random_system(seed, space, n_constraints, batch=(), hidden=6):
    """A random system, or a batch of them, with a random state (t, q, u) of each. The numbers come from NumPy, so
    nothing is compiled."""
    n = space.dim
    generator = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(generator.normal(size=(*batch, *shape)))
    sizes = {"energy": ((n + 2) * n + 1,), "frame": (n, n), "drift": (n,), "force": (n,)}
    weights = random_weights(generator, space, sizes, batch, hidden)
    exp = lambda delta: space.exp(delta)
    for _ in batch:
        exp = jax.vmap(exp)
    spaces = jax.tree.map(lambda leaf: jnp.asarray(np.full(batch, leaf)), space)  # also a pitch
    quartic = jnp.asarray(np.full(batch, 0.05))
    system = RandomSystem(
        space=spaces, weights=weights, quartic=quartic, n_constraints=n_constraints
    )
    return system, normal(), jax.jit(exp)(normal(n)), normal(n - n_constraints)
