"""Factoring common factors out of sums: fewer operations, equal values and derivatives; shared subexpressions are not
duplicated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._program import scalarise
from jaxhamel.ensemble import lanes

X = np.random.default_rng(9).normal(size=(6, 8))

# the function, and its numbers of products and of sums after factoring
CASES = {
    "two products": (lambda a, b, c, *_: a * b + a * c, 1, 1),
    "signs": (lambda a, b, c, d, *_: -(a * b) - c * a - d, 1, 3),
    "all negative": (lambda a, b, c, *_: -(a * b) - a * c, 1, 2),
    "most common first": (lambda a, b, c, d, *_: a * b + c * d + a * c + a * d, 2, 3),
    "nested": (lambda a, b, c, d, e, *_: a * b * (c * d + c * e) + a * b, 3, 2),
    "twice the same": (lambda a, b, *_: a * a + a * b + b * b, 2, 2),
    "cross products": (
        lambda a, b, c, d, e, f, *_: (
            jnp.cross(jnp.stack([a, b, c]), jnp.stack([d, e, f]))
            + jnp.cross(jnp.stack([a, b, c]), jnp.stack([f, d, e]))
        ),
        6,
        9,
    ),
    "no common factor": (lambda a, b, c, d, *_: a * b + c * d, 2, 1),
    "a square's derivative": (lambda a, b, *_: (a + a) * 3.0 + b, 1, 1),
    "constants meet": (lambda a, b, *_: 0.5 * (3.0 * (a + a)) + b, 1, 1),
    "constants add up": (lambda a, b, *_: 2.0 * (5.0 * a) + b + 7.0 * a, 1, 1),
    "shared product stays": (lambda a, b, c, *_: (a * b + a * c, a * b), 2, 1),
    "shared sum stays": (lambda a, b, c, d, *_: (a * d + (a * b + c), a * b + c), 2, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_and_values(name):
    f, products, sums = CASES[name]
    program = scalarise(jax.make_jaxpr(lambda x: f(*x))(X[0]), [True])
    found = program.operations()
    assert found["mul"] == products
    assert found["add"] + found["sub"] + found["neg"] == sums
    both = [jax.tree.leaves(jax.jit(t(lambda x: f(*x)))(X)) for t in (lanes, jax.vmap)]
    for a, b in zip(*both, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def test_derivatives_of_all():
    """The gradient of one function of all cases equals that under `vmap`."""

    def every(x):
        return jnp.stack([jnp.sum(y) for f, *_ in CASES.values() for y in jax.tree.leaves(f(*x))])

    total = lambda t: jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(t(every)(x)))))(X)
    np.testing.assert_allclose(total(lanes), total(jax.vmap), rtol=1e-11, atol=1e-13)


def test_lane_independent_factors_are_collected():
    """Σ_k m_k a_k (b_k x) + y x takes each lane one product and one sum: (Σ m a b + y) x."""

    def f(x, y, m, a, b):
        return sum(m[k] * (a[k] * (b[k] * x)) for k in range(4)) + y * x

    shared = X[:3, :4]
    closed = jax.make_jaxpr(f)(X[0, 0], X[0, 1], *shared)
    graph = (program := scalarise(closed, [True, True, False, False, False])).graph
    own = [graph.nodes[i] for i in graph.needed(program.outputs[0].ravel().tolist())]
    names = [n.primitive.name for n in own if n.primitive is not None and n.batched]
    assert sorted(names) == ["add", "mul"]  # (Σ m a b + y) x
    together = lambda t: t(lambda x, y: f(x, y, *shared))
    both = [jax.jit(together(t))(X[:, 0], X[:, 1]) for t in (lanes, jax.vmap)]
    np.testing.assert_allclose(*both, rtol=1e-13)


def test_products_of_parameters_in_one_lane():
    """Of Σ_k a_ik (b_k x) many lanes compute the numbers Σ_k a_ik b_k once; for one lane, b_k x are fewer products."""
    closed = jax.make_jaxpr(lambda x, a, b: a @ (b * x))(X[0, 0], X[:5, :3], X[0, :3])
    flags = [True, False, False]
    one, many = (scalarise(closed, flags, whole=True, few=few) for few in (True, False))
    assert one.operations() == {"mul": 15 + 3, "add": 10}
    assert many.operations() == {"mul": 15 + 5, "add": 10}


def test_constants_whose_product_overflows_stay_apart():
    for constant, products in ((1e200, 4), (1e100, 2)):
        f = lambda x, c=constant: (c * (c * x), x / c * (1 / c) * (1 / c))
        program = scalarise(jax.make_jaxpr(f)(X[0, 0]), [True])
        assert program.operations()["mul"] == products


def test_whole_numbers_are_left_alone():
    k = np.arange(12).reshape(4, 3)
    f = lambda k: k[0] * k[1] + k[0] * k[2]
    np.testing.assert_array_equal(lanes(f)(k), jax.vmap(f)(k))
