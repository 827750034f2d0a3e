r"""Levenberg–Marquardt with conditions: min ½|r(z)|² subject to d(z) = 0.

With r ≈ r + Jz, d ≈ d + Dz, H = JᵀJ, g = Jᵀr the step z solves

    [ H + λ1 + σ DᵀD   Dᵀ ] [ z ]     [ g + σ Dᵀd ]
    [ D                0  ] [ y ] = − [ d         ]

by two Cholesky factorisations, the second of S = D (H + λ1 + σDᵀD)⁻¹ Dᵀ. The terms with σ do not
change the solution; they make the first block positive definite, and the eigenvalues of S about 1/σ
or, where conditions depend on one another, 0. Dependent conditions, which the step need not meet, get
multipliers of at most about σ|d| (`_bounded_solve`). While d is large the conditions
are only penalised (y = 0), which is a plain Levenberg–Marquardt step for |r|² + σ|d|².

Two second-order corrections with the same factors bring d at the end of the step back towards zero.
Without them the curvature of d would make every long step fail (the Maratos effect; on the rolling
ball they allow steps twenty times as long). A step is accepted if it lowers the augmented Lagrangian
|r|²/2 + y·d + σ|d|²/2; the ratio of its actual to its predicted decrease determines the next λ.

Source: Nielsen 1999 (update of λ); Nocedal–Wright, Numerical Optimization, ch. 18.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import tree
from jax.lax import fori_loop
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float

# Share of the largest diagonal entry of S; conditions whose eigenvalue of S is below it count as dependent on the others.
DEPENDENT = 1e-8


class Iterate(NamedTuple):
    """A point with its quadratic model, and the candidate to which the step from this point leads.

    - `y`: the multipliers of the conditions; `predicted`: the augmented Lagrangian that the model predicts at the candidate.
    - `damping`: λ; `growth`: the factor by which the next rejection raises λ.
    - `exact`: whether steps satisfy the linearised conditions; `started`: whether the first point has been evaluated;
      `accepted`: whether the last candidate was accepted.
    """

    point: Any
    model: Any
    candidate: Any
    y: Float[Array, " c"]
    predicted: Float[Array, ""]
    damping: Float[Array, ""]
    growth: Float[Array, ""]
    exact: Bool[Array, ""]
    started: Bool[Array, ""]
    accepted: Bool[Array, ""]


def first_iterate(point, model, damping) -> Iterate:
    """The iterate before the first evaluation. The candidate is the starting point; of `model` only the shapes are used."""
    dtype = model.g.dtype
    no, zero, two = jnp.asarray(False), jnp.zeros((), dtype), jnp.full((), 2.0, dtype)
    damping, y = jnp.asarray(damping, dtype), jnp.zeros_like(model.d)
    return Iterate(point, model, point, y, zero, damping, two, no, no, no)


def next_iterate(
    iterate: Iterate,
    evaluate: Callable[..., Any],
    conditions: Callable[..., Any],
    move: Callable[..., Any],
    penalty: Float[Array, ""],
    switch: Float[Array, ""],
) -> Iterate:
    """Accepts or rejects the candidate, and computes the next one.

    **Arguments:** `evaluate`: point -> model with `cost`, `g`, `H`, `d`, `D`; `conditions`: point -> d;
    `move`: (point, z) -> point; `penalty`: σ; `switch`: steps satisfy the linearised conditions exactly
    once max|d| is below this value.
    """
    there = evaluate(iterate.candidate)
    iterate = _judged(iterate, there, penalty)
    point, model = iterate.point, iterate.model
    exact = iterate.exact | (jnp.max(jnp.abs(model.d), initial=0.0) < switch)
    z, y, left = _direction(iterate, exact, lambda z: conditions(move(point, z)), penalty)
    cost = model.cost + jnp.dot(model.g, z) + jnp.dot(z, model.H @ z) / 2
    d = jnp.where(exact, left, model.d + model.D @ z)
    predicted = _merit(cost, d, y, penalty)
    return iterate._replace(candidate=move(point, z), y=y, predicted=predicted, exact=exact)


def _merit(cost, d, y, penalty):
    """The augmented Lagrangian."""
    return cost + jnp.dot(y, d) + penalty / 2 * jnp.dot(d, d)


def _judged(iterate: Iterate, there, penalty) -> Iterate:
    """Accepts or rejects the candidate, whose model is `there`, by its merit, and updates the damping λ."""
    here = _merit(iterate.model.cost, iterate.model.d, iterate.y, penalty)
    actual = here - _merit(there.cost, there.d, iterate.y, penalty)
    ratio = actual / (here - iterate.predicted)
    started = iterate.started
    # After a second-order correction the model may predict a rise of the merit. The ratio of two rises is positive.
    good = (actual > 0) & (ratio > 1e-4) & jnp.isfinite(there.cost) & jnp.all(jnp.isfinite(there.d))
    accepted = good | ~started
    point, model = tree.map(
        lambda new, old: jnp.where(accepted, new, old),
        (iterate.candidate, there),
        (iterate.point, iterate.model),
    )
    less = iterate.damping * jnp.maximum(1 / 4, 1 - (2 * ratio - 1) ** 3)
    less = jnp.where(started, less, iterate.damping)
    return iterate._replace(
        point=point,
        model=model,
        damping=jnp.where(accepted, less, jnp.minimum(iterate.damping * iterate.growth, 1e15)),
        growth=jnp.where(accepted, 2.0, jnp.minimum(2 * iterate.growth, 1e6)),
        started=jnp.ones_like(started),
        accepted=accepted,
    )


def _direction(iterate: Iterate, exact, conditions: Callable[..., Any], penalty):
    """(z, y, d): the step with its second-order corrections, the multipliers, and the residuals that the step leaves in the
    linearised conditions if it satisfies them, 0 unless they contradict one another."""
    model = iterate.model
    shifted = model.H + iterate.damping * jnp.eye(model.H.shape[0], dtype=model.H.dtype)
    L = jnp.linalg.cholesky(shifted + penalty * model.D.T @ model.D)

    def forward(b):
        return solve_triangular(L, b, lower=True)

    def backward(b):
        return solve_triangular(L, b, lower=True, trans=1)

    Z, w = forward(model.D.T), forward(model.g + penalty * model.D.T @ model.d)
    S = Z.T @ Z
    raised = S + DEPENDENT * jnp.max(jnp.diagonal(S)) * jnp.eye(S.shape[0], dtype=S.dtype)
    factor = jnp.linalg.cholesky(raised)

    def multipliers(d):
        found = _bounded_solve(S, factor, d)
        return jnp.where(exact, found, jnp.zeros_like(found))

    y = multipliers(model.d - Z.T @ w)
    z = -backward(w + Z @ y)
    left = model.d + model.D @ z

    def correct(_, z):
        return z - backward(Z @ multipliers(conditions(z)))

    return fori_loop(0, 2, correct, z), y, left


def _bounded_solve(S, factor, b):
    """An approximate solution of S x = b that stays bounded if S is singular; `factor`: the Cholesky factor of S + τ1.

    x = (S + τ1)⁻¹ S (S + τ1)⁻¹ b, refined once: parts of b that belong to eigenvalues s of S far above τ are divided by s
    up to (2 τ/s)², and those far below τ are multiplied by at most 2 s/τ², so that x is bounded where S is singular.
    """

    def filtered(b):
        return cho_solve((factor, True), S @ cho_solve((factor, True), b))

    x = filtered(b)
    return x + filtered(b - S @ x)


def stationarity(model, y) -> Float[Array, ""]:
    """|g + Dᵀy|, the norm of the Lagrangian's gradient."""
    return jnp.linalg.norm(model.g + model.D.T @ y)
