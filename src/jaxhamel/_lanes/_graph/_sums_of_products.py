"""Writes sums over the lanes as few products of vectors.

The cotangent of a number that all lanes share is a sum over the lanes b, in each of which it is a sum of products:

    p̄_k = Σ_b Σ_j ± u_kj(b) v_kj(b) .

Many of these products have a factor in common. For example, if s is the cotangent of a · x, then s x_i is that of a_i, and
another array a′ of the same program has s′ x_i: the vectors s, s′, … and x_1, x_2, … are fewer than the products. So a few
factors that occur in many products become *columns*, all others *rows*, and every p̄_k is a sum of entries of

    T = R Cᵀ ,     T_mn = Σ_b r_m(b) c_n(b) ,     with the column c_0 = 1 .

A program with these rows as its results writes fewer vectors than one with p̄_k as its results, and no lane keeps a sum of
its own. Timings: docs/performance.md#networks-in-lanes.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from jax import lax

from jaxhamel._lanes._graph._graph import Graph

# The most columns, the first one included.
MOST_COLUMNS = 16
# A column multiplies all rows; with fewer products than this share of all sums it takes more time than the rows it saves.
_LEAST_SHARE = 1 / 16


class SignedProduct(NamedTuple):
    """A term of a sum: its sign and its two factors; `v` is None if the term is ±u."""

    sign: int
    u: int
    v: int | None


class SumsOfProducts(NamedTuple):
    """The nodes of rows and of columns but the first, and for each sum its terms: (sign, index of row, index of column)."""

    rows: list[int]
    columns: list[int]
    sums: list[list[tuple[int, int, int]]]


def sums_of_products(graph: Graph, nodes: list[int]) -> SumsOfProducts:
    """Divides the terms of these nodes, which vary from lane to lane, into products of rows and columns.

    Terms that have no column, or whose row no other term uses, are added up in each lane, and their sum is one more row.
    """
    terms = [list(_terms(graph, i)) for i in nodes]
    uses = Counter(f for each in terms for term in each for f in term[1:] if f is not None)
    columns = _columns(terms, max(2, _LEAST_SHARE * len(nodes)))
    place = {f: n for n, f in enumerate(columns, 1)}
    rows: dict[int, int] = {}
    sums = []
    for node, each in zip(nodes, terms, strict=True):
        pairs = [(term.sign, *_row_and_column(term, place)) for term in each]
        apart = [uses[row] > 1 for _, row, _ in pairs]
        found = [pair for pair, own in zip(pairs, apart, strict=True) if own]
        rest = [term for term, own in zip(each, apart, strict=True) if not own]
        if rest:
            found.append((1, _total(graph, rest) if found else node, 0))
        sums.append([(sign, rows.setdefault(i, len(rows)), n) for sign, i, n in found])
    return SumsOfProducts(list(rows), columns, sums)


def _terms(graph: Graph, node: int) -> Iterator[SignedProduct]:
    """The terms of a sum; only products of two factors that vary from lane to lane are divided."""
    waiting = [(node, 1)]
    while waiting:
        i, sign = waiting.pop()
        name, operands = _name(graph, i), graph.nodes[i].operands
        if name == "add":
            waiting += [(j, sign) for j in operands]
        elif name == "sub":
            waiting += [(operands[0], sign), (operands[1], -sign)]
        elif name == "neg":
            waiting.append((operands[0], -sign))
        elif name == "mul" and all(graph.nodes[j].batched for j in operands):
            yield SignedProduct(sign, *operands)
        else:
            yield SignedProduct(sign, i, None)


def _name(graph: Graph, node: int) -> str | None:
    primitive = graph.nodes[node].primitive
    return None if primitive is None else primitive.name


def _columns(terms: list[list[SignedProduct]], least: float) -> list[int]:
    """The factors that occur in at least `least` products, the most frequent ones first."""
    products = [(u, v) for each in terms for _, u, v in each if v is not None]
    uses = Counter(f for product in products for f in product)
    return [f for f, n in uses.most_common(MOST_COLUMNS - 1) if n >= least]


def _row_and_column(term: SignedProduct, place: dict[int, int]) -> tuple[int, int]:
    """The node of the row and the index of the column of a term; the row is −1 if neither factor is a column."""
    u, v = term.u, term.v
    if v is None:
        return u, 0
    if u not in place and v not in place:
        return -1, 0
    first = len(place) + 1
    column, row = (u, v) if place.get(u, first) < place.get(v, first) else (v, u)
    return row, place[column]


def _total(graph: Graph, terms: list[SignedProduct]) -> int:
    """The node of the sum of these terms."""
    total = None
    for sign, u, v in terms:
        dtype = graph.nodes[u].dtype
        node = u if v is None else graph.apply(lax.mul_p, (u, v), dtype)
        if total is None:
            total = node if sign > 0 else graph.apply(lax.neg_p, (node,), dtype)
        else:
            total = graph.apply(lax.add_p if sign > 0 else lax.sub_p, (total, node), dtype)
    assert total is not None
    return total
