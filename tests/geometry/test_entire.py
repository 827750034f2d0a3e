"""The entire functions C_k and their derivatives, against their series in 400-bit integer arithmetic."""

from functools import cache, partial
from math import factorial, perm

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry._entire import _switch, entire

ORDERS = range(8)


BITS = 400  # behind the point


@cache
def exact(k: int, x: float, derivative: int = 0) -> float:
    """Σ_j (−1)^j x^j/(2j+k)!, differentiated term by term; 60 terms are exact to double precision for x ≤ 40."""
    top, bottom = x.as_integer_ratio()
    z, power, total = (top << BITS) // bottom, 1 << BITS, 0
    for j in range(derivative, 60):
        total += (-1) ** j * perm(j, derivative) * power // factorial(2 * j + k)
        power = power * z >> BITS
    return total / (1 << BITS)


def abscissae(dtype) -> list[float]:
    """Zero, tiny and generic numbers, half turns, and numbers on both sides of each change of branch."""
    switches = {_switch(k) for k in ORDERS}
    beside = [s * (1 + sign * 1e-6) for s in switches for sign in (-1, 1)]
    points = [0.0, 1e-30, 1e-14, 1e-7, 1e-3, 0.3, 1.0, 2.5, 9.86, 12.0, 30.0, *beside]
    return [float(dtype(x)) for x in points]


def up_to_a_half_turn(dtype):
    return np.linspace(0, 9, 301).astype(dtype)


@cache
def computed(dtype) -> dict[tuple[int, int], np.ndarray]:
    """Maps (k, order of the derivative) to values at the abscissae, then up to a half turn; one program for each
    precision."""

    def all_of_them(x):
        found = {}
        for k in ORDERS:
            function = partial(entire, k)
            for derivative in range(4):
                found[k, derivative] = function(x)
                function = jax.grad(function)
        return found

    x = np.concatenate([np.array(abscissae(dtype), dtype), up_to_a_half_turn(dtype)])
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(all_of_them))(x))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", ORDERS)
@pytest.mark.parametrize(("derivative", "units"), [(0, 8), (1, 16), (2, 64), (3, 256)])
def test_values_and_derivatives(k, dtype, derivative, units):
    """Errors are relative to the value at 0, since the functions oscillate about zero, and within a few units of
    rounding."""
    x = np.array(abscissae(dtype), dtype)
    got = computed(dtype)[k, derivative][: x.size]
    want = np.array([exact(k, float(value), derivative) for value in x])
    scale = abs(exact(k, 0.0, derivative)) * (1 + np.sqrt(x)) ** (k == 0)
    assert got.dtype == dtype
    assert np.max(np.abs(np.asarray(got, np.float64) - want) / scale) < units * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", ORDERS[2:])
def test_relative_accuracy_up_to_a_half_turn(k, dtype):
    """C_0 and C_1 have zeros there, at which a relative error says nothing."""
    x = up_to_a_half_turn(dtype)
    want = np.array([exact(k, float(value)) for value in x])
    got = computed(dtype)[k, 0][-x.size :]
    error = np.abs(got.astype(np.float64) / want - 1)
    assert np.max(error) < 6 * np.finfo(dtype).eps


def test_reverse_over_forward_over_reverse():
    """All nestings of modes give the third derivative, also at zero."""
    nested = lambda k: jax.grad(jax.jacfwd(jax.grad(partial(entire, k))))
    found = jax.jit(lambda x: [nested(k)(x) for k in (1, 2, 3, 4)])(jnp.array(0.0))
    np.testing.assert_allclose(found, [exact(k, 0.0, 3) for k in (1, 2, 3, 4)], rtol=1e-13)
