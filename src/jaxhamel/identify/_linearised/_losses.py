"""Losses ρ(r) of a residual r in units of its noise.

A robust loss grows slowly for large |r|, so that outliers have little influence. A least-squares solver minimises the loss
as ½ Σ s², with the transformed residual s(r) for which s²/2 = ρ(r). ψ is the derivative ρ′.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._checks import check_kind, check_positive


class AbstractLoss(eqx.Module):
    """A loss: an even function ρ(r) with ρ ≈ r²/2 for small |r|; it need not be convex."""

    @abstractmethod
    def rho(self, r: Array) -> Array:
        """The loss ρ(r)."""

    @abstractmethod
    def psi(self, r: Array) -> Array:
        """The loss's derivative ψ(r) = ρ′(r)."""

    @abstractmethod
    def slope(self, r: Array) -> Array:
        """The loss's second derivative ψ′(r)."""

    def transformed(self, r: Array) -> Array:
        """The transformed residual s = sign(r) √(2ρ(r)), differentiable also at r = 0."""
        small = jnp.abs(r) < 1e-3
        safe = jnp.where(small, 1.0, r)
        return jnp.where(small, r, r * jnp.sqrt(2 * self.rho(safe)) / jnp.abs(safe))


class Squares(AbstractLoss):
    """The loss ρ = r²/2 of least squares, which gives the estimate of maximum likelihood for Gaussian noise."""

    def rho(self, r: Array) -> Array:
        return r * r / 2

    def psi(self, r: Array) -> Array:
        return r

    def slope(self, r: Array) -> Array:
        return jnp.ones_like(r)

    def transformed(self, r: Array) -> Array:
        return r


class Huber(AbstractLoss):
    """Huber's loss (1964): ρ = r²/2 up to |r| = k, and k |r| − k²/2 beyond.

    With k = 1.345 the estimate has 95 % of the efficiency of least squares under Gaussian noise.
    """

    k: float = 1.345

    def rho(self, r: Array) -> Array:
        size = jnp.abs(r)
        return jnp.where(size < self.k, r * r / 2, self.k * size - self.k**2 / 2)

    def psi(self, r: Array) -> Array:
        return jnp.clip(r, -self.k, self.k)

    def slope(self, r: Array) -> Array:
        return (jnp.abs(r) < self.k).astype(r.dtype)


class SoftL1(AbstractLoss):
    """The loss ρ = k² (√(1 + (r/k)²) − 1), a smooth form of Huber's loss."""

    k: float = 1.345

    def rho(self, r: Array) -> Array:
        return r * r / (1 + jnp.sqrt(1 + (r / self.k) ** 2))  # the same value without cancellation

    def psi(self, r: Array) -> Array:
        return r / jnp.sqrt(1 + (r / self.k) ** 2)

    def slope(self, r: Array) -> Array:
        return (1 + (r / self.k) ** 2) ** -1.5


class Cauchy(AbstractLoss):
    """Cauchy's loss ρ = k²/2 log(1 + (r/k)²), under which outliers have almost no influence.

    With k = 2.385 the estimate has 95 % of the efficiency of least squares under Gaussian noise.
    """

    k: float = 2.385

    def rho(self, r: Array) -> Array:
        return self.k**2 / 2 * jnp.log1p((r / self.k) ** 2)

    def psi(self, r: Array) -> Array:
        return r / (1 + (r / self.k) ** 2)

    def slope(self, r: Array) -> Array:
        share = (r / self.k) ** 2
        return (1 - share) / (1 + share) ** 2


def check_loss(loss: Any) -> None:
    """Checks that the loss is an `AbstractLoss`, and that its width `k`, if it has one, is positive."""
    check_kind(
        "loss", loss, AbstractLoss, "it must be identify.Squares(), Huber(), SoftL1() or Cauchy()."
    )
    if hasattr(loss, "k"):
        check_positive("loss.k", loss.k, "It is in units of the noise; 1 to 3 is usual.")
