"""Branches, loops and functions with custom derivative rules in lanes, against `jax.vmap`, in values and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxhamel._lanes._program import scalarise
from jaxhamel.ensemble import lanes

X = np.random.default_rng(0).uniform(0.2, 0.9, (6, 3))
WHICH = np.array([0, 1, 2, -4, 7, 1])  # `lax.switch` clamps the index


def kepler(x):
    """Solves Kepler's equation E − 0.3 sin E = x by four steps of Newton's method."""
    step = lambda i, e: e - (e - 0.3 * jnp.sin(e) - x) / (1 - 0.3 * jnp.cos(e))
    return lax.fori_loop(0, 4, step, x)


FUNCTIONS = {
    "cond": lambda x: lax.cond(x[0] > 0.5, lambda x: x * 2, lambda x: x**2, x),
    "cond, one branch not differentiable": lambda x: lax.cond(
        x[0] > 0.5, lambda x: jnp.sqrt(x - 0.5), lambda x: x, x[0]
    ),
    "cond with integers": lambda x: lax.cond(x[0] > 0.5, lambda: (1, x), lambda: (2, 3.0 * x)),
    "cond that is known": lambda x: lax.cond(len(x) > 2, lambda x: x * 2, lambda x: x**2, x),
    "switch": lambda x: lax.switch(
        jnp.astype(4 * x[0], int), [lambda x: x * 2, lambda x: x**2, jnp.sin], x
    ),
    "switch that is known": lambda x: lax.switch(jnp.arange(3)[1], [jnp.cos, jnp.sin], x),
    "platform": lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.sin),
    "diagonal": lambda x: jnp.diagonal(jnp.outer(x, x)),
    "piecewise": lambda x: jnp.piecewise(x, [x < 0.3, x < 0.6], [jnp.sin, jnp.cos, 1.0]),
    "select": lambda x: jnp.select([x < 0.3, x < 0.6], [x**2, x], 3.0 * x),
    "fori_loop": kepler,
    "scan": lambda x: lax.scan(lambda c, r: (c * r + 1, (c, r)), x[0], x),
    "scan of nothing": lambda x: lax.scan(lambda c, r: (c * r, c), x[0], x[:0]),
    "scan backwards": lambda x: lax.scan(lambda c, r: (c * r + 1, c), x[0], x, reverse=True),
    "scan of a length": lambda x: lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=4),
    "scan in scan": lambda x: lax.scan(
        lambda c, r: (lax.fori_loop(0, 2, lambda i, y: y * r + i, c), c), x[0], x
    ),
    "polynomial": lambda x: jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x),
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(x) * x),
    "matrix exponential": lambda x: jax.scipy.linalg.expm(x[0] * jnp.eye(2)[::-1])[0],
}


def compared(f, *args, rtol=1e-13):
    found, wanted = jax.jit(lanes(f))(*args), jax.vmap(f)(*args)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-15)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name):
    compared(FUNCTIONS[name], X)


@pytest.mark.parametrize("by", [jax.jacfwd, jax.jacrev])
def test_derivatives(by):
    """Derivatives of all functions in one program. A NaN in a branch that is not taken does not enter them."""

    def every(x):
        found = [f(x) for name, f in FUNCTIONS.items() if "exponential" not in name]
        found = [y for y in jax.tree.leaves(found) if jnp.issubdtype(y.dtype, jnp.floating)]
        return sum(jnp.sum(jnp.sin(y)) for y in found)

    wanted = jax.jit(lambda x: jnp.stack([by(every)(x[i]) for i in range(2)]))(X[:2])
    over_lanes = lambda x: jnp.sum(lanes(every)(x))
    found = jax.jit(lanes(by(every)) if by is jax.jacfwd else jax.grad(over_lanes))(X[:2])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_branch_that_differs_from_lane_to_lane():
    branches = [lambda x: x * 2, lambda x: x**2, jnp.sin]
    compared(lambda i, x: lax.switch(i, branches, x), WHICH, X)


def test_a_while_loop_whose_end_is_known():
    compared(
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (0, x)), X
    )


# --- functions that carry a rule ------------------------------------------------------------------


@jax.custom_vjp
def length(x):
    return jnp.sqrt(jnp.sum(x * x))


# three times the derivative, which shows that the rule is used
length.defvjp(lambda x: (length(x), x), lambda x, bar: (3 * bar * x / length(x),))


def test_the_backward_rule_of_custom_vjp_is_kept():
    compared(length, X)
    found = jax.jit(jax.grad(lambda x: jnp.sum(lanes(length)(x))))(X)
    np.testing.assert_allclose(found, 3 * X / np.linalg.norm(X, axis=1, keepdims=True), rtol=1e-13)
    np.testing.assert_allclose(jax.jit(lanes(jax.grad(length)))(X), found, rtol=1e-13)


def test_forward_mode_of_custom_vjp_is_refused_as_by_jax():
    for transform in (jax.vmap, lanes):
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(transform(length), (X,), (X,))


# --- loops that are not written out -------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(
            lambda x: lax.cond(
                x[0] > 0,
                lambda x: lax.fori_loop(0, 9000, lambda i, y: jnp.sin(y + i), x),
                jnp.cos,
                x,
            ),
            id="9000 turns",
        ),
        pytest.param(
            lambda x: lax.while_loop(lambda y: y[0] < 2.0, lambda y: 1.5 * y, x), id="data"
        ),
        pytest.param(
            lambda x: lax.while_loop(lambda c: c[0] < 2000, lambda c: (c[0] + 1, c[1]), (0, x)),
            id="2000 turns",
        ),
    ],
)
def test_other_loops_stay_loops(f):
    compared(f, X, rtol=1e-12)


def test_what_is_known_costs_nothing():
    """A branch with a known condition and additions of zero leave only the three products."""

    def f(x):
        x = lax.fori_loop(0, 3, lambda i, y: y + 0.0, x)
        return lax.cond(True, lambda x: 2.0 * x, jnp.sin, x)

    operations = scalarise(jax.make_jaxpr(f)(X[0]), [True]).operations()
    assert operations == {"mul": 3}


def test_a_small_inverse_is_written_out():
    """The inverse of a 3 × 3 matrix takes fewer than 40 products and quotients; rows are exchanged by selects and not
    by table look-ups, so the program stays one loop."""
    operations = scalarise(jax.make_jaxpr(jnp.linalg.inv)(np.eye(3)), [True]).operations()
    assert operations["pick"] == 0
    assert operations["mul"] + operations["div"] < 40


def one_row_of_a_power(matrix):
    """The first row of the eleventh power of 16 × 16 numbers; a turn computes all rows, and nothing needs the others."""
    turn = lambda row, _: (row @ matrix + 0.0 * (matrix @ matrix @ matrix)[0], None)
    return lax.scan(turn, matrix[0], None, length=10)[0]


def test_operations_that_nothing_needs_do_not_make_a_loop_too_long():
    """A first turn of 16,000 operations, of which the program needs 500, among ten; the row is that of NumPy."""
    matrix = np.random.default_rng(3).normal(size=(16, 16)) / 4
    program = scalarise(jax.make_jaxpr(one_row_of_a_power)(matrix), [True], few=True)
    assert 10_000 > program.length() > 5_000 - 600
    (row,) = program(list(matrix.ravel()[:, None]))
    exact = np.linalg.matrix_power(matrix, 11)[0]
    np.testing.assert_allclose(np.concatenate(row), exact, rtol=1e-12, atol=1e-15)
