"""Derivatives of the ball's Ω̇ at difficult points, against complex steps through the NumPy reference.

First derivatives by a complex step are exact to rounding; second ones are Richardson's extrapolations of these.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SO3
from jaxhamel.mechanics import acceleration
from tests.reference import ball as rb
from tests.reference.integrator import complex_step
from tests.systems.ball import package_of, random_balls, reference_of

WEIGHTS = np.array([0.6, 0.2, -0.4])
FIXED = 8  # numbers of x before the masses
POINTS = ("identity", "half a turn", "at rest", "zero mass", "coincident masses", "g = 0", "t = 5")


def hard(kind, n):
    """A batch of balls, one per point, or one ball at the identity; and the times."""
    size = len(POINTS) if n and kind == "circular" else 1
    ball, rails, waves, (q, _, omega) = random_balls(
        np.random.default_rng(3), size, n, kind, principal=True, pushed=False
    )
    q[0], times = [1, 0, 0, 0], np.zeros(size)
    if size > 1:
        q[1], omega[2], times[6] = [0, 0.6, 0, 0.8], 0, 5
        ball["masses"][3, 0], ball["gravity"][5] = 0, 0
        for pair in (*rails, *waves):
            pair[4, 1] = pair[4, 0]
    return ball, rails, waves, q, omega, times


def moved(x, ball, waves, omega):
    """Parameters changed by x: gravity, Ω, the amplitude of all masses, (attitude,) masses."""
    offset, amplitude, frequency, phase = waves
    changed = {"gravity": ball["gravity"] + x[..., 0], "masses": ball["masses"] + x[..., FIXED:]}
    return ball | changed, (offset, amplitude + x[..., 4:5], frequency, phase), omega + x[..., 1:4]


def package_value(kind, x, ball, rails, waves, q, omega, t):
    ball, (offset, amplitude, frequency, phase), omega = moved(x, ball, waves, omega)
    control = lambda t: offset + amplitude * jnp.sin(frequency * t + phase)
    at = (SO3().retract(q, x[5:FIXED]), jnp.zeros(2)), omega, control
    return jnp.dot(jnp.asarray(WEIGHTS), acceleration(package_of(ball, rails, kind), t, *at))


@partial(jax.jit, static_argnums=0)
def derivatives(kind, v, points):
    """The gradient in reverse mode, and the Hessian times v by forward mode over it, at each point."""

    def at(point):
        gradient = jax.grad(lambda x: package_value(kind, x, *point))
        return jax.jvp(gradient, (jnp.zeros(v.shape),), (v,))

    return jax.vmap(at)(points)


def reference_gradient(kind, point, x):
    """The gradient by complex steps; the time is part of the phase."""

    def value(xs):
        ball, rails, waves, q, omega, t = jax.tree.map(
            lambda a: np.broadcast_to(a, (len(xs), *np.shape(a))), point
        )
        ball, (*others, phase), omega = moved(xs, ball, waves, omega)
        waves = (*others, phase + others[-1] * t[:, None])
        made, motion = reference_of(ball, rails, waves, kind)
        turned = q + rb.quaternion_rate(q + 0 * xs[:, :1], xs[:, 5:FIXED])
        return rb.omega_rate(made, turned, omega, motion(0.0)) @ WEIGHTS

    return complex_step(value, x)


@pytest.mark.parametrize(("kind", "n"), [("circular", 2), ("straight", 2), ("none", 0)])
def test_derivatives_at_hard_points(kind, n):
    batch = hard(kind, n)
    v = np.random.default_rng(4).normal(size=FIXED + n)
    v[5:FIXED] = 0  # at a fixed attitude the derivatives by it need no second chart
    first, second = derivatives(kind, v, jax.tree.map(jnp.asarray, batch))
    for i in range(len(batch[-1])):
        gradient = partial(reference_gradient, kind, jax.tree.map(lambda a, i=i: a[i], batch))
        slope = lambda h, g=gradient: (g(h * v) - g(-h * v)) / (2 * h)
        close(first[i], gradient(0 * v), 1e-12)
        close(second[i], (4 * slope(5e-4) - slope(1e-3)) / 3, 1e-9)


def close(got, wanted, tolerance):
    """Compares to `tolerance` of the largest entry."""
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * np.max(np.abs(wanted)))
