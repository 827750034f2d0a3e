"""Any matrix Lie group, from the generators of its Lie algebra alone."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _lapack
from jaxhamel._typing import Velocity
from jaxhamel.geometry._checks import check_coordinates, check_generators, check_regular
from jaxhamel.geometry._space import AbstractSpace

Element = Float[Array, "d d"]

_TAYLOR = 16  # degree of the series of exp for matrices of norm 1/2: 0.5^17/17! is below rounding
_SQUARINGS = 20  # the largest number of squarings, for matrices of a norm up to 2^19
_ROOTS, _ROOT_STEPS, _LOG_TERMS = 6, 20, 9


class MatrixGroup(AbstractSpace):
    """The connected group of the matrices exp(δ^a G_a) and their products: q `(d, d)` itself, v `(n,)` with q̇ = q v^a G_a.

    c^c_ab of [G_a, G_b] = c^c_ab G_c, ad, Ad, exp and dexp come from the generators; every equation of the package holds on
    it (From 2012, theorem 5.1: M v̇ − ad_vᵀ M v = τ on any Lie group). Groups with a class of their own are faster and may
    store quaternions. Rounding errors can move products of many matrices off the group: here they are not projected back.

    **Arguments:**

    - `generators`: G, `(n, d, d)`, linearly independent, their commutators linear combinations of them.

    **Raises:** `ValueError` for the wrong shape, dependent generators, or commutators that leave their span.

    `inverse`, `Ad`, `log`, `velocity` and `dexpinv` call LAPACK; `rate`, `ad` and with them the equations of motion do not.
    """

    generators: Float[Array, "n d d"]
    dual: Float[Array, "n d d"]
    constants: Float[Array, "n n n"]

    def __init__(self, generators: ArrayLike):
        check_generators("generators", generators)
        G = jnp.asarray(generators, dtype=jnp.result_type(float))
        self.generators = G
        self.dual, self.constants = _dual_and_constants(G)

    @property
    def dim(self) -> int:
        return self.generators.shape[0]

    def hat(self, v: Velocity) -> Element:
        """v^a G_a, `(d, d)`."""
        return jnp.einsum("a,aij->ij", v, self.generators.astype(v.dtype))

    def vee(self, matrix: Element) -> Velocity:
        """The components of a matrix of the Lie algebra, `(n,)`: the inverse of `hat`."""
        return jnp.einsum("aij,ij->a", self.dual.astype(matrix.dtype), matrix)

    def identity(self, dtype: Any = None) -> Element:
        return jnp.eye(self.generators.shape[1], dtype=dtype)

    def compose(self, q1: Element, q2: Element) -> Element:
        return q1 @ q2

    def inverse(self, q: Element) -> Element:
        return _lapack.inverse(q)

    def exp(self, delta: Velocity) -> Element:
        return _expm(self.hat(delta))

    def log(self, q: Element) -> Velocity:
        """The principal logarithm; it does not exist for an eigenvalue on the negative real axis (half a turn)."""
        return self.vee(_logm(q))

    def Ad(self, q: Element) -> Float[Array, "n n"]:
        conjugated = q @ self.generators.astype(q.dtype) @ _lapack.inverse(q)
        return jnp.einsum("aij,bij->ab", self.dual.astype(q.dtype), conjugated)

    def ad(self, delta: Velocity) -> Float[Array, "n n"]:
        return jnp.einsum("cab,a->cb", self.constants.astype(delta.dtype), delta)

    def dexp(self, delta: Velocity) -> Float[Array, "n n"]:
        """Σ ad^k/(k + 1)!, the corner of exp [[ad, 1], [0, 0]]."""
        ad, n = self.ad(delta), self.dim
        eye, zero = jnp.eye(n, dtype=ad.dtype), jnp.zeros_like(ad)
        return _expm(jnp.block([[ad, eye], [zero, zero]]))[:n, n:]

    def dexpinv(self, delta: Velocity) -> Float[Array, "n n"]:
        return _lapack.inverse(self.dexp(delta))

    def rate(self, q: Element, v: Velocity) -> Element:
        return q @ self.hat(v)

    def velocity(self, q: Element, qdot: Element) -> Velocity:
        return self.vee(_lapack.solve(q, qdot))

    def matrix(self, q: Element) -> Element:
        return q

    def normalise(self, q: Element) -> Element:
        return q

    def structure_constants(self, dtype: Any = None) -> Float[Array, "n n n"]:
        return self.constants if dtype is None else self.constants.astype(dtype)

    def check(self, q: Element, name: str = "q") -> None:
        d = self.generators.shape[1]
        check_coordinates(name, q, (d, d), "a matrix of the group")
        check_regular(name, q)


@jax.jit
def _dual_and_constants(generators):
    """The dual basis of the generators, and the structure constants c^c_ab; under `jit`, as one program in place of nine."""
    n, d = generators.shape[:2]
    flat = generators.reshape(n, d * d)
    dual = jnp.linalg.solve(flat @ flat.T, flat).reshape(n, d, d)
    products = jnp.einsum("aij,bjk->abik", generators, generators)
    brackets = products - jnp.swapaxes(products, 0, 1)
    return dual, jnp.einsum("cij,abij->cab", dual, brackets)


def _expm(matrix: Element) -> Element:
    """exp A by the Taylor series of exp(A/2^s), squared s times; differentiable in both modes, without LAPACK."""
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    norm = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(matrix), axis=1)))
    s = jnp.clip(jnp.ceil(jnp.log2(jnp.maximum(norm, 0.25))) + 1.0, 0.0, _SQUARINGS)
    scaled = matrix * jnp.exp2(-s)

    def horner(k, value):
        return eye + scaled @ value / (_TAYLOR - k).astype(matrix.dtype)

    def square(k, value):
        return jnp.where(k < s, value @ value, value)

    return jax.lax.fori_loop(0, _SQUARINGS, square, jax.lax.fori_loop(0, _TAYLOR, horner, eye))


def _logm(matrix: Element) -> Element:
    """log A = 2^k log A^{1/2^k}, with log X = 2 artanh (X − 1)(X + 1)⁻¹ by its series; square roots by the iteration of
    Denman and Beavers.
    """
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)

    def improve(_, pair):
        root, inverse_root = pair
        return (
            0.5 * (root + _lapack.inverse(inverse_root)),
            0.5 * (inverse_root + _lapack.inverse(root)),
        )

    def root(_, value):
        return jax.lax.fori_loop(0, _ROOT_STEPS, improve, (value, eye))[0]

    near = jax.lax.fori_loop(0, _ROOTS, root, matrix)
    y = _lapack.solve(near + eye, near - eye)
    y2, total = y @ y, jnp.zeros_like(y)
    for k in reversed(range(_LOG_TERMS)):
        total = eye / (2 * k + 1) + y2 @ total
    return 2.0**_ROOTS * 2.0 * y @ total
