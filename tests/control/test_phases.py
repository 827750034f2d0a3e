"""Problems of several phases, and ordinary differential equations as systems, against closed forms."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from tests.control.cart import least_energy


class Price(eqx.Module):
    """The cost 18 t of the end time t."""

    def __call__(self, t, q, u, control):
        return 18.0 * t


def reversed_cart(t, y, c):
    """The cart with the state (velocity, position)."""
    return jnp.stack([c[0], y[0]])


def same_motion(q, u, y, none):
    return jnp.concatenate([u, q]) - y


def two_phases(place, **changes):
    """The motion from rest at 0 to rest at 1 through `place` with the least ½∫f² + 18 T; the second phase uses
    (velocity, position)."""
    times = control.FreeEndTime(0.05, 3.0)
    ts = jnp.array([0.0, 0.7])
    via = control.StateAtEnd(q=place)
    first = least_energy(ts=ts, constraints=(via, times))
    second = control.ControlProblem(
        jaxhamel.ODE(reversed_cart, 2), jnp.stack([jnp.ones(()), place[0]]), jnp.zeros(0), ts, lambda t: jnp.zeros(1),
        costs=(control.ControlEnergy(), control.FinalCost(Price())),
        constraints=(control.StateAtEnd(q=jnp.array([0.0, 1.0])), times),
    )  # fmt: skip
    return control.phases((first, second), (same_motion,))


def test_two_phases_with_free_times_and_other_coordinates():
    """J = 6/T³ + 18 T is least at T = 1: J = 24. The place lies on the optimal x = 3 t² − 2 t³, so it does not change
    the optimum."""
    for t in (0.3, 0.55):
        place = jnp.array([3 * t**2 - 2 * t**3])
        result = control.solve(two_phases(place), control.Collocation(intervals=3, degree=3))
        assert result.certificate is not None
        assert result.certificate.holds, result
        first, second = control.phases_of(result)
        np.testing.assert_allclose(result.cost, 24.0, rtol=1e-8)
        np.testing.assert_allclose(
            [first.ts[-1], second.ts[0], second.ts[-1]], [t, t, 1], atol=1e-6
        )
        np.testing.assert_allclose(first.states[0][-1, 0], second.states[0][0, 1], atol=1e-9)
        np.testing.assert_allclose(second.control(0.8), [6 - 12 * 0.8], atol=1e-5)


def test_phases_that_do_not_fit_are_refused():
    one = least_energy()
    other = control.ControlProblem(
        jaxhamel.ODE(reversed_cart, 2), jnp.zeros(2), jnp.zeros(0), one.ts, lambda t: jnp.zeros(1),
        costs=(control.ControlEnergy(),),
    )  # fmt: skip
    with pytest.raises(
        TypeError, match=r"`problems` is .*; it must be a tuple of control.ControlProblem"
    ):
        control.phases(one)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`problems` has 1 problem; phases take at least two"):
        control.phases((one,))
    with pytest.raises(ValueError, match="`links` has 2 entries; 2 phases take 1"):
        control.phases((one, one), (None, None))
    with pytest.raises(
        TypeError, match="`links` is of type int; it must be a list with a function"
    ):
        control.phases((one, one), 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        ValueError, match=r"states of phases 1 and 2 have the shapes .* give `links`"
    ):
        control.phases((one, other))
    with pytest.raises(
        TypeError, match=r"`links\[0\]` cannot be called as \(q, u, q_next, u_next\)"
    ):
        control.phases((one, other), (lambda q: q,))
    with pytest.raises(TypeError, match=r"`result` is .* of another problem"):
        control.phases_of(one)  # pyright: ignore[reportArgumentType]


def test_right_hand_sides_that_do_not_fit_are_refused():
    def with_rate(rate, n=2):
        control.ControlProblem(
            jaxhamel.ODE(rate, n), jnp.zeros(n), jnp.zeros(0), jnp.array([0.0, 1.0]), lambda t: jnp.zeros(1),
            costs=(control.ControlEnergy(),),
        )  # fmt: skip

    with pytest.raises(ValueError, match=r"`function` of `ODE` gives an array of shape \(1,\)"):
        with_rate(lambda t, y, c: c)
    with pytest.raises(TypeError, match=r"`function` of `ODE` gives .*; it must be one array"):
        with_rate(lambda t, y, c: (c, c))
    with pytest.raises(TypeError, match=r"`space` is .*; it must be the number of equations"):
        with_rate(reversed_cart, 2.5)
    with pytest.raises(ValueError, match="`space` is 0; an ODE has at least one equation"):
        with_rate(reversed_cart, 0)
    with pytest.raises(
        ValueError, match=r"`space` is .*; a dimension must be 2,147,483,647 or less"
    ):
        with_rate(reversed_cart, 10**400)
    with pytest.raises(TypeError, match=r"`ODE` cannot be called as \(t, y, control\); write it"):
        with_rate(lambda t, y: y)
