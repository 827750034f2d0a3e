"""Losses ρ(r) of a residual r in units of its noise, and for least squares the residual s(r) with s²/2 = ρ(r).

A robust loss grows slowly for large |r|, so that outliers have little influence. ψ = ρ′.
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
        """The residual s = sign(r) √(2ρ(r)) for least squares, computed without a singularity at r = 0."""
        small = jnp.abs(r) < 1e-3
        safe = jnp.where(small, 1.0, r)
        return jnp.where(small, r, r * jnp.sqrt(2 * self.rho(safe)) / jnp.abs(safe))


class Squares(AbstractLoss):
    """ρ = r²/2: least squares, which is maximum likelihood for Gaussian noise."""

    def rho(self, r: Array) -> Array:
        return r * r / 2

    def psi(self, r: Array) -> Array:
        return r

    def slope(self, r: Array) -> Array:
        return jnp.ones_like(r)

    def transformed(self, r: Array) -> Array:
        return r


class Huber(AbstractLoss):
    """ρ = r²/2 up to |r| = k, linear beyond: k |r| − k²/2. Huber 1964; k = 1.345: efficiency 95 % under Gaussian noise."""

    k: float = 1.345

    def rho(self, r: Array) -> Array:
        size = jnp.abs(r)
        return jnp.where(size < self.k, r * r / 2, self.k * size - self.k**2 / 2)

    def psi(self, r: Array) -> Array:
        return jnp.clip(r, -self.k, self.k)

    def slope(self, r: Array) -> Array:
        return (jnp.abs(r) < self.k).astype(r.dtype)


class SoftL1(AbstractLoss):
    """ρ = k² (√(1 + (r/k)²) − 1): a smooth form of Huber's loss."""

    k: float = 1.345

    def rho(self, r: Array) -> Array:
        return r * r / (1 + jnp.sqrt(1 + (r / self.k) ** 2))  # the same value without cancellation

    def psi(self, r: Array) -> Array:
        return r / jnp.sqrt(1 + (r / self.k) ** 2)

    def slope(self, r: Array) -> Array:
        return (1 + (r / self.k) ** 2) ** -1.5


class Cauchy(AbstractLoss):
    """ρ = k²/2 log(1 + (r/k)²): outliers have almost no influence. k = 2.385: efficiency 95 % under Gaussian noise."""

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
        check_positive("loss.k", loss.k, "It is in units of the noise, 1 to 3 mostly.")
