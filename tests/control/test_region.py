"""The region in which a controller holds an unstable mode: z' = z + b c with |c| ≤ 1 can be held from |z| < b."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel.control import Sampled, closed_loop, region
from jaxhamel.viz import region_figure


class Repelled(jaxhamel.System):
    """A mass pushed away from x = 0, v' = x + b c. Its mode z = x + v grows, and x' = z − x follows z."""

    strength: jax.Array
    space = jaxhamel.Euclidean(1)
    n_controls = 1

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 + 0.5 * q[0] ** 2

    def force(self, t, q, v, control):
        return self.strength * control


class Push(eqx.Module):
    def __call__(self, t, q, u):
        return -4.0 * (q + u)


SYSTEM, ZERO = Repelled(jnp.array(1.0)), jnp.zeros(1)
LOOP = Sampled(Push(), 0.05, lower=-1.0, upper=1.0)
X, V = (
    np.linspace(-2.1, 2.0, 24),
    np.linspace(-1.7, 1.9, 25),
)  # no point lies on the boundary |x + v| = 1
STATES = (jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))
GRID = {"along": STATES, "values": (X, V)}


def found(**changes):
    return region(SYSTEM, ZERO, ZERO, LOOP, 400, **(GRID | changes))


def test_a_known_strip_and_its_picture(monkeypatch):
    """The region is |x + v| < 1, computed in one batch or in several, and the figure shows the same cells."""
    result = found()
    inside = np.abs(X[:, None] + V) < 1
    np.testing.assert_array_equal(result.held, inside)
    np.testing.assert_array_equal(result.held, result.distance <= 1)
    assert result.share == np.mean(inside)
    monkeypatch.setattr("jaxhamel.control._loop._region.BYTES_AT_ONCE", 400 * 5 * 8 * 250)
    np.testing.assert_array_equal(found().held, inside)
    meshes = region_figure(*result.values, result.held).axes[0].collections[:3:2]
    shown = [np.ma.count(mesh.get_array()) for mesh in meshes]
    assert shown == [np.sum(inside), np.sum(~inside)]


def test_start_against_parameter():
    """From x = 0 the controller holds |v| < b, where b is a parameter of the system."""
    strengths = np.linspace(0.47, 1.57, 12)
    along = STATES[1], lambda system, controller: system.strength
    result = found(along=along, values=(V, strengths))
    np.testing.assert_array_equal(result.held, np.abs(V[:, None]) < strengths)


def test_a_condition_of_ones_own():
    """With the user's condition |v| < 1 fewer starts are held; a single simulation of one of them agrees."""
    mild = found(held=lambda ts, q, u: jnp.all(jnp.abs(u) < 1))
    assert not np.any(mild.held & ~found().held)
    some = closed_loop(SYSTEM, jnp.array([X[9]]), jnp.array([V[15]]), LOOP, 400)
    assert mild.held[9, 15] == bool(jnp.all(jnp.abs(some.u) < 1))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"along": STATES[:1]}, "`along` is 1 entries"),
        ({"along": (jnp.zeros(3), STATES[1])}, r"`along\[0\]` has shape \(3,\)"),
        ({"along": (lambda s, c: 2 * s.strength, STATES[1])}, r"`along\[0\]` must select"),
        ({"values": (X, jnp.zeros((2, 2)))}, r"`values\[1\]` has shape \(2, 2\)"),
        ({"tolerance": 0.0}, "`tolerance` is 0"),
        ({"goal": ZERO}, "`goal` is"),
        ({"held": lambda q: q}, "`held` is"),
        (
            {"held": lambda ts, q, u: q < 1},
            "`held` gives an array of shape .* and bool; it must give one bool",
        ),
        ({"held": lambda ts, q, u: q[-1, 0]}, r"`held` gives an array of shape \(\) and float64"),
    ],
)
def test_messages(changes, words):
    with pytest.raises((TypeError, ValueError), match=words):
        found(**changes)
