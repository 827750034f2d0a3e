"""Derivatives of the ball's final state by each parameter, against complex steps.

Complex steps use another right-hand side (reference_ball) and another integrator, and have no cancellation errors.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import SO3
from jaxhamel.simulate import simulate
from tests.reference import ball as rb
from tests.reference.integrator import complex_step, integrate
from tests.systems.ball import package_of, random_balls, reference_of

TIME = 1.5
WEIGHTS = np.array([0.3, -0.8, 0.5, 0.6, 0.2, -0.4, 0.9, 0.7, -0.5])  # of q, Ω, z


class Waves(eqx.Module):
    """θ = offset + amplitude sin(frequency t + phase)."""

    offset: jax.Array
    amplitude: jax.Array
    frequency: jax.Array
    phase: jax.Array

    def __call__(self, t):
        return self.offset + self.amplitude * jnp.sin(self.frequency * t + self.phase)


def problem(kind, n, principal):
    """All parameters of the final state; `attitude` rotates the initial quaternion."""
    batch = random_balls(np.random.default_rng(1), 1, n, kind, principal, pushed=True)
    ball, rails, waves, (quaternion, position, omega) = jax.tree.map(lambda x: x[0], batch)
    start = {"attitude": np.zeros(3), "position": position, "omega": omega}
    return {"ball": ball, "rails": rails, "waves": waves, "start": start}, quaternion


def package_value(kind, quaternion, parameters):
    system = package_of(parameters["ball"], parameters["rails"], kind)
    start = parameters["start"]
    q0 = (SO3().retract(jnp.asarray(quaternion), start["attitude"]), start["position"])
    control = Waves(*parameters["waves"])
    ts = jnp.array([0.0, TIME])
    run = simulate(system, q0, start["omega"], ts, control, rtol=1e-10, atol=1e-11)
    state = jnp.concatenate([run.q[0][-1], run.u[-1], run.q[1][-1]])
    return jnp.dot(jnp.asarray(WEIGHTS), state)


def reference_value(kind, quaternion, parameters):
    """The reference's value for parameters with one leading axis."""
    ball, motion = reference_of(parameters["ball"], parameters["rails"], parameters["waves"], kind)
    inertia = ball.shell_inertia
    ball.shell_inertia = (
        inertia + np.swapaxes(inertia, -1, -2)
    ) / 2  # kinetic energy depends only on the symmetric part
    start = parameters["start"]
    turned = quaternion + rb.quaternion_rate(
        quaternion + 0 * start["attitude"][:, :1], start["attitude"]
    )
    state = np.concatenate([turned, start["omega"], start["position"]], axis=-1)
    return integrate(rb.rate(ball, motion), 0.0, TIME, state, 60) @ WEIGHTS


def reference_gradient(kind, quaternion, parameters):
    leaves, structure = jax.tree.flatten(parameters)
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def value(vectors):
        parts = np.split(vectors, ends, axis=-1)
        given = [p.reshape(-1, *shape) for p, shape in zip(parts, shapes, strict=True)]
        return reference_value(kind, quaternion, jax.tree.unflatten(structure, given))

    gradient = complex_step(value, np.concatenate([np.ravel(leaf) for leaf in leaves]))
    parts = np.split(gradient, ends)
    return jax.tree.unflatten(structure, [p.reshape(s) for p, s in zip(parts, shapes, strict=True)])


def assert_same(got, wanted):
    """Checks each leaf to 1e-7 of its largest entry."""
    pairs = zip(jax.tree.leaves_with_path(got), jax.tree.leaves(wanted), strict=True)
    for (path, leaf), want in pairs:
        name = jax.tree_util.keystr(path)
        error = np.max(np.abs(leaf - want)) / np.max(np.abs(want))
        assert error < 1e-7, (name, error)


def test_every_parameter_by_reverse_and_forward_mode():
    """Four kinds of rails, the inertia a matrix: 91 numbers."""
    parameters, quaternion = problem("mixed", 4, principal=False)
    wanted = reference_gradient("mixed", quaternion, parameters)
    value = lambda parameters: package_value("mixed", quaternion, parameters)
    traced = jax.tree.map(jnp.asarray, parameters)
    assert_same(jax.jit(jax.grad(value))(traced), wanted)
    assert_same(jax.jit(jax.jacfwd(value))(traced), wanted)


def test_principal_moments_and_circles():
    """The inertia as three moments: forward mode for all, reverse mode for it and the masses."""
    parameters, quaternion = problem("circular", 2, principal=True)
    wanted = reference_gradient("circular", quaternion, parameters)
    value = lambda parameters: package_value("circular", quaternion, parameters)
    traced = jax.tree.map(jnp.asarray, parameters)
    assert_same(jax.jit(jax.jacfwd(value))(traced), wanted)
    few = {name: traced["ball"][name] for name in ("shell_inertia", "masses", "radius")}
    of_few = lambda few: value(traced | {"ball": traced["ball"] | few})
    final, gradient = jax.jit(jax.value_and_grad(of_few))(few)
    assert_same(gradient, {name: wanted["ball"][name] for name in few})
    one = jax.tree.map(lambda x: np.asarray(x)[None], parameters)
    np.testing.assert_allclose(final, reference_value("circular", quaternion, one)[0], rtol=1e-9)
