"""The nonlinear program of a collocation: unknowns, defects, costs and limits.

On interval i the state is X = (ξ, u), q = q_i·exp(ξ), in the chart about the interval's first node q_i. It is the
polynomial with

    Σ_k ℓ_k′(τ_j) X_k = h f(X_j) ,   f = (dexp⁻¹_{−ξ} v, u̇) ,   X_0 = (0, u_i) ,
    q_{i+1} = q_i exp(ξ_end) ,   X_end = Σ_k ℓ_k(1) X_k .

The unknowns of nodes and stages are coordinates about a base q̄_i, which is the node before a step of Newton's method
(`_charts/_bases.py`). The first interval has its chart about the problem's initial state, from which free coordinates are
counted, and X_0 = x_0. Costs are integrated by the rule's quadrature.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._collocation._points import OneInterval, PointRule
from jaxhamel.control._problem._boundary import AbstractBoundaryConditions
from jaxhamel.control._problem._costs import constraint_residual, final_residual, running_residual
from jaxhamel.control._problem._limits import DesignParameter, with_designs
from jaxhamel.control._problem._scalar_costs import FinalCost, InitialCost, RunningCost, total
from jaxhamel.control._scaling._sizes import TypicalSizes
from jaxhamel.mechanics import Constant, System
from jaxhamel.mechanics._acceleration import motion
from jaxhamel.simulate._solvers._base_classes import apply


class CollocationPoint(NamedTuple):
    """An iterate of the search: the unknowns of the transcription, and the bases of its charts.

    - `q`: the bases q̄, with a leading axis `(N+1,)`; `x`: the nodes (ξ, u) `(N+1, d)`; the first base stays.
    - `X`: stages `(N, s, d)`; `c`: controls `(N, s, m)`; `p`: the end time where it is free, the free coordinates of the
      first node, the design parameters, the lengths between moving nodes as shares of the duration.
    - `slack`: of the limits, at the collocation points of each interval, `(N, s, r)`.
    """

    q: Configuration
    x: Float[Array, "N+1 d"]
    X: Float[Array, "N s d"]
    c: Float[Array, "N s m"]
    p: Float[Array, " p"]
    slack: Float[Array, "N s r"]


class Interval(NamedTuple):
    """Bases and nodes at both ends of an interval; its start and length as shares of the duration.

    `by_nodes`: the derivatives of start and length by the F lengths between moving nodes among p, `(2, F)`; `start` and
    `length` are then their values with all of these lengths 0.
    """

    q: Configuration
    x: Float[Array, " d"]
    next_q: Configuration
    next_x: Float[Array, " d"]
    start: Scalar
    length: Scalar
    by_nodes: Float[Array, "2 F"] | None = None


class Transcription(eqx.Module):
    """A problem on a mesh. All costs are divided by `cost_unit`.

    - `shares`: the times of the nodes as shares of the duration, from 0 to 1, `(N+1,)`.
    - `moving`: numbers of nodes whose shares are unknowns; the nodes between these keep their proportions. Among p are the
      lengths between moving nodes, without the one of the number `remainder`, which follows from the others.
    - `sizes`: the sizes of unknowns and equations, by which the search scales them; None: all are 1.
    """

    system: System
    costs: tuple[Any, ...]
    constraints: tuple[Any, ...]
    limits: tuple[Any, ...]
    t0: Scalar
    duration: Scalar
    shares: Float[Array, " N+1"]
    lower: Float[Array, "N s r"]
    upper: Float[Array, "N s r"]
    p_lower: Float[Array, " p"]
    p_upper: Float[Array, " p"]
    cost_unit: Scalar
    rule: PointRule = eqx.field(static=True)
    n_controls: int = eqx.field(static=True)
    free_time: bool = eqx.field(static=True)
    free_start: tuple[int, ...] = eqx.field(static=True)  # coordinates of the first node
    designs: tuple[DesignParameter, ...]
    moving: tuple[int, ...] = eqx.field(static=True)
    sizes: TypicalSizes | None = None
    remainder: int = eqx.field(static=True, default=0)

    @property
    def size(self) -> int:
        """d = n + k, the number of coordinates of a state."""
        return self.system.space.dim + self.system.n_independent

    @property
    def n_parameters(self) -> int:
        """The number of the problem's parameters p: end time, first node, design parameters, moving nodes."""
        sizes = [np.size(design.where(self.system)) for design in self.designs]
        return self.n_own + sum(sizes) + len(self.moving)

    @property
    def n_own(self) -> int:
        """The number of parameters before the design parameters in p: free end time, free coordinates of the first node."""
        return int(self.free_time) + len(self.free_start)

    def designed(self, p: Float[Array, " p"]) -> System:
        """The system with the design parameters among p."""
        return with_designs(self.system, self.designs, p[self.n_own :])

    def span(self, p: Float[Array, " p"]) -> Scalar:
        """The duration t_N − t_0."""
        return p[0] - self.t0 if self.free_time else self.duration

    def initial_state(
        self, w: CollocationPoint, p: Float[Array, " p"]
    ) -> tuple[Configuration, Float[Array, " k"]]:
        """(q, u) at the first time, with the free coordinates of the first node from p."""
        x, n = w.x[0], self.system.space.dim
        if self.free_start:
            x = x.at[np.asarray(self.free_start)].set(p[int(self.free_time) : self.n_own])
        return self.system.space.retract(along(w.q, 0), x[:n]), x[n:]

    def shares_at(self, p: Float[Array, " p"]) -> Float[Array, " N+1"]:
        """The times of the nodes as shares of the duration, with the lengths between moving nodes among p."""
        if not self.moving:
            return self.shares
        weights = self._weights_of_moving()
        return weights[:, :-1] @ self._of_moving(p) + weights[:, -1]

    def _of_moving(self, p: Float[Array, " p"]) -> Float[Array, " F"]:
        return p[self.n_parameters - len(self.moving) : self.n_parameters]

    def _weights_of_moving(self) -> Float[Array, "N+1 F+1"]:
        """The shares of all nodes by the lengths between moving nodes among p, and their constant part."""
        ends = np.array([0, *self.moving, self.shares.shape[0] - 1])
        after = np.clip(np.searchsorted(ends, np.arange(ends[-1] + 1), "right"), 1, len(ends) - 1)
        a, b = self.shares[ends[after - 1]], self.shares[ends[after]]
        part = ((self.shares - a) / (b - a))[:, None]
        one = jnp.asarray(self._ends_by_lengths(), self.shares.dtype)
        return (1 - part) * one[after - 1] + part * one[after]

    def _ends_by_lengths(self) -> Float[np.ndarray, "F+2 F+1"]:
        """The shares of the first node, the moving nodes and the last node by the lengths among p, and their constant part.

        The length left over is 1 less the others.
        """
        count = len(self.moving)
        of_lengths = np.tril(np.ones((count + 2, count + 1)), -1)
        left = of_lengths[:, self.remainder : self.remainder + 1]
        others = np.delete(of_lengths, self.remainder, axis=1)
        return np.concatenate([others - left, left], axis=1)

    def times(self, p: Float[Array, " p"]) -> Float[Array, " N+1"]:
        """The times t_i of the nodes."""
        return self.t0 + self.shares_at(p) * self.span(p)

    def intervals(self, w: CollocationPoint) -> Interval:
        """All intervals, along a leading axis."""
        before, after = along((w.q, w.x), slice(None, -1)), along((w.q, w.x), slice(1, None))
        shares, by = self.shares, None
        if self.moving:
            weights = self._weights_of_moving()
            by = jnp.stack([weights[:-1, :-1], jnp.diff(weights[:, :-1], axis=0)], axis=1)
            shares = weights[:, -1]
        ends = before[0], before[1], after[0], after[1]
        return Interval(*ends, shares[:-1], jnp.diff(shares), by)

    def _window(self, interval: Interval, p: Float[Array, " p"]) -> tuple[Scalar, Scalar]:
        """(start, length) of an interval, as shares of the duration."""
        if interval.by_nodes is None:
            return interval.start, interval.length
        displacement = interval.by_nodes @ self._of_moving(p)
        return interval.start + displacement[0], interval.length + displacement[1]

    def split(self, y: Float[Array, " y"]) -> tuple[Array, Array, Array]:
        """Splits the unknowns of a stage into (X, c, p)."""
        d, m = self.size, self.n_controls
        return y[:d], y[d : d + m], y[d + m :]

    def states(self, w: CollocationPoint) -> tuple[Configuration, Float[Array, "N+1 k"]]:
        """(q, u) at the nodes."""
        n, space = self.system.space.dim, self.system.space

        def configuration(q, xi):
            return space.normalise(space.retract(q, xi))

        return jax.vmap(configuration)(w.q, w.x[:, :n]), w.x[:, n:]

    def place(
        self, interval: Interval, share: Scalar, y: Float[Array, " y"]
    ) -> tuple[tuple[Any, ...], Array, Scalar]:
        """((system, t, q, u, control), ξ, h) at a share of an interval."""
        X, c, p = self.split(y)
        n, space, span = self.system.space.dim, self.system.space, self.span(p)
        system = self.designed(p)
        q = space.retract(interval.q, X[:n])
        start, length = self._window(interval, p)
        t = self.t0 + (start + share * length) * span
        return (system, t, q, X[n:], Constant(c)), X[:n], length * span

    def stage(
        self, interval: Interval, share: Scalar, weight: Scalar, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " d"], Scalar]:
        """Returns (the rate h f, the cost h w (½|r|² + value) / cost_unit) at a collocation point."""
        rate, r, value, h = self.stage_terms(interval, share, y)
        return rate, h * weight * (0.5 * jnp.sum(r * r) + value) / self.cost_unit

    def stage_terms(
        self, interval: Interval, share: Scalar, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " d"], Float[Array, " k"], Scalar, Scalar]:
        """(h f, r, value, h) at a collocation point; the residuals r and the value of running costs are not scaled."""
        at, xi, h = self.place(interval, share, y)
        value = total(RunningCost, self.costs, *at) + jnp.zeros((), y.dtype)
        return h * self._rate(at, xi), running_residual(self.costs, *at), value, h

    def rate(self, interval: Interval, share: Scalar, y: Float[Array, " y"]) -> Float[Array, " d"]:
        """The rate h f at a share of an interval."""
        at, xi, h = self.place(interval, share, y)
        return h * self._rate(at, xi)

    def _rate(self, at: tuple[Any, ...], xi: Float[Array, " n"]) -> Float[Array, " d"]:
        """The rate f = (dexp⁻¹_{−ξ} v, u̇) of the state in its chart."""
        v, u_dot = motion(*at)
        return jnp.concatenate([apply("dexpinv", self.system.space, -xi, v), u_dot])

    def limit(self, interval: Interval, share: Scalar, y: Float[Array, " y"]) -> Float[Array, " r"]:
        """The values of the functions of all path limits."""
        at, _, _ = self.place(interval, share, y)
        parts = [x.residual(*at) for x in self.limits]
        return jnp.concatenate([jnp.zeros(0, y.dtype), *parts])

    def end(self, interval: Interval, X: Float[Array, " d"]) -> Float[Array, " d"]:
        """X_end in the chart of the next node, minus x_{i+1}."""
        n, space = self.system.space.dim, self.system.space
        xi = space.local(interval.next_q, space.retract(interval.q, X[:n]))
        return jnp.concatenate([xi, X[n:]]) - interval.next_x

    def first(
        self, w: CollocationPoint, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " r1"], Scalar]:
        """(residuals of the conditions, cost / `cost_unit`) at the first time, for y = (c_0, p)."""
        c, p = self._controls(y)
        length = self.shares_at(p)[1] * self.span(p)
        control = OneInterval(self.t0, length, c, self.rule.points)
        at = (self.designed(p), self.t0, *self.initial_state(w, p), control)
        value = total(InitialCost, self.costs, *at)
        cost = (value + jnp.zeros((), y.dtype)) / self.cost_unit
        return constraint_residual(self.constraints, False, *at), cost

    def last(
        self, w: CollocationPoint, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " r2"], Scalar]:
        """(residuals of the conditions, cost / `cost_unit`) at the last time, for y = (x_N, c_{N−1}, p)."""
        d = self.size
        c, p = self._controls(y[d:])
        n = self.system.space.dim
        q, u = self.system.space.retract(along(w.q, -1), y[:n]), y[n:d]
        t = self.t0 + self.span(p)
        shares = self.shares_at(p)
        length = (shares[-1] - shares[-2]) * self.span(p)
        control = OneInterval(t - length, length, c, self.rule.points)
        at = (self.designed(p), t, q, u, control)
        r = final_residual(self.costs, *at)
        conditions = [constraint_residual(self.constraints, True, *at)]
        links = [x for x in self.constraints if isinstance(x, AbstractBoundaryConditions)]
        conditions += [x.between(at[0], self.initial_state(w, p), (q, u)) for x in links]
        values = total(FinalCost, self.costs, *at)
        return jnp.concatenate(conditions), (0.5 * jnp.sum(r * r) + values) / self.cost_unit

    def _controls(self, y: Float[Array, " y"]) -> tuple[Float[Array, "s m"], Float[Array, " p"]]:
        """Splits (c, p) into the controls of one interval and the parameters."""
        s, m = len(self.rule.points), self.n_controls
        return y[: s * m].reshape(s, m), y[s * m :]

    def constants(self, name: str) -> Array:
        """The field `name` of the quadrature rule, such as its points or weights, as an array."""
        return jnp.asarray(np.asarray(getattr(self.rule, name)), self.shares.dtype)


def along(tree: Any, index: Any) -> Any:
    """Indexes the leading axis of each array of a tree."""
    return jax.tree.map(lambda x: x[index], tree)
