"""Base class of the solvers for Lie groups: their space, and their interpolant."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from jaxhamel._typing import Configuration
from jaxhamel.geometry import AbstractSpace
from jaxhamel.simulate._solvers._factors import advance, apply


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
        return advance(self.space, self.q0, phi), rest


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
    """The space as part of a step's data, so that its parameters (such as a helix' pitch) can be differentiated."""
    return jax.tree.map(jnp.asarray, space)
