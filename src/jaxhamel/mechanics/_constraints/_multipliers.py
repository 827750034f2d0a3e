"""Forces of constraint: linear equations, redundant constraints, and the Euler–Lagrange equations with multipliers.

**Linear equations.** M v̇ = f + Aᵀ λ and A v̇ = b are solved without the matrix A M⁻¹ Aᵀ.

With M = L D Lᵀ, v̇ = L⁻ᵀ y and W = A L⁻ᵀ they are D y = L⁻¹f + Wᵀ λ, W y = b. Gram–Schmidt orthogonalisation of the rows of
W in the metric D⁻¹,

    W = T Ŵ ,   Ŵ D⁻¹ Ŵᵀ = N diagonal ,   T unit lower triangular,

gives Tᵀ λ = N⁻¹ (T⁻¹b − Ŵ D⁻¹ L⁻¹f). For nearly dependent rows, or masses many orders of magnitude apart, the error is then
proportional to the condition number of W D^(−1/2); with the matrix A M⁻¹ Aᵀ = T N Tᵀ it would be proportional to its square.
A second sweep over the rows, on the residual of the first, restores the orthogonality that Ŵ loses by rounding. Square roots
are not needed, so M may be indefinite. Derivatives take one more solution of the same equations: for d(v̇, λ) the right-hand
sides are df + dAᵀ λ − dM v̇ and db − dA v̇ in place of f and b.

**Redundant constraints.** A mechanism has r one-forms C, of which the first m rows of the frame are a basis.

Three wheels side by side on one axle that do not slip sideways, for example, give three one-forms of rank 1. The motion and
the force of constraint A_αᵀ λ are unique, but the multipliers are not: all μ with Cᵀ μ = A_αᵀ λ give the same force. With
C = X A_α and X = C B_α, the μ of least norm is

    μ = X (XᵀX)⁻¹ λ .

**Euler–Lagrange equations.**

    M v̇ = f + A_αᵀ λ ,      A_α v̇ + Ȧ_α v + ȧ_α = 0 .

M has to be regular here. For the accelerations of the other routes, λ is the residual of the unconstrained equations,
λ_α = B^r_α (M v̇ − f)_r, which needs no M⁻¹.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Multiplier, QuasiVelocity, Scalar, Velocity
from jaxhamel.mechanics._checks._constraints import check_number_of_constraints, check_span
from jaxhamel.mechanics._equations._euler_lagrange import euler_lagrange, frame_bias
from jaxhamel.mechanics._kinematics import InverseFrame, velocity_of, with_constraints
from jaxhamel.mechanics._small_solve import Factors, symmetric_solve
from jaxhamel.mechanics._system import System, overrides


@jax.custom_jvp
def constrained_solve(
    mass_matrix: Float[Array, "n n"],
    force: Float[Array, " n"],
    rows: Float[Array, "m n"],
    rate: Float[Array, " m"],
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """The solution (v̇, λ) of M v̇ = f + Aᵀ λ and A v̇ = b.

    **Arguments:** `mass_matrix`: M `(n, n)`, with leading minors that are not zero; only its lower triangle is used;
    `force`: f `(n,)`; `rows`: A `(m, n)`, with m ≥ 1 independent rows; `rate`: b `(m,)`.

    **Returns:** v̇, `(n,)`, and λ, `(m,)`; inf or NaN for a singular M or a zero row.

    Source: Gram–Schmidt with two sweeps, Björck, Numerical Methods for Least Squares Problems, 2.4.
    """
    factors = Factors.of(mass_matrix)
    orthogonal, triangle = _orthogonal_rows(factors, rows)
    wanted = _forward(triangle, rate)
    load = factors.forward(force)  # the right-hand side of D y = L⁻¹f + Wᵀ λ, so far without Wᵀ λ
    multiplier = [jnp.zeros((), load.dtype)] * len(wanted)
    for _ in range(2):
        for a, (row, along, inverse_square) in enumerate(orthogonal):
            step = (wanted[a] - jnp.dot(along, load)) * inverse_square
            load, multiplier[a] = load + step * row, multiplier[a] + step
    v_dot = factors.backward(load * factors.inverse_diagonal)
    return v_dot, _backward(triangle, multiplier)


def _orthogonal_rows(factors, rows):
    """The tuple (ŵ, D⁻¹ŵ, 1/(ŵ·D⁻¹ŵ)) for each row ŵ of Ŵ, and T as nested lists without its unit diagonal."""
    orthogonal, triangle = [], []
    for row in factors.forward(rows.T).T:
        shares = []
        for other, along, inverse_square in orthogonal:
            shares.append(jnp.dot(along, row) * inverse_square)
            row = row - shares[-1] * other
        along = factors.inverse_diagonal * row
        orthogonal.append((row, along, 1.0 / jnp.dot(along, row)))
        triangle.append(shares)
    return orthogonal, triangle


def _forward(triangle, rhs):
    """The list T⁻¹ b, by forward substitution."""
    x = []
    for row, value in zip(triangle, rhs, strict=True):
        x.append(value - sum((share * y for share, y in zip(row, x, strict=True)), start=0.0))
    return x


def _backward(triangle, rhs):
    """The array T⁻ᵀ b, by backward substitution."""
    x = list(rhs)
    for i in reversed(range(len(x))):
        for j in range(i):
            x[j] = x[j] - triangle[i][j] * x[i]
    return jnp.stack(x)


@constrained_solve.defjvp
def _constrained_solve_jvp(primals, tangents):
    (mass_matrix, _, rows, _), (d_mass_matrix, d_force, d_rows, d_rate) = primals, tangents
    v_dot, multiplier = solution = constrained_solve(*primals)
    force = d_force + multiplier @ d_rows - d_mass_matrix @ v_dot
    return solution, constrained_solve(mass_matrix, force, rows, d_rate - d_rows @ v_dot)


def of_least_norm(
    system: System, t: Scalar, q: Configuration, multiplier: Multiplier
) -> Multiplier:
    """The multipliers μ `(r,)` of all one-forms listed by `system.constraints`, of least norm and with the same force as λ
    `(m,)`; λ itself if the system lists none.
    """
    rows = system.constraints(t, q)
    if rows is None:
        return multiplier
    shares = _shares(system, t, q, rows)
    r, dtype = shares.shape[0], multiplier.dtype
    unit, none = jnp.eye(r, dtype=dtype), jnp.zeros(r, dtype)
    return constrained_solve(unit, none, shares.T, multiplier)[0]


def _shares(system, t, q, rows):
    """The coefficients X = C B_α, `(r, m)`, of the one-forms C as combinations of the frame's first m rows."""
    return rows @ InverseFrame.at(system, t, q)(t, q)[:, : system.n_constraints]


def check_redundant(system: System, t: Scalar, q: Configuration) -> None:
    """Checks that the rows of `constraints` span the same space as the frame's first m rows; traced values are not checked.

    **Raises:** `ValueError` that names `constraints`.
    """
    if not overrides(system, "constraints") or _checks.any_tracer((system, t, q)):
        return
    rows = system.constraints(t, q)
    if rows is None:
        return
    check_number_of_constraints(system, rows)
    if (found := _checks.computed(_listed_and_frame_rows, system, t, q)) is not None:
        check_span(system, t, *found)


@compiled
def _listed_and_frame_rows(system, t, q):
    """The listed one-forms C, and their projections X A_α to the span of the frame's constraint rows A_α; they are equal if
    C lies in this span.
    """
    rows, frame = system.constraints(t, q), system.frame(t, q)
    return rows, _shares(system, t, q, rows) @ frame[: system.n_constraints]


def multipliers(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Float[Array, " k"]:
    """The accelerations u̇ of the independent quasi-velocities by the equations with multipliers; the arguments are not
    checked.
    """
    v = velocity_of(system, t, q, u)
    v_dot, _ = solve_with_multipliers(system, t, q, v, control)
    m = system.n_constraints
    u_dot = system.frame(t, q) @ v_dot if overrides(system, "frame") else v_dot
    return (u_dot + frame_bias(system, t, q, v))[m:]


def solve_with_multipliers(
    system: System, t: Scalar, q: Configuration, v: Velocity, control: Control
) -> tuple[Velocity, Multiplier]:
    """The solution (v̇, λ) of the Euler–Lagrange equations with multipliers; λ is empty without constraints. The arguments
    are not checked.
    """
    mass_matrix, force = euler_lagrange(system, t, q, v, control)
    m = system.n_constraints
    if m == 0:
        return symmetric_solve(mass_matrix, force), jnp.zeros(0, v.dtype)
    rows = system.frame(t, q)[:m]
    return constrained_solve(mass_matrix, force, rows, -frame_bias(system, t, q, v)[:m])


def multiplier_of_motion(
    system: System,
    t: Scalar,
    q: Configuration,
    u: QuasiVelocity,
    u_dot: Float[Array, " k"],
    control: Control,
) -> Multiplier:
    """The multipliers λ_α = B^r_α (M v̇ − f)_r for given u̇, computed by any route."""
    inverse = InverseFrame.at(system, t, q)
    v = inverse.velocity(t, q, with_constraints(system, u))
    basis = inverse(t, q)
    rates = with_constraints(system, u_dot) - frame_bias(system, t, q, v)
    mass_matrix, force = euler_lagrange(system, t, q, v, control)
    return basis[:, : system.n_constraints].T @ (mass_matrix @ (basis @ rates) - force)
