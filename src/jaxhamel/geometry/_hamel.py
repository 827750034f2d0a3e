"""Hamel coefficients of a frame of quasi-velocities u = A(q) v, by automatic differentiation.

    γ^c_ab = (∂A^c_r/∂q^s − ∂A^c_s/∂q^r) B^r_a B^s_b ,   B = A⁻¹     (Müller 2021, eq. 12, on R^n)

On a group the coordinates are exponential ones around q itself, retract(q, φ), and the one-forms
u^c = θ^c_r φ̇^r have θ(φ) = A(retract(q, φ)) S(φ) with v = S(φ) φ̇, S = dexp(−φ) = 1 − ½ ad_φ +
O(φ²). One derivative at φ = 0 is all that γ takes, so the first order of S suffices (From 2012,
eq. 54, 57): it adds −½ A^c_d c^d_sr to ∂θ^c_r/∂φ^s, and

    γ^c_ab = (e_s A^c_r − e_r A^c_s + A^c_d c^d_rs) B^r_a B^s_b ,

where e_s is the derivative along the unit velocity s. With A = 1 these are the structure constants: γ is minus the
exterior derivative of the one-forms, and the last term Maurer and Cartan's. The result is a tensor, hence independent of
the coordinates.

Two more expressions of the same coefficients (Müller 2021, remark 2), each computed in its own way, with E_a = B^s_a e_s:

    γ^c_ab = (B^r_a B^s_b − B^s_a B^r_b) e_s A^c_r + A^c_d c^d_rs B^r_a B^s_b      (eq. 16)
    γ^c_ab = A^c_r (E_a B^r_b − E_b B^r_a + c^r_st B^s_a B^t_b) = A^c_r [B_a, B_b]^r      (eq. 17, 18)

Printed (17) and (18) have ∂/∂q^a where the derivative along the frame, E_a = ∂/∂π^a, is meant.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxhamel import _checks, _lapack
from jaxhamel._typing import Configuration, Frame, Hamel, Velocity
from jaxhamel.geometry._checks import check_frame_matrix
from jaxhamel.geometry._euclidean import Euclidean
from jaxhamel.geometry._space import AbstractSpace

FrameFunction = Callable[[Configuration], Frame]


def hamel_coefficients(
    frame: FrameFunction,
    q: Configuration,
    space: AbstractSpace | None = None,
    *,
    form: str = "exterior",
) -> Hamel:
    """γ^c_ab = (∂A^c_r/∂q^s − ∂A^c_s/∂q^r) B^r_a B^s_b; equations of motion use `hamel_contraction` instead.

    Body angular velocity gives γ[k, i, j] = +ε_kij, spatial angular velocity −ε_kij.

    **Arguments:**

    - `frame`: `frame(q)` → A `(n, n)` of u = A(q) v.
    - `q`: configuration of `space`.
    - `space`: default `Euclidean(n)`, where v = q̇.
    - `form`: which of three equal expressions is evaluated: `"exterior"` (12), the exterior
      derivatives of the one-forms; `"alternated"` (16), the slopes of A alternated with B;
      `"bracket"` (17), the Lie brackets of the frame fields B_a. They agree to rounding.

    **Returns:** γ `(n, n, n)`, index order `[c, a, b]`, antisymmetric in a, b.

    **Raises:** `ValueError` when q is no configuration of `space`, A(q) has the wrong shape or is
    singular, or `form` is none of the three.

    Müller 2021, J. Nonlinear Sci. 31, eq. (12), (16), (17). Some books index γ^a_bc with the
    opposite sign.
    """
    _checks.check_choice("form", form, FORMS)
    _checks.check_callable("frame", frame, "q -> A(q)")
    space = space_of(q, space)
    space.check(q, "q")
    A = frame(q)
    check_frame_matrix("frame(q)", A, space.dim)
    return FORMS[form](frame, q, A, _lapack.inverse(A), space)


def hamel_contraction(
    frame: FrameFunction,
    q: Configuration,
    p: Velocity,
    v: Velocity,
    space: AbstractSpace | None = None,
) -> Velocity:
    """The covector G of p_b γ^b_ac u^c = B^r_a G_r: G_r = (∂θ_r/∂φ^s − ∂θ_s/∂φ^r) v^s, θ(φ) = (A S)ᵀ p, p fixed.

    It takes one forward and one reverse derivative of q ↦ A(q)ᵀp, and −ad_vᵀ Aᵀp for the group; neither the
    tensor γ nor an inverse of A is computed.

    **Arguments:**

    - `frame`: `frame(q)` → A `(n, n)` of u = A(q) v.
    - `q`: configuration of `space`.
    - `p`: momenta dual to all n quasi-velocities u, `(n,)`.
    - `v`: left-trivialised velocity, `(n,)`; also if u has a drift, u = A v + a.
    - `space`: default `Euclidean(n)`, where v = q̇.

    **Returns:** G `(n,)`, a covector dual to v; G·v = 0.

    Arguments are not checked, since right-hand sides call this function.
    """
    space = space_of(q, space)

    def one_form(phi):
        return _row_times(p, frame(_first_order(space, q, phi)))

    theta, forward = jax.jvp(one_form, (jnp.zeros_like(v),), (v,))
    _, pullback = jax.vjp(one_form, jnp.zeros_like(v))
    return forward - pullback(v)[0] - _row_times(theta, space.ad(v))


def space_of(q: Configuration, space: AbstractSpace | None) -> AbstractSpace:
    """The given space, or R^n for a vector q of length n if none is given."""
    if space is not None:
        _checks.check_kind("space", space, AbstractSpace, "it must be a space such as SO3().")
        return space
    _checks.check_vector("q", q)
    return Euclidean(q.shape[0])


def _row_times(p, matrix):
    return jnp.einsum("c,cr->r", p, matrix, precision=jax.lax.Precision.HIGHEST)


def _first_order(space: AbstractSpace, q: Configuration, phi: Velocity) -> Configuration:
    """retract(q, φ) to first order in φ, without exp: its derivative at φ = 0 is the same."""
    return jax.tree.map(jnp.add, q, space.rate(q, phi))


def _exterior(frame: FrameFunction, q: Configuration, A: Frame, B: Frame, space: AbstractSpace):
    """(12): D[c, r, s] = e_s A^c_r − e_r A^c_s + A^c_d c^d_rs, then its components in the frame."""
    slope = _slope(frame, q, A, space)
    D = slope - jnp.swapaxes(slope, 1, 2) + _einsum("cd,drs->crs", A, _constants(A, space))
    return _einsum("crs,ra,sb->cab", D, B, B)


def _alternated(frame: FrameFunction, q: Configuration, A: Frame, B: Frame, space: AbstractSpace):
    """(16): the slopes of A, alternated by contraction with B."""
    pairs = _einsum("ra,sb->rsab", B, B)
    pairs = pairs - jnp.swapaxes(pairs, 0, 1)
    group = _einsum("cd,drs,ra,sb->cab", A, _constants(A, space), B, B)
    return _einsum("crs,rsab->cab", _slope(frame, q, A, space), pairs) + group


def _bracket(frame: FrameFunction, q: Configuration, A: Frame, B: Frame, space: AbstractSpace):
    """(17): the components of the Lie brackets [B_a, B_b] of the frame fields."""
    slope = _slope(lambda q: _lapack.inverse(frame(q)), q, A, space)  # e_s B^r_b
    along = _einsum("rbs,sa->rab", slope, B)  # E_a B^r_b
    group = _einsum("rst,sa,tb->rab", _constants(A, space), B, B)
    return _einsum("cr,rab->cab", A, along - jnp.swapaxes(along, 1, 2) + group)


FORMS = {"exterior": _exterior, "alternated": _alternated, "bracket": _bracket}


def _slope(matrix: FrameFunction, q: Configuration, A: Frame, space: AbstractSpace) -> Hamel:
    """The derivatives e_s of a matrix field at q along all unit velocities; s is the last index."""
    origin = jnp.zeros(space.dim, dtype=A.dtype)
    return jax.jacfwd(lambda phi: matrix(_first_order(space, q, phi)))(origin)


def _constants(A: Frame, space: AbstractSpace) -> Hamel:
    return space.structure_constants(A.dtype)


def _einsum(indices: str, *operands: jax.Array) -> jax.Array:
    return jnp.einsum(indices, *operands, precision=jax.lax.Precision.HIGHEST)
