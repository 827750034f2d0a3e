"""From 2012, sections 2.2 and 3: the Boltzmann–Hamel equations in v = S(x) ẋ, each step as printed."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import Euclidean, hamel_coefficients
from jaxhamel.mechanics import System, acceleration
from tests.mechanics.printed import all_close

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
    v_dot = acceleration(system, 0.0, x, v, torque, route="boltzmann-hamel")

    @jax.jit
    def everything(x, v, v_dot):
        S = lambda x: system.frame(0.0, x)
        B, p = jnp.linalg.inv(S(x)), MASSES @ v  # (14)
        whole = lambda x, xdot: system.lagrangian(0.0, x, xdot)  # (17)
        of_v = lambda x, v: 0.5 * v @ MASSES @ v - system.potential(x)  # (13)
        back = lambda x, v: jnp.linalg.solve(S(x), v)
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

    all_close(everything(x, v, v_dot), 1e-12)
