"""`rollout` against `simulate` with tight tolerances: values, order, groups, derivatives, shared arguments and those of
each trajectory."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.control import Spline
from jaxhamel.ensemble._equal_steps._step_forms import FEW_LANES
from jaxhamel.simulate._solvers._runge_kutta import RK4, tableau
from jaxhamel.systems import FreeRigidBody
from tests.ensemble.test_simulate import Swing
from tests.systems.ball import two_mass_ball
from tests.systems.motion import unit_quaternions

RNG = np.random.default_rng(5)
B = 3
Q0 = (unit_quaternions(RNG, B), RNG.normal(size=(B, 2)))
U0 = RNG.normal(size=(B, 3))
MASSES = jnp.asarray(RNG.uniform(0.5, 1.5, (B, 2)))
SWING = Swing(jnp.asarray(RNG.uniform(0.1, 0.5, (B, 2))))
UNEVEN = np.array([0.0, 0.05, 0.3, 0.55, 0.6])  # 1, 5, 5, 1 steps of 0.05


def balls(masses):
    return jax.vmap(lambda m: two_mass_ball(masses=m))(masses)


@pytest.fixture(scope="module")
def exact():
    return ensemble.simulate(balls(MASSES), Q0, U0, UNEVEN, SWING, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("method", "error"), [("rk4", 3e-5), (diffrax.Dopri8(), 1e-9)])
def test_each_trajectory_is_that_of_simulate(exact, method, error):
    """Each trajectory has its own system, state and control; times are uneven; there is one row per time, beginning
    with the initial state."""
    q, u = ensemble.rollout(balls(MASSES), Q0, U0, UNEVEN, SWING, dt=0.05, method=method)
    for found, wanted in zip((*q, u), (*exact.q, exact.u), strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=error)
    np.testing.assert_array_equal(u[:, 0], U0)
    assert np.max(np.abs(np.linalg.norm(q[0], axis=-1) - 1)) < 1e-15


def test_order_is_four_on_a_group():
    """Halving the step divides the error by sixteen, so normalising quaternions does not lower the order."""
    body, ts = FreeRigidBody([1.0, 2.0, 2.5]), np.array([0.0, 1.0])
    wanted = jaxhamel.simulate(body, Q0[0][0], U0[0], ts, rtol=1e-12, atol=1e-14).q[-1]
    options = {"in_axes": (None, 0, 0, None)}
    errors = []
    for dt in (0.1, 0.05, 0.025):
        q, _ = ensemble.rollout(body, Q0[0], U0, ts, dt=dt, **options)
        errors.append(np.max(np.abs(q[0, -1] - wanted)))
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(slopes, 4.0, atol=0.4)


def test_derivatives_backward_forward_and_by_differences():
    """Derivatives of a mean over the ensemble, by each start and by the shared inertia, agree in both modes and with
    Richardson's extrapolation."""
    ts = np.array([0.0, 0.2, 0.4])

    def mean_square(u0, inertia):
        body = FreeRigidBody(inertia)
        q, u = ensemble.rollout(body, Q0[0], u0, ts, dt=0.1, in_axes=(None, 0, 0, None))
        return jnp.mean(u[:, -1] ** 2) + jnp.mean(q[:, -1, 1] ** 2)

    at = (jnp.asarray(U0), jnp.array([1.0, 2.0, 2.5]))
    direction = (jnp.asarray(RNG.normal(size=(B, 3))), jnp.array([0.3, -0.2, 0.1]))
    reverse = jax.jit(jax.grad(mean_square, (0, 1)))(*at)
    value = jax.jit(lambda h: mean_square(*(x + h * d for x, d in zip(at, direction, strict=True))))
    forward = jax.jvp(value, (0.0,), (1.0,))[1]
    step = 1e-3
    richardson = (8 * (value(step) - value(-step)) - value(2 * step) + value(-2 * step)) / (
        12 * step
    )
    along = sum(jnp.vdot(g, d) for g, d in zip(reverse, direction, strict=True))
    np.testing.assert_allclose(along, forward, rtol=1e-12)
    np.testing.assert_allclose(forward, richardson, rtol=1e-9)


def test_few_lanes_and_many():
    """A method with many stages runs few lanes one stage at a time and many lanes in one loop, with equal values and
    gradients."""

    def mean_square(inertia, u0):
        options = {"dt": 0.1, "in_axes": (None, None, 0, None), "method": diffrax.Tsit5()}
        q, u = ensemble.rollout(FreeRigidBody(inertia), Q0[0][0], u0, [0.0, 0.3], **options)
        return jnp.mean(u[:, -1] ** 2) + jnp.mean(q[:, -1, 1] ** 2), (q, u)

    run = jax.jit(jax.value_and_grad(mean_square, has_aux=True))
    inertia = jnp.array([1.0, 2.0, 2.5])
    (few, few_states), of_few = run(inertia, jnp.asarray(U0))
    (many, many_states), of_many = run(inertia, jnp.tile(jnp.asarray(U0), (3, 1)))
    assert len(U0) < FEW_LANES <= len(many_states[1])
    np.testing.assert_allclose(few, many, rtol=1e-13)
    np.testing.assert_allclose(of_few, of_many, rtol=1e-11)
    for one, other in zip(few_states, many_states, strict=True):
        np.testing.assert_allclose(one, other[:B], atol=1e-14)


def test_a_spline_as_control_needs_no_vmap():
    """A spline's look-up of coefficients runs in lanes without a warning."""
    spline = Spline(jnp.asarray(RNG.normal(size=(9, 2))), 0.0, 1.0)
    ball = two_mass_ball()
    ts = np.array([0.0, 0.2])
    q, u = ensemble.rollout(ball, Q0, U0, ts, spline, dt=0.02, in_axes=(None, 0, 0, None))
    one = jaxhamel.simulate(ball, (Q0[0][1], Q0[1][1]), U0[1], ts, spline, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(u[1, -1], one.u[-1], atol=2e-5)
    np.testing.assert_allclose(q[1][1, -1], one.q[1][-1], atol=2e-5)


def test_a_ball_without_masses_of_its_own_in_each_lane():
    """Arrays of size 0 are batched, too: a ball without masses in each lane moves as a shared one."""
    from jaxhamel.systems import RollingBall

    make = lambda m: RollingBall(0.5, m, [0.1] * 3, [0, 0, 0], [], None)
    ts, dt = [0.0, 0.2], 0.1
    q, _ = ensemble.rollout(jax.vmap(make)(jnp.ones(B)), Q0, U0, ts, dt=dt, in_axes=(0, 0, 0, None))
    wanted, _ = ensemble.rollout(make(1.0), Q0, U0, ts, dt=dt, in_axes=(None, 0, 0, None))
    np.testing.assert_allclose(q[1], wanted[1], rtol=1e-14)


def test_one_that_breaks_down_leaves_the_others_alone():
    u = np.array(U0)
    u[1] *= 1e200
    body = FreeRigidBody([1.0, 2.0, 2.5])
    options = {"dt": 0.1, "in_axes": (None, 0, 0, None)}
    _, found = ensemble.rollout(body, Q0[0], u, [0.0, 0.2], **options)
    _, wanted = ensemble.rollout(body, Q0[0], U0, [0.0, 0.2], **options)
    assert not np.isfinite(found[1, -1]).all()
    others = np.array([0, 2])
    np.testing.assert_array_equal(found[others], wanted[others])


def test_tableaus():
    """Tableaus are consistent: rows of a sum to c, weights to 1. Stages that only the error estimate uses are dropped."""
    for method in (diffrax.Heun(), diffrax.Bosh3(), diffrax.Tsit5(), diffrax.Dopri8()):
        found = tableau(method)
        np.testing.assert_allclose(np.sum(found.a, axis=1), found.c, atol=1e-12)
        assert abs(sum(found.b) - 1) < 1e-12
    assert len(tableau(diffrax.Tsit5()).b) == 6
    assert RK4.chained
    assert not tableau(diffrax.Tsit5()).chained


def test_messages():
    body = FreeRigidBody([1.0, 2.0, 2.5])
    options = {"in_axes": (None, 0, 0, None)}
    with pytest.raises(TypeError, match=r"`method` is 'euler2'.*must be \"rk4\" or an explicit"):
        ensemble.rollout(body, Q0[0], U0, [0.0, 0.1], dt=0.1, method="euler2", **options)
    with pytest.raises(ValueError, match=r"`dt` is -1.*must be positive"):
        ensemble.rollout(body, Q0[0], U0, [0.0, 0.1], dt=-1, **options)
    with pytest.raises(ValueError, match="`ts` is out of order"):
        ensemble.rollout(body, Q0[0], U0, [0.0, 0.2, 0.1], dt=0.1, **options)
    with pytest.raises(ValueError, match=r"`ts` is traced; its value decides the number of steps"):
        jax.jit(lambda ts: ensemble.rollout(body, Q0[0], U0, ts, dt=0.1, **options))(
            jnp.array([0.0, 1])
        )
