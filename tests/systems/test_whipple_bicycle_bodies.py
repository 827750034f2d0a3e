"""The Whipple bicycle against four free bodies with hinges, whose equations share only the parameters with the package."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.mechanics import ROUTES, Constant, velocity
from jaxhamel.systems import WhippleBicycle
from tests.reference import bicycle as reference_bicycle
from tests.systems.cases import ALL

STATES = 24
SHORT = ("gauss", "multipliers")
TORQUES = jnp.array([5.0, -0.7, 3.0])
FAST_TO_COMPILE = {"xla_backend_optimization_level": 0}
CROOKED = next(case for case in ALL if case.make is WhippleBicycle)


def random_states(system):
    """On the ground, lean up to 1.2 rad and steer up to 1.5 rad either way, wheels turned, rates of several rad/s."""
    rng = np.random.default_rng(31)
    lean, steer = rng.uniform(-1.2, 1.2, STATES), rng.uniform(-1.5, 1.5, STATES)
    heading, wheels = rng.uniform(-3, 3, STATES), rng.uniform(-9, 9, (STATES, 2))
    place = lambda lean, steer, heading, wheels: system.configuration(
        lean, steer, heading, jnp.array([0.3, -0.2]), wheels
    )
    q = jax.jit(jax.vmap(place))(*map(jnp.asarray, (lean, steer, heading, wheels)))
    return q, jnp.asarray(rng.normal(size=(STATES, 3)) * [2, 2, 12])


@pytest.fixture(scope="module")
def program():
    """v, u̇ by two routes and the forces of the ground, of all states.

    The third, Boltzmann and Hamel's, takes 8 s to compile and is compared with these two at random states by
    `test_systems_every`; here it was 4e-13 from the bodies once.
    """

    def one(system, q, u, torques):
        control = Constant(torques)
        rates = {
            name: route(system, 0.0, q, u, control)
            for name, route in ROUTES.items()
            if name in SHORT
        }
        forces = system.contact_forces(0.0, q, u, control)
        return velocity(system, 0.0, q, u), rates, forces, system.contact_points(q)

    of_all = jax.vmap(one, in_axes=(None, 0, 0, None))
    return jax.jit(of_all, compiler_options=FAST_TO_COMPILE)


@pytest.mark.parametrize("make", [WhippleBicycle.benchmark, CROOKED], ids=["benchmark", "crooked"])
def test_four_bodies_on_hinges(program, make):
    """Velocities of hub and wheels, u̇, and both forces of the ground, to 1e-11 of their size."""
    system = make()
    q, u = random_states(system)
    v, rates, forces, contacts = program(system, q, u, TORQUES)
    np.testing.assert_allclose(contacts[:, :, 2], 0.0, atol=1e-13)
    parts, at = jax.tree.map(np.asarray, (system, (q, u)))
    bodies = []
    for i in range(STATES):
        one_q, one_u = jax.tree.map(lambda x, i=i: x[i], at)
        bodies.append(reference_bicycle.motion(parts, one_q, one_u, np.asarray(TORQUES)))
    hubs = np.stack([motion.w[0, 0] for motion in bodies])
    assert_close(v[:, 3:6], hubs)
    wanted = np.stack([motion.u_dot for motion in bodies])
    for name, found in rates.items():
        assert_close(found, wanted, name)
    assert_close(forces, np.stack([motion.ground for motion in bodies]))


def assert_close(found, wanted, name=""):
    """Compares each state to 1e-11 of its own size."""
    found, wanted = (np.reshape(x, (STATES, -1)) for x in (found, wanted))
    size = 1 + np.max(np.abs(wanted), axis=1)
    worst = np.max(np.max(np.abs(found - wanted), axis=1) / size)
    assert worst < 1e-11, (name, worst)
