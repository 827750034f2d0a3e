"""Bad input: one message that names the argument, what it got, what it accepts."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cart import least_energy

from jaxhamel import control


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
    "`guess` has shapes": lambda: least_energy(guess=(jnp.zeros((5, 2)), jnp.zeros((5, 1)))),
    "`steps` is 3; it must be an even number": lambda: control.MultipleShooting(steps=3),
    "`max_seconds` is": lambda: control.MultipleShooting(max_seconds=-1.0),
    "`samples` is 5": lambda: control.SingleShooting(samples=5),
    "`starts` has shape (2, 3)": lambda: control.solve_many(least_energy(), jnp.zeros((2, 3))),
}


@pytest.mark.parametrize("message", BAD)
def test_values(message):
    with pytest.raises(ValueError, match=r"^" + message.replace("(", r"\(").replace(")", r"\)")):
        BAD[message]()


WRONG = {
    "`curve` is": lambda: least_energy(curve=3.0),
    "`costs` holds": lambda: least_energy(costs=(lambda t: t,)),
    "`constraints` holds": lambda: least_energy(constraints=(control.ControlEnergy(),)),
    "`solver` is": lambda: control.MultipleShooting(solver="rk4"),
    "`optimiser` is": lambda: control.GradientDescent(optax.adam),
    "`method` is": lambda: control.solve(least_energy(), control.MultipleShooting),
    "`path` is": lambda: control.TrackingProblem(None, None, None, None, None, path=1.0),
}


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
