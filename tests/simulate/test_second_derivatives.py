"""Second derivatives through AutoAdjoint in four orders of modes, against differences of first derivatives."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.simulate import AutoAdjoint, simulate
from tests.simulate.small_systems import Pendulum, Sines

AMPLITUDES = jnp.array([0.3, -0.2])
COLUMNS = AutoAdjoint(forward_up_to=1000, tape_from=1001)
CHECKPOINTS = AutoAdjoint(forward_up_to=0)


def loss(a, adjoint=None):
    """A cost after four steps. The derivative of the discrete solution is exact, however coarse the steps are."""
    path = simulate(
        Pendulum(jnp.asarray(2.0)), [0.5], [0.1], [0.0, 1.0], Sines(a),
        dt=0.25, max_steps=4, solver=diffrax.Heun(), adjoint=adjoint,
    )  # fmt: skip
    return jnp.sum(path.q[-1] ** 2) + jnp.sum(path.u[-1] ** 3)


SECOND = {
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
}


@pytest.fixture(scope="module")
def hessian():
    h = 1e-4
    f = jax.jit(jax.vmap(lambda d: jax.jacfwd(loss)(AMPLITUDES + d)))
    steps = h * jnp.eye(2)
    return np.asarray((f(steps) - f(-steps)) / (2 * h))


@pytest.mark.parametrize(
    ("order", "adjoint"),
    [
        ("forward over forward", COLUMNS),
        ("forward over reverse", COLUMNS),
        ("forward over reverse", CHECKPOINTS),
        ("reverse over forward", COLUMNS),
        ("reverse over reverse", COLUMNS),
    ],
)
def test_second_derivatives(order, adjoint, hessian):
    got = jax.jit(SECOND[order](lambda a: loss(a, adjoint)))(AMPLITUDES)
    np.testing.assert_allclose(got, hessian, atol=1e-6)


def test_reverse_twice_around_a_loop(hessian):
    """Reverse mode twice through a `scan` gives the Hessian, although JAX then splits the loop and drops `custom_jvp`
    rules in it."""

    def piece(y, ts, a):
        given = Pendulum(jnp.asarray(2.0)), y[:1], y[1:], ts, Sines(a)
        path = simulate(*given, dt=0.25, max_steps=2, solver=diffrax.Heun())
        return jnp.concatenate([path.q[-1], path.u[-1]])

    def end(a):
        pieces = jnp.array([[0.0, 0.5], [0.5, 1.0]])
        y, _ = jax.lax.scan(lambda y, ts: (piece(y, ts, a), None), jnp.array([0.5, 0.1]), pieces)
        return jnp.sum(y[0] ** 2) + jnp.sum(y[1] ** 3)

    twice = jax.jit(jax.jacrev(jax.jacrev(end)))(AMPLITUDES)
    np.testing.assert_allclose(twice, hessian, atol=1e-6)
