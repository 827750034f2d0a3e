"""Cotangents x̄ = F′(x)ᵀ ȳ in lanes against JAX's for all kinds of F, with shared factors multiplied before the loop
over lanes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from jaxhamel._lanes._derivatives import _pullback
from jaxhamel._lanes._derivatives._pullback import pullback
from jaxhamel._lanes._written_out import written_out
from jaxhamel.ensemble import lanes

RNG = np.random.default_rng(21)
X, P, BARS = RNG.normal(size=(6, 5)), RNG.uniform(0.5, 1.5, 4), RNG.normal(size=(6, 3))


def by_elimination(f):
    return lambda x, p, bars: pullback(lambda at: f(*at), (x, p), bars)


def by_jax(f):
    return lambda x, p, bars: jax.vjp(f, x, p)[1](bars)


def both(f, x=X, p=P, bars=BARS):
    """Cotangents by lanes and by JAX, with p shared by all lanes."""
    axes = (0, None, 0)
    return jax.jit(lanes(by_elimination(f), axes))(x, p, bars), jax.jit(jax.vmap(by_jax(f), axes))(
        x, p, bars
    )


def assert_same(f, rtol=1e-12, **at):
    for a, b in zip(*both(f, **at), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.fixture
def never_jax(monkeypatch):
    """Makes the test fail if lanes use JAX's transpose."""

    def refused(*_, **__):
        raise AssertionError("JAX's transpose was taken")

    monkeypatch.setattr(_pullback, "_plain", refused)


def smooth(x, p):
    turn = p[0] * jnp.sin(p[1] * x[0]) - x[1] / (p[2] + x[2] ** 2)
    return jnp.stack([turn * x[3], jnp.sqrt(1 + turn**2) + p[3], jnp.exp(-x[4] * p[0]) * x[0]])


def pieces(x, p):
    larger = jnp.maximum(x[0], p[0])
    return jnp.stack(
        [jnp.where(x[1] > 0, larger * x[2], p[1]), jnp.abs(x[3]), jnp.clip(x[4], -1, 1)]
    )


def sums(x, p):
    m = jnp.outer(x[:3], p[:3]) + jnp.diag(2 + x[:3] ** 2)
    return m @ jnp.cumsum(x[2:]) + jnp.sum(p) * jnp.flip(x[:3])


def two_at_once(x, p):
    """An expression written twice gets one cotangent."""
    rail = lambda: jnp.cos(p[0] * p[1]) * jnp.stack([p[2], p[3], 1.0])
    return jnp.cross(x[:3], rail()) + x[3] * jnp.cross(rail(), x[2:])


def nothing(x, p):
    """Results that are a constant, an input, and the same input again."""
    return jnp.stack([jnp.ones_like(x[0]), x[0], x[0]])


@pytest.mark.usefixtures("never_jax")
@pytest.mark.parametrize("f", [smooth, pieces, sums, two_at_once, nothing])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_is_the_transpose_of_jax(f, dtype):
    at = {"x": X.astype(dtype), "p": P.astype(dtype), "bars": BARS.astype(dtype)}
    assert_same(f, 1e-12 if dtype == np.float64 else 2e-5, **at)


OPERATIONS = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / (1.5 + b * b),
    lambda a, b: jnp.sin(a),
    lambda a, b: -a,
    lambda a, b: jnp.where(a > b, a, 2 * b),
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 40), st.integers(0, 40)),
        min_size=3,
        max_size=25,
    )
)
def test_random_programs(program):
    """Random graphs of sums, products, quotients and selects of shared and own numbers."""

    def f(x, p):
        values = [*x, *p, jnp.array(0.5)]
        for operation, i, j in program:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(
                jnp.tanh(OPERATIONS[operation](a, b))
                if operation == 2
                else OPERATIONS[operation](a, b)
            )
        return jnp.stack(values[-3:])

    with jax.disable_jit():  # without compiling, many programs take a few seconds
        found = lanes(by_elimination(f), (0, None, 0))(X[:2], P, BARS[:2])
    wanted = jax.vmap(by_jax(f), (0, None, 0))(X[:2], P, BARS[:2])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def operations(f, of, shapes):
    """Number of operations on lanes in the written-out program."""
    found = written_out(of(f), (True, False, True), *shapes)
    graph = found.program.graph
    nodes = (graph.nodes[i] for i in graph.needed(found.program.ends()))
    return sum(node.primitive is not None and node.batched for node in nodes)


def test_what_all_share_is_multiplied_ahead():
    """A long chain from two shared numbers to three reduces to 2 × 3 derivatives that the lanes use."""

    def f(x, p):
        a, b = p[0], p[1]
        for _ in range(20):
            a, b = jnp.sin(a) + b * b, a * jnp.cos(b)
        return jnp.stack([a, b, a * b]) * x[:3]

    shapes = jnp.asarray(X), jnp.asarray(P), jnp.asarray(BARS)
    # 3 products for x̄, 3 for the cotangents of the shared factors, 6 products and 4 sums for p̄
    assert operations(f, by_elimination, shapes) <= 16
    assert operations(f, by_jax, shapes) > 100
    assert_same(f, 1e-9)


@jax.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def _wrong_on_purpose(primals, tangents):
    return cube(primals[0]), 7.0 * tangents[0]


@jax.custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (square(x), x), lambda x, bar: (5.0 * bar,))


@pytest.mark.parametrize("rule", [cube, square])
def test_a_functions_own_rule_is_kept(rule):
    f = lambda x, p: rule(x[:3] * p[:3])
    assert_same(f)
    factor = 7.0 if rule is cube else 5.0
    np.testing.assert_allclose(both(f)[0][0][:, :3], factor * BARS * P[:3], rtol=1e-12)


def test_a_branch_not_taken_gives_no_nan():
    def f(x, p):
        safe = lambda x: jnp.sqrt(x)
        root = jax.lax.cond(x[0] > 0, safe, lambda x: x * p[0], x[0])
        twice = jnp.where(x[1] > 0, jnp.log(jnp.where(x[1] > 0, x[1], 1.0)), p[1])
        return jnp.stack([root, twice, x[2]])

    x = np.where(np.arange(5) < 2, -np.abs(X), X)
    x[0, 0] = x[1, 1] = 0.0
    found, wanted = both(f, x=x)
    for a, b in zip(found, wanted, strict=True):
        assert np.all(np.isfinite(a))
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_mixed_precision_takes_the_transpose_of_jax():
    def f(x, p):
        return (x[:3].astype(jnp.float32) * p[:3].astype(jnp.float32)).astype(jnp.float64)

    assert_same(f, 1e-6)


def test_further_derivatives_and_vmap():
    f = by_elimination(smooth)
    check_grads(lambda x, p: lanes(f, (0, None, 0))(x, p, BARS)[0], (X, P), 1, rtol=1e-5)
    many = np.stack([X, 2 * X])
    found = jax.jit(jax.vmap(lanes(f, (0, None, 0)), (0, None, None)))(many, P, BARS)
    for i in range(2):
        wanted = jax.vmap(by_jax(smooth), (0, None, 0))(many[i], P, BARS)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-11, atol=1e-12)
    alone = jax.jit(f)(X[0], P, BARS[0])  # without lanes it is JAX's
    for a, b in zip(alone, by_jax(smooth)(X[0], P, BARS[0]), strict=True):
        np.testing.assert_array_equal(a, b)
