"""Equations of Müller (2021) as printed against the general formula: each printed form fails, each corrected one holds."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import (
    SE3,
    Euclidean,
    body_frame,
    bundle_frame,
    hamel_coefficients,
    hybrid_frame,
)
from jaxhamel.mechanics import System, acceleration, chaplygin, hamel_chaplygin, voronets
from jaxhamel.systems import RigidBody
from tests.mechanics.printed import EPSILON


def differs(printed, right, least=1e-2):
    assert np.max(np.abs(np.asarray(printed) - np.asarray(right))) > least


def same(found, right):
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-12)


# --- section 2: coefficients and equations in coordinates -----------------------------------------

Q = jnp.array([0.3, 0.8, -0.4])  # (s, r_1, r_2)


def rows(q):
    """[A_1 A_2] of one constraint on (s, r_1, r_2), all entries functions of all coordinates."""
    return jnp.stack([2.0 + jnp.sin(q[1]), q[0] * q[2], jnp.cos(q[0]) + q[1] * q[2]])


def split_frame(q):
    return jnp.concatenate([rows(q)[None], jnp.eye(3)[1:]])


def slopes(function):
    return np.asarray(jax.jacfwd(function)(Q))


def test_17_and_18_take_the_derivative_along_the_frame():
    """(17), (18): A^c_r (∂B^r_b/∂q^a − …) with coordinate slopes is not γ; with E_a = B^s_a ∂/∂q^s it is."""
    gamma = np.asarray(hamel_coefficients(split_frame, Q))
    A, B = np.asarray(split_frame(Q)), np.linalg.inv(split_frame(Q))
    slope = slopes(lambda q: jnp.linalg.inv(split_frame(q)))  # [r, b, s]
    alternated = lambda x: x - np.swapaxes(x, 1, 2)
    printed = np.einsum("cr,rab->cab", A, alternated(np.swapaxes(slope, 1, 2)))
    right = np.einsum("cr,rab->cab", A, alternated(np.einsum("rbs,sa->rab", slope, B)))
    differs(printed, gamma)
    same(right, gamma)


def test_helmholtz_identity_before_14():
    """∂q̇^b/∂u^a = B^b_a, not B^a_b."""
    B = np.linalg.inv(split_frame(Q))
    u = jnp.array([0.2, 0.5, -0.7])
    slope = jax.jacfwd(lambda u: jnp.linalg.solve(split_frame(Q), u))(u)  # [b, a]
    same(slope, B)
    differs(slope, B.T)


def test_19_has_one_free_index():
    """(19): ∂L/∂q^a, not ∂L/∂q^b: in Lagrange's equations of the first coordinate the force is −∂V/∂q^1."""

    class Coordinates(System):
        space = Euclidean(2)

        def lagrangian(self, t, q, v):
            return 0.5 * jnp.dot(v, v) - 3.0 * q[0] - 5.0 * q[1]

    found = acceleration(Coordinates(), 0.0, jnp.zeros(2), jnp.zeros(2))
    same(found, [-3.0, -5.0])
    differs(found, [-5.0, -3.0])


def test_27_has_no_minus_in_its_first_block():
    """(27): the upper left block of A⁻¹ is +A_1⁻¹."""
    B = np.linalg.inv(split_frame(Q))
    first = 1.0 / float(rows(Q)[0])
    same(B[0, 0], first)
    differs(B[0, 0], -first)
    same(B[0, 1:], -first * rows(Q)[1:])


def test_28_and_33_lack_the_mixed_terms():
    """(28) and the first line of (33) have no (∂A_I/∂s − ∂A_s/∂r^I) B^s_J; the second line of (33) is complete."""
    gamma = float(hamel_coefficients(split_frame, Q)[0, 1, 2])
    slope, B = slopes(rows), np.linalg.inv(split_frame(Q))
    printed = slope[1, 2] - slope[2, 1]  # one s: the bracket of ∂A_β/∂s^γ vanishes
    mixed = (slope[1, 0] - slope[0, 1]) * B[0, 2] - (slope[2, 0] - slope[0, 2]) * B[0, 1]
    differs(printed, gamma)
    same(printed + mixed, gamma)
    F = lambda q: rows(q)[1:] / rows(q)[0]
    normal = bundle_frame(lambda s, r: F(jnp.concatenate([s, r]))[None], 1)
    gamma, slope, F_here = float(hamel_coefficients(normal, Q)[0, 1, 2]), slopes(F), F(Q)
    first_line = slope[0, 2] - slope[1, 1]
    second_line = first_line + slope[1, 0] * F_here[0] - slope[0, 0] * F_here[1]
    differs(first_line, gamma)
    same(second_line, gamma)


class Driven(System):
    """L = ½ |q̇|² − 3 s + s ṙ_1 under s' = −F̄ ṙ, pushed by a force of three components."""

    space = Euclidean(3)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v) - 3.0 * q[0] + q[0] * q[2] * v[1]

    def frame(self, t, q):
        return split_frame(q)

    def force(self, t, q, v, control):
        return control


def rates(system, force, *, fibre=1.0, applied=1.0):
    """r̈ of (34) with factors on F̄ ∂ℒ/∂s and on F^a_I Q_a: 0 as printed, 1 as it follows from (22)."""
    rdot = jnp.array([1.2, -0.7])
    F = lambda q: rows(q)[1:] / rows(q)[0]

    def reduced(q, u, rdot):
        return system.lagrangian(0.0, q, jnp.concatenate([(u - F(q) @ rdot)[None], rdot]))

    zero = jnp.zeros(())
    q_dot = jnp.concatenate([-(F(Q) @ rdot)[None], rdot])
    momentum = jax.grad(reduced, argnums=2)
    bias = jax.jvp(lambda q: momentum(q, zero, rdot), (Q,), (q_dot,))[1]
    mass = jax.jacfwd(momentum, argnums=2)(Q, zero, rdot)
    by_q, by_u = jax.grad(reduced, argnums=(0, 1))(Q, zero, rdot)
    normal = bundle_frame(lambda s, r: F(jnp.concatenate([s, r]))[None], 1)
    gamma = hamel_coefficients(normal, Q)[0, 1:, 1:]
    along = by_q[1:] - fibre * F(Q) * by_q[0] - by_u * (gamma @ rdot)
    pushed = force[1:] - force[0] * F(Q)
    return np.linalg.solve(mass, along - bias + applied * pushed), rdot


def test_34_lacks_the_fibre_term():
    """(34) without + F̄ ∂ℒ/∂s gives a wrong r̈. (34) and (35) are printed without the forces F^a_I Q_a."""
    system, force = Driven(), jnp.array([0.4, -1.1, 0.6])
    complete, rdot = rates(system, force)
    found = acceleration(system, 0.0, Q, rdot, force, route="multipliers")
    same(complete, found)
    for equation in (hamel_chaplygin, chaplygin, voronets):
        same(equation(system, 0.0, Q, rdot, force), found)
    differs(rates(system, force, fibre=0.0)[0], found, 0.1)
    differs(rates(system, force, applied=0.0)[0], found, 0.1)


def test_38_contracts_with_the_horizontal_field_and_lacks_the_momentum():
    """dω^α(q̇, F_I) = γ^α_IJ ṙ^J with F_I = ∂/∂r^I − F̄_I ∂/∂s; with ∂/∂r^I it holds only after (37) has replaced ds."""
    F = lambda q: rows(q)[1:] / rows(q)[0]
    form = lambda q: jnp.concatenate([jnp.ones(1), F(q)])
    slope = slopes(form)  # ∂ω_a/∂q^b at [a, b]
    exterior = slope.T - slope  # dω(X, Y) = (∂_a ω_b − ∂_b ω_a) X^a Y^b
    rdot = np.array([1.2, -0.7])
    horizontal = np.concatenate([-np.asarray(F(Q))[None], np.eye(2)])  # columns F_I
    normal = bundle_frame(lambda s, r: F(jnp.concatenate([s, r]))[None], 1)
    right = np.asarray(hamel_coefficients(normal, Q))[0, 1:, 1:] @ rdot
    contracted = (horizontal @ rdot) @ exterior
    same(contracted @ horizontal, right)
    differs(contracted[1:], right)


# --- sections 2.5 and 4 to 6: the rigid body ------------------------------------------------------

RNG = np.random.default_rng(12)
w, v, d, r, p_ang = RNG.normal(size=(5, 3))
SQUARE = RNG.normal(size=(3, 3))
HAT = jnp.asarray(-EPSILON)  # HAT @ a is ã, differentiable
THETA = SQUARE @ SQUARE.T + np.eye(3)  # symmetric, an inertia
MASS = 1.3


def eps(indices, *operands):
    """einsum in which each leading triple of indices is a Levi-Civita symbol."""
    terms = indices.split("->")[0].split(",")
    symbols = [EPSILON] * (len(terms) - len(operands))
    return np.einsum(indices, *symbols, *operands)


def tilde(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def test_39_and_40_have_the_wrong_index_order():
    """p_j γ^j_ik V_k = c_jik p_j V_k = −(ad_Vᵀ p)_i, which (41) has; c_ijk p_j V_k is not it, on SO(3) even the negative."""
    p = p_ang
    right = np.cross(w, p)  # −ad_wᵀ p
    same(eps("jik,j,k->i", p, w), right)
    same(eps("ijk,j,k->i", p, w), -right)
    c = np.zeros((6, 6, 6))
    c[:3, :3, :3] = c[3:, :3, 3:] = c[3:, 3:, :3] = EPSILON
    momentum, twist = np.concatenate([p, d]), np.concatenate([w, v])
    ad = np.block([[tilde(w), np.zeros((3, 3))], [tilde(v), tilde(w)]])
    wanted = -ad.T @ momentum
    same(np.einsum("jik,j,k->i", c, momentum, twist), wanted)
    printed = np.einsum("ijk,j,k->i", c, momentum, twist)
    differs(printed, wanted)
    differs(-printed, wanted)  # no sign mends it on SE(3)


def test_43_has_its_second_term_alternated_in_the_wrong_indices():
    """Printed (43) subtracts ∂²ω_rs/∂φ̇^a ∂φ^b from itself: zero. The second term has a and b exchanged, as in (69)."""

    def omega(phi, rate):
        """ω̃ of R = exp(φ_1 ê_3) exp(φ_2 ê_1), rates given."""
        c, s = jnp.cos(phi[1]), jnp.sin(phi[1])
        return HAT @ jnp.stack([rate[1], s * rate[0], c * rate[0]])

    at, rate = jnp.array([0.4, 0.9]), jnp.array([0.3, -0.2])
    second = jax.jacfwd(jax.jacfwd(omega, argnums=1), argnums=0), jax.jacfwd(jax.jacfwd(omega), 1)
    mixed, other = jax.jit(lambda *x: [each(*x) for each in second])(at, rate)  # [r, s, a, b]
    printed = mixed - jnp.swapaxes(other, 2, 3)
    same(printed, 0.0)
    differs(mixed - jnp.swapaxes(mixed, 2, 3), 0.0)


def test_68_and_72_sum_over_the_coefficients_index():
    """With h the generators of se(3): h_αkβ γ^k_ij = [E_i, E_j]_αβ; the printed h_αiβ leaves a k without partner."""
    generators = np.zeros((6, 4, 4))
    generators[:3, :3, :3] = -EPSILON
    generators[3:, :3, 3] = np.eye(3)
    c = np.zeros((6, 6, 6))
    c[:3, :3, :3] = c[3:, :3, 3:] = c[3:, 3:, :3] = EPSILON
    bracket = np.einsum("iab,jbc->ijac", generators, generators)
    bracket = bracket - np.swapaxes(bracket, 0, 1)
    same(np.einsum("kac,kij->ijac", generators, c), bracket)
    differs(np.einsum("iac,kij->ijac", generators, c), bracket)


def test_75_to_81_have_one_derivative_too_many():
    """(49), (52), (54), (75)–(77), (80), (81): (dδπ − δdπ)/dt, not its time derivative; dδθ − δdθ = δθ × dθ."""

    def turn(t, e):
        """R = exp(t x̂) exp(ε (1 + 3t) ŷ) to second order in t: Ω = x and δθ = (1 + 3t) y at ε = 0."""
        first = jnp.eye(3) + t * tilde(w) + 0.5 * t**2 * tilde(w) @ tilde(w)
        return first @ (jnp.eye(3) + e * (1 + 3 * t) * tilde(v))

    vee = lambda m: jnp.stack([m[2, 1], m[0, 2], m[1, 0]])
    at = lambda t, e, which: vee(turn(t, e).T @ jax.jacfwd(turn, argnums=which)(t, e))
    left = lambda t: jax.jacfwd(lambda t: at(t, 0.0, 1))(t) - jax.jacfwd(lambda e: at(t, e, 0))(0.0)
    right = np.cross(at(0.0, 0.0, 1), at(0.0, 0.0, 0))  # δθ × Ω
    bracket, its_rate = jax.jit(lambda t: (left(t), jax.jacfwd(left)(t)))(0.0)
    same(bracket, right)
    differs(its_rate, right)


def test_78_lower_line_is_not_the_velocity():
    """dC C⁻¹ has the entry dr − dθ̃ r; printed dr Rᵀ is a row, not a column, and not it transposed either."""
    turn, rate = np.linalg.qr(SQUARE)[0], tilde(w)
    C = np.block([[turn, r[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])
    C_dot = np.block([[rate @ turn, v[:, None]], [np.zeros((1, 4))]])
    spatial = C_dot @ np.linalg.inv(C)
    same(spatial[:3, 3], v - rate @ r)
    differs(spatial[:3, 3], v @ turn.T)


def test_velocity_of_the_centre_of_mass_before_85_and_94():
    """v_c = v + ω × d = v − d̃ ω: before (85) the sign is wrong, before (94) sign and a tilde; (84), (85), (94) are right."""
    right = v + np.cross(w, d)
    differs(v - tilde(w) @ d, right)
    differs(v + tilde(d) @ w, right)
    theta_d = THETA - MASS * tilde(d) @ tilde(d)
    kinetic = 0.5 * MASS * right @ right + 0.5 * w @ THETA @ w
    same(0.5 * w @ theta_d @ w + 0.5 * MASS * v @ v + MASS * w @ tilde(d) @ v, kinetic)
    wrong = v - np.cross(w, d)
    differs(0.5 * MASS * wrong @ wrong + 0.5 * w @ THETA @ w, kinetic)


def test_90_has_the_factors_of_its_cross_product_exchanged():
    """(89) → m d × (ω × v), as in (91); printed (90) has ε_krs ω_s v_r = v × ω."""
    in_89 = MASS * (np.cross(w, np.cross(d, v)) + np.cross(v, np.cross(w, d)))
    same(in_89, MASS * np.cross(d, np.cross(w, v)))
    printed = MASS * eps("ijk,krs,j,s,r->i", d, w, v)
    same(printed, -in_89)
    differs(printed, in_89)


def test_inertia_before_95():
    """Θ_s = Θ_c − m (d + r)˜(d + r)˜: the line before (95) has the first power, (95) itself is right."""
    c = d + r
    steiner = MASS * (c @ c * np.eye(3) - np.outer(c, c))
    same(THETA - MASS * eps("ikl,lrj,k,r->ij", c, c), THETA + steiner)
    differs(THETA - MASS * tilde(c), THETA + steiner)


def test_rate_of_the_inertia_before_101():
    """Θ̇ = ω̃ Θ − Θ ω̃: (ε_ikl Θ_lj − Θ_il ε_lkj) ω_k; printed ε_klj has the other sign."""
    right = tilde(w) @ THETA - THETA @ tilde(w)
    same(eps("ikl,lj,k->ij", THETA, w) - eps("lkj,il,k->ij", THETA, w), right)
    differs(eps("ikl,lj,k->ij", THETA, w) - eps("klj,il,k->ij", THETA, w), right)


def test_101_and_102():
    """d/dt ∂T/∂ω of (100) along a motion is (101) and (102), ε_klr for the printed ε_jlr; the line between lacks (d + r)."""
    w_dot, v_dot = RNG.normal(size=(2, 3))
    c = d + r
    c_dot = v + np.cross(w, c)

    def momentum(t):
        """(100), all that moves moved to first order."""
        arm, spin, speed = c + t * c_dot, w + t * w_dot, v + t * v_dot
        theta = THETA + t * (tilde(w) @ THETA - THETA @ tilde(w))
        hat = HAT @ arm
        return (theta - MASS * hat @ hat) @ spin + MASS * jnp.cross(arm, speed)

    rate = jax.jit(jax.jacfwd(momentum))(0.0)
    theta_s = THETA - MASS * tilde(c) @ tilde(c)
    right = theta_s @ w_dot + np.cross(w, theta_s @ w) + MASS * np.cross(c, v_dot + np.cross(w, v))
    same(rate, right)
    in_101 = theta_s @ w_dot + np.cross(w, THETA @ w) + MASS * np.cross(c, v_dot)
    in_101 = in_101 - MASS * eps("ikj,jlr,k,l,r->i", c, v, w)
    second = MASS * eps("ikl,ljr,rsp,k,j,s,p->i", c, w, w, c)
    second = second - MASS * eps("ikl,ksp,lrj,s,p,r,j->i", w, c, c, w)
    same(in_101 + second, rate)
    same(second, -MASS * eps("ikl,lsp,prj,k,s,r,j->i", w, c, c, w))  # with both (d + r)


def test_103_to_106():
    """Corrections of (103), (105) and (106), against derivatives of the kinetic energy (94)."""

    def kinetic(turn, arm, place, spin, speed):
        """(94) with Θ_c, d turned by exp(φ), φ = turn, to first order."""
        small = jnp.eye(3) + HAT @ turn
        c = small @ arm + place
        hat = HAT @ c
        theta = small @ THETA @ small.T - MASS * hat @ hat
        pair = MASS * jnp.dot(spin, jnp.cross(c, speed))
        return 0.5 * spin @ theta @ spin + 0.5 * MASS * jnp.dot(speed, speed) + pair

    c, at = d + r, (jnp.zeros(3), *map(jnp.asarray, (d, r, w, v)))
    by_turn, by_place, by_speed = jax.jit(jax.grad(kinetic, argnums=(0, 2, 4)))(*at)
    of_theta = -np.cross(w, THETA @ w)
    second_line = of_theta + MASS * eps("kjl,jrs,k,s,l->r", w, d, v)
    second_line = second_line - MASS * eps("ksl,spn,lrj,k,n,r,j->p", w, d, c, w)  # (104)
    same(by_turn, second_line)
    first_line = of_theta + 0.5 * MASS * eps("ljk,jrs,s,k,l->r", d, v, w)
    differs(by_turn, first_line)
    right = MASS * eps("ikl,i,l->k", w, v) - MASS * eps("ikl,lrj,i,r,j->k", w, c, w)
    same(by_place, right)  # (105) with v_l for the printed v_j
    left = eps("ikl,lrj->ikrj") + eps("irl,lkj->ikrj")
    same(left, 2 * eps("ikl,lrj->ikrj") + eps("lij,lkr->ikrj"))  # ε_lij for the printed ε_lrj
    same(by_speed, MASS * (v + np.cross(w, c)))  # (106) is d/dt of this, not this
    w_dot, v_dot = RNG.normal(size=(2, 3))
    printed = v_dot + np.cross(w_dot, c) + np.cross(w, v + np.cross(w, c))
    differs(by_speed, MASS * printed)
    c_dot = v + np.cross(w, c)
    same(MASS * (v_dot + np.cross(w_dot, c) + np.cross(w, c_dot)), MASS * printed)


def test_115_takes_the_torque_about_the_body_frame():
    """(115), (122), (124): τ is about the body frame's origin; the spatial τ of (108) differs by r × f."""
    body = lambda name: RigidBody(MASS, [0.3, 0.4, 0.5], [0.1, 0.2, -0.3], representation=name)
    q, u = jnp.array([1.0, 0, 0, 0, *r]), jnp.zeros(6)
    about_body = np.concatenate([p_ang, d])
    about_space = np.concatenate([p_ang + np.cross(r, d), d])
    of_space = body("spatial").closed_form(0.0, q, u, jnp.asarray(about_space))[:3]
    same(body("hybrid").closed_form(0.0, q, u, jnp.asarray(about_body))[:3], of_space)
    differs(body("hybrid").closed_form(0.0, q, u, jnp.asarray(about_space))[:3], of_space)


def test_kinetic_energy_is_not_right_invariant():
    """Sections 2.5, 6.3: T(C, V_s) of (94) depends on the pose: it is left-invariant in whatever twist it is written."""
    body = RigidBody(MASS, [0.3, 0.4, 0.5], [0.1, 0.2, -0.3], representation="spatial")
    u = jnp.asarray(np.concatenate([w, v]))
    energies = []
    for place in (r, d):
        q = jnp.array([1.0, 0, 0, 0, *place])
        energies.append(float(body.lagrangian(0.0, q, body.inverse_frame(0.0, q) @ u)))
    differs(*energies)


def test_140_and_the_terms_that_vanish():
    """(139) lacks u^J, (140) one u^L and has a spare m: with them the bracket of (140) is zero, as the text says."""
    rho = np.array([0.0, 0.0, 0.8])
    inertia_part = np.einsum("kl,l->k", tilde(rho) @ tilde(rho), w)
    turning = eps("kij,j->ki", w)  # ε_KIJ u^J
    bracket = inertia_part @ turning
    slip = eps("aik,i,k->a", rho, w)  # −∂T/∂u^α / m
    other = slip @ eps("ark,kij,r,j->ai", rho, w)
    same(bracket + other, 0.0)
    differs(bracket, 0.0)


def test_83_is_about_every_index_above_three():
    """(83): "0 for i, j, k = 4, 5, 6" is true of the body twist, too; what holds is 0 for any index above three."""
    q = jnp.array([1.0, 0, 0, 0, *r])
    of_body, of_hybrid = jax.jit(
        lambda q: [hamel_coefficients(make(SE3()), q, SE3()) for make in (body_frame, hybrid_frame)]
    )(q)
    same(of_body[3:, 3:, 3:], 0.0)
    differs(of_body[3:, :3, 3:], 0.0)
    same(of_hybrid[3:], 0.0)
    same(of_hybrid[:, 3:], 0.0)


def test_72_has_its_factors_exchanged():
    """(72), second and third line: h_αjν h_νiβ − h_αiν h_νjβ is [E_j, E_i] = −h_αkβ c_kij; from (71) it is [E_i, E_j]."""
    generators, c = se3_generators()
    printed = np.einsum("jab,ibc->ijac", generators, generators)
    printed = printed - np.einsum("iab,jbc->ijac", generators, generators)
    right = np.einsum("kac,kij->ijac", generators, c)
    same(printed, -right)
    differs(printed, right)
    # (71): ∂D/∂q^b G^b_j = −E_j D and ∂C/∂q^a G^a_i = C E_i at any C
    turn = np.linalg.qr(SQUARE)[0]
    C = np.block([[turn, r[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])
    D = np.linalg.inv(C)
    by_q = [C @ E for E in generators]  # ∂C along the body's twists
    of_inverse = [-D @ moved @ D for moved in by_q]
    in_71 = np.array(
        [[of_inverse[j] @ by_q[i] - of_inverse[i] @ by_q[j] for j in range(6)] for i in range(6)]
    )
    same(in_71, right)


def se3_generators():
    """E_k of se(3), angular first, and c_kij of [E_i, E_j] = c_kij E_k."""
    generators = np.zeros((6, 4, 4))
    generators[:3, :3, :3] = -EPSILON
    generators[3:, :3, 3] = np.eye(3)
    c = np.zeros((6, 6, 6))
    c[:3, :3, :3] = c[3:, :3, 3:] = c[3:, 3:, :3] = EPSILON
    return generators, c


def test_spatial_velocity_in_6_3_1():
    """v_s = ṙ + r̃ ω, the velocity of the body's point at the origin of space, as (98) has it; printed ṙ − r̃ ω."""
    body = RigidBody(MASS, [0.3, 0.4, 0.5], [0.1, 0.2, -0.3], representation="spatial")
    r_dot = v
    q = SE3().exp(jnp.asarray([*p_ang, 0.0, 0.0, 0.0])).at[4:].set(r)
    turn = np.asarray(SE3().matrix(q))[:3, :3]
    in_body = jnp.asarray(np.concatenate([turn.T @ w, turn.T @ r_dot]))
    found = np.asarray(body.frame(0.0, q) @ in_body)
    of_point = r_dot + np.cross(w, -r)  # at −r from the body frame's origin
    same(found[3:], of_point)
    same(r_dot + tilde(r) @ w, of_point)
    differs(r_dot - tilde(r) @ w, of_point)
    same(of_point - eps("ijk,j,k->i", r, w), r_dot)  # (98)


def test_107_and_what_vanishes_in_it():
    """(107), second term of (**): ω_s for the first ω_k, which stands twice; then (*), (**) and (***) + (****) vanish."""
    c = d + r
    first = eps("ksl,sin,lrj,k,n,r,j->i", w, d, c, w)
    third = eps("ijk,ksl,lrp,j,s,r,p->i", w, c, c, w)
    second = eps("sjl,jip,lrk,s,p,r,k->i", w, r, c, w)
    same(first + second + third, 0.0)
    printed = eps("sjl,jip,lrk,k,p,r,k->i", w, r, c, w)  # s in ε alone, k three times: summed over
    differs(first + printed + third, 0.0)
    same(eps("isl,s,l->i", w, THETA @ w) - eps("isk,s,k->i", w, THETA @ w), 0.0)  # (*)
    one = -eps("ijk,krs,j,r,s->i", w, c, v) - eps("ijk,krs,j,r,s->i", v, w, c)
    same(one, eps("ijk,krs,j,r,s->i", c, v, w))  # (***)
    two = eps("isj,jkl,s,k,l->i", d, w, v) + eps("ikj,jrs,k,r,s->i", r, w, v)
    same(two, eps("ijk,krs,j,r,s->i", c, w, v))  # (****)
    same(one + two, 0.0)


def test_rate_of_d_before_118():
    """∂d_j/∂φ_i = ε_jrs Ω_ri d_s; the printed ṙ_k behind it is a factor too many. (118) itself is right."""
    r_dot = v

    def kinetic(turn):
        """(114) with Θ and d turned by exp(φ), φ = turn, to first order: Ω = 1 there."""
        small = jnp.eye(3) + HAT @ turn
        pair = MASS * jnp.dot(w, jnp.cross(small @ d, r_dot))
        return 0.5 * w @ (small @ THETA @ small.T) @ w + pair

    by_turn, of_d = (
        jax.grad(kinetic)(jnp.zeros(3)),
        jax.jacfwd(lambda x: (jnp.eye(3) + HAT @ x) @ d),
    )
    same(of_d(jnp.zeros(3)), eps("jis,s->ji", d))
    in_118 = -np.cross(w, THETA @ w) + MASS * eps("ljk,jis,l,s,k->i", w, d, r_dot)
    same(by_turn, in_118)
    with_factor = -np.cross(w, THETA @ w) + MASS * eps("ljk,jis,l,s,k,k->i", w, d, r_dot, r_dot)
    differs(by_turn, with_factor)


def test_jacobi_after_121():
    """The last line of (121) is −m times Jacobi's sum with ε_kjr for the printed ε_kjl, whose l has no partner."""
    r_dot = v
    last = eps("ijk,jrl,r,l,k->i", w, d, r_dot) - eps("lpk,pis,l,s,k->i", w, d, r_dot)
    last = last - eps("kij,krs,r,s,j->i", d, r_dot, w)
    terms = [("ijk,krs"), ("isk,kjr"), ("irk,ksj")]
    right = sum(eps(f"{term},j,r,s->i", r_dot, w, d) for term in terms)
    same(last, -right)
    same(right, 0.0)
    loose = [("ijk,krs"), ("isk,kjl"), ("irk,ksj")]
    printed = sum(eps(f"{term},j,r,s->i", r_dot, w, d) for term in loose)  # summed over l
    differs(printed, 0.0)


def test_rate_of_the_angular_momentum_before_139():
    """d/dt (Θ_ij ω_j) = Θ_ij ω̇_j + ε_ikl ω_k Θ_lj ω_j; the printed last term lacks ω_j and is a matrix."""
    w_dot = p_ang

    def momentum(t):
        theta = THETA + t * (tilde(w) @ THETA - THETA @ tilde(w))
        return theta @ (w + t * w_dot)

    rate = jax.jit(jax.jacfwd(momentum))(0.0)
    same(rate, THETA @ w_dot + eps("ikl,k,lj,j->i", w, THETA, w))
    printed = eps("ikl,k,lj->ij", w, THETA)
    assert printed.shape == (3, 3)
    differs(THETA @ w_dot + printed.sum(axis=1), rate)


def test_left_invariant_means_independent_of_the_inertial_frame():
    """6.2.3 is right, 2.5 and 6.2.1 are not: C → H C keeps T in whatever twist, C → C H changes it."""
    body = {
        name: RigidBody(MASS, [0.3, 0.4, 0.5], [0.1, 0.2, -0.3], representation=name)
        for name in ("body", "spatial", "hybrid")
    }
    space = SE3()
    C, H = (space.exp(jnp.asarray(np.concatenate(x))) for x in ((w, v), (p_ang, d)))
    twist = jnp.asarray(np.concatenate([v, w]))  # of the body, in its own axes
    for name, system in body.items():

        def energy_at(q, body_twist, system=system):
            u = system.frame(0.0, q) @ body_twist  # the representation's own velocities
            return float(system.lagrangian(0.0, q, system.inverse_frame(0.0, q) @ u))

        at = energy_at(C, twist)
        same(energy_at(space.compose(H, C), twist), at)  # another inertial frame
        moved = space.Ad(space.inverse(H)) @ twist  # the same motion from another frame of the body
        assert abs(energy_at(space.compose(C, H), moved) - at) > 1e-2, name
    spatial = body["spatial"]
    V = spatial.frame(0.0, C) @ twist
    there = space.compose(C, H)
    right_moved = spatial.lagrangian(0.0, there, spatial.inverse_frame(0.0, there) @ V)
    differs(right_moved, spatial.lagrangian(0.0, C, twist))  # T(C, V_s) is not right-invariant
