"""Bad input is refused in one message with the argument's name, its value and the accepted values."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxhamel import control
from jaxhamel.systems import CartPole
from tests.control.cart import Cart, least_energy


def spline(**changes):
    arguments = {"coefficients": np.zeros((8, 1)), "t0": 0.0, "t1": 1.0}
    return control.Spline(**(arguments | changes))


BAD = {
    "`coefficients` has shape (8,)": lambda: spline(coefficients=np.zeros(8)),
    "`coefficients` has 5 rows; a spline of degree 5 takes at least 6": lambda: spline(
        coefficients=np.zeros((5, 1))
    ),
    "`coefficients` is": lambda: spline(coefficients=np.full((8, 1), np.nan)),
    "`t0` is 2 and `t1` is 1; times must increase": lambda: spline(t0=2.0),
    "`degree` is 12": lambda: spline(degree=12),
    "`ts` has 4 samples; 8 coefficients": lambda: control.Spline.fit(
        np.arange(4.0), np.zeros((4, 1)), 8
    ),
    "`values` has shape (9,)": lambda: control.Spline.fit(np.arange(9.0), np.zeros(9), 8),
    "`sine` has shape (2, 1)": lambda: control.FourierSeries(
        np.zeros(1), np.zeros((3, 1)), np.zeros((2, 1)), 1.0
    ),
    "`period` is 0": lambda: control.FourierSeries(
        np.zeros(1), np.zeros((3, 1)), np.zeros((3, 1)), 0.0
    ),
    "`lower` is": lambda: control.Limited(spline(), [1.0], [0.0]),
    "`upper` has shape (2,)": lambda: control.RailLimits(lower=[0.0], upper=[1.0, 2.0]),
    "`ramp` is 3 s and `period` 2 s": lambda: control.Line(period=2.0),
    "`u` has shape (2,)": lambda: least_energy(u0=jnp.zeros(2)),
    "`ts` is out of order": lambda: least_energy(ts=jnp.array([0.0, 0.5, 0.4])),
    "`curve` has values of shape (3,); CartPole takes (1,), since its `n_controls` is 1.": lambda: (
        control.ControlProblem(
            CartPole(),
            jnp.zeros(2),
            jnp.zeros(2),
            [0.0, 1.0],
            lambda t: jnp.zeros(3),
            (control.ControlEnergy(),),
        )
    ),
    "`guess` has shapes": lambda: least_energy(guess=(jnp.zeros((5, 2)), jnp.zeros((5, 1)))),
    "`steps` is 3; it must be an even number": lambda: control.MultipleShooting(steps=3),
    "`max_seconds` is": lambda: control.MultipleShooting(max_seconds=-1.0),
    "`samples` is 5": lambda: control.SingleShooting(samples=5),
    "`starts` has shape (2, 3)": lambda: control.solve_many(least_energy(), jnp.zeros((2, 3))),
    "`starts` has shape (1, 1)": lambda: control.solve_many(least_energy(), [[0.0]]),
    "`starts` has no row": lambda: control.solve_many(least_energy(), jnp.zeros((0, 7))),
    "`starts` is": lambda: control.solve_many(least_energy(), jnp.full((1, 7), jnp.nan)),
    "`count` is 0": lambda: control.perturbed_starts(least_energy(), jax.random.key(0), 0),
    "`ts` has 1 time": lambda: least_energy(ts=jnp.zeros(1)),
    "`curve` has no floating-point arrays": lambda: control.solve(
        least_energy(curve=lambda t: jnp.zeros(1))
    ),
    "`curve` gives an array of shape ()": lambda: least_energy(curve=lambda t: 0.0 * t),
    "`q` of `StateAtEnd` has shape (2,)": lambda: ending(control.StateAtEnd(q=jnp.zeros(2))),
    "`u` of `StateAtEnd` has shape (2,)": lambda: ending(control.StateAtEnd(u=jnp.zeros(2))),
    "`q` of `StateAtEnd` is": lambda: ending(control.StateAtEnd(q=[np.nan])),
    "`ControlAt` asks for nothing: give `value`, `rate` or both": lambda: control.ControlAt(),
    "`u` of `Endpoint` is": lambda: costing(control.Endpoint(u=[jnp.nan])),
    "`Endpoint` asks for nothing": lambda: control.Endpoint(),
    "`weight` is -1": lambda: costing(control.ControlEnergy(weight=-1.0)),
    "`path` gives an array of shape (2,) and `output` one of shape (1,)": lambda: costing(
        control.Tracking(lambda t: jnp.zeros(2))
    ),
    "`path` is not finite at t = 0.5": lambda: costing(
        control.Tracking(lambda t: jnp.where(t == 0.5, jnp.nan, t)[None])
    ),
    "`max_iterations` is 2.5": lambda: control.MultipleShooting(max_iterations=2.5),
    "`goal` is -1": lambda: control.MultipleShooting(goal=-1.0),
    "`route` is 'euler'": lambda: control.MultipleShooting(route="euler"),
    "`iterations` is 0": lambda: control.GradientDescent(optax.sgd(0.1), iterations=0),
    "`max_seconds` is nan": lambda: control.GradientDescent(optax.sgd(0.1), max_seconds=np.nan),
    "`max_steps` is 0": lambda: control.SingleShooting(max_steps=0),
    "`n_coefficients` is 3; a spline of degree 5": lambda: control.Spline.constant(
        [0.0], 0.0, 1.0, 3
    ),
    "`n_coefficients` is 8.5": lambda: control.Spline.constant([0.0], 0.0, 1.0, 8.5),
    "`n_coefficients` is 0": lambda: control.Spline.fit(np.arange(9.0), np.zeros((9, 1)), 0),
    "`width` is nan": lambda: control.FigureEight(width=np.nan),
    "`end` has shape (3,)": lambda: control.Line(end=[1.0, 0.0, 0.0]),
    "`costs` and `constraints` are empty": lambda: least_energy(costs=(), constraints=()),
    "`intervals` is 0": lambda: control.Collocation(intervals=0),
    "`degree` is 12; it must be a whole number from 1": lambda: control.Collocation(degree=12),
    "`points` is 'lobatto'": lambda: control.Collocation(points="lobatto"),
    "`tolerance` is 0": lambda: control.Collocation(tolerance=0.0),
    "`lower` of `force` is 1. and `upper` is 0.; no value": lambda: limit(1.0, 0.0),
    "`lower` and `upper` of `force` have the shapes": lambda: limit([0.0], [1.0, 1.0]),
    "`lower` of `force` is inf and `upper` is inf; no finite number": lambda: limit(np.inf, np.inf),
    "`lower` or `upper` of `force` has NaN": lambda: limit(np.nan, 1.0),
    "`lower` of `FreeEndTime` is 3 and `upper` 2": lambda: control.FreeEndTime(3.0, 2.0),
    "`lower` and `upper` of `FreeEndTime` are 1. and inf": lambda: control.FreeEndTime(1.0, np.inf),
    "`lower` of `FreeEndTime` is 0 s": lambda: ending(control.FreeEndTime(0.0, 2.0)),
    "`constraints` has 2 `FreeEndTime`": lambda: collocated(
        control.FreeEndTime(0.5, 2.0), control.FreeEndTime(0.5, 3.0)
    ),
    "`lower` of `force` has shape (2,); its function gives (1,)": lambda: collocated(
        limit([0.0, 0.0], 1.0)
    ),
    "the function of the path limit `flat` gives an array of shape (1, 1)": lambda: collocated(
        control.PathLimit(lambda t, q, u, c: c(t)[None], 0.0, 1.0, name="flat")
    ),
    "the path limit `one` depends on neither q, u nor the control": lambda: collocated(
        control.PathLimit(lambda t, q, u, c: 1.0 + 0.0 * t, 2.0, 3.0, name="one")
    ),
    "the function of `conditions at the end` depends on none of its arguments": lambda: ending(
        control.ConditionsAtEnd(lambda q, u: jnp.ones(1))
    ),
    "the function of `boundary conditions` depends on none": lambda: ending(
        control.BoundaryConditions(lambda q, u, q_end, u_end: 1.0)
    ),
    "`constraints` has 2 `StateAtEnd` whose `q` are .1.. and .2..; a motion": lambda: collocated(
        *(control.StateAtEnd(q=jnp.full(1, x)) for x in (1.0, 2.0))
    ),
    "the path limit `place .m.` is .0.. at the initial state (q0, u0); its bounds are 0.1 to 3": lambda: (
        collocated(control.PathLimit(lambda t, q, u, c: q, 0.1, 3.0, name="place", unit="m"))
    ),
    "`p` has shape (3,)": lambda: control.residual(least_energy(), jnp.zeros(3)),
}


def limit(lower, upper):
    return control.PathLimit(lambda t, q, u, c: c(t), lower, upper, name="force")


def collocated(*constraints):
    return control.solve(least_energy(constraints=constraints), control.Collocation())


def ending(constraint):
    return least_energy(constraints=(constraint,))


def costing(cost):
    return least_energy(costs=(cost,))


@pytest.mark.parametrize("message", BAD)
def test_values(message):
    with pytest.raises(ValueError, match=r"^" + message.replace("(", r"\(").replace(")", r"\)")):
        BAD[message]()


WRONG = {
    "`curve` is": lambda: least_energy(curve=3.0),
    r"the function of the path limit `whole` returns an object of type Spline; .* its value is control\(t\).": lambda: (
        collocated(control.PathLimit(lambda t, q, u, control: control, 0.0, name="whole"))
    ),
    "`path` is of type list": lambda: control.Tracking([1.0]),
    "`output` is of type complex": lambda: control.Tracking(jnp.sin, output=1j),
    "`weight` is {'a': 1.0}": lambda: control.Tracking(jnp.sin, {"a": 1.0}),
    "`costs` holds": lambda: least_energy(costs=(lambda t: t,)),
    "`constraints` holds": lambda: least_energy(constraints=(control.ControlEnergy(),)),
    "`solver` is": lambda: control.MultipleShooting(solver="rk4"),
    "`optimiser` is": lambda: control.GradientDescent(optax.adam),
    "`method` is": lambda: control.solve(least_energy(), control.MultipleShooting),
    "`path` is": lambda: control.TrackingProblem(None, None, None, None, None, path=1.0),
    "`system` is the class Cart": lambda: least_energy(system=Cart),
    "`costs` is one ControlEnergy; give it in a list": lambda: least_energy(
        costs=control.ControlEnergy()
    ),
    "`costs` holds the class ControlEnergy": lambda: least_energy(costs=(control.ControlEnergy,)),
    "`ContactLimits` needs a system": lambda: costing(control.ContactLimits()),
    "`problem` is of type Cart": lambda: control.solve(Cart(jnp.ones(()))),
    "`problem` is traced": lambda: jax.jit(solved)(1.0),
    "`progress` is of type bool": lambda: control.solve(least_energy(), progress=True),
    "`solver` is of type Kvaerno5": lambda: control.MultipleShooting(solver=diffrax.Kvaerno5()),
    "`solver` is of type int": lambda: control.SingleShooting(solver=3),
    "`options` is of type int": lambda: control.GradientDescent(optax.sgd(0.1), options=3),
    "`constraints` has a `PathLimit`, which MultipleShooting cannot keep": lambda: control.solve(
        ending(limit(0.0, 1.0))
    ),
    "`costs` has a `FinalCost`, which is no residual as control.residual needs": lambda: (
        control.residual(costing(control.FinalCost(lambda t, q, u, c: t)), jnp.zeros(7))
    ),
    "`result` is of type Cart without multipliers": lambda: control.sensitivity(Cart(jnp.ones(()))),
    "`function` is of type float": lambda: control.RunningCost(1.0),
    "`curve` is of type float": lambda: control.Limited(3.0, [0.0], [1.0]),
}


def solved(mass):
    return control.solve(least_energy(system=Cart(mass))).cost


@pytest.mark.parametrize("message", WRONG)
def test_types(message):
    with pytest.raises(TypeError, match=r"^" + message):
        WRONG[message]()


def test_nan_in_a_curve_is_found():
    class Broken(control.AbstractCurve):
        def __call__(self, t):
            return jnp.where(jnp.asarray(t) > 0.5, jnp.nan, 1.0)[None]

    with pytest.raises(ValueError, match=r"^`control` is not finite at t = 0\.75"):
        least_energy(curve=Broken())


class Force(control.AbstractCost):
    """The cost ½ |f|², without a weight."""

    def running(self, system, t, q, u, control):
        return control(t)


def test_a_cost_of_ones_own_needs_no_weight():
    problem = least_energy(costs=(Force(),))
    (cost,) = problem.costs
    force = lambda t: 2.0 * t[None]
    at = (problem.system, jnp.asarray(3.0), problem.q0, problem.u0, force)
    np.testing.assert_allclose(cost.running(*at), [6.0])
    assert cost.final(*at).shape == (0,)
