"""Quantities of each run's own initial state after a fit, and their spread over the runs."""

import jax
import numpy as np
from jaxtyping import Float

from jaxhamel import _checks
from jaxhamel.identify._checks._problem import check_spread
from jaxhamel.identify._data._measurements import AbstractMeasurement
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._parameters._state_prior import StatePrior


def initial_values(estimate: Estimate, quantity: AbstractMeasurement) -> Float[np.ndarray, "R d"]:
    """The values h(x_0) of a quantity h at the estimated initial state x_0 of each run.

    **Arguments:** `estimate`: the result of `fit`; `quantity`: h, a measurement, such as `Coordinate(2)`.

    **Returns:** the values, one row for each of the R runs, in the order of the problem's runs.

    **Raises:** `TypeError` if `estimate` is no `Estimate` or `quantity` no measurement.
    """
    _checks.check_kind("estimate", estimate, Estimate, "it must be the result of identify.fit.")
    advice = "it must be a measurement, such as identify.Coordinate(0)."
    _checks.check_kind("quantity", quantity, AbstractMeasurement, advice)
    rows, problem = [], estimate.problem
    for index, run in enumerate(problem.runs):
        first = problem.first_node(index)
        q, u = jax.tree.map(lambda x, first=first: x[first], (estimate.x.q, estimate.x.u))
        t = jax.numpy.asarray(run.ts[0], u.dtype)
        rows.append(np.asarray(quantity(estimate.system, t, q, u, run.control)))
    return np.stack(rows)


def prior_over_runs(estimate: Estimate, quantity: AbstractMeasurement) -> StatePrior:
    """A prior for further runs, with the mean of a quantity's initial values over the R runs of a fit and their standard
    deviation (with the divisor R − 1).

    **Arguments:** those of `initial_values`. The fit should have no prior on this quantity: a prior draws the values of the
    runs together, so that their standard deviation becomes too small.

    **Raises:** `ValueError` for fewer than two runs, for equal values in all runs, and for an orientation, whose components
    have no mean.
    """
    values = initial_values(estimate, quantity)
    std = check_spread(quantity, values)
    return StatePrior(quantity, values.mean(axis=0), std)
