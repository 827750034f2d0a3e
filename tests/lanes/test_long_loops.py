"""Scans that are too long to be written out stay loops in lanes, against `jax.vmap`, with both derivatives."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._rules import _control_flow
from jaxhamel.ensemble import lanes

LANES, TURNS = 40, 6


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Loops of more than 100 operations are long."""
    monkeypatch.setattr(_control_flow, "LONGEST_LOOP", 100)


def motion(reverse: bool):
    """A function with work before, in and after a loop, which has fixed, carried and scanned arrays, shared and of lanes, an
    empty array, a flag and a counter."""

    def f(matrix, rate, x, rows):
        nothing = jnp.zeros((0,), x.dtype)

        def turn(carry, at):
            (y, slopes, went, count), (row, weight) = carry, at
            y = y + 0.1 * jnp.sin(matrix @ y + rate) * weight + row + jnp.sum(nothing)
            slopes = slopes + jnp.outer(y, jnp.cos(y))
            return (y, slopes, went | (y[0] > 1.0), count + 1), (y[:2] * y[1], count)

        start = jnp.exp(0.1 * x), jnp.zeros((3, 3), x.dtype), jnp.array(False), jnp.array(0)
        weights = jnp.linspace(0.5, 1.5, len(rows), dtype=x.dtype)
        (y, slopes, went, count), (seen, counts) = jax.lax.scan(
            turn, start, (rows, weights), reverse=reverse
        )
        return {"end": slopes @ y, "seen": seen, "went": went, "count": count, "counts": counts}

    return f


def given(dtype, turns=TURNS):
    random = np.random.default_rng(0)
    numbers = [random.normal(size=s) for s in ((3, 3), (LANES, 3), (LANES, 3), (LANES, turns, 3))]
    return [jnp.asarray(x, dtype) for x in numbers]


AXES = (None, 0, 0, 0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(dtype, reverse):
    f, values = motion(reverse), given(dtype)
    with warnings.catch_warnings():  # none says that all runs under vmap
        warnings.simplefilter("error")
        found = jax.jit(lanes(f, AXES))(*values)
    wanted = jax.vmap(f, AXES)(*values)
    room = 100 * float(np.finfo(dtype).eps)
    assert eqx.tree_equal(found, wanted, rtol=room, atol=room)


def test_loop_stays_a_loop():
    """The program has one loop, which carries vectors over the lanes, and its length does not depend on the turns."""

    def program(turns):
        values = given(np.float64, turns)
        return jax.jit(lanes(motion(False), AXES)).lower(*values).as_text()

    text = program(TURNS)
    (loop,) = [line for line in text.splitlines() if "stablehlo.while" in line]
    carried = loop + text.split(loop)[1].split("cond")[0]
    assert f"tensor<{LANES}xf64>" in carried
    assert f"tensor<{LANES}x3x3xf64>" not in carried
    assert program(10 * TURNS).count("stablehlo.") == text.count("stablehlo.")


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_derivatives(mode):
    """Those of `jax.vmap`, for values that lanes share and others."""

    def total(mapped):
        def f(*values):
            out = mapped(motion(False), AXES)(*values)
            return jnp.sum(jnp.sin(out["end"])) + jnp.sum(out["seen"] ** 2)

        return f

    values = given(np.float64)
    if mode == "reverse":
        found, wanted = (
            jax.jit(jax.grad(total(m), (0, 1, 2, 3)))(*values) for m in (lanes, jax.vmap)
        )
    else:
        along = [jnp.cos(x) for x in values]
        found, wanted = (jax.jvp(total(m), values, along) for m in (lanes, jax.vmap))
    for x, exact in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, exact, rtol=1e-11, atol=1e-11)


def test_loop_in_a_branch():
    """A long loop in a branch is not taken apart: all runs under `jax.vmap`, with a warning."""

    def f(x):
        return jax.lax.cond(
            x[0] > 0,
            lambda: motion(False)(jnp.eye(3), x, x, jnp.ones((TURNS, 3)))["end"],
            lambda: x,
        )

    x = given(np.float64)[1]
    with pytest.warns(
        UserWarning, match="cannot take the primitive `scan` of 6 turns, written out about"
    ):
        found = jax.jit(lanes(f))(x)
    np.testing.assert_allclose(found, jax.vmap(f)(x), rtol=1e-13)
