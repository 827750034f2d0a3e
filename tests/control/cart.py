"""A cart pushed along a line, m ẍ = f(t). From rest to rest over the distance 1 in the time 1, the least ∫ f²/2 is J =
6 m², with f = m (6 − 12 t) (Bryson and Ho 1975, ch. 2: the double integrator)."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import control


class Cart(jaxhamel.System):
    mass: jax.Array
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.sum(v * v)

    def force(self, t, q, v, control):
        return control


class DrivenCart(Cart):
    """The cart with what the command line needs: the description of its mass, and its number of controls."""

    mass: jax.Array = jaxhamel.parameter("of the cart", "kg", (), positive=True, example=2.0)
    n_controls = 1


def least_energy(n_intervals=4, degree=3, **changes):
    """The problem of this module, with f a spline. The optimal f is a straight line, which the spline represents
    exactly."""
    curve = control.Spline.constant(jnp.zeros(1), 0.0, 1.0, n_intervals + degree, degree)
    arguments = {
        "q0": jnp.zeros(1),
        "u0": jnp.zeros(1),
        "ts": jnp.linspace(0.0, 1.0, n_intervals + 1),
        "curve": curve,
        "costs": (control.ControlEnergy(),),
        "constraints": (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)),),
    }
    return control.ControlProblem(**({"system": Cart(jnp.array(1.0))} | arguments | changes))


def error_of_force(curve) -> float:
    ts = np.linspace(0.0, 1.0, 7)
    return float(np.max(np.abs(jax.vmap(curve)(ts)[:, 0] - (6 - 12 * ts))))
