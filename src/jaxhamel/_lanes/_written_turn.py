"""Divides the body of a loop into scalar operations and equations that stay operations on arrays."""

from typing import Any, NamedTuple

import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported
from jaxhamel._lanes._program import (
    Program,
    as_constants,
    new_input,
    with_common_factors,
    write_equation,
)
from jaxhamel._lanes._rules._control_flow import UnknownTurns

LARGEST_WRITTEN = 256  # the most entries of an array that is written out
_LOOK_UPS = {"dynamic_slice", "gather"}
_MOST_BEFORE = 12  # the most equations of a look-up before the turn, those of its position included


class WrittenTurn(NamedTuple):
    """One turn of a loop, in the order in which it runs.

    - `inputs`: the input variables of the body; `constants`: the values of its captured variables.
    - `early`: the look-ups in tables at positions that do not depend on other results of the turn.
    - `program`: the scalar operations, from the variables `given` to the variables `wanted`.
    - `unchanged`: a dictionary from each result that is an unchanged input to that input.
    - `later`: the equations that are not written out; `results`: the result variables of the body.
    """

    inputs: list[Any]
    constants: dict[Any, Any]
    early: list[Any]
    program: Program
    given: list[Any]
    wanted: list[Any]
    unchanged: dict[Any, Any]
    later: list[Any]
    results: list[Any]

    def variables_before(self, values: list) -> dict[Any, Any]:
        """The values of all variables before the turn, from the `values` of `inputs`."""
        return self.constants | dict(zip(self.inputs, values, strict=True))


def written_turn(body: ClosedJaxpr, consts: list, start: list, longest: int) -> WrittenTurn:
    """Writes out the body of a loop with the values `consts` and `start`, each known or traced.

    `longest`: the most scalar operations of the result. Up to four times as many are traced, since some prove unnecessary.
    """
    plain = _Writer(body, consts, {}, longest)
    flag = plain.flag()
    place = -1 if flag is None else flag - len(consts)
    if flag is None or place < 0 or not _is_false(start[place]):
        return plain.turn()
    known = _Writer(body, consts, {flag: False}, longest)
    return known.turn() if known.stays_false(place) else plain.turn()


def _is_false(value: Any) -> bool:
    return not isinstance(value, Tracer) and not np.any(value)


class _Writer:
    """Writes out the equations of a loop's body, as far as that is possible."""

    def __init__(self, body: ClosedJaxpr, consts: list, flags: dict[int, bool], longest: int):
        self.body, self.jaxpr, self.graph = body, body.jaxpr, Graph(4 * longest)
        self.graph.few = True
        self.graph.alone = True
        self.nodes: dict[Any, Nodes] = {}
        self.later: list[Any] = []
        self.undecided: list[
            int
        ] = []  # nodes on which the number of turns of an inner loop depends
        self._add_known([*body.consts, *consts])
        for place, value in flags.items():
            self.nodes[self.jaxpr.invars[place]] = np.array(self.graph.constant(value))
        self.early = _look_ups(self.jaxpr)
        looked_up = [v for e in self.early for v in e.outvars]
        self.before = {*self.jaxpr.constvars, *self.jaxpr.invars, *looked_up}
        for e in self.jaxpr.eqns:
            if not e.outvars or not self.before.issuperset(e.outvars):
                self._write(e)

    def _add_known(self, values: list) -> None:
        for v, value in zip([*self.jaxpr.constvars, *self.jaxpr.invars], values, strict=False):
            if not isinstance(value, Tracer) and np.size(value) <= LARGEST_WRITTEN:
                self.nodes[v] = as_constants(self.graph, value)

    def _write(self, e: Any) -> None:
        operands = [self._of(v) for v in e.invars]
        is_short = all(v.aval.size <= LARGEST_WRITTEN for v in e.outvars)
        if e.effects or not is_short or any(x is None for x in operands):
            return self.later.append(e)
        try:
            out = write_equation(self.graph, e, operands)
        except UnknownTurns as loop:
            self.undecided.append(loop.node)
        except Unsupported:
            pass
        else:
            return self.nodes.update(zip(e.outvars, map(np.asarray, out), strict=True))
        self.later.append(e)

    def _of(self, v: Any) -> Nodes | None:
        if isinstance(v, Literal):
            return as_constants(self.graph, v.val)
        if v not in self.nodes and v in self.before and v.aval.size <= LARGEST_WRITTEN:
            self.nodes[v] = new_input(self.graph, v.aval, True)
        return self.nodes.get(v)

    def flag(self) -> int | None:
        """The index of the Boolean input that decides on the number of turns of the first inner loop.

        None if there is no such loop, or if its number of turns depends on other inputs, too.
        """
        needed = {i for i in self.graph.needed(self.undecided[:1]) if self.graph.value(i) is None}

        def uses(v):
            return not needed.isdisjoint(self.nodes[v].ravel().tolist())

        found = [i for i, v in enumerate(self.jaxpr.invars) if v in self.nodes and uses(v)]
        avals = [self.body.in_avals[i] for i in found]
        return found[0] if [(x.dtype, x.shape) for x in avals] == [(np.dtype(bool), ())] else None

    def stays_false(self, place: int) -> bool:
        """Whether the result with the index `place` is always False."""
        nodes = self.nodes.get(self.jaxpr.outvars[place])
        return nodes is not None and self.graph.value(int(nodes)) is np.False_

    def turn(self) -> WrittenTurn:
        """The turn: the scalar program from the inputs to the results that are written out, and the other equations."""
        given = [v for v in self.nodes if v in self.before and self._is_input(v)]
        unchanged, wanted = self._wanted(given)
        program = Program(self.graph, *([self.nodes[v] for v in x] for x in (given, wanted)))
        inputs = [*self.jaxpr.constvars, *self.jaxpr.invars]
        constants = dict(zip(inputs, self.body.consts, strict=False))
        return WrittenTurn(
            list(self.jaxpr.invars),
            constants,
            self.early,
            with_common_factors(program),
            given,
            wanted,
            unchanged,
            self.later,
            list(self.jaxpr.outvars),
        )

    def _is_input(self, v: Any) -> bool:
        return self.nodes[v].size > 0 and self.graph.value(int(self.nodes[v].flat[0])) is None

    def _wanted(self, given: list) -> tuple[dict, list]:
        """A dictionary from each result that is an unchanged input to that input, and a list of the computed results."""
        used = [*self.jaxpr.outvars, *(v for e in self.later for v in e.invars)]
        used = [v for v in used if not isinstance(v, Literal)]
        own = dict.fromkeys(v for v in used if v in self.nodes and v not in self.before)

        def key(v):
            return (v.aval.shape, tuple(self.nodes[v].ravel().tolist()))

        places = {key(v): v for v in given}
        unchanged = {v: places[key(v)] for v in own if key(v) in places}
        return unchanged, [v for v in own if v not in unchanged]


def _look_ups(jaxpr: Any) -> list[Any]:
    """The look-ups in tables that can run before the turn, each with the few equations that compute its position."""
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    found: set[int] = set()
    for e in jaxpr.eqns:
        if e.primitive.name in _LOOK_UPS:
            found |= _with_dependencies(e, made)
    return [e for e in jaxpr.eqns if id(e) in found]


def _with_dependencies(e: Any, made: dict[Any, Any]) -> set[int]:
    """The ids of the equation and of all equations on which it depends; empty if these are too many or contain a loop."""
    found, waiting = set(), [e]
    while waiting:
        each = waiting.pop()
        found.add(id(each))
        if len(found) > _MOST_BEFORE or each.primitive.name == "while":
            return set()
        waiting += [made[v] for v in each.invars if not isinstance(v, Literal) and v in made]
    return found
