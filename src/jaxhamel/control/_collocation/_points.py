"""Collocation points on [0, 1], the matrices of the polynomials through them, and controls that are such a polynomial on
each interval.

A polynomial of degree s through its start X_0 and its values X_j at the points τ_j has, with the Lagrange basis ℓ_k of
{0, τ_1, …, τ_s},

    dX/dτ (τ_j) = Σ_k ℓ_k′(τ_j) X_k ,    X(1) = Σ_k ℓ_k(1) X_k .
"""

from functools import lru_cache
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import legendre

from jaxhamel._typing import Scalar, Time
from jaxhamel.control._problem._curves import AbstractCurve

Numbers = tuple[float, ...]


class PointRule(NamedTuple):
    """Points and weights as Python numbers, which are constants of a compiled program.

    - `points`: τ, `(s,)`; `weights`: the quadrature weights of these points, `(s,)`.
    - `derivative`: ℓ_k′(τ_j), `(s, s+1)`; `end`: ℓ_k(1), `(s+1,)`.
    """

    points: Numbers
    weights: Numbers
    derivative: tuple[Numbers, ...]
    end: Numbers


@lru_cache
def rule(kind: str, degree: int) -> PointRule:
    """The rule with s = `degree` points on [0, 1]: Gauss, of order 2s, or Radau, of order 2s − 1, whose last point is 1."""
    points = _gauss(degree) if kind == "gauss" else _radau(degree)
    nodes = np.concatenate([[0.0], points])
    powers = np.vander(points, degree, increasing=True)
    weights = np.linalg.solve(powers.T, 1 / np.arange(1, degree + 1))
    end = lagrange(nodes, np.ones(1))[0]
    slopes = _slopes_at_nodes(nodes)[1:]
    rows = tuple(map(tuple, slopes.tolist()))
    return PointRule(tuple(points.tolist()), tuple(weights.tolist()), rows, tuple(end.tolist()))


def _gauss(degree: int) -> Float[np.ndarray, " s"]:
    return (legendre.leggauss(degree)[0] + 1) / 2


def _radau(degree: int) -> Float[np.ndarray, " s"]:
    """Zeros of P_s − P_{s−1}, the last of which is 1."""
    series = np.zeros(degree + 1)
    series[-2:] = -1.0, 1.0
    roots = np.sort(legendre.legroots(series).real)
    roots[-1] = 1.0
    return (roots + 1) / 2


def lagrange(
    nodes: Float[np.ndarray, " k"], at: Float[np.ndarray, " m"]
) -> Float[np.ndarray, "m k"]:
    """The Lagrange basis ℓ_k of `nodes` at the places `at`."""
    matrix = np.ones((len(at), len(nodes)))
    for k, node in enumerate(nodes):
        for other in np.delete(nodes, k):
            matrix[:, k] *= (at - other) / (node - other)
    return matrix


def slopes_at(
    nodes: Float[np.ndarray, " k"], at: Float[np.ndarray, " m"]
) -> Float[np.ndarray, "m k"]:
    """The slopes ℓ_k′ at the places `at`, interpolated from those at the nodes, which is exact for polynomials."""
    return lagrange(nodes, at) @ _slopes_at_nodes(nodes)


def _slopes_at_nodes(nodes: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k k"]:
    """The slopes ℓ_k′ at the nodes, by barycentric weights."""
    apart = nodes[:, None] - nodes[None, :] + np.eye(len(nodes))
    product = np.prod(apart, axis=1)
    matrix = product[:, None] / product[None, :] / apart
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix


class PiecewisePolynomial(AbstractCurve):
    """A control that is a polynomial of degree s − 1 on each of N intervals:

        c(t) = Σ_j ℓ_j(τ) c_ij ,    τ = (t − t_i) / (t_{i+1} − t_i) ,

    with the Lagrange basis ℓ_j of the collocation points τ_1 … τ_s. It may jump at the times t_i, where it has the value
    of the interval that begins there. Before the first and after the last time it is constant.

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
        """True for the values, which are free parameters; False for the times."""
        return eqx.tree_at(lambda s: (s.ts, s.values), self, (False, True))


def basis_at(points: tuple[float, ...], share: Scalar) -> Float[Array, " s"]:
    """The Lagrange basis ℓ_j(τ) of `points` at τ = `share`."""
    rows = []
    for j, own in enumerate(points):
        row = jnp.ones_like(share)
        for other in (*points[:j], *points[j + 1 :]):
            row = row * ((share - other) / (own - other))
        rows.append(row)
    return jnp.stack(rows)


class OneInterval(eqx.Module):
    """The control on one interval, continued as the same polynomial; for conditions at the first and the last time."""

    start: Scalar
    length: Scalar
    values: Float[Array, "s m"]
    points: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, t: Time) -> Float[Array, " m"]:
        """c(t)."""
        return basis_at(self.points, (t - self.start) / self.length) @ self.values
