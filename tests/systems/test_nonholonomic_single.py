"""Each nonholonomic system in single precision: closed form, invariants, acceleration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import systems

TURNED = [0.8, 0.5, 0.2, np.sqrt(0.07)]
CASES = {
    "sleigh": (lambda: systems.ChaplyginSleigh(2.0, 0.3, 0.4), [0.3, 0.1, 0.2], 2),
    "knife edge": (lambda: systems.KnifeEdge(2.0, 0.3, 0.4), [0.3, 0.1, 0.2], 2),
    "sphere": (lambda: systems.ChaplyginSphere(1, 1, [1, 2, 3]), (TURNED, [0.1, 0.2]), 3),
    "turntable": (lambda: systems.BallOnTurntable(0.5, 2, 0.2, 3), (TURNED, [0.1, 0.2]), 3),
    "no spin": (lambda: systems.NonSpinningBall(0.5, 2, [0.2, 0.3, 0.4]), (TURNED, [0.1, 0.2]), 2),
    "disk": (lambda: systems.RollingDisk(0.5, 2), (TURNED, [0.1, 0.2, 0.4]), 3),
    "rattleback": (
        lambda: systems.Rattleback([3, 2, 1.5], 1, [1, 2, 2.5], [0, 0, 0.3], 0.1),
        (TURNED, [0.1, 0.2, 0.4]),
        3,
    ),
    "water": (
        lambda: systems.UnderwaterBody(1, [1, 2, 2.5], np.eye(6), 0.9),
        [*TURNED, 0.1, 0.2, 0.3],
        6,
    ),
}


def made(name):
    make, q, k = CASES[name]
    is_list = lambda x: isinstance(x, list)
    return make(), jax.tree.map(jnp.array, q, is_leaf=is_list), 0.3 + jnp.arange(k) / k


@jax.jit
def everything(system, q, u):
    rate = jaxhamel.acceleration(system, 0.0, q, u)
    return rate, system.closed_form(0.0, q, u), system.invariants(0.0, q, u, None)


@pytest.mark.parametrize("name", CASES)
def test_single_precision(float32, name):
    system, q, u = made(name)
    rate, closed, kept = everything(system, q, u)
    assert {x.dtype for x in jax.tree.leaves((rate, closed, kept))} == {np.dtype("float32")}
    np.testing.assert_allclose(rate, closed, rtol=1e-5, atol=1e-5)
