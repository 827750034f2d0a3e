"""Merging equal operations of a program before it is differentiated."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.control._interior_point._once import once
from jaxhamel.geometry import quaternion_matrix

Q = jnp.array([0.1, 0.7, -0.5, 0.5])


def several_turns(q):
    """R e₁ · R R e₂, where R is computed three times, two of them inside jitted functions."""
    turned = jax.jit(lambda q, x: quaternion_matrix(q) @ x)
    return jnp.dot(quaternion_matrix(q)[:, 0], turned(q, turned(q, jnp.array([0.0, 1.0, 0.0]))))


def count(function, *given):
    return len(jax.make_jaxpr(jax.jit(function))(*given).eqns[0].params["jaxpr"].eqns)


def test_equal_operations_are_done_once():
    """The merged program has no more equations than one that computes R once."""

    def by_hand(q):
        R = quaternion_matrix(q)
        return jnp.dot(R[:, 0], R @ (R @ jnp.array([0.0, 1.0, 0.0])))

    assert count(once(several_turns, Q), Q) <= count(once(by_hand, Q), Q)


def test_values_and_derivatives_stay():
    merged, several = (
        jax.jit(lambda q, f=f: (f(q), jax.grad(f)(q), jax.hessian(f)(q)))(Q)
        for f in (once(several_turns, Q), several_turns)
    )
    for a, b in zip(merged, several, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-14)


def test_values_from_outside_and_literals():
    """The merged program keeps arrays of the enclosing trace, results without operations, and constants that differ
    only in type or sign of zero."""

    def made(scale):
        def function(x):
            return (
                x * scale,
                x,
                jnp.asarray(2.0),
                jnp.copysign(1.0, x * 0.0) + jnp.copysign(1.0, x * -0.0),
            )

        return once(function, jnp.ones(()))(jnp.ones(()))

    found = jax.vmap(made)(jnp.arange(3.0))
    np.testing.assert_array_equal(found[0], [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(found[1], np.ones(3))
    np.testing.assert_array_equal(found[2], np.full(3, 2.0))
    np.testing.assert_array_equal(found[3], np.zeros(3))


def test_functions_with_derivatives_of_their_own():
    """Two calls of one `custom_jvp` function are merged, and its own derivative rule is used."""

    @jax.custom_jvp
    def tripled(x):
        return 2.0 * x

    tripled.defjvp(lambda given, along: (2.0 * given[0], 3.0 * along[0]))
    function = lambda x: tripled(x) * tripled(x)
    merged = once(function, jnp.ones(()))
    assert str(jax.make_jaxpr(merged)(1.0)).count("custom_jvp_call[") == 1
    np.testing.assert_allclose(jax.grad(merged)(1.0), 12.0)


def test_rules_that_differ_are_kept_apart():
    """Of five functions with equal values, only the two with equal derivative rules are merged."""

    def made(rule):
        function = jax.custom_jvp(lambda x: 2.0 * x)
        function.defjvps(lambda t, ans, x: rule(x) * t)
        return function

    array = jnp.arange(3.0)
    rules = [
        jnp.cos,
        jnp.cos,
        jnp.sin,
        lambda x: jnp.sum(x * array),
        lambda x: jnp.sum(x * (array + 1)),
    ]
    function = lambda x: sum((k + 1) * made(rule)(x) for k, rule in enumerate(rules))
    merged = once(function, jnp.ones(()))
    assert str(jax.make_jaxpr(merged)(1.0)).count("custom_jvp_call[") == 4
    for order in (jax.grad, lambda f: jax.grad(jax.grad(f))):
        np.testing.assert_allclose(order(merged)(0.4), order(function)(0.4), rtol=1e-14)
