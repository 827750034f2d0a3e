"""Experiment design, against information matrices in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import identify
from jaxhamel.control import Limited
from jaxhamel.identify._design import _criterion, _gain, _steps_in_longest
from jaxhamel.identify._linearised._rollout import predicted, states
from jaxhamel.mechanics._description._parameters import parameter
from tests.control.cart import DrivenCart
from tests.identify.systems import PLACE

TS = np.linspace(0.0, 2.0, 9)


class Push(eqx.Module):
    """A constant push."""

    size: jax.Array

    def __call__(self, t):
        return self.size


def planned(mass=2.0, **options):
    at_rest = (jnp.zeros(1), jnp.zeros(1))
    sought = [identify.Positive("mass", unit="kg")]
    return identify.Experiment(DrivenCart(mass), sought, [PLACE], TS, *at_rest, **options)


def test_information_of_a_mass_that_is_pushed_from_a_known_start():
    """x = a t²/(2 m), ∂x/∂log m = −x: F = Σ x²/σ²; the error of m is m/√F."""
    experiment, curve = planned(state_error=1e-9), Push(jnp.array([0.7]))
    exact = np.sum((0.7 * TS**2 / 4.0 / 0.1) ** 2)
    np.testing.assert_allclose(experiment.information(curve), [[exact]], rtol=1e-9)
    np.testing.assert_allclose(experiment.errors(curve)["mass"], 2.0 / np.sqrt(exact), rtol=1e-9)


def test_information_of_an_unknown_start_is_what_the_start_cannot_explain():
    """The information comes from the part of t² that is orthogonal to 1 and t, by least squares."""
    experiment, curve = planned(state_error=1e6), Push(jnp.array([0.7]))
    column = 0.7 * TS**2 / 4.0 / 0.1
    others = np.column_stack([np.ones_like(TS), TS])
    left = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
    np.testing.assert_allclose(experiment.information(curve), [[left @ left]], rtol=1e-6)


def test_pushes_as_hard_as_it_may():
    """Information grows with the square of the push, so the best push is at its limit and the gain is the squared
    ratio."""
    curve = Limited(Push(jnp.array([0.2])), [-1.0], [1.0])
    found = identify.design(planned(), curve, max_steps=30)
    before, after = float(curve(0.0)[0]), float(found.curve(0.0)[0])
    assert 0.97 < after < 1.0
    np.testing.assert_allclose(found.gain, (after / before) ** 2, rtol=1e-6)
    assert found.history[-1] < found.history[0]
    assert "D-optimal experiment" in str(found)
    one = identify.design(planned(), curve, max_steps=1)
    assert (len(one.history), one.converged) == (2, False)  # the start and one step


def test_gain_is_the_geometric_mean():
    """With both eigenvalues four times as large, the information per parameter is four times as large."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    first = turn @ np.diag([1.0, 9.0]) @ turn.T
    np.testing.assert_allclose(_gain(first, 4.0 * first), 4.0, rtol=1e-13)
    np.testing.assert_allclose(_gain(first, np.diag([9.0, 36.0])), 6.0, rtol=1e-13)


def test_steps_fit_into_the_longest_interval():
    wanted = {
        (0.0, 0.1, 0.4): 6,
        (0.0, 0.3, 0.4): 6,
        (0.0, 0.05): 1,
        (0.0, 0.04): 1,
        (0.0, 0.051): 2,
    }
    assert {ts: _steps_in_longest(np.array(ts), 0.05) for ts in wanted} == wanted


def test_soft_limit_on_the_rate():
    """The best ramp a t has the largest slope allowed, |a| ≤ 0.5, up to the softness of the limit."""

    class Ramp(eqx.Module):
        slope: jax.Array

        def __call__(self, t):
            return self.slope * t

    seen = []
    found = identify.design(
        planned(max_rate=0.5),
        Ramp(jnp.array([0.1])),
        progress=lambda *at: seen.append(at),
        max_steps=40,
    )
    assert seen == [*enumerate(found.history)][1:]  # the first entry is the start
    assert 0.5 < float(found.curve.slope[0]) < 0.55


def test_criteria_and_their_gradients():
    """−log det F/P, log(tr F⁻¹/P), −log λ_min of a diagonal matrix, and derivatives by its entries."""
    F = jnp.array([2.0, 4.0, 8.0])
    expected = {
        "D": (-np.log(64.0) / 3, [-1 / 6, -1 / 12, -1 / 24]),
        "A": (np.log(0.875 / 3), [-0.25 / 0.875, -0.0625 / 0.875, -0.015625 / 0.875]),
        "E": (-np.log(2.0), [-0.5, 0.0, 0.0]),
    }
    for name, (value, slope) in expected.items():
        found = jax.value_and_grad(lambda d, name=name: _criterion(name, jnp.diag(d)))(F)
        np.testing.assert_allclose(found[0], value, rtol=1e-12)
        np.testing.assert_allclose(found[1], slope, rtol=1e-10, atol=1e-12)


class Spun(jaxhamel.System):
    """A rigid body driven by a torque in body axes."""

    inertia: jax.Array = parameter()
    space = jaxhamel.SO3()

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(self.inertia * v**2)

    def force(self, t, q, v, control):
        return control


SENSORS = (
    identify.Orientation(noise=[0.01, 0.03, 0.1], part=None),
    identify.Accelerometer(point=[0.3, 0.1, 0.2], noise=0.05),
)


@pytest.fixture(scope="module")
def spun():
    start = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.4, -0.3, 0.2])
    sought = [identify.Positive("inertia", unit="kg m²")]
    return identify.Experiment(
        Spun([1.0, 2.0, 2.5]), sought, SENSORS, TS, *start, state_error=0.1, dt=0.13
    )


def test_gradient_of_the_information_where_errors_are_not_linear(spun):
    """The gradient equals central differences for orientation errors by logarithms, with another noise for each axis."""
    torque, along, h = jnp.array([0.7, -0.5, 0.9]), jnp.array([0.3, 0.8, -0.5]), 1e-4
    found = jax.jvp(lambda p: spun.information(Push(p)), (torque,), (along,))[1]
    ahead, behind = (spun.information(Push(torque + s * along)) for s in (h, -h))
    expected = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.max(np.abs(expected)))


def test_values_with_the_rates_of_the_motion_are_those_of_the_state(spun):
    """The accelerometer gets the acceleration from the integrator's steps; alone, it solves the equations of motion.
    Both agree."""
    model, curve, ts = spun.model, Push(jnp.array([0.7, -0.5, 0.9])), spun.ts
    for counts in (3, jnp.full(len(TS) - 1, 3)):
        motion = states(model, model.coordinates(), curve, spun.start, ts, counts)
        shown = predicted(model, model.system, curve, motion, ts)[1]
        alone = jax.vmap(lambda t, q, u: SENSORS[1](model.system, t, q, u, curve))
        np.testing.assert_allclose(shown, alone(ts, motion.q, motion.u), rtol=1e-11)


def test_messages():
    for path in (["mass"], 1j, {"mass"}):
        with pytest.raises(TypeError, match=r"`path` is .*; it must be the path of a leaf"):
            identify.Positive(path)
    with pytest.raises(ValueError, match=r"`criterion` is 'T'; it must be one of 'D', 'A', 'E'"):
        identify.design(planned(), Push(jnp.array([0.7])), "T")
    with pytest.raises(ValueError, match="does not determine all parameters"):
        identify.design(planned(), Push(jnp.array([0.0])))
    bare = identify.Coordinate(0, name="place", columns=("place",), unit="m")
    with pytest.raises(ValueError, match=r"measurement 'place' has no `noise`"):
        identify.Experiment(DrivenCart(1.0), [identify.Positive("mass")], [bare], TS, [0.0], [0.0])


REFUSED = {
    "`state_error` has shape (3,)": lambda: planned(state_error=np.ones(3)),
    "`max_rate` is -1": lambda: planned(max_rate=-1.0),
    "`dt` is -1": lambda: planned(dt=-1.0),
    "`system.mass` is nan": lambda: planned(mass=np.nan),
    "`max_steps` is 0": lambda: identify.design(planned(), PUSH, max_steps=0),
    "`tolerance` is -1": lambda: identify.design(planned(), PUSH, tolerance=-1.0),
    "`curve` has no floating-point": lambda: identify.design(planned(), lambda t: jnp.ones(1)),
    "`curve` is of type float": lambda: identify.design(planned(), 3.0),
    "`experiment` is of type DrivenCart": lambda: identify.design(DrivenCart(1.0), PUSH),
    "`progress` is of type bool": lambda: identify.design(planned(), PUSH, progress=True),
}
PUSH = Push(jnp.array([0.7]))


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused_before_anything_runs(message):
    with pytest.raises((ValueError, TypeError)) as caught:
        REFUSED[message]()
    assert str(caught.value).startswith(message)


def test_what_the_experiment_does_not_determine_has_no_finite_error():
    """Without a push the mass is undetermined and its error infinite; a pseudo-inverse would give zero."""
    assert planned().errors(Push(jnp.zeros(1)))["mass"] == np.inf
    assert planned().errors(PUSH)["mass"] < np.inf


def test_an_interrupted_search_returns_the_best_curve():
    def interrupt(number, value):
        raise KeyboardInterrupt

    found = identify.design(planned(max_rate=1.0), PUSH, max_steps=5, progress=interrupt)
    assert not found.converged
    assert found.gain >= 1.0
