"""The discrete Hamel equations: one step of the Lagrange–d'Alembert principle on a group, with constraints.

    q_{k+1} = q_k·exp(h ξ) ,   q_m = q_k·exp(h ξ/2) ,   L_d = h L(t_m, q_m, ξ) ,   A_α(t_m, q_m) ξ + a_α(t_m, q_m) = 0

With p = ∂L/∂v and f = ∂L/∂q + Q at the midpoint, left-trivialised variations η of the two ends change L_d by
P⁺·η_{k+1} − P⁻·η_k (exactly, whatever h is), where

    P⁻ = dexp⁻ᵀ_{hξ} (p − h/2 dexpᵀ_{hξ/2} f) ,      P⁺ = dexp⁻ᵀ_{−hξ} (p + h/2 dexpᵀ_{−hξ/2} f) .

The principle admits the variations η = B_i that the constraints at the node allow, which leads to the k momenta

    π_i(k) = B_iᵀ(q_k) P⁻ = B_iᵀ(q_k) P⁺ of the step before .

(π_i(k+1) − π_i(k))/h is Hamel's equation at the midpoint to second order: its γ-term comes from the change of B_i from node
to node and, for the group, from dexp⁻¹.

The equations are solved by Newton's method with one Jacobian (chords); the root is differentiated by the implicit function
theorem.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Velocity
from jaxhamel.mechanics._kinematics import (
    InverseFrame,
    applied_force,
    covector,
    lagrangian,
    with_constraints,
)
from jaxhamel.mechanics._small_solve import inverse
from jaxhamel.mechanics._system import System, overrides
from jaxhamel.simulate._solvers._base_classes import apply_dual, retracted

_MAX_ITERATIONS = 50


def root(
    function: Callable[[Float[Array, " n"]], Float[Array, " n"]], guess: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """x with f(x) = 0, to rounding, and whether it was found.

    The derivatives of x with respect to whatever f closes over, of every order and in both modes, are those of the implicit
    function theorem, dx = −(∂f/∂x)⁻¹ df: the iterations are not differentiated.

    **Arguments:** `function` f; `guess`, `(n,)`, close enough for the Jacobian there to contract.

    **Returns:** x `(n,)` and a flag. The iteration has converged when the step is below √eps max(1, |x|) in SI units and no
    longer shrinks: it continues down to rounding, so that long runs gather no bias from a tolerance (Hairer, Lubich and
    Wanner VIII.6).
    """
    if guess.shape[0] == 0:
        return guess, jnp.array(True)
    x, found = jax.lax.custom_root(function, guess, _chord, _solve_linear, has_aux=True)
    return x, found > 0


class _Iterate(NamedTuple):
    x: Float[Array, " n"]
    change: Scalar
    count: Array
    done: Bool[Array, ""]


def _chord(function, guess):
    """Newton's iterations with the Jacobian at `guess`: x, and 1 if they have converged, otherwise 0."""
    jacobian = _matrix(lambda dx: jax.jvp(function, (guess,), (dx,))[1], guess)
    into_change = inverse(jacobian)
    eps = jnp.finfo(guess.dtype).eps

    def step(s):
        dx = into_change @ function(s.x)
        x, change = s.x - dx, jnp.max(jnp.abs(dx))
        size = jnp.max(jnp.abs(x))
        stalls = (change >= s.change) & (change <= jnp.sqrt(eps) * jnp.maximum(1, size))
        return _Iterate(x, change, s.count + 1, (change <= eps * size) | stalls)

    def goes_on(s):
        return ~s.done & (s.count < _MAX_ITERATIONS) & jnp.all(jnp.isfinite(s.x))

    infinite = jnp.array(jnp.inf, guess.dtype)
    start = _Iterate(guess, infinite, jnp.array(0), jnp.array(False))
    end = jax.lax.while_loop(goes_on, step, start)
    found = end.done & jnp.all(jnp.isfinite(end.x))
    return end.x, found.astype(
        guess.dtype
    )  # as a number, since custom_root gives its tangent this dtype


def _solve_linear(linear, rhs):
    return inverse(_matrix(linear, rhs)) @ rhs


def _matrix(linear, like):
    """The matrix of a linear function."""
    return jax.vmap(linear, out_axes=1)(jnp.eye(like.shape[0], dtype=like.dtype))


class TimeNode(NamedTuple):
    """The data passed from step to step: B(t, q), the momenta π `(k,)` along its free columns, and a guess of ξ `(n,)`."""

    t: Scalar
    q: Configuration
    inverse_frame: Float[Array, "n n"]
    momenta: Float[Array, " k"]
    guess: Velocity
    solved: Bool[Array, ""]


def node(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> TimeNode:
    """The node with the state (q, u) at t; the guess of ξ is the velocity v of this state."""
    frame = InverseFrame.at(system, t, q)(t, q)
    momenta, v = _momenta_and_velocity(system, t, q, frame, u, control)
    return TimeNode(t, q, frame, momenta, v, jnp.array(True))


def state_of(
    system: System, at: TimeNode, guess: QuasiVelocity, control: Control
) -> tuple[QuasiVelocity, Velocity, Bool[Array, ""]]:
    """u and v with the momenta of the node, and whether they were found: Legendre's transformation, inverted."""

    def equations(u):
        momenta, _ = _momenta_and_velocity(system, at.t, at.q, at.inverse_frame, u, control)
        return momenta - at.momenta

    u, found = root(equations, guess)
    return u, _velocity(system, at.t, at.q, at.inverse_frame, u), found


def _momenta_and_velocity(system, t, q, inverse_frame, u, control):
    """The pair (π, v): π_i = ∂ℓ/∂u^i = B_iᵀ ∂L/∂v for independent i, at v = B ((0, u) − a)."""
    v = _velocity(system, t, q, inverse_frame, u)
    p = jax.grad(lambda v: lagrangian(system, t, q, v, control))(v)
    return _independent_part(system, inverse_frame, p), v


def _velocity(system, t, q, inverse_frame, u):
    u = with_constraints(system, u)
    return inverse_frame @ (u - system.drift(t, q) if overrides(system, "drift") else u)


def _independent_part(system, inverse_frame, covector):
    """B_iᵀ p for the independent i."""
    return covector @ inverse_frame[:, system.n_constraints :]


def discrete_hamel(system: System, at: TimeNode, h: Scalar, control: Control) -> TimeNode:
    """The next node, by n equations for ξ: the constraints at the midpoint, and the momenta at the node.

    **Arguments:** `system`; `at`: the node; `h`: the step [s], of either sign; `control`: a callable of t.

    **Returns:** the node at t + h; its `solved` is False if no ξ was found.
    """

    def equations(xi):
        before, _ = _end_momenta(system, at, h, xi, control)
        along = _independent_part(system, at.inverse_frame, before) - at.momenta
        return jnp.concatenate([_constraint_residuals(system, at, h, xi), along])

    xi, solved = root(equations, at.guess)
    _, after = _end_momenta(system, at, h, xi, control)
    t1, q1 = at.t + h, retracted(system.space, at.q, h * xi)
    frame1 = InverseFrame.at(system, t1, q1)(t1, q1)
    return TimeNode(
        t1, q1, frame1, _independent_part(system, frame1, after), xi, at.solved & solved
    )


def _midpoint(system, at, h, xi):
    return at.t + h / 2, system.space.retract(at.q, (h / 2) * xi)


def _constraint_residuals(system, at, h, xi):
    """A_α ξ + a_α at the midpoint."""
    t, q = _midpoint(system, at, h, xi)
    m = system.n_constraints
    residual = system.frame(t, q)[:m] @ xi if overrides(system, "frame") else xi[:m]
    return residual + system.drift(t, q)[:m] if overrides(system, "drift") else residual


def _end_momenta(system, at, h, xi, control):
    """The momenta P⁻ and P⁺ at both ends of a step."""
    t, q = _midpoint(system, at, h, xi)
    by_q, p = jax.grad(lambda q, v: lagrangian(system, t, q, v, control), argnums=(0, 1))(q, xi)
    force = covector(system, q, by_q)
    if overrides(system, "force"):
        force = force + applied_force(system, t, q, xi, control)
    return _end_momentum(system, p, force, -h, xi), _end_momentum(system, p, force, h, xi)


def _end_momentum(system, p, force, h, xi):
    """P⁺ = dexp⁻ᵀ_{−hξ} (p + h/2 dexpᵀ_{−hξ/2} f); with −h in place of h this is P⁻."""
    impulse = (h / 2) * apply_dual("dexp", system.space, (-h / 2) * xi, force)
    return apply_dual("dexpinv", system.space, -h * xi, p + impulse)
