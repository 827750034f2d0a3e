"""Equations on a Lie group and on G × R^m as Müller 2023 prints them, in canonical coordinates s, g = exp(s).

(1.4), (2.7), (4.1) to (4.6), (4.10), (4.11), (5.1) to (5.5), (5.9) to (5.11), left and right; Müller 2021, (8), (9), (15)
and (39). A(s) is the velocity of exp(s) by its own derivative, coefficients are alternated slopes: nothing here calls the
equations that it checks.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from jaxhamel.geometry import (
    SE2,
    SO3,
    AbstractSpace,
    Product,
    curvature,
    fibre_velocity,
    hamel_coefficients,
    principal_frame,
    reconstruct,
)
from jaxhamel.mechanics import (
    LockedFrame,
    System,
    acceleration,
    locked_velocity,
    mass_blocks,
    mechanical_connection,
)
from tests.mechanics.random_bundles import random_bundle
from tests.mechanics.random_systems import RandomSystem, random_system

SIDES = {"SO3-right": (SO3(), True), "SE2-left": (SE2(), False)}
by_side = pytest.mark.parametrize(("group", "right"), SIDES.values(), ids=SIDES)
S = jnp.asarray([0.4, -0.7, 0.5])  # canonical coordinates
R, R_DOT = jnp.asarray([0.3, -0.6]), jnp.asarray([1.1, -0.8])
OUTER = jnp.asarray(np.random.default_rng(2).normal(size=(3, 2, 4)))
INNER = jnp.asarray(np.random.default_rng(3).normal(size=(4, 2)))


def close(found, wanted, atol=1e-12):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


def connection(r):
    """A random 𝒜(r)."""
    return jnp.tensordot(OUTER, jnp.sin(INNER @ r + 0.3), axes=1)


def coordinate_rows(group, s, right):
    """A(s) of ξ = A ṡ: the velocity of exp(s), turned into space for a right trivialisation."""
    g, along = jax.vmap(lambda e: jax.jvp(group.exp, (s,), (e,)), out_axes=(None, 0))(jnp.eye(3))
    columns = jax.vmap(lambda moved: group.velocity(g, moved), out_axes=1)(along)
    return group.Ad(g) @ columns if right else columns


def generators(group):
    """The matrices of the algebra's basis."""
    e = group.identity()
    turn = lambda v: jax.jvp(group.matrix, (e,), (group.rate(e, v),))[1]
    return np.asarray(jax.jit(jax.vmap(turn))(jnp.eye(3)))


def sign_of(right):
    return -1.0 if right else 1.0


# --- a group alone --------------------------------------------------------------------------------


@by_side
def test_maurer_cartan_in_coordinates(group, right):
    """(8), (9), (15) of 2021: ∂A^a_b/∂q^c − ∂A^a_c/∂q^b = ±c^a_rs A^r_b A^s_c, and γ = ±c."""

    @jax.jit
    def both(s):
        rows = lambda s: coordinate_rows(group, s, right)
        slope = jax.jacfwd(rows)(s)
        return rows(s), slope - jnp.swapaxes(slope, 1, 2), hamel_coefficients(rows, s)

    A, bracket, gamma = both(S)
    c = sign_of(right) * np.asarray(group.structure_constants())
    close(bracket, np.einsum("ars,rb,sc->abc", c, A, A))
    close(gamma, c)
    assert np.max(np.abs(A - np.eye(3))) > 0.1


class OnGroup(System):
    """A random Lagrangian on a group, not invariant and not quadratic, in body or spatial velocities."""

    base: RandomSystem
    space: AbstractSpace
    right: bool = eqx.field(static=True)

    def lagrangian(self, t, q, v):
        return self.base.lagrangian(0.3, q, v)

    def frame(self, t, q):
        return self.space.Ad(q) if self.right else jnp.eye(3)

    def force(self, t, q, v, control):
        return self.base.force(0.3, q, v, control)


@by_side
def test_hamel_equations_on_a_group(group, right):
    """(2.7), and (39) of 2021: d/dt ∂L/∂u^a ± c^b_ac ∂L/∂u^b u^c = ∂L/∂q^b B^b_a + Q_a at the package's u̇."""
    base, _, _, u = random_system(4, group, 0)
    system = OnGroup(base=base, space=group, right=right)
    u_dot = acceleration(system, 0.0, group.exp(S), u, route="boltzmann-hamel")

    @jax.jit
    def left(s, u, u_dot):
        def of_coordinates(s, u):
            """L(q^a, u^a)."""
            v = jnp.linalg.solve(group.Ad(group.exp(s)), u) if right else u
            return system.lagrangian(0.0, group.exp(s), v)

        B = jnp.linalg.inv(coordinate_rows(group, s, right))
        p, rate = jax.jvp(jax.grad(of_coordinates, argnums=1), (s, u), (B @ u, u_dot))
        turning = jnp.einsum("bac,b,c->a", group.structure_constants(), p, u)
        to_body = jnp.linalg.inv(group.Ad(group.exp(s))) if right else jnp.eye(3)
        forces = system.force(0.0, group.exp(s), to_body @ u, None) @ to_body
        by_q = jax.grad(of_coordinates)(s, u) @ B
        return rate + sign_of(right) * turning - by_q - forces, turning

    residual, turning = left(S, u, u_dot)
    close(residual, 0.0, 1e-11)
    assert np.max(np.abs(turning)) > 1e-2


# --- principal bundles ----------------------------------------------------------------------------


@by_side
def test_principal_connection_in_coordinates(group, right):
    """(1.4), (4.1), (4.4), (4.5): u = ξ + 𝒜 ṙ = A(s) ṡ + 𝒜 ṙ and ṡ = B u − B 𝒜 ṙ; (4.6) is (4.3), right (4.7)."""

    @jax.jit
    def everything(s, r):
        A, calA = coordinate_rows(group, s, right), connection(r)

        def rows(x):
            first = [coordinate_rows(group, x[:3], right), connection(x[3:])]
            return jnp.concatenate([jnp.concatenate(first, axis=1), jnp.eye(5)[3:]])

        slope = jax.jacfwd(lambda s: coordinate_rows(group, s, right))(s)
        frame = principal_frame(connection, group, right=right)((group.exp(s), r))
        gamma = hamel_coefficients(rows, jnp.concatenate([s, r]))
        velocities = jnp.linalg.inv(group.Ad(group.exp(s))) if right else jnp.eye(3)
        return {
            "A": A,
            "calA": calA,
            "slope": slope,
            "slope of calA": jax.jacfwd(connection)(r),
            "frame": frame,
            "gamma": gamma,
            "B": curvature(connection, r, group, right=right),
            "body": velocities @ A,
        }

    x = everything(S, R)
    A, calA = np.asarray(x["A"]), np.asarray(x["calA"])
    s_dot = np.random.default_rng(7).normal(size=3)
    xi = A @ s_dot
    u = xi + calA @ R_DOT  # (1.4), (4.1)
    close(A @ s_dot + calA @ R_DOT, u)  # (4.4)
    v = np.concatenate([x["body"] @ s_dot, R_DOT])  # the velocity of (exp(s), r)
    close(x["frame"] @ v, np.concatenate([u, R_DOT]))
    B = np.linalg.inv(A)
    close(B @ u - B @ calA @ R_DOT, s_dot)  # (4.5)
    close(fibre_velocity(x["calA"], R_DOT), xi - u)  # u = 0
    slope = np.asarray(x["slope of calA"])
    bracket = np.asarray(x["slope"] - np.swapaxes(x["slope"], 1, 2))
    by_46 = slope - np.swapaxes(slope, 1, 2)
    by_46 = by_46 + np.einsum("adl,dg,lm,gi,mj->aij", bracket, B, B, calA, calA)
    close(x["gamma"][:3, 3:, 3:], by_46)
    close(x["B"], by_46)
    close(x["gamma"][3:], 0.0)


def test_connection_on_the_bundle():
    """(4.2): Ad_g (g⁻¹ġ + 𝒜ṙ) = ġg⁻¹ + Ad_g 𝒜ṙ, by matrices; it is equivariant: h(g, r) is turned by Ad_h."""
    group, rng = SE2(), np.random.default_rng(9)
    g, h = (group.exp(jnp.asarray(x)) for x in rng.normal(size=(2, 3)))
    v = jnp.asarray(rng.normal(size=3))
    matrix, rate = jax.jvp(group.matrix, (g,), (group.rate(g, v),))
    basis = generators(group)
    hat = lambda a: np.tensordot(np.asarray(a), basis, axes=1)
    inverse = np.linalg.inv(matrix)
    horizontal = hat(connection(R) @ R_DOT)
    left = matrix @ (inverse @ rate + horizontal) @ inverse
    right = rate @ inverse + hat(group.Ad(g) @ connection(R) @ R_DOT)
    close(left, right)

    def form(g, v):
        rows = principal_frame(connection, group)((g, R))[:3]
        return group.Ad(g) @ (rows @ jnp.concatenate([v, R_DOT]))

    close(hat(form(g, v)), left)
    close(form(group.compose(h, g), v), group.Ad(h) @ form(g, v))


@by_side
def test_reconstruction(group, right):
    """(4.10) by matrices and SciPy, ġ = −g 𝒜ṙ; (4.11): η̇ = dexp⁻¹_{∓η}(ξ) is the same motion."""
    path = lambda t: R + jnp.stack([jnp.sin(2 * t), t**2])
    times = jnp.linspace(0.0, 0.8, 41)
    start = group.exp(S)

    @jax.jit
    def found(start):
        moved = reconstruct(connection, path, times, group, start=start, right=right)
        return jax.vmap(group.matrix)(moved)

    basis = generators(group)
    fibre = jax.jit(lambda t: -connection(path(t)) @ jax.jacfwd(path)(t))
    size = basis[0].shape[0]

    def by_matrices(t, flat):
        """(4.10)."""
        g, xi = flat.reshape(size, size), np.tensordot(np.asarray(fibre(t)), basis, axes=1)
        return (xi @ g if right else g @ xi).ravel()

    def by_coordinates(t, eta):
        """(4.11)."""
        return np.asarray(rate(eta, fibre(t)))

    turned = 1.0 if right else -1.0
    rate = jax.jit(lambda eta, xi: group.dexpinv(turned * eta) @ xi)
    first = np.asarray(group.matrix(start))
    close_to = {"rtol": 1e-11, "atol": 1e-12, "method": "DOP853"}
    g = scipy.integrate.solve_ivp(by_matrices, (0.0, 0.8), first.ravel(), **close_to).y[:, -1]
    eta = scipy.integrate.solve_ivp(by_coordinates, (0.0, 0.8), np.zeros(3), **close_to).y[:, -1]
    g, moved = g.reshape(size, size), np.asarray(group.matrix(group.exp(jnp.asarray(eta))))
    close(moved @ first if right else first @ moved, g, 1e-9)
    close(found(start)[-1], g, 1e-7)
    assert np.max(np.abs(g - first)) > 0.1


class Reduced(System):
    """l(r, ξ, ṙ) with ξ = g⁻¹ġ or ġg⁻¹, a potential of r and terms linear in the velocities."""

    base: System
    space: Product
    right: bool = eqx.field(static=True)

    def lagrangian(self, t, q, v):
        return self.base.lagrangian(0.3, q, self.frame(t, q) @ v)

    def frame(self, t, q):
        first = self.space.spaces[0].Ad(q[0]) if self.right else jnp.eye(3)
        return jnp.eye(5).at[:3, :3].set(first)


@by_side
def test_reduced_euler_lagrange_equations(group, right):
    """(5.1), (5.2): d/dt ∂l/∂ξ ± ∂l/∂ξ^β c^β_αλ ξ^λ = 0 and d/dt ∂l/∂ṙ − ∂l/∂r = 0 at the package's rates."""
    base, _, (g, r), u = random_bundle(17, group, broken=0.0)
    system = Reduced(base=base, space=base.space, right=right)
    u_dot = acceleration(system, 0.0, (g, r), u, route="boltzmann-hamel")

    @jax.jit
    def left(r, u, u_dot):
        reduced = lambda r, u: base.lagrangian(0.3, (group.identity(), r), u)
        p, rate = jax.jvp(jax.grad(reduced, argnums=1), (r, u), (u[3:], u_dot))
        turning = jnp.einsum("bal,b,l->a", group.structure_constants(), p[:3], u[:3])
        first = rate[:3] + sign_of(right) * turning
        return jnp.concatenate([first, rate[3:] - jax.grad(reduced)(r, u)]), turning

    residual, turning = left(r, u, u_dot)
    close(residual, 0.0, 1e-11)
    assert np.max(np.abs(turning)) > 1e-2


def test_locked_velocity_in_coordinates():
    """(5.3)–(5.5), (5.9)–(5.11): Ω = A(s) ṡ + 𝒜 ṙ with 𝒜 = L⁻¹K of the Hessian's blocks, and ṡ = B Ω − B 𝒜 ṙ."""
    group = SE2()
    system, t, (_, r), _ = random_bundle(5, group, gyroscopic=0.0, broken=0.0)
    q, s_dot = (group.exp(S), r), np.random.default_rng(7).normal(size=3)

    @jax.jit
    def everything(q, v):
        frame = LockedFrame(system)
        kinetic = lambda v: system.lagrangian(t, q, v)
        rows = coordinate_rows(group, S, False)
        return {
            "M": jax.hessian(kinetic)(v),
            "T": kinetic(v) - kinetic(0 * v),
            "A": rows,
            "calA": mechanical_connection(system, t)(q[1]),
            "blocks": tuple(mass_blocks(system, t, q)),
            "frame": frame.frame(t, q),
            "inverse": frame.inverse_frame(t, q),
            "Omega": locked_velocity(system, t, q, v),
        }

    A = np.asarray(coordinate_rows(group, S, False))
    v = jnp.concatenate([A @ s_dot, R_DOT])
    x = jax.tree.map(np.asarray, everything(q, v))
    mass, (L, K, shape) = x["M"], x["blocks"]
    close(np.block([[L, K], [K.T, shape]]), mass)  # (5.4)
    close(x["T"], 0.5 * v @ mass @ v)  # (5.3)
    calA = np.linalg.solve(mass[:3, :3], mass[:3, 3:])
    close(x["calA"], calA)
    Omega = v[:3] + calA @ R_DOT  # (5.5)
    close(x["Omega"], Omega)
    close(A @ s_dot + calA @ R_DOT, Omega)  # (5.9)
    B = np.linalg.inv(A)
    close(B @ Omega - B @ calA @ R_DOT, s_dot)  # (5.10)
    eye, zero = np.eye(2), np.zeros((2, 3))
    to_body = np.block([[A, np.zeros((3, 2))], [zero, eye]])
    printed = np.block([[A, calA], [zero, eye]]), np.block([[B, -B @ calA], [zero, eye]])
    close(x["frame"] @ to_body, printed[0])  # (5.11)
    close(np.linalg.inv(to_body) @ x["inverse"], printed[1])
