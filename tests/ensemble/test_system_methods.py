"""The shapes and values that a system's methods return are checked by ensembles, control and identification, too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel as jh
from jaxhamel import control, identify


class Sled(jh.System):
    mass: jax.Array
    space = jh.Euclidean(2)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.dot(v, v)

    def force(self, t, q, v, control):
        return control[:1]


class Twice(Sled):
    """A sled whose `bodies` have twice the mass of its Lagrangian."""

    def force(self, t, q, v, control):
        return jnp.zeros_like(v)

    def bodies(self, t, q, v, control):
        velocity = jnp.concatenate([v, jnp.zeros(1)])
        return (jh.Points(2.0 * self.mass[None], velocity[None], jnp.zeros((1, 3)), jnp.zeros(3)),)


Q, U, TS, PUSH = jnp.zeros((4, 2)), jnp.ones((4, 2)), np.linspace(0.0, 1.0, 3), jnp.ones(2)
AXES = (None, 0, 0, None)


def problem(system):
    curve = control.Spline(jnp.zeros((6, 2)), 0.0, 1.0)
    return control.ControlProblem(system, Q[0], U[0], TS, curve, (control.ControlEnergy(1.0),))


WAYS = {
    "simulate": lambda system: jh.ensemble.simulate(system, Q, U, TS, PUSH, in_axes=AXES),
    "simulate in lanes": lambda s: jh.ensemble.simulate(s, Q, U, TS, PUSH, in_axes=AXES, dt=0.1),
    "rollout": lambda system: jh.ensemble.rollout(system, Q, U, TS, PUSH, in_axes=AXES, dt=0.1),
    "rollout by tolerance": lambda s: jh.ensemble.rollout(s, Q, U, TS, PUSH, in_axes=AXES),
    "variational": lambda s: jh.simulate(s, Q[0], U[0], TS, PUSH, dt=0.1, solver=jh.Variational()),
    "control": problem,
}


@pytest.mark.parametrize("way", WAYS)
def test_shapes(way):
    with pytest.raises(ValueError, match=r"`force\(t, q, v, control\)` has shape \(1,\), as Sled"):
        WAYS[way](Sled(jnp.asarray(2.0)))


@pytest.mark.parametrize("way", WAYS)
def test_bodies(way):
    with pytest.raises(ValueError, match=r"`bodies` of Twice disagree with its `lagrangian`"):
        WAYS[way](Twice(jnp.asarray(2.0)))


class Free(Twice):
    idle: jax.Array
    bodies = jh.System.bodies


@pytest.mark.parametrize("way", ["simulate", "rollout"])
def test_no_inertia(way):
    """With a mass of zero the accelerations are undetermined and the message names it; any other field may be zero."""
    moving = WAYS[way](Free(jnp.asarray(2.0), jnp.asarray(0.0)))
    assert np.all(np.isfinite(jax.tree.leaves(moving)[0]))
    wrong = r"trajectory 0 is not valid: the mass matrix of Free is singular.*of its fields are zero: `mass`"
    with pytest.raises(ValueError, match=wrong):
        WAYS[way](Free(jnp.asarray(0.0), jnp.asarray(1.0)))


def test_no_inertia_in_one_trajectory():
    systems = Free(jnp.array([1.0, 2.0, 0.0, 3.0]), jnp.zeros(4))
    with pytest.raises(ValueError, match=r"trajectory 2 is not valid: the mass matrix of Free"):
        jh.ensemble.rollout(systems, Q, U, TS, PUSH, in_axes=(0, 0, 0, None), dt=0.1)


def test_systems_of_their_own():
    """If each trajectory has its own system, shapes are checked once and values on the first system."""
    systems = jax.vmap(Sled)(jnp.ones(4))
    with pytest.raises(ValueError, match=r"`force\(t, q, v, control\)` has shape \(1,\)"):
        jh.ensemble.simulate(systems, Q, U, TS, PUSH, in_axes=(0, 0, 0, None))
    with pytest.raises(ValueError, match=r"`bodies` of Twice disagree"):
        jh.ensemble.simulate(jax.vmap(Twice)(jnp.ones(4)), Q, U, TS, PUSH, in_axes=(0, 0, 0, None))


def test_a_fit():
    mass = identify.Positive("mass")
    measured = identify.Coordinate(0, name="x", columns=("x",))
    run = identify.Run(TS, {"x": np.zeros(3)}, PUSH)
    with pytest.raises(ValueError, match=r"`force\(t, q, v, control\)` has shape \(1,\), as Sled"):
        identify.Problem(Sled(jnp.asarray(2.0)), [mass], [measured], [run])
