"""The entire functions C_k and their derivatives against their series in rational arithmetic."""

from fractions import Fraction
from functools import cache
from math import factorial, perm

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry._entire import _switch, entire

ORDERS = range(8)


@cache
def exact(k: int, x: float, derivative: int = 0) -> float:
    """Σ_j (−1)^j x^j/(2j+k)! differentiated term by term; 60 terms leave nothing for x ≤ 40."""
    z = Fraction(x)
    terms = (
        (-1) ** j * perm(j, derivative) * z ** (j - derivative) / factorial(2 * j + k)
        for j in range(derivative, 60)
    )
    return float(sum(terms, Fraction(0)))


def abscissae(dtype) -> list[float]:
    """Zero, tiny, generic, half turns, and both sides of every change of branch."""
    switches = {_switch(k) for k in ORDERS}
    beside = [s * (1 + sign * 1e-6) for s in switches for sign in (-1, 1)]
    points = [0.0, 1e-30, 1e-14, 1e-7, 1e-3, 0.3, 1.0, 2.5, 9.86, 12.0, 30.0, *beside]
    return [float(dtype(x)) for x in points]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", ORDERS)
@pytest.mark.parametrize(("derivative", "units"), [(0, 8), (1, 16), (2, 64), (3, 256)])
def test_values_and_derivatives(k, dtype, derivative, units):
    """Relative to the size at 0 (they oscillate about zero), within a few units of rounding."""
    function = lambda x: entire(k, x)  # noqa: E731
    for _ in range(derivative):
        function = jax.grad(function)
    x = np.array(abscissae(dtype), dtype)
    got = jax.jit(jax.vmap(function))(x)
    want = np.array([exact(k, float(value), derivative) for value in x])
    scale = abs(exact(k, 0.0, derivative)) * (1 + np.sqrt(x)) ** (k == 0)
    assert got.dtype == dtype
    assert np.max(np.abs(np.asarray(got, np.float64) - want) / scale) < units * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", ORDERS[2:])
def test_relative_accuracy_up_to_a_half_turn(k, dtype):
    """C_0 and C_1 have zeros there, at which a relative error says nothing."""
    x = np.linspace(0, 9, 301).astype(dtype)
    want = np.array([exact(k, float(value)) for value in x])
    error = np.abs(np.asarray(jax.vmap(lambda z: entire(k, z))(x), np.float64) / want - 1)
    assert np.max(error) < 6 * np.finfo(dtype).eps


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_reverse_over_forward_over_reverse(k):
    """Any nesting gives the third derivative, at zero too."""
    x = jnp.array(0.0)
    nested = jax.grad(jax.jacfwd(jax.grad(lambda z: entire(k, z))))(x)
    np.testing.assert_allclose(nested, exact(k, 0.0, 3), rtol=1e-13)
