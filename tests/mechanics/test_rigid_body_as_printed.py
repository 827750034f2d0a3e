"""Hamel coefficients of the rigid body as Müller 2021, sections 3 to 5, derives them, step by step.

With the points of a body of Massa and Vignolo, (1) to (18). Rotations are matrices in three coordinates that are no angles,
their slopes plain derivatives.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import (
    SE3,
    SO3,
    body_frame,
    hamel_coefficients,
    quaternion_matrix,
    spatial_frame,
)
from jaxhamel.mechanics import System, acceleration
from jaxhamel.systems import RigidBody
from tests.mechanics.printed import C_SE3, EPSILON, all_close, close, eps, tilde, vee

RNG = np.random.default_rng(31)
MASS, COM = 1.3, jnp.asarray([0.2, -0.4, 0.3])
SQUARE = RNG.normal(size=(3, 3))
INERTIA = jnp.asarray(SQUARE @ SQUARE.T + np.eye(3))  # about the centre of mass
POSE = jnp.asarray(RNG.normal(size=7))
POSE = POSE.at[:4].divide(jnp.sqrt(POSE[:4] @ POSE[:4]))
TWIST, WRENCH = jnp.asarray(RNG.normal(size=(2, 6)))
FAMILY = jnp.asarray(RNG.normal(size=(3, 7)))


def rotation(phi):
    """R(φ) in three coordinates that are no angles."""
    stored = jnp.concatenate([jnp.ones(1), phi])
    return quaternion_matrix(stored / jnp.sqrt(stored @ stored))


def pose_matrix(turn, r):
    return jnp.zeros((4, 4)).at[:3, :3].set(turn).at[:3, 3].set(r).at[3, 3].set(1.0)


# --- sections 3 and 5: coefficients ---------------------------------------------------------------


def test_coefficients_of_rotations_step_by_step():
    """(42), (44)–(47) of the body's angular velocity, (61)–(66) of the spatial one: Ω, Ψ from R(φ)."""
    phi, rate = jnp.asarray([0.4, -0.3, 0.6]), jnp.asarray([0.5, 1.2, -0.8])

    @jax.jit
    def everything(phi, rate):
        R, dR = rotation(phi), jax.jacfwd(rotation)(phi)  # [l, r, a]
        ddR = jax.jacfwd(jax.jacfwd(rotation))(phi)
        skew = lambda phi, rate: rotation(phi).T @ jax.jvp(rotation, (phi,), (rate,))[1]
        Omega = lambda phi: jax.jacfwd(lambda rate: vee(skew(phi, rate)))(rate)
        Psi, slope = jnp.linalg.inv(Omega(phi)), jax.jacfwd(Omega)(phi)
        mixed = jax.jacfwd(jax.jacfwd(skew, argnums=1))(phi, rate)  # [r, s, a, b]
        gamma = hamel_coefficients(body_frame(SO3()), SO3().identity(), SO3())
        of_45 = jnp.einsum("lrb,lsa,ai,bj->rsij", dR, dR, Psi, Psi)
        of_45 = of_45 - jnp.einsum("lra,lsb,ai,bj->rsij", dR, dR, Psi, Psi)
        in_46 = eps("kjr,kis->rsij") - eps("kir,kjs->rsij")
        return {
            "42": (
                jnp.einsum("kab,ai,bj->kij", slope - jnp.swapaxes(slope, 1, 2), Psi, Psi),
                gamma,
            ),
            "44": (
                mixed,
                jnp.einsum("lr,lsab->rsab", R, ddR) + jnp.einsum("lrb,lsa->rsab", dR, dR),
            ),
            "45": (eps("rks,kij->rsij", gamma), of_45),
            "46": (of_45, in_46),
            "47": (gamma, EPSILON),
        }

    all_close(everything(phi, rate))


class InSpace(System):
    """A body about a fixed point in its spatial angular velocity."""

    inertia: jax.Array
    space = SO3()

    def frame(self, t, q):
        return spatial_frame(SO3())(q)

    def lagrangian(self, t, q, v):
        return 0.5 * v @ self.inertia @ v

    def force(self, t, q, v, control):
        return quaternion_matrix(q).T @ control


def test_euler_in_space_step_by_step():
    """(60)–(65) at the package's ω̇: Θ̇, ∂Θ/∂φ, ∂T/∂φ, and Hamel's equations in coordinates φ."""
    phi, omega, torque = jnp.asarray(RNG.normal(size=(3, 3))) * 0.7
    stored = jnp.concatenate([jnp.ones(1), phi])
    q = stored / jnp.sqrt(stored @ stored)
    omega_dot = acceleration(InSpace(INERTIA), 0.0, q, omega, torque, route="boltzmann-hamel")

    @jax.jit
    def everything(phi, omega, omega_dot):
        theta = lambda phi: rotation(phi) @ INERTIA @ rotation(phi).T
        T = lambda phi, omega: 0.5 * omega @ theta(phi) @ omega
        dR = jax.jacfwd(rotation)(phi)
        Omega = jax.vmap(lambda m: vee(m @ rotation(phi).T), in_axes=2, out_axes=1)(dR)
        Psi = jnp.linalg.inv(Omega)
        p, p_dot = jax.jvp(jax.grad(T, argnums=1), (phi, omega), (Psi @ omega, omega_dot))
        here, by_phi = theta(phi), jax.grad(T)(phi, omega)
        columns = jax.vmap(tilde, in_axes=1)(Omega)  # Ω̃_a
        slope = jnp.moveaxis(jax.jacfwd(theta)(phi), 2, 0)
        turning = eps("ikl,k,l->i", omega, here @ omega)
        return {
            "61": (p_dot - by_phi @ Psi - eps("jik,j,k->i", p, omega), torque),
            "62": (p_dot, here @ omega_dot + turning),
            "63": (slope, columns @ here - here @ columns),
            "64": (by_phi, -eps("jsl,s,l,ja->a", omega, here @ omega, Omega)),
            "65": (
                here @ omega_dot
                + turning
                + eps("ksl,s,l,ai,ka->i", omega, here @ omega, Psi, Omega)
                - eps("jik,j,k->i", here @ omega, omega),
                torque,
            ),
            "66": (here @ omega_dot + turning, torque),
        }

    all_close(everything(phi, omega, omega_dot))


def family(t, e):
    """C(t, ε)."""
    stored = POSE + t * FAMILY[0] + e * (FAMILY[1] + t * FAMILY[2])
    return pose_matrix(
        quaternion_matrix(stored[:4] / jnp.sqrt(stored[:4] @ stored[:4])), stored[4:]
    )


def coordinates(hat):
    """(θ, ρ) of a matrix of se(3)."""
    return jnp.concatenate([vee(hat[:3, :3]), hat[:3, 3]])


def test_transposition_by_matrices():
    """(48)–(55) in the rotations' block, (73)–(82) on SE(3), body and space: dδπ̂ − δdπ̂ is the bracket, c_kij δπ_i V_j."""

    @jax.jit
    def everything(t, e):
        by = lambda i: lambda t, e: jax.jacfwd(family, argnums=i)(t, e)
        C = lambda t, e: jnp.linalg.inv(family(t, e))
        forms = {
            "body": [lambda t, e, i=i: C(t, e) @ by(i)(t, e) for i in (0, 1)],
            "space": [lambda t, e, i=i: by(i)(t, e) @ C(t, e) for i in (0, 1)],
        }
        found = {}
        for name, (d, delta) in forms.items():
            bracket = jax.jacfwd(delta)(t, e) - jax.jacfwd(d, argnums=1)(t, e)
            found[name] = bracket, d(t, e), delta(t, e)
        turn, rate = family(t, e)[:3, :3], by(0)(t, e)
        blocks = {
            "73": (
                coordinates(found["body"][1]),
                [vee(turn.T @ rate[:3, :3]), turn.T @ rate[:3, 3]],
            ),
            "78": (
                coordinates(found["space"][1]),
                [
                    vee(rate[:3, :3] @ turn.T),
                    rate[:3, 3] - found["space"][1][:3, :3] @ family(t, e)[:3, 3],
                ],
            ),
        }
        return found, blocks

    found, blocks = everything(0.2, -0.3)
    space, frames = SE3(), {"body": body_frame, "space": spatial_frame}
    gammas = jax.jit(
        lambda q: {n: hamel_coefficients(make(space), q, space) for n, make in frames.items()}
    )(POSE)
    for left, right in blocks.values():
        close(left, np.concatenate(right))
    for sign, name in ((1, "body"), (-1, "space")):
        bracket, d, delta = found[name]
        close(bracket, sign * (delta @ d - d @ delta))  # (51), (53), (74), (79)
        V, pi = coordinates(d), coordinates(delta)
        close(coordinates(bracket), np.einsum("kij,i,j->k", gammas[name], pi, V))  # (49), (76)
        close(coordinates(bracket), sign * np.einsum("kij,i,j->k", C_SE3, pi, V))  # (77), (81)
        turned = sign * np.cross(pi[:3], V[:3])  # (52), (54)
        close(coordinates(bracket)[:3], turned)
        assert np.max(np.abs(turned)) > 0.1


def test_coefficients_of_poses_step_by_step():
    """(68)–(71): h_αkβ γ^k_ij from the slopes of D = C⁻¹ and C in six coordinates, γ = c."""
    q, q_dot = jnp.asarray(RNG.normal(size=(2, 6)))

    @jax.jit
    def everything(q, q_dot):
        C = lambda q: pose_matrix(rotation(q[:3]), q[3:])
        V = lambda q, rate: jnp.linalg.inv(C(q)) @ jax.jvp(C, (q,), (rate,))[1]
        D, dC, ddC = jnp.linalg.inv(C(q)), jax.jacfwd(C)(q), jax.jacfwd(jax.jacfwd(C))(q)
        dD = jax.jacfwd(lambda q: jnp.linalg.inv(C(q)))(q)
        J = jax.jacfwd(lambda rate: coordinates(V(q, rate)))(q_dot)
        G = jnp.linalg.inv(J)
        mixed = jax.jacfwd(jax.jacfwd(V, argnums=1))(q, q_dot)  # [α, β, a, b]
        of_70 = jnp.einsum("xs,syab->xyab", D, ddC) + jnp.einsum("xsb,sya->xyab", dD, dC)
        alternated = lambda x: x - jnp.swapaxes(x, 2, 3)
        in_69 = jnp.einsum("xyab,ai,bj->xyij", alternated(mixed), G, G)
        product = jnp.einsum("xsb,sya->xyab", dD, dC)
        return in_69, mixed, of_70, jnp.einsum("xyab,ai,bj->xyij", alternated(product), G, G)

    in_69, mixed, of_70, in_71 = everything(q, q_dot)
    gamma = hamel_coefficients(body_frame(SE3()), POSE, SE3())
    h = np.zeros((4, 6, 4))  # h_αkβ V_k = V_αβ
    h[:3, :3, :3] = np.swapaxes(-EPSILON, 0, 1)
    h[[0, 1, 2], [3, 4, 5], 3] = 1.0
    wanted = np.einsum("xky,kij->xyij", h, gamma)
    close(mixed, of_70, 1e-10)
    close(in_69, wanted, 1e-9)
    close(in_71, wanted, 1e-9)


# --- Massa and Vignolo ----------------------------------------------------------------------------


def test_points_of_a_body():
    """Massa and Vignolo (1)–(4), (8), (11), (16), (18): x̂ = R x + b, its rate from either velocity, and slopes."""
    system = {name: RigidBody(MASS, INERTIA, COM, 0.0, name) for name in ("body", "spatial")}
    x = jnp.asarray([0.7, -1.1, 0.4])

    @jax.jit
    def everything(u):
        turn, b = quaternion_matrix(POSE[:4]), POSE[4:]

        def point(q):
            return (SE3().matrix(q) @ jnp.concatenate([x, jnp.ones(1)]))[:3]

        def rate(name, u):
            v = system[name].inverse_frame(0.0, POSE) @ u
            return jax.jvp(point, (POSE,), (SE3().rate(POSE, v),))[1]

        place, e, k = point(POSE), turn, jnp.eye(3)
        w, v = turn @ u[:3], turn @ u[3:]
        by_body = jax.jacfwd(lambda u: rate("body", u))(u)
        by_space = jax.jacfwd(lambda u: rate("spatial", u))(u)
        arms = lambda axes, arm: jnp.stack([jnp.cross(axes[:, i], arm) for i in range(3)], axis=1)
        return {
            "1, 2": (place, turn @ x + b),
            "8": (rate("body", u), v + jnp.cross(w, place - b)),
            "11": (rate("spatial", u), u[3:] + jnp.cross(u[:3], place)),
            "16": (by_body, jnp.concatenate([arms(e, place - b), e], axis=1)),
            "18": (by_space, jnp.concatenate([arms(k, place), k], axis=1)),
        }

    all_close(everything(TWIST))
