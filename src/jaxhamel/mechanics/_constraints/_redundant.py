"""Redundant constraints: all r one-forms C of a mechanism, of which the first m rows of the frame are a basis.

Three wheels side by side on one axle that do not slip sideways are three one-forms of rank 1. The motion and the force of
constraint A_αᵀ λ are unique, the single multipliers are not: any μ with Cᵀ μ = A_αᵀ λ does. With C = X A_α, X = C B_α, the
one of least norm is

    μ = X (XᵀX)⁻¹ λ .
"""

import jax.numpy as jnp

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Multiplier, Scalar
from jaxhamel.mechanics._checks._constraints import check_number_of_constraints, check_span
from jaxhamel.mechanics._constraints._constrained_solve import constrained_solve
from jaxhamel.mechanics._kinematics import InverseFrame
from jaxhamel.mechanics._system import System, overrides


def of_least_norm(
    system: System, t: Scalar, q: Configuration, multiplier: Multiplier
) -> Multiplier:
    """The multipliers μ `(r,)` of all one-forms of `system.constraints` with the same force as λ `(m,)`; default: λ."""
    rows = system.constraints(t, q)
    if rows is None:
        return multiplier
    shares = _shares(system, t, q, rows)
    r, dtype = shares.shape[0], multiplier.dtype
    unit, none = jnp.eye(r, dtype=dtype), jnp.zeros(r, dtype)
    return constrained_solve(unit, none, shares.T, multiplier)[0]


def _shares(system, t, q, rows):
    """X = C B_α, (r, m)."""
    return rows @ InverseFrame.at(system, t, q)(t, q)[:, : system.n_constraints]


def check_redundant(system: System, t: Scalar, q: Configuration) -> None:
    """Checks that `constraints` has rank m and the span of the frame's first m rows, for concrete values.

    **Raises:** `ValueError` that names `constraints`.
    """
    if not overrides(system, "constraints") or _checks.any_tracer((system, t, q)):
        return
    rows = system.constraints(t, q)
    if rows is not None:
        check_number_of_constraints(system, rows)
        check_span(system, t, *_rows(system, t, q))


@compiled
def _rows(system, t, q):
    """C, and X A_α, which is C if these one-forms are combinations of the frame's."""
    rows, frame = system.constraints(t, q), system.frame(t, q)
    return rows, _shares(system, t, q, rows) @ frame[: system.n_constraints]
