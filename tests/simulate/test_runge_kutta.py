"""Explicit Runge–Kutta steps, unrolled and in a loop, against diffrax's step and the exponential series."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.simulate._solvers._runge_kutta import (
    RK4,
    Tableau,
    increment,
    incremented,
    looped,
    runge_kutta_step,
    tableau,
)

METHODS = [diffrax.Heun(), diffrax.Ralston(), diffrax.Bosh3(), diffrax.Tsit5(), diffrax.Dopri8()]
START = {"x": jnp.array([0.3, -0.2]), "y": jnp.array(0.7)}
T, H = jnp.array(0.2), jnp.array(0.1)


def rate(t, y):
    return {"x": jnp.sin(t) * y["x"][::-1] - y["y"] * y["x"] ** 2, "y": y["x"].sum() - t * y["y"]}


def close(a, b, atol=1e-15):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-14, atol=atol), a, b)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_step_is_that_of_diffrax(method):
    terms = diffrax.ODETerm(lambda t, y, args: rate(t, y))
    state = method.init(terms, T, T + H, START, None)
    wanted = method.step(terms, T, T + H, START, None, state, jnp.array(False))[0]
    found = tableau(method)
    close(jax.jit(lambda y: runge_kutta_step(rate, found, T, H, y))(START), wanted)
    close(jax.jit(lambda y: looped(rate, found, T, H, y)[0])(START), wanted)


def test_rk4_is_the_exponential_series_to_order_four():
    h, y = jnp.array(0.5), jnp.array(2.0)
    wanted = 2.0 * (1 + 0.5 + 0.5**2 / 2 + 0.5**3 / 6 + 0.5**4 / 24)
    for end in (
        runge_kutta_step(lambda t, y: y, RK4, T, h, y),
        looped(lambda t, y: y, RK4, T, h, y)[0],
    ):
        close(end, wanted)


def test_slopes_of_both_loops_are_the_same():
    """A method whose stages use only the previous slope takes a short loop, which gives the slopes of the general one."""
    from jaxhamel.simulate._solvers._runge_kutta import _full

    assert RK4.chained
    assert not tableau(diffrax.Tsit5()).chained
    for a, b in zip(looped(rate, RK4, T, H, START), _full(rate, RK4, T, H, START), strict=True):
        close(a, b)


def test_a_known_first_slope_is_used():
    zero = jax.tree.map(jnp.zeros_like, START)
    euler = Tableau.of([[0.0]], (1.0,), (0.0,))
    close(runge_kutta_step(rate, euler, T, H, START, first=zero), START)
    close(incremented(START, H, (0.0,), [zero]), START)
    close(increment(H, (0.0,), [START]), zero)


def test_stages_for_the_error_estimate_alone_are_left_out():
    assert len(tableau(diffrax.Bosh3()).b) == 3
    assert len(tableau(diffrax.Tsit5()).b) == 6
