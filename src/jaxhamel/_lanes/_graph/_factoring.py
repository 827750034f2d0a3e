"""Takes common factors out of sums:  a b + a c − d b  =  a (b + c) − d b ,  the most common factor first.

Autodiff writes Ω × ṡ + Ω × V, with twelve products for each mass, where a person writes Ω × (ṡ + V) with six. Only
products and partial sums that nothing else uses are rewritten, so that no operation is added. In a sum with a common
factor the order of the terms changes, and with it the rounding; other sums stay unchanged.

The factor may also stand in a nested product, if all lanes share the other factors:  a (b x) + c (d x)  =  (a b + c d) x .
An entry Σ_k m_k a_ki a_kj cos q_i cos q_j of the mass matrix of points then costs each lane two products, however many
points there are.
"""

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._elementwise import SCALARS, scalar
from jaxhamel._lanes._graph._graph import Graph

# a term: its sign, and the one or two factors of its product
Term = tuple[int, tuple[int, ...]]


def factored(
    graph: Graph, inputs: list[int], ends: list[int], collect: bool = True
) -> tuple[Graph, dict[int, int]]:
    """The same program with fewer operations, as a new graph, and a dictionary from old nodes to their new ones.

    `collect`: whether lane-independent factors are collected from nested products, too.
    """
    return _Rewriting(graph, ends, collect).run(inputs)


class _Rewriting:
    """Builds the new graph: copies the nodes that are needed, but writes sums with common factors in their shorter form.

    `new_nodes` has the new node of each old one.
    """

    def __init__(self, graph: Graph, ends: list[int], collect: bool):
        self.old, self.new, self.collect = graph, Graph(), collect
        self.needed = graph.needed(ends)
        self.new_nodes: dict[int, int] = {}
        self.inner = self._inner(Counter(ends))

    def _inner(self, uses: Counter) -> set[int]:
        """The sums and products that are used once, by a sum."""
        summed = set()
        for i in self.needed:
            node = self.old.nodes[i]
            uses.update(node.operands)
            if self._is_sum(i):
                summed.update(node.operands)
        of_sums = (i for i in summed if uses[i] == 1)
        return {i for i in of_sums if self._is_sum(i) or self._is_product(i)}

    def run(self, inputs: list[int]) -> tuple[Graph, dict[int, int]]:
        for i in inputs:
            self.new_nodes[i] = self.new.input(self.old.nodes[i].dtype, self.old.nodes[i].batched)
        for i in self.needed:
            if i not in self.inner and i not in self.new_nodes:
                self.new_nodes[i] = self._new_node(i)
        return self.new, self.new_nodes

    def _new_node(self, i: int) -> int:
        if not self._is_sum(i):
            return self._unchanged_copy(i)
        terms = self._terms(i, 1)
        repeated = Counter(f for _, factors in terms if len(factors) == 2 for f in set(factors))
        if max(repeated.values(), default=0) < 2:
            return self._unchanged_copy(i)
        sign, node = self._sum(terms, self.old.nodes[i].dtype)
        return node if sign > 0 else self._apply(lax.neg_p, (node,), self.old.nodes[i].dtype)

    def _unchanged_copy(self, i: int) -> int:
        """Copies a node unchanged, together with the inner nodes of the sum that it ends."""
        found: dict[int, int] = {}
        if self.inner.isdisjoint(self.old.nodes[i].operands):
            return self._copied(i, found)
        waiting = [i]
        while waiting:
            j = waiting[-1]
            missing = [
                k for k in self.old.nodes[j].operands if k not in self.new_nodes and k not in found
            ]
            waiting += missing
            if not missing:
                found[waiting.pop()] = self._copied(j, found)
        return found[i]

    def _copied(self, i: int, inside: dict[int, int]) -> int:
        node = self.old.nodes[i]
        if node.value is not None:
            return self.new.constant(node.value)
        operands = [inside[j] if j in inside else self.new_nodes[j] for j in node.operands]
        return self._apply(node.primitive, operands, node.dtype, dict(node.params))

    def _terms(self, i: int, sign: int) -> list[Term]:
        """The terms of the sum whose root is `i`, in order."""
        terms: list[Term] = []
        waiting = self._summands(i, sign)[::-1]
        while waiting:
            j, sign = waiting.pop()
            if j not in self.inner:
                terms.append((sign, (self.new_nodes[j],)))
            elif self._is_sum(j):
                waiting += self._summands(j, sign)[::-1]
            else:
                x, y = (self.new_nodes[k] for k in self.old.nodes[j].operands)
                terms.append((sign, (x, y)))
        return self._collected(terms, self.old.nodes[i].dtype) if self.collect else terms

    def _collected(self, terms: list[Term], dtype) -> list[Term]:
        """Rewrites a term a (b x) as (a b) x if a and b are lane-independent and x is also a factor of another term."""
        split = [self._split(factors) for _, factors in terms]
        uses = Counter(x for x, _ in split)
        return [
            (sign, (self._product_of(shared, dtype), x))
            if uses[x] > 1 < len(shared)
            else (sign, factors)
            for (sign, factors), (x, shared) in zip(terms, split, strict=True)
        ]

    def _split(self, factors: tuple[int, ...]) -> tuple[int, list[int]]:
        """The factor x that varies from lane to lane and the lane-independent factors of a product a (b (c x)).

        x is −1, without other factors, if the product has another form.
        """
        shared, nodes = [], self.new.nodes
        while len(factors) == 2:
            a, x = sorted(factors, key=lambda k: nodes[k].batched)
            if nodes[a].batched or not nodes[x].batched:
                break
            shared.append(a)
            node = nodes[x]
            if node.primitive is not lax.mul_p or all(nodes[k].batched for k in node.operands):
                return x, shared
            factors = node.operands
        return -1, []

    def _product_of(self, factors: list[int], dtype) -> int:
        return reduce(lambda x, y: self._apply(lax.mul_p, (x, y), dtype), factors)

    def _summands(self, i: int, sign: int) -> list[tuple[int, int]]:
        """The operands of a sum, each with the sign of its term if the sum itself has this `sign`."""
        node = self.old.nodes[i]
        signs = SCALARS[node.primitive.name].signs
        return [(j, sign * own) for j, own in zip(node.operands, signs, strict=True)]

    def _sum(self, terms: list[Term], dtype) -> tuple[int, int]:
        """A sum of terms as a pair: ±1, and a node; the sum is their product."""
        while True:
            common = _most_common(terms)
            if common is None:
                return self._chain(terms, dtype)
            group = [t for t in terms if len(t[1]) == 2 and common in t[1]]
            sign, inner = self._sum([(s, _other_factors(f, common)) for s, f in group], dtype)
            terms = [
                (sign, (common, inner)) if t is group[0] else t
                for t in terms
                if t is group[0] or t not in group
            ]

    def _chain(self, terms: list[Term], dtype) -> tuple[int, int]:
        leading = next((t for t in terms if t[0] > 0), None)
        if leading is None:
            return -1, self._chain([(1, factors) for _, factors in terms], dtype)[1]
        total = self._product(leading, dtype)
        for term in terms:
            if term is not leading:
                primitive = lax.add_p if term[0] > 0 else lax.sub_p
                total = self._apply(primitive, (total, self._product(term, dtype)), dtype)
        return 1, total

    def _product(self, term: Term, dtype) -> int:
        factors = term[1]
        return factors[0] if len(factors) == 1 else self._apply(lax.mul_p, factors, dtype)

    def _apply(self, primitive, operands, dtype, params: Any = None) -> int:
        return self.new.apply(primitive, operands, dtype, params)

    def _is_product(self, i: int) -> bool:
        primitive = self.old.nodes[i].primitive
        return primitive is not None and primitive.name == "mul"

    def _is_sum(self, i: int) -> bool:
        node = self.old.nodes[i]
        record = scalar(node)
        return record is not None and bool(record.signs) and np.issubdtype(node.dtype, np.floating)


def _most_common(terms: list[Term]) -> int | None:
    counts = Counter(f for _, factors in terms if len(factors) == 2 for f in set(factors))
    factor, count = max(counts.items(), key=lambda pair: pair[1], default=(None, 0))
    return factor if count > 1 else None


def _other_factors(factors: tuple[int, ...], factor: int) -> tuple[int, ...]:
    x, y = factors
    return (y,) if x == factor else (x,)
