"""`solve` and `solve_many`, which solve a control problem by a given method."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxhamel import _checks
from jaxhamel.control._checks._curve_methods import check_method
from jaxhamel.control._checks._families import check_solves_families
from jaxhamel.control._collocation._collocation import Collocation
from jaxhamel.control._families._family import Family
from jaxhamel.control._methods._multiple_shooting import MultipleShooting
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Result


def solve(
    problem: ControlProblem, method: Any = None, *, progress: Callable[..., Any] | None = None
) -> Result:
    """Solves a control problem and simulates the result continuously.

    **Arguments:** `problem`: the problem to solve; `method`: `MultipleShooting(...)` (the default), `Collocation(...)`,
    `GradientDescent(...)`, `SingleShooting(...)`, `Indirect(...)` or `Ipopt(...)`; `progress`: called with a `Progress`
    after each iteration.

    **Returns:** a `Result`; `print` it. If time or iterations run out, or after Ctrl-C, it has the best control so far, and
    `converged` and `status` report this; no error is raised.

    **Raises:** `TypeError` for invalid arguments, and under jit, vmap or grad.
    """
    method = MultipleShooting() if method is None else method
    _check_arguments(problem, method, "run", progress)
    return method.run(problem, progress)


def _check_arguments(problem, method, does: str, progress) -> None:
    _checks.check_kind("problem", problem, ControlProblem, "it must be a control.ControlProblem.")
    _checks.check_outside("problem", problem)
    check_method(method, does)
    _checks.check_progress(progress)


def solve_many(
    problem: ControlProblem,
    starts: Float[Array, "S P"],
    method: Any = None,
    *,
    progress: Callable[..., Any] | None = None,
) -> Result:
    """Solves a control problem from many starts in parallel, by `vmap`, and returns the best result.

    **Arguments:** `starts`: initial free parameters of the curve, one row for each start, see `perturbed_starts`;
    `problem`, `method`, `progress`: as for `solve`.

    **Returns:** the best `Result`; its history has, for each iteration, the numbers of the start that is best then.

    **Raises:** the errors of `solve`, and `ValueError` for starts of another shape or with NaN.
    """
    method = MultipleShooting() if method is None else method
    _check_arguments(problem, method, "run_many", progress)
    p = free_parameters(problem.curve)[0]
    _checks.check_starts(starts, p.shape[0], "Give one row of free parameters for each start.")
    return method.run_many(problem, jnp.asarray(starts, p.dtype), progress)


def solve_family(
    problem_of: Callable[[Any], ControlProblem],
    values: Any,
    method: Collocation | None = None,
    *,
    progress: Callable[..., Any] | None = None,
) -> Family:
    """Solves the problems `problem_of`(value) of many values at once, each from its own guess:

        [solve(problem_of(value), method) for value in values] ,    side by side.

    **Arguments:**

    - `problem_of`: a function of one value, such as
      `lambda mass: equinox.tree_at(lambda problem: problem.system.mass, problem, mass)`. The problems differ in numbers
      only: masses, targets, times, bounds, weights, guesses. It is called once under `jax.vmap` or, if JAX cannot trace it,
      once for each value, which takes longer.
    - `values`: a pytree of arrays, all with a leading axis of one length, one row for each value.
    - `method`: `Collocation(...)`, without `error`; its limits of iterations hold for each search, those of seconds for all.
    - `progress`: called with a `FamilyProgress` a few times a second, such as `print`: how many searches have ended, and
      about how many seconds are left.

    **Returns:** a `Family`: costs, motions, controls along a leading axis, and `family[k]`, the `Result` for the k-th value.
    Searches that do not converge side by side, and those whose limits bind, go on alone as `solve` does. A value without an
    optimum has the reason in `status`; the others keep theirs.

    Of many values, a part that fills the processor begins at the guesses of its problems; the others begin at states
    interpolated between the optima of these. Where a problem has several local optima, `solve` may find another one.

    **Raises:** `ValueError` or `TypeError` for wrong arguments, for NaN, and for a problem that is not valid or has other
    shapes than the first one, with the index of its value; `TypeError` under jit, vmap or grad.
    """
    method = Collocation() if method is None else method
    check_solves_families(method)
    _checks.check_progress(progress)
    return method.run_family(problem_of, values, progress)


def perturbed_starts(
    problem: ControlProblem, key: PRNGKeyArray, count: int, scale: float = 0.1
) -> Float[Array, "S P"]:
    """`count` starts of a search: p, the free parameters of the problem's curve, and `count` − 1 perturbed copies of it,

        p + scale · ξ ,    ξ standard normal .

    **Arguments:** `key`: a JAX random key; `scale`: in the unit of the parameters. **Returns:** starts for `solve_many`.

    **Raises:** `ValueError` for a count below 1.
    """
    _checks.check_kind("problem", problem, ControlProblem, "it must be a control.ControlProblem.")
    _checks.check_random_key("key", key)
    _checks.check_count("count", count)
    _checks.check_number("scale", scale, "It is a standard deviation.")
    p = free_parameters(problem.curve)[0]
    noise = scale * jax.random.normal(key, (count, p.shape[0]), p.dtype)
    return p[None, :] + noise.at[0].set(0.0)
