"""Operations on large arrays that all lanes share stay operations on arrays, and their gradients are those of `vmap`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._divided._array_equations import array_equations
from jaxhamel._lanes._divided._array_parts import array_parts
from jaxhamel._lanes._divided._jaxprs import inlined
from jaxhamel._lanes._tracing import takes_fusions
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._written_out import written_out
from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel.mechanics._small_solve import operator_solve

LANES, WIDTH = 20, 12
RNG = np.random.default_rng(11)
KNOWN = np.tril(RNG.normal(size=(18, WIDTH)), 4)  # 146 nonzero entries
LAYER, STATES = RNG.normal(size=(WIDTH, WIDTH)) / 3, RNG.normal(size=(LANES, WIDTH))
BIAS, MATRIX = RNG.normal(size=WIDTH), RNG.normal(size=(2, 2)) + 3 * np.eye(2)
AXES = (None, None, None, 0)


def network(layer, bias, matrix, x):
    """Products with a matrix argument, with its transpose and with a constant matrix, functions of different kinds between
    them, and a small linear solution that depends on one product and decides on the next."""
    hidden = jnp.tanh(layer @ x + bias)
    turned = jnp.stack([hidden, jax.nn.softplus(hidden)], 1).T @ layer
    solved = jnp.linalg.solve(matrix * jnp.cos(x[0]), turned[:, 0])
    again = layer @ (jnp.sin(turned[1]) * solved[0])
    return (
        KNOWN.astype(x.dtype) @ jax.nn.silu(again) + solved[1],
        jnp.sum(turned[1]),
        bias[0] * x[1],
        bias,
    )


def results(transform):
    """Values, forward mode along a direction of all arguments, and the gradient of a sum of all results."""
    of_all = transform(network, AXES)
    given = (LAYER, BIAS, MATRIX, STATES)

    def total(*given):
        return sum(jnp.sum(jnp.sin(x)) for x in of_all(*given))

    def found(*given):
        rates = jax.jvp(of_all, given, tuple(map(jnp.cos, given)))
        return rates, jax.grad(total, (0, 1, 2, 3))(*given)

    return jax.tree.leaves(jit(found)(*map(jnp.asarray, given)))


def test_values_and_both_derivatives_are_those_of_vmap():
    for x, exact in zip(results(lanes), results(jax.vmap), strict=True):
        np.testing.assert_allclose(x, exact, rtol=1e-11, atol=1e-12)


def program(f, *given):
    return inlined(jax.make_jaxpr(f)(*given))


def test_parts_run_in_turn():
    """The solution runs in lanes, between the products on which it depends and those that depend on it; the gradient by the
    layer has products that sum over all lanes, and no vector over the lanes for each of its entries."""
    closed = jax.make_jaxpr(network)(LAYER, BIAS, MATRIX, STATES[0])
    flags = [False, False, False, True]
    found = array_parts(closed, flags, LANES)
    assert [part.kind for part in found.parts] == ["arrays", "scalars"] * 2
    products = [
        sum(e.primitive.name == "dot_general" for e in part.program.jaxpr.eqns)
        for part in found.parts
    ]
    assert products == [2, 0, 2, 0]
    of_all = lanes(network, AXES)
    loss = lambda layer: sum(jnp.sum(x) for x in of_all(layer, BIAS, MATRIX, STATES))
    text = str(jax.make_jaxpr(jax.grad(loss))(LAYER))
    assert f"f64[{WIDTH},{WIDTH}] = dot_general" in text
    assert f"f64[{LANES},{WIDTH},{WIDTH}]" not in text


def test_few_lanes_keep_layers_but_no_other_arrays():
    """Written out into one kernel, the gradient of a layer takes the compiler minutes for a single lane, too. Sums over many
    small matrices, as in a chain of bodies, are written out for few lanes."""
    closed = jax.make_jaxpr(lambda layer, x: jnp.tanh(layer @ x))(LAYER, STATES[0])
    assert [part.kind for part in array_parts(closed, [False, True], 1).parts] == ["arrays"]
    links = RNG.normal(size=(20, 3, 3))
    turned = lambda x: jnp.einsum("nij,nj->ni", links, jnp.sin(links[..., 0] * x[0]))
    chain = jax.make_jaxpr(turned)(STATES[0])
    assert array_parts(chain, [True], LANES) is not None
    assert array_parts(chain, [True], 16) is None


def in_fusions(function, *given):
    """The result of a function in a program that is compiled with fusions over the lanes."""
    return takes_fusions(lambda: function(*given))()


def test_few_lanes_and_fusions_write_out_constant_matrices():
    """Nothing is differentiated by a constant. An operation on arrays divides the kernel of a right-hand side: with the
    matrix of 12 links the motion then takes seven times as long, and in a fusion over many lanes twelve times. Operations
    whose results nothing reads divide no kernel."""
    small, large = RNG.normal(size=(14, 12)), RNG.normal(size=(32, 32))
    for matrix, is_divided in ((small, False), (large, True)):
        x = jnp.ones(matrix.shape[1])
        program = jax.make_jaxpr(lambda x: jnp.asarray(matrix) @ jnp.sin(x))(x)  # noqa: B023
        assert array_parts(program, [True], LANES) is not None
        assert (array_parts(program, [True], 1) is not None) == is_divided
        assert (in_fusions(array_parts, program, [True], LANES) is not None) == is_divided
    unused = jax.make_jaxpr(lambda x: (small @ jnp.sin(x), jnp.sum(x))[1])(jnp.ones(12))
    assert array_parts(unused, [True], 1) is None
    given = jax.make_jaxpr(lambda a, x: a @ jnp.sin(x))(small, jnp.ones(12))
    assert array_parts(given, [False, True], 1) is not None


def test_operations_of_sparse_or_few_numbers_are_written_out():
    """Products are written out if the matrix has only ones, is diagonal or small, or if both factors belong to the
    lane."""
    few, ones = jnp.asarray(LAYER[:5]), np.tri(WIDTH)

    def f(layer, x):
        return ones @ x, layer @ jnp.diag(x), few @ x, jnp.outer(x, x) @ jnp.outer(x, x)

    assert not array_equations(program(f, LAYER, STATES[0]), [False, True])


def test_operations_on_many_bodies_are_written_out():
    """Bodies with their own inertias and orientations read and return as many numbers of each lane as shared numbers. In one
    program with a network, only the network stays an operation on arrays."""
    inertias, states = RNG.normal(size=(14, 3, 3)), RNG.normal(size=(LANES, 14, 3, 3))

    def bodies(inertias, x):
        turns = jnp.cos(x)
        turned = jnp.einsum("nij,njk->nik", turns, inertias)
        return jnp.einsum("nij,nkj->nik", turned, turns)

    def both(inertias, layer, x):
        return bodies(inertias, x), jnp.tanh(layer @ x[:WIDTH, 0, 0])

    assert names(bodies, inertias, states[0]) == []
    kept = names(both, inertias, LAYER, states[0])
    assert [x for x in kept if x in ("cos", "dot_general", "tanh")] == ["dot_general", "tanh"]
    given, axes = (inertias, LAYER, states), (None, None, 0)
    found, exact = (jax.jit(each(both, axes))(*given) for each in (lanes, jax.vmap))
    for x, y in zip(found, exact, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)


def test_unit_tangents_are_no_shared_numbers():
    """The unit matrix of a Jacobian in forward mode has only zeros and ones, though the program makes it from integers."""

    def f(x):
        return jnp.sin(x) * jnp.sum(x)

    assert names(jax.jacfwd(f), jnp.ones(WIDTH)) == []


def names(f, *given):
    closed = program(f, *given)
    found = array_equations(closed, [False] * (len(given) - 1) + [True])
    return [closed.jaxpr.eqns[i].primitive.name for i in sorted(found)]


TERMS = jnp.asarray(RNG.normal(size=(40, 4)))


def test_loops_stay_whole_where_their_turns_read_many_numbers():
    """A loop over layers is one operation on arrays. A loop over many terms with few shared numbers each is written out."""

    def layers(stacked, x):
        return jax.lax.scan(lambda h, layer: (jnp.tanh(layer @ h), None), x, stacked)[0]

    def terms(given, x):
        return jax.lax.fori_loop(0, 40, lambda i, y: y + given[i, 0] * jnp.sin(given[i, 1] * y), x)

    stacked = np.stack([LAYER, LAYER.T])
    assert names(layers, stacked, STATES[0]) == ["scan"]
    assert names(terms, TERMS, STATES[0][0]) == []
    for f, given, x in ((layers, stacked, STATES), (terms, TERMS, STATES[:, 0])):
        found = jax.jit(lanes(f, (None, 0)))(given, x)
        np.testing.assert_allclose(found, jax.vmap(f, (None, 0))(given, x), rtol=1e-12)


def test_polynomials_and_tables_stay_operations_on_arrays():
    """The basis of a polynomial with 400 coefficients is computed where these are multiplied; a table is looked up whole."""

    def polynomial(c, x):
        return jnp.sum(c * x[:, None] ** np.arange(1.0 * WIDTH)[None])

    def table(c, x):
        place = jnp.clip(jnp.round(5 + x[0]), 0, 9).astype(int)
        return c.ravel()[place] * x[1]

    assert "reduce_sum" in names(polynomial, LAYER, STATES[0])
    assert "pow" in names(polynomial, LAYER, STATES[0])
    assert (
        names(table, LAYER, STATES[0]).count("gather")
        + names(table, LAYER, STATES[0]).count("dynamic_slice")
        == 1
    )
    for f in (polynomial, table):
        loss = lambda transform, f=f: lambda c: jnp.sum(transform(f, (None, 0))(c, STATES) ** 2)
        found, exact = (jax.jit(jax.grad(loss(t)))(LAYER) for t in (lanes, jax.vmap))
        np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-12 * np.abs(exact).max())


def test_dependencies_go_through_array_parts():
    """The first result depends on the second input by the layer, which the scalar program does not contain."""

    def rate(y, layer):
        hidden = layer @ jnp.sin(y[1] * BIAS)
        return jnp.sum(hidden), y[0] * 2.0, y[2]

    y = tuple(jnp.ones(LANES) for _ in range(4))
    found = written_out(rate, (True, False), y, LAYER)
    assert [found.leaves_read(x) for x in found.results] == [{1, 4}, {0}, {2}]
    assert found.apart.operations > 2 * WIDTH**2
    assert found.length > found.program.length()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_second_derivatives(kind):
    """The Hessian along a direction, reverse over forward mode, is that of `vmap`."""

    def hessian(transform, layer, bias):
        of_all = transform(network, AXES)
        loss = lambda layer: jnp.sum(
            of_all(layer, bias, MATRIX.astype(kind), STATES.astype(kind))[0] ** 2
        )
        return jax.grad(lambda layer: jax.jvp(loss, (layer,), (jnp.cos(layer),))[1])(layer)

    given = LAYER.astype(kind), BIAS.astype(kind)
    found, exact = (
        jit(lambda *x, t=t: hessian(t, *x))(*map(jnp.asarray, given)) for t in (lanes, jax.vmap)
    )
    assert found.dtype == kind
    np.testing.assert_allclose(
        found, exact, rtol=0, atol=1e3 * np.finfo(kind).eps * np.abs(exact).max()
    )


def test_a_mass_matrix_from_a_network_is_made_by_products_of_arrays():
    """M = 1 + Wᵀ diag(tanh(W q)²) W, given by its products: the layer stays an array, and x is that of NumPy."""
    layer = RNG.normal(size=(32, 4)) / 6

    def f(layer, q, b):
        gain = jnp.tanh(layer @ q) ** 2
        return operator_solve(lambda x: x + layer.T @ (gain * (layer @ x)), b)

    q, b = RNG.normal(size=(2, LANES, 4))
    found = jax.jit(lanes(f, (None, 0, 0)))(layer, q, b)
    for k in range(LANES):
        exact = np.linalg.solve(np.eye(4) + (layer.T * np.tanh(layer @ q[k]) ** 2) @ layer, b[k])
        np.testing.assert_allclose(found[k], exact, rtol=1e-12)
    written = written_out(f, [False, True, True], layer, q, b)
    assert written is not None
    assert written.program.length() < 300
