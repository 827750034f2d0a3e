"""The nonlinear program of a collocation: unknowns, defects, costs and limits.

On interval i, with the state at its start at q_i·exp(δ_q), u_i + δ_u, a stage has X = (ξ, u), q = q_i·exp(δ_q)·exp(ξ), and

    Σ_k ℓ_k′(τ_j) X_k = h f(X_j) ,   f = (dexp⁻¹_{−ξ} v, u̇) ,   X_0 = (0, u_i + δ_u) ,
    δ_{i+1} = (log(q_{i+1}⁻¹ q_i exp(δ_q) exp(ξ_end)), u_end − u_{i+1}) ,   X_end = Σ_k ℓ_k(1) X_k .

The increments δ are those of one iteration, after which the nodes move to q_i·exp(δ_q): the coefficient of the next
node's increment is −1, and its chart is never left. Costs are integrated by the rule's quadrature.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._collocation._points import PointRule
from jaxhamel.control._collocation._polynomial import OneInterval
from jaxhamel.control._problem._costs import constraint_residual, final_residual, running_residual
from jaxhamel.mechanics import Constant, System
from jaxhamel.mechanics._acceleration import motion
from jaxhamel.mechanics._tangent import local, retract
from jaxhamel.simulate._solvers._factors import apply


class CollocationPoint(NamedTuple):
    """An iterate.

    - `q`, `u`: the nodes, with a leading axis `(N+1,)`, of which the first is fixed; `X`: stages `(N, s, d)`; `c`: controls
      `(N, s, m)`; `p`: the end time, `(1,)`, or nothing.
    - `slack`: of the limits, at M places of each interval, `(N, M, r)`.
    """

    q: Configuration
    u: Float[Array, "N+1 k"]
    X: Float[Array, "N s d"]
    c: Float[Array, "N s m"]
    p: Float[Array, " p"]
    slack: Float[Array, "N M r"]


class Interval(NamedTuple):
    """The nodes at both ends of an interval, its start and length as shares of the whole time."""

    q: Configuration
    u: Float[Array, " k"]
    next_q: Configuration
    next_u: Float[Array, " k"]
    start: Scalar
    length: Scalar


class Transcription(eqx.Module):
    """A problem on a mesh; `shares` are its times as shares of the whole, from 0 to 1, `(N+1,)`."""

    system: System
    costs: tuple[Any, ...]
    constraints: tuple[Any, ...]
    limits: tuple[Any, ...]
    t0: Scalar
    duration: Scalar
    shares: Float[Array, " N+1"]
    lower: Float[Array, "N 1 r"]
    upper: Float[Array, "N 1 r"]
    p_lower: Float[Array, " p"]
    p_upper: Float[Array, " p"]
    rule: PointRule = eqx.field(static=True)
    places: tuple[float, ...] = eqx.field(static=True)  # of limits in an interval
    n_controls: int = eqx.field(static=True)
    free_time: bool = eqx.field(static=True)

    @property
    def size(self) -> int:
        """d = n + k."""
        return self.system.space.dim + self.system.n_independent

    def span(self, p: Float[Array, " p"]) -> Scalar:
        """t_N − t_0."""
        return p[0] - self.t0 if self.free_time else self.duration

    def times(self, p: Float[Array, " p"]) -> Float[Array, " N+1"]:
        """t_i."""
        return self.t0 + self.shares * self.span(p)

    def intervals(self, w: CollocationPoint) -> Interval:
        """All intervals, along a leading axis."""
        before, after = along((w.q, w.u), slice(None, -1)), along((w.q, w.u), slice(1, None))
        lengths = jnp.diff(self.shares)
        return Interval(before[0], before[1], after[0], after[1], self.shares[:-1], lengths)

    def split(self, y: Float[Array, " y"]) -> tuple[Array, Array, Array, Array]:
        """(δ, X, c, p)."""
        d, m = self.size, self.n_controls
        return y[:d], y[d : 2 * d], y[2 * d : 2 * d + m], y[2 * d + m :]

    def place(self, interval: Interval, share: Scalar, y: Float[Array, " y"]):
        """(t, q, u, control, ξ, h) at a share of an interval."""
        delta, X, c, p = self.split(y)
        n, space, span = self.system.space.dim, self.system.space, self.span(p)
        q = space.retract(space.retract(interval.q, delta[:n]), X[:n])
        t = self.t0 + (interval.start + share * interval.length) * span
        return t, q, X[n:], Constant(c), X[:n], interval.length * span

    def stage(
        self, interval: Interval, share: Scalar, weight: Scalar, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " d"], Scalar]:
        """(h f, h w ½|r|²) at a collocation point."""
        t, q, u, control, xi, h = self.place(interval, share, y)
        v, u_dot = motion(self.system, t, q, u, control)
        rate = jnp.concatenate([apply("dexpinv", self.system.space, -xi, v), u_dot])
        r = running_residual(self.costs, self.system, t, q, u, control)
        return h * rate, 0.5 * h * weight * jnp.sum(r * r)

    def limit(self, interval: Interval, share: Scalar, y: Float[Array, " y"]) -> Float[Array, " r"]:
        """The functions of all path limits."""
        t, q, u, control, _, _ = self.place(interval, share, y)
        parts = [x.residual(self.system, t, q, u, control) for x in self.limits]
        return jnp.concatenate([jnp.zeros(0, u.dtype), *parts])

    def end(
        self, interval: Interval, delta: Float[Array, " d"], X: Float[Array, " d"]
    ) -> Float[Array, " d"]:
        """δ_{i+1} where the polynomial ends, from X_end."""
        n, space = self.system.space.dim, self.system.space
        q = space.retract(space.retract(interval.q, delta[:n]), X[:n])
        return local(self.system, (interval.next_q, interval.next_u), (q, X[n:]))

    def first(self, w: CollocationPoint, y: Float[Array, " y"]) -> Float[Array, " r1"]:
        """The conditions at the first time, y = (c_0, p)."""
        c, p = self._controls(y)
        length = self.shares[1] * self.span(p)
        control = OneInterval(self.t0, length, c, self.rule.points)
        at = (self.system, self.t0, along(w.q, 0), w.u[0], control)
        return constraint_residual(self.constraints, False, *at)

    def last(
        self, w: CollocationPoint, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " r2"], Scalar]:
        """The conditions and ½|r_end|² at the last time, y = (δ_N, c_{N−1}, p)."""
        d = self.size
        c, p = self._controls(y[d:])
        q, u = retract(self.system, (along(w.q, -1), w.u[-1]), y[:d])
        t = self.t0 + self.span(p)
        length = (self.shares[-1] - self.shares[-2]) * self.span(p)
        control = OneInterval(t - length, length, c, self.rule.points)
        r = final_residual(self.costs, self.system, t, q, u, control)
        conditions = constraint_residual(self.constraints, True, self.system, t, q, u, control)
        return conditions, 0.5 * jnp.sum(r * r)

    def _controls(self, y: Float[Array, " y"]) -> tuple[Float[Array, "s m"], Float[Array, " p"]]:
        s, m = len(self.rule.points), self.n_controls
        return y[: s * m].reshape(s, m), y[s * m :]

    def constants(self, name: str) -> Array:
        """A row or matrix of the rule as an array."""
        return jnp.asarray(np.asarray(getattr(self.rule, name)), self.shares.dtype)


def along(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda x: x[index], tree)
