"""Optimal gaits against known optima and Stokes' theorem, gaits with momentum against the general equations, and
gradients."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import SE2, SO2, System, simulate
from jaxhamel._search import _stepwise
from jaxhamel.control import (
    FourierSeries,
    GaitProblem,
    elliptic_gait,
    free_parameters,
    gait_displacement,
    gait_motion,
    optimise_gait,
)
from jaxhamel.geometry import curvature, geometric_phase, small_loop_phase
from jaxhamel.mechanics import mechanical_connection
from jaxhamel.systems import CoupledSnakeboard, SpaceRobot

TURN = jnp.ones(1)
BOARD = CoupledSnakeboard(2.0, 0.11, 0.05, 0.013, 0.3)
START = elliptic_gait([0.2, 0.1], [0.5, 0.3], harmonics=2)


class Height(eqx.Module):
    """The connection on SO(2) with the height B_12 = a − b |r|²: A_2 = −a x + b (x³/3 + x y²)."""

    a: jax.Array
    b: jax.Array

    def __call__(self, r):
        x, y = r
        return jnp.stack([jnp.zeros_like(x), -self.a * x + self.b * (x**3 / 3 + x * y * y)])[None]


class Forward(eqx.Module):
    """The coordinate x of a pose (angle, x, y)."""

    def __call__(self, g):
        return g[1]


class Turn(eqx.Module):
    """The angle of a pose (angle, x, y)."""

    def __call__(self, g):
        return g[0]


def height(a, b):
    return Height(jnp.asarray(a), jnp.asarray(b))


def circle_of(curve):
    """Centre and radius of the least-squares circle through the loop's points, and the spread of their distances from
    the centre."""
    points = jax.vmap(curve)(jnp.linspace(0, 1, 50, endpoint=False))
    rows = np.column_stack([2 * points, np.ones(50)])
    x, y, c = np.linalg.lstsq(rows, np.sum(np.asarray(points) ** 2, axis=1), rcond=None)[0]
    radius = math.sqrt(c + x * x + y * y)
    return np.array([x, y]), radius, np.ptp(np.hypot(points[:, 0] - x, points[:, 1] - y))


# --- known optima ---------------------------------------------------------------------------------


def test_unbounded_loop_is_the_zero_level_of_the_height():
    """For B = 1 − |r|² the best loop is the unit circle, with ∫B = π/2."""
    problem = GaitProblem(height(1.0, 1.0), SO2(), START, TURN, steps=40)
    found = optimise_gait(problem, rtol=1e-7, atol=1e-7)
    centre, radius, left = circle_of(found.curve)
    np.testing.assert_allclose(centre, 0, atol=1e-4)
    np.testing.assert_allclose([radius, left], [1, 0], atol=1e-4)
    np.testing.assert_allclose(found.value, math.pi / 2, atol=1e-8)
    assert found.converged
    assert found.gradient_norm < 1e-5
    assert "converged" in str(found)
    assert found.start < 0.5  # the start is far from the optimum


def test_a_search_that_is_interrupted_keeps_its_gait(monkeypatch):
    """An interrupted search returns its best gait, with the costs that it reported. Longer bursts between reports give
    the same iterations."""
    monkeypatch.setattr(_stepwise, "BURST_SECONDS", 0.0)
    problem, told = GaitProblem(height(1.0, 1.0), SO2(), START, TURN, steps=40), []

    def progress(state):
        told.append(state)
        if state.iteration == 6:
            raise KeyboardInterrupt

    cut = optimise_gait(problem, rtol=1e-7, atol=1e-7, progress=progress)
    assert cut.status == "interrupted after 6 steps: best so far"
    assert not cut.converged
    assert cut.iterations == len(told) == 6
    np.testing.assert_array_equal([state.cost for state in told], cut.costs)
    np.testing.assert_allclose([cut.cost, -cut.value], cut.costs[-1], rtol=1e-12)
    assert cut.start < cut.value < math.pi / 2
    assert "NOT converged" in str(cut)
    assert cut.status in str(cut)
    monkeypatch.setattr(_stepwise, "BURST_SECONDS", 10.0)
    whole = optimise_gait(problem, rtol=1e-7, atol=1e-7)
    assert whole.status == "out of steps after 150 steps, the gradient below its tolerance"
    assert whole.converged
    np.testing.assert_array_equal(whole.costs[:6], cut.costs)


def test_most_efficient_loop():
    """max ∫B/length on circles is R/2 − R³/4 with R² = 2/3; on the optimal loop, B is this ratio times the curvature
    1/R."""
    problem = GaitProblem(height(1.0, 1.0), SO2(), START, TURN, per="length", steps=40)
    found = optimise_gait(problem)
    R = math.sqrt(2 / 3)
    np.testing.assert_allclose(circle_of(found.curve)[1:], [R, 0], atol=1e-4)
    np.testing.assert_allclose(-found.cost, R / 2 - R**3 / 4, rtol=1e-8)
    np.testing.assert_allclose(1 - R**2, -found.cost / R, rtol=1e-8)


def test_isoperimetric_loop():
    """If B is constant, the best loop of length L is the circle, with area L²/4π."""
    problem = GaitProblem(height(1.0, 0.0), SO2(), START, TURN, length=3.0, steps=40)
    found = optimise_gait(problem)
    np.testing.assert_allclose(found.length, 3.0, rtol=1e-12)
    np.testing.assert_allclose(circle_of(found.curve)[1:], [3 / (2 * math.pi), 0], atol=1e-4)
    np.testing.assert_allclose(found.value, 9 / (4 * math.pi), rtol=1e-8)


# --- the snakeboard: gaits with momentum --------------------------------------------------------------

GAIT = FourierSeries([0.1, 0.2], [[0.3, 0.6]], [[0.9, 0.1]], 2.0)


class Driven(System):
    """The snakeboard with prescribed shape r(t), as a system on SE(2) for the general equations of motion."""

    board: CoupledSnakeboard
    gait: FourierSeries

    space = SE2()
    n_constraints = 2

    def lagrangian(self, t, q, v):
        r, rdot = jax.jvp(self.gait, (t,), (jnp.ones_like(t),))
        return self.board.lagrangian(t, (q, r), jnp.concatenate([v, rdot]))

    def frame(self, t, q):
        return self.board.frame(t, (q, self.gait(t)))[:3, :3]


def test_snakeboard_moves_as_the_general_equations_say():
    """Two cycles that begin with zero momentum, that is with σ_0 = (J_r/ℓM) sin φ ψ̇, end where the general equations
    on SE(2) end."""
    r, rdot = jax.jvp(GAIT, (jnp.zeros(()),), (jnp.ones(()),))
    per_momentum = BOARD.momentum_velocity(r)[:, 0]
    xi = -BOARD.connection(r) @ rdot
    sigma = xi @ per_momentum / (per_momentum @ per_momentum)  # ξ = 𝜎 d, Γ = d/M
    M = 1 / np.hypot(0.3 * per_momentum[0], per_momentum[1])
    motion = simulate(
        Driven(BOARD, GAIT), jnp.zeros(3), (sigma / M)[None], jnp.array([0.0, 4.0]), dt=0.02
    )
    found = gait_displacement(BOARD, GAIT, SE2(), period=2.0, cycles=2, steps=150)
    assert abs(found[1]) > 0.05
    np.testing.assert_allclose(found, motion.q[-1], atol=1e-7)


def test_displacement_from_rest_does_not_depend_on_the_period():
    @jax.jit
    def after(period):
        gait = eqx.tree_at(lambda c: c.period, GAIT, period)
        return gait_displacement(BOARD, gait, SE2(), period=period)

    np.testing.assert_allclose(after(7.0), after(2.0), atol=1e-13)


@jax.jit
def along_edges(corners):
    """Pose and momentum, and the pose without momentum, along straight edges between corners, at rest in each corner."""

    def path(t):
        k = jnp.clip(jnp.floor(jax.lax.stop_gradient(t)), 0, 3).astype(int)
        x = t - k.astype(t.dtype)
        return corners[k] + (corners[k + 1] - corners[k]) * (3 * x**2 - 2 * x**3)

    times = jnp.linspace(0, 4, 161)
    whole, p = gait_motion(BOARD, path, times, SE2())
    phase, none = gait_motion(BOARD.connection, path, times, SE2())
    assert none.shape == (161, 0)
    return whole, p, phase


def test_phase_is_exact_where_one_shape_moves_at_a_time():
    """Around a rectangle the momentum stays zero, and the displacement is the geometric phase of the connection A.
    Twice along the diagonal and back, the phase of A is zero and momentum causes all of the displacement."""
    low, high = 0.1, 0.9
    square = [[-0.4, low], [0.4, low], [0.4, high], [-0.4, high], [-0.4, low]]
    whole, p, phase = along_edges(jnp.array(square))
    np.testing.assert_allclose(p, 0, atol=1e-14)
    np.testing.assert_allclose(whole, phase, atol=1e-13)
    assert abs(phase[-1][0]) > 0.01
    diagonal = [[-0.4, low], [0.4, high], [-0.4, low], [0.4, high], [-0.4, low]]
    whole, p, phase = along_edges(jnp.array(diagonal))
    np.testing.assert_allclose(phase[-1], 0, atol=1e-7)
    assert abs(whole[-1][1]) > 0.1


def test_without_momentum_it_is_the_geometric_phase():
    """A gait of the connection alone displaces the board by `jaxhamel.geometry.geometric_phase`, which uses another
    integrator."""
    loop = elliptic_gait([0.2, 0.4], [0.5, 0.4])
    found = gait_displacement(BOARD.connection, loop, SE2(), steps=200)
    wanted = geometric_phase(BOARD.connection, loop, SE2(), steps=200)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_small_loops_see_the_curvature():
    """A small loop displaces the board by ½ B ∮x dx up to an error of third order in its size."""

    @jax.jit
    def error(size):
        loop = FourierSeries([0.0, 0.4], size * jnp.eye(2)[:1], size * jnp.eye(2)[1:], 1.0)
        g = gait_displacement(BOARD.connection, loop, SE2())
        return SE2().log(g) - small_loop_phase(BOARD.connection, loop, SE2())

    first, second = (np.linalg.norm(error(size)) for size in (0.1, 0.05))
    assert 2.5 < np.log2(first / second) < 4.5


@pytest.fixture(scope="module")
def crawl():
    """The best gait for the displacement along x in two cycles less the effort, from a start with the shapes in phase."""
    start = FourierSeries([0.0, 0.0], [[0.2, 0.0], [0, 0]], [[-1.0, 0.5], [0, 0]], 1.0)
    objective = Forward()
    problem = GaitProblem(BOARD, SE2(), start, objective, effort_weight=0.04, cycles=2, steps=40)
    return problem, optimise_gait(problem, rtol=1e-8, atol=1e-8)


def test_snakeboard_gait(crawl):
    """The optimum is better than its start and than random neighbours; central differences of the cost are zero there."""
    problem, found = crawl
    assert found.converged
    assert found.value > 2 * abs(found.start)
    p, rebuild = free_parameters(found.curve)
    noise = jnp.asarray(np.random.default_rng(0).normal(size=(16, p.size)))
    cost = jax.jit(jax.vmap(lambda p: problem.cost(p)))
    near = cost(p[None] + 0.03 * noise)
    assert np.min(near) > found.cost
    h = 2e-5
    slope = (cost(p[None] + h * noise) - cost(p[None] - h * noise)) / (2 * h)
    np.testing.assert_allclose(slope, 0, atol=3e-5)
    assert rebuild(p).mean.shape == (2,)


def test_gradient_of_the_displacement(crawl):
    """Away from the optimum, the reverse-mode gradient equals the forward-mode one and Richardson's extrapolation of
    central differences."""
    problem, _ = crawl
    p, _ = free_parameters(problem.curve)
    direction = jnp.linspace(-1.0, 0.7, p.size)
    along = jax.jit(jax.vmap(lambda s: problem.cost(p + s * direction)))
    reverse = jax.jit(jax.grad(lambda p: problem.cost(p)))(p) @ direction
    forward = jax.jit(jax.jvp, static_argnums=0)(lambda p: problem.cost(p), (p,), (direction,))[1]
    c = along(jnp.array([1e-3, -1e-3, 2e-3, -2e-3, 4e-3, -4e-3]))
    once = [(c[2 * k] - c[2 * k + 1]) / (2e-3 * 2**k) for k in range(3)]
    twice = [(4 * once[k] - once[k + 1]) / 3 for k in range(2)]
    np.testing.assert_allclose(reverse, forward, rtol=1e-11)
    np.testing.assert_allclose(reverse, (16 * twice[0] - twice[1]) / 15, rtol=1e-8)


# --- the space robot ------------------------------------------------------------------------------


def test_space_robot_turns_by_the_zero_level_of_its_curvature():
    """Rotations about one axis commute, so the base turns by ∫B, and B = 0 along the loop that turns it the most.

    B has no closed zero level here, so a small weight on the effort closes the loop.
    """
    robot = SpaceRobot(4.0, 0.5, [0.3, 0.0], [1.0, 1.0], [0.5, 0.5], [1.0, 1.0], [0.1, 0.1])
    connection = mechanical_connection(robot)
    start = elliptic_gait([0.0, -1.6], [1.2, 1.0], harmonics=2)
    weight = 0.01
    problem = GaitProblem(connection, SE2(), start, Turn(), effort_weight=weight, steps=30)
    found = optimise_gait(problem, rtol=1e-6, atol=1e-6, iterations=60)
    assert found.value > found.start
    # Stokes: the turn is the integral of B over the loop's inside, by a polar grid about its mean
    mean = found.curve.mean
    nodes, weights = np.polynomial.legendre.leggauss(12)
    s, w = (nodes + 1) / 2, weights / 2
    x = jnp.linspace(0, 1, 64, endpoint=False)
    r, rdot = jax.jit(jax.vmap(lambda x: jax.jvp(found.curve, (x,), (jnp.ones_like(x),))))(x)
    spoke = r - mean[None]
    points = mean[None, None] + jnp.asarray(s)[:, None, None] * spoke[None]
    of_turn = jax.jit(jax.vmap(lambda r: curvature(connection, r, SE2())[0, 0, 1]))
    B = of_turn(jnp.concatenate([points.reshape(-1, 2), r]))
    B, outside = B[:-64].reshape(12, 64), B[-64:]
    sector = spoke[:, 0] * rdot[:, 1] - spoke[:, 1] * rdot[:, 0]
    area = jnp.mean(jnp.einsum("s,st->t", jnp.asarray(s * w), B) * sector)
    np.testing.assert_allclose(found.value, area, rtol=1e-4)
    # Euler–Lagrange of ∫B − α∮|ṙ|²: B (ṙ_2, −ṙ_1) + 2 α r̈ = 0, projected on the loop's two harmonics
    normal = jnp.stack([rdot[:, 1], -rdot[:, 0]], axis=1)
    rddot = jax.jit(jax.vmap(jax.jacfwd(jax.jacfwd(found.curve))))(x)
    force = outside[:, None] * normal + 2 * weight * rddot
    for k in (0, 1, 2):
        for wave in (jnp.cos, jnp.sin):
            component = wave(2 * math.pi * k * x) @ force / 64
            np.testing.assert_allclose(component, 0, atol=2e-4)


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mechanism": 3.0}, TypeError, "`mechanism` is of type float.*connection"),
        ({"objective": jnp.ones(2)}, ValueError, r"`objective` has shape \(2,\).*\(1,\)"),
        ({"objective": 1.0}, TypeError, "`objective` is of type float"),
        ({"curve": lambda t: t}, TypeError, "`curve` is of type function.*elliptic_gait"),
        ({"per": "mile"}, ValueError, "`per` is 'mile'.*'cycle' or 'length'"),
        ({"effort_weight": -1.0}, ValueError, "`effort_weight` is -1"),
        ({"length": 0.0}, ValueError, "`length` is 0.*positive"),
        ({"cycles": 0}, ValueError, "`cycles` is 0.*positive"),
        ({"curve": elliptic_gait([0.0, 0, 0], [1, 1])}, ValueError, r"`connection\(r\)` has shape"),
    ],
)
def test_messages(change, error, message):
    good = {"mechanism": lambda r: jnp.zeros((1, 2)), "space": SO2(), "curve": START}
    with pytest.raises(error, match=message):
        GaitProblem(**{"objective": TURN, **good, **change})


def test_half_a_momentum_is_named():
    class Half:
        connection = momentum_velocity = staticmethod(lambda r: r)

    with pytest.raises(TypeError, match="momentum takes both"):
        gait_motion(Half(), GAIT, jnp.linspace(0, 1, 3), SE2())
    with pytest.raises(ValueError, match="`steps` is 0"):
        gait_displacement(BOARD, GAIT, SE2(), steps=0)
    with pytest.raises(ValueError, match="`iterations` is 0"):
        optimise_gait(GaitProblem(height(1.0, 1.0), SO2(), START, TURN), iterations=0)
