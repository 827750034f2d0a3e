"""Shared numbers equal to 0, 1 or −1 are folded into the program: the same motion with fewer operations. Other shared
numbers may change without compiling again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import ensemble
from jaxhamel._lanes._program import scalarise
from jaxhamel.ensemble._members._known import Known
from jaxhamel.ensemble._members._members import Members
from jaxhamel.systems import FreeRigidBody

U0 = np.random.default_rng(3).normal(size=(5, 3))
TS = np.array([0.0, 0.1, 0.2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_known(dtype):
    """Entries 0, 1 and −1 and arrays of integers are known. −0 is not, since 1/−0 = −∞; neither are tables and traced
    values."""
    leaf = np.array([[0.0, 1.0, -1.0], [-0.0, 2.0, np.nan]], dtype)
    known = Known.of([leaf, np.zeros(100), np.arange(3), None, np.array([2.0])])
    assert [codes is None for codes in known.of_leaves] == [False, True, False, True, True]
    np.testing.assert_array_equal(
        known.with_constants([leaf, 0, np.ones(3, int), 0, 0])[2], [0, 1, 2]
    )
    seen = jax.make_jaxpr(lambda x: known.with_constants([x, 0, np.ones(3, int), 0, 0])[0])(leaf)
    np.testing.assert_array_equal(
        jax.core.eval_jaxpr(seen.jaxpr, seen.consts, 7 * leaf + 5)[0],
        np.where([[1, 1, 1], [0, 0, 0]], leaf, 7 * leaf + 5),
    )
    jax.jit(lambda x: pytest.fail("known") if any(Known.of([x]).of_leaves) else x)(leaf)


TRACES = []


def lorenz(t, y, args):
    TRACES.append(None)
    s, r, b = args
    return jnp.stack([s * (y[1] - y[0]), y[0] * (r - y[2]) - y[1], y[0] * y[1] - b * y[2]])


def operations(coefficients) -> int:
    """Number of operations in the lanes of Lorenz' equations."""
    members = Members.gathered({"y0": jnp.ones((4, 3)), "args": coefficients}, (0, None))
    rate = lambda y, shared: lorenz(0.0, *members.with_numbers([y], shared, [None]))
    closed = jax.make_jaxpr(rate)(jnp.ones(3), [coefficients])
    return sum(scalarise(closed, [True, False]).operations().values())


def test_what_is_known_is_folded():
    """Lorenz' equations have eight operations, and five without 1·x, 0·z and the subtraction of 0·z."""
    assert operations(jnp.array([10.0, 28.0, 2.5])) == 8
    assert operations(jnp.array([1.0, 28.0, 0.0])) == 5


def rolled(inertia, u0=U0):
    q0 = jnp.array([1.0, 0.0, 0.0, 0.0])
    return ensemble.rollout(
        FreeRigidBody(inertia), q0, u0, TS, dt=0.05, in_axes=(None, None, 0, None)
    )


def test_same_motion_known_or_not():
    """A rigid body with two moments of inertia equal to one moves the same with numbers and with traced values."""
    inertia = jnp.array([1.0, 1.0, 1.5])
    for known, traced in zip(rolled(inertia), jax.jit(rolled)(inertia), strict=True):
        np.testing.assert_allclose(known, traced, rtol=0, atol=1e-15)


def test_derivatives_where_a_number_is_one():
    """Derivatives by an inertia of 1 equal differences, since differentiated entries are not folded. Gradients inside
    and outside `jit` agree."""
    mean = lambda inertia, u0: jnp.mean(rolled(inertia, u0)[1][:, -1] ** 2)
    inertia, step = jnp.array([1.0, 1.0, 1.5]), 1e-4
    found = jax.grad(mean)(inertia, U0)
    for i, e in enumerate(np.eye(3)):
        ends = [mean(inertia + s * step * e, U0) for s in (1, -1)]
        np.testing.assert_allclose(found[i], (ends[0] - ends[1]) / (2 * step), atol=1e-8)
    known, traced = (f(mean, 1)(inertia, U0) for f in (jax.grad, lambda *a: jax.jit(jax.grad(*a))))
    np.testing.assert_allclose(known, traced, rtol=1e-13, atol=1e-16)


def test_other_values_compile_nothing_again():
    """Changing numbers that are not 0 or ±1 does not compile again; a number that becomes 0 compiles once."""

    def traces(*coefficients):
        before, y0 = len(TRACES), jnp.ones((4, 3))
        ensemble.integrate(lorenz, y0, TS, jnp.array(coefficients), dt=0.05, in_axes=(0, None))
        return len(TRACES) - before

    assert traces(10.0, 28.0, 1.0) > 0
    assert traces(9.0, 20.0, 1.0) == 0
    assert traces(10.0, 0.0, 1.0) > 0
    assert traces(9.0, 0.0, 1.0) == traces(8.0, 2.0, 1.0) == 0
