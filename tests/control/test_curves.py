"""Curves against SciPy's splines, closed forms, and the properties that their docstrings state."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from jaxhamel import control
from jaxhamel.control._problem._curves import support

RNG = np.random.default_rng(0)


@eqx.filter_jit
def derivatives(curve, t):
    """Value, first and second derivative of a curve by autodiff."""
    first = lambda t: jax.jvp(curve, (t,), (jnp.ones_like(t),))[1]
    return curve(t), first(t), jax.jvp(first, (t,), (jnp.ones_like(t),))[1]


def scipy_spline(spline):
    J, d = spline.coefficients.shape[0], spline.degree
    t0, t1 = float(spline.t0), float(spline.t1)
    knots = t0 + (t1 - t0) / (J - d) * (np.arange(J + d + 1) - d)
    return BSpline(knots, np.asarray(spline.coefficients), d)


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_spline_and_its_rates_equal_scipy(degree):
    spline = control.Spline(RNG.normal(size=(12, 2)), -1.0, 3.0, degree)
    peer = scipy_spline(spline)
    for t in RNG.uniform(-1.0, 3.0, 20):
        for order, value in enumerate(derivatives(spline, jnp.asarray(t))):
            np.testing.assert_allclose(value, peer(t, order), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("end", [-1.0, 3.0])
def test_spline_has_its_rates_at_the_ends_and_goes_on_straight(end):
    spline = control.Spline(RNG.normal(size=(9, 2)), -1.0, 3.0)
    peer = scipy_spline(spline)
    at_end = derivatives(spline, jnp.asarray(end))
    for order, value in enumerate(at_end):
        np.testing.assert_allclose(value, peer(end, order), rtol=1e-9, atol=1e-9)
    beyond = derivatives(spline, jnp.asarray(end + np.sign(end) * 0.7))
    np.testing.assert_allclose(beyond[0], at_end[0] + np.sign(end) * 0.7 * at_end[1], rtol=1e-12)
    np.testing.assert_allclose(beyond[1], at_end[1], rtol=1e-12)
    np.testing.assert_allclose(beyond[2], 0.0, atol=1e-12)


@given(st.floats(0.0, 1.0), st.integers(2, 7), st.floats(-5.0, 5.0))
def test_partition_of_unity(t, degree, value):
    spline = control.Spline.constant(jnp.array([value]), 0.0, 1.0, degree + 4, degree)
    np.testing.assert_allclose(spline(t), [value], rtol=1e-12, atol=1e-12)


def test_support_says_exactly_which_coefficients_matter():
    spline = control.Spline(RNG.normal(size=(11, 2)), 0.0, 2.0, 3)
    p, rebuild = control.free_parameters(spline)
    slopes = jax.jit(jax.jacfwd(lambda p, ts: jax.vmap(rebuild(p))(ts)))
    for t0, t1 in ((0.0, 0.25), (0.25, 0.5), (0.3, 0.9), (1.75, 2.0)):
        ts = np.linspace(t0, t1, 33)
        jacobian = np.asarray(slopes(p, ts))
        touched = np.any(np.abs(jacobian) > 1e-14, axis=(0, 1))
        np.testing.assert_array_equal(support(spline, t0, t1), touched)


def test_fit_gives_a_polynomial_of_its_degree_back():
    ts = np.linspace(0.0, 4.0, 60)
    curve = lambda t: np.stack([t**3 - t, 2 - t**2], -1)
    spline = control.Spline.fit(ts, curve(ts), 10, degree=3)
    np.testing.assert_allclose(jax.jit(jax.vmap(spline))(ts), curve(ts), atol=1e-10)


def test_fourier_series_and_its_rates():
    mean, cosine, sine = RNG.normal(size=2), RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))
    series = control.FourierSeries(mean, cosine, sine, period=1.7)
    t, w = 0.83, 2 * np.pi / 1.7 * np.arange(1, 4)
    c, s = np.cos(w * t), np.sin(w * t)
    value, first, second = derivatives(series, jnp.asarray(t))
    np.testing.assert_allclose(value, mean + c @ cosine + s @ sine, rtol=1e-12)
    np.testing.assert_allclose(first, -(w * s) @ cosine + (w * c) @ sine, rtol=1e-12)
    np.testing.assert_allclose(second, -(w**2 * c) @ cosine - (w**2 * s) @ sine, rtol=1e-12)
    np.testing.assert_allclose(series(t + 1.7), value, rtol=1e-10)


@given(st.floats(-50.0, 50.0))
def test_limited_stays_inside_and_is_itself_in_the_middle(value):
    inner = control.Spline.constant(jnp.array([value, 0.5001]), 0.0, 1.0, 8)
    curve = control.Limited(inner, [-1.0, 0.0], [2.0, 1.0])
    theta = curve(0.4)
    assert -1.0 <= theta[0] <= 2.0
    np.testing.assert_allclose(theta[1], 0.5001, atol=1e-9)


def test_free_parameters_leave_spans_periods_and_limits_alone():
    spline = control.Spline(np.zeros((8, 1)), 0.0, 1.0)
    series = control.FourierSeries(np.zeros(1), np.zeros((2, 1)), np.zeros((2, 1)), 1.0)
    sizes = {8: spline, 5: series}
    for size, curve in sizes.items():
        assert control.free_parameters(curve)[0].shape == (size,)
        limited = control.Limited(curve, [-1.0], [1.0])
        p, rebuild = control.free_parameters(limited)
        assert p.shape == (size,)
        assert float(rebuild(p + 1.0).lower[0]) == -1.0


def test_single_precision(float32):
    spline = control.Spline.constant(jnp.array([1.5]), 0.0, 1.0, 8)
    assert spline(0.3).dtype == jnp.float32
    np.testing.assert_allclose(spline(0.3), [1.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("path", "end", "length"),
    [
        (control.FigureEight(), (0.0, 0.0), 6.0972),
        (control.Circle(radius=0.5), (0.0, 0.0), np.pi),
        (control.Line(end=(3.0, 4.0)), (3.0, 4.0), 5.0),
    ],
)
def test_paths_start_at_rest_at_the_origin_and_are_done_after_a_period(path, end, length):
    start, velocity, acceleration = derivatives(path, jnp.asarray(0.0))
    np.testing.assert_array_equal([start, velocity, acceleration], np.zeros((3, 2)))
    np.testing.assert_allclose(path(20.0), end, atol=1e-12)
    points = jax.jit(jax.vmap(path))(np.linspace(0.0, 20.0, 4001))
    travelled = np.sum(np.linalg.norm(np.diff(points, axis=0), axis=1))
    np.testing.assert_allclose(travelled, length, rtol=1e-4)
    at_ramp = [np.stack(derivatives(path, jnp.asarray(3.0 + e))) for e in (-1e-9, 0.0, 1e-9)]
    np.testing.assert_allclose(at_ramp[0], at_ramp[1], atol=1e-7)
    np.testing.assert_allclose(at_ramp[1], at_ramp[2], atol=1e-7)
