"""`fit`: solves an identification problem in rounds, each of which starts where the last one ended."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._lanes._xla_cpu._jit import cores
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._rounds import Fit


def fit(
    problem: Problem,
    solver: Any = None,
    *,
    start: ArrayLike | None = None,
    max_iterations: int = 100,
    max_seconds: float = 600.0,
    progress: Callable[..., Any] | None = None,
    correlated: bool = False,
) -> Estimate:
    """The estimate of a problem's parameters, with its uncertainty.

    The first round fits the states at the nodes to the measurements around them, at the starting parameters. The next
    rounds fit all unknowns, first with a low weight on the gaps between segments, then with the gaps closed. Noise that is
    not given is estimated, and the last round is repeated with it. If the problem has no `dt`, the steps are halved until
    the integration error is small compared with the standard errors.

    **Arguments:**

    - `problem`: the problem to solve.
    - `solver`: an optimistix least-squares solver, default Levenberg–Marquardt; or an optax optimiser.
    - `start`: coordinates z to start from, `(P,)`; default those of the problem's system.
    - `max_iterations`, `max_seconds`: limits over all rounds, after which the best point so far is returned; Ctrl-C does
      the same.
    - `progress`: called with a `Progress` after each iteration.
    - `correlated`: whether neighbouring residuals are taken as correlated, as they are for an imperfect model. τ = 1 + 2 Σ ρ
      samples then have as much information as one with an independent error, so that without priors standard errors are
      √τ times as large (Sokal 1997). The estimate itself does not change. `Estimate.correlation_time` is τ in any case.

    **Returns:** an `Estimate`; `print` shows it. A fit that does not converge raises no error: see its `converged` and
    `status`.

    **Raises:** `ValueError` or `TypeError` for invalid arguments only; `status` describes a failure during the fit.
    """
    _checks.check_kind("problem", problem, Problem, "it must be an identify.Problem.")
    limits = max_iterations, max_seconds, progress
    return Fit(problem, solver, start, *limits, correlated=correlated).estimate()


def fit_many(
    problem: Problem,
    starts: Float[Array, "S P"],
    solver: Any = None,
    *,
    at_once: int | None = None,
    **options: Any,
) -> Estimate:
    """Fits a problem from several starts, see `perturbed_starts`, and returns the fit of least cost.

    The first fit compiles the program that all fits share; the others run in parallel threads.

    **Arguments:** `problem`, `solver` and `options` (except `start`) as for `fit`; `at_once`: number of threads, default one
    for each core. All threads call `progress`. Ctrl-C stops all fits at their best points so far.

    **Returns:** the `Estimate` of least cost; its `others` has the final cost of the fit from each start, `(S,)`.

    **Raises:** the errors of `fit`, and `ValueError` for `starts` of another shape.
    """
    _checks.check_kind("problem", problem, Problem, "it must be an identify.Problem.")
    _checks.check_starts(
        starts, problem.model.coordinates().shape[0], "Give one row of coordinates for each start."
    )
    _checks.check_count("at_once", cores() if at_once is None else at_once)
    double, stop = jax.config.read("jax_enable_x64"), threading.Event()
    fits = [Fit(problem, solver, z, **options, stop=stop) for z in jnp.asarray(starts)]

    def run(one: Fit) -> Estimate:
        with jax.enable_x64(double):  # the thread does not inherit a setting made by `with`
            return one.estimate()

    found = [fits[0].estimate()]
    with ThreadPoolExecutor(at_once or cores()) as pool:
        others = [pool.submit(run, one) for one in fits[1:]]
        try:
            wait(others)
        except KeyboardInterrupt:
            stop.set()
        found += [one.result() for one in others]
    costs = np.array([e.cost for e in found])
    best = found[int(np.nanargmin(np.where(np.isfinite(costs), costs, np.inf)))]
    return best._replace(others=costs)


def perturbed_starts(
    problem: Problem, key: Array, count: int, scale: float = 0.3
) -> Float[Array, "S P"]:
    """Starts for `fit_many`: the coordinates of the problem's system, and `count` − 1 copies of them with normal noise.

    **Arguments:** `key`: a JAX random key; `scale`: standard deviation of the noise. A parameter of the kind `Positive`
    changes by about 30 % with the default 0.3.

    **Returns:** the coordinates, one row for each start. **Raises:** `ValueError` for a count below 1.
    """
    _checks.check_kind("problem", problem, Problem, "it must be an identify.Problem.")
    _checks.check_random_key("key", key)
    _checks.check_count("count", count)
    _checks.check_number("scale", scale, "It is a standard deviation.")
    z = problem.model.coordinates()
    noise = scale * jax.random.normal(key, (count, z.shape[0]), z.dtype)
    return z[None, :] + noise.at[0].set(0.0)
