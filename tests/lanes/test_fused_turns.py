"""Loops whose bodies are compiled as fusions: their form, and their values against those of the plain loops."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxhamel
from jaxhamel._lanes._fused_turns import LONGEST_TURN, length_of_lanes, with_fused_turns
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._fusion import fusions_work
from jaxhamel._lanes._xla_cpu._one_kernel import as_one_kernel
from jaxhamel.systems import ChaplyginSleigh

pytestmark = pytest.mark.skipif(not fusions_work(), reason="not tested with this XLA")

X, TABLE = np.array([0.3, -0.2, 0.7]), np.linspace(0.0, 1.0, 400)


def stepped(keeps, x, table):
    """Twenty steps of three stages each, or of four if a flag is true, with a table look-up and a buffer of all states."""

    def stage(carry):
        j, x = carry
        return j + 1, x + 0.1 * jnp.sin(jnp.outer(x, x) @ jnp.cos(x))

    def turn(carry):
        i, flag, x, rows = carry
        _, y = lax.while_loop(lambda c: c[0] < 4, stage, (jnp.where(flag, 0, 1), x * table[7 * i]))
        return i + 1, flag | keeps, y, rows.at[i].set(y)

    start = 0, jnp.array(False), x, jnp.zeros((100, 3))
    return lax.while_loop(lambda c: c[0] < 20, turn, start)


def programs(keeps):
    """The loop without and with fused bodies."""
    plain = jax.make_jaxpr(lambda x, table: stepped(keeps, x, table))(X, TABLE)
    return plain, jax.make_jaxpr(with_fused_turns(plain))(X, TABLE)


def test_a_turn_is_one_fusion_with_the_values_of_the_loop():
    """The body is one fusion that contains the inner loop. The look-up stays outside, since its table has more entries
    than a fusion may read."""
    plain, found = programs(False)
    (loop,) = (e for e in found.eqns if e.primitive.name == "while")
    names = [e.primitive.name for e in loop.params["body_jaxpr"].eqns]
    assert names.count("jaxhamel_fusion") == 1
    assert "while" not in names
    assert "dynamic_slice" in names
    assert_equal(plain, found)


def test_a_flag_that_may_become_true_is_data():
    """The number of inner iterations changes after the first step, so the inner loop is kept."""
    plain, found = programs(True)
    (loop,) = (e for e in found.eqns if e.primitive.name == "while")
    assert "while" in {e.primitive.name for e in loop.params["body_jaxpr"].eqns}
    np.testing.assert_array_equal(run(plain)[2], run(found)[2])


def assert_equal(plain, found):
    for a, b in zip(run(plain), jax.jit(as_one_kernel(as_function(found)))(X, TABLE), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def as_function(closed):
    return lambda *x: tuple(jax.extend.core.jaxpr_as_fun(closed)(*x))


def run(closed):
    return jax.jit(as_function(closed))(X, TABLE)


def test_steps_are_those_of_diffrax():
    """Accepted and rejected steps equal those of diffrax's own loop over the stages, which another adjoint selects."""
    one = jnp.array(1.0)
    sleigh, ts = ChaplyginSleigh(one, 0.1 * one, 0.2 * one), jnp.array([0.0, 1.0, 3.0])
    given = sleigh, jnp.zeros(3), jnp.array([-9.0, 0.1]), ts
    own, other = (
        jaxhamel.simulate(*given, rtol=1e-6, atol=1e-6, adjoint=a)
        for a in (None, diffrax.ForwardMode())
    )
    assert own.stats["num_rejected_steps"] > 0
    for name, steps in own.stats.items():
        assert steps == other.stats[name]
    for a, b in ((own.q, other.q), (own.u, other.u)):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_a_function_that_cannot_be_written_out_is_longer_than_any_fusion():
    """A sum of 160,000 products stays an operation on arrays; its length is not an error."""
    products = lambda x: jnp.sum(x[:, None] * x[None])
    rate = jax.make_jaxpr(lanes(products))(np.ones((1, 400)))
    assert length_of_lanes(rate.jaxpr) > LONGEST_TURN
    assert 0 < length_of_lanes(jax.make_jaxpr(lanes(products))(np.ones((1, 4))).jaxpr) < 100
