"""Nodes at the times at which a limit of the state begins or ceases to bind."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq, root

import jaxhamel
from jaxhamel import control
from jaxhamel.control._collocation._checkpoint import points_of
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._start import chosen_points
from jaxhamel.control._mesh._arc_search import ArcSearch
from jaxhamel.control._mesh._boundary_arcs import Side, _arcs_on


def place(t, q, u, control):
    return q[:1]


def speed(t, q, u, control):
    return q[1:]


def velocity(t, q, u, control):
    return u


def force(t, q, u, control):
    return control(t)


def double_integrator(y0, y1, *limits):
    """ÿ = f in unit time with the least ½∫f²."""
    ode = jaxhamel.ODE(lambda t, y, c: jnp.stack([y[1], c[0]]), 2)
    y0, ts = jnp.asarray(y0), jnp.linspace(0.0, 1.0, 3)
    end = control.StateAtEnd(q=jnp.asarray(y1))
    given = (control.ControlEnergy(),), (end, *limits)
    return control.ControlProblem(ode, y0, jnp.zeros(0), ts, lambda t: jnp.zeros(1), *given)


def test_place_and_speed_with_limits_are_exact_on_a_coarse_mesh():
    """Bryson and Ho 1975, section 3.11: from (0, 1) to (0, −1) with x ≤ ℓ.

    For ℓ < 1/6 x is ℓ from 3ℓ to 1 − 3ℓ, and J = 4/(9ℓ); for 1/6 ≤ ℓ ≤ 1/4 it touches ℓ at ½, and J = 96ℓ² − 48ℓ + 8. With
    nodes that do not move, ten intervals are 1e-5 to 1e-4 too high.
    """
    method = control.Collocation(intervals=11)
    for bound, times, cost in ((0.1, (0.3, 0.7), 40 / 9), (0.2, (0.5,), 2.24)):
        limit = control.PathLimit(place, upper=bound, name="place")
        result = control.solve(double_integrator([0.0, 1.0], [0.0, -1.0], limit), method)
        assert result.certificate.holds
        np.testing.assert_allclose(result.cost, cost, rtol=1e-8)
        nodes = np.asarray(result.ts)
        for time in times:
            assert np.min(np.abs(nodes - time)) < 2e-4


@pytest.mark.parametrize("bound", [1.1, 1.3])
def test_speed_with_a_limit(bound):
    """From rest to rest over the distance 1 with ẏ ≤ V: the force falls linearly to 0 at t₁ = 1.5 (1 − 1/V), and
    J = 4V²/(3t₁).

    A multiplier is 0 where the arc begins, so that a barrier keeps a distance from the bound; bounds moved inwards for
    this raised J by 4e-5 where V is 1.1.
    """
    limit = control.PathLimit(speed, upper=bound, name="speed")
    result = control.solve(
        double_integrator([0.0, 0.0], [1.0, 0.0], limit), control.Collocation(intervals=11)
    )
    assert result.certificate.holds
    cost = lambda V: 8 * V**3 / (9 * (V - 1))
    np.testing.assert_allclose(result.cost, cost(bound), rtol=1e-10)
    by_bound = control.sensitivity(result).constraints[1].upper
    np.testing.assert_allclose(by_bound, jax.grad(cost)(bound), rtol=1e-5)


def test_corrections_of_times_that_were_cut_say_nothing_about_later_ones():
    """The arc's first times are far from the right ones, so that the first corrections have their largest length.

    Compared with these, later corrections seemed not to come closer: J was 5e-6 too high at 1.48, with a certificate that
    held, and at 1.01 there was no solution. At 1.03 the limit is violated beside the arc until the last correction.
    """
    for bound in (1.01, 1.03, 1.48):
        limit = control.PathLimit(speed, upper=bound, name="speed")
        problem = double_integrator([0.0, 0.0], [1.0, 0.0], limit)
        result = control.solve(problem, control.Collocation(intervals=11))
        assert result.certificate.words.startswith("certificate: holds\n")
        np.testing.assert_allclose(result.cost, 8 * bound**3 / (9 * (bound - 1)), rtol=1e-8)


def test_a_verdict_says_how_much_a_limit_of_the_state_costs_between_the_points(monkeypatch):
    """Without nodes at the ends of the arc a certificate held in silence for a speed of 1.48, with J 3e-5 too high."""
    monkeypatch.setattr(ArcSearch, "begin", lambda self, solved: None)
    method = control.Collocation(intervals=12, points="gauss")
    for bound in (1.1, 1.3, 1.48):
        limit = control.PathLimit(speed, upper=bound, name="speed")
        problem = double_integrator([0.0, 0.0], [1.0, 0.0], limit)
        result = control.solve(problem, method)
        assert result.certificate.holds
        verdict = result.certificate.words.splitlines()[0]
        found = re.search(r"up to about ([\d.e-]+) above the least one", verdict)
        assert found, verdict
        excess = float(result.cost) - 8 * bound**3 / (9 * (bound - 1))
        assert 0.9 * excess < float(found[1]) < 20.0 * excess
    limit = control.PathLimit(speed, upper=1.05, name="speed")  # 4e-3 too high
    problem = double_integrator([0.0, 0.0], [1.0, 0.0], limit)
    result = control.solve(problem, method)
    assert result.converged
    assert not result.certificate.holds
    assert "cost not determined" in result.certificate.words.splitlines()[0]


def cost_with_both(V, F):
    """½∫f² from rest to rest over the distance 1 in unit time with ẏ ≤ V and |f| ≤ F: f is F until a, then falls linearly
    to 0 at t₁, where ẏ = F (a + t₁)/2 = V; the distance is 1."""

    def excess(a):
        rest = 2 * V / F - 2 * a  # t₁ − a
        first = F * a**2 / 2 + F * a * rest + F * rest**2 / 3
        return 2 * first + V * (1 - 2 * (a + rest)) - 1

    a = brentq(excess, 0.0, V / F, xtol=1e-15)
    return F**2 * (a + (2 * V / F - 2 * a) / 3)


@pytest.mark.parametrize("bound", [5.7, 6.0])
def test_limits_of_speed_and_force_together(bound):
    """Nodes follow the kinks of the force and the ends of the arc on the limit of the speed at once.

    With nodes on one of the two only, J was 1.3e-2 too high where F is 5.7, with a certificate that held.
    """
    limits = (
        control.PathLimit(speed, upper=1.3, name="speed"),
        control.PathLimit(force, -bound, bound, name="force"),
    )
    result = control.solve(
        double_integrator([0.0, 0.0], [1.0, 0.0], *limits), control.Collocation(intervals=16)
    )
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, cost_with_both(1.3, bound), rtol=1e-9)


def test_limits_of_speed_and_force_in_single_precision(float32):
    """Where moving a bound inwards does not help, because it does not bind in that interval, it moves no further: J was
    8e-3 too high."""
    limits = (
        control.PathLimit(speed, upper=1.3, name="speed"),
        control.PathLimit(force, -5.7, 5.7, name="force"),
    )
    result = control.solve(
        double_integrator([0.0, 0.0], [1.0, 0.0], *limits), control.Collocation(intervals=16)
    )
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, cost_with_both(1.3, 5.7), rtol=3e-5)


@pytest.mark.parametrize("F", [6.0, 5.5])
def test_limits_of_place_and_force_together(F):
    """Bryson–Denham with |f| ≤ F: f is -F until a, then rises linearly to 0 at t₁, where x = ℓ and ẋ = 0, likewise back.

    ẋ = F (t₁ - a)/2 at a, so that r = t₁ - a = 2 (1/F - a), and ℓ = a - F a²/2 + F r²/6. Before nodes followed both limits
    at once, J was 3e-4 to 2e-3 too high with a certificate that held.
    """

    def entry(bound, F):
        """(a, t₁ - a)."""
        rest = lambda a: 2 * (1 / F - a)
        place = lambda a: a - F * a**2 / 2 + F * rest(a) ** 2 / 6
        a = brentq(lambda a: place(a) - bound, 0.0, 1 / F, xtol=1e-15)
        return a, rest(a)

    def cost(bound, F):
        a, rest = entry(bound, F)
        return F**2 * (a + rest / 3)

    limits = (
        control.PathLimit(place, upper=0.1, name="place"),
        control.PathLimit(force, -F, F, name="force"),
    )
    problem = double_integrator([0.0, 1.0], [0.0, -1.0], *limits)
    result = control.solve(problem, control.Collocation(intervals=20))
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, cost(0.1, F), rtol=5e-9)
    a, rest = entry(0.1, F)
    for time in (a, a + rest, 1 - a):
        assert np.min(np.abs(np.asarray(result.ts) - time)) < 1e-4
    by_bound = control.sensitivity(result).constraints[1].upper
    slope = (cost(0.1 + 1e-5, F) - cost(0.1 - 1e-5, F)) / 2e-5
    np.testing.assert_allclose(by_bound, slope, rtol=1e-4)


def test_a_saved_search_continues_with_its_points():
    """The points that the search has changed to are saved with it."""
    limits = (
        control.PathLimit(place, upper=0.1, name="place"),
        control.PathLimit(force, -6.0, 6.0, name="force"),
    )
    problem = double_integrator([0.0, 1.0], [0.0, -1.0], *limits)
    method = control.Collocation(intervals=20)
    search = CollocationSearch(method, problem)
    first = search.result(search.run(None))
    again = CollocationSearch(method, problem, search.to_arrays())
    assert again.transcription.rule.points == search.transcription.rule.points
    assert again.transcription.rule.points[-1] == 1.0
    result = again.result(again.run(None))
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, first.cost, rtol=1e-8)
    assert points_of({}) is None


@pytest.mark.parametrize("norm", [False, True])
def test_a_point_mass_passes_an_obstacle(norm):
    """From rest to rest past a circle, with limits of the acceleration: of its components, or of its norm.

    With components the two coordinates are independent: y is on the circle at ½ only, 6h²/T³ for each half, and the force
    along x is F until a, then falls linearly to 0 at ½. The norm is not linear: between the points of an arc it is above
    its bound, which moves inwards.
    """

    def circle(t, q, u, control):
        return jnp.sum((q[:2] - jnp.array([0.5, 0.05])) ** 2)[None]

    def squared(t, q, u, control):
        return jnp.sum(control(t) ** 2)[None]

    def guess(t):
        return jnp.stack([jnp.where(t < 0.5, 4.0, -4.0), -3.0 * jnp.sin(2 * jnp.pi * t)])

    F = 5.0
    acceleration = (
        control.PathLimit(squared, upper=36.0, name="acceleration")
        if norm
        else control.PathLimit(force, -F, F, name="acceleration")
    )
    end = control.StateAtEnd(q=jnp.array([1.0, 0.0, 0.0, 0.0]))
    limits = (control.PathLimit(circle, lower=0.04, name="obstacle"), acceleration)
    problem = control.ControlProblem(
        jaxhamel.ODE(lambda t, y, c: jnp.concatenate([y[2:], c]), 4), jnp.zeros(4), jnp.zeros(0),
        jnp.linspace(0.0, 1.0, 3), guess, (control.ControlEnergy(),), (end, *limits),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(intervals=20))
    assert result.certificate.holds
    if (
        norm
    ):  # both coordinates share the force: between the optimum for F = 5 and that without a limit
        assert 6.0 + 2.16 < float(result.cost) < 8.2050
        return
    length = lambda a: F * (a**2 / 2 + a * (0.5 - a) + (0.5 - a) ** 2 / 3) - 0.5
    a = brentq(length, 0.0, 0.5, xtol=1e-15)
    cost = F**2 * (a + (0.5 - a) / 3) + 2 * 6 * 0.15**2 / 0.5**3
    np.testing.assert_allclose(result.cost, cost, rtol=1e-9)


def test_times_that_are_not_found_leave_the_solution_with_gauss_points():
    """The limit of a cart's place is touched at a time at which the relaxed problem has two solutions."""
    problem = control.problems.cart_pole(travel=1.02)
    result = control.solve(problem, control.Collocation(intervals=40))
    gauss = control.solve(problem, control.Collocation(intervals=40, points="gauss"))
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, gauss.cost, rtol=1e-12)


def test_least_time_with_limits_of_speed_and_force():
    """Full force until the speed is V, V, full force back: T = 1/V + V for |f| ≤ 1.

    The speed comes to its bound with a slope, and the force jumps there to the values of the arc.
    """
    limits = (
        control.PathLimit(speed, upper=0.8, name="speed"),
        control.PathLimit(force, -1.0, 1.0, name="force"),
        control.FreeEndTime(0.1, 10.0),
    )
    problem = double_integrator([0.0, 0.0], [1.0, 0.0], *limits)
    problem = eqx.tree_at(lambda p: p.ts, problem, 2.0 * problem.ts)
    problem = dataclasses.replace(problem, costs=(control.FinalCost(lambda t, q, u, c: t),))
    result = control.solve(problem, control.Collocation(intervals=12))
    assert result.certificate.holds
    np.testing.assert_allclose(result.cost, 1 / 0.8 + 0.8, rtol=1e-8)


class Pendulum(jaxhamel.System):
    """1 kg and 1 m; q = 0 hangs."""

    space = jaxhamel.SO2()
    n_controls = 1

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 + 9.81 * jnp.cos(q[0])

    def force(self, t, q, v, control):
        return control


def swing_up(limit, duration=3.0):
    """A pendulum from rest to upright with the least ½∫τ²."""
    end = control.StateAtEnd(q=jnp.array([jnp.pi]), u=jnp.zeros(1))
    return control.ControlProblem(
        Pendulum(), jnp.zeros(1), jnp.zeros(1), jnp.array([0.0, duration]), lambda t: jnp.zeros(1),
        (control.ControlEnergy(),), (end, limit),
    )  # fmt: skip


def test_a_verdict_in_single_precision_says_nothing_about_an_exact_cost(float32):
    """The barrier of single precision leaves small multipliers beside that of the node at which an arc begins."""
    limit = control.PathLimit(velocity, -3.0, 3.0, name="speed")
    result = control.solve(swing_up(limit), control.Collocation(intervals=20))
    assert result.certificate.words.startswith("certificate: holds\n")


def swing_up_by_shooting(most, duration, guess):
    """½∫τ² of the pendulum from rest to upright with q̇ ≤ `most`, by Pontryagin's conditions.

    τ = −λ₂ is continuous. On the arc it is g sin q; behind it λ₁ follows from the Hamiltonian, which is constant.

    **Arguments:** `guess`: λ₁, λ₂ at the first time, first and last time of the arc.
    """
    g = 9.81

    def rates(t, y):
        q, v, first, second, _ = y
        return [v, -second - g * np.sin(q), g * np.cos(q) * second, -first, second**2 / 2]

    def free(y, begin, end):
        return solve_ivp(rates, (begin, end), y, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]

    def motion(unknowns):
        begin, end = unknowns[2:]
        y = free([0.0, 0.0, *unknowns[:2], 0.0], 0.0, begin)
        energy = -(y[3] ** 2) / 2 + y[2] * y[1] - y[3] * g * np.sin(y[0])
        q = y[0] + most * (end - begin)
        on_arc = quad(lambda x: (g * np.sin(x)) ** 2 / (2 * most), y[0], q, epsabs=1e-13)[0]
        torque = g * np.sin(q)
        behind = [q, most, (energy - torque**2 / 2) / most, -torque, y[4] + on_arc]
        return y, free(behind, end, duration)

    def off(unknowns):
        y, last = motion(unknowns)
        return [y[1] - most, y[3] + g * np.sin(y[0]), last[0] - np.pi, last[1]]

    found = root(off, guess, tol=1e-11)
    assert found.success
    return motion(found.x)[1][4]


@pytest.mark.parametrize(("points", "error"), [("radau", 3e-8), ("gauss", 1e-6)])
def test_speed_of_a_pendulum(points, error):
    """A system of a user, under a torque, with a limit of its speed.

    At the first node of the arc the multiplier is 0 up to the error of the transcription, so that its sign may be wrong.
    With Gauss points this error leaves the limit violated by 1e-6 beside the arc, for which its bound moves inwards; J was
    2e-4 too high without nodes at the arc's ends.
    """
    most, duration = 3.0, 3.0
    problem = swing_up(control.PathLimit(velocity, -most, most, name="speed"), duration)
    result = control.solve(problem, control.Collocation(intervals=20, points=points))
    assert result.certificate.holds
    assert "moved inwards" not in result.certificate.words
    guess = [*np.asarray(result.costates[0]), 0.462 * duration, 0.565 * duration]
    cost = swing_up_by_shooting(most, duration, guess)
    np.testing.assert_allclose(result.cost, cost, rtol=error)


@pytest.mark.parametrize(
    ("limits", "points"),
    [
        ((), "gauss"),
        ((control.PathLimit(speed, upper=1.0),), "radau"),
        ((control.PathLimit(force, upper=1.0),), "gauss"),
        ((control.PathLimit(speed, upper=1.0), control.PathLimit(force, upper=1.0)), "gauss"),
    ],
)
def test_points_that_are_chosen(limits, points):
    problem = double_integrator([0.0, 0.0], [0.1, 0.0], *limits)
    assert chosen_points("auto", problem) == points
    assert chosen_points("radau", problem) == "radau"


def side(distance, binds, multipliers=None):
    times = (np.arange(len(distance)) + 0.5) / len(distance)
    binds = np.asarray(binds, bool)
    multipliers = binds.astype(float) if multipliers is None else np.asarray(multipliers)
    return Side(times, np.asarray(distance, float), multipliers, binds)


def test_arcs_and_touch_points():
    """An impulse between two points is at their mean, weighted with the multipliers; points on the bound between two points
    where it binds belong to one arc, also with multipliers of 0; an arc may begin at the first time."""
    touch = side([1, 0.1, 0, 0, 0.1, 1], [0, 0, 1, 1, 0, 0], [0, 0, 3.0, 1.0, 0, 0])
    np.testing.assert_allclose(_arcs_on(touch, 4), [[(2.5 * 3 + 3.5) / 24] * 2], rtol=1e-12)
    long = side([1, 0, 1e-6, 1e-6, 1e-6, 0, 1, 1], [0, 1, 0, 0, 0, 1, 0, 0])
    np.testing.assert_allclose(_arcs_on(long, 4), [[1.5 / 8, 5.5 / 8]], rtol=1e-12)
    first = side([0, 0, 0, 1], [1, 1, 1, 0])
    np.testing.assert_allclose(_arcs_on(first, 0), [[0.0, 2.5 / 4]], rtol=1e-12)


def test_a_limit_that_binds_nowhere_has_no_arc():
    assert _arcs_on(side([1, 0.5, 1], [0, 0, 0]), 4) == []
