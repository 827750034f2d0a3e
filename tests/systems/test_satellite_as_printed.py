"""Müller 2023, (5.15) to (5.35): the satellite's equations as printed, on SO(3) × R³ and on SE(3), beside the package's.

Wheel i sits on the axis e_i through the origin of the frame, where the printed equations hold: see the errata. Inertias
are put together here from discs and their places.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import SE3, SO3, Euclidean, Product, curvature
from jaxhamel.mechanics import acceleration, mass_blocks, mechanical_connection
from jaxhamel.systems import Satellite

J, ACROSS = np.array([0.3, 0.4, 0.5]), np.array([0.2, 0.25, 0.3])
WHEEL_MASSES, PLACES = np.array([2.0, 3.0, 2.5]), np.array([0.3, -0.2, 0.25])
POSITIONS = PLACES[:, None] * np.eye(3)
HULL, MASS = np.array([[1.0, 0.1, 0], [0.1, 1.2, -0.05], [0, -0.05, 0.9]]), 20.0
BALANCED = -(WHEEL_MASSES @ POSITIONS) / MASS  # the whole centre of mass at the origin
TORQUE = np.array([0.7, -1.1, 0.4])
OMEGA, SPEED, SPIN = np.random.default_rng(5).normal(size=(3, 3))
TOTAL = MASS + WHEEL_MASSES.sum()


def satellite(com):
    return Satellite(
        np.eye(3),
        J,
        mass=MASS,
        inertia=HULL,
        com=com,
        wheel_masses=WHEEL_MASSES,
        wheel_positions=POSITIONS,
        wheel_transverse_inertias=ACROSS,
    )


def tilde(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def about_origin(inertia, mass, d):
    """(Θ, M) of (5.26)."""
    theta = inertia - mass * tilde(d) @ tilde(d)
    return theta, np.block([[theta, mass * tilde(d)], [-mass * tilde(d), mass * np.eye(3)]])


def parts(com):
    """Of the hull and of each wheel."""
    discs = [np.diag(np.where(np.eye(3)[i], J[i], ACROSS[i])) for i in range(3)]
    wheels = [about_origin(*each) for each in zip(discs, WHEEL_MASSES, POSITIONS, strict=True)]
    return [about_origin(HULL, MASS, com), *wheels]


def close(found, wanted, atol=1e-12):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


@jax.jit
def on_se3(com):
    """Rates, energy, mass matrix, connection and its curvature of the satellite on SE(3), of its twin on SO(3) × R³."""
    body = satellite(com)
    q = (SE3().identity(), jnp.zeros(3))
    mixed, q_mixed = body.mixed(), ((SO3().identity(), jnp.zeros(3)), jnp.zeros(3))
    u = jnp.concatenate([OMEGA, SPEED, SPIN])
    found = []
    for system, at, space in (
        (body, q, SE3()),
        (mixed, q_mixed, Product(SO3(), Euclidean(3))),
    ):
        kinetic = lambda u, system=system, at=at: system.lagrangian(0.0, at, u)
        connection = mechanical_connection(system)
        found.append(
            {
                "rate": acceleration(system, 0.0, at, u, TORQUE),
                "T": kinetic(u),
                "M": jax.hessian(kinetic)(u),
                "blocks": tuple(mass_blocks(system, 0.0, at)),
                "A": connection(jnp.zeros(3)),
                "B": curvature(connection, jnp.zeros(3), space),
            }
        )
    return found


def test_on_the_direct_product():
    """(5.15)–(5.25): T, the equations of motion with φ̈ and φ̇, their matrix, 𝒜, T in the locked velocity, its block form."""
    _, x = jax.tree.map(np.asarray, on_se3(BALANCED))
    (theta_b, M_b), *wheels = parts(BALANCED)
    thetas = [theta for theta, _ in wheels]
    theta_bar = theta_b + sum(thetas)
    columns = np.stack([theta[:, i] for i, theta in enumerate(thetas)], axis=1)  # θ^i
    off = M_b[:3, 3:] + sum(M[:3, 3:] for _, M in wheels)
    close(off, 0.0)  # (5.15): the coupling of all of them together
    p_dot = SPEED
    energy = 0.5 * OMEGA @ theta_b @ OMEGA + 0.5 * TOTAL * p_dot @ p_dot
    for i, theta in enumerate(thetas):
        w = OMEGA + SPIN[i] * np.eye(3)[i]
        energy += 0.5 * w @ theta @ w
    close(x["T"], energy)  # (5.16)
    w_dot, p_ddot, spin_dot = np.split(x["rate"], 3)
    gyroscopic = np.cross(OMEGA, theta_bar @ OMEGA) + np.cross(OMEGA, columns @ SPIN)
    close(theta_bar @ w_dot + columns @ spin_dot + gyroscopic, 0.0)  # (5.17), (5.18)
    close(TOTAL * p_ddot, 0.0)  # (5.19)
    close(columns.T @ w_dot + np.diag(J) @ spin_dot, TORQUE)  # (5.20)
    zero = np.zeros((3, 3))
    mass = np.block(
        [
            [theta_bar, zero, columns],
            [zero, TOTAL * np.eye(3), zero],
            [columns.T, zero, np.diag(J)],
        ]
    )
    close(x["M"], mass)  # (5.21)
    close(mass @ x["rate"] + np.concatenate([gyroscopic, np.zeros(6)]), [*np.zeros(6), *TORQUE])
    bars = np.linalg.solve(theta_bar, columns)  # θ̄^i
    close(x["A"], np.concatenate([bars, zero]))  # (5.22)
    locked = OMEGA + bars @ SPIN  # with the plus of (5.5)
    again = 0.5 * (locked - bars @ SPIN) @ theta_b @ (locked - bars @ SPIN)
    for i, theta in enumerate(thetas):
        w = locked - bars @ SPIN + SPIN[i] * np.eye(3)[i]
        again += 0.5 * w @ theta @ w
    close(again + 0.5 * TOTAL * p_dot @ p_dot, x["T"])  # (5.23)
    reduced = np.diag(J) - columns.T @ bars  # (5.25)
    L, K, S = x["blocks"]
    close(S - K.T @ np.linalg.solve(L, K), reduced)
    block = 0.5 * locked @ theta_bar @ locked + 0.5 * SPIN @ reduced @ SPIN
    close(block + 0.5 * TOTAL * p_dot @ p_dot, x["T"])  # (5.24): T has no other terms
    for i in range(3):
        for j in range(3):
            close(x["B"][:3, i, j], np.cross(bars[:, i], bars[:, j]))
    close(x["B"][3:], 0.0)


def test_on_the_semidirect_product():
    """(5.26)–(5.35): T of twists, Euler–Poincaré and written out, mass matrix, 𝒜, T and momentum in the locked velocity."""
    com = np.array([0.1, -0.2, 0.3])
    x, _ = jax.tree.map(np.asarray, on_se3(com))
    (_, M_b), *wheels = parts(com)
    matrices = [M for _, M in wheels]
    L = M_b + sum(matrices)
    V = np.concatenate([OMEGA, SPEED])
    axes = np.concatenate([np.eye(3), np.zeros((3, 3))])  # columns (e_i, 0)
    own = axes * SPIN  # V̄_i
    relative = [V + own[:, i] for i in range(3)]
    energy = 0.5 * V @ M_b @ V
    energy += sum(0.5 * v @ M @ v for v, M in zip(relative, matrices, strict=True))
    close(x["T"], energy)  # (5.27)
    ad = np.block([[tilde(OMEGA), np.zeros((3, 3))], [tilde(SPEED), tilde(OMEGA)]])  # (5.28)
    other = np.concatenate([OMEGA[::-1], SPEED[::-1]])
    close(SE3().ad(jnp.asarray(V)) @ other, ad @ other)
    V_dot, spin_dot = x["rate"][:6], x["rate"][6:]
    momentum = L @ V + sum(M @ own[:, i] for i, M in enumerate(matrices))
    K = np.stack([M @ axes[:, i] for i, M in enumerate(matrices)], axis=1)
    close(L @ V_dot + K @ spin_dot - ad.T @ momentum, 0.0)  # (5.29)
    theta_bar = L[:3, :3]
    d = (MASS * com + WHEEL_MASSES @ POSITIONS) / TOTAL
    w_dot, v_dot = V_dot[:3], V_dot[3:]
    thetas = K[:3]  # θ^i; a_i = d_i × e_i is zero
    angular = theta_bar @ w_dot + np.cross(OMEGA, theta_bar @ OMEGA)
    angular -= TOTAL * np.cross(v_dot + np.cross(OMEGA, SPEED), d)
    close(angular + thetas @ spin_dot + np.cross(OMEGA, thetas @ SPIN), 0.0)  # (5.30)
    turning = np.cross(w_dot, d) + np.cross(OMEGA, np.cross(OMEGA, d))
    close(TOTAL * (v_dot + np.cross(OMEGA, SPEED) + turning), 0.0)
    close(J * spin_dot + thetas.T @ w_dot, TORQUE)  # (5.31)
    mass = np.block([[L, K], [K.T, np.diag(J)]])
    close(x["M"], mass)  # (5.32)
    close(L[:3, 3:], TOTAL * tilde(d))
    for found, wanted in zip(x["blocks"], (L, K, np.diag(J)), strict=True):
        close(found, wanted)
    A = np.linalg.solve(L, K)
    close(x["A"], A)  # (5.33)
    locked = V + A @ SPIN
    base = locked - A @ SPIN
    again = 0.5 * base @ M_b @ base
    again += sum(0.5 * (base + own[:, i]) @ M @ (base + own[:, i]) for i, M in enumerate(matrices))
    close(again, x["T"])  # (5.34)
    close(L @ base + sum(M @ own[:, i] for i, M in enumerate(matrices)), L @ locked)  # (5.35)
    for i in range(3):
        for j in range(3):
            screw = SE3().ad(jnp.asarray(A[:, i])) @ A[:, j]
            close(x["B"][:, i, j], screw)
