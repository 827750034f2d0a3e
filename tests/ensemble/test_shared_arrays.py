"""Gradients of ensembles by large arrays that all trajectories share, against the same steps in plain JAX under `vmap`."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.ensemble._equal_steps import _adjoint_stages
from jaxhamel.mechanics import VectorField
from jaxhamel.systems import FreeRigidBody
from tests.systems.motion import unit_quaternions

RNG = np.random.default_rng(4)
B, UNITS = 20, 12
TS, DT = np.array([0.0, 0.1, 0.3]), 0.1
Y0, OWN = RNG.normal(size=(B, 3)), RNG.uniform(0.5, 1.5, B)
SHAPES = (UNITS, 3), (UNITS,), (UNITS, UNITS), (3, UNITS)
WEIGHTS = tuple(RNG.normal(size=shape) / 3 for shape in SHAPES)
TERMS = RNG.normal(size=(8, 40))


def network(weights, x):
    first, bias, second, last = weights
    return last @ jnp.tanh(second @ jnp.tanh(first @ x + bias) + bias)


def learned(t, y, args):
    """A rate with a network, a number of the trajectory's own and the time."""
    weights, own = args
    return jnp.cos(t) * network(weights, y) - own * y * jnp.array([1.0, 0.5, 0.2], y.dtype)


def by_terms(t, y, args):
    """A rate that a loop sums from terms with a few shared numbers each."""
    terms, own = args

    def one(total, term):
        return total + term[0] * jnp.sin(term[1] * y[0] + term[2] * y[1]), None

    total = jax.lax.scan(one, jnp.zeros((), y.dtype), terms)[0]
    return jnp.stack([y[1], -own * y[0] + 0.1 * total, -y[2]])


def recurrent(t, y, args):
    """A rate with a hidden state that a loop computes, and a loop that adds a network of the sum so far."""
    weights, own = args
    first, bias, second, last = weights

    def turn(h, s):
        return jnp.tanh(second @ h + first @ (y * jnp.cos(s * t)) + bias), None

    h = jax.lax.scan(turn, bias, jnp.arange(3.0).astype(y.dtype))[0]
    more = jax.lax.fori_loop(0, 3, lambda i, x: x + network(weights, jnp.sin(own * x)), last @ h)
    return 0.3 * more - own * y * jnp.array([1.0, 0.5, 0.2], y.dtype)


SMALL = [list(RNG.normal(size=(2, 3))) for _ in range(12)]


def by_small_arrays(t, y, args):
    """A rate with 72 shared numbers in small arrays; the vectors y and s of many products s y are those of few factors."""
    arrays, own = args
    total = jnp.zeros((), y.dtype)
    for a, b in arrays:
        total = total + a[0] * jnp.tanh(a @ y) - jnp.sin(b @ y) / own
    return jnp.stack([y[1], -own * y[0] + 0.1 * total, -y[2]])


def by_stacked_arrays(t, y, args):
    """The same rate by one array of all numbers, whose reverse mode in plain JAX compiles in a tenth of the time."""
    arrays, own = args
    a, b = jnp.moveaxis(jnp.array(arrays), 1, 0)
    total = jnp.sum(a[:, 0] * jnp.tanh(a @ y) - jnp.sin(b @ y) / own)
    return jnp.stack([y[1], -own * y[0] + 0.1 * total, -y[2]])


def steps_of(rate, y, after=lambda y: y):
    """The states at `TS` by three equal steps of RK4, one after the other."""
    h = jnp.asarray(DT, jnp.result_type(*jax.tree.leaves(y)))

    def moved(y, a, k):
        return jax.tree.map(lambda x, k: x + a * k, y, k)

    def one(y, t):
        k1 = rate(t, y)
        k2 = rate(t + h / 2, moved(y, h / 2, k1))
        k3 = rate(t + h / 2, moved(y, h / 2, k2))
        k4 = rate(t + h, moved(y, h, k3))
        total = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4)
        return (after(moved(y, h, total)),) * 2

    rows = jax.lax.scan(one, y, jnp.arange(3.0).astype(h.dtype) * h)[1]
    return jax.tree.map(lambda x, row: jnp.stack([x, row[0], row[2]]), y, rows)


def plain(f, y0, shared, own):
    one = lambda y, own: steps_of(lambda t, y: f(t, y, (shared, own)), y)
    return jax.vmap(one)(y0, own)


def in_lanes(f, y0, shared, own, **options):
    return ensemble.integrate(f, y0, TS, (shared, own), dt=DT, in_axes=(0, (None, 0)), **options)


def total(run, *given):
    return jnp.mean(jnp.sin(run(*given)) ** 2)


def compared(found, exact, tolerance):
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * np.abs(y).max())


@pytest.mark.parametrize(
    ("rate", "shared", "kind", "options"),
    [
        (learned, WEIGHTS, np.float64, {"checkpoint": False}),
        (learned, WEIGHTS, np.float32, {"checkpoint": True}),
        (recurrent, WEIGHTS, np.float64, {"checkpoint": False}),
        (recurrent, WEIGHTS, np.float32, {"checkpoint": True}),
        (by_terms, TERMS, np.float64, {}),
        (by_small_arrays, SMALL, np.float64, {}),
        # a fusion beside slices of the results: it took all memory while it was compiled
        (by_small_arrays, SMALL[:7], np.float64, {}),
    ],
)
def test_reverse_mode_is_that_of_plain_jax(rate, shared, kind, options):
    """Values and the gradients by initial states, by shared arrays and by the trajectories' own numbers."""
    given = jax.tree.map(lambda x: jnp.asarray(x, kind), (Y0, shared, OWN))
    of = lambda run: ensemble.jit(jax.value_and_grad(partial(total, run), (0, 1, 2)))(*given)
    short = by_stacked_arrays if rate is by_small_arrays else rate
    found, exact = of(partial(in_lanes, rate, **options)), of(partial(plain, short))
    compared(found, exact, 200 * np.finfo(kind).eps)


@pytest.mark.parametrize("rate", [learned, recurrent])
def test_forward_mode_and_differences_agree_with_reverse_mode(rate):
    given = jax.tree.map(jnp.asarray, (Y0, WEIGHTS, OWN))
    along = jax.tree.map(jnp.cos, given)
    loss = partial(total, partial(in_lanes, rate))
    gradient = ensemble.jit(jax.grad(loss, (0, 1, 2)))(*given)
    value_and_slope = ensemble.jit(lambda *x: jax.jvp(loss, x, along))
    along_it = value_and_slope(*given)[1]
    by_gradient = sum(map(jnp.vdot, jax.tree.leaves(gradient), jax.tree.leaves(along)))
    np.testing.assert_allclose(by_gradient, along_it, rtol=1e-12)
    step = 1e-5
    shifted = [
        value_and_slope(*jax.tree.map(lambda x, v, s=s: x + s * step * v, given, along))[0]
        for s in (1, -1)
    ]
    np.testing.assert_allclose((shifted[0] - shifted[1]) / (2 * step), along_it, rtol=1e-6)


QUATERNIONS, RATES = unit_quaternions(RNG, B), RNG.normal(size=(B, 3))
INERTIA = np.array([1.0, 2.0, 2.5])


class Torques(FreeRigidBody):
    """A rigid body whose control is a torque about each axis."""

    def force(self, t, q, v, control):
        return control


def turned(run, weights):
    law = jaxhamel.Feedback(jax.tree_util.Partial(torque, weights))
    return jnp.mean(jnp.cos(run(Torques(jnp.asarray(INERTIA)), law)))


def torque(weights, t, q, u):
    return network(weights, u + jax.tree.leaves(q)[0][:3])


def test_a_policy_of_states_with_unit_quaternions():
    """Quaternions are divided by their norm after each step, which reverse mode transposes, too."""
    q0, u0 = jnp.asarray(QUATERNIONS), jnp.asarray(RATES)

    def by_rollout(system, law):
        return ensemble.rollout(system, q0, u0, TS, law, dt=DT, in_axes=(None, 0, 0, None))[1]

    def by_steps(system, law):
        rate = lambda t, y: VectorField()(t, y, (system, law))
        after = lambda y: (system.space.normalise(y[0]), y[1])
        return jax.vmap(lambda *y: steps_of(rate, y, after)[1])(q0, u0)

    of = lambda run: ensemble.jit(jax.value_and_grad(partial(turned, run)))(
        jax.tree.map(jnp.asarray, WEIGHTS)
    )
    compared(of(by_rollout), of(by_steps), 1e-13)


def test_no_vector_over_the_lanes_for_each_weight(monkeypatch):
    """Reverse mode by a network's weights goes stage by stage, with products that sum over the lanes."""
    calls, original = [], _adjoint_stages._loop_back
    monkeypatch.setattr(
        _adjoint_stages, "_loop_back", lambda *given: calls.append(given) or original(*given)
    )
    given = jax.tree.map(jnp.asarray, (Y0, WEIGHTS, OWN))
    gradient = jax.jit(jax.grad(partial(total, partial(in_lanes, learned)), 1))
    text = gradient.lower(*given).as_text()
    assert len(calls) == 2  # intervals of one step and of two steps
    sums = f"(tensor<{UNITS}x{B}xf64>, tensor<{B}x{UNITS}xf64>) -> tensor<{UNITS}x{UNITS}xf64>"
    assert sums in text
    assert f"tensor<{B}x{UNITS}x{UNITS}xf64>" not in text


def test_no_vector_over_the_lanes_for_each_number_of_small_arrays():
    """Their 72 sums over the lanes are entries of one product of matrices."""
    given = jax.tree.map(jnp.asarray, (Y0, SMALL, OWN))
    gradient = jax.jit(jax.grad(partial(total, partial(in_lanes, by_small_arrays)), 1))
    text = gradient.lower(*given).as_text()
    assert re.search(r"dot_general.*tensor<\d+x20xf64>, tensor<\d+x20xf64>", text)


def adaptive(f, y0, shared, own, **options):
    """Ends by adaptive steps."""
    return ensemble.integrate(f, y0, TS, (shared, own), in_axes=(0, (None, 0)), **options)[:, 1:]


def test_adaptive_steps_in_reverse_mode():
    """The gradient by adaptive steps of small tolerance is that of many equal steps; the rejected first step of one
    trajectory, whose rate is large, leaves no trace in it."""
    y0 = jnp.tile(jnp.asarray(Y0), (2, 1)).at[3].multiply(40.0)  # fewer than 32 are left to diffrax
    given = (y0, jax.tree.map(jnp.asarray, WEIGHTS), jnp.tile(jnp.asarray(OWN), 2))

    def gradient(run):
        return ensemble.jit(jax.value_and_grad(partial(total, run), (0, 1, 2)))(*given)

    found = gradient(partial(adaptive, learned, rtol=1e-9, atol=1e-9))
    exact = gradient(partial(adaptive, learned, dt=5e-3))
    compared(found, exact, 1e-6)
