"""Each error message of `simulate` names the argument, its value, the accepted values and a remedy."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.simulate import simulate
from tests.simulate.small_systems import Body, Pendulum

PENDULUM = Pendulum(jnp.asarray(2.0))
BODY = Body(jnp.array([1.0, 2.0, 2.5]))

BAD = {
    "ts two-dimensional": ({"ts": [[0.0, 1.0]]}, ValueError, r"`ts` has shape \(1, 2\).*\(T,\)"),
    "ts empty": ({"ts": []}, ValueError, r"`ts` is empty.*initial time"),
    "ts backwards": ({"ts": [1.0, 0.0]}, ValueError, r"`ts` is out of order: ts\[0\] = 1 and ts\[1\] = 0.*increasing"),
    "ts repeated": ({"ts": [0.0, 1.0, 1.0]}, ValueError, r"ts\[1\] = 1 and ts\[2\] = 1.*drop repeated"),
    "ts NaN": ({"ts": [0.0, np.nan]}, ValueError, r"`ts` is .*finite"),
    "ts words": ({"ts": ["now", "then"]}, TypeError, r"`ts` is of type .*real numbers"),
    "u0 shape": ({"u0": [0.1, 0.2]}, ValueError, r"`u0` has shape \(2,\); it must have shape \(1,\).*Pendulum has 1"),
    "u0 NaN": ({"u0": [np.inf]}, ValueError, r"`u0` is .*finite"),
    "q0 shape": ({"q0": [0.1, 0.2]}, ValueError, r"`q0`.*\(1,\)"),
    "dt zero": ({"dt": 0.0}, ValueError, r"`dt` is 0.*positive.*dt=0.01"),
    "dt far too small": ({"dt": 1e-12}, ValueError, r"`dt` is 1e-12: with it, 1 s take more than"),
    "dt subnormal": ({"dt": 5e-324}, ValueError, r"`dt` is .*: with it, 1 s take more than 2147483647"),
    "dt array": ({"dt": [0.1, 0.2]}, ValueError, r"`dt` has shape \(2,\).*one number"),
    "rtol negative": ({"rtol": -1e-3}, ValueError, r"`rtol` is -0.001.*positive"),
    "atol text": ({"atol": "tight"}, TypeError, r"`atol`.*real numbers"),
    "dt and rtol": ({"dt": 0.1, "rtol": 1e-3}, ValueError, r"`dt` is given together with `rtol`.*alone"),
    "solver class": ({"solver": diffrax.Tsit5}, TypeError, r"`solver` is the class Tsit5.*with the parentheses"),
    "solver name": ({"solver": "dopri5"}, TypeError, r"`solver` is of type str.*diffrax solver"),
    "adjoint": ({"adjoint": "reverse"}, TypeError, r"`adjoint` is of type str.*diffrax.ForwardMode"),
    "max_steps": ({"max_steps": 0}, ValueError, r"`max_steps` is 0.*positive whole number"),
    "max_steps huge": ({"max_steps": 10**30}, ValueError, r"`max_steps` is 1000.*positive whole number up to 2147483647"),
    "max_steps of many digits": ({"max_steps": 10**5000}, ValueError, r"`max_steps` is of type int.*positive whole number"),
    "route a dict": ({"route": {"a": 1}}, TypeError, r"`route` is \{'a': 1\}; it must be the name of a route"),
    "route": ({"route": "newton"}, ValueError, r"`route` is 'newton'.*'gauss'"),
    "control NaN": ({"control": lambda t: jnp.sqrt(0.4 - t)}, ValueError, r"`control` is not finite at t = 0.5.*"),
    "control NaN constant": ({"control": jnp.nan}, ValueError, r"`control` is not finite at t = 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_message(case):
    changed, error, message = BAD[case]
    arguments = {"q0": [0.5], "u0": [0.1], "ts": [0.0, 0.5, 1.0]} | changed
    with pytest.raises(error, match=message):
        simulate(PENDULUM, **arguments)


class Pushed(Pendulum):
    def check_control(self, t, control):
        if control(t) < 0:
            raise ValueError("it can only be pushed")


def test_a_check_of_the_users_own_may_look_at_values():
    with pytest.raises(ValueError, match="it can only be pushed"):
        simulate(Pushed(jnp.asarray(2.0)), [0.5], [0.1], [0.0, 1.0], -1.0)


def test_quaternions_must_be_unit():
    with pytest.raises(ValueError, match=r"`q0`.*unit|`q0`.*length|`q0`.*norm"):
        simulate(BODY, [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0])


def test_backsolve_on_groups():
    q0, u0, ts = [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0]
    with pytest.raises(
        ValueError, match=r"`adjoint` is BacksolveAdjoint.*RecursiveCheckpointAdjoint"
    ):
        simulate(BODY, q0, u0, ts, adjoint=diffrax.BacksolveAdjoint())


def test_error_of_the_user_survives():
    with pytest.raises(KeyError, match="my own"):
        simulate(PENDULUM, [0.5], [0.1], [0.0, 1.0], _raising)


def _raising(t):
    raise KeyError("my own")
