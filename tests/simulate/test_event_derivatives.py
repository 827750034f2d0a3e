"""Derivatives of events, and events on groups."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel.geometry as geo
from jaxhamel.simulate import AutoAdjoint, LieGroup, simulate
from tests.simulate.small_systems import Body
from tests.simulate.test_event import GRAVITY, HIGH, SPEED, UP, above, thrown

X = jnp.array([SPEED, GRAVITY])


@pytest.mark.parametrize(
    "adjoint", [AutoAdjoint(tape_from=10), AutoAdjoint()], ids=["columns", "tape"]
)
def test_derivatives_of_a_real_event(adjoint):
    """Derivatives of the event time t = (v − √(v² − 2 g h))/g and of the final velocity by v and g."""

    def end(x):
        event = lambda t, q, u: q[0] - HIGH
        path = thrown(event, speed=x[0], gravity=x[1], max_steps=16, adjoint=adjoint)
        return path.t_end + path.u_end[0]

    root = np.sqrt(SPEED**2 - 2 * GRAVITY * HIGH)  # velocity at the end
    by_speed = (1 - SPEED / root) / GRAVITY + SPEED / root
    by_gravity = HIGH / (GRAVITY * root) - UP / GRAVITY - HIGH / root
    np.testing.assert_allclose(jax.jit(jax.grad(end))(X), [by_speed, by_gravity], rtol=1e-12)


def test_the_time_of_a_boolean_has_no_derivative_and_the_rest_has():
    """In both modes, results before a Boolean event have derivatives; its time and the final state have NaN."""

    def motion(speed):
        path = thrown({"above": above}, speed=speed, ts=(0.0, 0.05, 2.0))
        return jnp.stack([path.q[1, 0], path.t_end, path.q_end[0], path.u_end[0]])

    forward = jax.jit(jax.jacfwd(motion))(X[0])
    np.testing.assert_allclose(forward[0], 0.05, rtol=1e-13)
    assert np.isnan(forward[1:]).all()
    reverse = jax.jit(jax.jacrev(motion))(X[0])
    np.testing.assert_allclose(reverse[0], 0.05, rtol=1e-13)
    assert np.isnan(reverse[1:]).all()


def test_an_event_at_the_start_has_derivatives():
    """In one batch in reverse mode, a Boolean that holds at the start, and one that becomes true later."""

    def end(x, start):
        path = thrown(above, x, ts=jnp.stack([start, start + 0.2]), max_steps=16)
        return path.t_end * 2 + path.q_end[0] ** 2

    by = jax.jit(jax.vmap(jax.grad(end, (0, 1))))(jnp.array([0.3, 0.0]), jnp.array([1.0, 1.0]))
    np.testing.assert_allclose(by, [[0.6, np.nan], [2.0, np.nan]], rtol=1e-14)


@pytest.mark.parametrize(
    ("solver", "dt", "tolerance"),
    [(None, None, 1e-9), (LieGroup(diffrax.Tsit5(), geo.SO3()), 0.3, 1e-13)],
    ids=["Projected, adaptive", "LieGroup, fixed"],
)
def test_on_a_group(solver, dt, tolerance):
    """A body turns about a principal axis with 1.3 rad/s, so its second axis is below the plane after half a turn."""

    def below(t, q, u):
        return geo.quaternion_matrix(q)[2, 1] < 0

    body = Body(jnp.array([1.0, 2.0, 3.0]))
    path = simulate(
        body, [1.0, 0, 0, 0], [1.3, 0, 0], [0.1, 4.0], solver=solver, dt=dt, event={"below": below}
    )
    np.testing.assert_allclose(path.t_end - 0.1, np.pi / 1.3, atol=tolerance)
    assert bool(path.event["below"])
