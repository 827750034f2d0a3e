"""Complex numbers in lanes are pairs of real numbers: values and derivatives against NumPy and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel._lanes._one_lane import one_lane
from jaxhamel._lanes._program import scalarise
from jaxhamel.ensemble import lanes

RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(2, 5, 2)) + 1j * RNG.normal(size=(2, 5, 2))


@pytest.fixture(autouse=True)
def standard_promotion():
    """Complex and real numbers are combined as by NumPy; the other tests run with strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def every(xp, x, y):
    """Results of all operations that have a rule, by `jax.numpy` or by NumPy."""
    numbers = [x + y, x - y, x * y, x / y, -x, xp.conj(x), xp.exp(x), xp.log(x), x**3, x**-2, x * x]
    numbers += [xp.where(x.real > 0, x, y), 2.0 * x + 1j, x.real * y, xp.sum(x * y, -1) * y[..., 0]]
    return numbers, [abs(x), x.real, y.imag, x == y, x == x, x != xp.conj(x), (x == y) | (x != x)]


@pytest.fixture(scope="module")
def in_lanes():
    return jax.jit(lanes(lambda x, y: every(jnp, x, y)))


def test_values_are_those_of_numpy(in_lanes):
    found, wanted = in_lanes(X, Y), every(np, X, Y)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_quotient_and_modulus_of_very_large_and_very_small_numbers(in_lanes, size):
    numbers, reals = in_lanes(size * X, size * Y)
    np.testing.assert_allclose(numbers[3], X / Y, rtol=1e-13)
    np.testing.assert_allclose(reals[0], size * np.abs(X), rtol=1e-13)
    assert np.all(np.asarray(in_lanes(0 * X, Y)[1][0]) == 0)


def pendulum(q, v):
    """L = ½ |ż|² + g Re z at z = exp(i q), whose equation is q̈ = −g sin q."""
    z, rate = jax.jvp(lambda q: jnp.exp(1j * q), (q,), (v,))
    return 0.5 * jnp.sum((rate * jnp.conj(rate)).real) + 9.81 * jnp.sum(z.real)


class Pendulums(jaxhamel.System):
    """Two pendulums in the complex plane."""

    space = jaxhamel.Euclidean(2)

    def lagrangian(self, t, q, v):
        return pendulum(q, v)


def test_no_complex_number_is_left_in_a_program_with_real_results():
    """The acceleration and its derivative equal the closed form, and all scalars of their program are real."""

    def acceleration(q):
        return jaxhamel.acceleration(Pendulums(), 0.0, q, jnp.ones(2))

    q = np.array([0.3, -2.0])
    closed = jax.make_jaxpr(lambda q: (acceleration(q), jax.jacrev(acceleration)(q)))(q)
    program = scalarise(closed, [True], whole=True)
    kinds = {program.graph.nodes[i].dtype.kind for i in program.graph.needed(program.ends())}
    assert "c" not in kinds
    rate = one_lane(acceleration)
    np.testing.assert_allclose(jax.jit(rate)(q), -9.81 * np.sin(q), rtol=1e-14)
    for by in (jax.jacfwd, jax.jacrev):
        found = jax.jit(by(rate))(q)
        np.testing.assert_allclose(found, np.diag(-9.81 * np.cos(q)), rtol=1e-13, atol=1e-14)


def transforms(xp, x):
    """Fourier transforms of each kind, over one axis and two, of even and odd length."""
    of_reals = xp.fft.rfft(x), xp.fft.rfft(x[..., 1:]), xp.fft.rfft2(x), xp.fft.fft2(x)
    z = x[..., :4] + 0.3j * x[..., 1:5]
    back = xp.fft.irfft(z), xp.fft.irfft(z, 7), xp.fft.irfft2(z)
    return *of_reals, *back, xp.fft.ifft(z, axis=-2), xp.fft.fft(z, 5)


def test_fourier_transforms_of_few_numbers_stay_in_lanes():
    """Values are NumPy's, the gradient is that of `vmap`, and no warning for a missing rule is raised."""
    x = np.random.default_rng(3).normal(size=(5, 3, 6))
    found = jax.jit(lanes(lambda x: transforms(jnp, x)))(x)
    for a, b in zip(found, (f for f in transforms(np, x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    power = lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x, 5) * jnp.fft.ifft(x + 1j)[:, :3]) ** 2)
    total = lambda t: jax.jit(jax.grad(lambda x: jnp.sum(t(power)(x))))(x)
    np.testing.assert_allclose(total(lanes), total(jax.vmap), rtol=1e-12)
