"""Base classes of the solvers on groups, and the operators that they share.

The solvers are our own or wrap a method of diffrax. The operators dexp and dexp⁻¹ of a configuration space act on velocities
and covectors; on a product of spaces they act factor by factor, without a block matrix.
"""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Velocity
from jaxhamel.geometry import AbstractSpace, Product
from jaxhamel.geometry._space import AbstractAbelianSpace


def apply(operator: str, space: AbstractSpace, phi: Velocity, vector: Velocity) -> Velocity:
    """M_φ x for M the space's `operator`, "dexp" or "dexpinv"."""
    return _each(lambda matrix, x: matrix @ x, operator, space, phi, vector)


def apply_dual(
    operator: str, space: AbstractSpace, phi: Velocity, covector: Float[Array, " n"]
) -> Float[Array, " n"]:
    """M_φᵀ p for M the space's `operator`, "dexp" or "dexpinv"."""
    return _each(lambda matrix, p: p @ matrix, operator, space, phi, covector)


def _each(product, operator, space, phi, x):
    if isinstance(space, Product):
        factors = zip(space.spaces, space.split(phi), space.split(x), strict=True)
        return jnp.concatenate([_each(product, operator, *factor) for factor in factors])
    if isinstance(space, AbstractAbelianSpace):
        return x
    return product(getattr(space, operator)(phi), x)


def retracted(space: AbstractSpace, q: Configuration, delta: Velocity) -> Configuration:
    """q·exp(δ), normalised against rounding: the end of a step."""
    return space.normalise(space.retract(q, delta))


class GroupHermite(diffrax.AbstractLocalInterpolation):
    """Cubic Hermite interpolation between two states (q, rest), in exponential coordinates around the first:

        q(θ) = q₀·exp(φ(θ)) ,   φ(0) = 0 ,   φ′(0) = h v₀ ,   φ(1) = log(q₀⁻¹ q₁) ,   φ′(1) = dexp⁻¹_{−φ(1)} h v₁ .

    Its error is O(h⁴), also for the rest if its slopes at both ends are given; with both slopes equal to rest₁ − rest₀ the
    rest is interpolated linearly.
    """

    t0: Any
    t1: Any
    space: AbstractSpace
    q0: Configuration
    q1: Configuration
    dq0: Any  # h v, at the two ends
    dq1: Any
    rest0: Any
    rest1: Any
    drest0: Any  # h d(rest)/dt
    drest1: Any

    def evaluate(self, t0, t1=None, left=True):
        del left
        if t1 is not None:
            return jax.tree.map(jnp.subtract, self.evaluate(t1), self.evaluate(t0))
        span = self.t1 - self.t0
        theta = (t0 - self.t0) / jnp.where(span == 0, 1, span)
        phi1 = self.space.local(self.q0, self.q1)
        slope1 = apply("dexpinv", self.space, -phi1, self.dq1)
        phi = _cubic(theta, jnp.zeros_like(phi1), phi1, self.dq0, slope1)
        rest = jax.tree.map(
            lambda *ends: _cubic(theta, *ends), self.rest0, self.rest1, self.drest0, self.drest1
        )
        return retracted(self.space, self.q0, phi), rest


def _cubic(theta, y0, y1, d0, d1):
    """The cubic with values y and slopes d at θ = 0 and 1, from the straight line between the values."""
    theta = jnp.asarray(theta, y0.dtype)
    line = y1 - y0
    bend = (1 - theta) * (d0 - line) + theta * (line - d1)
    return y0 + theta * (line + (1 - theta) * bend)


class AbstractGroupSolver(diffrax.AbstractSolver[Any]):
    """A solver of states (q, rest) that knows the group q moves on."""

    space: eqx.AbstractVar[AbstractSpace | None]

    term_structure: ClassVar[type] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = GroupHermite

    def on(self, space: AbstractSpace) -> "AbstractGroupSolver":
        """The same solver on a space; a solver that already has a space keeps it."""
        if self.space is not None:
            return self
        return eqx.tree_at(lambda s: s.space, self, space, is_leaf=lambda x: x is None)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)


def traced(space: AbstractSpace | None):
    """The space with arrays as parameters, for the data of a step, so that a helix' pitch, say, can be differentiated."""
    return jax.tree.map(jnp.asarray, space)


class AbstractWrappedMethod(diffrax.AbstractWrappedSolver[Any]):
    """Base class of solvers that wrap a method of diffrax so that its steps stay in the configuration space.

    States are pairs (q, rest).
    """

    solver: eqx.AbstractVar[Any]
    space: eqx.AbstractVar[AbstractSpace]
    # diffrax's ForwardMode and DirectAdjoint set this field on anything that is a Runge–Kutta method (see `inner`).
    scan_kind: eqx.AbstractVar[str | None]

    term_structure: ClassVar[type] = diffrax.AbstractTerm

    def order(self, terms: Any) -> Any:
        return self.solver.order(terms)

    def error_order(self, terms: Any) -> Any:
        return self.solver.error_order(terms)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return self.solver.func(terms, t0, y0, args)

    @property
    def root_finder(self) -> Any:
        """The root finder of an implicit method; diffrax sets its tolerances."""
        return self.solver.root_finder

    @property
    def root_find_max_steps(self) -> Any:
        return self.solver.root_find_max_steps

    @property
    def inner(self) -> Any:
        """The inner method, with the kind of loop over stages that the adjoint requires.

        Forward and direct adjoints set `scan_kind` on the solver that they receive, which is this wrapper; the loop itself
        is in the inner method.
        """
        if self.scan_kind is None:
            return self.solver
        return with_scan_kind(self.solver, self.scan_kind)


def with_scan_kind(solver, scan_kind):
    """The method with this kind of loop over its stages, also inside a `HalfSolver`; unchanged if it has a kind already."""
    if isinstance(solver, diffrax.HalfSolver):
        return diffrax.HalfSolver(with_scan_kind(solver.solver, scan_kind))
    if getattr(solver, "scan_kind", "none of its own") is not None:
        return solver
    return eqx.tree_at(lambda s: s.scan_kind, solver, scan_kind, is_leaf=lambda x: x is None)
