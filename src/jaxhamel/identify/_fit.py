"""fit: from a problem to an estimate, in stages that each start where the last one ended."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._stages import Fit


def fit(
    problem: Problem,
    solver: Any = None,
    *,
    start: ArrayLike | None = None,
    max_iterations: int = 100,
    max_seconds: float = 600.0,
    progress: Callable | None = None,
) -> Estimate:
    """The estimate of a problem's parameters, with its uncertainty.

    First the states at the nodes are fitted to the measurements around them, at the parameters to start from;
    then everything while gaps between segments are cheap; then everything with gaps closed. Noise that is not
    given is estimated and the last stage repeated with it. Where the problem has no `dt`, steps are halved until
    their error is small beside the standard errors.

    **Arguments:**

    - `problem`: what is asked.
    - `solver`: an optimistix least-squares solver, default Levenberg–Marquardt; or an optax optimiser.
    - `start`: coordinates z to start from, `(P,)`; default those of the problem's system.
    - `max_iterations`, `max_seconds`: when to stop, over all stages, with what was reached by then; Ctrl-C stops as well.
    - `progress`: called with a `Progress` after each iteration.

    **Returns:** an `Estimate`; `print` it. A fit that does not converge is no error: `converged` and `status` say so.

    **Raises:** `ValueError` or `TypeError` for arguments that cannot be; not for anything that happens on the way.
    """
    _checks.check_kind("problem", problem, Problem, "it must be an identify.Problem.")
    return Fit(problem, solver, start, max_iterations, max_seconds, progress).run()


def fit_many(
    problem: Problem,
    starts: Float[Array, "S P"],
    solver: Any = None,
    *,
    at_once: int | None = None,
    **options: Any,
) -> Estimate:
    """The best of fits from several starts, see `perturbed_starts`.

    The first fit compiles the program that all share; the others run beside one another in threads, which XLA's
    programs do not hold up.

    **Arguments:** `problem`, `solver` and `options` (but for `start`) as for `fit`; `at_once`: how many threads, default one
    for each core. `progress` is called from all.
    Ctrl-C stops all of them, each with what it has reached.

    **Returns:** the best `Estimate`; its `others` holds the cost that each start ended at.

    **Raises:** as `fit`.
    """
    _checks.check_kind("problem", problem, Problem, "it must be an identify.Problem.")
    _checks.check_starts(
        starts, problem.model.coordinates().shape[0], "A row of coordinates a start."
    )
    _checks.check_count("at_once", os.cpu_count() if at_once is None else at_once)
    double, stop = jax.config.read("jax_enable_x64"), threading.Event()
    fits = [Fit(problem, solver, z, **options, stop=stop) for z in jnp.asarray(starts)]

    def run(one: Fit) -> Estimate:
        with jax.enable_x64(double):  # a setting of this thread, where it was made by `with`
            return one.run()

    found = [fits[0].run()]
    with ThreadPoolExecutor(at_once or os.cpu_count()) as pool:
        others = [pool.submit(run, one) for one in fits[1:]]
        try:
            wait(others)
        except KeyboardInterrupt:
            stop.set()
        found += [one.result() for one in others]
    costs = np.array([e.cost for e in found])
    best = found[int(np.nanargmin(np.where(np.isfinite(costs), costs, np.inf)))]
    return best._replace(others=costs)


def perturbed_starts(problem: Problem, key, count: int, scale: float = 0.3) -> Float[Array, "S P"]:
    """The problem's own coordinates, and `count` − 1 with normal noise of size `scale`: 0.3 is 30 % of a positive number.

    **Arguments:** `key`: a JAX random key. **Returns:** starts for `fit_many`. **Raises:** `ValueError` for a count below 1.
    """
    _checks.check_count("count", count)
    z = problem.model.coordinates()
    noise = scale * jax.random.normal(key, (count, z.shape[0]), z.dtype)
    return z[None, :] + noise.at[0].set(0.0)
