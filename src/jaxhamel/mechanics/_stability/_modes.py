"""Eigenvalues and modes of a linearised motion: frequencies, damping ratios, mode shapes, stability.

    A x = λ x ,    λ = −ζ ω_0 ± i ω_0 √(1 − ζ²) ,    ω_0 = |λ| ,    ζ = −Re λ/|λ|

The rounding error of an eigenvalue is about eps ‖A‖ κ with its condition number κ = |y||x|/|y·x|, where y is the left
eigenvector. The zero eigenvalues due to symmetries, constraints and families of equilibria are often defective: then
κ ~ 1/√eps, and the computed values are about ±1e-8. The tolerance takes this into account for each eigenvalue.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel._lapack import one_by_one
from jaxhamel._words import counted

_ROUNDING = 1e3  # errors of A's entries and of the eigenvalue solver, in eps ‖A‖


class Modes(eqx.Module):
    """Eigenvalues and eigenvectors of δ̇x = A δx, unstable ones first; `print` shows a table.

    **Fields**, with one entry for each eigenvalue, two for a complex pair:

    - `eigenvalues`: λ [1/s], complex, in the order of decreasing real part.
    - `shapes`: the eigenvectors x as columns of norm 1, with a real largest entry.
    - `frequencies`: the damped frequencies |Im λ| [rad/s]; `natural_frequencies`: ω_0 = |λ| [rad/s].
    - `damping_ratios`: ζ = −Re λ/|λ|, from −1 to 1; 0 for λ = 0.
    - `condition`: the condition number κ ≥ 1.
    - `tolerance`: the expected error of λ [1/s].

    An eigenvalue with κ > 1/√eps is defective up to rounding errors and has no derivative, and the shape of a multiple
    eigenvalue has none, either: both derivatives are then given as 0. All others are correct, to every order.
    """

    eigenvalues: Complex[Array, " N"]
    shapes: Complex[Array, "N N"]
    frequencies: Float[Array, " N"]
    natural_frequencies: Float[Array, " N"]
    damping_ratios: Float[Array, " N"]
    condition: Float[Array, " N"]
    tolerance: Float[Array, " N"]

    @property
    def zero(self) -> Bool[Array, " N"]:
        """For each eigenvalue, whether it is zero within its tolerance.

        Zero eigenvalues have three causes. There is one for each constraint (the neighbours of an equilibrium at rest in the
        directions that the constraints forbid may be equilibria, too), one for each coordinate that can be shifted without
        effect, and one for each conserved momentum or speed that belongs to such a symmetry. The distance to a neighbour in
        these directions is constant, or grows linearly if a shift and its momentum combine.
        """
        return jnp.abs(self.eigenvalues) <= self.tolerance

    @property
    def stability(self) -> str:
        """The stability by the linear equations; needs concrete values.

        `"unstable"`: some Re λ > 0. `"stable"`: all Re λ < 0, apart from zero eigenvalues. `"marginal"`: no Re λ > 0, but
        some λ ≠ 0 on the imaginary axis, or all λ are zero; the linear equations then do not decide.
        """
        real, tolerance = self.eigenvalues.real, self.tolerance
        if bool(jnp.any(real > tolerance)):
            return "unstable"
        inside = self.zero | (real < -tolerance)
        return "stable" if bool(jnp.all(inside)) and not bool(jnp.all(self.zero)) else "marginal"

    def __str__(self) -> str:
        header = f"{'eigenvalue [1/s]':>26} {'frequency [rad/s]':>18} {'damping ratio':>14}"
        rows = zip(self.eigenvalues, self.frequencies, self.damping_ratios, self.zero, strict=True)
        lines = [_mode_row(*row) for row in rows]
        zeros = counted(int(jnp.sum(self.zero)), "zero eigenvalue")
        return "\n".join([f"{self.stability}, {zeros}", header, *lines])


def _mode_row(value, frequency, damping, zero) -> str:
    if zero:
        return f"{'0':>26} {'symmetry, constraint or family':>33}"
    text = f"{value.real:.6g} {'+' if value.imag >= 0 else '-'} {abs(value.imag):.6g}i"
    return f"{text:>26} {frequency:>18.6g} {damping:>14.4g}"


def modes(A: Float[Array, "N N"], tolerance: float = 0.0) -> Modes:
    """Eigenvalues, frequencies, damping ratios and mode shapes of δ̇x = A δx.

    **Arguments:**

    - `A`: `(N, N)`, from `linearise` or from the `linearisation` of a `RelativeEquilibrium`.
    - `tolerance`: errors of the entries of A beyond rounding [1/s], for instance 1e-8 if an equilibrium is known with this
      accuracy.

    **Returns:** `Modes`. Simple eigenvalues and their shapes have derivatives of every order.

    **Raises:** `ValueError` if A is not square or not finite.
    """
    A = jnp.asarray(A)
    _checks.check_shape(
        "A", A, (A.shape[-1], A.shape[-1]) if A.ndim else (1, 1), "One motion: use `jax.vmap`."
    )
    _checks.check_finite("A", A)
    return _modes(A, jnp.asarray(tolerance, A.dtype))


@compiled
def _modes(A, tolerance) -> Modes:
    values, left, right = eigen(A)
    order = jnp.lexsort((-values.imag, -values.real))
    values, left, right = values[order], left[:, order], right[:, order]
    size = jnp.abs(values)
    condition = 1.0 / jnp.maximum(_overlap(left, right), jnp.finfo(A.dtype).tiny)
    norm = jnp.sqrt(jnp.sum(A * A)) + jnp.finfo(A.dtype).tiny
    error = _ROUNDING * jnp.finfo(A.dtype).eps * norm + tolerance
    some = size > 0
    damping = 0.0 - values.real / jnp.where(some, size, 1.0)  # 0, not −0, on the axis
    return Modes(
        eigenvalues=values,
        shapes=_with_real_part(right),
        frequencies=jnp.abs(values.imag),
        natural_frequencies=size,
        damping_ratios=damping,
        condition=condition,
        tolerance=error * jnp.minimum(condition, (norm / error) ** (2 / 3)),
    )


def _overlap(left, right):
    """The product |y·x| = 1/κ of each pair of unit eigenvectors."""
    return jnp.abs(jnp.sum(left.conj() * right, axis=0))


def _with_real_part(vectors):
    """The columns, each multiplied by the phase that makes its largest entry real and positive."""
    largest = jnp.argmax(jnp.abs(vectors), axis=0)
    entry = jnp.take_along_axis(vectors, largest[None, :], axis=0)
    return vectors * (entry.conj() / jnp.abs(entry).astype(entry.dtype))


def eigen(A: Float[Array, "N N"]) -> tuple[Array, Array, Array]:
    """Eigenvalues λ of A, and left and right eigenvectors y and x as columns of norm 1, with the derivatives

        λ_i' = y_iᴴ A' x_i/(y_iᴴ x_i) ,    x_i' = Σ_j x_j (y_jᴴ A' x_i)/(y_jᴴ x_j)/(λ_i − λ_j) ,

    where the part of the sum along x_i is left out; the derivative of y is that of x for Aᴴ. Derivatives of every order are
    correct, except that a defective λ and the vectors of a multiple λ have none: terms that would be infinite are then 0.
    """
    values, left, right = own_derivative(_eigen, _eigen_rule, [A], jax.eval_shape(_eigen, A))
    return values, left, right


def _eigen(A) -> list[Array]:
    return list(_one_by_one(A))


_one_by_one = one_by_one(
    partial(jax.lax.linalg.eig, compute_left_eigenvectors=True, compute_right_eigenvectors=True)
)


def _eigen_rule(primals, tangents):
    values, left, right = eigen(*primals)
    dA = tangents[0].astype(values.dtype)
    product = jnp.sum(left.conj() * right, axis=0)
    rounding = jnp.sqrt(jnp.finfo(values.dtype).eps)
    simple = jnp.abs(product) > rounding
    product = jnp.where(simple, product, 1.0)
    change = jnp.where(simple[:, None], left.conj().T @ dA @ right / product[:, None], 0.0)
    back = jnp.where(simple[:, None], right.conj().T @ dA.T @ left / product.conj()[:, None], 0.0)
    gap = values[None] - values[:, None]
    distinct = jnp.abs(gap) > rounding * jnp.max(jnp.abs(values))
    gap = jnp.where(distinct, gap, 1.0)
    d_right = _turned(right, jnp.where(distinct, change / gap, 0.0))
    d_left = _turned(left, jnp.where(distinct, back / gap.conj(), 0.0))
    return [values, left, right], [jnp.diagonal(change), d_left, d_right]


def _turned(vectors, shares):
    """The change Σ_j x_j s_ji of each vector x_i with the shares s, without its part along x_i."""
    change = vectors @ shares
    return change - vectors * jnp.sum(vectors.conj() * change, axis=0)[None]
