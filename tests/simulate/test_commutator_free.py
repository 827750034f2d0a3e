"""Commutator-free methods: order, error estimate, dense output, derivatives, single precision and misuse."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel.geometry as geo
from jaxhamel.mechanics import acceleration
from jaxhamel.simulate import CommutatorFree2, CommutatorFree4, simulate
from jaxhamel.simulate._solvers._base_classes import GroupHermite
from tests.simulate.curves_on_groups import (
    Kinematics,
    after_steps,
    distance,
    exact,
    exact_rest,
    solve,
    start,
)
from tests.simulate.integrator_systems import Oscillators, check_derivatives, run, sleigh, slope

SO3, SE3 = geo.SO3(), geo.SE3()
PRODUCT = geo.Product(geo.SO3(), geo.Euclidean(2), geo.SE2())
ORDERS = [
    (CommutatorFree2(SE3), 2, 64),
    (CommutatorFree4(SE3), 4, 32),
    (CommutatorFree4(PRODUCT), 4, 32),
]


@pytest.mark.parametrize("case", ORDERS, ids=lambda c: f"{c[1]} on {type(c[0].space).__name__}")
def test_order_on_groups(case):
    """The errors of configuration and rest against a motion in closed form fall with the method's order."""
    solver, order, steps = case
    errors = []
    for n in (steps, 2 * steps):
        q, rest = after_steps(solver, 2.0, n)
        off = float(distance(solver.space, q, exact(solver.space, 2.0)))
        errors.append((off, abs(float(rest - exact_rest(2.0)))))
    assert solver.order(None) == order
    for coarse, fine in zip(*errors, strict=True):
        assert fine > 1e-13
        assert abs(np.log2(coarse / fine) - order) < 0.25


@pytest.mark.parametrize(("solver", "order"), [(CommutatorFree2(), 2), (CommutatorFree4(), 4)])
def test_order_on_a_nonholonomic_system(solver, order):
    """The order for Chaplygin's sleigh on SE(2), whose u is known in closed form."""
    system, y0 = sleigh()
    known = (None, system.solution(3.0, y0[1]))
    found, error = slope(solver, system, y0, 3.0, (40, 80), known)
    assert error > 1e-12
    assert abs(found - order) < 0.2


def test_on_a_vector_space_they_are_the_classical_methods():
    """On R² twenty steps equal those of the midpoint rule and of RK4, written out here."""
    system, y = Oscillators(), np.array([0.5, -0.3, 0.2, 0.4])
    rate = jax.jit(lambda y: jnp.concatenate([y[2:], acceleration(system, 0.0, y[:2], y[2:])]))
    f, h = lambda y: np.asarray(rate(jnp.asarray(y))), 0.1
    two, four = y, y
    for _ in range(20):
        two = two + h * f(two + h / 2 * f(two))
        k1 = f(four)
        k2 = f(four + h / 2 * k1)
        k3 = f(four + h / 2 * k2)
        k4 = f(four + h * k3)
        four = four + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    for solver, expected in ((CommutatorFree2(), two), (CommutatorFree4(), four)):
        y0 = jnp.asarray(y[:2]), jnp.asarray(y[2:])
        q, u = run(solver, system, y0, 0.0, h, 20)
        np.testing.assert_allclose(np.concatenate([q, u]), expected, rtol=0, atol=2e-14)


def test_adaptive_steps_follow_the_tolerance():
    solver, errors, steps = CommutatorFree4(SE3), [], []
    for tolerance in jnp.array([1e-5, 1e-8]):
        controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)
        solution = solve(SE3, solver, 5.0, None, stepsize_controller=controller)
        errors.append(float(distance(SE3, solution.ys[0][0], exact(SE3, 5.0))))
        steps.append(int(solution.stats["num_accepted_steps"]))
    assert errors[0] < 1e-3
    assert errors[1] < 1e-6
    assert 4.0 < steps[1] / steps[0] < 8.0  # 10^(3/4) = 5.6 for an estimate of order 4


@eqx.filter_jit
def one_step(solver, y0, t0, h, state, made_jump):
    term = diffrax.ODETerm(Kinematics(solver.space))
    return solver.step(term, t0, t0 + h, y0, None, state, made_jump)


@eqx.filter_jit
def first_state(solver, y0, t0, h):
    return solver.init(diffrax.ODETerm(Kinematics(solver.space)), t0, t0 + h, y0, None)


JUMP, NO_JUMP = np.array(True), np.array(False)


def test_dense_output_is_of_third_order():
    """Within a step from an exact state the interpolation error is O(h⁴)."""
    solver, errors, t = CommutatorFree4(SE3), [], jnp.asarray(0.7)
    y0 = exact(SE3, t), exact_rest(t)
    for h in (0.1, 0.05):
        h = jnp.asarray(h)
        info = one_step(solver, y0, t, h, first_state(solver, y0, t, h), NO_JUMP)[2]
        inside = solver.interpolation_cls(t0=t, t1=t + h, **info)
        q, rest = inside.evaluate(t + 0.4 * h)
        off = float(distance(SE3, q, exact(SE3, t + 0.4 * h)))
        errors.append((off, abs(float(rest - exact_rest(t + 0.4 * h)))))
    for coarse, fine in zip(*errors, strict=True):
        assert 3.6 < np.log2(coarse / fine) < 4.6
    change = inside.evaluate(t, t + 0.05)
    np.testing.assert_allclose(change[0], inside.evaluate(t + 0.05)[0] - y0[0], atol=1e-15)


def test_the_slope_handed_on_is_thrown_away_after_a_jump():
    solver, t, h = CommutatorFree4(SE3), jnp.zeros(()), jnp.asarray(0.1)
    state = first_state(solver, start(SE3), t, h)
    y1, _, _, state, _ = one_step(solver, start(SE3), t, h, state, NO_JUMP)
    nonsense = jax.tree.map(lambda x: x + 7.0, state)
    good = one_step(solver, y1, h, h, state, NO_JUMP)[0]
    fresh = one_step(solver, y1, h, h, nonsense, JUMP)[0]
    used = one_step(solver, y1, h, h, nonsense, NO_JUMP)[0]
    np.testing.assert_allclose(good[0], fresh[0], atol=1e-15)
    assert float(jnp.max(jnp.abs(used[0] - fresh[0]))) > 1e-2


def test_derivatives():
    check_derivatives(CommutatorFree4())


@pytest.mark.usefixtures("float32")
def test_single_precision():
    system, (q0, u0) = sleigh()
    end = simulate(system, q0, u0, [0.0, 2.0], rtol=1e-5, solver=CommutatorFree4())
    assert end.u_end.dtype == jnp.float32
    np.testing.assert_allclose(end.u_end, system.solution(2.0, u0), atol=2e-5)


def test_misuse_is_explained():
    with pytest.raises(
        TypeError, match=r"`space` is of type str.*CommutatorFree4\(space=system.space\)"
    ):
        CommutatorFree4("SE3")
    with pytest.raises(TypeError, match=r"`space` is the class SE3.*CommutatorFree2"):
        CommutatorFree2(geo.SE3)
    field = diffrax.ODETerm(lambda t, y, args: y)
    with pytest.raises(ValueError, match=r"`space` of CommutatorFree4 is missing"):
        diffrax.diffeqsolve(field, CommutatorFree4(), 0.0, 1.0, 0.1, jnp.ones(4))
    with pytest.raises(ValueError, match=r"CommutatorFree4 steps a pair \(q, rest\)"):
        diffrax.diffeqsolve(field, CommutatorFree4(SO3), 0.0, 1.0, 0.1, jnp.ones(4))
    options = {"solver": CommutatorFree4(), "adjoint": diffrax.BacksolveAdjoint()}
    system, y0 = sleigh()
    with pytest.raises(ValueError, match=r"BacksolveAdjoint.*CommutatorFree4 solver"):
        simulate(system, *y0, [0.0, 1.0], dt=0.1, **options)


@pytest.mark.parametrize("at", [0.0, 1.0])
def test_interpolation_has_the_velocities_of_both_ends(at):
    """The interpolant has the given velocity at each end. At the far end this is not the slope in coordinates about the
    first end, since SO(3) is curved."""
    space, none = SO3, jnp.zeros(1)
    q0 = space.identity(float)
    q1, velocities = (
        space.exp(jnp.array([0.5, -0.9, 0.8])),
        jnp.array([[0.7, 0.1, -0.2], [0.2, 0.6, -0.5]]),
    )
    curve = GroupHermite(0.0, 1.0, space, q0, q1, *velocities, none, none, none, none)
    q, rate = jax.jit(lambda t: jax.jvp(lambda t: curve.evaluate(t)[0], (t,), (1.0,)))(at)
    np.testing.assert_allclose(q, q1 if at else q0, atol=1e-14)
    np.testing.assert_allclose(space.velocity(q, rate), velocities[int(at)], atol=1e-13)
