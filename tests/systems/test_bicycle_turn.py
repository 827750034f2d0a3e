"""A bicycle in a steady turn: against a published speed, and its linearisation by two routes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.mechanics import ROUTES, linearise
from jaxhamel.systems import WhippleBicycle

BICYCLE = WhippleBicycle.benchmark()
# Meijaard, Papadopoulos, Ruina and Schwab 2007, section 6: the speed of capsizing, straight on [m/s]
CAPSIZE = 6.02426201538837


@jax.jit
def rates(x):
    """(φ̈, δ̈, θ̈_R) as a function of x = (φ, δ, φ̇, δ̇, θ̇_R) by the multiplier route. Position, heading and wheel
    angles have no effect."""
    q = BICYCLE.configuration(x[0], x[1])
    return ROUTES["multipliers"](BICYCLE, jnp.zeros(()), q, x[2:], None)


def steady(lean, steer, spin):
    """The steady state (φ, δ, 0, 0, θ̇_R) for a given lean φ, by Newton's method on (δ, θ̇_R)."""
    state = lambda y: np.array([lean, y[0], 0.0, 0.0, y[1]])
    residual = lambda y: np.asarray(rates(state(y)))[:2]
    y = np.array([steer, spin])
    for _ in range(8):
        steps = np.diag([1e-6, 1e-4])
        columns = [(residual(y + h) - residual(y - h)) / (2 * h.max()) for h in steps]
        y = y - np.linalg.solve(np.stack(columns, axis=1), residual(y))
    np.testing.assert_allclose(rates(state(y)), 0.0, atol=1e-11)
    return state(y)


@pytest.fixture(scope="module")
def turn():
    """The steady turn with a lean of 0.3 rad, reached through smaller leans."""
    x = steady(0.02, 0.006, 20.0)
    for lean in (0.05, 0.1, 0.2, 0.3):
        x = steady(lean, x[1] * lean / x[0], x[4])
    return x


def test_turns_begin_where_the_straight_motion_capsizes():
    """The speed of a turn with a small lean ε is v_c + O(ε²); extrapolation from two leans gives the capsize speed v_c
    up to O(ε⁴)."""
    speeds = [
        steady(lean, 0.29 * lean, 20.0)[4] * float(BICYCLE.rear_radius) for lean in (0.01, 0.02)
    ]
    np.testing.assert_allclose((4 * speeds[0] - speeds[1]) / 3, CAPSIZE, rtol=1e-7)


def test_eigenvalues_of_a_turn(turn):
    """The matrix for (φ, δ, u) from the last rows of `linearise` equals differences of the multiplier route."""
    q, u = BICYCLE.configuration(turn[0], turn[1]), jnp.asarray(turn[2:])
    A = linearise(BICYCLE, 0.0, q, u).A
    columns = []
    for e in np.eye(2):
        _, along = jax.jvp(lambda x: BICYCLE.configuration(x[0], x[1]), (turn[:2],), (e,))
        columns.append(BICYCLE.space.velocity(q, along))
    slopes = np.hstack([A[9:, :9] @ np.stack(columns, axis=1), A[9:, 9:]])
    central = lambda e, h: (np.asarray(rates(turn + h * e)) - rates(turn - h * e)) / (2 * h)
    wanted = [(4 * central(e, 5e-5) - central(e, 1e-4)) / 3 for e in np.eye(5)]
    np.testing.assert_allclose(slopes, np.stack(wanted, axis=1), rtol=1e-7, atol=1e-6)
    eigenvalues = np.linalg.eigvals(np.vstack([np.eye(5)[2:4], slopes]))
    assert np.sum(np.abs(eigenvalues) < 1e-6) == 1  # in the direction of turns at other speeds
