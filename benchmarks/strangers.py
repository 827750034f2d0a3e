"""Systems as mechanical engineers write them, each once slower than the equations by hand, or an error."""

import jax
import jax.numpy as jnp
import numpy as np
from families import Case

import jaxhamel


class Lattice(jaxhamel.System):
    """Masses in the plane with springs between the pairs: ½ k Σ (|x_i − x_j| − l)². The pairs are an array of integers."""

    pairs: np.ndarray
    lengths: np.ndarray
    masses: jax.Array
    stiffness: jax.Array

    @property
    def space(self):
        return jaxhamel.Euclidean(2 * self.masses.size)

    def lagrangian(self, t, q, v):
        x, pairs = q.reshape(-1, 2), jnp.asarray(self.pairs)

        def energy(pair, length):
            return 0.5 * (jnp.linalg.norm(x[pair[0]] - x[pair[1]]) - length) ** 2

        stored = jnp.sum(jax.vmap(energy)(pairs, jnp.asarray(self.lengths)))
        return 0.5 * jnp.sum(jnp.repeat(self.masses, 2) * v**2) - self.stiffness * stored


def lattice_by_hand(t, y, constants):
    """m ẍ_i = −k Σ (|d| − l) d/|d|, d = x_i − x_j."""
    pairs, lengths, masses, stiffness = constants
    q, v = jnp.split(y, 2)
    x = q.reshape(-1, 2)
    between = x[pairs[:, 0]] - x[pairs[:, 1]]
    distance = jnp.sqrt(jnp.sum(between**2, axis=1))
    force = (stiffness * (distance - lengths) / distance)[:, None] * between
    total = jnp.zeros_like(x).at[pairs[:, 0]].add(-force).at[pairs[:, 1]].add(force)
    return jnp.concatenate([v, (total / masses[:, None]).ravel()])


def lattice(side: int) -> Case:
    """side² masses with springs to their neighbours, also along the diagonals; all springs are five per cent too long."""
    places = np.stack(np.meshgrid(*[np.arange(side)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    pairs = np.argwhere(np.triu(apart < 1.5, 1))
    constants = pairs, apart[tuple(pairs.T)], jnp.linspace(1.0, 2.0, side**2), jnp.array(50.0)
    q = 1.05 * places.ravel()
    return Case(
        f"lattice {side} × {side}", "named", q.size, Lattice(*constants), q, np.zeros(q.size),
        lattice_by_hand, constants,
    )  # fmt: skip


class GearTrain(jaxhamel.System):
    """Shafts of which each turns in a ratio to the one before it, by linear equations, and a load on a spring."""

    ratios: jax.Array
    inertias: jax.Array

    space = jaxhamel.Euclidean(2)

    def lagrangian(self, t, q, v):
        n = self.inertias.size
        matrix = jnp.eye(n) - jnp.diag(self.ratios, -1)
        angles, rates = (jnp.linalg.solve(matrix, jnp.zeros(n).at[0].set(x[0])) for x in (q, v))
        kinetic = 0.5 * jnp.sum(self.inertias * rates**2) + v[1] ** 2
        return kinetic - 50.0 * (q[1] - angles[-1]) ** 2 + 10.0 * jnp.cos(q[1])


def gear_train_by_hand(t, y, constants):
    ratios, inertias = constants
    first, load = y[0], y[1]
    products = jnp.concatenate([jnp.ones(1), jnp.cumprod(ratios)])
    force = 100.0 * (load - products[-1] * first)
    turning = products[-1] * force / jnp.sum(inertias * products**2)
    return jnp.stack([y[2], y[3], turning, -(force + 10.0 * jnp.sin(load)) / 2.0])


def gear_train(shafts: int) -> Case:
    constants = jnp.linspace(-1.2, -0.8, shafts - 1), jnp.linspace(1.0, 0.1, shafts)
    start = np.array([0.0, 0.3]), np.array([1.0, 0.5])
    name = f"gear train of {shafts} shafts"
    return Case(name, "named", 2, GearTrain(*constants), *start, gear_train_by_hand, constants)


def strangers() -> list[Case]:
    return [lattice(5), lattice(8), gear_train(4), gear_train(12)]
