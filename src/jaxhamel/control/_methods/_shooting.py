"""The quadratic model of multiple shooting, assembled from the sparse models of all intervals.

The unknowns are z = (δ_1, …, δ_N, p): increments of the node states x_k = (q_k, u_k) in the tangent space, q_k·exp(δ),
and the free parameters of the control. An interval depends on its two nodes and on the few parameters that act on its
part of the curve, so that its Jacobian has few columns.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxhamel._typing import Control
from jaxhamel.control._problem._costs import constraint_residual, final_residual, running_residual
from jaxhamel.control._problem._curves import free_parameters, support
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import VectorField
from jaxhamel.mechanics._tangent import local, retract, tangent_size
from jaxhamel.simulate._solvers._runge_kutta import Tableau, looped


class Point(NamedTuple):
    """The unknowns at an iteration: node states with a leading axis, and parameters."""

    q: tuple[Any, ...]
    u: Float[Array, "N+1 k"]
    p: Float[Array, " P"]


class QuadraticModel(NamedTuple):
    """The cost as cost + g·z + ½ zᵀHz and the conditions as d + D z, for increments z of a `Point`."""

    cost: Float[Array, ""]
    g: Float[Array, " z"]
    H: Float[Array, "z z"]
    d: Float[Array, " c"]
    D: Float[Array, "c z"]
    tracking: Float[Array, ""]  # ∫ |error|² dt


class Grid(NamedTuple):
    """`active`: the indices of the parameters on which each interval depends, `(N, a)`; the index P marks unused entries."""

    active: Int[Array, "N a"]


def grid_of(problem: ControlProblem) -> Grid:
    """Determines, on the host, the parameters that act in each interval; a is the largest number of them."""
    ts = np.asarray(problem.ts)
    masks = [support(problem.curve, a, b) for a, b in pairwise(ts)]
    width = max(int(mask.sum()) for mask in masks)
    rows = [np.flatnonzero(mask) for mask in masks]
    padded = [np.pad(row, (0, width - len(row)), constant_values=len(masks[0])) for row in rows]
    return Grid(jnp.asarray(np.stack(padded)))


class Shooting(eqx.Module):
    """Evaluates the quadratic model, by `steps` steps of an explicit Runge–Kutta method in each interval."""

    method: Tableau = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    route: str | None = eqx.field(static=True)

    def states(self, problem: ControlProblem, x: Any, control: Control, t0: Any, t1: Any) -> Any:
        """The states at t0 and after each step, from x at t0 to the time t1, `(steps+1, …)`."""
        field = VectorField(self.route)
        h = (t1 - t0) / self.steps

        def rhs(t, y):
            return field(t, y, (problem.system, control))

        def step(y, i):
            y = looped(rhs, self.method, t0 + i * h, h, y)[0]
            return y, y

        _, later = jax.lax.scan(step, x, jnp.arange(self.steps).astype(h.dtype))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), x, later)

    def arc(self, problem: ControlProblem, x: Any, p: Array, t0: Any, t1: Any) -> Any:
        """(residuals whose half square sum is the interval's cost, state at its end, ∫|error|²)."""
        control = free_parameters(problem.curve)[1](p)
        qs, us = self.states(problem, x, control, t0, t1)
        ts = t0 + (t1 - t0) * jnp.linspace(0.0, 1.0, self.steps + 1, dtype=t0.dtype)
        weights = (t1 - t0) * jnp.asarray(quadrature(self.steps), dtype=t0.dtype)

        def running(t, q, u):
            return running_residual(problem.costs, problem.system, t, q, u, control)

        residual = jax.vmap(running)(ts, qs, us) * jnp.sqrt(weights)[:, None]
        end = jax.tree.map(lambda a: a[-1], (qs, us))
        return (
            residual.ravel(),
            (problem.system.space.normalise(end[0]), end[1]),
            self._tracking(problem, ts, qs, weights),
        )

    def _tracking(self, problem, ts, qs, weights):
        """∫ |error|² dt over an interval, 0 without a tracking cost."""
        if problem.tracking is None:
            return jnp.zeros((), ts.dtype)
        error = jax.vmap(problem.tracking.error)(ts, qs)
        return jnp.sum(weights * jnp.sum(error * error, axis=1))

    def defects(self, problem: ControlProblem, grid: Grid, point: Point) -> Float[Array, " c"]:
        """d without derivatives: the gaps at the nodes, then the residuals of the constraints."""

        def gap(active, x, x_next, t0, t1):
            del active
            control = free_parameters(problem.curve)[1](point.p)
            states = self.states(problem, x, control, t0, t1)
            q, u = jax.tree.map(lambda a: a[-1], states)
            return local(problem.system, x_next, (problem.system.space.normalise(q), u))

        gaps = jax.vmap(gap)(grid.active, *_neighbours(point), problem.ts[:-1], problem.ts[1:])
        return jnp.concatenate([gaps.ravel(), conditions(problem, _last_state(point), point.p)])

    def model(self, problem: ControlProblem, grid: Grid, point: Point) -> QuadraticModel:
        """The quadratic model at a point: cost, conditions and their derivatives."""
        blocks = jax.vmap(lambda *args: self._interval(problem, point.p, *args))(
            grid.active, *_neighbours(point), problem.ts[:-1], problem.ts[1:]
        )
        return _assemble(problem, grid, point, blocks)

    def _interval(self, problem, p, active, x, x_next, t0, t1):
        """(H, g, cost, d, D, tracking) of one interval; columns: node, next node, active parameters."""
        n = tangent_size(problem.system)
        dtype = x[1].dtype

        def arc(z):
            changed = p.at[active].add(z[n:], mode="drop")
            residual, end, tracking = self.arc(
                problem, retract(problem.system, x, z[:n]), changed, t0, t1
            )
            gap = local(problem.system, x_next, end)
            return (residual, gap), (residual, gap, end, tracking)

        zero = jnp.zeros(n + active.shape[0], dtype)
        (J, D), (r, d, end, tracking) = jax.jacfwd(arc, has_aux=True)(zero)

        def gap_of_next(z):
            return local(problem.system, retract(problem.system, x_next, z), end)

        D_next = jax.jacfwd(gap_of_next)(zero[:n])
        D = jnp.concatenate([D[:, :n], D_next, D[:, n:]], axis=1)
        J = jnp.concatenate([J[:, :n], jnp.zeros((J.shape[0], n), dtype), J[:, n:]], axis=1)
        return J.T @ J, J.T @ r, jnp.dot(r, r) / 2, d, D, tracking


def move(problem: ControlProblem, point: Point, z: Float[Array, " z"]) -> Point:
    """The point with increments z; the first node is fixed."""
    n, N = tangent_size(problem.system), point.u.shape[0] - 1
    nodes = jnp.concatenate([jnp.zeros(n, z.dtype), z[: n * N]]).reshape(N + 1, n)
    q, u = jax.vmap(lambda x, delta: retract(problem.system, x, delta))((point.q, point.u), nodes)
    return Point(q, u, point.p + z[n * N :])


def quadrature(steps: int) -> Float[np.ndarray, " steps+1"]:
    """Newton–Cotes weights on [0, 1] with equal steps, by groups of 6, 4 or 2, all positive.

    On six steps the rule is exact to degree 7, which integrates a spline's θ̈² exactly on each segment. An optimiser would
    exploit the error of a coarser rule (with Simpson's rule on two steps the minimum is 0.06 % too low).
    """
    group = next(size for size in (6, 4, 2) if steps % size == 0)
    weights = np.zeros(steps + 1)
    for start in range(0, steps, group):
        weights[start : start + group + 1] += _NEWTON_COTES[group] * group / steps
    return weights


_NEWTON_COTES = {
    2: np.array([1, 4, 1]) / 6,
    4: np.array([7, 32, 12, 32, 7]) / 90,
    6: np.array([41, 216, 27, 272, 27, 216, 41]) / 840,
}


def _neighbours(point: Point):
    """(nodes 0 … N−1, nodes 1 … N): the starts and the ends of all intervals."""
    x = (point.q, point.u)
    return jax.tree.map(lambda a: a[:-1], x), jax.tree.map(lambda a: a[1:], x)


def _last_state(point: Point):
    return jax.tree.map(lambda a: a[-1], (point.q, point.u))


def conditions(problem, x, p):
    """The residuals of the constraints at both ends, for the state `x` at the last node and the parameters p."""
    control = free_parameters(problem.curve)[1](p)
    start, end = problem.ts[0], problem.ts[-1]

    def at(at_end, t, q, u):
        return constraint_residual(problem.constraints, at_end, problem.system, t, q, u, control)

    return jnp.concatenate([at(False, start, problem.q0, problem.u0), at(True, end, x[0], x[1])])


def _assemble(problem, grid: Grid, point: Point, blocks) -> QuadraticModel:
    """Sums the blocks of all intervals; the first node, which is fixed, has no column."""
    Hs, gs, costs, ds, Ds, tracking = blocks
    n, N, P = tangent_size(problem.system), ds.shape[0], point.p.shape[0]
    size = n * (N + 1) + P
    k = jnp.arange(N)[:, None]
    column = jnp.concatenate([k * n + jnp.arange(2 * n)[None, :], n * (N + 1) + grid.active], 1)
    row = k * n + jnp.arange(n)[None, :]
    dtype = gs.dtype
    H = (
        jnp.zeros((size, size), dtype)
        .at[column[:, :, None], column[:, None, :]]
        .add(Hs, mode="drop")
    )
    g = jnp.zeros(size, dtype).at[column].add(gs, mode="drop")
    D = jnp.zeros((n * N, size), dtype).at[row[:, :, None], column[:, None, :]].add(Ds, mode="drop")
    return _with_ends(
        problem,
        point,
        QuadraticModel(jnp.sum(costs), g[n:], H[n:, n:], ds.ravel(), D[:, n:], jnp.sum(tracking)),
    )


def _with_ends(problem, point: Point, model: QuadraticModel) -> QuadraticModel:
    """Adds the final costs and the constraints."""
    n, last = tangent_size(problem.system), _last_state(point)

    def ends(z):
        x, p = retract(problem.system, last, z[:n]), point.p + z[n:]
        control = free_parameters(problem.curve)[1](p)
        r = final_residual(problem.costs, problem.system, problem.ts[-1], *x, control)
        d = conditions(problem, x, p)
        return (r, d), (r, d)

    (J, D), (r, d) = jax.jacfwd(ends, has_aux=True)(jnp.zeros(n + point.p.shape[0], model.g.dtype))
    start = model.g.shape[0] - n - point.p.shape[0]
    D = jnp.concatenate([jnp.zeros((d.shape[0], start), D.dtype), D], axis=1)
    return QuadraticModel(
        model.cost + jnp.dot(r, r) / 2,
        model.g.at[start:].add(J.T @ r),
        model.H.at[start:, start:].add(J.T @ J),
        jnp.concatenate([model.d, d]),
        jnp.concatenate([model.D, D]),
        model.tracking,
    )
