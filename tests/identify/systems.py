"""Small systems with known answers, and data from their exact motion."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import identify
from jaxhamel.mechanics._description._parameters import parameter


class Particle(jaxhamel.System):
    """x'' = a - b x' / m on a line; with b = 0 the position is linear in (x0, v0, a)."""

    mass: jax.Array = parameter()
    thrust: jax.Array = parameter()
    drag: jax.Array = parameter(default=0.0)
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * v[0] ** 2

    def force(self, t, q, v, control):
        return jnp.stack([self.mass * self.thrust - self.drag * v[0]])


class Pendulum(jaxhamel.System):
    """A point mass on a rod, with viscous friction: m l^2 phi'' = -m g l sin phi - d phi'."""

    mass: jax.Array = parameter()
    length: jax.Array = parameter()
    damping: jax.Array = parameter()
    gravity: jax.Array = parameter(default=9.81)
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        kinetic = 0.5 * self.length**2 * v[0] ** 2
        return self.mass * (kinetic + self.gravity * self.length * jnp.cos(q[0]))

    def force(self, t, q, v, control):
        return -self.damping * v


ANGLE = identify.Coordinate(0, name="angle", columns=("angle",), noise=0.01)
PLACE = identify.Coordinate(
    0, name="place", columns=("place",), unit="m", noise=0.1, limit=float("inf")
)


def pendulum_run(seed, start=1.0, seconds=6.0, count=120, noise=0.01, name="run"):
    """A simulated run (to 1e-9) with uneven times, missing values and noise."""
    rng = np.random.default_rng(seed)
    ts = np.concatenate([[0.0], np.sort(rng.uniform(0.02, seconds, count - 1))])
    motion = jaxhamel.simulate(Pendulum(2.0, 0.5, 0.1), jnp.array([start]), jnp.array([0.5]), ts)
    angle = np.asarray(motion.q) + noise * rng.normal(size=(count, 1))
    angle[rng.uniform(size=count) < 0.1] = np.nan
    return identify.Run(ts, {"angle": angle}, name=name)
