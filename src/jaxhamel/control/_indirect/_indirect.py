"""The method `Indirect`: solves Pontryagin's conditions, starting from the solution of `Collocation`."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._search._loop import AbstractSearch, Progress, Verdict
from jaxhamel._words import counted
from jaxhamel.control._certificate._certificate import with_agreement
from jaxhamel.control._certificate._violation import binding_limits
from jaxhamel.control._checks._methods import check_indirect, check_no_control_at_end
from jaxhamel.control._collocation._collocation import Collocation
from jaxhamel.control._collocation._from_nodes import replayed
from jaxhamel.control._collocation._points import PiecewisePolynomial, lagrange
from jaxhamel.control._indirect._newton import (
    assembled,
    counts_of,
    is_finite,
    least_squares,
    scales_of,
    size_of_costates,
    stepped,
)
from jaxhamel.control._indirect._pontryagin import control_hessian
from jaxhamel.control._indirect._shooting import (
    RECORDED,
    Equations,
    ExtremalNodes,
    equations,
    has_free_end_time,
)
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Result, report
from jaxhamel.control._scaling._sizes import size_of

HALVINGS = 8  # the largest number of halvings of a step that does not reduce the residual


class Indirect(eqx.Module):
    """Solves Pontryagin's conditions by multiple shooting, starting from the costates of a direct solution:

        H(t, q, u, c, λ) = ½|r|² + g + λ_q·v + λ_u·u̇ ,      ∂H/∂c = 0 ,
        λ̇_q = −∂H/∂δ_q + ad_vᵀ λ_q ,     λ̇_u = −∂H/∂u ,     λ_N = ∂φ/∂x + (∂C/∂x)ᵀ y ,

    with the running cost ½|r|² + g, the final cost φ and the conditions C = 0 at the end. The nodes are those of the direct
    solution; all derivatives are by autodiff, and the integrator is the eighth-order method of Dormand and Prince.

    **Arguments:**

    - `direct`: the `Collocation` from whose solution the shooting starts; it must converge.
    - `tolerance`: the largest residual, a gap between intervals or a condition at the end, relative to the size of the
      costates, all in the sizes of the direct method; at least 1e-5 in single precision.
    - `max_iterations`: the largest number of Newton iterations.

    It takes problems in which no limit binds and H has a strict minimum in the control; conditions at the end may depend on
    the state and the time. Design parameters keep the values that the direct method finds.

    The result's certificate is that of the direct solution, with `agreement`: the relative difference of both costs, which
    must be below 1e-8 (1e-3 in single precision).

    Source: Bryson and Ho 1975, ch. 2 and 7.3; Jurdjevic 1997, ch. 12 (costates on Lie groups).
    """

    direct: Collocation = Collocation()
    tolerance: float = 1e-11
    max_iterations: int = eqx.field(static=True, default=30)

    def __check_init__(self) -> None:
        check_indirect(self)

    def run(self, problem: ControlProblem, progress: Callable[..., Any] | None = None) -> Result:
        """Solves one problem.

        **Arguments:** `problem`; `progress`: called with a `Progress` after each iteration of either method.

        **Returns:** a `Result` with `costates`. If the direct method fails, or a limit binds, it is the result of the direct
        method with a status that says so. **Raises:** `TypeError` for a condition on the control or at the first time.
        """
        _checks.check_outside("problem", problem)
        check_no_control_at_end(problem)
        return self.after(self.direct.run(problem, progress), progress)

    def after(self, first: Result, progress: Callable[..., Any] | None = None) -> Result:
        """Solves the problem of `first`, a result of the direct method, starting from this result."""
        check_no_control_at_end(first.problem)
        reason = why_no_start(first)
        if reason is not None:
            return first._replace(converged=False, status=reason)
        search = ExtremalSearch(self, first)
        ending = search.run(progress)
        return search.result(ending)


def why_no_start(first: Result) -> str | None:
    """Why shooting cannot start from the direct solution; None if it can."""
    if not first.converged:
        return f"the direct search did not converge, so that no costates are known: {first.status}"
    transcription, w, duals = first.optimum
    limits = binding_limits(transcription, w, duals)
    if limits:
        named = ", ".join(f"`{x}`" for x in limits)
        return f"{named} binds; Indirect takes problems without limits that bind. The result is that of the direct method"
    least = least_curvature(first)
    if not least > 0:
        return (
            f"the control Hamiltonian has no strict minimum in the control (least curvature {least:.1e}): Indirect needs a "
            "cost that is strictly convex in each control. The result is that of the direct method"
        )
    return None


def least_curvature(first: Result) -> float:
    """The least eigenvalue of ∂²H/∂c² at the nodes, in the sizes of the controls and the cost."""
    transcription = first.optimum[0]
    sizes = np.broadcast_to(size_of(transcription.sizes, "c"), (transcription.n_controls,))
    c = jnp.asarray(first.optimum[1].c)
    q, u = jax.tree.map(lambda x: x[:-1], first.states)
    found = _curvatures(first.problem, first.ts[:-1], q, u, c[:, 0], first.costates[:-1])
    in_sizes = np.asarray(found) * np.outer(sizes, sizes) / float(transcription.cost_unit)
    return float(np.min(np.linalg.eigvalsh(in_sizes)))


@compiled
def _curvatures(problem, ts, q, u, c, costates):
    return jax.vmap(lambda *at: control_hessian(problem, *at))(ts, q, u, c, costates)


def first_nodes(first: Result) -> ExtremalNodes:
    """The first iterate: the nodes and costates of a direct solution."""
    transcription, w, duals = first.optimum
    points, at = (np.asarray(x.points) for x in (transcription.rule, RECORDED))
    c = jnp.einsum("kj,ijm->ikm", jnp.asarray(lagrange(points, at), w.c.dtype), w.c)
    q, u = first.states
    conditions = transcription.cost_unit * duals.conditions
    return ExtremalNodes(q, u, first.costates, conditions, first.ts[-1], c)


class ExtremalSearch(AbstractSearch):
    """The search by Newton's method, whose steps are halved until the residual falls."""

    unit: ClassVar[str] = "step"

    def __init__(self, method: Indirect, first: Result):
        super().__init__(method.max_iterations)
        self.first = first
        self.problem = first.problem
        self.shares, self.nodes = first.optimum[0].shares, first_nodes(first)
        least = 1e-13 if self.nodes.u.dtype == jnp.float64 else 1e-5
        self.tolerance = max(method.tolerance, least)
        self.counts = counts_of(self.nodes, has_free_end_time(self.problem))
        self.scales = scales_of(first.optimum[0], self.counts)
        self.found: Equations | None = None
        self.size = np.inf
        self.stuck = False

    def make_iterations(self) -> None:
        if self.found is None:
            self._evaluate(self.nodes)
            return
        residual, matrix = assembled(self.found, self.counts, self.scales)
        step, before = -least_squares(matrix, residual), self.size
        start = self.nodes
        for halving in range(HALVINGS):
            shorter = 0.5**halving * step
            trial = stepped(self.problem.system.space, start, shorter, self.counts, self.scales)
            self._evaluate(trial)
            if self.size < before:
                return
        self.stuck = True

    def _evaluate(self, nodes: ExtremalNodes) -> None:
        found = equations(self.problem, self.shares, nodes)
        self.size = self._size_of(found) if is_finite(found) else np.inf
        self.found = found
        self.nodes = nodes
        self.note(
            cost=float(found.cost), gradient_norm=self.size, violation=self.size, step=0.0,
        )  # fmt: skip

    def _size_of(self, found: Equations) -> float:
        """The largest residual, in sizes, relative to that of the costates."""
        residual = np.concatenate([np.ravel(found.gaps), np.ravel(found.last)])
        largest = float(np.max(np.abs(residual) / self.scales.equations))
        return largest / size_of_costates(self.nodes, self.scales)

    def verdict(self) -> Verdict | None:
        many = counted(len(self.rows), self.unit)
        if self.size <= self.tolerance:
            return Verdict(True, f"converged after {many}")
        if self.stuck and self.size <= 100 * self.tolerance:
            return Verdict(True, f"converged to rounding after {many}")
        if self.stuck:
            return Verdict(False, f"the gaps of shooting stay at {self.size:.1e} after {many}")
        return None

    def report(self) -> Progress:
        row, nan = self.rows[-1], float("nan")
        return Progress(
            len(self.rows), row["cost"], nan, row["violation"], nan, True, row["seconds"], self.time_left(),
        )  # fmt: skip

    def result(self, ending: Verdict) -> Result:
        """The result at the last iterate, with the agreement of both costs in the certificate."""
        assert self.found is not None
        nodes, first = self.nodes, self.first
        ts = self.problem.ts[0] + self.shares * (nodes.end - self.problem.ts[0])
        control = PiecewisePolynomial(ts, self.found.c, RECORDED.points)
        cost = float(self.found.cost)
        trajectory, departs = replayed(self.problem, control, ts, (nodes.q, nodes.u), self.size)
        result = report(
            self.problem, control, cost, self.size, self.history, self.began, *ending, trajectory,
        )  # fmt: skip
        assert first.certificate is not None
        difference = abs(cost - first.cost) / max(abs(cost), abs(first.cost), 1e-300)
        return result._replace(
            ts=ts,
            states=(nodes.q, nodes.u),
            costates=nodes.costates,
            certificate=with_agreement(first.certificate, difference, ending, nodes.u.dtype),
            optimum=first.optimum,
            mesh_errors=first.mesh_errors,
            open_loop_departure=departs,
        )
