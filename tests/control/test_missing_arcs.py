"""A motor whose voltage and current are limited turns through an angle in the least time.

θ̇ = ω, ω̇ = k i − b ω, L i̇ = V − R i − k ω, |V| ≤ V₀, |i| ≤ I. The voltage is V₀ until i = I; the current stays there until
the voltage that keeps it is V₀, which it reaches without a jump; the voltage stays V₀, changes to −V₀ for a few milliseconds
until i = −I, keeps that current, and is V₀ at the end until i = 0. The two short parts are shorter than an interval of the
mesh. With the order of the parts known, six equations determine their six durations.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import root

import jaxhamel
from jaxhamel import control
from jaxhamel.control._mesh._meeting_arcs import _joined, _Run

R = 0.6


def motor(k, b, most, angle, inductance=0.1):
    rate = lambda t, y, c: jnp.stack(
        [y[1], k * y[2] - b * y[1], (c[0] - R * y[2] - k * y[1]) / inductance]
    )
    constraints = (
        control.StateAtEnd(q=jnp.array([angle, 0.0, 0.0])), control.FreeEndTime(1.0, 20.0),
        control.PathLimit(lambda t, q, u, control: control(t), -1.0, 1.0, name="voltage"),
        control.PathLimit(lambda t, q, u, control: q[2], -most, most, name="current"),
    )  # fmt: skip
    return control.ControlProblem(
        jaxhamel.ODE(rate, 3), jnp.zeros(3), jnp.zeros(0), jnp.array([0.0, 6.0]), lambda t: jnp.zeros(1),
        (control.FinalCost(lambda t, q, u, control: t),), constraints,
    )  # fmt: skip


def durations(k, b, upper, lower, angle, guess, inductance=0.1):
    """Those of the parts with voltages V₀, (i = upper), V₀, −V₀, (i = lower), V₀; without the third one where the guess is
    None there, because the voltage that keeps the current does not come to V₀ then."""
    held, has_third = None, guess[2] is not None

    def part(y, duration, voltage):
        def rate(_, y):
            change = 0.0 if voltage is held else (voltage - R * y[2] - k * y[1]) / inductance
            return [y[1], k * y[2] - b * y[1], change]

        return solve_ivp(rate, (0.0, duration), y, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]

    def ends(x):
        y, found = np.zeros(3), []
        for duration, voltage in zip(x, (1.0, held, 1.0, -1.0, held, 1.0), strict=True):
            y = part(y, duration, voltage)
            found.append(y)
        return found

    def off(x):
        full = x if has_third else np.insert(x, 2, 0.0)
        first, second, _, fourth, _, last = ends(full)
        smooth = [R * upper + k * second[1] - 1.0] if has_third else []
        return [first[2] - upper, *smooth, fourth[2] - lower, *(last - [angle, 0.0, 0.0])]

    found = root(off, [x for x in guess if x is not None], tol=1e-13)
    assert found.success
    return found.x


def test_the_current_leaves_its_limit_smoothly_and_jumps_in_less_than_an_interval():
    given = 1.0, 0.1, 0.4, 2.0
    result = control.solve(motor(*given), control.Collocation())
    guess = [0.05, 2.1, 0.4, 0.04, 1.9, 0.04]
    known = durations(*given[:3], -0.4, 2.0, guess)
    assert result.certificate.holds, result.certificate.words
    assert result.cost == pytest.approx(np.sum(known), rel=1e-8)
    nodes = np.asarray(result.ts)
    for time in np.cumsum(known)[:-1]:
        assert np.min(np.abs(nodes - time)) < 1e-5
    # dT/dI for the upper limit alone: the order of the parts stays
    below, above = (np.sum(durations(1.0, 0.1, 0.4 + d, -0.4, 2.0, guess)) for d in (-1e-4, 1e-4))
    by_limit = control.sensitivity(result).constraints[3].upper
    assert float(by_limit) == pytest.approx((above - below) / 2e-4, rel=1e-5)


def test_a_motion_that_ends_in_a_jump_of_the_current():
    given = 0.5, 0.3, 0.5, 1.0
    result = control.solve(motor(*given), control.Collocation())
    known = durations(*given[:3], -0.5, 1.0, [0.06, 2.6, None, 0.08, 1.4, 0.04])
    assert result.certificate.holds, result.certificate.words
    assert result.cost == pytest.approx(np.sum(known), rel=1e-8)


def test_a_current_that_changes_within_a_thousandth_of_the_motion():
    """The short parts take 0.2 to 0.3 % of the time, and no point of the mesh shows the first and the last of them."""
    result = control.solve(motor(1.0, 0.1, 0.5, 2.0, 0.02), control.Collocation())
    guess = [0.012, 1.5, 0.9, 0.008, 1.6, 0.009]
    known = durations(1.0, 0.1, 0.5, -0.5, 2.0, guess, 0.02)
    assert result.certificate.holds, result.certificate.words
    assert result.cost == pytest.approx(np.sum(known), rel=1e-10)
    assert len(result.history["cost"]) < 100


def run(row, first, last, is_upper=True):
    return _Run(row, row, is_upper, first, last)


def test_runs_on_one_bound_are_one_unless_another_is_between():
    """Row 0 depends on the control, row 1 on the state."""
    state = [run(1, 5, 20), run(1, 24, 40)]
    assert _joined(state, 8) == [run(1, 5, 40)]
    assert _joined(state, 3) == state
    between = run(0, 21, 23)
    assert _joined([*state, between], 8) == [between, *state]
    other = [run(1, 5, 20), run(1, 24, 40, False)]
    assert sorted(_joined(other, 8)) == sorted(other)
