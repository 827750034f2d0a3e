"""Loops that are not written out stay loops in lanes, wherever they are, against `jax.vmap`, with both derivatives."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as given_by_hypothesis
from hypothesis import settings
from hypothesis import strategies as st

from jaxhamel._lanes import _run_batch
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


def test_branch_that_all_lanes_take():
    """A loop that never ends in a branch which no lane takes is not run, as under `jax.vmap`."""

    def f(which, x):
        def endless():
            return jax.lax.while_loop(lambda y: y[0] < which[0] + 5.0, jnp.sin, x)

        return jax.lax.switch(jnp.astype(which[1], int), [lambda: jnp.cos(x), endless])

    x = given(np.float64)[1]
    found = jax.jit(lanes(f, (None, 0)))(jnp.zeros(2), x)
    np.testing.assert_allclose(found, jnp.cos(x), rtol=1e-14)


def test_wide_turn_runs_under_vmap():
    """A turn with more numbers than a loop over the lanes takes is an operation on arrays; all around it runs in lanes."""

    def f(x):
        start = jnp.outer(jnp.linspace(0.0, 1.0, 32), jnp.linspace(1.0, 2.0, 32)) * x[0]
        turn = lambda y, _: (jnp.sin(y @ y) + 0.1, jnp.sum(y))
        return jnp.sum(jax.lax.scan(turn, start, length=3)[0], axis=0) * jnp.exp(x[1])

    x = given(np.float64)[1]
    with pytest.warns(UserWarning, match="more than 900 numbers of each lane in a turn"):
        found = jax.jit(lanes(f))(x)
    np.testing.assert_allclose(found, jax.vmap(f)(x), rtol=1e-9)


def test_long_turn_of_an_inner_loop_runs_under_vmap(monkeypatch):
    """It would compile for a minute; the loop around it, and all else, stays in lanes."""
    monkeypatch.setattr(_run_batch, "LONGEST_INNER_TURN", 50)

    def f(x, rows):
        def inner(y, row):
            return jnp.sin(y @ jnp.outer(row, row)) + 0.1 * y, y[0]

        def turn(y, row):
            y, seen = jax.lax.scan(inner, y, jnp.outer(jnp.arange(1.0, 9.0), row))
            return y * jnp.exp(-(y**2)), seen[-1]

        return jax.lax.scan(turn, x, rows)

    _, x, _, rows = given(np.float64)
    with pytest.warns(
        UserWarning, match="a turn of a loop within a loop has .* operations of each lane"
    ):
        found = jax.jit(lanes(f))(x, rows)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(jax.vmap(f)(x, rows)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_gradient_of_a_long_loop_stores_no_factors():
    """Reverse mode stores what each turn begins with, not the factors of the products in it."""

    def f(x):
        def turn(y, _):
            for _ in range(6):
                y = y + 0.1 * jnp.sin(y) * y[::-1]
            return y, None

        return jnp.sum(jax.lax.scan(turn, x, length=200)[0])

    x = given(np.float64)[1]
    run = jax.jit(jax.grad(lambda x: jnp.sum(lanes(f)(x)))).lower(x).compile()
    np.testing.assert_allclose(run(x), jax.grad(lambda x: jnp.sum(jax.vmap(f)(x)))(x), rtol=1e-11)
    states = 200 * x.nbytes
    assert run.memory_analysis().temp_size_in_bytes < 4 * states


# --- random programs ------------------------------------------------------------------------------


def smooth(seed, inner):
    """x ↦ a bounded function of x and of inner(x)."""
    matrix = np.random.default_rng(seed).uniform(-0.5, 0.5, (3, 3))

    def f(x):
        y = inner(x)
        return jnp.sin(jnp.asarray(matrix, x.dtype) @ y) + 0.3 * jnp.cos(x) * y[::-1]

    return f


def in_scan(inner):
    """A scan over rows of each lane, with a counter, and with stacked results."""

    def f(x):
        def turn(carry, row):
            y, count = carry
            y = inner(y + 0.1 * row) + 0.01 * jnp.astype(count, x.dtype)
            return (y, count + 1), jnp.sum(y)

        (y, _), sums = jax.lax.scan(turn, (x, 0), jnp.outer(jnp.sin(x)[:2].repeat(3), x))
        return y + 0.1 * jnp.mean(sums)

    return f


def in_fori_loop(inner):
    """A loop whose turns read and write arrays at its counter."""

    def f(x):
        def turn(i, seen):
            return seen.at[i + 1].set(inner(seen[i]))

        return jax.lax.fori_loop(0, 4, turn, jnp.zeros((5, 3), x.dtype).at[0].set(x))[-1]

    return f


def in_while_loop(inner):
    """A loop with another number of turns in each lane, from 1 to 4."""

    def f(x):
        turns = 1 + jnp.astype(jnp.floor(4 * jnp.abs(jnp.sin(x[0] + 0.1))), int)
        return jax.lax.while_loop(
            lambda carry: carry[1] < turns, lambda carry: (inner(carry[0]), carry[1] + 1), (x, 0)
        )[0]

    return f


def in_cond(inner):
    return lambda x: jax.lax.cond(x[1] > 0.1, inner, lambda x: jnp.cos(x), x)


AROUND = [in_scan, in_fori_loop, in_while_loop, in_cond]


@st.composite
def programs(draw):
    """A function (3,) → (3,) of nested loops and branches, and the number of its loops that end on a computed condition."""
    parts = draw(st.lists(st.sampled_from(AROUND), min_size=1, max_size=2))
    f = smooth(draw(st.integers(0, 99)), jnp.sin)
    for seed, around in enumerate(parts):
        f = smooth(seed, around(f))
    return f, parts


def differentiated(mode, mapped, f, x):
    total = lambda x: jnp.sum(jnp.cos(mapped(f)(x)))
    if mode == "forward":
        return jax.jvp(total, (x,), (jnp.cos(x),))[1]
    return jax.grad(total)(x)


@given_by_hypothesis(programs(), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=4, deadline=None)
def test_random_programs(program, dtype):
    """Values and derivatives are those of `jax.vmap`, without a warning; loops stay loops."""
    f, parts = program
    x = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (LANES, 3)), dtype)
    room = 2000 * float(np.finfo(dtype).eps)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error")
        patch.setattr(_control_flow, "LONGEST_LOOP", 20)
        run = jax.jit(lanes(f))
        assert eqx.tree_equal(run(x), jax.vmap(f)(x), rtol=room, atol=room)
        kept = run.lower(x).as_text().count("stablehlo.while")
        modes = ["forward"] if in_while_loop in parts else ["forward", "reverse"]
        for mode in modes:
            found, wanted = (
                jax.jit(lambda x, m=m, mode=mode: differentiated(mode, m, f, x))(x)
                for m in (lanes, jax.vmap)
            )
            assert eqx.tree_equal(found, wanted, rtol=room, atol=room)
    assert kept >= sum(part is not in_cond for part in parts)
