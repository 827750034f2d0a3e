"""Families of problems: closed forms for each value, the same optima as alone, failures that lose no other value."""

import time
from functools import cache

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import jaxhamel
from jaxhamel import control
from jaxhamel.control._families import _problems
from jaxhamel.control._families._family_progress import Teller
from jaxhamel.control._families._interpolation import coordinates_of, far_first, weights_of
from jaxhamel.control._many_starts import _side_by_side
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.mechanics import Constant
from jaxhamel.systems import CartPole
from tests.control.cart import Cart, least_energy
from tests.control.ctrl_c import interrupt_at

METHOD = control.Collocation(intervals=4, degree=3, tolerance=1e-11)


def cart(value):
    """The cart of mass m from rest to rest over the distance d in the time T: J = 6 m² d² / T³."""
    return least_energy(
        system=Cart(value["m"]),
        ts=value["T"] * jnp.linspace(0.0, 1.0, 5),
        curve=Constant(jnp.zeros(1)),
        constraints=(control.StateAtEnd(q=value["d"][None], u=jnp.zeros(1)),),
    )


def carts(count, dtype=float):
    drawn = np.random.default_rng(0).uniform(0.5, 2.0, (3, count))
    return {name: jnp.asarray(x, dtype) for name, x in zip("mdT", drawn, strict=True)}


def exact(values):
    m, d, T = (np.asarray(values[name], float) for name in "mdT")
    return 6 * m**2 * d**2 / T**3


@cache
def family_of_carts():
    return control.solve_family(cart, carts(5), METHOD)


def test_costs_and_motions_of_carts():
    family, values = family_of_carts(), carts(5)
    assert family.converged.all()
    np.testing.assert_allclose(family.cost, exact(values), rtol=1e-10)
    s = np.asarray(family.ts) / np.asarray(values["T"])[:, None]
    motion = np.asarray(values["d"])[:, None] * (3 * s**2 - 2 * s**3)
    np.testing.assert_allclose(family.q[..., 0], motion, atol=1e-10)
    at = jax.vmap(lambda c, t: c(0.25 * t[-1]))(family.control, family.ts)
    m, d, T = (np.asarray(values[name]) for name in "mdT")
    np.testing.assert_allclose(at[:, 0], m * d / T**2 * (6 - 12 * 0.25), rtol=1e-9)


@pytest.mark.parametrize(("count", "few"), [(5, 32), (12, 4)])
def test_progress_says_how_many_searches_have_ended(monkeypatch, count, few):
    """The numbers of searches that have ended do not fall, the last one is that of all values, and the time left comes to 0;
    with `few`, the searches run one after the other, or side by side."""
    monkeypatch.setattr(_side_by_side, "FEW_SEARCHES", few)
    monkeypatch.setattr(_side_by_side, "BURST_SECONDS", 1e-3)
    told = []
    family = control.solve_family(cart, carts(count), METHOD, progress=told.append)
    assert family.converged.all()
    ended = [state.ended for state in told]
    assert ended == sorted(ended)
    assert (ended[-1], told[-1].time_left) == (count, 0.0)
    assert all(state.count == count and not state.alone for state in told)
    assert all(0 <= state.time_left <= METHOD.max_seconds for state in told)
    assert str(told[-1]).startswith(f"{count:4d} of {count} values   ")


def test_searches_that_go_on_alone_are_told():
    """Two of three searches alone have taken 4 s: another 2 s are left, if the budget allows that much."""
    told = []
    teller = Teller(told.append, 5, time.monotonic() - 10.0, time.monotonic() + 100.0)
    teller.tell(5)
    teller.searches_alone(3)
    teller.first = time.monotonic() - 4.0
    teller.tell(2)
    assert [(x.ended, x.count, x.alone) for x in told] == [(5, 5, False), (2, 3, True)]
    np.testing.assert_allclose([told[1].elapsed, told[1].time_left], [10.0, 2.0], atol=0.2)
    assert str(told[1]) == "   2 of 3 searches alone   10 s   2 s left"


def test_derivatives_of_costs_by_the_values():
    values = carts(5)
    by = family_of_carts().sensitivity()
    J = exact(values)
    np.testing.assert_allclose(by["m"], 2 * J / values["m"], rtol=1e-8)
    np.testing.assert_allclose(by["d"], 2 * J / values["d"], rtol=1e-8)
    np.testing.assert_allclose(by["T"], -3 * J / values["T"], rtol=1e-8)


def test_costates_are_derivatives_by_the_initial_state():
    """By the first position, ∂J/∂q₀ = −∂J/∂d."""
    J, d = exact(carts(5)), carts(5)["d"]
    np.testing.assert_allclose(family_of_carts().costates[:, 0, 0], -2 * J / d, rtol=1e-8)


def test_a_member_is_the_result_of_solve():
    family = family_of_carts()
    one = family[-2]
    alone = control.solve(cart(jax.tree.map(lambda x: x[3], carts(5))), METHOD)
    assert len(family) == 5
    assert one.certificate is not None
    assert one.certificate.holds
    np.testing.assert_allclose(one.cost, alone.cost, rtol=1e-12)
    np.testing.assert_allclose(one.trajectory.q, alone.trajectory.q, atol=1e-9)
    assert "5 problems of Cart: 5 converged" in str(family)
    with pytest.raises(IndexError):
        family[5]


def test_side_by_side_from_interpolated_starts(monkeypatch):
    """Two searches in each of two threads come first; the starts of the others are interpolated between their optima."""
    for name, value in {"STARTS_AT_ONCE": 2, "FEW": 4, "FEW_SEARCHES": 0}.items():
        monkeypatch.setattr(_side_by_side, name, value)
    monkeypatch.setattr(_side_by_side, "cores", lambda: 2)
    values = carts(11)
    family = control.solve_family(cart, values, METHOD)
    assert family.converged.all()
    assert not family._search.alone
    np.testing.assert_allclose(family.cost, exact(values), rtol=1e-10)


class Oscillator(jaxhamel.System):
    frequency: jax.Array
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v) - 0.5 * self.frequency**2 * jnp.sum(q * q)

    def force(self, t, q, v, control):
        return control


def test_oscillators_of_other_frequencies():
    """From rest at 0 to rest at 1 in the time 2: J = ½ xᵀ W⁻¹ x with the Gramian W of controllability."""
    first = least_energy(system=Oscillator(jnp.array(1.0)), ts=jnp.linspace(0.0, 2.0, 5))
    values = jnp.linspace(0.5, 2.5, 5)
    family = control.solve_family(
        lambda w: eqx.tree_at(lambda problem: problem.system.frequency, first, w),
        values, control.Collocation(intervals=8, degree=5, tolerance=1e-11),
    )  # fmt: skip
    w, T = np.asarray(values), 2.0
    twice = np.sin(2 * w * T) / (4 * w)
    a, b, c = (T / 2 - twice) / w**2, np.sin(w * T) ** 2 / (2 * w**2), T / 2 + twice
    np.testing.assert_allclose(family.cost, 0.5 * c / (a * c - b * b), rtol=1e-9)


def test_single_precision(float32):
    def one(distance):
        wheel = jaxhamel.Kinematic(Cart(jnp.ones((), "float32")))
        zero = jnp.zeros(1, "float32")
        target = control.StateAtEnd(q=distance[None])
        return control.ControlProblem(
            wheel, zero, zero[:0], jnp.array([0.0, 2.0], "float32"), Constant(zero),
            (control.ControlEnergy(),), (target,),
        )  # fmt: skip

    distances = jnp.array([0.5, 1.0, 3.0], "float32")
    family = control.solve_family(one, distances, control.Collocation(intervals=2, degree=2))
    assert family.cost.dtype == jnp.float32
    assert family.converged.all()
    np.testing.assert_allclose(family.cost, distances**2 / 4, rtol=1e-5)


def limited(value):
    """The cart with a force of at most `value`; without the limit the largest force is 6, and 4 is the least that can do."""
    limit = control.PathLimit(
        lambda t, q, u, control: control(t), -value, value, name="force of the motor"
    )
    constraints = (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)), limit)
    return least_energy(constraints=constraints, curve=Constant(jnp.zeros(1)))


def test_a_limit_that_binds_or_cannot_be_kept_for_some_values():
    """With |f| ≤ F the optimal force is F, falls linearly to −F in the share s of the time, and stays there:
    1 = F (1 − s²/3)/4 and J = ½ F² (1 − 2 s/3)."""
    limits = jnp.array([9.0, 5.0, 3.0])
    method = control.Collocation(intervals=8, degree=3)
    family = control.solve_family(limited, limits, method)
    assert family.converged.tolist() == [True, True, False]
    assert "infeasible" in family.status[2]
    assert "force of the motor" in family.status[2]
    saturated = 0.5 * 5.0**2 * (1 - 2 / 3 * np.sqrt(3 * (1 - 4 / 5.0)))
    np.testing.assert_allclose(family.cost[:2], [6.0, saturated], rtol=1e-4)
    alone = control.solve(limited(limits[1]), method)
    np.testing.assert_allclose(family.cost[1], alone.cost, rtol=1e-9)
    assert "values[2]: infeasible" in str(family)


def fastest(force):
    """The cart with |f| ≤ F over the distance 1 in the least time: T = 2 / √F, and f switches from F to −F."""
    limit = control.PathLimit(lambda t, q, u, control: control(t), -force, force, name="force")
    constraints = (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)), control.FreeEndTime(0.2, 5.0))
    costs = (control.FinalCost(lambda t, q, u, control: t),)
    curve = Constant(jnp.zeros(1))
    return least_energy(curve=curve, costs=costs, constraints=(*constraints, limit))


def test_least_times_and_their_derivatives():
    """Both limits bind, so that each search goes on alone, with a node at the switch."""
    forces = np.array([1.0, 4.0])
    method = control.Collocation(intervals=8, degree=3)
    family = control.solve_family(fastest, jnp.asarray(forces), method)
    np.testing.assert_allclose(family.cost, 2 / np.sqrt(forces), rtol=1e-7)
    np.testing.assert_allclose(family.ts[:, -1], family.cost, rtol=1e-12)
    np.testing.assert_allclose(family.sensitivity(), -(forces**-1.5), rtol=1e-6)


def test_a_function_that_jax_cannot_trace():
    values = carts(3)
    numbers = lambda value: cart({name: jnp.array(float(x)) for name, x in value.items()})
    family = control.solve_family(numbers, values, METHOD)
    np.testing.assert_allclose(family.cost, exact(values), rtol=1e-10)
    with pytest.raises(TypeError, match="JAX cannot trace `problem_of`"):
        family.sensitivity()


def closed_over(value):
    limit = control.PathLimit(lambda t, q, u, control: control(t) - value, upper=9.0)
    return least_energy(constraints=(limit,))


REFUSED = {
    r"`problem_of\(value\)` .* of values\[0\]|values\[0\].*`problem_of\(value\)`": (lambda value: value, jnp.ones(2)),
    "`problem_of`": (None, jnp.ones(2)),
    "`values` has no arrays": (cart, {}),
    r"`values\['m'\]` is empty": (cart, {"m": jnp.zeros(0)}),
    "`values.*must be an array with one row": (cart, 1.0),
    "leading axes of `values` have different lengths": (cart, carts(3) | {"m": jnp.ones(2)}),
    r"`values\['m'\]\[1\]` is nan": (cart, carts(2) | {"m": jnp.array([1.0, jnp.nan])}),
    r"values\[1\] is not valid: .*mass": (
        lambda m: control.problems.cart_pole(system=CartPole(pole_mass=m)), jnp.array([0.3, -0.3]),
    ),
    r"values\[2\] is not valid: `lower` of `force of the motor`": (
        limited, jnp.array([9.0, 5.0, -1.0]),
    ),
    r"NaN for values\[1\]": (
        lambda d: eqx.tree_at(lambda p: p.q0, least_energy(), 0.0 * jnp.log(2.0 - d[None])),
        jnp.array([1.0, 3.0]),
    ),
    r"values\[0\] and values\[1\] differ in more than their arrays": (
        closed_over, jnp.array([1.0, 2.0]),
    ),
    r"`q0` of the problem is an array of shape \(2,\)": (
        lambda n: least_energy() if n < 2 else two_carts(), jnp.array([1.0, 2.0]),
    ),
}  # fmt: skip


class TwoCarts(Cart):
    space = jaxhamel.Euclidean(2)


def two_carts():
    return control.ControlProblem(
        TwoCarts(jnp.ones(())), jnp.zeros(2), jnp.zeros(2), jnp.linspace(0.0, 1.0, 5),
        Constant(jnp.zeros(2)), (control.ControlEnergy(),),
        (control.StateAtEnd(q=jnp.ones(2), u=jnp.zeros(2)),),
    )  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_messages_name_the_value(message):
    problem_of, values = REFUSED[message]
    with pytest.raises((TypeError, ValueError), match=message):
        control.solve_family(problem_of, values, METHOD)


def test_methods_that_do_not_solve_families():
    with pytest.raises(TypeError, match="families are solved by collocation"):
        control.solve_family(cart, carts(2), control.MultipleShooting())
    with pytest.raises(ValueError, match="`error` of the method"):
        control.solve_family(cart, carts(2), control.Collocation(error=1e-8))


def test_bounds_without_a_constructor():
    """`equinox.tree_at` calls no constructor, which would find that the bounds are in the wrong order."""
    first = limited(jnp.array(9.0))
    values = jnp.array([9.0, -9.0])
    with pytest.raises(ValueError, match=r"for values\[1\] a lower bound of the path limits"):
        control.solve_family(
            lambda x: eqx.tree_at(lambda p: p.constraints[1].upper, first, x - 1.0), values, METHOD
        )


def test_one_call_of_a_function_that_can_be_traced(monkeypatch):
    calls, make = [], _problems._problem
    monkeypatch.setattr(_problems, "_problem", lambda *given: calls.append(1) or make(*given))
    problems = _problems.problems_of(cart, carts(50), 50)
    assert len(calls) == 1
    np.testing.assert_array_equal(problems.own.system.mass, carts(50)["m"])
    assert problems.own.u0 is None  # which all share


POINTS = arrays(float, st.tuples(st.integers(2, 9), st.integers(1, 3)), elements=st.floats(-1, 1))


@given(POINTS)
@settings(max_examples=30)
def test_interpolation_passes_through_what_is_known(points):
    points = np.unique(np.round(points, 2), axis=0)
    values = np.sin(3 * points.sum(axis=1))
    np.testing.assert_allclose(weights_of(points, points) @ values, values, atol=1e-4)


def test_interpolation_is_exact_for_linear_functions():
    rng = np.random.default_rng(0)
    known, wanted, slope = rng.normal(size=(8, 3)), rng.normal(size=(5, 3)), rng.normal(size=3)
    np.testing.assert_allclose(
        weights_of(known, wanted) @ (known @ slope), wanted @ slope, atol=1e-6
    )


@given(POINTS, st.integers(1, 9))
@settings(max_examples=30)
def test_points_far_apart_come_first(points, count):
    count = min(count, len(points))
    order = far_first(points, count)
    assert sorted(order) == list(range(len(points)))
    if count > 1:
        away = np.linalg.norm(points - points[order[0]], axis=1)
        np.testing.assert_allclose(away[order[1]], np.max(away))


def test_coordinates_leave_out_what_does_not_differ():
    values = {"a": jnp.array([1.0, 3.0]), "b": jnp.ones((2, 2)), "n": jnp.array([4, 2])}
    np.testing.assert_allclose(coordinates_of(values), [[-0.5, 0.5], [0.5, -0.5]])


@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(0, 3)), elements=st.floats(-2, 2)))
@settings(max_examples=30)
def test_stacked_trees_are_their_rows(rows):
    stacked = Stacked.of_rows({"x": rows, "same": np.zeros((len(rows), 2)), "f": jnp.sin})
    assert stacked.own["same"] is None
    for k, row in enumerate(rows):
        np.testing.assert_array_equal(stacked.at(k)["x"], row)
        assert stacked.at(k)["f"] is jnp.sin


def test_ctrl_c_keeps_the_optima_found_so_far(monkeypatch):
    """Ctrl-C during the third of five searches that run one after the other; the first call compiles."""
    interrupt_at("more_iterations", 4, monkeypatch)
    family = control.solve_family(cart, carts(5), control.Collocation(intervals=4, degree=3))
    assert 2 <= int(np.sum(family.converged)) < 5
    assert family.status[-1] == "interrupted"
    solved = np.flatnonzero(family.converged)
    np.testing.assert_allclose(family.cost[solved], exact(carts(5))[solved], rtol=1e-9)
