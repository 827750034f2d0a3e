"""Each method on problems with a known optimum; gradients against Richardson's extrapolation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import minimize

from jaxhamel import control
from jaxhamel._compiled import compilations
from jaxhamel.control import replay
from jaxhamel.control._methods import _levenberg_marquardt as lm
from jaxhamel.control._methods._gradient_descent import _descend
from jaxhamel.control._methods._shooting import QuadraticModel, quadrature
from jaxhamel.simulate._solvers._runge_kutta import looped, tableau
from tests.control.cart import Cart, error_of_force, least_energy


def test_multiple_shooting_finds_the_least_energy():
    seen = []
    method = control.MultipleShooting(cost_tolerance=1e-12)
    result = control.solve(least_energy(), method, progress=seen.append)
    assert result.converged
    np.testing.assert_allclose(result.cost, 6.0, rtol=1e-9)
    assert error_of_force(result.control) < 1e-6
    np.testing.assert_allclose(result.trajectory.q_end, [1.0], atol=1e-9)
    assert result.history["defect"][-1] < 1e-10
    assert [info.iteration for info in seen] == list(range(1, len(seen) + 1))
    assert all(info.time_left >= 0 and "left" in str(info) for info in seen)
    assert result.tracking_rms is None
    assert "converged" in str(result)
    assert result.to_dict()["iterations"] == len(seen)


def test_multiple_shooting_with_large_multipliers():
    """J = 6 m²: penalties of 1e6 alone miss the end by y / 1e6, y being about 12 m²."""
    problem = least_energy(system=Cart(jnp.array(1e3)))
    result = control.solve(problem, control.MultipleShooting(cost_tolerance=1e-12))
    assert result.converged, result.status
    np.testing.assert_allclose(result.cost, 6e6, rtol=1e-9)
    np.testing.assert_allclose(result.trajectory.q_end, [1.0], atol=1e-9)


def test_gradient_descent_by_any_optax_optimiser():
    """The step is compiled once, although optax begins with a weakly typed state."""
    before = compilations(_descend)
    method = control.GradientDescent(
        optax.lbfgs(),
        iterations=60,
        max_seconds=1e4,
        penalty=1e6,
        gradient_tolerance=1e-3,
        options={"dt": 0.25},
    )
    result = control.solve(least_energy(n_intervals=2, degree=2), method)
    np.testing.assert_allclose(result.cost, 6.0, rtol=1e-4)
    assert error_of_force(result.control) < 1e-2
    assert result.converged
    assert len(result.history["cost"]) == len(result.history["gradient_norm"]) < 60
    assert compilations(_descend) == before + 1


def test_single_shooting_by_optimistix():
    method = control.SingleShooting(penalty=1e8, options={"dt": 0.125})
    result = control.solve(least_energy(), method)
    assert result.converged
    np.testing.assert_allclose(result.cost, 6.0, rtol=1e-5)
    assert error_of_force(result.control) < 1e-3


def test_many_starts_return_the_best():
    problem = least_energy()
    starts = control.perturbed_starts(problem, jax.random.key(0), 3, scale=2.0)
    np.testing.assert_array_equal(starts[0], control.free_parameters(problem.curve)[0])
    method = control.MultipleShooting(cost_tolerance=1e-12)
    result = control.solve_many(problem, starts, method)
    np.testing.assert_allclose(result.cost, 6.0, rtol=1e-9)
    descent = control.GradientDescent(
        optax.adam(0.3), iterations=20, max_seconds=1e4, penalty=100.0, options={"dt": 0.25}
    )
    _check_descent(problem, starts, descent)


def _check_descent(problem, starts, descent):
    result = control.solve_many(problem, starts, descent)
    alone = [
        control.solve(
            least_energy(curve=control.free_parameters(problem.curve)[1](p)), descent
        ).cost
        for p in starts
    ]
    np.testing.assert_allclose(result.cost, min(alone), rtol=1e-10)
    assert not result.converged
    assert "20 iterations done" in result.status


def test_fourier_series_under_limits_as_control():
    series = control.FourierSeries(np.zeros(1), np.zeros((4, 1)), np.zeros((4, 1)), 2.0)
    problem = least_energy(curve=control.Limited(series, [-9.0], [9.0]))
    result = control.solve(problem, control.MultipleShooting(cost_tolerance=1e-8))
    assert result.converged
    assert 6.0 < result.cost < 6.1  # the limits and only four harmonics cost less than 2 %
    np.testing.assert_allclose(result.trajectory.q_end, [1.0], atol=1e-8)


def test_rail_limits_are_soft_walls():
    ts = np.linspace(0.0, 1.0, 90)
    problem = least_energy(
        curve=control.Spline.fit(ts, 3 - 6 * ts[:, None], 19, 3),
        ts=jnp.linspace(0.0, 1.0, 17),
        costs=(
            control.ControlEnergy(),
            control.RailLimits(lower=[-3.0], upper=[3.0], weight=1e4),
            control.Endpoint(q=jnp.array([0.7]), u=jnp.zeros(1), weight=1e6),
        ),
        constraints=(),
    )
    result = control.solve(problem)
    force = jax.vmap(result.control)(jnp.linspace(0, 1, 101))
    assert 2.9 < np.max(np.abs(force)) < 3.2  # without the walls the maximum is 4.2
    np.testing.assert_allclose(result.trajectory.q_end, [0.7], atol=2e-3)


def test_gradient_of_the_cost_by_three_routes():
    problem = least_energy()
    method = control.GradientDescent(optax.adam(0.1), penalty=10.0, options={"dt": 0.125})
    cost = lambda p: method.cost(problem, p)
    p = jnp.asarray(np.random.default_rng(1).normal(size=7))
    value = jax.jit(cost)
    reverse, forward = jax.jit(jax.grad(cost))(p), jax.jit(jax.jacfwd(cost))(p)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10)
    for j in range(7):
        e = jnp.zeros(7).at[j].set(1.0)
        central = lambda h, e=e: (value(p + h * e) - value(p - h * e)) / (2 * h)
        richardson = (4 * central(5e-4) - central(1e-3)) / 3
        np.testing.assert_allclose(reverse[j], richardson, rtol=1e-7, atol=1e-8)


class Quadratic(eqx.Module):
    """Quadratic model of residuals r(x) and conditions d(x) about any point, by autodiff."""

    def residual(self, x):
        return jnp.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])

    def conditions(self, x):
        return jnp.stack([x[0] ** 2 / 4 + x[1] ** 2 - 1.0])

    def __call__(self, x):
        r, J = self.residual(x), jax.jacfwd(self.residual)(x)
        d, D = self.conditions(x), jax.jacfwd(self.conditions)(x)
        return QuadraticModel(r @ r / 2, J.T @ r, J.T @ J, d, D, jnp.zeros(()))


def test_levenberg_marquardt_on_rosenbrock_on_an_ellipse():
    model = Quadratic()
    start = jnp.array([-1.2, 1.0])
    iterate = lm.first_iterate(start, jax.tree.map(jnp.zeros_like, model(start)), 1.0)
    advance = jax.jit(
        lambda it: lm.next_iterate(
            it, model, model.conditions, lambda x, z: x + z, jnp.array(1e3), jnp.array(1e-2)
        )
    )
    for _ in range(60):
        iterate = advance(iterate)
    peer = minimize(
        lambda x: 0.5 * np.sum(np.asarray(model.residual(x)) ** 2),
        np.asarray(iterate.point),
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda x: np.asarray(model.conditions(x))},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(iterate.point, peer.x, atol=1e-6)
    assert float(jnp.abs(iterate.model.d[0])) < 1e-12
    assert float(lm.stationarity(iterate.model, iterate.y)) < 1e-6


class Valley(eqx.Module):
    """The cost √(1 + x²) on the line y = 0, where full Newton steps x ↦ −x³ diverge from |x| > 1."""

    def conditions(self, x):
        return x[1:]

    def __call__(self, x):
        root = jnp.sqrt(1 + x[0] ** 2)
        g, H = jnp.stack([x[0] / root, 0.0]), jnp.diag(jnp.stack([root**-3, 1.0]))
        return QuadraticModel(root, g, H, x[1:], jnp.array([[0.0, 1.0]]), jnp.zeros(()))


def test_levenberg_marquardt_refuses_steps_that_lead_up_until_they_are_short():
    start, valley = jnp.array([3.0, 0.0]), Valley()
    iterate = lm.first_iterate(start, jax.tree.map(jnp.zeros_like, valley(start)), 1e-6)
    advance = jax.jit(
        lambda it: lm.next_iterate(
            it, valley, valley.conditions, lambda x, z: x + z, jnp.array(1.0), jnp.array(1e-2)
        )
    )
    costs, accepted = [], []
    for _ in range(40):
        iterate = advance(iterate)
        costs.append(float(iterate.model.cost))
        accepted.append(bool(iterate.accepted))
    assert np.all(np.diff(costs) <= 0)
    refused = accepted[1:].index(True)  # the first entry is the start
    assert 3 < refused < 9  # the damping, at first 1e-6, rises faster with each refused step
    np.testing.assert_allclose(iterate.point, 0.0, atol=1e-6)


def test_levenberg_marquardt_refuses_a_rise_that_the_model_predicts():
    start, valley = jnp.array([3.0, 0.0]), Valley()
    advance = lambda it: lm.next_iterate(
        it, valley, valley.conditions, lambda x, z: x + z, jnp.array(1.0), jnp.array(1e-2)
    )
    iterate = advance(lm.first_iterate(start, jax.tree.map(jnp.zeros_like, valley(start)), 1.0))
    cost = iterate.model.cost
    # rounding, or a second-order correction of the step, may raise the prediction above the cost
    iterate = iterate._replace(candidate=jnp.array([10.0, 0.0]), predicted=cost + 7.0)
    after = advance(iterate)
    assert not after.accepted
    assert after.model.cost == cost
    assert after.damping > iterate.damping


@pytest.mark.parametrize(("steps", "degree"), [(2, 3), (4, 5), (6, 7), (8, 5), (10, 3), (12, 7)])
def test_quadrature_is_exact_to_its_degree(steps, degree):
    x, weights = np.linspace(0.0, 1.0, steps + 1), quadrature(steps)
    assert np.all(weights > 0)
    for power in range(degree + 1):
        np.testing.assert_allclose(weights @ x**power, 1 / (power + 1), rtol=1e-13)


@pytest.mark.parametrize(("solver", "order"), [("Tsit5", 5), ("Dopri8", 8)])
def test_order_of_the_integrator(solver, order):
    import diffrax

    method = tableau(getattr(diffrax, solver)())
    rhs = lambda t, y: jnp.stack([y[1], -y[0]]) * (1.0 + t)
    exact = np.array([np.cos(1.5), -np.sin(1.5)])

    def error(steps):
        y, h = jnp.array([1.0, 0.0]), jnp.array(1.0 / steps)
        for i in range(steps):
            y = looped(rhs, method, i * h, h, y)[0]
        return float(np.max(np.abs(y - exact)))

    slope = np.log2(error(2) / error(4))
    assert slope > order - 0.7


def test_a_budget_that_is_too_small_is_said_and_the_best_is_returned():
    method = control.MultipleShooting(max_iterations=2)
    result = control.solve(least_energy(), method)
    assert not result.converged
    assert "out of iterations (2)" in result.status
    assert "NOT converged" in str(result)
    assert np.isfinite(result.cost)


def test_other_parameters_compile_nothing_again():
    method = control.MultipleShooting(max_iterations=5)
    control.solve(least_energy(), method)
    compiled = []
    record = lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
    heavy = least_energy(
        constraints=(control.StateAtEnd(q=jnp.full(1, 2.0), u=jnp.zeros(1)),),
        costs=(control.ControlEnergy(weight=3.0),),
    )
    heavy = eqx.tree_at(lambda p: p.system, heavy, Cart(jnp.array(2.0)))
    jax.monitoring.register_event_duration_secs_listener(record)
    try:
        control.solve(heavy, method)
    finally:
        jax.monitoring.unregister_event_duration_listener(record)
    assert compiled == []


def test_replay_takes_options():
    motion = replay(least_energy(), lambda t: jnp.ones(1), ts=np.array([0.0, 1.0]), dt=0.1)
    np.testing.assert_allclose(motion.q_end, [0.5], rtol=1e-12)
