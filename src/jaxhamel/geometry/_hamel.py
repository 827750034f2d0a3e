"""Hamel coefficients of a frame of quasi-velocities u = A(q) v, by automatic differentiation.

    γ^c_ab = (∂A^c_r/∂q^s − ∂A^c_s/∂q^r) B^r_a B^s_b ,   B = A⁻¹     (Müller 2021, eq. 12, on R^n)

On a group the coordinates are exponential ones around q itself, retract(q, φ), and the one-forms
u^c = θ^c_r φ̇^r have θ(φ) = A(retract(q, φ)) S(φ) with v = S(φ) φ̇, S = dexp(−φ) = 1 − ½ ad_φ +
O(φ²). One derivative at φ = 0 is all that γ takes, so the first order of S suffices (From 2012,
eq. 54, 57): it adds −½ A^c_d c^d_sr to ∂θ^c_r/∂φ^s, and

    γ^c_ab = (e_s A^c_r − e_r A^c_s + A^c_d c^d_rs) B^r_a B^s_b ,

where e_s is the derivative along the unit velocity s. With A = 1 these are the structure
constants: γ is minus the exterior derivative of the one-forms, and the last term Maurer and
Cartan's. The result is a tensor, so exponential coordinates leave no trace in it.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Frame, Hamel, Velocity
from jaxhamel.geometry._euclidean import Euclidean
from jaxhamel.geometry._space import AbstractSpace

FrameFunction = Callable[[Configuration], Frame]


def hamel_coefficients(
    frame: FrameFunction, q: Configuration, space: AbstractSpace | None = None
) -> Hamel:
    """γ^c_ab = (∂A^c_r/∂q^s − ∂A^c_s/∂q^r) B^r_a B^s_b, to look at; equations take the contraction.

    Body angular velocity gives γ[k, i, j] = +ε_kij, spatial angular velocity −ε_kij.

    **Arguments:**

    - `frame`: `frame(q)` → A `(n, n)` of u = A(q) v.
    - `q`: configuration of `space`.
    - `space`: default `Euclidean(n)`, where v = q̇.

    **Returns:** γ `(n, n, n)`, index order `[c, a, b]`, antisymmetric in a, b.

    **Raises:** `ValueError` when q is no configuration of `space`, or A(q) has the wrong shape
    or is singular.

    Müller 2021, J. Nonlinear Sci. 31, eq. (12). Some books index γ^a_bc with the opposite sign.
    """
    space = _space_of(q, space)
    space.check(q, "q")
    A = frame(q)
    _checks.check_frame_matrix("frame(q)", A, space.dim)
    B = jnp.linalg.inv(A)
    D = _exterior(frame, q, A, space)
    return jnp.einsum("crs,ra,sb->cab", D, B, B, precision=jax.lax.Precision.HIGHEST)


def hamel_contraction(
    frame: FrameFunction,
    q: Configuration,
    p: Velocity,
    v: Velocity,
    space: AbstractSpace | None = None,
) -> Velocity:
    """p_b γ^b_ac u^c = B^r_a G_r with G_r = (∂θ_r/∂φ^s − ∂θ_s/∂φ^r) v^s, θ(φ) = (A S)ᵀ p, p fixed.

    One derivative forward and one backward of q ↦ A(q)ᵀp, and −ad_vᵀ Aᵀp for the group; no
    tensor, no inverse.

    **Arguments:**

    - `frame`: `frame(q)` → A `(n, n)` of u = A(q) v.
    - `q`: configuration of `space`.
    - `p`: momenta dual to all n quasi-velocities u, `(n,)`.
    - `v`: left-trivialised velocity, `(n,)`; with drift in u, still v itself.
    - `space`: default `Euclidean(n)`, where v = q̇.

    **Returns:** G `(n,)`, a covector dual to v; G·v = 0.

    Nothing is checked: this belongs to right-hand sides.
    """
    space = _space_of(q, space)

    def one_form(phi):
        return _row_times(p, frame(_first_order(space, q, phi)))

    theta, forward = jax.jvp(one_form, (jnp.zeros_like(v),), (v,))
    _, pullback = jax.vjp(one_form, jnp.zeros_like(v))
    return forward - pullback(v)[0] - _row_times(theta, space.ad(v))


def _space_of(q: Configuration, space: AbstractSpace | None) -> AbstractSpace:
    if space is not None:
        return space
    _checks.check_vector("q", q)
    return Euclidean(q.shape[0])


def _row_times(p, matrix):
    return jnp.einsum("c,cr->r", p, matrix, precision=jax.lax.Precision.HIGHEST)


def _first_order(space: AbstractSpace, q: Configuration, phi: Velocity) -> Configuration:
    """retract(q, φ) to first order in φ, without exp: its derivative at φ = 0 is the same."""
    return jax.tree.map(jnp.add, q, space.rate(q, phi))


def _exterior(frame: FrameFunction, q: Configuration, A: Frame, space: AbstractSpace) -> Hamel:
    """D[c, r, s] = e_s A^c_r − e_r A^c_s + A^c_d c^d_rs."""
    origin = jnp.zeros(space.dim, dtype=A.dtype)
    slope = jax.jacfwd(lambda phi: frame(_first_order(space, q, phi)))(origin)
    bracket = jnp.einsum(
        "cd,drs->crs", A, space.structure_constants(A.dtype), precision=jax.lax.Precision.HIGHEST
    )
    return slope - jnp.swapaxes(slope, 1, 2) + bracket
