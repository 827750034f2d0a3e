"""Free initial states and conditions on both ends, against closed forms. docs/optimal_control.md has a periodic motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from tests.control.cart import Cart, least_energy

METHOD = control.Collocation(intervals=3, degree=3)


class FromPlace(eqx.Module):
    """The cost ½ (x − a)² of a start x away from a."""

    a: jax.Array

    def __call__(self, t, q, u, control):
        return 0.5 * jnp.sum((q - self.a) ** 2)


def test_the_best_start_under_a_prior():
    """6 (1 − x)² + ½ w (x − a)² is least at x = (12 + w a)/(12 + w); if x is limited to 0.5, the bound is the best
    start.

    The guess has the initial velocity 1, but the fixed initial velocity 0 must stay.
    """
    ts = jnp.linspace(0.0, 1.0, 5)
    guess = (0.3 + ts[:, None], jnp.ones((5, 1)))
    start = lambda **bounds: control.FreeInitialState(u=False, **bounds)
    end = control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1))
    for w, a, upper in ((6.0, -0.5, 9.0), (24.0, -1.0, 9.0), (1.0, 3.0, 0.5)):
        costs = (
            control.ControlEnergy(),
            control.InitialCost(FromPlace(jnp.asarray(a)), jnp.asarray(w)),
        )
        constraints = (end, start(lower=-9.0, upper=jnp.asarray(upper)))
        result = control.solve(
            least_energy(costs=costs, constraints=constraints, guess=guess), METHOD
        )
        assert result.certificate is not None
        assert result.certificate.holds, result
        x = min((12 + w * a) / (12 + w), upper)
        np.testing.assert_allclose(result.states[0][0], x, atol=1e-7)
        np.testing.assert_allclose(result.states[1][0], 0.0)
        np.testing.assert_allclose(result.cost, 6 * (1 - x) ** 2 + w * (x - a) ** 2 / 2, rtol=1e-8)
        np.testing.assert_allclose(result.trajectory.q[-1], 1.0, atol=1e-8)
        np.testing.assert_allclose(result.costates[0, 0], -12 * (1 - x), atol=1e-6)
        by = control.sensitivity(result)
        np.testing.assert_allclose(by.costs[1].weight, (x - a) ** 2 / 2, rtol=1e-6, atol=1e-9)
        slope = w * (x - a) - 12 * (1 - x) if x == upper else 0.0
        np.testing.assert_allclose(by.constraints[1].upper, slope, atol=1e-6)


def test_boundary_terms_that_do_not_fit_are_refused():
    free, periodic = control.FreeInitialState, control.Periodic
    refused = (
        (free(q=(1,)), ValueError, r"`q` of `free initial state` is \(1,\); it must be True, False"),
        (free(q=(0, 0)), ValueError, "different whole numbers from 0 to 0"),
        (free(q=False, u=False), ValueError, "`free initial state` selects no coordinate"),
        (free(lower=np.zeros(3)), ValueError, r"each must be a number or of the shape \(2,\)"),
        (free(lower=1.0, upper=0.0), ValueError, "no value lies between them"),
        (periodic(u=(2,)), ValueError, "`u` of `periodic` is"),
        (periodic(displacement=np.zeros(2)), ValueError, r"has shape \(2,\); it must be 0 or \(1,\)"),
        (periodic(displacement=np.nan), ValueError, "`displacement` of `periodic`"),
        (control.BoundaryConditions(lambda q: q, name="ends"), TypeError, r"as \(q, u, q_end, u_end\)"),
    )  # fmt: skip
    for term, kind, words in refused:
        with pytest.raises(kind, match=words):
            least_energy(constraints=(term,))
    with pytest.raises(TypeError, match="a `FreeInitialState`, which MultipleShooting cannot keep"):
        control.solve(least_energy(constraints=(free(),)))
    with pytest.raises(TypeError, match=r"a `Periodic`, .* Indirect cannot keep"):
        control.solve(least_energy(constraints=(periodic(),)), control.Indirect())
    with pytest.raises(ValueError, match="2 FreeInitialState; a problem has one initial state"):
        control.solve(least_energy(constraints=(free(), free())), METHOD)
    price = (control.InitialCost(FromPlace(jnp.zeros(1))),)
    with pytest.raises(TypeError, match="an `InitialCost`, a cost at the first time"):
        control.solve(least_energy(costs=price), control.Indirect())


def test_a_saved_search_begins_at_the_initial_state_and_has_possible_values():
    """A search resumed from changed arrays reaches the optimum of `test_the_best_start_under_a_prior` (first case);
    impossible values are refused."""
    end = control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1))
    prior = control.InitialCost(FromPlace(jnp.asarray(-0.5)), jnp.asarray(6.0))
    start = control.FreeInitialState(u=False, lower=-9.0, upper=jnp.asarray(9.0))
    problem = least_energy(costs=(control.ControlEnergy(), prior), constraints=(end, start))
    first = CollocationSearch(METHOD, problem)
    first.make_iterations()
    saved = first.to_arrays()
    elsewhere = {key: saved[key] + 0.3 for key in (".w.q", ".w.x", ".w.c", ".duals.costates")}
    again = CollocationSearch(METHOD, problem, saved | elsewhere)
    found = again.result(again.run(None))
    np.testing.assert_allclose(found.states[0][0], 0.5, atol=1e-7)  # (12 - 3) / 18
    np.testing.assert_allclose(found.states[1][0], 0.0, atol=1e-12)
    wrong = {
        ".w.X": np.full_like(saved[".w.X"], np.nan),
        ".w.c": saved[".w.c"].astype(complex),
        ".w.p": saved[".w.p"] + 100.0,  # beyond its bound
        ".duals.p_low": -1.0 - saved[".duals.p_low"],
        ".mu": np.zeros(()),
        "shares": saved["shares"][::-1],
    }
    for key, value in wrong.items():
        with pytest.raises(ValueError, match="the saved search is damaged, or one of another"):
            CollocationSearch(METHOD, problem, saved | {key: value})


class Plane(Cart):
    """A point mass in a plane, driven by a force."""

    space = jaxhamel.Euclidean(2)
    n_controls = 2


POINT = Plane(jnp.array(1.0))


@pytest.mark.parametrize(
    ("free_q", "free_u", "wanted"),
    [((), (), 12.0), ((), (1,), 7.5), ((1,), (1,), 6.0), ((0, 1), (), 0.0)],
)
def test_free_coordinates_at_the_end(free_q, free_u, wanted):
    """½ ∫ f² of a unit mass over 1 m in 1 s is 6 to rest, 3/2 with a free end velocity, 0 where nothing is asked for."""
    end = control.StateAtEnd(jnp.ones(2), jnp.zeros(2), free_q, free_u)
    problem = control.ControlProblem(
        POINT, jnp.zeros(2), jnp.zeros(2), jnp.array([0.0, 1.0]), lambda t: jnp.zeros(2),
        (control.ControlEnergy(),), (end,),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(intervals=2))
    assert result.certificate.holds
    assert abs(result.cost - wanted) < 1e-9


def test_free_coordinates_that_do_not_fit():
    def checked(**given):
        control.ControlProblem(
            POINT, jnp.zeros(2), jnp.zeros(2), jnp.array([0.0, 1.0]), lambda t: jnp.zeros(2),
            (control.ControlEnergy(),), (control.StateAtEnd(**given),),
        )  # fmt: skip

    with pytest.raises(
        ValueError,
        match=r"`free_q` of `StateAtEnd` is \(2,\); it must be a tuple of different whole",
    ):
        checked(q=jnp.ones(2), free_q=(2,))
    with pytest.raises(ValueError, match=r"`free_u` of `StateAtEnd` is True; it must be a tuple"):
        checked(u=jnp.ones(2), free_u=True)
    with pytest.raises(ValueError, match=r"`free_u` of `StateAtEnd` is \(1,\), but `u` is None"):
        checked(q=jnp.ones(2), free_u=(1,))
