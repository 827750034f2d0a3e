"""`Family`: the optima of problems that differ in their numbers."""

import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration
from jaxhamel._words import counted
from jaxhamel.control._checks._families import traced_problem_of
from jaxhamel.control._collocation._points import PiecewisePolynomial
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._derivatives_of_optima._lagrangian import lagrangian
from jaxhamel.control._families._optima import optima_of
from jaxhamel.control._families._problems import ProblemOf
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.control._result import Result

MOST_NAMED = 4  # the largest number of problems without a solution that `print` names


class Family:
    """The optima of K problems that differ in their numbers, from `solve_family`; all arrays have a leading axis.

    - `values`: the given values, of which `family[k]` is the `Result` of the k-th one, with its certificate: its search
      goes on from the optimum for an iteration or two, and its motion is simulated.
    - `cost`: J, `(K,)`. `ts`: the times of the nodes, `(K, N+1)` [s]. `q`, `u`: the state there.
    - `control`: the controls as one `PiecewisePolynomial` whose arrays have a leading axis:
      `jax.vmap(lambda c, t: c(t))(family.control, times)`.
    - `costates`: λ = ∂J/∂x at `ts`, `(K, N+1, n+k)`, see `Result`. `design`: values found for design parameters, by name.
    - `converged`: `(K,)`, whether the tolerances were met. `status`: for each value, why its search ended.
    - `stationarity`, `violation`: the errors of the optima at the collocation points, `(K,)`, in the sizes of the problem.
    - `seconds`: time of the search.
    """

    # `search` is a FamilySearch: a class of this folder, which public signatures leave out
    def __init__(self, problem_of: ProblemOf, values: Any, search: Any):
        self.values: Any = values
        self._problem_of, self._search = problem_of, search
        found = optima_of(search)
        self.cost: Float[Array, " K"] = found.cost
        self.ts: Float[Array, "K N+1"] = found.ts
        self.q: Configuration = found.states[0]
        self.u: Float[Array, "K N+1 k"] = found.states[1]
        points = search.transcriptions.shared.rule.points
        self.control: PiecewisePolynomial = PiecewisePolynomial(found.ts, found.controls, points)
        self.costates: Float[Array, "K N+1 d"] = found.costates
        self.design: dict[str, Array] = found.design
        self.stationarity: Float[Array, " K"] = found.stationarity
        self.violation: Float[Array, " K"] = found.violation
        verdicts = search.verdicts()
        self.converged: Bool[np.ndarray, " K"] = np.array([x.converged for x in verdicts])
        self.status: tuple[str, ...] = tuple(x.status for x in verdicts)
        self.seconds: float = time.monotonic() - search.began

    def __len__(self) -> int:
        return len(self.status)

    def __iter__(self) -> Iterator[Result]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: int) -> Result:
        """The result for the k-th value, with its certificate."""
        index = range(len(self))[k]  # raises IndexError, and counts from the end below 0
        return self._search.result(index)

    def sensitivity(self) -> Any:
        """dJ*/dp: the derivatives of the optimal costs by the numbers p of their values, by the envelope theorem,

            dJ*/dp = ∂L/∂p ,    L = J + Σ multipliers · constraints , at each optimum.

        **Returns:** a pytree like `values`; None for leaves that are not real.

        **Raises:** `TypeError` if JAX cannot trace `problem_of`.

        Where multipliers are not unique, or the minimum is not isolated, J* may have no derivative. Only
        `control.sensitivity(family[k])` looks for this.
        """
        given = self._problem_of, self.values
        with traced_problem_of():
            found = _derivatives(*given, *self._search.found_together())
            rows = jax.tree.map(np.array, found)
            for k in range(len(self)):
                _set_row(rows, k, self._derivatives_at(k))
        return jax.tree.map(jnp.asarray, rows)

    def _derivatives_at(self, k: int) -> Any:
        """The derivatives of J* by the k-th value if its search went on alone, NaN without an optimum, otherwise None."""
        if not self.converged[k]:
            return np.nan
        found = self._search.found_alone(k)
        value = jax.tree.map(lambda x: x[k], self.values)
        return None if found is None else _derivative(self._problem_of, value, *found)

    def __str__(self) -> str:
        count, solved = len(self), int(np.sum(self.converged))
        name = type(self._search.problems.shared.system).__name__
        lines = [f"Family of {counted(count, 'problem')} of {name}: {solved} converged"]
        if solved:
            costs = np.asarray(self.cost)[self.converged]
            lines.append(f"  cost           {np.min(costs):.6g} to {np.max(costs):.6g}")
        lines.append(f"  time           {self.seconds:.2f} s")
        failed = np.flatnonzero(~self.converged)
        lines += [f"  values[{k}]: {self.status[k]}" for k in failed[:MOST_NAMED]]
        more = len(failed) - MOST_NAMED
        return "\n".join(lines + ([f"  and {more} more, see `status`"] if more > 0 else []))


def _of_value(problem_of: ProblemOf, value: Any, transcription: Transcription, w, duals) -> Any:
    """dJ*/dp by the numbers p of one value."""

    def of(value):
        return transcription.cost_unit * lagrangian(problem_of(value), transcription, w, duals)

    return eqx.filter_grad(of)(value)


_derivative = compiled_with(QUICK)(_of_value)


@compiled_with(QUICK)
def _derivatives(problem_of: ProblemOf, values: Any, transcriptions: Stacked, w, duals) -> Any:
    """The derivatives dJ*/dp of each value's optimal cost by its numbers p."""

    def one(own, value, w, duals):
        return _of_value(problem_of, value, own, w, duals)

    return transcriptions.mapped(one, values, w, duals)


def _set_row(rows: Any, k: int, row: Any) -> None:
    """Sets the k-th row of each array: to a number, or to the arrays of a tree; None leaves it as it is."""
    leaves = jax.tree.leaves(rows)
    one_number = [row] * len(leaves) if isinstance(row, float) else jax.tree.leaves(row)
    for array, x in zip(leaves, one_number, strict=row is not None):
        array[k] = np.asarray(x)
