"""Constraints in coordinates (s, r) as Müller 2021, section 2.4.2, and Müller 2023, section 3, print them.

Blocks are NumPy's, coefficients alternated slopes by definition: nothing here calls the equations that it checks.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import (
    bundle_frame,
    fibre_velocity,
    hamel_coefficients,
    kinematic_connection,
)
from jaxhamel.mechanics import (
    acceleration,
    hamel_chaplygin,
    kinematic_coefficients,
    kinematic_curvature,
    velocity,
)
from tests.mechanics.printed import close
from tests.mechanics.printed_systems import M, N, Split, by_definition, frames, random_state


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
    kin = lambda q: kinematic_coefficients(system, 0.0, q)
    normal = bundle_frame(lambda s, r: kin(jnp.concatenate([s, r])), M)

    @jax.jit
    def everything(q):
        rows = lambda q: system.frame(0.0, q)[:M]
        of_frame = hamel_coefficients(lambda q: system.frame(0.0, q), q)
        return of_frame, hamel_coefficients(normal, q), jax.jacfwd(rows)(q), jax.jacfwd(kin)(q)

    gamma, of_normal, slope, slope_kin = map(np.asarray, everything(q))
    B = np.asarray(frames(system, q)[1])[:M]
    Bb, BI = B[:, :M], B[:, M:]
    ss, sr = slope[:, :M, :M], slope[:, :M, M:]  # ∂A_β/∂s^μ, ∂A_β/∂r^J
    rs, rr = slope[:, M:, :M], slope[:, M:, M:]  # ∂A_I/∂s^β, ∂A_I/∂r^J
    swap = lambda x: np.swapaxes(x, 1, 2)
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
    kin = jax.jit(lambda q: kinematic_coefficients(system, 0.0, q))
    slope = np.asarray(jax.jit(jax.jacfwd(kin))(q))
    F = np.asarray(kin(q))
    coefficient = slope[:, :, M:] - np.einsum("aib,bj->aij", slope[:, :, :M], F)  # [α, I, J]
    form = lambda q: jnp.concatenate([jnp.eye(M), kin(q)], axis=1)
    by_q = np.asarray(jax.jit(jax.jacfwd(form))(q))  # ∂ω^α_a/∂q^b
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
        split = lambda q, u, rdot: system.lagrangian(
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
