"""Hamel's equations in coordinates as the papers print them, each term written out beside the package's result.

Müller 2021, sections 2.1 to 2.4; Müller 2023, sections 2 and 3; From 2012, sections 2.2 and 3; Putkaradze and Rogers,
(A.32), (A.33). Coefficients are the alternated slopes of A by definition, momenta and rates plain derivatives: nothing
here calls the equations that it checks.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    Euclidean,
    bundle_frame,
    fibre_velocity,
    hamel_coefficients,
    kinematic_connection,
)
from jaxhamel.mechanics import (
    System,
    acceleration,
    constraint_force,
    hamel_chaplygin,
    kinematic_coefficients,
    kinematic_curvature,
    quasi_velocity,
    velocity,
)
from tests.mechanics.random_systems import RandomSystem, random_system

N, M, NOW = 4, 2, 0.3


class Free(System):
    """A random Lagrangian, not quadratic, and a random frame on R⁴, both at one instant: nothing depends on time."""

    base: RandomSystem
    space = Euclidean(N)

    def lagrangian(self, t, q, v):
        return self.base.lagrangian(NOW, q, v)

    def frame(self, t, q):
        return self.base.frame(NOW, q)


class Pushed(Free):
    def force(self, t, q, v, control):
        return self.base.force(NOW, q, v, control)


class Constrained(Pushed):
    n_constraints = M


class ConstrainedFree(Free):
    n_constraints = M


class Split(Constrained):
    """q = (s, r), the frame [[A_1, A_2], [0, 1]] of (26) and (3.2)."""

    def frame(self, t, q):
        return jnp.concatenate([self.base.frame(NOW, q)[:M], jnp.eye(N)[M:]])


def random_state(kind, seed=6):
    base, _, q, u = random_system(seed, Euclidean(N), kind.n_constraints)
    return kind(base), q, u


def frames(system, q):
    A = system.frame(0.0, q)
    return A, jnp.linalg.inv(A)


def by_definition(system, q):
    """γ^c_ab = (∂A^c_r/∂q^s − ∂A^c_s/∂q^r) B^r_a B^s_b: (12), (23), (2.6), (2.11)."""
    slope = jax.jacfwd(lambda q: system.frame(0.0, q))(q)  # [c, r, s]
    B = frames(system, q)[1]
    return jnp.einsum("crs,ra,sb->cab", slope - jnp.swapaxes(slope, 1, 2), B, B)


def left_side(system, q, u, u_dot):
    """d/dt ∂L/∂u^a − ∂L/∂q^b B^b_a + ∂L/∂u^b γ^b_ac u^c − Q_a for all a, u^α = 0 after differentiating; ∂L/∂u; γ."""
    zero = jnp.zeros(system.n_constraints)
    u, u_dot = jnp.concatenate([zero, u]), jnp.concatenate([zero, u_dot])
    B = frames(system, q)[1]
    reduced = lambda q, u: system.lagrangian(0.0, q, frames(system, q)[1] @ u)  # noqa: E731
    momentum = lambda q, u: jax.grad(reduced, argnums=1)(q, u)  # noqa: E731
    p, p_dot = jax.jvp(momentum, (q, u), (B @ u, u_dot))
    gamma = by_definition(system, q)
    turning = jnp.einsum("b,bac,c->a", p, gamma, u)
    forces = system.force(0.0, q, B @ u, None) @ B
    return p_dot - jax.grad(reduced)(q, u) @ B + turning - forces, p, gamma


def close(found, wanted, atol=1e-11):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


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
    frame = lambda q: system.frame(0.0, q)  # noqa: E731
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
        at = lambda phi: (point(1.0, phi), jax.jacfwd(point, argnums=1)(1.0, phi))  # noqa: E731
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
    u_dot = acceleration(system, 0.0, q, u)
    left, p, gamma = jax.jit(lambda q, u, a: left_side(system, q, u, a))(q, u, u_dot)
    close(left[m:], 0.0)
    assert np.max(np.abs(np.einsum("b,bij,j->i", p, gamma[:, m:, m:], u))) > 1e-2
    if m:
        close(left[:m], constraint_force(system, 0.0, q, u))
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
    u_dot = acceleration(system, 0.0, q, u)

    @jax.jit
    def terms(q, u, u_dot, eta, eta_rate):
        along = lambda q, u: velocity(system, 0.0, q, u)  # noqa: E731
        v, v_dot = jax.jvp(along, (q, u), (along(q, u), u_dot))
        path = lambda t, e: q + v * t + 0.5 * v_dot * t**2 + e * (eta + eta_rate * t)  # noqa: E731
        by = lambda i: lambda t, e: jax.jacfwd(path, argnums=i)(t, e)  # noqa: E731
        form = lambda i: lambda t, e: system.frame(0.0, path(t, e)) @ by(i)(t, e)  # noqa: E731
        delta = form(1)(0.0, 0.0)
        bracket = jax.jacfwd(form(1))(0.0, 0.0) - jax.jacfwd(form(0), argnums=1)(0.0, 0.0)
        reduced = lambda q, u: system.lagrangian(0.0, q, frames(system, q)[1] @ u)  # noqa: E731
        momentum = lambda t: jax.grad(reduced, argnums=1)(path(t, 0.0), form(0)(t, 0.0))  # noqa: E731
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
    v_dot = acceleration(system, 0.0, q, v)
    close(euler_lagrange_left(system, q, v, v_dot), system.force(0.0, q, v, None))


def euler_lagrange_left(system, q, v, v_dot):
    """d/dt ∂L/∂q̇ − ∂L/∂q."""
    function = lambda q, v: system.lagrangian(0.0, q, v)  # noqa: E731

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
    along = lambda q, u: velocity(system, 0.0, q, u)  # noqa: E731
    v, v_dot = jax.jvp(along, (q, u), (along(q, u), acceleration(system, 0.0, q, u)))
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


# --- coordinates (s, r) ---------------------------------------------------------------------------


def test_rows_and_their_inverse():
    """(26), (27), (30)–(32) of 2021; (3.1)–(3.4), (3.7)–(3.10), (3.13) of 2023, blocks by NumPy; (27) with +A_1⁻¹."""
    system, q, rdot = random_state(Split)
    rows = np.asarray(system.frame(0.0, q))
    A1, A2 = rows[:M, :M], rows[:M, M:]
    B1 = np.linalg.inv(A1)
    B2 = -B1 @ A2
    eye, zero = np.eye(N - M), np.zeros((N - M, M))
    close(frames(system, q)[1], np.block([[B1, B2], [zero, eye]]))
    u = np.random.default_rng(1).normal(size=M)
    sdot = B1 @ u + B2 @ rdot  # (3.3)
    close(A1 @ sdot + A2 @ rdot, u)  # (3.1)
    close(velocity(system, 0.0, q, rdot), np.concatenate([B2 @ rdot, rdot]))  # (3.7), (30)
    A = kinematic_coefficients(system, 0.0, q)
    close(A, -B2)  # (30), (3.8)
    close(kinematic_connection(jnp.asarray(rows[:M])), -B2)
    close(fibre_velocity(A, rdot), B2 @ rdot)  # (3.13)
    of_bundle = bundle_frame(
        lambda s, r: kinematic_coefficients(system, 0.0, jnp.concatenate([s, r])), M
    )
    normal = np.asarray(of_bundle(q))
    close(normal, np.block([[np.eye(M), -B2], [zero, eye]]))  # (31), (32), (3.8), (3.9)
    close(np.linalg.inv(normal), np.block([[np.eye(M), B2], [zero, eye]]))  # (32), (3.10)
    assert np.max(np.abs(A1 - np.eye(M))) > 0.05


def test_coefficients_of_the_split_frame():
    """(3.5) of 2023, its three lines; γ^K_ab = 0; (3.11) and the line above it: γ^α_βJ = −∂A^α_J/∂s^β."""
    system, q, _ = random_state(Split)
    kin = lambda q: kinematic_coefficients(system, 0.0, q)  # noqa: E731
    normal = bundle_frame(lambda s, r: kin(jnp.concatenate([s, r])), M)

    @jax.jit
    def everything(q):
        rows = lambda q: system.frame(0.0, q)[:M]  # noqa: E731
        of_frame = hamel_coefficients(lambda q: system.frame(0.0, q), q)
        return of_frame, hamel_coefficients(normal, q), jax.jacfwd(rows)(q), jax.jacfwd(kin)(q)

    gamma, of_normal, slope, slope_kin = map(np.asarray, everything(q))
    B = np.asarray(frames(system, q)[1])[:M]
    Bb, BI = B[:, :M], B[:, M:]
    ss, sr = slope[:, :M, :M], slope[:, :M, M:]  # ∂A_β/∂s^μ, ∂A_β/∂r^J
    rs, rr = slope[:, M:, :M], slope[:, M:, M:]  # ∂A_I/∂s^β, ∂A_I/∂r^J
    swap = lambda x: np.swapaxes(x, 1, 2)  # noqa: E731
    first = np.einsum("amn,mb,nl->abl", ss - swap(ss), Bb, Bb)
    close(gamma[:M, :M, :M], first, 1e-13)
    second = rr - swap(rr) + np.einsum("abm,bi,mj->aij", ss - swap(ss), BI, BI)
    second = second + np.einsum("aib,bj->aij", rs - swap(sr), BI)
    second = second + np.einsum("abj,bi->aij", sr - swap(rs), BI)
    close(gamma[:M, M:, M:], second, 1e-13)
    third = np.einsum("anm,nb,mj->abj", ss - swap(ss), Bb, BI)
    third = third + np.einsum("amj,mb->abj", sr - swap(rs), Bb)
    close(gamma[:M, :M, M:], third, 1e-13)
    close(gamma[M:], 0.0, 1e-15)
    assert min(np.max(np.abs(x)) for x in (first, second, third)) > 1e-2
    close(of_normal[:M, :M, M:], -np.swapaxes(slope_kin[:, :, :M], 1, 2), 1e-13)


def test_exterior_derivative_of_the_constraints():
    """(37) of 2021: dω^α on two horizontal fields is (∂F̄_I/∂r^J − ∂F̄_I/∂s^β F̄^β_J) dr^J ∧ dr^I; minus it is γ^α_IJ."""
    system, q, _ = random_state(Split)
    kin = lambda q: kinematic_coefficients(system, 0.0, q)  # noqa: E731
    slope = np.asarray(jax.jacfwd(kin)(q))
    F = np.asarray(kin(q))
    coefficient = slope[:, :, M:] - np.einsum("aib,bj->aij", slope[:, :, :M], F)  # [α, I, J]
    form = lambda q: jnp.concatenate([jnp.eye(M), kin(q)], axis=1)  # noqa: E731
    by_q = np.asarray(jax.jacfwd(form)(q))  # ∂ω^α_a/∂q^b
    exterior = np.swapaxes(by_q, 1, 2) - by_q  # dω(X, Y) = (∂_a ω_b − ∂_b ω_a) X^a Y^b
    horizontal = np.concatenate([-F, np.eye(N - M)])
    on_fields = np.einsum("aij,ik,jl->akl", exterior, horizontal, horizontal)
    # (dr^J ∧ dr^I)(F_K, F_L) = δ^J_K δ^I_L − δ^J_L δ^I_K
    close(on_fields, np.swapaxes(coefficient, 1, 2) - coefficient, 1e-13)
    close(kinematic_curvature(system, 0.0, q), coefficient - np.swapaxes(coefficient, 1, 2), 1e-13)


def test_equations_in_coordinates_of_a_split_space():
    """(3.6) of 2023 with + B^α_I terms along the fibre and ∂ℒ/∂u^α for the printed ∂ℒ/∂ṡ^α: zero at r̈, not as printed."""
    system, q, rdot = random_state(Split)
    r_ddot = hamel_chaplygin(system, 0.0, q, rdot)
    close(r_ddot, acceleration(system, 0.0, q, rdot, route="multipliers"))

    @jax.jit
    def terms(q, rdot, r_ddot):
        B = frames(system, q)[1]
        split = lambda q, u, rdot: system.lagrangian(  # noqa: E731
            0.0, q, frames(system, q)[1] @ jnp.concatenate([u, rdot])
        )
        zero = jnp.zeros(M)
        v = B[:, M:] @ rdot
        _, rate = jax.jvp(
            lambda q, rdot: jax.grad(split, argnums=2)(q, zero, rdot), (q, rdot), (v, r_ddot)
        )
        by_q, by_u = jax.grad(split, argnums=(0, 1))(q, zero, rdot)
        by_sdot = jax.grad(lambda v: system.lagrangian(0.0, q, v))(v)[:M]
        curved = by_definition(system, q)[:M, M:, M:] @ rdot
        force = system.force(0.0, q, v, None) @ B[:, M:]
        return rate - by_q[M:] - force, by_q[:M] @ B[:M, M:], by_u, by_sdot, curved, B[:M, :M]

    rest, along_fibre, by_u, by_sdot, curved, B1 = terms(q, rdot, r_ddot)
    close(rest - along_fibre + by_u @ curved, 0.0)
    close(by_u, by_sdot @ B1)
    printed = rest + by_sdot @ curved
    assert np.max(np.abs(printed)) > 1e-2
    assert np.max(np.abs(along_fibre)) > 1e-2
    assert np.max(np.abs(by_sdot @ curved - by_u @ curved)) > 1e-3


# --- From 2012 ------------------------------------------------------------------------------------

SHIFT = jnp.asarray(np.random.default_rng(4).normal(size=(3, 3, 3)))
MASSES = jnp.asarray(np.diag([1.0, 2.0, 1.5]) + 0.2)


class InBodyVelocities(System):
    """L = ½ vᵀ M v − U(x) with v = S(x) ẋ, a torque τ collocated with v."""

    space = Euclidean(3)

    def frame(self, t, q):
        return jnp.eye(3) + 0.3 * jnp.tensordot(SHIFT, jnp.sin(q), axes=1)

    def potential(self, q):
        return jnp.sin(q[0]) * q[1] + q[2] ** 2

    def lagrangian(self, t, q, v):
        u = self.frame(t, q) @ v
        return 0.5 * u @ MASSES @ u - self.potential(q)

    def force(self, t, q, v, control):
        return self.frame(t, q).T @ control


def test_from_in_coordinates():
    """(12)–(27), (30), (31) of From 2012: momenta, rates and (26) at the package's v̇; (38)–(47): [γ_k]_ij = γ^j_ik."""
    system = InBodyVelocities()
    x, v, torque = jnp.asarray(np.random.default_rng(5).normal(size=(3, 3)))
    v_dot = acceleration(system, 0.0, x, v, torque)

    @jax.jit
    def everything(x, v, v_dot):
        S = lambda x: system.frame(0.0, x)  # noqa: E731
        B, p = jnp.linalg.inv(S(x)), MASSES @ v  # (14)
        whole = lambda x, xdot: system.lagrangian(0.0, x, xdot)  # (17)  # noqa: E731
        of_v = lambda x, v: 0.5 * v @ MASSES @ v - system.potential(x)  # (13)  # noqa: E731
        back = lambda x, v: jnp.linalg.solve(S(x), v)  # noqa: E731
        xdot, xddot = jax.jvp(back, (x, v), (back(x, v), v_dot))
        _, S_dot = jax.jvp(S, (x,), (xdot,))
        slope = jax.jacfwd(lambda y: S(y) @ xdot)(x)  # ∂(S ẋ)/∂x
        by_xdot, rate = jax.jvp(jax.grad(whole, argnums=1), (x, xdot), (xdot, xddot))
        pairs = {
            "19": (by_xdot, S(x).T @ p),
            "20": (rate, S_dot.T @ p + S(x).T @ (MASSES @ v_dot)),
            "21": (jax.grad(whole)(x, xdot), jax.grad(of_v)(x, v) + slope.T @ p),
            "22": (rate - jax.grad(whole)(x, xdot), S(x).T @ torque),
            "24": (v @ torque, xdot @ S(x).T @ torque),
            "26": (
                MASSES @ v_dot - B.T @ jax.grad(of_v)(x, v) + B.T @ (S_dot.T - slope.T) @ p,
                torque,
            ),
        }
        by_x = jax.jacfwd(S)(x)  # [j, l, m] = ∂S_jl/∂q_m
        first = jnp.einsum("li,jlm,mk->ijk", B, by_x, B)  # (42)
        second = -jnp.einsum("li,jml,mk->ijk", B, by_x, B)  # (45)
        pairs["42"] = (first @ v, B.T @ S_dot.T)
        pairs["45"] = (second @ v, -B.T @ slope.T)
        gamma = hamel_coefficients(S, x)
        pairs["46"] = (first + second, jnp.einsum("jik->ijk", gamma))
        pairs["27"] = (B.T @ (S_dot.T - slope.T) @ p, (first + second) @ v @ p)
        C = jnp.einsum("ijk,k,jl->il", first + second, v, MASSES)  # (52)
        C_54 = jnp.einsum("ijk,j->ik", first + second, p)  # (53), (54)
        pairs["53"] = (C @ v, C_54 @ v)
        return pairs

    for name, (left, right) in everything(x, v, v_dot).items():
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-12, err_msg=name)
