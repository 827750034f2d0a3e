"""`one_lane` and `lanes_if_short`: run a function of one or many trajectories as scalar operations where that is faster."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import jaxpr_as_fun

from jaxhamel._lanes._divided._composed_products import with_composed_products
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._rules._linear_algebra import is_too_large
from jaxhamel._lanes._rules._primitives import primitive_of
from jaxhamel._lanes._run_batch import run_traced, traced
from jaxhamel._lanes._xla_cpu._one_loop import MOST_VALUES, one_kernel_works, one_loop_works
from jaxhamel._lanes._xla_cpu._whole_loop import calls_library

# The largest ratio of scalar operations to operations on arrays. Where it is larger, arrays are long, and operations on them
# compile faster (docs/performance.md#one-lane).
LONGEST_GROWTH = 3
# Programs of up to SHORT scalar operations are written out whatever the ratio: they compile as fast as operations on arrays
# and run 2 to 40 times as fast. At most SHORT_SINES of these operations may come from functions that take many each, such as
# sines: in arrays XLA vectorises these functions.
SHORT, SHORT_SINES = 10_000, 3_000
# In a loop over links, each operation on arrays is executed in each turn. Up to this number of scalar operations, the ratio
# to executed operations decides: they take some seconds more to compile and run 20 times as fast.
LONGEST_OF_LOOPS = 16_000
# XLA fuses most operations on arrays into one kernel, but not in programs that call a library (LAPACK): there it launches
# each by itself, which takes 50 ns or more. Scalar operations replace them if there are at most LONGEST_OF_LAUNCHES in all
# and LONGEST_GROWTH_OF_LAUNCHES for each launch. They are 6 to 85 times as fast (docs/performance.md#libraries-in-one-lane).
LONGEST_OF_LAUNCHES, LONGEST_GROWTH_OF_LAUNCHES = 24_000, 40
# The number of scalar operations is known only once a function is written out. That takes seconds if all its arrays together
# have more numbers than MOST_WORK, where each term of a matrix product counts as a number; such a function stays operations
# on arrays (docs/performance.md#trees-of-fifty-links).
MOST_WORK = 550_000
_DEAD = 8  # while tracing, allow 8 × the limit: dead and constant nodes are removed only at the end


def one_lane(f: Callable) -> Callable:
    """Runs f(x, *shared) as scalar operations in one kernel, where that is possible and faster:

        one_lane(f)(x, *shared) = f(x, *shared) .

    A function that contains a primitive without a rule, or that is too long, runs unchanged and without a warning. The
    derivatives are those of f, each written out in the same way; `vmap` turns the call into lanes.

    **Arguments:** `f`: a function of pytrees of arrays; `x` changes from call to call, `shared` stays the same.
    """

    def of_one(x: Any, *shared: Any):
        if not one_kernel_works():  # a GPU would launch a kernel for each scalar operation
            return f(x, *shared)
        leaves, structure = jax.tree.flatten(x)
        found = []

        def flat(*entries):
            out, out_structure = jax.tree.flatten(
                f(jax.tree.unflatten(structure, entries), *shared)
            )
            found.append(out_structure)
            return [jnp.asarray(leaf) for leaf in out]

        columns = [jnp.asarray(leaf)[None] for leaf in leaves]
        closed, batched, values = traced(flat, [True] * len(columns), columns)
        closed = with_composed_products(closed)
        if is_worth_it(closed, batched):
            out = [x[0] for x in run_traced(closed, batched, values, 1, quiet=True)]
        else:
            first = len(values) - len(leaves)
            out = jaxpr_as_fun(closed)(*values[:first], *leaves)
        return jax.tree.unflatten(found[0], out)

    return of_one


def is_worth_it(closed, batched: list[bool], few: bool = True) -> bool:
    """Whether a jaxpr can be replaced by scalar operations that, judged by their number, do not take longer to compile.

    `few`: whether they are one kernel; those of many lanes are cut into pieces, and may not be as many.
    """
    equations = list(all_equations(closed.jaxpr))
    most = _most_scalars(equations)
    largest = max(most, _most_of_launches(equations)) if few else most
    if not all(_may_be_written_out(e) for e, _ in equations):
        return False
    if _work(equations, _known(closed)) > MOST_WORK:
        return False
    try:
        program = scalarise(
            closed, batched, int(_DEAD * largest), whole=True, blocks=True, few=True
        )
    except Unsupported:
        return False
    if any(x.size > MOST_VALUES for each in program.graph.blocks for x in each.operands):
        return False
    length = program.length()
    if few and calls_library(closed.jaxpr) and length <= _most_of_launches(equations):
        return True
    in_sines = length - program.operations().total()
    return length <= LONGEST_GROWTH * len(equations) or (length <= most and in_sines <= SHORT_SINES)


def _most_scalars(equations: list[tuple[Any, int]]) -> float:
    """The largest number of scalar operations that may replace these equations, given how often each is executed."""
    of_loops = min(LONGEST_OF_LOOPS, LONGEST_GROWTH * _executions(equations))
    return max(SHORT, LONGEST_GROWTH * len(equations), of_loops)


def _most_of_launches(equations: list[tuple[Any, int]]) -> float:
    """The largest number of scalar operations that may replace equations which XLA launches one by one."""
    return min(LONGEST_OF_LAUNCHES, LONGEST_GROWTH_OF_LAUNCHES * _executions(equations))


def _executions(equations: list[tuple[Any, int]]) -> int:
    return sum(times for _, times in equations)


def _known(closed) -> dict[int, np.ndarray]:
    """The constant arrays of a jaxpr, by the identity of their variables."""
    pairs = zip(closed.jaxpr.constvars, closed.consts, strict=True)
    return {id(v): np.asarray(x) for v, x in pairs if not isinstance(x, Tracer)}


def _work(equations: list[tuple[Any, int]], known: dict[int, np.ndarray]) -> float:
    """An estimate of the work of replacing equations by scalar operations: the number of scalars in all their results.

    A scalar of a matrix product counts once for each term of its sum. `equations` are those of `all_equations`.
    """
    return sum(
        times * _terms_of_sum(e, known) * sum(v.aval.size for v in e.outvars)
        for e, times in equations
    )


def _terms_of_sum(equation, known: dict[int, np.ndarray]) -> float:
    """The number of products that are summed for each scalar of a result: 1 unless the equation is a matrix product.

    Terms with a zero of a constant matrix do not count; the number is then a mean over all scalars.
    """
    if equation.primitive.name != "dot_general":
        return 1
    (summed, _), _ = equation.params["dimension_numbers"]
    terms = math.prod(equation.invars[0].aval.shape[i] for i in summed)
    matrices = [known[id(v)] for v in equation.invars if id(v) in known]
    return terms * min((np.count_nonzero(x) / max(x.size, 1) for x in matrices), default=1)


def _may_be_written_out(equation) -> bool:
    """Whether a function of one trajectory that contains this equation may be replaced by scalar operations.

    A large linear solution stays an operation on arrays within it; its operands may have `MOST_VALUES` numbers in all.
    """
    if is_too_large(equation) and sum(v.aval.size for v in equation.invars) > MOST_VALUES:
        return False
    return primitive_of(equation).one_lane


def all_equations(jaxpr, times: int = 1) -> Iterator[tuple[Any, int]]:
    """The equations of a jaxpr, each with the number of times that one evaluation of the jaxpr executes it.

    The equations of a called function replace the call. A loop is followed by the equations of its body, each of which is
    executed in every iteration, and a choice between branches by those of all branches: lanes compute all of them.
    """
    for equation in jaxpr.eqns:
        record = primitive_of(equation)
        if record.program is not None and record.one_lane:
            called = equation.params[record.program]
            yield from all_equations(getattr(called, "jaxpr", called), times)
            continue
        yield equation, times
        for inner, executed in record.executed(equation) if record.executed else ():
            yield from all_equations(inner.jaxpr, times * executed)


def lanes_if_short(f: Callable) -> Callable:
    """`jax.vmap(f)`, written out for lanes where f is short enough and all its primitives have a rule:

        lanes_if_short(f)(x)[b] = f(x[b]) .

    Under `vmap`, second derivatives of small systems pass through some hundred small arrays, each written to memory by a
    loop of its own; in lanes they are one loop (docs/performance.md#derivatives-of-collocation). f is traced once in either
    case.

    **Arguments:** `f`: a function of pytrees of arrays, each with a leading axis of lanes in the call.
    """

    def batched(*args):
        leaves, structure = jax.tree.flatten(args)
        found = []

        def flat(*entries):
            out, out_structure = jax.tree.flatten(f(*jax.tree.unflatten(structure, entries)))
            found.append(out_structure)
            return [jnp.asarray(leaf) for leaf in out]

        closed, varies, values = traced(flat, [True] * len(leaves), leaves)
        size = leaves[0].shape[0]
        if one_loop_works() and is_worth_it(closed, varies, few=False):
            out = run_traced(closed, varies, values, size, quiet=True)
        else:
            axes = [0 if x else None for x in varies]
            out = jax.vmap(jaxpr_as_fun(closed), axes, axis_size=size)(*values)
        return jax.tree.unflatten(found[0], out)

    return batched
