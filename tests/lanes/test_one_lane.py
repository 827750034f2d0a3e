"""`one_lane`: the values and derivatives of a function, computed in one kernel; functions that would not run faster stay
unchanged."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

import jaxhamel
from jaxhamel._lanes import _one_lane, _run_batch
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._one_lane import is_worth_it, one_lane
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._one_kernel import as_one_kernel
from jaxhamel._lanes._xla_cpu._one_loop import OLDEST, one_kernel_works
from jaxhamel.mechanics import symmetric_solve
from tests.conftest import PLAIN

pytestmark = pytest.mark.skipif(
    jaxlib.version.__version_info__ < OLDEST, reason="with this XLA lanes are no windows"
)

RNG = np.random.default_rng(9)
X = {"q": RNG.normal(size=3), "u": RNG.normal(size=2)}
S = RNG.normal(size=4)
MARK = 'inlineable="false"'
TIMES = np.linspace(0.0, 2.0, 3)


def rate(x, s):
    """Rates of a pytree, with a table look-up, an unused empty result, and a Boolean."""
    table = jax.lax.dynamic_index_in_dim(s, (x["u"][0] > 0).astype(int), keepdims=False)
    turned = jnp.cross(x["q"], jnp.sin(x["q"]) * s[:3]) / (1 + x["q"] @ x["q"])
    return {"q": turned * table, "u": (x["u"] * s[3], x["u"] > 0), "none": jnp.zeros(0)}


def flat(f):
    """Returns a function of (x, s) with all floating results of f in one vector."""

    def numbers(x, s):
        leaves = [v for v in jax.tree.leaves(f(x, s)) if jnp.issubdtype(v.dtype, jnp.floating)]
        return jnp.concatenate([v.ravel() for v in leaves])

    return numbers


def hlo(f, *args) -> str:
    return jax.jit(f).lower(*args).compile().as_text() or ""


def test_xla_compiles_a_marked_call():
    """If this fails, XLA has changed: a lane then runs as one kernel per operation, two to three times slower."""
    assert one_kernel_works()
    assert MARK in hlo(one_lane(rate), X, S)


def test_it_is_the_function():
    found, wanted = jax.jit(one_lane(rate))(X, S), rate(X, S)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-15, atol=1e-16)


def test_derivatives_are_those_of_the_function():
    def all_of(f):
        g = flat(f)
        both = jax.jacfwd(g, (0, 1)), jax.jacrev(g, (0, 1)), jax.hessian(lambda x, s: g(x, s).sum())
        many = jax.vmap(g, (None, 0))
        return jax.jit(lambda x, s: [*(d(x, s) for d in both), many(x, jnp.stack([s, 2 * s]))])

    found, wanted = all_of(one_lane(rate))(X, S), all_of(rate)(X, S)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def test_arguments_that_do_not_change_the_result():
    """XLA ends the process at a marked call with an unused argument, also if its simplifier removes the only use; so such
    arguments are not passed."""
    empty = np.zeros((3, 0))

    def some(x, empty, n, b):
        del empty
        return x[0] * 2.0, (n - n) + 1, jnp.where(b, 1.0, 1.0)

    found = jax.jit(as_one_kernel(some))(S, empty, np.arange(3), np.array(True))
    np.testing.assert_allclose(found[0], 2 * S[0])
    np.testing.assert_array_equal(found[1], 1)
    np.testing.assert_array_equal(found[2], 1.0)


def as_users_run(arguments: list[str], flags: str):
    """Runs Python with the given XLA flags instead of those that make these tests compile faster."""
    env = {**os.environ, "XLA_FLAGS": flags}
    return subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False
    )


def test_no_program_ends_the_process():
    """Unused, known, empty and equal arguments and results of all dtypes, in loops, branches and derivatives, do not
    abort XLA.

    HLO passes, which could abort, are those of users; LLVM does not optimise, which saves compile time.
    """
    program = Path(__file__).with_name("one_kernel_programs.py")
    run = as_users_run([str(program)], PLAIN)
    assert run.stdout == "no program ended the process\n", run.stderr[-2000:]


SHARDED = """
import jax, jax.numpy as jnp
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._one_lane import is_worth_it, one_lane
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble import lanes
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.device_put(jnp.arange(8.0).reshape(4, 2), jax.NamedSharding(mesh, jax.P("i")))
f = lambda x: jnp.sin(x @ x) * x
for g in (jax.vmap(one_lane(f)), jax.vmap(jax.grad(lambda x: one_lane(f)(x)[0])), lanes(f)):
    print(jax.jit(g)(x).shape)
"""


def test_several_devices_may_share_the_lanes():
    """XLA cannot divide a marked call among devices and said `Failed to materialize symbols`; with two devices no call
    is marked."""
    run = as_users_run(["-c", SHARDED], "--xla_force_host_platform_device_count=2")
    assert run.stdout == "(4, 2)\n" * 3, run.stderr[-2000:]


def test_results_that_are_arguments_or_known():
    f = lambda x, s: (x, s, jnp.ones(2), x[0])
    for a, b in zip(jax.jit(one_lane(f))(S, X["q"]), f(S, X["q"]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_other_precisions(dtype):
    x = jax.tree.map(lambda v: jnp.asarray(v, dtype), X)
    found, wanted = (
        jax.jit(one_lane(rate))(x, jnp.asarray(S, dtype)),
        rate(x, jnp.asarray(S, dtype)),
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=10 * float(jnp.finfo(dtype).eps))


def turned(turns):
    """x + n sin(s) x by a loop of n = `turns` iterations, which may be an array; it is then a `while` in the jaxpr."""
    return lambda x, s: jax.lax.fori_loop(0, turns, lambda i, y: y + jnp.sin(s) * x, x)


def test_short_loops_are_written_out():
    """A function with short loops becomes one kernel, with the values and derivatives of the loops."""
    np.testing.assert_allclose(jax.jit(one_lane(turned(3)))(S, S), S + 3 * np.sin(S) * S)
    assert MARK in hlo(one_lane(turned(3)), S, S)

    def nested(x, s):
        return jax.lax.scan(lambda y, e: (y + turned(2)(x, e * s), y @ s), x, s)[1]

    assert MARK in hlo(one_lane(nested), S, S)
    for one, other in zip(
        *(value_and_derivatives(f) for f in (one_lane(nested), nested)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def value_and_derivatives(f):
    """f(S, S), a derivative by x in forward mode, and one in reverse mode."""
    value, pull = jax.vjp(lambda x: f(x, S), S)
    return value, jax.jvp(lambda x: f(x, S), (S,), (S,))[1], *pull(S)


def root_or_double(x):
    """√x for x > 0, else 2 x; at 0 the derivative of the branch that is not taken is infinite."""
    return jax.lax.cond(x > 0, jnp.sqrt, lambda x: 2 * x, x)


def test_branches_are_written_out_and_only_the_one_taken_has_derivatives():
    """Values, forward and reverse mode and second derivatives equal the closed form: neither the NaN of a root of a negative
    number nor the infinite slope of a root at 0 enters them."""
    x, s = np.array([0.0, -1.0, 4.0, 0.25]), np.array([-7, 0, 2, 1])
    factors = [lambda x: x, jnp.square, lambda x: x**3]

    def branching(x, s):
        total, found = jax.lax.scan(lambda y, e: (y + root_or_double(e),) * 2, 0.0, x)
        switched = [jax.lax.switch(which, factors, total) for which in s]  # the index is clamped
        return jnp.stack([found[-1], *switched])

    one = one_lane(branching)
    assert MARK in hlo(one, x, s)
    first, second = np.array([2, 2, 0.25, 1.0]), np.diag([0, 0, -1 / 32, -2.0])
    np.testing.assert_allclose(jax.jit(one)(x, s), [0.5, 0.5, 0.5, 0.125, 0.25], rtol=1e-15)
    along = np.array([1, 1, 1, 0.75, 1])  # the derivatives of the results by the sum 0 − 2 + 2 + ½
    for by in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(by(one))(x, s), np.outer(along, first), rtol=1e-14)
    bent = jax.jit(jax.jacfwd(jax.jacrev(lambda x: one(x, s)[1])))(x)
    np.testing.assert_allclose(bent, second, rtol=1e-14, atol=1e-16)


def test_long_loops_and_random_numbers_stay_unchanged_without_a_warning():
    drawing = lambda x, s: x + s * jax.random.uniform(jax.random.key(0), (4,))
    branching = lambda x, s: jax.lax.cond(x[0] > 0, lambda: drawing(x, s), lambda: x)
    by_data = lambda x, s: turned((s[0] < 9).astype(int))(x, s)
    for f in (drawing, branching, by_data, turned(3_000)):
        assert MARK not in hlo(one_lane(f), S, S)
    np.testing.assert_allclose(jax.jit(one_lane(by_data))(S, S), S + np.sin(S) * S)


def test_a_derivative_that_stays_unchanged_gives_no_warning():
    @jax.custom_jvp
    def f(x):
        return x @ x

    def derivative(x, t):
        turns = 2 + (x[0][0] > 99).astype(int)
        return f(*x), jax.lax.fori_loop(0, turns, lambda i, y: y + x[0] @ t[0], 0.0)

    f.defjvp(derivative)
    found = jax.jit(jax.jvp, static_argnums=0)(one_lane(f), (S,), (S,))
    np.testing.assert_allclose(found, (S @ S, 2 * S @ S))


def test_very_long_loops_are_not_replaced_to_count_their_operations(monkeypatch):
    """The number of iterations tells that there would be too many scalar operations."""
    closed = jax.make_jaxpr(turned(200_000))(S, S)
    monkeypatch.setattr(_one_lane, "scalarise", None)
    assert not is_worth_it(closed, [True, True])


def test_long_arrays_stay_arrays():
    """Operations on long arrays are not replaced by scalar operations, which would compile more slowly."""
    f = lambda x, s: jnp.sin(x) * s
    assert MARK in hlo(one_lane(f), S, S)
    long = RNG.normal(size=150)
    assert MARK not in hlo(one_lane(f), long, long)


def test_zeros_of_a_matrix_are_no_terms():
    """A product with a diagonal matrix is written out; one with a dense matrix of the same shape is not."""

    def worth_it(matrix):
        program = jax.make_jaxpr(lambda x: jnp.asarray(matrix) @ x)(np.ones((120, 40)))
        return is_worth_it(program, [True])

    assert worth_it(2 * np.eye(120))
    assert not worth_it(np.full((120, 120), 2.0))


def test_a_long_program_of_small_arrays_is_written_out():
    """5,600 operations on vectors of three numbers compile no faster than 16,800 scalar ones; on longer vectors they do."""

    def worth_it(size):
        def f(x):
            for k in range(5_600):
                x = x * x if k % 2 else x + 0.5 * k
            return x

        return is_worth_it(jax.make_jaxpr(f)(np.ones(size)), [True])

    assert worth_it(3)
    assert not worth_it(5)


def test_sums_along_an_axis_share_their_parts():
    """Sums of a constant triangle of ones times x take n − 1 operations along either axis, as `jnp.cumsum` does."""
    ones = np.tril(np.ones((9, 9)))
    for axis, shaped in ((1, lambda x: x), (0, lambda x: x[:, None])):
        f = lambda x, s=shaped, axis=axis: jnp.sum(ones * jnp.broadcast_to(s(x), (9, 9)), axis)
        program = scalarise(jax.make_jaxpr(f)(np.ones(9)), [True])
        assert program.operations().total() == 8
        x = RNG.normal(size=9)
        np.testing.assert_allclose(one_lane(f)(x), f(x), rtol=1e-14)


def test_a_known_zero_times_an_infinity_is_nan():
    zero, infinity = jnp.zeros((1, 2)), jnp.array([jnp.inf, 1.0])
    found = one_lane(lambda x: x + zero @ infinity)(S[:1])
    np.testing.assert_array_equal(found, [np.nan])


class Chain(jaxhamel.System):
    """Eight links of unit length and mass, with the sums along the chain written in a given way."""

    sums: Callable
    space = jaxhamel.Euclidean(8)

    def lagrangian(self, t, q, v):
        x, y, height = (self.sums(each) for each in (jnp.cos(q) * v, jnp.sin(q) * v, -jnp.cos(q)))
        return 0.5 * jnp.sum(x * x + y * y) - 9.81 * jnp.sum(height)


class LongChain(Chain):
    space = jaxhamel.Euclidean(16)


def test_size_does_not_decide():
    """The rate of sixteen links, with 4,200 operations, is one loop in one kernel without a library solve."""
    chain = LongChain(jnp.cumsum)
    rate = one_lane(lambda y: jaxhamel.vector_field(0.0, y, (chain, None)))
    state = np.linspace(0.3, 1.0, 16), np.ones(16)
    text = jax.jit(rate).lower(state).as_text()
    assert text.count('mhlo.fusion"(') + text.count('"stablehlo.reduce_window"') == 1
    assert "xla_cpu_small_call" in text


def test_spelling_does_not_decide(monkeypatch):
    """`simulate` replaces the rate of a chain by scalar operations, however a user writes the sums along the chain.

    On arrays, 2 s of motion took 10 ms in place of 0.5 ms.
    """
    written, judge = [], _one_lane.is_worth_it
    monkeypatch.setattr(
        _one_lane, "is_worth_it", lambda *at: written.append(judge(*at)) or written[-1]
    )
    spellings = (
        jnp.cumsum,
        lambda x: jnp.tril(jnp.ones((8, 8))) @ x,
        lambda x: jnp.stack([*itertools.accumulate(x)]),
        lambda x: jax.lax.scan(lambda s, e: (s + e, s + e), jnp.zeros(()), x)[1],
    )
    for sums in spellings:
        jax.make_jaxpr(partial(jaxhamel.simulate, Chain(sums)))(
            jnp.ones(8), jnp.ones(8), jnp.asarray(TIMES)
        )
    assert written == [True] * len(spellings)


def test_without_kernels_it_is_the_function(monkeypatch):
    monkeypatch.setattr(_one_lane, "one_kernel_works", lambda: False)
    assert MARK not in hlo(one_lane(rate), X, S)
    assert "reduce-window" not in hlo(one_lane(rate), X, S)


def test_many_lanes_are_no_kernel_of_their_own():
    many = jax.vmap(one_lane(flat(rate)), (None, 0))
    assert MARK in hlo(many, X, np.stack([S] * 16))
    assert MARK not in hlo(many, X, np.stack([S] * 17))


@pytest.mark.parametrize(("rows", "taken"), [(20, True), (30, True), (50, False)])
def test_functions_too_large_for_a_kernel_are_seen_before_they_are_written_out(
    rows, taken, monkeypatch
):
    """A function that is too large is found before it is written out, which took half of the time to the first motion
    of 50 links."""
    mass_matrix = lambda x: jnp.einsum("ki,kj,ab->ij", x, x, x)
    f = lambda x, b: symmetric_solve(mass_matrix(x) if rows > 30 else x, b)
    closed = jax.make_jaxpr(f)(np.eye(rows), np.ones(rows))
    if not taken:
        monkeypatch.setattr(_one_lane, "scalarise", None)
        monkeypatch.setattr(_one_lane, "MOST_WORK", 50_000)
    assert is_worth_it(closed, [True, True]) == taken


def test_a_function_is_written_out_once():
    closed = jax.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(np.ones(3))
    program = scalarise(closed, [True])
    assert scalarise(closed, [True]) is program
    assert not scalarise(closed, [False]).graph.nodes[0].batched
    assert scalarise(jax.make_jaxpr(jnp.cos)(np.ones(3)), [True]).operations() == {"cos": 3}
    with pytest.raises(Unsupported, match="more than 4 scalars"):
        scalarise(closed, [True], 4)


def rate_of_solutions(x, solved=True):
    """The change of six solutions of three equations, or of products with their matrices, whose entries are sines."""
    many = np.random.default_rng(0).normal(size=(6, 3, 3))

    def f(x, rows):
        matrix = 3 * jnp.eye(3) + 0.3 * jnp.sin(x[0] * rows + x[1] * rows.T)
        right = jnp.cos(jnp.arange(3.0) + x[0])
        return jnp.linalg.solve(matrix, right) if solved else matrix @ right

    return jax.jvp(lambda x: sum(f(x, rows) for rows in many), (x,), (x[::-1],))[1]


def test_a_program_that_calls_a_library_is_written_out_up_to_a_larger_size():
    """If LAPACK solves, each operation is launched by itself, and 3,300 operations in sines do not matter; else they do.
    Values and gradients are those of the arrays."""
    x = jnp.array([0.2, 0.3])
    assert is_replaced(rate_of_solutions, x)
    assert not is_replaced(partial(rate_of_solutions, solved=False), x)
    assert not is_worth_it(jax.make_jaxpr(rate_of_solutions)(x), [True], few=False)
    of_one = one_lane(rate_of_solutions)
    np.testing.assert_allclose(jax.jit(of_one)(x), rate_of_solutions(x), rtol=1e-12, atol=1e-14)
    gradients = [
        jax.jit(jax.grad(lambda x, f=f: jnp.sum(f(x) ** 2)))(x) for f in (of_one, rate_of_solutions)
    ]
    np.testing.assert_allclose(*gradients, rtol=1e-11)


def is_replaced(f, x):
    return is_worth_it(jax.make_jaxpr(f)(x), [True])


def test_operations_that_no_result_needs_do_not_count(monkeypatch):
    """With a limit of 300 operations: one row of a product of matrices is written out for few lanes, all of it is not."""
    monkeypatch.setattr(_run_batch, "MOST_SCALARS", 300)
    matrices = np.random.default_rng(4).normal(size=(2, 6, 6))
    row = jax.jit(lanes(lambda x: (x @ x)[0]))(matrices)
    np.testing.assert_allclose(row, (matrices @ matrices)[:, 0], rtol=1e-12, atol=1e-14)
    with pytest.warns(UserWarning, match="more than 300 scalars"):
        jax.jit(lanes(lambda x: x @ x))(matrices)
