"""The solvers of identification, run step by step on the host: least squares by an optimistix or optax solver, with the
residual evaluated between its steps; and BFGS for the design of experiments, compiled for a short compilation time.
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
    """optimistix' damped Newton descent, (H + λ)⁻¹ Jᵀr with λ = 1/step size, solved in the pattern of `ArrowMatrix`.

    `arrow`: the normal equations at the candidate, set before each step. For a ball's 1090 × 330 problem the solution is 60
    times as fast as by a dense Cholesky factorisation (docs/performance.md#identification). A step that is not finite, which
    rounding can cause, is rejected and repeated with more damping.
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
    """optimistix' Levenberg–Marquardt method with a damping that adapts faster to the ratio of actual to predicted decrease.

    optimistix increases the step size by the factor 3.5 if the ratio is above 0.99; fits converge faster with the factor 10
    above 0.75.
    """
    solver = optx.LevenbergMarquardt(rtol=1e-8, atol=tolerance)
    search = optx.ClassicalTrustRegion(high_cutoff=0.75, high_constant=10.0)

    def where(s):
        return (s.descent, s.search)

    return eqx.tree_at(where, solver, (ArrowDescent(), search))


@compiled
def begin(solver, y, r, J, arrow, told):
    """The arrays of the solver's initial state, as a list; its other parts are constant."""
    return jax.tree.leaves(
        eqx.filter(_first_solver_state(solver, y, r, J, arrow, told), eqx.is_array)
    )


@compiled
def candidate(solver, y, leaves, r, J, arrow, told):
    """The point y at which the solver needs the next residual and Jacobian."""
    if not isinstance(solver, optx.AbstractLeastSquaresSolver):
        return y
    return _state(solver, y, leaves, r, J, arrow, told).y_eval


@compiled
def advance(solver, y, leaves, r, J, arrow, told):
    """Takes one step of the solver; returns its point y, the arrays of its state, and whether it has converged.

    r, J, `arrow` (the normal equations) and `told` are the results of `assembled` at the solver's `candidate`.
    """
    state = _state(solver, y, leaves, r, J, arrow, told)
    if not isinstance(solver, optx.AbstractLeastSquaresSolver):
        return _descend(solver, y, state, arrow.gradient)
    solver, function = _with_arrow(solver, arrow), _Known(r, J, told)
    options = ({}, state, frozenset())
    y, state, _ = solver.step(function, y, None, *options)
    done = solver.terminate(function, y, None, {}, state, frozenset())[0]
    return y, jax.tree.leaves(eqx.filter(state, eqx.is_array)), done


def _with_arrow(solver, arrow: ArrowMatrix):
    """The solver, with the normal equations passed to its descent if that is an `ArrowDescent`."""
    if not isinstance(getattr(solver, "descent", None), ArrowDescent):
        return solver
    return eqx.tree_at(lambda s: s.descent, solver, ArrowDescent(arrow))


def refusable(known):
    """The result of `assembled`, `known`; if the motion broke down, one with a residual that every solver rejects."""
    r, J, arrow, told = known
    if np.isfinite(float(told["cost"])):
        return known

    def zeros(tree):
        return jax.tree.map(jnp.zeros_like, tree)

    return jnp.full_like(r, HUGE), zeros(J), zeros(arrow), told


class _Known(eqx.Module):
    """The residual as a function for the solver, with the known value r and derivative J: a solver evaluates it only at its
    candidate, where they were computed.
    """

    r: Any
    J: Any
    told: Any

    def __call__(self, y, args=None):
        @jax.custom_jvp
        def function(y, r, J, told):
            return r, told

        @function.defjvp
        def rule(primals, tangents):
            _, r, J, told = primals
            return (r, told), (J @ tangents[0], jax.tree.map(jnp.zeros_like, told))

        return function(y, self.r, self.J, self.told)


def _first_solver_state(solver, y, r, J, arrow, told) -> Any:
    if not isinstance(solver, optx.AbstractLeastSquaresSolver):
        return solver.init(y)
    out, aside = jax.eval_shape(lambda: (r, told))
    solver = _with_arrow(solver, arrow)
    return solver.init(_Known(r, J, told), y, None, {}, out, aside, frozenset())


def _state(solver, y, leaves, *known) -> Any:
    arrays, others = eqx.partition(_first_solver_state(solver, y, *known), eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), others)


def _descend(optimiser, y, state, gradient):
    """Takes a step of an optax optimiser on ½|r|²; returns the same as `advance`."""
    y, state = updated(optimiser, gradient, state, y)
    done = jnp.linalg.norm(gradient) < 1e-4 * SHARPNESS
    return y, jax.tree.leaves(eqx.filter(state, eqx.is_array)), done


# XLA's newer CPU code generator takes longer to compile (docs/performance.md#identification).
WITHOUT = {"xla_cpu_use_fusion_emitters": False}


class BFGSSearch(AbstractSearch):
    """Runs the steps of optimistix' BFGS method one by one; the first call of `advance` only evaluates the start."""

    unit = "step"

    def __init__(self, cost, p, arrays, max_steps: int, tolerance: float):
        super().__init__(max_steps + 1)
        solver = optx.BFGS(rtol=tolerance, atol=tolerance)

        def function(p, arrays):
            return (cost(p, arrays), None)

        options, tags = {}, frozenset()
        shape = jax.eval_shape(lambda: jnp.zeros((), p.dtype)), None
        # p is the best point so far, since no step that raises the cost is accepted
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
        """The number of the step and the cost."""
        return len(self.rows) - 1, self.rows[-1]["cost"]


def _jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """`equinox.filter_jit(f)` with the compiler options `WITHOUT`; it must not be called inside another transform."""
    return compiled(f, compiler_options=known_here(WITHOUT))
