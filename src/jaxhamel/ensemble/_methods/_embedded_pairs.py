"""The numbers of embedded Runge–Kutta pairs: with k_i = f(t + c_i h, y + h Σ_j a_ij k_j),

    y₁ = y + h Σ_i b_i k_i ,     error = h Σ_i e_i k_i ,     y(t + θh) ≈ y + h Σ_i Σ_m w_im θ^m k_i .

The weights w come from diffrax's own interpolant: it is linear in y, y₁ and the slopes, so that its values for one unit
slope after another determine them.
"""

from functools import cache
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.simulate._solvers._runge_kutta import Weights, numbers_of

# The highest power of θ that an interpolant may have; Dopri8's has six.
_MOST_POWERS = 8


class Pair(NamedTuple):
    """The coefficients of a pair with s stages, as plain numbers, so that a pair can be a static argument.

    - `a`: s × s, strictly lower triangular; `b`, `c`, `error`: of length s; `inside`: w_im, s rows, powers from θ¹ on.
    - `order`: p in the factor ε^(−1/p) between a step and the next one, where ε is the error estimate.
    - `reuses`: whether the last slope of a step is the first one of the next step.
    """

    a: tuple[Weights, ...]
    b: Weights
    c: Weights
    error: Weights
    inside: tuple[Weights, ...]
    order: int
    reuses: bool


def is_embedded_pair(method: Any) -> bool:
    """Whether the method is an explicit Runge–Kutta method of diffrax with an error estimate."""
    explicit = isinstance(method, diffrax.AbstractERK)
    return explicit and bool(np.any(method.tableau.b_error))  # pyright: ignore


def embedded_pair(method: Any) -> Pair:
    """The pair of an explicit Runge–Kutta method of diffrax with an error estimate."""
    return _pair(type(method))


@cache
def _pair(kind: Any) -> Pair:
    given, (a, b, c) = kind.tableau, numbers_of(kind.tableau)
    return Pair(
        a=_as_tuples(a),
        b=tuple(b.tolist()),
        c=tuple(c.tolist()),
        error=tuple(given.b_error.tolist()),
        inside=_as_tuples(_interpolation_weights(kind.interpolation_cls, b)),
        order=kind().error_order(diffrax.ODETerm(lambda t, y, args: y)),
        reuses=bool(given.fsal),
    )


def _as_tuples(matrix) -> tuple[Weights, ...]:
    return tuple(map(tuple, np.asarray(matrix).tolist()))


def _interpolation_weights(interpolation: Any, b: np.ndarray) -> np.ndarray:
    """The weights w, fitted as polynomials in θ to the interpolant's values for each unit slope."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        zero, one = np.zeros(()), np.ones(())
        y0, y1, k = map(jnp.asarray, (np.zeros(len(b)), b, np.eye(len(b))))
        of = interpolation(t0=zero, t1=one, y0=y0, y1=y1, k=k)
        at = 0.5 - 0.5 * np.cos(np.pi * (np.arange(_MOST_POWERS) + 0.5) / _MOST_POWERS)
        values = np.stack([np.asarray(of.evaluate(x)) for x in at])
    powers = at[:, None] ** np.arange(1, _MOST_POWERS + 1)
    weights = np.linalg.solve(powers, values).T
    weights[np.abs(weights) < 1e-9] = 0.0  # all others are larger than 1e-3
    return weights[:, : 1 + np.flatnonzero(weights.any(axis=0))[-1]]
