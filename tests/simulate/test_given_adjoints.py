"""diffrax's adjoints with ordinary and group solvers: reverse mode, forward mode and Richardson's extrapolation agree."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel.geometry as geo
from jaxhamel.simulate import LieGroup, simulate
from tests.simulate.small_systems import Body, Pendulum

X, ALONG = np.array([1.2, 0.7]), np.array([0.6, -0.8])
STEPS = {"dt": 0.2, "max_steps": 2}
DIRECT = diffrax.DirectAdjoint(), diffrax.DirectAdjoint()
ONE_MODE = diffrax.ForwardMode(), diffrax.RecursiveCheckpointAdjoint()


def body(x, **options):
    """A number of the final state, as a function of a moment of inertia and the size of Ω. The steps end between two
    times."""
    u0 = x[1] * jnp.array([0.5, 1.0, -0.3])
    q0, inertia = jnp.array([0.6, 0.0, 0.8, 0.0]), jnp.stack([x[0], 0 * x[0] + 1.5, 0 * x[0] + 2])
    path = simulate(Body(inertia), q0, u0, [0.0, 0.3], **STEPS, **options)
    return path.q[-1, 1] + path.q[-1, 0] * path.q[-1, 2] + jnp.sum(path.u[-1] ** 2)


def pendulum(x, **options):
    path = simulate(Pendulum(x[0]), jnp.array([0.5]), x[1:], [0.0, 0.3], **STEPS, **options)
    return path.q[-1, 0] + path.u[-1, 0] ** 2


@eqx.filter_jit
def differentiated(motion, solver, forward, reverse, x):
    """Value and gradient by reverse mode, and the derivative along `ALONG` by forward mode."""
    of = lambda adjoint: lambda x: motion(x, solver=solver, adjoint=adjoint)
    slope = jax.jvp(of(forward), (x,), (jnp.asarray(ALONG),))[1]
    return jax.value_and_grad(of(reverse))(x), slope


@pytest.mark.parametrize(
    ("motion", "solver", "adjoints"),
    [
        (pendulum, diffrax.Heun(), DIRECT),
        (body, LieGroup(diffrax.Heun(), geo.SO3()), DIRECT),
        (body, LieGroup(diffrax.Heun(), geo.SO3()), ONE_MODE),
    ],
    ids=["Heun", "LieGroup", "LieGroup, one mode each"],
)
def test_reverse_is_forward_is_richardson(motion, solver, adjoints):
    """Extrapolated differences over h and h/2 have errors of order h⁴."""
    at = lambda x: differentiated(motion, solver, *adjoints, jnp.asarray(x))
    value = lambda x: float(at(x)[0][0])
    central = lambda h: np.array([value(X + h * e) - value(X - h * e) for e in np.eye(2)]) / (2 * h)
    wanted = (4 * central(0.005) - central(0.01)) / 3
    (_, gradient), slope = at(X)
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-9)
    np.testing.assert_allclose(slope, wanted @ ALONG, rtol=0, atol=1e-9)
