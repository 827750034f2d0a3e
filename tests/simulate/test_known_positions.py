"""Positions in a system's arrays of integers, such as the masses that springs connect, are known to its programs."""

import re
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import ensemble
from jaxhamel._known_positions import KnownPositions

N = 5
RING = np.stack([np.arange(N), (np.arange(N) + 1) % N], axis=1)
STAR = np.stack([np.zeros(N - 1, int), np.arange(1, N)], axis=1)
Q, U, TS = np.linspace(0.0, 1.0, N) ** 2, np.cos(np.arange(N)), np.array([0.0, 0.5])


class Springs(jaxhamel.System):
    """Masses of 1 kg on a line with springs between the pairs; `in_turn`: whether a loop reads the pairs one by one."""

    pairs: np.ndarray | jax.Array
    stiffness: jax.Array
    in_turn: bool = eqx.field(static=True, default=False)
    space = jaxhamel.Euclidean(N)

    def lagrangian(self, t, q, v):
        pairs = jnp.asarray(self.pairs)
        energy = lambda i: (q[pairs[i, 0]] - q[pairs[i, 1]]) ** 2
        if self.in_turn:
            add = lambda i, total: total + energy(i)
            stretched = jax.lax.fori_loop(0, len(self.pairs), add, 0.0 * q[0])
        else:
            stretched = jnp.sum(jax.vmap(energy)(jnp.arange(len(self.pairs))))
        return 0.5 * v @ v - 0.5 * self.stiffness * stretched


class Constant(Springs):
    """The same with the pairs of a ring in the code."""

    def lagrangian(self, t, q, v):
        return Springs(RING, self.stiffness, self.in_turn).lagrangian(t, q, v)


def springs(pairs=RING, kind=Springs, in_turn=False):
    return kind(pairs, jnp.array(3.0), in_turn)


def end(system):
    return jaxhamel.simulate(system, Q, U, TS).q_end


def ends(system):
    many = np.outer(np.arange(1.0, 5.0), U)
    found, _ = ensemble.rollout(system, Q, many, TS, dt=0.01, in_axes=(None, None, 0, None))
    return found[:, -1]


def exact(pairs):
    """The motion of q̈ = −k L q, where L is the Laplacian of the graph of springs, by its eigenvectors."""
    incidence = np.eye(N)[pairs[:, 0]] - np.eye(N)[pairs[:, 1]]
    squares, modes = np.linalg.eigh(3.0 * incidence.T @ incidence)
    rates = np.sqrt(np.abs(squares))
    turned = TS[-1] * np.sinc(rates * TS[-1] / np.pi) * (modes.T @ U)
    return modes @ (np.cos(rates * TS[-1]) * (modes.T @ Q) + turned)


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("pairs", [RING, STAR], ids=["ring", "star"])
def test_the_motion_is_exact_known_or_traced(pairs, in_turn):
    """Other pairs compile another program. Pairs that a user's `jit` traces are inputs of its program."""
    system = springs(pairs, in_turn=in_turn)
    for found in (end(system), jax.jit(end)(system), ends(system)[0], jax.jit(ends)(system)[0]):
        np.testing.assert_allclose(found, exact(pairs), rtol=0, atol=1e-7)


@pytest.mark.parametrize("run", [end, ends])
def test_positions_of_a_field_are_as_good_as_constants(run):
    """Both programs have the same number of operations. With traced pairs an entry is selected by its position."""

    def operations(of, *given) -> Counter:
        return Counter(re.findall(r"stablehlo\.\w+", jax.jit(of).lower(*given).as_text()))

    known = operations(lambda: run(springs()))
    assert known == operations(lambda: run(springs(kind=Constant)))
    traced = operations(run, springs())
    assert traced["stablehlo.select"] > known["stablehlo.select"]


def test_what_is_known():
    """Signed integers with an axis are known; single ones, unsigned ones (keys of random numbers), Booleans, numbers and
    tracers are not."""
    pairs = jnp.asarray(RING)
    others = [jnp.arange(3.0), jnp.array(3), np.arange(3, dtype=np.uint32), np.ones(2, bool), 7]
    known = KnownPositions.of([*others, pairs])
    assert [x is None for x in known.of_leaves] == [True] * 5 + [False]
    found = known.with_constants([*others, jnp.zeros_like(pairs)])
    np.testing.assert_array_equal(found[-1], RING)
    assert all(a is b for a, b in zip(found[:-1], others, strict=True))
    jax.jit(lambda x: pytest.fail("known") if any(KnownPositions.of(x).of_leaves) else x)(pairs)
