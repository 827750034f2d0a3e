"""Look-ups in tables too large to be written out, arctangents, and loops that run in blocks of lanes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel._lanes._derivatives._pullback import pullback
from jaxhamel._lanes._divided._look_ups import divided
from jaxhamel._lanes._one_lane import all_equations, one_lane
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._written_out import written_out
from jaxhamel._lanes._xla_cpu import _one_loop
from jaxhamel._lanes._xla_cpu._trigonometry import arctangent

RNG = np.random.default_rng(7)
TABLE = RNG.normal(size=(400, 3, 2))
X, OTHER = RNG.normal(size=(5, 2)), RNG.normal(size=700)


@jax.jit
def row(table, t):
    """Linear interpolation between the rows of a table, as in a regulator's gains."""
    i = jnp.floor(t).astype(int)
    return table[i] + (t - i.astype(t.dtype)) * (table[i + 1] - table[i])


def law(t, x, table, unused):
    return jnp.sin(row(table, t) @ x) + t


@pytest.mark.parametrize(
    ("axes", "t"),
    [((None, 0, None, None), np.array(7.3)), ((0, 0, None, None), 70.0 * np.arange(5) + 0.3)],
)
def test_values_and_derivatives_are_those_of_vmap(axes, t):
    """The time is shared by all lanes or belongs to each lane; the unused table is not read. No warning is raised."""
    given = tuple(map(jnp.asarray, (t, X, TABLE, OTHER)))

    def found(transform):
        total = lambda *x: jnp.sum(jnp.cos(transform(law, axes)(*x)))
        gradient = lambda *x: jax.grad(total, (0, 1, 2))(*x)
        forward = lambda *x: jax.jvp(lambda s, y: total(s, y, *x[2:]), x[:2], x[:2])[1]
        return jax.jit(lambda *x: (transform(law, axes)(*x), gradient(*x), forward(*x)))(*given)

    for a, b in zip(jax.tree.leaves(found(lanes)), jax.tree.leaves(found(jax.vmap)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_a_single_lane_reads_a_table_of_some_hundred_numbers_as_an_array():
    """The program does not take the table of 600 numbers apart; its values and derivatives are those of the function."""
    table, x, t = jnp.asarray(TABLE[:100]), jnp.asarray(X[0]), jnp.array(7.3)
    alone = one_lane(lambda at, table: law(*at, table, None))
    found = jax.jit(lambda t, x, table: (alone((t, x), table), jax.jacfwd(alone)((t, x), table)))
    direct = lambda at: law(*at, table, None)
    wanted = direct((t, x)), jax.jacfwd(direct)((t, x))
    for a, b in zip(jax.tree.leaves(found(t, x, table)), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
    program = jax.jit(lambda t, x, table: alone((t, x), table)).lower(t, x, table).as_text()
    assert program.count("stablehlo.slice") < 50


def test_pullback_of_a_look_up():
    """The cotangents of two arguments that do not enter the look-up agree with those by hand."""

    def back(t, x, factor, table, bar):
        of = lambda x: x[1] * law(t, x[0], table, None)
        return pullback(of, (x, factor), bar)

    bars, factors = jnp.asarray(RNG.normal(size=(5, 3))), np.arange(1.0, 6.0)
    t, table = jnp.asarray(250.25), jnp.asarray(TABLE)
    x_bar, factor_bar = jax.jit(lanes(back, (None, 0, 0, None, 0)))(t, X, factors, table, bars)
    gains = TABLE[250] + 0.25 * (TABLE[251] - TABLE[250])
    exact = (factors[:, None] * bars * np.cos(X @ gains.T)) @ gains
    np.testing.assert_allclose(x_bar, exact, atol=1e-13)
    exact = np.sum(bars * (np.sin(X @ gains.T) + 250.25), axis=1)
    np.testing.assert_allclose(factor_bar, exact, atol=1e-12)


def test_tables_are_not_part_of_the_program():
    """The written-out program gets the six numbers that were looked up and not the table. If other operations read the
    array, the program is not divided."""
    found = written_out(law, (False, True, False, False), jnp.asarray(0.5), X, TABLE, OTHER)
    assert found is not None
    assert found.look_ups == 6
    assert [len(x) for x in found.arguments] == [1, 2, 0, 0]
    product = jax.make_jaxpr(lambda m, x: m @ x)(np.ones((40, 40)), np.ones(40))
    assert divided(product, [False, True]) is None


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_arctangent_to_rounding(dtype):
    y, x = (RNG.normal(size=100_000) * 10 ** RNG.uniform(-3, 3, 100_000) for _ in range(2))
    y, x = y.astype(dtype), x.astype(dtype)
    y[:4], x[:4] = [1, -1, 1, 0], [1, 1, -1, -1]
    exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    found = np.asarray(jax.jit(arctangent)(y, x))
    assert found.dtype == dtype
    assert np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(dtype))) < 3


def test_arctangent_of_zeros_infinities_and_nan():
    values = np.array([0.0, -0.0, 2.0, -2.0, np.inf, -np.inf, np.nan])
    y, x = (v.ravel() for v in np.meshgrid(values, values))
    found, exact = np.asarray(arctangent(jnp.asarray(y), jnp.asarray(x))), np.arctan2(y, x)
    np.testing.assert_allclose(found, exact, rtol=1e-15)
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(exact[known]))


def test_a_loop_in_blocks_of_lanes(monkeypatch):
    """Values stay the same, also if the last block overlaps the one before it, and for a result that is independent of
    the lane."""
    monkeypatch.setattr(_one_loop, "IDLE", 1)
    monkeypatch.setattr(_one_loop, "BLOCK", 1)
    gains, x = RNG.normal(size=(9, 4)), RNG.normal(size=(150, 4))
    f = lambda k, x: (jnp.sin(k @ x), x[0] * k[0, 1], k[1, 1])
    text = jax.jit(lanes(f, (None, 0))).lower(gains, x).as_text()
    assert "stablehlo.while" in text
    for a, b in zip(
        jax.jit(lanes(f, (None, 0)))(gains, x), jax.vmap(f, (None, 0))(gains, x), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_more_shared_numbers_than_a_loop_takes():
    """More shared numbers than XLA accepts in one loop, which would abort the process. A matrix product would stay one
    (`test_blocks`), so this is a sum of products."""
    weights, x = RNG.normal(size=(40, 30)), RNG.normal(size=(17, 30))
    found = jax.jit(lanes(lambda w, x: jnp.sum((w * x[None]).sum(1) ** 2), (None, 0)))(weights, x)
    np.testing.assert_allclose(found, np.sum((x @ weights.T) ** 2, axis=1), rtol=1e-12)


@pytest.mark.parametrize("points", [30, 70])
def test_interpolation_in_a_small_table_is_one_loop(points):
    """The look-ups of a binary search, each of which depends on the one before it, are selections: XLA took 91 s to compile
    twelve of them outside of the loop. Larger tables are read by an index."""
    xs = jnp.asarray(np.sort(RNG.normal(size=points)))
    f = lambda x, xs, ys: jnp.sum(jnp.interp(x, xs, ys) * x)
    given = jnp.asarray(RNG.normal(size=(5, 2))), xs, jnp.sin(xs)
    axes = (0, None, None)

    def everything(transform, *given):
        total = lambda *given: jnp.sum(jnp.sin(transform(f, axes)(*given)))
        return transform(f, axes)(*given), jax.grad(total)(*given)

    found, wanted = (jax.jit(partial(everything, t))(*given) for t in (lanes, jax.vmap))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    program = written_out(f, [True, False, False], *given)
    assert program is not None
    assert ("pick" in program.program.operations()) == (points > 64)


def surface(x, table):
    """Bilinear interpolation in a table with two axes; the window's position is computed along both."""
    i = jnp.floor(x).astype(int)
    window = jax.lax.dynamic_slice(table, (i[0], i[1]), (2, 2))
    (a, b), weights = x - i.astype(x.dtype), lambda s: jnp.stack([1 - s, s])
    return weights(a) @ window @ weights(b)


def bent(x, table):
    """Needs the window for the value and for derivatives of order one and two."""
    slope = jax.grad(surface)(x, table)
    return jnp.sin(surface(x, table)) + slope @ jax.hessian(surface)(x, table) @ slope


def test_windows_along_two_axes_are_read_once():
    """A table of 42 numbers stays an array; the three derivatives read one window, whose position is computed once. Values
    and derivatives are those of `vmap`, and for one lane those of the function."""
    table, x = jnp.asarray(RNG.normal(size=(6, 7))), jnp.asarray(RNG.uniform(0.1, 4.9, (5, 2)))
    closed = jax.make_jaxpr(bent)(x[0], table)
    assert str(closed).count("dynamic_slice[") > 1
    found = divided(closed, [True, False])
    assert found is not None
    assert str(found.look_ups).count("dynamic_slice[") == 1

    def both(f):
        return f(x, table), jax.grad(lambda x: jnp.sum(f(x, table)))(x)

    wanted = both(jax.vmap(bent, (0, None)))
    tables = jnp.asarray(RNG.normal(size=(5, 6, 7)))
    own = jax.jit(lanes(bent, (0, 0)))(x, tables), jax.vmap(bent)(x, tables)
    np.testing.assert_allclose(*own, atol=1e-12)  # each lane reads its own table
    assert divided(closed, [True, True]) is not None
    for f in (
        lanes(bent, (0, None)),
        lambda x, table: jnp.stack([one_lane(bent)(y, table) for y in x]),
    ):
        for a, b in zip(jax.jit(both, static_argnums=0)(f), wanted, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_known_positions_are_no_look_up():
    """The ends of 600 springs, columns of a constant array of more numbers than a table has, are positions that the program
    knows, so that no scalar is selected by its position. A position that is an input stays a look-up."""
    pairs = np.stack([np.arange(600) % 40, (7 * np.arange(600) + 1) % 40], axis=1)

    def stretch(x, shift):
        ends = jnp.asarray(pairs)
        return x[ends[:, 0]] - x[ends[:, 1]] + shift[ends[:, 0]]

    x, shift = RNG.normal(size=40), RNG.normal(size=40)
    closed = jax.make_jaxpr(stretch)(x, shift)
    assert divided(closed, [True, False]) is None
    found = written_out(stretch, (True, False), x[None], shift)
    assert found is not None
    assert set(found.program.operations()) == {"sub", "add"}  # and no selection
    last = jax.make_jaxpr(lambda x, i: x[jnp.asarray(pairs)[i, 0]])(x, 299)
    looked_up = divided(last, [True, False])
    assert looked_up is not None
    np.testing.assert_array_equal(looked_up.looked_up([x, 299], [True, False], 1), [299 % 40])


class Hills(jaxhamel.System):
    """A point of 1 kg on a map of heights, which four reads interpolate at each place."""

    heights: jax.Array
    space = jaxhamel.Euclidean(2)

    def lagrangian(self, t, q, v):
        corner = jnp.floor(q).astype(int)
        (a, b), (i, j), h = q - corner.astype(q.dtype), corner, self.heights
        low, high = h[i, j] * (1 - b) + h[i, j + 1] * b, h[i + 1, j] * (1 - b) + h[i + 1, j + 1] * b
        return 0.5 * v @ v - (low * (1 - a) + high * a)


def test_a_gradient_by_a_map_that_a_motion_reads():
    """On the saddle h = x y, x + y moves as cos t and sin t, x − y as cosh t and sinh t; derivatives of the end by the
    heights agree with finite differences."""
    x, y = np.meshgrid(np.arange(9.0), np.arange(9.0), indexing="ij")
    heights, q, u = jnp.asarray(x * y), np.array([4.3, 4.4]), np.array([0.2, 0.1])

    def end(heights):
        return jaxhamel.simulate(Hills(heights), q, u, [0.0, 0.3]).q_end

    grown, turned = (q.sum(), u.sum()), (q[0] - q[1], u[0] - u[1])
    total = grown[0] * np.cos(0.3) + grown[1] * np.sin(0.3)
    other = turned[0] * np.cosh(0.3) + turned[1] * np.sinh(0.3)
    np.testing.assert_allclose(end(heights), [(total + other) / 2, (total - other) / 2], atol=1e-8)
    found = jax.jit(jax.grad(lambda h: jnp.sum(end(h) ** 2)))(heights)
    for i, j in [(4, 4), (4, 5), (5, 4), (5, 5), (3, 3)]:
        ends = [jnp.sum(end(heights.at[i, j].add(s)) ** 2) for s in (1e-5, -1e-5)]
        np.testing.assert_allclose(found[i, j], (ends[0] - ends[1]) / 2e-5, atol=1e-7)


def test_a_single_lane_looks_up_without_an_axis():
    """So its derivative by the table writes a window, as a kernel may, and no scatter with an axis of one position."""
    closed = jax.make_jaxpr(lambda table, i: table[i, i] * 2.0)(np.ones((30, 40)), 3)
    parts = divided(closed, [False, True])
    assert parts is not None

    def looked_up(table, i):
        (found,) = parts.looked_up([table, i], [False, True], 1)
        return jnp.sum(found)

    back = jax.make_jaxpr(jax.grad(looked_up))(np.ones((30, 40)), np.array([3]))
    names = {e.primitive.name for e, _ in all_equations(back.jaxpr)}
    assert "dynamic_update_slice" in names
    assert "scatter-add" not in names
