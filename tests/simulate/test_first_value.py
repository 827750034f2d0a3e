"""The programs of `simulate` compile quickly, and JAX can cache them on disk."""

import gc
from functools import partial

import diffrax
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel._lanes._own_primitive import own_primitive
from jaxhamel.simulate._end_time import NAME, ForwardMode, in_one_call
from jaxhamel.systems import FreeRigidBody


def chain(leaves):
    """A number a hundred roundings below the first, and results that read the end of the chain."""
    x, y = leaves
    for _ in range(100):
        x = eqxi.prevbefore(x)
    return {"below": x, "other": jnp.sin(y), "sum": x + y}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_chain_of_calls_is_one_call_with_the_same_bits(dtype):
    numbers = np.array([2.0, -3.5, 1e-30, 0.0, -0.0, 1e30, np.inf, np.nan], np.float64)
    at = [numbers.astype(dtype), np.ones(len(numbers), dtype)]
    both = jax.jit(lambda at: (jax.vmap(chain)(at), jax.vmap(in_one_call(chain))(at)))
    written_out, at_once = map(jax.tree.leaves, both(at))
    for x, y in zip(written_out, at_once, strict=True):
        assert np.array_equal(x, y, equal_nan=True)


def test_one_call_has_the_derivatives_of_the_chain():
    def total(f, at):
        return jnp.sum(jnp.stack(jax.tree.leaves(f(at))))

    at = [np.float64(2.0), np.float64(0.3)]
    written_out, at_once = jax.jit(
        lambda at: [jax.grad(partial(total, f))(at) for f in (chain, in_one_call(chain))]
    )(at)
    assert np.array_equal(written_out, at_once)
    assert np.allclose(at_once, [2.0, 1.0 + np.cos(0.3)], rtol=1e-15)
    assert str(jax.make_jaxpr(in_one_call(chain))(at)).count(NAME) < 5


def test_only_a_chain_whose_values_nothing_else_reads_becomes_one_call():
    def read_twice(leaves):
        (x,) = leaves
        found = [x := eqxi.prevbefore(x) for _ in range(3)]
        return found[1] + x

    assert str(jax.make_jaxpr(in_one_call(read_twice))([1.0])).count(f"name={NAME}") == 3


def test_the_loop_of_forward_mode_jits_these_calls_and_they_become_one():
    """If this fails, diffrax's loop has changed: programs stay right, but take longer to trace."""
    own, given = ForwardMode()._loop, diffrax.ForwardMode()._loop
    assert own.__code__ is given.__code__
    jitted = own.__globals__["eqxi"].prevbefore
    assert own.__globals__["eqxi"].while_loop is eqxi.while_loop

    def short(leaves):
        return jitted(jitted(jitted(leaves[0])))

    assert all("jit" in e.primitive.name for e in jax.make_jaxpr(short)([1.0]).eqns)
    (call,) = jax.make_jaxpr(in_one_call(short))([1.0]).eqns
    assert call.primitive.name == "custom_jvp_call"


@pytest.fixture(scope="module")
def programs():
    """The text of the programs for known times and for traced times."""
    body = FreeRigidBody(jnp.array([1.0, 2.0, 3.0]))
    q0, u0, ts = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.1, 0.2, 0.3]), jnp.arange(3.0)
    end = lambda u0, ts: jaxhamel.simulate(body, q0, u0, ts).u_end
    known = jax.jit(partial(end, ts=ts)).lower(u0).as_text()
    return known, jax.jit(end).lower(u0, ts).as_text()


def test_programs_for_known_times_call_nothing_in_python(programs):
    """JAX does not cache programs with callbacks; only traced times need one, which checks their order."""
    known, traced = programs
    assert "callback" not in known
    assert "callback" in traced


def test_a_gradient_runs_the_motion_twice(programs):
    """Once for its results, and once more to fill the tape. The backward pass has a loop over segments, three loops (steps,
    stages, output times) that fill the tape, and four that reverse its rows."""
    body = FreeRigidBody(jnp.array([1.0, 2.0, 3.0]))
    q0, ts = jnp.array([1.0, 0.0, 0.0, 0.0]), np.arange(3.0)
    end = lambda u0: jnp.sum(jaxhamel.simulate(body, q0, u0, ts).u_end)
    text = jax.jit(jax.grad(end)).lower(jnp.array([0.1, 0.2, 0.3])).as_text()
    assert text.count("stablehlo.while") == programs[0].count("stablehlo.while") + 8


def test_no_garbage_is_collected_while_a_program_is_lowered():
    """The rules that lower the package's primitives trace whole programs, and the collector would look at each of their
    operations again and again."""
    found = []

    def run(x):
        found.append(gc.isenabled())
        return [x + 1.0]

    primitive = own_primitive("seen", run=run, abstract=lambda x: [x], jvp=run, batch=run)
    enabled = gc.isenabled()
    gc.enable()
    try:
        text = jax.jit(lambda x: primitive.bind(x)).lower(2.0).as_text()
        assert (found, gc.isenabled()) == ([False], True)
    finally:
        (gc.enable if enabled else gc.disable)()
    assert "stablehlo.add" in text


def test_programs_have_no_long_chains(programs):
    assert all(text.count("next_after") + text.count(NAME) < 20 for text in programs)
