"""Divides a function of one trajectory into parts with few numbers, which run in lanes, and parts with large shared arrays.

    f(x) = s_K(x, …) ,     a_k = A_k(s_k, a_1, …, a_{k−1}) ,     s_k = S_k(x, a_1, …, a_k)

The parts S_k are written out as scalar operations. The parts A_k hold the operations on large arrays that all lanes share
(`_array_equations`); they run under `jax.vmap` and have JAX's own derivatives, so that the cotangent of a matrix of weights
is a product over all lanes. Scalar operations that two parts need are computed in both: this takes few operations, where
passing a value on would take a vector.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, DropVar, Literal
from jax.lax import Precision

from jaxhamel._lanes._divided._array_equations import (
    LEAST_SHARED,
    LEAST_SHARED_IN_TURN,
    MOST_KNOWN,
    array_equations,
    has_large_arrays,
    with_large_solutions_as_arrays,
)
from jaxhamel._lanes._divided._jaxprs import inlined, part_of, read_by, variables
from jaxhamel._lanes._divided._kept_loops import LOOPS, RunInLanes, kept_loop
from jaxhamel._lanes._tracing import in_fusions
from jaxhamel._lanes._xla_cpu._one_kernel import SMALL_BATCH


class DividedPart(NamedTuple):
    """A part: its program, the positions of its inputs among the values known so far, and its kind.

    Values are the inputs of the whole function, then the results of all parts in turn. Kinds: "scalars", which run in lanes;
    "arrays"; "loop", a loop whose turns have operations on large arrays (`_array_loops`).
    """

    program: ClosedJaxpr
    given: list[int]
    kind: str


class ArrayParts(NamedTuple):
    """A function as parts that run in turn, the positions of its results among all values, and the scalar operations of all
    parts as one program (`Scalars`)."""

    parts: list[DividedPart]
    results: list[int]
    scalars: "Scalars"

    @property
    def operations(self) -> int:
        """Estimates the number of operations of the array parts for one lane."""
        programs = (part.program.jaxpr for part in self.parts if part.kind != "scalars")
        return sum(_length(equation) for program in programs for equation in program.eqns)

    def run(
        self, values: list[Any], batched: list[bool], runners: Mapping[str, RunInLanes]
    ) -> list[Any]:
        """Runs the parts one after the other, and returns the results of all lanes.

        `runners`: for each kind of part, the function that runs it.
        """
        values, batched = list(values), list(batched)
        for part in self.parts:
            given, flags = [values[i] for i in part.given], [batched[i] for i in part.given]
            out = list(runners[part.kind](part.program, flags, given))
            values, batched = values + out, batched + [True] * len(out)
        return [values[i] for i in self.results]


class Scalars(NamedTuple):
    """The scalar operations of a function that has array parts, as one program.

    It takes the inputs at `kept`, then the `made` results of array parts that scalar operations or the whole function need.
    Its results are those of the function, then the scalar operands of the array parts; `read`: the positions of the inputs
    that array parts read.
    """

    program: ClosedJaxpr
    kept: list[int]
    made: int
    read: list[int]


def _length(equation: Any) -> int:
    """The number of scalar operations in an equation on arrays, estimated as two for each term of a matrix product and
    otherwise as one for each entry; those of one turn for a `while` loop.
    """
    if equation.primitive.name in LOOPS:
        loop = kept_loop(equation, [True] * len(equation.invars))
        return (loop.length or 1) * sum(map(_length, loop.turn.jaxpr.eqns))
    entries = max(math.prod(v.aval.shape) for v in (*equation.invars, *equation.outvars))
    if equation.primitive.name != "dot_general":
        return entries
    (summed, _), _ = equation.params["dimension_numbers"]
    terms = math.prod(equation.invars[0].aval.shape[i] for i in summed)
    return 2 * terms * math.prod(equation.outvars[0].aval.shape)


def array_parts(
    closed: ClosedJaxpr, batched: list[bool], size: int, in_turn: bool = False
) -> ArrayParts | None:
    """The function in parts; None if it has no operation on a large array, or for few lanes no product with a large matrix.

    Few lanes are one kernel, which the compiler unrolls: with the layers of a network written out, a gradient by its weights
    does not compile in minutes. A constant matrix of up to `MOST_KNOWN` numbers has no such gradient, and is written out.
    `in_turn`: whether the function is a turn of a loop that is a part itself.
    """
    least = LEAST_SHARED_IN_TURN if in_turn else LEAST_SHARED
    if not has_large_arrays(closed, batched, least):
        return None
    few = size <= SMALL_BATCH
    closed = inlined(with_large_solutions_as_arrays(closed))
    known = MOST_KNOWN if few or in_fusions() else 0
    arrays = array_equations(closed, batched, known, least)
    if few and not any(_has_layer(closed.jaxpr.eqns[i]) for i in arrays):
        return None
    return parts_around(closed, batched, arrays) if arrays else None


def parts_around(closed: ClosedJaxpr, batched: list[bool], arrays: set[int]) -> ArrayParts:
    """Divides a function into the operations with the indices `arrays`, and programs of scalar operations around them.

    Its calls must be inlined.
    """
    return _Division(closed, batched, arrays).parts()


def _has_layer(equation: Any) -> bool:
    """Whether an operation is a product with a large matrix, as in a network, not one of many small matrices; or a loop with
    such a product.
    """
    if equation.primitive.name in LOOPS:
        loop = kept_loop(equation, [True] * len(equation.invars))
        return any(map(_has_layer, loop.turn.jaxpr.eqns))
    if equation.primitive.name != "dot_general":
        return False
    batches = equation.params["dimension_numbers"][1]
    return not batches[0] and max(v.aval.size for v in equation.invars) >= LEAST_SHARED


class _Division:
    """A program, the indices of its array operations, and which of its values are made by array and by scalar operations."""

    def __init__(self, closed: ClosedJaxpr, batched: list[bool], arrays: set[int]):
        self.closed, self.equations = closed, closed.jaxpr.eqns
        self.arrays, self.results = arrays, closed.jaxpr.outvars
        self.varying = {v for v, x in zip(closed.jaxpr.invars, batched, strict=True) if x}
        self.array: dict[
            Any, int
        ] = {}  # value of an array operation: the array part that computes it
        self.scalar: dict[
            Any, int
        ] = {}  # value of a lane's scalar operation: the last array part that it needs
        self.of_loops: set[Any] = set()  # results of loops, each of which is a part of its own
        self.part: dict[int, int] = {}  # array operation: its part
        for i, equation in enumerate(self.equations):
            self._place(i, equation)

    def _place(self, i: int, equation: Any) -> None:
        given = variables(equation.invars)
        array = [self.array[v] + (v in self.of_loops) for v in given if v in self.array]
        scalar = [self.scalar[v] for v in given if v in self.scalar]
        if i in self.arrays:
            self.part[i] = max([1, *array, *(n + 1 for n in scalar)])
            self.array.update(dict.fromkeys(equation.outvars, self.part[i]))
            self.of_loops.update(equation.outvars if equation.primitive.name in LOOPS else ())
        elif not given.isdisjoint(self.varying | self.array.keys() | self.scalar.keys()):
            last = max([0, *scalar, *(self.array[v] for v in given if v in self.array)])
            self.scalar.update(dict.fromkeys(equation.outvars, last))

    def parts(self) -> ArrayParts:
        place = {v: i for i, v in enumerate(self.closed.jaxpr.invars)}
        found: list[DividedPart] = []

        def add(equations: set[int], wanted: list[Any], kind: str) -> None:
            if wanted:
                found.append(self._part(equations, wanted, kind, place))
                first = len(place)
                place.update(
                    {v: first + n for n, v in enumerate(wanted) if not isinstance(v, Literal)}
                )

        for k in range(1, max(self.part.values()) + 1):
            here = {i for i, part in self.part.items() if part == k}
            scalar = [v for v in self._read(here) if v in self.scalar and v not in place]
            add(self._scalar_equations(scalar), scalar, "scalars")
            for group, kind in self._groups(here):
                add(group | self._shared_equations(group), self._made(group), kind)
        last = [v for v in self.results if not self._is_known(v, place)]
        rest = iter(range(len(place), len(place) + len(last)))
        results = [place[v] if self._is_known(v, place) else next(rest) for v in self.results]
        add(self._scalar_equations(last), last, "scalars")
        return ArrayParts(found, results, self._scalars())

    def _groups(self, places: set[int]) -> list[tuple[set[int], str]]:
        """Array operations as parts with their kinds. Loops come last, since they may read the others."""
        loops = {i for i in places if self.equations[i].primitive.name in LOOPS}
        others = [(places - loops, "arrays")] if places - loops else []
        return [*others, *(({i}, "loop") for i in sorted(loops))]

    def _is_known(self, v: Any, place: dict[Any, int]) -> bool:
        """Whether a value of each lane is known after all array parts."""
        return not isinstance(v, Literal) and v in place and v in self.varying | self.array.keys()

    def _read(self, places: set[int]) -> list[Any]:
        """The values that these operations read, in order."""
        atoms = (v for i in sorted(places) for v in self.equations[i].invars)
        return list(dict.fromkeys(v for v in atoms if not isinstance(v, Literal)))

    def _made(self, places: set[int]) -> list[Any]:
        """The values that these array operations compute for others and for the results."""
        others = set(range(len(self.equations))) - places
        wanted = read_by(self.equations, others) | variables(self.results)
        made = (v for i in sorted(places) for v in self.equations[i].outvars)
        return [v for v in made if not isinstance(v, DropVar) and v in wanted]

    def _scalar_equations(self, wanted: list[Any]) -> set[int]:
        """The operations that compute these values from inputs and from results of array operations."""
        return self._up_to_arrays(variables(wanted))

    def _shared_equations(self, places: set[int]) -> set[int]:
        """The operations on values that all lanes share which these array operations need."""
        return self._up_to_arrays({v for v in self._read(places) if v not in self.scalar})

    def _up_to_arrays(self, needed: set[Any]) -> set[int]:
        found: set[int] = set()
        for i in range(len(self.equations) - 1, -1, -1):
            if i not in self.arrays and not needed.isdisjoint(self.equations[i].outvars):
                found.add(i)
                needed = needed | variables(self.equations[i].invars)
        return found

    def _part(
        self, places: set[int], wanted: list[Any], kind: str, place: dict[Any, int]
    ) -> DividedPart:
        equations = [_exact(self.equations[i]) for i in sorted(places)]
        inputs = set(self.closed.jaxpr.invars)
        own = {v for i in places for v in self.equations[i].outvars}
        more = [v for v in self._read(places) if v in place and v not in own and v not in inputs]
        program, kept = part_of(self.closed, equations, more, wanted)
        return DividedPart(program, kept + [place[v] for v in more], kind)

    def _scalars(self) -> Scalars:
        operands = [v for v in self._read(self.arrays) if v in self.scalar]
        wanted = [*self.results, *operands]
        places = self._scalar_equations(wanted)
        used = read_by(self.equations, places) | variables(wanted)
        made = [v for v in self.array if v in used]
        equations = [self.equations[i] for i in sorted(places)]
        program, kept = part_of(self.closed, equations, made, wanted)
        needed = variables(self._read(self.arrays))
        read = [i for i, v in enumerate(self.closed.jaxpr.invars) if v in needed]
        return Scalars(program, kept, len(made), read)


def _exact(equation: Any) -> Any:
    """A product in full precision, as it has as a sum of products in lanes: a GPU's default has 10 bits."""
    if equation.primitive.name != "dot_general" or equation.params["precision"] is not None:
        return equation
    return equation.replace(params=equation.params | {"precision": (Precision.HIGHEST,) * 2})
