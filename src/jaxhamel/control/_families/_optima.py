"""The numbers of the optima of a family, in arrays with a leading axis."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._collocation._points import PointRule, lagrange
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._derivatives_of_optima._sensitivity import costates_of
from jaxhamel.control._families._family_search import FamilySearch
from jaxhamel.control._interior_point._derivatives import evaluate
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.control._problem._limits import values_by_name


class OptimumNumbers(NamedTuple):
    """The optimum of one problem, or those of many along a leading axis.

    `cost`: J; `ts`: the times of the nodes; `states`: (q, u) there; `costates` there; `controls` at the collocation points;
    `design`: the design parameters by name; `stationarity`, `violation`: the errors of the optimum.
    """

    cost: Scalar
    ts: Float[Array, " N+1"]
    states: tuple[Configuration, Float[Array, "N+1 k"]]
    costates: Float[Array, "N+1 d"]
    controls: Float[Array, "N s m"]
    design: dict[str, Array]
    stationarity: Scalar
    violation: Scalar


def optima_of(search: FamilySearch) -> OptimumNumbers:
    """The optima of all problems; those of searches that went on alone replace the ones found side by side."""
    rows = jax.tree.map(np.array, _of_many(search.transcriptions, search.states))
    for k, ended in search.alone.items():
        alone = ended.search
        if alone is not None:
            state = alone.state._replace(w=alone.own_iterate())
            found = _of_one(alone.transcription, state)
            rules = alone.transcription.rule, search.transcriptions.shared.rule
            _set_row(rows, k, found._replace(controls=_at_points(found.controls, *rules)))
    return jax.tree.map(jnp.asarray, rows)


def _set_row(rows: OptimumNumbers, k: int, row: OptimumNumbers) -> None:
    for array, x in zip(jax.tree.leaves(rows), jax.tree.leaves(row), strict=True):
        array[k] = np.asarray(x)


def _optimum(transcription: Transcription, state: SearchState) -> OptimumNumbers:
    """The optimum at the last iterate of a search."""
    w, errors = state.w, state.errors
    cost = transcription.cost_unit * evaluate(transcription, w)[0]
    costates = costates_of(transcription, w, state.duals)
    design = values_by_name(transcription.designed(w.p), transcription.designs)
    ends = errors.stationarity, errors.violation
    return OptimumNumbers(
        cost, transcription.times(w.p), transcription.states(w), costates, w.c, design, *ends
    )


_of_one = compiled_with(QUICK)(_optimum)


@compiled_with(QUICK)
def _of_many(transcriptions: Stacked, states: SearchState) -> OptimumNumbers:
    return transcriptions.mapped(_optimum, states)


def _at_points(values: Array, own: PointRule, wanted: PointRule) -> Array:
    """The values of the control's polynomials at the points of another rule of the same degree, `(N, s, m)`."""
    if own.points == wanted.points:
        return values
    basis = lagrange(np.asarray(own.points), np.asarray(wanted.points))
    return jnp.einsum("kj,ijm->ikm", jnp.asarray(basis, values.dtype), values)
