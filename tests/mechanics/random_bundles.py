"""Random systems on G × R^m with a left-invariant kinetic energy, and the groups they are tested on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SE3, SO2, SO3, Euclidean, Product
from jaxhamel.mechanics import System

GROUPS = [SO2(), SO3(), SE2(), SE3(), Product(SO3(), Euclidean(1))]
by_group = pytest.mark.parametrize("group", GROUPS, ids=[type(g).__name__ for g in GROUPS])
SHAPE = 2


class Bundle(System):
    """L = ½ v·M(t, r) v + b(t, g, r)·v − V(t, g, r), M, b, V and Q random; b, V and Q may break the symmetry.

    `gyroscopic` scales b, `broken` what V and Q have of g.
    """

    space: Product
    weights: dict
    gyroscopic: jax.Array
    broken: jax.Array

    def _field(self, name, t, q):
        """A smooth random function of t, r and `broken` times g."""
        w = self.weights[name]
        leaves = jax.tree.leaves(q[0])
        stored = jnp.concatenate([jnp.ravel(leaf) for leaf in leaves]) * self.broken
        features = jnp.concatenate([q[1], jnp.sin(t)[None], stored])
        return jnp.tensordot(w["out"], jnp.sin(w["in"] @ features + w["shift"]), axes=1)

    def lagrangian(self, t, q, v):
        locked = jax.tree.map(jnp.zeros_like, q[0]), q[1]  # M must not depend on g
        root = self._field("mass", jnp.asarray(t), locked)
        stretched = v + 0.4 * root @ v
        field = self._field("gyro and potential", jnp.asarray(t), q)
        linear = self.gyroscopic * jnp.dot(field[:-1], v)
        return 0.5 * jnp.dot(stretched, stretched) + linear - field[-1]

    def force(self, t, q, v, control):
        damping = 0.1 * v
        return self._field("force", t, q) - damping + (0.0 if control is None else control)


def random_bundle(seed, group, gyroscopic=1.0, broken=1.0):
    """A system on G × R² and a state (t, q, v). The numbers come from NumPy, so nothing is compiled."""
    space = Product(group, Euclidean(SHAPE))
    n = space.dim
    generator = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(generator.normal(size=shape))
    stored = sum(leaf.size for leaf in jax.tree.leaves(group.identity(jnp.float64)))
    shapes = {"mass": (n, n), "gyro and potential": (n + 1,), "force": (n,)}
    weights = {
        name: {
            "in": normal(3, SHAPE + 1 + stored),
            "shift": normal(3),
            "out": normal(*shape, 3) / (3 * n) ** 0.5,
        }
        for name, shape in shapes.items()
    }
    system = Bundle(space, weights, jnp.asarray(gyroscopic), jnp.asarray(broken))
    q = (group.exp(normal(group.dim)), normal(SHAPE))
    return system, jnp.asarray(0.3), q, normal(n)
