"""Growth of small deviations about a plan, against dense matrix products by SciPy and a closed form; error messages."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxhamel import Euclidean
from jaxhamel.cli._commands._closed_loop_report import unstable
from jaxhamel.control import Regulator, Sampled, loop_growth
from tests.control.cart import Cart

RNG = np.random.default_rng(7)
TS = np.linspace(0.0, 3.0, 13)
PERIOD = 0.25  # the spacing of TS, so that nothing is interpolated


def regulator(A, B, K):
    """A regulator about a constant plan, with the given matrices of the linearised equations."""
    n, d, p = B.shape
    zeros = lambda *shape: jnp.zeros(shape)
    tables = jnp.asarray(K), zeros(n, d, d), zeros(n - 1, 2, d)
    linear = jnp.asarray(A), jnp.asarray(B)
    rest = zeros(n, d), zeros(n, 0), lambda t: zeros(p)
    return Regulator(jnp.asarray(TS), *rest, *tables, Euclidean(d), linear)


def dense(A, B, K, delay):
    """Matrix M of one period for (δ, c_{k−d}, …, c_{k−1}), by SciPy's matrix exponential."""
    d, p = B.shape
    whole = np.zeros((d + p, d + p))
    whole[:d] = np.hstack([A, B])
    E, F = np.split(scipy.linalg.expm(whole * PERIOD)[:d], [d], axis=1)
    if delay == 0:
        return E - F @ K
    rows = [np.hstack([E, F, np.zeros((d, (delay - 1) * p))])]
    for i in range(1, delay):
        rows.append(np.hstack([np.zeros((p, d)), np.kron(np.eye(delay)[i], np.eye(p))]))
    return np.vstack([*rows, np.hstack([-K, np.zeros((p, delay * p))])])


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_products_of_random_loops(delay):
    A, B, K = (RNG.normal(size=(len(TS), *shape)) for shape in ((3, 3), (3, 2), (2, 3)))
    found = loop_growth(Sampled(regulator(A, B, K), PERIOD, delay=delay))
    maps = [dense(*parts, delay) for parts in zip(A, B, K, strict=True)]
    product, norms = np.eye(len(maps[0]))[:, :3], []
    for M in maps:
        norms.append(np.linalg.norm(product[:3], 2))
        product = M @ product
    np.testing.assert_allclose(found.ts, TS, atol=1e-15)
    np.testing.assert_allclose(found.growth, norms, rtol=1e-12)
    largest = [np.max(np.abs(np.linalg.eigvals(M))) for M in maps]
    np.testing.assert_allclose(found.multipliers, largest, rtol=1e-9)


def test_growth_in_another_norm():
    """With weights w it is the growth in units of 1/√w; coordinates of weight 0, here one that the others drive, do not
    count."""
    A, B, K = (RNG.normal(size=(len(TS), *shape)) for shape in ((3, 3), (3, 2), (2, 3)))
    scale = np.array([1.0, 10.0, 0.1])
    weighted = loop_growth(Sampled(regulator(A, B, K), PERIOD, delay=1), scale**2)
    inverse = np.diag(1.0 / scale)
    scaled = regulator(np.diag(scale) @ A @ inverse, np.diag(scale) @ B, K @ inverse)
    wanted = loop_growth(Sampled(scaled, PERIOD, delay=1))
    np.testing.assert_allclose(weighted.growth, wanted.growth, rtol=1e-11)
    A[:, :2, 2] = K[:, :, 2] = 0.0
    A[:, 2, :2] = 100.0
    left_out = loop_growth(Sampled(regulator(A, B, K), PERIOD, delay=1), [1.0, 1.0, 0.0])
    others = regulator(A[:, :2, :2], B[:, :2], K[:, :, :2])
    alone = loop_growth(Sampled(others, PERIOD, delay=1))
    np.testing.assert_allclose(left_out.growth, alone.growth, rtol=1e-11)


@pytest.mark.parametrize("delay", [1, 3])
def test_products_of_random_loops_with_prediction(delay):
    """Each command is −K δ of the state that the maps of the next periods lead to, under the commands that wait."""
    A, B, K = (RNG.normal(size=(len(TS), *shape)) for shape in ((3, 3), (3, 2), (2, 3)))
    controller = Sampled(regulator(A, B, K), PERIOD, delay=delay, model=Cart(jnp.array(1.0)))
    found, steps = loop_growth(controller), [dense(A[k], B[k], K[k], 1) for k in range(len(TS))]
    delta, waiting, norms = np.eye(3), [np.zeros((2, 3))] * delay, []
    for k in range(len(TS)):
        norms.append(np.linalg.norm(delta, 2))
        ahead = delta
        for step, c in zip(steps[k:], waiting, strict=False):
            ahead = step[:3] @ np.vstack([ahead, c])
        waiting.append(-K[min(k + delay, len(TS) - 1)] @ ahead)
        delta = steps[k][:3] @ np.vstack([delta, waiting.pop(0)])
    np.testing.assert_allclose(found.growth, norms, rtol=1e-12)
    largest = [np.max(np.abs(np.linalg.eigvals(dense(*x, 0)))) for x in zip(A, B, K, strict=True)]
    np.testing.assert_allclose(found.multipliers, largest, rtol=1e-9)


def test_double_integrator_between_the_times_of_the_plan():
    """M = ((1 − k T²/2, T − r T²/2), (−k T, 1 − r T)) with two samples per interval of the plan; the command's words
    for unstable loops."""

    def held(k, r, period):
        A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
        tables = [np.stack([x] * len(TS)) for x in (A, B, np.array([[k, r]]))]
        return loop_growth(Sampled(regulator(*tables), period))

    T = 0.125
    found = held(4.0, 3.0, T)
    M = np.array([[1 - 2 * T**2, T - 1.5 * T**2], [-4 * T, 1 - 3 * T]])
    np.testing.assert_allclose(found.multipliers, np.max(np.abs(np.linalg.eigvals(M))), rtol=1e-12)
    wanted = np.linalg.norm(np.linalg.matrix_power(M, 24), 2)
    np.testing.assert_allclose(found.growth[-1], wanted, rtol=1e-11)
    assert unstable(found) == ""
    assert "small deviations grow" in unstable(held(-4.0, 0.0, T))  # e^{2 t}
    told = unstable(held(0.0, 20.0, T))  # 1 − r T = −1.5
    assert "the loop is unstable" in told
    assert "multiplier of a period 1.5, at t = 0 s" in told
    assert "Shorten `feedback.period`" in told
    late, slow = held(0.0, 20.0, T), held(-4.0, 0.0, T)
    assert "times: set `feedback.predict = true`, shorten `feedback.delay`" in unstable(late, found)
    assert "times, too: shorten `feedback.period`" in unstable(late, slow)
    assert "\n" not in told
    slow = np.ones((len(TS), 1, 1)) * TS[:, None, None], *np.zeros((2, len(TS), 1, 1))
    grown = loop_growth(Sampled(regulator(*slow), T)).growth[
        -1
    ]  # ẋ = t x, with t constant in each period
    np.testing.assert_allclose(grown, np.exp(T * np.sum(T * np.arange(24))), rtol=1e-12)
    assert np.isinf(held(1e200, 0.0, T).growth[-1])


def test_messages():
    law = regulator(*(np.ones((len(TS), *shape)) for shape in ((3, 3), (3, 2), (2, 3))))
    with pytest.raises(TypeError, match=r"`controller` is .*must be a jaxhamel.control.Sampled"):
        loop_growth(law)
    with pytest.raises(TypeError, match=r"`law` is .* is that of a jaxhamel.control.Regulator"):
        loop_growth(Sampled(lambda t, q, u: q, PERIOD))
    with pytest.raises(
        ValueError, match=r"`period` is 4.* s, longer than the plan of the law, 3 s"
    ):
        Sampled(law, 4.0)
    digital = Sampled(law, PERIOD)
    for weights in ([1.0, 1.0], [1.0, -1.0, 1.0], [0.0] * 3):
        with pytest.raises(
            ValueError, match=r"`weights` is .*; it must have 3 numbers of zero or more, not"
        ):
            loop_growth(digital, weights)
    traced = lambda period: loop_growth(eqx.tree_at(lambda c: c.period, digital, period))
    with pytest.raises(TypeError, match=r"`controller` has traced numbers"):
        jax.jit(traced)(jnp.asarray(PERIOD))
