"""`simulate` integrates the state as one vector if it can, with the trajectories and derivatives of the structured
state."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel._lanes._derivatives import _linear_map
from jaxhamel.geometry import SO3
from jaxhamel.simulate._one_vector import VectorLayout, can_be_one_vector
from tests.simulate.small_systems import Body

BODY = Body(jnp.array([1.0, 2.0, 3.5]))
Q0, U0 = jnp.array([0.8, 0.0, 0.6, 0.0]), jnp.array([0.1, 2.0, -0.3])
TS = jnp.linspace(0.0, 1.0, 4)
COLUMNS = jaxhamel.AutoAdjoint(tape_from=1000)
STRUCTURED = jaxhamel.Projected(
    diffrax.Tsit5(), SO3()
)  # a solver wrapped by the user keeps the structure (q, u)


def motion(inertia=BODY.inertia, u0=U0, **options):
    return jaxhamel.simulate(Body(inertia), Q0, u0, TS, **options)


def test_a_layout_goes_there_and_back():
    y = ({"a": np.arange(6.0).reshape(2, 3), "b": np.array(7.0)}, np.zeros(0), np.arange(2.0))
    layout = VectorLayout.of(y)
    np.testing.assert_array_equal(layout.vector(y), [0, 1, 2, 3, 4, 5, 7, 0, 1])
    many = layout.parts(jnp.stack([layout.vector(y)] * 5))
    for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(y), strict=True):
        np.testing.assert_array_equal(a, np.broadcast_to(b, (5, *np.shape(b))))
    assert layout == VectorLayout.of(jax.tree.map(jnp.asarray, y))


def test_whose_state_keeps_its_structure():
    own = type("Own", (diffrax.Tsit5,), {"__module__": "mine"})()
    assert can_be_one_vector(None, None)
    assert can_be_one_vector(diffrax.Kvaerno5(), lambda t, q, u: t)
    assert not can_be_one_vector(own, None)
    assert not can_be_one_vector(STRUCTURED, None)
    assert not can_be_one_vector(None, diffrax.Event(lambda t, y, args, **_: False))


@pytest.mark.parametrize("event", [None, lambda t, q, u: u[0] - 0.3 + 0 * q[0]])
def test_the_trajectory_is_that_of_the_structured_state(event):
    a, b = (motion(solver=s, event=event, dense=True) for s in (None, STRUCTURED))
    told = lambda s: (s.q, s.u, s.valid, s.t_end, s.q_end, s.u_end, s.stats, s.evaluate(0.3))
    assert jax.tree.structure(told(a)) == jax.tree.structure(told(b))
    for x, y in zip(jax.tree.leaves(told(a)), jax.tree.leaves(told(b)), strict=True):
        assert (np.shape(x), jnp.result_type(x)) == (np.shape(y), jnp.result_type(y))
        np.testing.assert_allclose(x, y, atol=1e-14)
    assert a.result == b.result


def test_an_event_of_diffrax_sees_q_and_u():
    event = diffrax.Event(lambda t, y, args, **_: y[1][0] > 0.3)
    assert motion(event=event).u_end[0] > 0.3


def test_derivatives_are_those_of_the_structured_state():
    """Gradients by columns and by checkpoints equal forward mode on the structured state."""
    cost = lambda x, **how: jnp.sum(motion(*x, dt=0.2, **how).q[-1] * jnp.arange(4.0))
    at = BODY.inertia, U0
    wanted = jax.jacfwd(lambda x: cost(x, solver=STRUCTURED))(at)
    for adjoint in (COLUMNS, jaxhamel.AutoAdjoint(forward_up_to=0)):
        found = jax.grad(lambda x: cost(x, adjoint=adjoint))(at)  # noqa: B023
        np.testing.assert_allclose(np.stack(found), np.stack(wanted), rtol=1e-9, atol=1e-11)


def test_what_is_counted_are_the_leaves_that_move(monkeypatch):
    """The gradient by u0 alone takes three columns, although the state vector has seven numbers."""
    counts, split = [], _linear_map._split
    monkeypatch.setattr(
        _linear_map, "_split", lambda total, x: counts.append(total.size) or split(total, x)
    )
    jax.jit(jax.grad(lambda u0: motion(u0=u0, adjoint=COLUMNS).u[-1, 0])).lower(U0)
    assert counts
    assert set(counts) == {3}
