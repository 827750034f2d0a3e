"""Relative equilibria: motions in which a symmetry alone moves the state, found by Newton's method.

    f(x) = ζ^a σ_a(x) ,    x = (q, u) ,    then x(t) = Ψ_{ζt}(x)

with f the equations of motion and σ_a the generators of the symmetry (`Symmetry`); without a symmetry, f(x) = 0 is an
equilibrium. There are more unknowns (x, ζ) than equations, and the solutions form families. Newton's step is the shortest,

    (δx, δζ) = −J⁺ R ,    R = (f − ζ^a σ_a, conditions) ,

which leads to the member of the family near the guess. The pseudo-inverse is damped in proportion to |R|² (Levenberg,
Marquardt), so that the method converges quadratically even if J loses rank at the solutions (Yamashita and Fukushima 2001).
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.mechanics._checks._hypotheses import check_found, check_indices
from jaxhamel.mechanics._examination._boundary import check_system
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.mechanics._stability._linearise import Linearisation, body_rates, control_shift
from jaxhamel.mechanics._stability._symmetry import Symmetry, check_symmetry, generator, lifted
from jaxhamel.mechanics._system import System
from jaxhamel.mechanics._tangent import MotionState, near, retract, tangent_size

# the state (q, u), and the rates ζ, which the parameter follows if a branch is computed
Unknown = tuple[MotionState, Float[Array, " w"]]


class RelativeEquilibrium(eqx.Module):
    """A steady motion x(t) = Ψ_{ζt}(x).

    **Fields:**

    - `system`, `symmetry`, `control`, `t`: the arguments of `relative_equilibrium`.
    - `q`, `u`: the state x; `rates`: ζ `(p,)`.
    - `residual`: the largest absolute entry of f − ζ^a σ_a and of the conditions; `converged`: whether it is within the
      tolerance.
    """

    system: System
    symmetry: Symmetry | None
    control: Control
    t: Scalar
    q: Configuration
    u: QuasiVelocity
    rates: Float[Array, " p"]
    residual: Scalar
    converged: Bool[Array, ""]

    def motion(self, t: Time) -> MotionState:
        """The state Ψ_{ζ(t − t_0)}(x) at a time t, where t_0 is the time of the state x."""
        if self.symmetry is None:
            return self.q, self.u
        s = self.rates * (jnp.asarray(t, self.u.dtype) - self.t)
        return lifted(self.system, self.symmetry, self.t, s, (self.q, self.u))

    def linearisation(self) -> Linearisation:
        """The matrices A and B of the linearised motion, in axes that move with the symmetry:

            A = ∂(f − ζ^a σ_a)/∂x ,    B = ∂f/∂c .

        A is constant in time, so that `modes(A)` decides on stability. The coordinates are those of `linearise`, whose A is
        the same if the symmetry rotates only the body's own axes. Each direction of the symmetry gives a zero eigenvalue.
        """
        return _relative_linearisation(self)


@compiled
def _relative_linearisation(equilibrium) -> Linearisation:
    e, x = equilibrium, (equilibrium.q, equilibrium.u)
    shift, size = control_shift(e.system, e.t, e.q, e.u, e.control)

    def field(delta, change):
        at = near(e.system, x, delta)
        steady = generator(e.system, e.symmetry, e.t, e.rates, at)
        return body_rates(e.system, e.t, *at, shift(change)) - steady

    none = jnp.zeros(tangent_size(e.system), e.u.dtype), jnp.zeros(size, e.u.dtype)
    return Linearisation(*jax.jacfwd(field, argnums=(0, 1))(*none))


def relative_equilibrium(
    system: System,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    control: Control = None,
    *,
    symmetry: Symmetry | None = None,
    conditions: Callable[[Configuration, QuasiVelocity], Array] | None = None,
    free: Sequence[int] | None = None,
    tolerance: float | None = None,
    max_steps: int = 50,
) -> RelativeEquilibrium:
    """The relative equilibrium near the guess (q, u): f(x) = ζ^a σ_a(x), conditions(q, u) = 0.

    **Arguments:**

    - `system`: a system whose equations do not depend on time; `t`, `control`: as for `acceleration`.
    - `q`, `u`: the guess.
    - `symmetry`: a `Symmetry` of the equations of motion; None for an equilibrium at rest.
    - `conditions`: a function (q, u) → array that vanishes at the wanted solution: it may fix a lean, a speed, a radius. If
      the solutions still form a family, the result is the member near the guess.
    - `free`: the indices, below n + k, of the components of (δ_q, u) that may change; by default all. The others keep the
      values of the guess.
    - `tolerance`: bound of the residual relative to 1 + max |f| at the guess; by default 1e-10, in single precision 1e-4.
    - `max_steps`: the largest number of steps of Newton's method.

    **Returns:** a `RelativeEquilibrium`. Under `jit` no error is raised if no solution is found: test its `converged`.

    **Raises:** `ValueError` for equations that depend on time or do not have the symmetry, at states near the guess, and
    for wrong shapes; `RuntimeError` if no solution is found.

    Derivatives, in forward and reverse mode, are −J⁺ ∂R by the implicit function theorem: of the family they take the member
    nearest to the solution.
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_system(system, t, q, u, control)
    check_symmetry(system, symmetry, t, (q, u), control)
    mask = free_mask(system, free, u.dtype)
    problem = EquilibriumProblem(system, t, control, symmetry, conditions)
    zeta, size = rates_of_guess(problem, (q, u))
    bound = bound_of(tolerance, u.dtype) * size
    found, _ = solve(problem, ((q, u), zeta), mask, bound, max_steps)
    check_found(found.converged, found.residual, max_steps)
    return found


class EquilibriumProblem(eqx.Module):
    """The system, symmetry and conditions that define the residual R(x, ζ)."""

    system: System
    t: Scalar
    control: Control
    symmetry: Symmetry | None
    conditions: Any

    def at(self, parameter: Array) -> "EquilibriumProblem":
        """The problem itself, since it depends on no parameter."""
        return self

    def equilibrium(self, unknown: Unknown, residual: Scalar, bound: Scalar) -> RelativeEquilibrium:
        """The solution as a `RelativeEquilibrium`."""
        (q, u), w = unknown
        p = 0 if self.symmetry is None else self.symmetry.dim
        here = self.at(w[p:])
        return RelativeEquilibrium(
            here.system,
            self.symmetry,
            self.control,
            self.t,
            q,
            u,
            w[:p],
            residual,
            residual <= bound,
        )

    def residual(self, unknown: Unknown) -> Array:
        """The residual R = (f − ζ^a σ_a, conditions)."""
        x, w = unknown
        p = 0 if self.symmetry is None else self.symmetry.dim
        here = self.at(w[p:])
        rates = body_rates(here.system, self.t, *x, self.control)
        steady = rates - generator(here.system, self.symmetry, self.t, w[:p], x)
        if here.conditions is None:
            return steady
        return jnp.concatenate([steady, jnp.ravel(jnp.asarray(here.conditions(*x), steady.dtype))])


def bound_of(tolerance: float | None, dtype) -> Scalar:
    """The bound of the residual relative to 1 + max |f|: `tolerance`, or the default for the precision."""
    default = 1e-10 if jnp.finfo(dtype).bits > 32 else 1e-4
    return jnp.asarray(default if tolerance is None else tolerance, dtype)


def free_mask(system: System, free: Sequence[int] | None, dtype) -> Float[Array, " n+k"]:
    """The mask of the components of (δ_q, u): 1 if a component may change, 0 if it stays as in the guess."""
    size = tangent_size(system)
    if free is None:
        return jnp.ones(size, dtype)
    check_indices("free", free, size)
    return jnp.zeros(size, dtype).at[jnp.asarray(free)].set(1.0)


def unknown_after(problem: EquilibriumProblem, unknown: Unknown, step: Array) -> Unknown:
    """The unknowns (x, w) after a step (δ_q, δ_u, δw)."""
    x, w = unknown
    n = tangent_size(problem.system)
    return retract(problem.system, x, step[:n]), w + step[n:]


def jacobian(problem: EquilibriumProblem, unknown: Unknown, mask: Array) -> tuple[Array, Array]:
    """The Jacobian ∂R/∂(δ_q, δ_u, w), with zero columns for fixed components; and the residual R."""
    columns = jnp.concatenate([mask, jnp.ones_like(unknown[1])])

    x, w = unknown
    n = mask.size

    def residual(step):
        step = columns * step
        R = problem.residual((near(problem.system, x, step[:n]), w + step[n:]))
        return R, R

    return jax.jacfwd(residual, has_aux=True)(jnp.zeros_like(columns))


@compiled
def rates_of_guess(problem: EquilibriumProblem, x: MotionState) -> tuple[Array, Scalar]:
    """The rates ζ for which ζ^a σ_a is closest to f at the state x, and 1 + max |f|."""
    f = body_rates(problem.system, problem.t, *x, problem.control)
    size = 1 + jnp.max(jnp.abs(f))
    if problem.symmetry is None:
        return jnp.zeros(0, f.dtype), size

    def one(e):
        return generator(problem.system, problem.symmetry, problem.t, e, x)

    sigma = jax.vmap(one)(jnp.eye(problem.symmetry.dim, dtype=f.dtype)).T
    return pseudo_inverse(sigma) @ f, size


@compiled
def solve(problem, guess, mask, bound, max_steps) -> tuple[RelativeEquilibrium, Array]:
    """The solution by Newton's method, as a `RelativeEquilibrium`, and its (ζ, p). Derivatives come from one
    further step.
    """
    dynamic, static = eqx.partition(problem, eqx.is_inexact_array)
    fixed = eqx.combine(jax.lax.stop_gradient(dynamic), static)
    unknown, J = jax.lax.stop_gradient(_newton(fixed, guess, mask, bound, max_steps))
    R = problem.residual(unknown)
    unknown = unknown_after(problem, unknown, -(pseudo_inverse(J) @ R))
    return problem.equilibrium(unknown, jnp.max(jnp.abs(R)), bound), unknown[1]


def _newton(problem, guess, mask, bound, max_steps) -> tuple[Unknown, Array]:
    """The unknowns after Newton's method and J before its last step, which is made when |R| has fallen below the bound."""

    def wanted(carry):
        _, _, residual, count = carry
        return (count < max_steps) & ~(residual <= bound)

    def step(carry):
        unknown, _, _, count = carry
        J, R = jacobian(problem, unknown, mask)
        unknown = _best_step(problem, unknown, -(_damped(J, jnp.dot(R, R)) @ R))
        return unknown, J, jnp.max(jnp.abs(R)), count + 1

    R = jax.eval_shape(problem.residual, guess)
    J = jnp.zeros((*R.shape, mask.size + guess[1].size), R.dtype)
    start = guess, J, jnp.asarray(jnp.inf, R.dtype), 0
    unknown, J, _, _ = jax.lax.while_loop(wanted, step, start)
    return unknown, J


def _best_step(problem, unknown, step) -> Unknown:
    """The unknowns after the step, scaled by that of the factors 1, ¼, …, 4⁻⁵ which gives the smallest residual."""

    def at(length):
        R = problem.residual(unknown_after(problem, unknown, length * step))
        return jnp.where(jnp.all(jnp.isfinite(R)), jnp.dot(R, R), jnp.inf)

    lengths = 0.25 ** jnp.arange(0.0, 6.0, dtype=step.dtype)
    return unknown_after(problem, unknown, lengths[jnp.argmin(jax.vmap(at)(lengths))] * step)


def _damped(J, squared):
    """The damped pseudo-inverse (JᵀJ + μ)⁻¹ Jᵀ with μ = 1e-6 ‖J‖² |R|²/(1 + |R|²), where `squared` is |R|²; singular values
    of the size of rounding errors are left out.
    """
    left, values, right = jnp.linalg.svd(J, full_matrices=False)
    largest = jnp.max(values, initial=0.0)
    damping = 1e-6 * largest * largest * squared / (1 + squared)
    kept = values > rank_threshold(values)
    factors = jnp.where(kept, values / jnp.where(kept, values * values + damping, 1.0), 0.0)
    return (right.T * factors[None, :]) @ left.T


def pseudo_inverse(J: Array) -> Array:
    """The pseudo-inverse J⁺, without singular values of the size of rounding errors."""
    return _damped(J, jnp.zeros((), J.dtype))


def rank_threshold(values: Array) -> Scalar:
    """The threshold below which singular values count as zero. It is far above eps ‖J‖, as the errors of J are."""
    return jnp.finfo(values.dtype).eps ** 0.6 * jnp.max(values, initial=0.0)
