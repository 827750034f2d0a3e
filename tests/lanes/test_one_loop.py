"""Lanes as one loop: XLA's program against the one without a loop; sines against the C library's."""

from typing import Any

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

from jaxhamel._lanes import _program
from jaxhamel._lanes._xla_cpu import _fusion, _one_loop, _parts, _pieces
from jaxhamel._lanes._xla_cpu._jit import cores, known_here
from jaxhamel._lanes._xla_cpu._one_loop import OLDEST, one_loop_works
from jaxhamel._lanes._xla_cpu._trigonometry import sine_and_cosine
from jaxhamel.ensemble import lanes
from tests.lanes.test_cuts import multiplications

pytestmark = pytest.mark.skipif(
    jaxlib.version.__version_info__ < OLDEST, reason="with this XLA lanes are no windows"
)

RNG = np.random.default_rng(8)
X = RNG.normal(size=(4, 5, 3))
S = RNG.normal(size=4)


def mixed(x, s):
    """Results of three dtypes from own and shared numbers, one of them equal in all lanes."""
    chosen = jnp.where(x > s, jnp.sin(x) * s, jnp.cos(2.0 * s))
    return chosen, x.astype(jnp.float32) * 2, jnp.floor(3 * x).astype(int), s * s, x[0] > s


def test_xla_takes_the_window_for_what_it_is():
    """If this fails, XLA has changed: lanes then run operation by operation, several times slower."""
    assert one_loop_works()


def test_nothing_is_computed_twice(monkeypatch):
    """The loop's HLO has fewer than half of the products, since none is repeated, sines' polynomials included."""
    loop = multiplications()
    monkeypatch.setattr(_program, "one_loop_works", lambda: False)
    assert loop < 0.5 * multiplications()  # 268 and 648 with jax 0.10.2


def test_it_is_one_loop_with_vectors():
    """The HLO has one window reduction, and all products and quotients are inside it."""
    f = lambda x: jnp.stack([jnp.sin(x @ x) * x[0], x[1] / (x @ x), jnp.cos(x @ x)])
    text = jax.jit(lanes(f)).lower(np.tile(X[0], (4, 1))).compile().as_text()
    assert text.count(" reduce-window(") == 1
    inside = [line for line in text.splitlines() if " multiply(" in line or " divide(" in line]
    assert inside
    assert all("f64[]" in line for line in inside)


@pytest.mark.parametrize(
    ("module", "limits"), [(_parts, ["PART"]), (_pieces, ["LONGEST_PIECE", "LONGEST_PROGRAM"])]
)
def test_a_long_program_is_parts_in_each_other_and_several_loops(module, limits, monkeypatch):
    """Values pass from one loop to the next, shared ones and those on both sides of a sine, and the results equal
    `vmap`."""
    for limit in limits:
        monkeypatch.setattr(module, limit, 100)

    def f(x, s):
        for i in range(12):
            x = jnp.stack([jnp.sin(x[1]) * s, x[0] * x[2] + jnp.cos(s + i), jnp.cos(x[1]) - x[0]])
        return x, x > s

    x, run = np.tile(X[0], (4, 1)), jax.jit(lanes(f, (0, None)))
    assert 5 < run.lower(x, S[0]).compile().as_text().count(" reduce-window(") < 40
    for a, b in zip(run(x, S[0]), jax.vmap(f, (0, None))(x, S[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def long_chain(x, s):
    """Some 900 operations on three numbers."""
    for i in range(60):
        x = jnp.stack([x[1] * s + i, x[0] * x[2] - x[1], x[0] / (1.5 + x[1] ** 2)])
        x = x / (2.0 + jnp.abs(x))
    return x


@pytest.mark.skipif(cores() < 2, reason="one core")
@pytest.mark.parametrize(("lanes_of", "tasks"), [(1500, 2), (30, 1)])
def test_what_computes_much_is_divided_among_threads(monkeypatch, lanes_of, tasks):
    """A long loop over 1,500 lanes is split into two tasks and gives the same values; if not, XLA has changed its cost
    estimate (`_one_loop`)."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # what a user has set stays
    x, run = np.resize(X, (lanes_of, 3)), jax.jit(lanes(long_chain, (0, None)))
    lowered = run.lower(x, S[0])
    options: Any = known_here(
        {"xla_cpu_use_fusion_emitters": True}
    )  # the option that users compile with
    compiled = lowered.compile(options)
    assert ('"outer_dimension_partitions":["2"]' in compiled.as_text()) == (tasks == 2)
    wanted = jax.vmap(long_chain, (0, None))(x, S[0])
    np.testing.assert_allclose(compiled(x, S[0]), wanted, rtol=1e-12)


@pytest.mark.parametrize("loop", [True, False])
def test_both_ways_are_vmap(loop, monkeypatch):
    if not loop:
        monkeypatch.setattr(_program, "one_loop_works", lambda: False)
    found = jax.jit(lanes(mixed, (0, None)))(X[0], S[0])
    for a, b in zip(found, jax.vmap(mixed, (0, None))(X[0], S[0]), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=3e-16, atol=3e-16)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_vmap_of_lanes_is_more_lanes(axes):
    """`vmap` adds lanes, also over shared arguments; values and gradients equal `vmap` of `vmap`."""
    f = lambda x, s: jnp.sin(x @ x) * s + jnp.cos(s) * x
    args = tuple(v if axis == 0 else v[0] for v, axis in zip((X, S), axes, strict=True))

    def both(transform):
        g = jax.vmap(lambda x, s: transform(f, (0, None))(x, s), axes)
        return jax.jit(lambda a: (g(*a), jax.grad(lambda a: jnp.sum(g(*a) ** 2))(a)))(args)

    for a, b in zip(jax.tree.leaves(both(lanes)), jax.tree.leaves(both(jax.vmap)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("dtype", "size", "error"),
    [(float, 1, 3e-16), (float, 1.5e6, 3e-16), (np.float32, 1, 2e-7), (np.float32, 3e3, 2e-7)],
)
def test_sine_and_cosine_to_rounding(dtype, size, error):
    x = RNG.uniform(-size, size, 100_000).astype(dtype)
    x[:9] = np.arange(-4, 5) * (np.pi / 2)
    sine, cosine = jax.jit(sine_and_cosine)(x)
    exact = x.astype(np.longdouble)
    assert sine.dtype == dtype
    assert np.max(np.abs(np.asarray(sine, np.longdouble) - np.sin(exact))) < error
    assert np.max(np.abs(np.asarray(cosine, np.longdouble) - np.cos(exact))) < error


def test_sines_of_what_is_large_or_not_finite():
    """Beyond the reduction's range the error is that of rounding x; values stay in [−1, 1]; infinity and NaN give NaN."""
    x = np.array([3e7 + 0.1, 1e12, 1e300, np.inf, np.nan])
    sine, cosine = map(np.asarray, sine_and_cosine(jnp.asarray(x)))
    np.testing.assert_allclose(sine[:2], np.sin(x[:2]), atol=1e-3)
    assert np.abs(sine[:3]).max() <= 1
    assert np.abs(cosine[:3]).max() <= 1
    assert np.isnan(sine[3:]).all()
    assert np.isnan(cosine[3:]).all()


@pytest.mark.parametrize(("sines", "kernels"), [(20, 2), (40, 1)])
def test_what_all_lanes_share_is_one_kernel_unless_it_is_long(sines, kernels):
    """Shared work of up to 900 operations, a sine counting thirty, is a kernel of its own; longer work is left to XLA's
    arrays, since XLA would repeat it in the kernel."""

    def f(x, s):
        for _ in range(sines):
            s = jnp.sin(s) + 0.1
        return x * s

    run = jax.jit(lanes(f, (0, None)))
    x, s = np.linspace(0.0, 1.0, 100), np.array(0.3)
    assert run.lower(x, s).as_text().count("stablehlo.reduce_window") == kernels
    np.testing.assert_allclose(run(x, s), jax.vmap(f, (0, None))(x, s), rtol=1e-14)


def test_more_results_than_a_window_can_have(monkeypatch):
    """XLA aborts at a window reduction with 1,000 results, so 34 × 34 results come from several."""
    outer = lambda x: jnp.outer(x, jnp.sin(x))
    monkeypatch.setattr(_fusion, "fusions_work", lambda: False)
    x = RNG.normal(size=(2, 34))
    lowered = jax.jit(lanes(outer)).lower(x)
    assert lowered.as_text().count('"stablehlo.reduce_window"') > 1
    np.testing.assert_allclose(lowered.compile()(x), jax.vmap(outer)(x), rtol=1e-14)


def test_without_kernels_windows_are_still_taken(monkeypatch):
    """If XLA refuses only the kernel, windows are still used."""

    def refuses(*transforms):
        if len(transforms) == 2:
            raise RuntimeError("no such kernel")
        return [True]

    monkeypatch.setattr(_one_loop, "_windows_work", refuses)
    monkeypatch.setattr(_one_loop, "OLDEST", (0, 0))
    assert _one_loop._trial_results.__wrapped__() == [True, False]
