"""Replaces products with several constant matrices in a row by one product, where that takes fewer operations.

A Lagrangian of points with velocities A (c ∘ v), where A is constant, has momenta c ∘ Aᵀ (m ∘ A (c ∘ v)). The matrix
K = Aᵀ diag(m) A is known, so two products with A become one with K, which often has fewer rows. An entry of the mass matrix
then is K_ij c_i c_j. Timings: docs/performance.md#composed-products.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from jaxhamel._lanes._divided._jaxprs import CALLS, inlined, run_equation, variables
from jaxhamel._lanes._divided._linear_forms import LinearForm, LinearForms, result_of

LEAST_ENTRIES = 16  # products with smaller matrices are few operations anyway


def with_composed_products(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same function with one product K y in place of products A B y with constant matrices, where that is shorter.

    Results differ by rounding. A program without such products is returned unchanged.
    """
    found = _compositions(inlined(closed), {}) if _may_have_products(closed) else None
    return closed if found is None else found


def _may_have_products(closed: ClosedJaxpr) -> bool:
    """Whether the program contains a constant matrix with enough entries, itself or in a function that it calls."""
    if any(np.ndim(x) == 2 and np.size(x) >= LEAST_ENTRIES for x in closed.consts):
        return True
    called = (
        e.params.get("jaxpr") or e.params.get("call_jaxpr")
        for e in closed.jaxpr.eqns
        if e.primitive.name in CALLS
    )
    return any(_may_have_products(each) for each in called)


def _compositions(program: ClosedJaxpr, inputs: dict[int, Any]) -> ClosedJaxpr | None:
    """The program with composed products and without its known `inputs`, given by their positions; None if nothing
    changes."""
    jaxpr, reading = program.jaxpr, LinearForms(program, inputs, _compositions)
    chosen = _chosen(jaxpr, reading)
    if not (chosen or reading.operators):
        return None
    replaced = {v: reading.linear[v] for v in chosen}
    free = [v for i, v in enumerate(jaxpr.invars) if i not in inputs]

    def run(*values):
        known = reading.given | dict(zip(free, values, strict=True))

        def read(v):
            return v.val if isinstance(v, Literal) else known[v]

        for i in _live(jaxpr, replaced):
            equation = jaxpr.eqns[i]
            of = replaced.get(result_of(equation))
            if of is not None:
                x = known[of.source]
                known[result_of(equation)] = jnp.asarray(of.matrix, x.dtype) @ x
            elif i in reading.operators:
                operator, kept = reading.operators[i]
                operands = [read(equation.invars[k]) for k in kept]
                out = equation.primitive.bind(*operands, **equation.params | {"operator": operator})
                known[result_of(equation)] = out
            else:
                known |= run_equation(jaxpr, equation, known)
        return [read(v) for v in jaxpr.outvars]

    return jax.make_jaxpr(run)(*(v.aval for v in free))


def _chosen(jaxpr: Any, reading: LinearForms) -> list[Any]:
    """The vectors that become one product with a constant matrix: each makes the program shorter."""
    chosen: dict[Any, LinearForm] = {}
    ends = _ends_of_chains(jaxpr, reading)
    if not ends:
        return []
    linear = [e for e in jaxpr.eqns if result_of(e) in reading.linear]
    lengths = {result_of(e): _length(e, reading) for e in linear}
    own = {v: multiplications(reading.linear[v].matrix) for v in ends}

    def total(chosen) -> int:
        live = [result_of(jaxpr.eqns[i]) for i in _live(jaxpr, chosen)]
        return sum(own[v] if v in chosen else lengths.get(v, 0) for v in live)

    shortest = total(chosen)
    for v in ends:
        more = chosen | {v: reading.linear[v]}
        length = total(more)
        if length < shortest:
            chosen, shortest = more, length
    return list(chosen)


def _ends_of_chains(jaxpr: Any, reading: LinearForms) -> list[Any]:
    """Vectors after two products or more that a result needs, or an operation that does not continue the chain."""
    chains = {v: of for v, of in reading.linear.items() if of.products > 1}
    read = variables(jaxpr.outvars)
    for equation in jaxpr.eqns:
        of = chains.get(result_of(equation))
        operands = variables(equation.invars)
        read |= {
            v for v in operands & chains.keys() if of is None or of.source is not chains[v].source
        }
    return [v for v in chains if v in read]


def _live(jaxpr: Any, replaced: dict[Any, LinearForm]) -> list[int]:
    """The positions of the equations that results depend on or that have effects.

    Values in `replaced` depend on their sources only.
    """
    needed, found = variables(jaxpr.outvars), []
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        equation = jaxpr.eqns[i]
        if needed.isdisjoint(equation.outvars) and not equation.effects:
            continue
        found.append(i)
        of = replaced.get(result_of(equation))
        needed |= variables(equation.invars) if of is None else {of.source}
    return found[::-1]


def _length(equation: Any, reading: LinearForms) -> int:
    """The number of scalar operations of an equation with a vector as its result."""
    if equation.primitive.name != "dot_general":
        return equation.outvars[0].aval.size
    (sums, _) = equation.params["dimension_numbers"]
    for v, (axis,) in zip(equation.invars, sums, strict=True):
        if v.aval.ndim == 2:
            return multiplications(np.moveaxis(np.asarray(reading.value(v)), axis, -1))
    return 0


def multiplications(matrix: np.ndarray) -> int:
    """The number of products and sums of matrix times vector, where equal products and nested sums are computed once."""
    rows = sorted(
        (frozenset((j, x) for j, x in enumerate(r) if x) for r in matrix.tolist()), key=len
    )
    products = len({(j, abs(x)) for row in rows for j, x in row if abs(x) != 1})
    done: list[frozenset] = []
    sums = 0
    for row in rows:
        inside = max((len(known) for known in done if known <= row), default=1)
        sums += max(len(row) - inside, 0)
        done.append(row)
    return products + sums
