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

    **Returns:** one row for each run, in the order of the problem's runs.

    **Raises:** `TypeError` if the arguments are something else.
    """
    _checks.check_kind("estimate", estimate, Estimate, "it must be what identify.fit returned.")
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
    """A prior for further runs: the mean of a quantity over the R runs of a fit, and its standard deviation (with R − 1).

    **Arguments:** as for `initial_values`. The runs should have been fitted without a prior on this quantity, which would
    make them alike.

    **Raises:** `ValueError` for fewer than two runs, for equal values in all runs, and for an orientation, whose components
    have no mean.
    """
    values = initial_values(estimate, quantity)
    std = check_spread(quantity, values)
    return StatePrior(quantity, values.mean(axis=0), std)
