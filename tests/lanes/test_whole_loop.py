"""Loops in one kernel: marked only where it is safe, with unchanged values and derivatives."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest
from jax import lax

from jaxhamel import simulate
from jaxhamel._lanes._one_lane import SHORT
from jaxhamel._lanes._xla_cpu import _whole_loop
from jaxhamel._lanes._xla_cpu._one_loop import OLDEST
from jaxhamel._lanes._xla_cpu._whole_loop import fits, whole_loop
from jaxhamel.systems import FreeRigidBody

pytestmark = pytest.mark.skipif(
    jaxlib.version.__version_info__ < OLDEST or platform.machine() not in _whole_loop.PROCESSORS,
    reason="nothing is marked with this XLA or on this processor",
)

X = np.random.default_rng(3).normal(size=3)
M = np.random.default_rng(4).normal(size=(9, 9))


def test_xla_takes_loops_into_a_marked_call():
    """If this fails, XLA has changed: `simulate` still works, but starts a kernel for each group of operations."""
    assert _whole_loop.trial_succeeds()


def test_on_a_processor_not_seen_nothing_is_marked(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert not _whole_loop._loops_are_taken.__wrapped__()


@pytest.mark.parametrize(
    "unsafe",
    [
        lambda x: jnp.linalg.solve(M[:3, :3], x),
        jnp.sort,
        lambda x: jnp.linalg.eigvalsh(jnp.outer(x, x)),
        lambda x: jnp.sum(jnp.zeros(5000) + x[0]),
        lambda x: M @ (M * x[0]),
        lambda x: x.at[jnp.array([0, 1])].set(1.0),
        lambda x: jax.random.normal(jax.random.key(0), (3,)) + x,
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), x.dtype), x),
    ],
)
def test_what_needs_a_library_is_found(unsafe):
    """Operations that need a library are found, also in a loop inside a function inside a branch."""

    def hidden(x):
        inner = jax.jit(lambda x: jnp.sum(unsafe(x)))
        turn = lambda _, x: jax.lax.cond(x[0] > 0, lambda: x + inner(x), lambda: x)
        return jax.lax.fori_loop(0, 3, turn, x)

    assert not fits(jax.make_jaxpr(hidden)(X).jaxpr)


def test_what_few_kernels_hold_is_taken():
    def turn(i, carry):
        x, kept = carry
        return jnp.sin(M[:3, :3] @ x) / jnp.linalg.norm(x), kept.at[i].set(x)

    assert fits(
        jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 5, turn, (x, jnp.zeros((5, 3)))))(X).jaxpr
    )


def motion(u0):
    return simulate(FreeRigidBody(jnp.array([1.0, 2.0, 2.5])), Q, u0, TS).u


Q, TS = jnp.array([1.0, 0, 0, 0]), jnp.linspace(0.0, 1.0, 3)


def entry(f) -> str:
    text = jax.jit(f).lower(jnp.asarray(X)).compile().as_text() or ""
    return text[text.index("\nENTRY") :]


def test_simulate_and_its_derivatives_have_no_loop_outside_a_kernel(monkeypatch):
    """Neither the loop of the motion nor that of its derivatives is in the entry computation; without the mark the loop
    is there."""
    assert " while(" not in entry(motion)
    assert " while(" not in entry(jax.grad(lambda u0: jnp.sum(motion(u0) ** 2)))
    if jaxlib.version.__version_info__ >= (0, 12):
        return  # XLA's own compiler of small loops takes them out of the entry computation, marked or not
    monkeypatch.setattr(_whole_loop, "one_kernel_works", lambda: False)
    jax.clear_caches()
    assert " while(" in entry(motion)


def test_a_motion_is_one_kernel_whose_right_hand_side_is_written_out(monkeypatch):
    """The limit of a motion's operations holds the longest right-hand side beside the loops over steps, stages and times."""
    seen, fits = [], _whole_loop.fits
    monkeypatch.setattr(_whole_loop, "fits", lambda *given: seen.append(given) or fits(*given))
    body = FreeRigidBody(jnp.array([1.0, 2.0, 3.0]))
    end = lambda u0: simulate(body, jnp.array([1.0, 0.0, 0.0, 0.0]), u0, np.arange(4.0))
    jax.jit(lambda u0: end(u0).u_end).lower(jnp.array([0.1, 0.2, 0.3]))
    program, most = seen[0]
    assert SHORT + len([*_whole_loop._operations(program)]) <= most


def test_it_is_differentiated_and_mapped_as_the_function_is():
    def f(x, a):
        loop = jax.lax.fori_loop(0, 4, lambda _, x: jnp.sin(x * a) + jnp.sum(x), x)
        return {"y": loop, "n": jnp.sum(loop > 0)}

    def all_of(f):
        g = lambda x, a: f(x, a)["y"]
        many = jax.vmap(jax.vmap(f, (None, 0)), (0, None))
        derivatives = jax.jacfwd(g), jax.jacfwd(jax.jacfwd(g))
        return lambda x, a: [f(x, a), many(M[:, :3], x), *(d(x, a) for d in derivatives)]

    found, wanted = jax.jit(all_of(whole_loop(f)))(X, 0.7), all_of(f)(X, 0.7)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_as_users_run():
    """Runs whole_loop_programs.py without the flags that make tests compile fast."""
    program = Path(__file__).with_name("whole_loop_programs.py")
    run = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "XLA_FLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "as without\n", run.stderr[-2000:]


def added(x, i, value):
    """x with a value added at one position, which stands in an array of one position."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    return lax.scatter_add(x, jnp.reshape(i, (1, 1)), jnp.reshape(value, (1,)), numbers)


@pytest.mark.parametrize("add", [added, lambda x, i, value: x.at[i].add(value)])
def test_sums_of_arrays_with_one_entry_each(add):
    """Cotangents of a table that is read at several places. XLA makes one scatter of a sum of scatters whose positions have
    an axis, which no kernel can contain; those without an axis stay apart."""

    def turn(k, x):
        return x + sum(add(jnp.zeros(3), (k + i) % 3, (i + 1.0) * x[0]) for i in range(3))

    run = lambda x: lax.fori_loop(0, 4, turn, x)
    assert fits(jax.make_jaxpr(run)(X).jaxpr) == (add is not added)
    wanted = np.array(X)
    for k in range(4):
        wanted = wanted + np.roll(np.arange(1.0, 4.0), k) * wanted[0]
    np.testing.assert_allclose(jax.jit(whole_loop(run))(X), wanted, rtol=1e-14)
