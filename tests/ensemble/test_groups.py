"""Lie-group methods in lanes take the steps of the solvers of `simulate`, on unit quaternions and on matrices."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import ensemble
from jaxhamel._lanes._xla_cpu._one_loop import one_loop_works
from jaxhamel.geometry import MatrixGroup
from jaxhamel.systems import FreeRigidBody
from tests.ensemble.test_simulate import Swing
from tests.systems.ball import two_mass_ball
from tests.systems.motion import unit_quaternions

RNG = np.random.default_rng(11)
B = 3
TS = np.array([0.0, 0.05, 0.3, 0.35])  # 1, 3, 1 steps of 0.1
Q0 = unit_quaternions(RNG, B)
U0 = RNG.normal(size=(B, 3))
BODY = FreeRigidBody([1.0, 2.0, 2.5])
AXES = {"in_axes": (None, 0, 0, None)}
SOLVERS = {
    "commutator-free 2": jaxhamel.CommutatorFree2(),
    "commutator-free 4": jaxhamel.CommutatorFree4(),
    "Munthe-Kaas": jaxhamel.LieGroup(diffrax.Bosh3(), BODY.space),
}


@pytest.fixture(scope="module")
def by_rk4():
    return ensemble.rollout(BODY, Q0, U0, TS, dt=0.1, method="rk4", **AXES)[0]


@pytest.mark.parametrize("name", SOLVERS)
def test_steps_are_those_of_simulate(name, by_rk4):
    """Both programs of a method agree to rounding error. RK4 differs by more than 1e-9, so the agreement is not
    trivial."""
    q, u = ensemble.rollout(BODY, Q0, U0, TS, dt=0.1, method=SOLVERS[name], **AXES)
    one = lambda q0, u0: jaxhamel.simulate(BODY, q0, u0, TS, dt=0.1, solver=SOLVERS[name])
    wanted = jax.vmap(one)(Q0, U0)
    for found, exact in ((q, wanted.q), (u, wanted.u)):
        np.testing.assert_allclose(found, exact, rtol=0, atol=3e-15)
    assert np.max(np.abs(by_rk4 - q)) > 1e-9
    trajectory = ensemble.simulate(BODY, Q0, U0, TS, dt=0.1, solver=SOLVERS[name], **AXES)
    rounding = (
        0 if one_loop_works() else 1e-15
    )  # otherwise XLA may round the two programs differently
    np.testing.assert_allclose(trajectory.q, q, rtol=0, atol=rounding)


def test_derivatives_backward_and_forward():
    """Derivatives by each start and by the shared inertia agree in reverse mode, in forward mode and by differences."""

    def mean(q0, u0, inertia):
        options = {"dt": 0.1, "method": jaxhamel.CommutatorFree4()}
        q, u = ensemble.rollout(FreeRigidBody(inertia), q0, u0, TS, **options, **AXES)
        return jnp.mean(q[:, -1, 1] ** 2) + jnp.mean(u[:, -1] ** 3)

    at = (jnp.asarray(Q0), jnp.asarray(U0), jnp.array([1.0, 2.0, 2.5]))
    reverse = jax.jit(jax.grad(mean, (0, 1, 2)))(*at)
    spins = jnp.stack([BODY.space.rate(q, u) for q, u in zip(at[0], U0, strict=True)])
    along = (spins, jnp.ones_like(at[1]), jnp.array([0.3, -0.2, 0.1]))

    @jax.jit
    def value_and_slope(h):
        return jax.jvp(
            lambda h: mean(*(x + h * d for x, d in zip(at, along, strict=True))),
            (h,),
            (jnp.ones(()),),
        )

    _, forward = value_and_slope(0.0)
    total = sum(jnp.vdot(g, d) for g, d in zip(reverse, along, strict=True))
    np.testing.assert_allclose(total, forward, rtol=1e-12)
    step = 1e-3
    ends = [value_and_slope(s * step)[0] for s in (-2, -1, 1, 2)]
    slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
    np.testing.assert_allclose(forward, slope, rtol=1e-9)


class MatrixBody(jaxhamel.System):
    """A free rigid body whose orientation is a matrix of SO(3)."""

    inertia: jax.Array

    @property
    def space(self):
        x, y, z = np.eye(3)
        return MatrixGroup(np.stack([np.cross(np.eye(3), axis) for axis in (x, y, z)]))

    def lagrangian(self, t, q, v):
        return jnp.sum(self.inertia * v * v) / 2


@pytest.mark.filterwarnings("ignore:lanes cannot take")
def test_a_matrix_stays_on_its_group():
    """With a Runge–Kutta method, matrices advance by exponentials: they stay orthogonal and move as unit quaternions
    do."""
    bodies, start = MatrixBody(jnp.array([1.0, 2.0, 2.5])), jax.vmap(BODY.space.matrix)(Q0)
    ts = np.array([0.0, 0.1, 0.2, 0.3])  # equal spans: the step is compiled once
    q, u = ensemble.rollout(bodies, start, U0, ts, dt=0.05, **AXES)
    exact = ensemble.rollout(BODY, Q0, U0, ts, dt=0.005, method="rk4", **AXES)
    np.testing.assert_allclose(
        jnp.einsum("btji,btjk->btik", q, q), np.tile(np.eye(3), (B, 4, 1, 1)), atol=1e-14
    )
    np.testing.assert_allclose(q, jax.vmap(jax.vmap(BODY.space.matrix))(exact[0]), atol=1e-5)
    np.testing.assert_allclose(u, exact[1], atol=1e-5)


def test_a_space_made_from_arrays_within_jit():
    """Under `jit` the generators of the space are traced, so configurations are not checked against it; shapes are
    correct."""
    inertia, start = jnp.array([1.0, 2.0, 2.5]), np.tile(np.eye(3), (B, 1, 1))
    shapes = jax.eval_shape(
        lambda: ensemble.rollout(MatrixBody(inertia), start, U0, TS, dt=0.1, **AXES)
    )
    assert [x.shape for x in shapes] == [(B, 4, 3, 3), (B, 4, 3)]


def test_a_ball_between_two_rails_of_its_own():
    """On a product space with a control of its own in each lane, the commutator-free method has order 4."""
    ball = two_mass_ball()
    q0, swing = (Q0, RNG.normal(size=(B, 2))), Swing(jnp.full((B, 2), 0.3))
    options = {"in_axes": (None, 0, 0, 0)}
    ts = np.array([0.0, 0.4])
    exact = ensemble.rollout(ball, q0, U0, ts, swing, dt=0.002, method="rk4", **options)
    errors = []
    for dt in (0.05, 0.025):
        given = {"dt": dt, "method": jaxhamel.CommutatorFree4()}
        q, _ = ensemble.rollout(ball, q0, U0, ts, swing, **given, **options)
        errors.append(max(np.max(np.abs(x - y)) for x, y in zip(q, exact[0], strict=True)))
    assert abs(np.log2(errors[0] / errors[1]) - 4) < 0.3
