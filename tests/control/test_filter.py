"""The filter of the interior point's line search, rule by rule (Wächter and Biegler 2006, section 2.3)."""

import jax.numpy as jnp
import numpy as np

from jaxhamel.control._interior_point._filter import (
    ARMIJO,
    FILTER_ENTRIES,
    MARGIN,
    WIDEST,
    Measure,
    accepts,
    augmented,
    empty_filter,
    with_first_theta,
)

NOTHING = jnp.asarray(0.0)
FIRST = 2.0  # violation of the first iterate


def measure(theta, phi):
    return Measure(jnp.asarray(theta), jnp.asarray(phi), NOTHING, NOTHING)


def verdict(known, now, theta, phi, alpha=1.0, slope=1.0):
    """For a trial with violation θ and barrier function φ: whether it is accepted, and whether as a step of descent."""
    numbers = map(jnp.asarray, (theta, phi, alpha, slope))
    return tuple(map(bool, accepts(known, measure(*now), *numbers)))


def fresh():
    return with_first_theta(empty_filter(jnp.float64), jnp.asarray(FIRST))


def test_either_measure_must_fall_by_its_margin():
    now = (0.5, 3.0)
    assert verdict(fresh(), now, 0.5 * (1 - 2 * MARGIN), 9.0) == (True, False)
    assert verdict(fresh(), now, 0.5 * (1 - 0.5 * MARGIN), 9.0) == (False, False)
    assert verdict(fresh(), now, 0.9, 3.0 - 2 * MARGIN * 0.5) == (True, False)
    assert verdict(fresh(), now, 0.9, 3.0 - 0.5 * MARGIN * 0.5) == (False, False)


def test_pairs_of_the_filter_are_not_taken_again():
    known = augmented(augmented(fresh(), measure(0.5, 3.0)), measure(0.1, 4.0))
    now = (1.0, 9.0)
    assert verdict(known, now, 0.3, 3.5) == (True, False)  # between both
    assert verdict(known, now, 0.6, 3.5) == (False, False)  # dominated by the first pair
    assert verdict(known, now, 0.3, 4.5) == (False, False)  # dominated by the second pair
    assert verdict(known, now, 0.05, 99.0) == (True, False)
    margins = 0.5 * (1 - 0.5 * MARGIN), 3.0 - 0.25 * MARGIN
    assert verdict(known, now, *margins) == (
        False,
        False,
    )  # better than the first, but only by half of the margins
    full = fresh()
    for k in range(FILTER_ENTRIES + 1):  # the last entry overwrites the first
        full = augmented(full, measure(0.5 if k == 0 else 0.9, 3.0 if k == 0 else 8.0))
    assert verdict(full, now, 0.6, 3.5) == (True, False)


def test_where_the_violation_is_small_the_barrier_function_falls_as_its_slope_promises():
    now, slope, alpha = (1e-9, 3.0), -2.0, 0.25
    promised = ARMIJO * alpha * 2.0
    assert verdict(fresh(), now, 1e-9, 3.0 - 1.01 * promised, alpha, slope) == (True, True)
    assert verdict(fresh(), now, 0.0, 3.0 - 0.99 * promised, alpha, slope) == (False, False)
    assert verdict(fresh(), now, 0.0, 3.1, alpha, 2.0) == (
        True,
        False,
    )  # not a descent direction: a smaller θ is enough
    # if α |slope|^2.3 ≤ θ^1.1, a smaller violation is enough
    assert 0.1 * 1e-4**2.3 < 1e-9**1.1 < 0.25 * 1e-4**2.3
    assert verdict(fresh(), now, 0.0, 3.0, 0.1, -1e-4) == (True, False)
    assert verdict(fresh(), now, 0.0, 3.0, 0.25, -1e-4) == (False, False)


def test_far_and_not_finite_trials_are_refused():
    assert verdict(fresh(), (1e6, 3.0), 1.01 * WIDEST * FIRST, -9.0) == (False, False)
    assert verdict(fresh(), (1e6, 3.0), 0.99 * WIDEST * FIRST, -9.0) == (True, False)
    for theta, phi in ((np.nan, 0.0), (0.0, np.nan), (0.0, -np.inf)):
        assert verdict(fresh(), (0.5, 3.0), theta, phi) == (False, False)
