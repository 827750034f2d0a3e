"""Newton's and Euler's equations as Müller 2021, section 6, prints them in three twists, beside the package's rigid body.

Kinetic energies are written out in components; ∂T/∂φ is the derivative by a turn of what moves with the body.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import SE3, quaternion_matrix
from jaxhamel.mechanics import acceleration
from jaxhamel.systems import InhomogeneousBall, RigidBody
from tests.mechanics.printed import all_close, close, eps, tilde

RNG = np.random.default_rng(31)
MASS, COM = 1.3, jnp.asarray([0.2, -0.4, 0.3])
SQUARE = RNG.normal(size=(3, 3))
INERTIA = jnp.asarray(SQUARE @ SQUARE.T + np.eye(3))  # about the centre of mass
POSE = RNG.normal(size=7)
POSE = jnp.asarray(np.append(POSE[:4] / np.linalg.norm(POSE[:4]), POSE[4:]))
TWIST, WRENCH = map(jnp.asarray, RNG.normal(size=(2, 6)))


# --- section 6: Newton and Euler ------------------------------------------------------------------


def rates(representation):
    system = RigidBody(MASS, INERTIA, COM, 0.0, representation)
    return system, acceleration(system, 0.0, POSE, TWIST, WRENCH, route="boltzmann-hamel")


def energy_of(system):
    return system.lagrangian(0.0, POSE, system.inverse_frame(0.0, POSE) @ TWIST)


def test_newton_euler_in_the_body():
    """(84)–(89), (92), (93): T, its momenta and their rates, Hamel's equations at the package's u̇."""
    system, u_dot = rates("body")
    theta = INERTIA - MASS * tilde(COM) @ tilde(COM)

    @jax.jit
    def everything(u, u_dot):
        w, v, w_dot, v_dot = u[:3], u[3:], u_dot[:3], u_dot[3:]

        def T(u):
            """(85)."""
            quadratic = 0.5 * u[:3] @ theta @ u[:3] + 0.5 * MASS * u[3:] @ u[3:]
            return quadratic + MASS * eps("ijk,i,j,k->", u[:3], COM, u[3:])

        p, p_dot = jax.jvp(jax.grad(T), (u,), (u_dot,))
        turning = eps("ijk,j,k->i", w, theta @ w)
        bracket = eps("ijk,krs,j,r,s->i", w, COM, v)
        bracket = bracket + eps("ijk,krs,j,r,s->i", v, w, COM)
        M = jax.hessian(T)(u)
        ad = jnp.block([[tilde(w), jnp.zeros((3, 3))], [tilde(v), tilde(w)]])
        return {
            "85": (T(u), energy_of(system)),
            "86": (
                p_dot[:3] + eps("kij,k,j->i", p[:3], w) + eps("kij,k,j->i", p[3:], v),
                WRENCH[:3],
            ),
            "87": (p_dot[3:] + eps("kij,k,j->i", p[3:], w), WRENCH[3:]),
            "88": (
                jnp.concatenate([p, p_dot]),
                jnp.concatenate(
                    [
                        theta @ w + MASS * eps("ijk,j,k->i", COM, v),
                        MASS * (v + eps("ijk,j,k->i", w, COM)),
                        theta @ w_dot + MASS * eps("ijk,j,k->i", COM, v_dot),
                        MASS * (v_dot + eps("ijk,j,k->i", w_dot, COM)),
                    ]
                ),
            ),
            "89": (
                theta @ w_dot + MASS * eps("ijk,j,k->i", COM, v_dot) + turning + MASS * bracket,
                WRENCH[:3],
            ),
            "92": (M @ u_dot - ad.T @ M @ u, WRENCH),
            "93": (p_dot - ad.T @ p, WRENCH),
        }

    all_close(everything(TWIST, u_dot))


def turned(turn):
    """Θ_c and d of the body at the pose, turned on by exp(φ), φ = turn, to first order, in space."""
    small = (jnp.eye(3) + tilde(turn)) @ quaternion_matrix(POSE[:4])
    return small @ INERTIA @ small.T, small @ COM


def test_newton_euler_in_space():
    """(94)–(100), (107)–(109), (112), (113): the same in the spatial twist, with ∂T/∂φ and ∂T/∂r."""
    system, u_dot = rates("spatial")
    r = POSE[4:]

    def kinetic(turn, r, u):
        """(94) with (95)."""
        theta_c, d = turned(turn)
        c, w, v = d + r, u[:3], u[3:]
        theta = theta_c - MASS * eps("ikl,lrj,k,r->ij", c, c)
        return 0.5 * w @ theta @ w + 0.5 * MASS * v @ v + MASS * eps("ijk,i,j,k->", w, c, v)

    @jax.jit
    def everything(u, u_dot):
        w, v, w_dot, v_dot, none = u[:3], u[3:], u_dot[:3], u_dot[3:], jnp.zeros(3)
        r_dot = v - eps("ijk,j,k->i", r, w)  # (98)
        at, motion = (none, r, u), (w, r_dot, u_dot)
        p, p_dot = jax.jvp(jax.grad(kinetic, argnums=2), at, motion)
        by_turn, by_r = jax.grad(kinetic, argnums=(0, 1))(*at)
        theta_c, d = turned(none)
        c = d + r
        theta = theta_c - MASS * tilde(c) @ tilde(c)
        left = p_dot[:3] - by_turn + eps("jki,j,k->i", by_r, r)
        left = left - eps("kij,k,j->i", p[:3], w) - eps("kij,k,j->i", p[3:], v)
        second = p_dot[3:] - by_r - eps("kij,k,j->i", p[3:], w)
        in_108 = theta @ w_dot + eps("ikl,k,l->i", w, theta @ w)
        in_108 = in_108 + MASS * jnp.cross(c, v_dot + jnp.cross(w, v))
        inner = v + eps("klr,l,r->k", w, c)
        in_109 = MASS * (v_dot - eps("ijk,j,k->i", c, w_dot) + eps("ijk,j,k->i", w, inner))
        M = jax.hessian(kinetic, argnums=2)(*at)
        M_dot = jax.jvp(lambda x, y: jax.hessian(kinetic, argnums=2)(x, y, u), at[:2], motion[:2])[
            1
        ]
        ad = jnp.block([[tilde(w), jnp.zeros((3, 3))], [tilde(v), tilde(w)]])
        return {
            "94": (kinetic(*at), energy_of(system)),
            "96, 99": (left, WRENCH[:3]),
            "97": (second, WRENCH[3:]),
            "100": (p[:3], theta @ w + MASS * eps("ijk,j,k->i", c, v)),
            "107": (left, p_dot[:3]),
            "108": (in_108, WRENCH[:3]),
            "109": (in_109, WRENCH[3:]),
            "112": (M @ u_dot - ad.T @ M @ u, WRENCH),
            "remark 8": (M_dot, -M @ ad - ad.T @ M),
            "113": (p_dot, WRENCH),
        }

    all_close(everything(TWIST, u_dot))


def test_newton_euler_in_the_hybrid_twist():
    """(114)–(123): the same in (ω in space, ṙ); the torque is about the body frame's origin."""
    system, u_dot = rates("hybrid")

    def kinetic(turn, u):
        """(114)."""
        theta_c, d = turned(turn)
        theta = theta_c - MASS * tilde(d) @ tilde(d)
        w, v = u[:3], u[3:]
        return 0.5 * w @ theta @ w + 0.5 * MASS * v @ v + MASS * eps("ijk,i,j,k->", w, d, v)

    @jax.jit
    def everything(u, u_dot):
        w, v, w_dot, v_dot, none = u[:3], u[3:], u_dot[:3], u_dot[3:], jnp.zeros(3)
        p, p_dot = jax.jvp(jax.grad(kinetic, argnums=1), (none, u), (w, u_dot))
        by_turn = jax.grad(kinetic)(none, u)

        def theta_of(turn):
            theta_c, d = turned(turn)
            return theta_c - MASS * tilde(d) @ tilde(d)

        theta, d = theta_of(none), turned(none)[1]
        _, spin_rate = jax.jvp(lambda turn, w: theta_of(turn) @ w, (none, w), (w, w_dot))
        by_theta = 0.5 * jnp.einsum("k,kra,r->a", w, jax.jacfwd(theta_of)(none), w)
        last = MASS * (
            eps("ijk,jrl,r,l,k->i", w, d, v)
            - eps("lpk,pis,l,s,k->i", w, d, v)
            - eps("kij,krs,r,s,j->i", d, v, w)
        )
        first = spin_rate - by_theta - eps("kij,k,j->i", theta @ w, w)
        in_120 = MASS * (v_dot + jnp.cross(w_dot, d) + eps("ijk,krs,j,r,s->i", w, w, d))
        return {
            "114": (kinetic(none, u), energy_of(system)),
            "115": (p_dot[:3] - by_turn - eps("kij,k,j->i", p[:3], w), WRENCH[:3]),
            "116": (p_dot[3:], WRENCH[3:]),
            "117": (
                p_dot[:3],
                spin_rate + MASS * jnp.cross(d, v_dot) + MASS * eps("ijk,jrl,r,l,k->i", w, d, v),
            ),
            "118": (by_turn, by_theta + MASS * eps("ljk,jis,l,s,k->i", w, d, v)),
            "119, 120": (p_dot[3:], in_120),
            "121": (first + MASS * jnp.cross(d, v_dot) + last, WRENCH[:3]),
            "after 121": (last, none),
            "122": (
                theta @ w_dot + jnp.cross(w, theta @ w) + MASS * jnp.cross(d, v_dot),
                WRENCH[:3],
            ),
        }

    all_close(everything(TWIST, u_dot))


def test_rolling_ball_step_by_step():
    """(125)–(131), (136)–(140): T in the quasi-velocities, (138) at the package's ω̇ and its parts (139)."""
    radius = 1.4
    ball = InhomogeneousBall(radius, MASS, INERTIA)
    rho = jnp.asarray([0.0, 0.0, radius])
    omega, slip = jnp.asarray(RNG.normal(size=(2, 3)))
    q = (POSE[:4], POSE[4:])
    omega_dot = acceleration(ball, 0.0, q, omega, route="boltzmann-hamel")

    def kinetic(turn, slip, omega):
        """(137)."""
        theta = turned(turn)[0]
        theta = theta - MASS * eps("kia,ajl,i,j->kl", rho, rho)
        crossed = MASS * eps("aik,a,i,k->", slip, rho, omega)
        return 0.5 * omega @ theta @ omega + 0.5 * MASS * slip @ slip - crossed

    @jax.jit
    def everything(omega, omega_dot, slip):
        none = jnp.zeros(3)
        r_dot = slip - eps("ajk,j,k->a", rho, omega)  # (130)
        whole = 0.5 * omega @ turned(none)[0] @ omega + 0.5 * MASS * r_dot @ r_dot  # (136)
        at = (none, none, omega)
        by_omega, rate = jax.jvp(jax.grad(kinetic, argnums=2), at, (omega, none, omega_dot))
        by_turn, by_slip = jax.grad(kinetic, argnums=(0, 1))(*at)
        left = rate - by_turn - eps("akl,lij,a,k,j->i", by_slip, rho, omega)
        left = left - eps("kij,k,j->i", by_omega, omega)
        theta = turned(none)[0]
        about_contact = theta - MASS * eps("kia,ajl,i,j->kl", rho, rho)
        turning = eps("iJk,J,k->i", omega, theta @ omega)
        frame = ball.frame(0.0, q)
        v = jnp.concatenate([quaternion_matrix(POSE[:4]).T @ omega, r_dot])
        return {
            "126, 127": (frame @ v, jnp.concatenate([slip, omega])),
            "137": (kinetic(none, slip, omega), whole),
            "138": (left, none),
            "139, first": (rate, about_contact @ omega_dot + turning),
            "139, second": (
                jax.grad(kinetic, argnums=1)(none, slip, omega),
                -MASS * eps("aik,i,k->a", rho, omega) + MASS * slip,
            ),
            "139, third": (by_turn, -turning),
            "140": (about_contact @ omega_dot + turning, none),
        }

    all_close(everything(omega, omega_dot, slip))


def test_energy_of_a_spatial_twist():
    """From 2012 (61): V^S = Ad_g V^B and K = ½ V^Sᵀ Ad_{g⁻¹}ᵀ I_b Ad_{g⁻¹} V^S, by the spatial body."""
    system = RigidBody(MASS, INERTIA, COM, 0.0, "spatial")
    at_frame = np.asarray(INERTIA - MASS * tilde(COM) @ tilde(COM))
    coupling = MASS * np.asarray(tilde(COM))
    I_b = np.block([[at_frame, coupling], [-coupling, MASS * np.eye(3)]])
    back = np.asarray(SE3().Ad(SE3().inverse(POSE)))
    close(energy_of(system), 0.5 * TWIST @ back.T @ I_b @ back @ TWIST)
    body = system.inverse_frame(0.0, POSE) @ TWIST
    close(SE3().Ad(POSE) @ body, TWIST)
