"""Ensembles of closed loops whose equations of motion read tables at the positions of each robot."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel.control import Sampled, closed_loop
from jaxhamel.control._loop._periods._reverse_mode import Motion
from jaxhamel.systems import Terrain

PERIOD, SAMPLES, ROBOTS = 0.05, 6, 64


class Sledge(jaxhamel.System):
    """A point of 1 kg on a surface of measured heights, seen from above; its kinetic energy is that of the plane."""

    terrain: Any
    space = jaxhamel.Euclidean(2)
    n_controls = 2

    def lagrangian(self, t, q, v):
        return 0.5 * v @ v - 9.81 * self.terrain(q)

    def force(self, t, q, v, control):
        return control


class Spring(eqx.Module):
    stiffness: Any

    def __call__(self, t, q, u):
        return -self.stiffness * q - u


@pytest.fixture(scope="module")
def sledge():
    heights = 0.02 * np.random.default_rng(1).normal(size=(14, 15))
    return Sledge(Terrain.through(heights, [-1.0, -1.0], [1.0, 1.0]))


@pytest.fixture(scope="module")
def start():
    drawn = np.random.default_rng(2).normal(size=(2, ROBOTS, 2))
    return jnp.asarray(0.3 * drawn[0]), jnp.asarray(0.2 * drawn[1])


def by_hand(terrain, stiffness, q, u, steps):
    """RK4 with the command of each sample, which acts through its period; the states after every period."""
    h = PERIOD / steps

    def rate(x, command):
        slope = jax.vmap(jax.grad(terrain))(x[0])
        return x[1], command - 9.81 * slope

    def along(x, k, share):
        return x[0] + share * h * k[0], x[1] + share * h * k[1]

    def step(x, command):
        a = rate(x, command)
        b = rate(along(x, a, 0.5), command)
        c = rate(along(x, b, 0.5), command)
        d = rate(along(x, c, 1.0), command)
        slopes = zip(x, a, b, c, d, strict=True)
        return tuple(y + h / 6 * (k + 2 * l + 2 * m + n) for y, k, l, m, n in slopes), None

    def period(x, _):
        commands = jnp.broadcast_to(-stiffness * x[0] - x[1], (steps, *x[0].shape))
        x, _ = jax.lax.scan(step, x, commands)
        return x, x

    _, later = jax.lax.scan(period, (q, u), length=SAMPLES)
    return tuple(
        jnp.concatenate([x[:, None], jnp.swapaxes(y, 0, 1)], 1)
        for x, y in zip((q, u), later, strict=True)
    )


def in_loop(sledge, stiffness, start, steps):
    law = Sampled(Spring(stiffness), PERIOD, start=jnp.zeros(2))
    found = closed_loop(sledge, *start, law, SAMPLES, steps=steps, in_axes=(None, 0, 0, None))
    return found.q, found.u


def test_motions_and_derivatives_are_those_written_by_hand(sledge, start):
    """No warning: the tables are read stage by stage, not by `vmap` of the whole period."""
    steps = 2
    weights = jnp.asarray(np.random.default_rng(3).normal(size=(ROBOTS, SAMPLES + 1, 2)))

    def total(states):
        return jnp.sum(weights * states[0]) + jnp.sum(weights**2 * states[1])

    def own(terrain, stiffness):
        return total(in_loop(Sledge(terrain), stiffness, start, steps))

    def other(terrain, stiffness):
        return total(by_hand(terrain, stiffness, *start, steps))

    given, by = (sledge.terrain, jnp.asarray(2.0)), (0, 1)
    found, known = in_loop(sledge, given[1], start, steps), by_hand(*given, *start, steps)
    for a, b in zip(found, known, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-13)
    slopes = [eqx.filter_jit(jax.grad(f, by))(*given) for f in (own, other)]
    for a, b in zip(*map(jax.tree.leaves, slopes), strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-11 * float(jnp.max(jnp.abs(b)) + 1.0))


def bowl(q):
    return 0.1 * q @ q


@pytest.mark.parametrize("has_table", [True, False])
def test_stages_are_programs_of_their_own_if_they_read_a_table(
    monkeypatch, sledge, start, has_table
):
    original, look_ups = Motion.through_steps, []

    def counted(self, *given):
        look_ups.append(self.look_ups)
        return original(self, *given)

    monkeypatch.setattr(Motion, "through_steps", counted)
    system = sledge if has_table else Sledge(bowl)
    q, _ = in_loop(system, jnp.asarray(2.5), start, 3)
    known = by_hand(system.terrain, 2.5, *start, 3)[0]
    np.testing.assert_allclose(q, known, rtol=0.0, atol=1e-13)
    assert bool(look_ups) is has_table
    assert all(count > 0 for count in look_ups)
