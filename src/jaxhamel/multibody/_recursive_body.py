"""A tree of links as one of the bodies of Gauss' principle."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.mechanics import symmetric_solve
from jaxhamel.multibody._recursion import Links

Row = Float[Array, "1 n"]


class RecursiveBody(eqx.Module):
    """A tree whose velocities are v itself, so that Gauss' function is ½ (v̇ − M⁻¹ f)·M (v̇ − M⁻¹ f) and its minimum M v̇ = f,
    with M by composite rigid bodies and f by recursive Newton–Euler.

    **Fields:** `links`: the links in the present configuration; `spread`: G of rates = G v, None for the identity;
    `velocity`: v, `(1, n)`; `force`: the generalised forces but those of gravity and inertia, `(n,)`.
    """

    links: Links
    spread: Float[Array, "r n"] | None
    velocity: Row
    force: Float[Array, " n"]

    def velocities(self) -> Row:
        """The velocity v, on whose time derivative Gauss' function depends."""
        return self.velocity

    def momentum_rate(self, rate: Row) -> Row:
        """M v̇ − f for the given v̇, by recursive Newton–Euler."""
        v, rate = self.velocity[0], rate[0]
        if self.spread is None:
            return (self.links.forces(v, rate) - self.force)[None]
        along = self.links.forces(self.spread @ v, self.spread @ rate)
        return (self.spread.T @ along - self.force)[None]

    def weigh(self, column: Row) -> Row:
        """The product of M and one column of ∂v/∂u."""
        return (self._mass_matrix() @ column[0])[None]

    def constraint(self, rate: Row) -> Scalar:
        """Gauss' function at the given v̇."""
        residual = self.momentum_rate(rate)[0]
        return 0.5 * jnp.dot(residual, symmetric_solve(self._mass_matrix(), residual))

    def _mass_matrix(self) -> Float[Array, "n n"]:
        of_rates = self.links.mass_matrix()
        return of_rates if self.spread is None else self.spread.T @ of_rates @ self.spread
