"""Sums over the lanes as entries of a product of matrices."""

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._sums_of_products import sums_of_products

RNG = np.random.default_rng(5)


def test_products_with_common_factors():
    """Sums ± s_i x_j + s_i − y_i z_i, whose s_i are rows and x_j are columns; y_i z_i is summed in each lane."""
    graph = Graph()
    s, x, y, z = ([graph.input(np.float64, True) for _ in range(n)] for n in (40, 3, 40, 40))
    apply = lambda primitive, *at: graph.apply(primitive, at, np.float64)
    nodes = []
    for i, a in enumerate(s):
        for j, b in enumerate(x):
            node = apply(lax.mul_p, a, b)
            node = apply(lax.neg_p, node) if j == 1 else apply(lax.add_p, node, a)
            nodes.append(apply(lax.sub_p, node, apply(lax.mul_p, y[i], z[i])) if j == 2 else node)
    found = sums_of_products(graph, nodes)
    assert sorted(found.columns) == x
    assert set(s) <= set(found.rows)
    assert len(found.rows) == 80
    values = {i: RNG.normal(size=7) for i in (*s, *x, *y, *z)}
    for i in graph.needed([*nodes, *found.rows]):
        node = graph.nodes[i]
        if node.primitive is not None:
            values[i] = np.asarray(node.primitive.bind(*(values[j] for j in node.operands)))
    columns = [np.ones(7), *(values[i] for i in found.columns)]
    for node, terms in zip(nodes, found.sums, strict=True):
        total = sum(sign * values[found.rows[r]] @ columns[c] for sign, r, c in terms)
        np.testing.assert_allclose(total, values[node].sum(), rtol=0, atol=1e-13)
