"""Laws that are tables over time, looked up at all samples ahead of the blocks; the conditional around a block."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._lanes._divided._array_equations import LEAST_SHARED
from jaxhamel._lanes._xla_cpu._one_thread import on_one_thread
from jaxhamel.control import Sampled, closed_loop
from jaxhamel.control._loop._periods import _in_lanes
from jaxhamel.control._loop._periods._law_at_samples import LawAtSamples
from jaxhamel.systems import CartPole

TIMES = jnp.array([0.0, 0.3, 1.7, 2.0])


class AtOneTime(eqx.Module):
    """A law with arrays of every kind: small and large ones and an integer that change with time, and constant ones."""

    gains: jax.Array
    large: jax.Array
    index: jax.Array
    constant: jax.Array
    name: str


class Table(eqx.Module):
    constant: jax.Array

    def at(self, t):
        large = t + jnp.arange(float(LEAST_SHARED)).reshape(2, -1)
        return AtOneTime(
            jnp.array([[1.0, t], [t**2, 3.0]]),
            large,
            jnp.floor(t).astype(int),
            self.constant,
            "law",
        )


def assert_same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if isinstance(y, str):
            assert x == y
        else:
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


def test_the_law_at_each_sample():
    """The law put together from a sample's row is the law at its time; only what changes with time has rows."""
    table = Table(jnp.arange(3.0))
    laws = LawAtSamples.of(table.at, TIMES)
    assert laws.numbers.shape == (len(TIMES), 4)
    assert [x.shape[0] for x in laws.large] == [len(TIMES)] * 2
    assert [x.shape for x in laws.layout.constant] == [(3,)]
    for i, t in enumerate(TIMES):
        row = laws.numbers[i], [x[i] for x in laws.large]
        assert_same(laws.at_sample(row).law(), table.at(t))


class Gains(eqx.Module):
    """c = −(1 + t) k·(q, u)."""

    gains: jax.Array

    def at(self, t):
        return GainsAt((1.0 + t) * self.gains)

    def __call__(self, t, q, u):
        return self.at(t)(t, q, u)


class GainsAt(eqx.Module):
    gains: jax.Array

    def __call__(self, t, q, u):
        return -(self.gains @ jnp.concatenate([q, u]))[None]


def last_states(gains, starts, block, monkeypatch):
    monkeypatch.setattr(_in_lanes, "BLOCK", block)
    held = Sampled(Gains(gains), 0.05, delay=1)
    found = closed_loop(CartPole(), starts, jnp.zeros(2), held, 6, in_axes=(None, 0, None, None))
    return jnp.concatenate([found.q[:, -1], found.u[:, -1]], axis=1)


def test_blocks_and_their_gradient(monkeypatch):
    """In blocks, whose motions are inside of a conditional, motions and gradients by gains and states are those of one
    trajectory each."""
    starts = jnp.array([[0.0, jnp.pi]]) + 0.1 * jax.random.normal(jax.random.key(0), (5, 2))
    gains = jnp.array([-1.0, 20.0, -2.0, 4.0])

    def alone(gains, start):
        held = Sampled(Gains(gains), 0.05, delay=1)
        found = closed_loop(CartPole(), start, jnp.zeros(2), held, 6)
        return jnp.concatenate([found.q[-1], found.u[-1]])

    def cost(ends):
        return jnp.sum(jnp.sin(ends))

    def in_blocks(gains, starts):
        return cost(last_states(gains, starts, 2, monkeypatch))

    def one_by_one(gains, starts):
        return cost(jax.vmap(alone, (None, 0))(gains, starts))

    found = jax.value_and_grad(in_blocks, (0, 1))(gains, starts)
    expected = jax.value_and_grad(one_by_one, (0, 1))(gains, starts)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)


def test_on_one_thread():
    """Values and derivatives are those of the function, and XLA's program keeps the conditional."""

    def function(x):
        return {"a": jnp.sin(x) * x, "b": jnp.sum(x)}

    def inside(x):
        return on_one_thread(function, x[0], x)

    x = jnp.array([0.3, -1.2])
    assert_same(inside(x), function(x))
    np.testing.assert_allclose(
        jax.jacrev(inside)(x)["a"], jax.jacfwd(function)(x)["a"], rtol=1e-14, atol=0
    )
    assert "conditional(" in jax.jit(inside).lower(x).compile().as_text()
