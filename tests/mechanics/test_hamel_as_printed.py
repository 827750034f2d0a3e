"""Hamel's equations in coordinates as the papers print them, each term written out beside the package's result.

Müller 2021, sections 2.1 to 2.4; Müller 2023, section 2; Putkaradze and Rogers, (A.32), (A.33). Coefficients are the
alternated slopes of A by definition, momenta and rates plain derivatives: nothing here calls the equations that it checks.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    hamel_coefficients,
)
from jaxhamel.mechanics import (
    acceleration,
    constraint_force,
    quasi_velocity,
    velocity,
)
from tests.mechanics.printed import close
from tests.mechanics.printed_systems import (
    NOW,
    Constrained,
    ConstrainedFree,
    M,
    N,
    Pushed,
    by_definition,
    frames,
    random_state,
)


def left_side(system, q, u, u_dot):
    """d/dt ∂L/∂u^a − ∂L/∂q^b B^b_a + ∂L/∂u^b γ^b_ac u^c − Q_a for all a, u^α = 0 after differentiating; ∂L/∂u; γ."""
    zero = jnp.zeros(system.n_constraints)
    u, u_dot = jnp.concatenate([zero, u]), jnp.concatenate([zero, u_dot])
    B = frames(system, q)[1]
    reduced = lambda q, u: system.lagrangian(0.0, q, frames(system, q)[1] @ u)
    momentum = lambda q, u: jax.grad(reduced, argnums=1)(q, u)
    p, p_dot = jax.jvp(momentum, (q, u), (B @ u, u_dot))
    gamma = by_definition(system, q)
    turning = jnp.einsum("b,bac,c->a", p, gamma, u)
    forces = system.force(0.0, q, B @ u, None) @ B
    return p_dot - jax.grad(reduced)(q, u) @ B + turning - forces, p, gamma


# --- quasi-velocities and their coefficients ------------------------------------------------------


def test_quasi_velocities_and_back():
    """(1)–(5), (20), (21), (24) of 2021; (2.1), (2.2), (2.8), (2.9), (2.12) of 2023: u = A q̇ and q̇ = B u, by components."""
    free, q, u = random_state(Pushed)
    A, B = frames(free, q)
    rate = jnp.einsum("ab,b->a", B, u)
    close(velocity(free, 0.0, q, u), rate)
    close(quasi_velocity(free, 0.0, q, rate), jnp.einsum("ab,b->a", A, rate))
    close(jnp.einsum("ab,b->a", A, rate), u)
    tied, q, u = random_state(Constrained)
    A, B = frames(tied, q)
    rate = velocity(tied, 0.0, q, u)
    close(rate, jnp.einsum("ai,i->a", B[:, M:], u))  # (24), (2.12)
    close(A[:M] @ rate, 0.0)  # (20), (2.8)
    close(quasi_velocity(tied, 0.0, q, rate), A[M:] @ rate)  # (21), (2.9)
    close(A[M:] @ rate, u)
    assert np.max(np.abs(A[M:] - np.eye(N)[M:])) > 0.05


def test_coefficients_by_definition():
    """(12), (23), (2.6), (2.11): the package's γ is the alternated slope of A, by components of a random frame."""
    system, q, _ = random_state(Constrained)
    frame = lambda q: system.frame(0.0, q)
    found, wanted = jax.jit(lambda q: (hamel_coefficients(frame, q), by_definition(system, q)))(q)
    close(found, wanted, 1e-13)
    assert np.max(np.abs(wanted[:, M:, M:])) > 1e-2


def test_quasi_coordinates_depend_on_the_path():
    """(6), (7): π^a = ∫ u^a dt around an ellipse is the integral of the bracket of (7), −γ^a_bc A^b_r A^c_s, over its area;
    zero where u = dx/dt of coordinates x(q)."""
    system, q, _ = random_state(Pushed)
    x, weights = np.polynomial.legendre.leggauss(8)
    radius, weights = jnp.asarray(0.5 * (x + 1)), jnp.asarray(0.5 * weights)
    angle = jnp.asarray(2 * np.pi * np.arange(24) / 24)
    axes = jnp.asarray(np.random.default_rng(3).normal(size=(N, 2))) * 0.5

    class Holonomic(Pushed):
        def frame(self, t, q):
            return jax.jacfwd(lambda q: q + 0.3 * jnp.sin(self.base.frame(NOW, jnp.zeros(N)) @ q))(
                q
            )

    def point(rho, phi):
        return q + rho * axes @ jnp.stack([jnp.cos(phi), jnp.sin(phi)])

    def around(system):
        at = lambda phi: (point(1.0, phi), jax.jacfwd(point, argnums=1)(1.0, phi))
        return jnp.mean(jax.vmap(lambda phi: quasi_velocity(system, 0.0, *at(phi)))(angle), axis=0)

    def over(system):
        def density(rho, phi):
            at, sides = point(rho, phi), jax.jacfwd(point, argnums=(0, 1))(rho, phi)
            gamma = hamel_coefficients(lambda q: system.frame(0.0, q), at)
            X, Y = (system.frame(0.0, at) @ side for side in sides)
            return -jnp.einsum("abc,b,c->a", gamma, X, Y)

        values = jax.vmap(lambda rho: jax.vmap(lambda phi: density(rho, phi))(angle))(radius)
        return weights @ jnp.mean(values, axis=1)

    loop, area, flat = jax.jit(
        lambda: (around(system), over(system), around(Holonomic(system.base)))
    )()
    close(loop, area, 1e-9)
    assert np.min(np.abs(loop)) > 1e-3
    close(flat, 0.0, 1e-9)


# --- the equations --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Pushed, Constrained])
def test_hamel_equations_term_by_term(kind):
    """(13), (14), (20)–(24) of 2021; (2.4), (2.8)–(2.12) of 2023: the printed left side vanishes at the package's u̇ for
    every independent direction; along the constraints it is the multiplier."""
    system, q, u = random_state(kind)
    m = system.n_constraints
    u_dot = acceleration(system, 0.0, q, u, route="boltzmann-hamel")
    left, p, gamma = jax.jit(lambda q, u, a: left_side(system, q, u, a))(q, u, u_dot)
    close(left[m:], 0.0, 1e-11)
    assert np.max(np.abs(np.einsum("b,bij,j->i", p, gamma[:, m:, m:], u))) > 1e-2
    if m:
        close(left[:m], constraint_force(system, 0.0, q, u), 1e-11)
        assert np.min(np.abs(left[:m])) > 1e-2


@pytest.mark.parametrize("kind", [Pushed, Constrained])
def test_variational_form(kind):
    """(10), (11) of 2021; (2.3), (2.5) of 2023 on a family q(t, ε) about the motion: zero for every δπ that the
    constraints allow, and the second bracket is γ^a_cb u^b δπ^c whatever the rate of the variation."""
    system, q, u = random_state(kind)
    m, rng = system.n_constraints, np.random.default_rng(8)
    B = frames(system, q)[1]
    eta = B[:, m:] @ rng.normal(size=N - m)
    eta_rate = jnp.asarray(rng.normal(size=N))
    u_dot = acceleration(system, 0.0, q, u, route="boltzmann-hamel")

    @jax.jit
    def terms(q, u, u_dot, eta, eta_rate):
        along = lambda q, u: velocity(system, 0.0, q, u)
        v, v_dot = jax.jvp(along, (q, u), (along(q, u), u_dot))
        path = lambda t, e: q + v * t + 0.5 * v_dot * t**2 + e * (eta + eta_rate * t)
        by = lambda i: lambda t, e: jax.jacfwd(path, argnums=i)(t, e)
        form = lambda i: lambda t, e: system.frame(0.0, path(t, e)) @ by(i)(t, e)
        delta = form(1)(0.0, 0.0)
        bracket = jax.jacfwd(form(1))(0.0, 0.0) - jax.jacfwd(form(0), argnums=1)(0.0, 0.0)
        reduced = lambda q, u: system.lagrangian(0.0, q, frames(system, q)[1] @ u)
        momentum = lambda t: jax.grad(reduced, argnums=1)(path(t, 0.0), form(0)(t, 0.0))
        full, B = form(0)(0.0, 0.0), frames(system, q)[1]
        first = jax.jacfwd(momentum)(0.0)
        first = first - (jax.grad(reduced)(q, full) + system.force(0.0, q, v, None)) @ B
        gamma = by_definition(system, q)
        return first @ delta, momentum(0.0) @ bracket, bracket, gamma, full, delta

    first, second, bracket, gamma, full, delta = terms(q, u, u_dot, eta, eta_rate)
    close(first + second, 0.0)
    assert abs(second) > 1e-2
    close(bracket, np.einsum("acb,b,c->a", gamma, full, delta))
    close(delta[:m], 0.0)


def test_lagranges_equations():
    """(19): d/dt ∂L/∂q̇^a − ∂L/∂q^a = Q_a, A = 1, of a Lagrangian that is not quadratic."""

    class Coordinates(Pushed):
        def frame(self, t, q):
            return jnp.eye(N)

    system, q, v = random_state(Coordinates)
    v_dot = acceleration(system, 0.0, q, v, route="boltzmann-hamel")
    close(euler_lagrange_left(system, q, v, v_dot), system.force(0.0, q, v, None))


def euler_lagrange_left(system, q, v, v_dot):
    """d/dt ∂L/∂q̇ − ∂L/∂q."""
    function = lambda q, v: system.lagrangian(0.0, q, v)

    @jax.jit
    def left(q, v, v_dot):
        _, rate = jax.jvp(jax.grad(function, argnums=1), (q, v), (v, v_dot))
        return rate - jax.grad(function)(q, v)

    return left(q, v, v_dot)


def test_lagrange_dalembert_with_multipliers():
    """Putkaradze and Rogers (A.32), (A.33): d/dt ∂L/∂q̇ − ∂L/∂q is Σ λ_j A^j with the package's q̈ and λ, so that it
    annihilates every velocity that the constraints allow, and no other."""
    system, q, u = random_state(ConstrainedFree)
    rows = system.frame(0.0, q)[:M]
    along = lambda q, u: velocity(system, 0.0, q, u)
    u_dot = acceleration(system, 0.0, q, u, route="multipliers")
    push = lambda q, u, u_dot: jax.jvp(along, (q, u), (along(q, u), u_dot))
    v, v_dot = jax.jit(push)(q, u, u_dot)
    left = euler_lagrange_left(system, q, v, v_dot)
    multipliers = constraint_force(system, 0.0, q, u)
    close(left, np.einsum("j,ji->i", multipliers, rows))
    close(rows @ v, 0.0)
    allowed = np.linalg.svd(rows)[2][M:]
    close(allowed @ left, 0.0)
    assert np.linalg.norm(left) > 1e-1
    # the rate of the constraint itself: what decides λ
    _, change = jax.jvp(lambda q, v: system.frame(0.0, q)[:M] @ v, (q, v), (v, v_dot))
    close(change, 0.0)
