"""The Lie-group solver: order, unit quaternions, adaptive steps, dense output, events, misuse."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from scipy.special import ellipj

import jaxhamel.geometry as geo
from jaxhamel.simulate import LieGroup
from tests.simulate.curves_on_groups import (
    Kinematics,
    after_steps,
    distance,
    exact,
    solve,
    start,
)

SO3, SE3 = geo.SO3(), geo.SE3()
PRODUCT = geo.Product(geo.SO3(), geo.Euclidean(2), geo.SE2())


def test_orders_are_passed_through():
    for method in (diffrax.Bosh3(), diffrax.Tsit5(), diffrax.Dopri8()):
        term = diffrax.ODETerm(lambda t, y, args: y)
        assert LieGroup(method, SO3).order(term) == method.order(term)
        assert LieGroup(method, SO3).error_order(term) == method.error_order(term)


def test_free_rigid_body_by_elliptic_functions():
    """Ω agrees with Landau–Lifshitz, Mechanics, §37, for I1 < I2 < I3 and M² > 2 E I2, and the spatial momentum R I Ω
    is constant."""
    inertia = np.array([1.0, 2.0, 3.0])
    omega0 = np.array([0.3, 0.0, 1.2])  # t = 0 where Ω2 = 0
    energy2 = float(np.sum(inertia * omega0**2))
    moment2 = float(np.sum((inertia * omega0) ** 2))
    I1, I2, I3 = inertia
    assert moment2 > energy2 * I2
    rate = np.sqrt((I3 - I2) * (moment2 - energy2 * I1) / (I1 * I2 * I3))
    m = (I2 - I1) * (energy2 * I3 - moment2) / ((I3 - I2) * (moment2 - energy2 * I1))
    ts = np.linspace(0.0, 10.0, 21)
    sn, cn, dn, _ = ellipj(rate * ts, m)
    expected = np.stack(
        [
            np.sqrt((energy2 * I3 - moment2) / (I1 * (I3 - I1))) * cn,
            np.sqrt((energy2 * I3 - moment2) / (I2 * (I3 - I2))) * sn,
            np.sqrt((moment2 - energy2 * I1) / (I3 * (I3 - I1))) * dn,
        ],
        axis=1,
    )

    def field(t, y, I):
        q, w = y
        return SO3.rate(q, w), jnp.cross(I * w, w) / I

    y0 = (SO3.identity(jnp.float64), jnp.asarray(omega0))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field), LieGroup(diffrax.Dopri8(), SO3), 0.0, 10.0, 0.01, y0, jnp.asarray(inertia),
        saveat=diffrax.SaveAt(ts=jnp.asarray(ts)), max_steps=None, adjoint=diffrax.ForwardMode(),
    )  # fmt: skip
    q, w = solution.ys  # pyright: ignore[reportGeneralTypeIssues]
    np.testing.assert_allclose(w, expected, atol=1e-12)
    momentum = jax.vmap(geo.quaternion_rotate)(q, w * jnp.asarray(inertia)[None, :])
    np.testing.assert_allclose(momentum, np.tile(inertia * omega0, (21, 1)), atol=1e-12)


def test_quaternions_stay_unit_over_many_steps():
    q, _ = after_steps(LieGroup(diffrax.Euler(), SO3), 1000.0, 100_000)
    norm = np.linalg.norm(np.asarray(q))
    assert abs(norm - 1.0) < 4e-16


def test_adaptive_steps_follow_the_tolerance():
    errors, steps = [], []
    for tolerance in jnp.array([1e-5, 1e-8, 1e-11]):
        controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)
        solution = solve(SE3, diffrax.Tsit5(), 5.0, None, stepsize_controller=controller)
        errors.append(float(distance(SE3, solution.ys[0][0], exact(SE3, 5.0))))
        steps.append(int(solution.stats["num_accepted_steps"]))
    assert errors[0] < 1e-3
    assert errors[1] < 1e-6
    assert errors[2] < 1e-9
    # A method of order 5 needs 10^(3/5) = 4 times the steps for 10^-3 the error.
    assert 2.5 < steps[2] / steps[1] < 6.0


def test_first_same_as_last_survives_the_change_of_base_point():
    """A run that reuses each step's last slope equals single steps that compute it again."""
    solver, term, y = LieGroup(diffrax.Tsit5(), SE3), diffrax.ODETerm(Kinematics(SE3)), start(SE3)
    step = eqx.filter_jit(lambda t, y: _one_step(solver, term, t, t + 0.25, y)[0])
    for k in range(4):
        y = step(jnp.asarray(0.25 * k), y)
        run = after_steps(solver, 0.25 * (k + 1), k + 1)
        np.testing.assert_allclose(run[0], y[0], rtol=0, atol=3e-15)
        np.testing.assert_allclose(run[1], y[1], rtol=0, atol=3e-15)


def _one_step(solver, term, t0, t1, y0):
    state = solver.init(term, t0, t1, y0, None)
    y1, _, info, _, _ = solver.step(term, t0, t1, y0, None, state, False)
    return y1, info


def test_interpolation_gives_differences_as_diffrax_does():
    solver, term = LieGroup(diffrax.Euler(), SO3), diffrax.ODETerm(Kinematics(SO3))
    y1, info = _one_step(solver, term, jnp.zeros(()), jnp.asarray(0.1), start(SO3))
    inside = solver.interpolation_cls(t0=0.0, t1=0.1, **info)
    change = inside.evaluate(0.0, 0.1)
    np.testing.assert_allclose(change[0], y1[0] - SO3.identity(jnp.float64), atol=1e-15)
    assert solver.interpolation_cls == LieGroup(diffrax.Euler(), SO3).interpolation_cls


@pytest.mark.parametrize("method", [diffrax.Bosh3(), diffrax.Tsit5()])
def test_dense_output_and_ts_agree_with_the_exact_motion(method):
    controller = diffrax.PIDController(rtol=1e-7, atol=1e-9)
    ts = jnp.linspace(0.0, 3.0, 17)
    saveat = diffrax.SaveAt(ts=ts, dense=True)
    solution = solve(
        SE3, method, 3.0, None, stepsize_controller=controller, saveat=saveat, max_steps=20000
    )
    q_dense, _ = jax.vmap(solution.evaluate)(ts)
    q_exact = jax.vmap(lambda t: exact(SE3, t))(ts)
    np.testing.assert_allclose(q_dense, solution.ys[0], atol=1e-12)
    np.testing.assert_allclose(q_dense, q_exact, atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(q_dense[:, :4], axis=1), 1.0, atol=5e-16)
    q, q_dot = solution.evaluate(1.3)[0], solution.derivative(1.3)[0]
    exact_rate = jax.jvp(lambda t: exact(SE3, t), (jnp.asarray(1.3),), (jnp.ones(()),))[1]
    np.testing.assert_allclose(q_dot, exact_rate, atol=2e-2)
    assert abs(float(jnp.dot(q[:4], q_dot[:4]))) < 1e-12  # tangent to the unit sphere


def test_event_time():
    """The event ends at a zero of the exact curve's height."""
    height = lambda q: q[4] - 0.25  # (x of the position)
    event = diffrax.Event(lambda t, y, args, **_: height(y[0]), optx.Newton(1e-13, 1e-13))
    controller = diffrax.PIDController(rtol=1e-10, atol=1e-12)
    solution = solve(SE3, diffrax.Tsit5(), 5.0, None, stepsize_controller=controller, event=event)
    assert solution.result == diffrax.RESULTS.event_occurred
    t = float(solution.ts[0])
    assert 0.1 < t < 4.9
    assert abs(float(height(exact(SE3, t)))) < 1e-7
    assert abs(float(height(solution.ys[0][0]))) < 1e-12


def test_product_spaces_and_half_solver():
    for solver in (diffrax.Tsit5(), diffrax.HalfSolver(diffrax.Tsit5())):
        q, _ = after_steps(LieGroup(solver, PRODUCT), 1.0, 50)
        assert float(distance(PRODUCT, q, exact(PRODUCT, 1.0))) < 1e-9


@pytest.mark.usefixtures("float32")
def test_single_precision():
    q, _ = after_steps(LieGroup(diffrax.Tsit5(), SE3), 2.0, 40)
    assert q.dtype == jnp.float32
    assert float(distance(SE3, q, exact(SE3, 2.0))) < 1e-5


def test_backward_in_time():
    y1 = after_steps(LieGroup(diffrax.Tsit5(), SO3), 1.0, 100)
    back = diffrax.diffeqsolve(
        diffrax.ODETerm(Kinematics(SO3)), LieGroup(diffrax.Tsit5(), SO3), 1.0, 0.0, -0.01, y1,
        adjoint=diffrax.ForwardMode(),
    ).ys  # fmt: skip
    np.testing.assert_allclose(back[0][0], SO3.identity(jnp.float64), atol=1e-10)


def test_misuse_is_explained():
    with pytest.raises(TypeError, match=r"explicit Runge-Kutta method of diffrax"):
        LieGroup(diffrax.Kvaerno5(), SO3)
    with pytest.raises(TypeError, match=r"`solver` is the class Tsit5"):
        LieGroup(diffrax.Tsit5, SO3)
    with pytest.raises(
        TypeError, match=r"`space` is None.*LieGroup\(diffrax.Tsit5\(\), system.space\)"
    ):
        LieGroup(diffrax.Tsit5())
    field = diffrax.ODETerm(lambda t, y, args: y)
    with pytest.raises(ValueError, match=r"LieGroup steps a pair \(q, rest\)"):
        diffrax.diffeqsolve(field, LieGroup(space=SO3), 0.0, 1.0, 0.1, jnp.ones(4))
    with pytest.raises(ValueError, match=r"BacksolveAdjoint.*use RecursiveCheckpointAdjoint"):
        jax.grad(lambda q: jnp.sum(_backsolved(q)))(SO3.identity(jnp.float64))


def _backsolved(q0):
    field = diffrax.ODETerm(lambda t, y, args: (SO3.rate(y[0], y[1]), -y[1]))
    y0 = (q0, jnp.ones(3))
    return diffrax.diffeqsolve(
        field, LieGroup(space=SO3), 0.0, 1.0, 0.1, y0, adjoint=diffrax.BacksolveAdjoint()
    ).ys[0]  # fmt: skip
