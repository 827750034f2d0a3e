"""The control of a collocation: one polynomial on each interval, through its values at the collocation points."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar, Time
from jaxhamel.control._problem._curves import AbstractCurve


class PiecewisePolynomial(AbstractCurve):
    """A control that is a polynomial of degree s − 1 on each of N intervals:

        c(t) = Σ_j ℓ_j(τ) c_ij ,    τ = (t − t_i) / (t_{i+1} − t_i) ,

    ℓ_j being the Lagrange basis of the collocation points τ_1 … τ_s. It may jump at the times t_i, where it has the value
    of the interval that begins. Before the first and after the last time it keeps its value there.

    - `ts`: t_i, `(N+1,)` [s]; `values`: c_ij, `(N, s, m)`, in the unit of the control; `points`: τ_j in [0, 1].
    """

    ts: Float[Array, " N+1"]
    values: Float[Array, "N s m"]
    points: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, t: Time) -> Float[Array, " m"]:
        """c(t)."""
        t = jnp.clip(jnp.asarray(t, self.ts.dtype), self.ts[0], self.ts[-1])
        index = jnp.searchsorted(self.ts, t, side="right") - 1
        index = jnp.clip(index, 0, self.ts.shape[0] - 2)
        share = (t - self.ts[index]) / (self.ts[index + 1] - self.ts[index])
        return basis_at(self.points, share) @ self.values[index]

    @property
    def free(self) -> "PiecewisePolynomial":
        """The values."""
        return eqx.tree_at(lambda s: (s.ts, s.values), self, (False, True))


def basis_at(points: tuple[float, ...], share: Scalar) -> Float[Array, " s"]:
    """ℓ_j(τ)."""
    rows = []
    for j, own in enumerate(points):
        row = jnp.ones_like(share)
        for other in (*points[:j], *points[j + 1 :]):
            row = row * ((share - other) / (own - other))
        rows.append(row)
    return jnp.stack(rows)


class OneInterval(eqx.Module):
    """The polynomial of one interval as a control, for conditions at the first and the last time."""

    start: Scalar
    length: Scalar
    values: Float[Array, "s m"]
    points: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, t: Time) -> Float[Array, " m"]:
        """c(t)."""
        return basis_at(self.points, (t - self.start) / self.length) @ self.values
