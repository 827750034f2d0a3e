"""The solvers of identification, whose steps the host runs one by one.

A fit uses a least-squares solver of optimistix or an optimiser of optax, and evaluates the residual between its steps. The
design of experiments uses BFGS, compiled with options for a short compilation time.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx

from jaxhamel._compiled import compiled
from jaxhamel._lanes._xla_cpu._jit import known_here
from jaxhamel._search._loop import AbstractSearch, Verdict
from jaxhamel._search._stepwise import updated
from jaxhamel.identify._linearised._arrow import ArrowMatrix

HUGE = 1e15  # a large residual whose square is still finite in single precision
SHARPNESS = 30.0  # unknowns are scaled such that the Jacobian's columns have this length; a damping of 1 is then small


class ArrowDescent(optx.AbstractDescent):
    """The step −(H + λ 1)⁻¹ Jᵀr with λ = 1/step size, computed with the block structure of `ArrowMatrix`.

    It replaces optimistix' damped Newton descent. `arrow`: the normal equations at the candidate, set before each step. For
    a ball's problem with 1090 residuals and 330 unknowns the solution is 60 times as fast as by a dense Cholesky
    factorisation (docs/performance.md#identification). A step that is not finite, which rounding can cause, is rejected and
    repeated with more damping.
    """

    arrow: ArrowMatrix | None = None

    def init(self, y, f_info_struct):
        return jax.tree.map(jnp.zeros_like, self.arrow)

    def query(self, y, f_info, state):
        return self.arrow

    def step(self, step_size, state):
        tiny = jnp.finfo(step_size.dtype).eps
        damping = 1 / jnp.maximum(step_size, tiny)
        return -state.solved(damping.astype(state.g.dtype)), optx.RESULTS.successful


def levenberg_marquardt(tolerance: float = 1e-4) -> optx.AbstractLeastSquaresSolver:
    """optimistix' Levenberg–Marquardt method, with a damping that adapts faster to the ratio of actual to predicted
    decrease.

    optimistix increases the step size, which is 1/damping, by the factor 3.5 if the ratio is above 0.99. Fits converge
    faster with the factor 10 above 0.75.
    """
    solver = optx.LevenbergMarquardt(rtol=1e-8, atol=tolerance)
    search = optx.ClassicalTrustRegion(high_cutoff=0.75, high_constant=10.0)

    def where(s):
        return (s.descent, s.search)

    return eqx.tree_at(where, solver, (ArrowDescent(), search))


@compiled
def first_arrays(solver, y, r, J, arrow, numbers):
    """The arrays of the solver's initial state at y, as a list; the other parts of the state are constant."""
    return jax.tree.leaves(
        eqx.filter(_first_solver_state(solver, y, r, J, arrow, numbers), eqx.is_array)
    )


@compiled
def candidate(solver, y, leaves, r, J, arrow, numbers):
    """The point y at which the solver needs the next residual and Jacobian; for the arguments see `after_step`."""
    if not isinstance(solver, optx.AbstractLeastSquaresSolver):
        return y
    return _solver_state(solver, y, leaves, r, J, arrow, numbers).y_eval


@compiled
def after_step(solver, y, leaves, r, J, arrow, numbers):
    """The solver's point y after one step, the arrays of its state, and whether it has converged.

    `leaves`: the arrays of the state before the step. r, J, `arrow` (the normal equations) and `numbers` are the results of
    `assembled` at the solver's `candidate`.
    """
    state = _solver_state(solver, y, leaves, r, J, arrow, numbers)
    if not isinstance(solver, optx.AbstractLeastSquaresSolver):
        return _after_gradient_step(solver, y, state, arrow.gradient)
    solver, function = _with_arrow(solver, arrow), _KnownResidual(r, J, numbers)
    options = ({}, state, frozenset())
    y, state, _ = solver.step(function, y, None, *options)
    done = solver.terminate(function, y, None, {}, state, frozenset())[0]
    return y, jax.tree.leaves(eqx.filter(state, eqx.is_array)), done


def _with_arrow(solver, arrow: ArrowMatrix):
    """The solver with the normal equations `arrow` in its descent, if that is an `ArrowDescent`; else the solver itself."""
    if not isinstance(getattr(solver, "descent", None), ArrowDescent):
        return solver
    return eqx.tree_at(lambda s: s.descent, solver, ArrowDescent(arrow))


def refusable(known):
    """The result `known` of `assembled`; if the motion broke down, a huge residual that every solver rejects replaces r."""
    r, J, arrow, numbers = known
    if np.isfinite(float(numbers["cost"])):
        return known

    def zeros(tree):
        return jax.tree.map(jnp.zeros_like, tree)

    return jnp.full_like(r, HUGE), zeros(J), zeros(arrow), numbers


class _KnownResidual(eqx.Module):
    """The residual function that a solver gets: it returns the value r and the derivative J, computed before.

    This is correct because a solver evaluates the function only at its candidate, where r and J were computed.
    """

    r: Any
    J: Any
    numbers: Any

    def __call__(self, y, args=None):
        @jax.custom_jvp
        def function(y, r, J, numbers):
            return r, numbers

        @function.defjvp
        def rule(primals, tangents):
            _, r, J, numbers = primals
            return (r, numbers), (J @ tangents[0], jax.tree.map(jnp.zeros_like, numbers))

        return function(y, self.r, self.J, self.numbers)


def _first_solver_state(solver, y, r, J, arrow, numbers) -> Any:
    if not isinstance(solver, optx.AbstractLeastSquaresSolver):
        return solver.init(y)
    out, aside = jax.eval_shape(lambda: (r, numbers))
    solver = _with_arrow(solver, arrow)
    return solver.init(_KnownResidual(r, J, numbers), y, None, {}, out, aside, frozenset())


def _solver_state(solver, y, leaves, *known) -> Any:
    """The solver's state with the arrays `leaves`; `known`: the result of `assembled`."""
    arrays, others = eqx.partition(_first_solver_state(solver, y, *known), eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), others)


def _after_gradient_step(optimiser, y, state, gradient):
    """The results of `after_step` for a step of an optax optimiser on ½|r|²."""
    y, state = updated(optimiser, gradient, state, y)
    done = jnp.linalg.norm(gradient) < 1e-4 * SHARPNESS
    return y, jax.tree.leaves(eqx.filter(state, eqx.is_array)), done


# without XLA's newer CPU code generator, which takes longer to compile (docs/performance.md#identification)
WITHOUT = {"xla_cpu_use_fusion_emitters": False}


class BFGSSearch(AbstractSearch):
    """Runs the steps of optimistix' BFGS method one by one; the first call of `make_iterations` only evaluates the cost at
    p.
    """

    unit = "step"

    def __init__(self, cost, p, arrays, max_steps: int, tolerance: float):
        super().__init__(max_steps + 1)
        solver = optx.BFGS(rtol=tolerance, atol=tolerance)

        def function(p, arrays):
            return (cost(p, arrays), None)

        options, tags = {}, frozenset()
        shape = jax.eval_shape(lambda: jnp.zeros((), p.dtype)), None
        # `self.p` is the best point so far, since no step that raises the cost is accepted
        self.p, self.arrays = p, arrays
        self.state = solver.init(function, p, arrays, options, *shape, tags)
        self.step = _jit(lambda p, state, a: solver.step(function, p, a, options, state, tags))
        self.over = lambda p, state: solver.terminate(function, p, arrays, options, state, tags)[0]

    def make_iterations(self) -> None:
        self.p, self.state, _ = self.step(self.p, self.state, self.arrays)
        self.note(cost=float(self.state.f_info.f))

    def verdict(self) -> Verdict | None:
        return Verdict(True, "converged") if bool(self.over(self.p, self.state)) else None

    def report(self) -> tuple[int, float]:
        """The number of steps so far and the cost."""
        return len(self.rows) - 1, self.rows[-1]["cost"]


def _jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, compiled with the options `WITHOUT`; it must not be called under another transform."""
    return compiled(f, compiler_options=known_here(WITHOUT))
