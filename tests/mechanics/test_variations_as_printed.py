"""Variational principles as Putkaradze and Rogers print them: both sides of each identity on families of paths.

(A.1) to (A.9), (A.13) to (A.15), (A.22) to (A.24), (A.27) to (A.30), (A.34), (A.35). A family g(t, ε) is given, its
velocities and variations are derivatives of it, and an action is a sum over Gauss' nodes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import simulate
from jaxhamel.geometry import SE2, SO3, Euclidean, hat, quaternion_matrix
from jaxhamel.mechanics import System, acceleration, coadjoint, diamond
from jaxhamel.systems import FreeRigidBody, HeavyTop
from tests.one_by_one import of_each

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
TIMES, WEIGHTS = jnp.asarray(0.5 * (NODES + 1)), jnp.asarray(0.5 * WEIGHTS)  # on [0, 1]
INERTIA = jnp.asarray([[1.0, 0.1, -0.2], [0.1, 1.5, 0.15], [-0.2, 0.15, 2.0]])
MASS, GRAVITY, COM = 1.3, 9.81, jnp.asarray([0.2, -0.1, 0.4])
RNG = np.random.default_rng(3)
PATHS = {n: jnp.asarray(RNG.normal(size=(4, n))) for n in (2, 3, 4)}
CHANGE = {n: jnp.asarray(RNG.normal(size=(2, n))) for n in (2, 3, 4)}


def close(found, wanted, atol=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


def path(n, t, e):
    """The curve x(t, ε) in R^n, whose variation vanishes at neither end."""
    powers = jnp.stack([jnp.ones_like(t), t, t**2, jnp.sin(2 * t)])
    return powers @ PATHS[n] + e * (CHANGE[n][0] + jnp.cos(t) * CHANGE[n][1])


def by(function, i):
    """The derivative by t (0) or by ε (1), as a function of both."""
    return lambda t, e: jax.jacfwd(function, argnums=i)(t, e)


def integral(function):
    return jnp.tensordot(WEIGHTS, jax.vmap(function)(TIMES), axes=1)


def ends(function):
    return function(1.0) - function(0.0)


# --- Hamilton's principle -------------------------------------------------------------------------


class Springs(System):
    """Two coordinates with a metric that depends on them and a potential."""

    space = Euclidean(2)

    def lagrangian(self, t, q, v):
        mass = jnp.stack([2.0 + jnp.cos(q[1]), 1.5 + q[0] ** 2])
        return 0.5 * jnp.sum(mass * v**2) + 0.3 * v[0] * v[1] - 2.0 * q[0] ** 2 - q[0] * q[1] ** 2


def test_hamiltons_principle():
    """(A.1), (A.3): δ∫L dt = 0 along a simulated motion for δq that vanish at the ends, not along another path; (A.2)
    for any path and any variation."""
    system = Springs()
    lagrangian = lambda q, v: system.lagrangian(0.0, q, v)
    motion = simulate(
        system,
        jnp.asarray([0.4, -0.3]),
        jnp.asarray([0.5, 1.1]),
        jnp.concatenate([jnp.zeros(1), TIMES, jnp.ones(1)]),
        rtol=1e-11,
        atol=1e-12,
    )
    bump = lambda t: jnp.sin(np.pi * t) * jnp.stack([1.0 + t, 0.7 - t**2])

    @jax.jit
    def everything(q, v):
        def change(q, v, t):
            by_q, by_v = jax.grad(lagrangian, argnums=(0, 1))(q, v)
            return by_q @ bump(t) + by_v @ jax.jacfwd(bump)(t)

        at = lambda e: lambda t: lagrangian(path(2, t, e), by(lambda t, e: path(2, t, e), 0)(t, e))
        action = lambda e: integral(at(e))
        x = lambda t: path(2, t, 0.0)
        delta = lambda t: by(lambda t, e: path(2, t, e), 1)(t, 0.0)
        momentum = lambda t: jax.grad(lagrangian, argnums=1)(x(t), jax.jacfwd(x)(t))

        def left(t):
            force = jax.grad(lagrangian)(x(t), jax.jacfwd(x)(t))
            return (force - jax.jacfwd(momentum)(t)) @ delta(t)

        along = lambda t: change(x(t), jax.jacfwd(x)(t), t)
        return {
            "A.1": WEIGHTS @ jax.vmap(change)(q, v, TIMES),
            "another path": integral(along),
            "A.2": (
                jax.jacfwd(action)(0.0),
                integral(left) + ends(lambda t: momentum(t) @ delta(t)),
            ),
            "boundary": ends(lambda t: momentum(t) @ delta(t)),
        }

    found = everything(motion.q[1:-1], motion.u[1:-1])
    close(found["A.1"], 0.0, 1e-9)
    assert abs(found["another path"]) > 0.1
    close(*found["A.2"])
    assert abs(found["boundary"]) > 0.1


class NineNumbers(System):
    """A free rigid body as its matrix: L = ½ tr(Λ̇ J Λ̇ᵀ) on R⁹, six constraints d(ΛᵀΛ) = 0."""

    second_moments: jax.Array
    space = Euclidean(9)
    n_constraints = 6

    def lagrangian(self, t, q, v):
        rate = v.reshape(3, 3)
        return 0.5 * jnp.sum((rate @ self.second_moments) * rate)

    def frame(self, t, q):
        turn = q.reshape(3, 3)
        upper = np.triu_indices(3)
        products = lambda v: (turn.T @ v.reshape(3, 3) + v.reshape(3, 3).T @ turn)[upper]
        rows = jax.vmap(products, out_axes=1)(jnp.eye(9))
        spins = jax.vmap(lambda e: (turn @ hat(e)).ravel())(jnp.eye(3))
        return jnp.concatenate([rows, 0.5 * spins])


def test_rigid_body_in_nine_numbers():
    """(A.4): nine equations and ΛᵀΛ = 1 are the free body once the constraint has its multipliers, ∂L/∂Λ − d/dt ∂L/∂Λ̇ =
    −Λ S with S symmetric; 0 on the right, as printed, would have Λ̈ = 0, which leaves SO(3). (A.5) at every step."""
    J = 0.5 * jnp.trace(INERTIA) * jnp.eye(3) - INERTIA
    system, body = NineNumbers(J), FreeRigidBody(INERTIA)
    q = SO3().exp(jnp.asarray([0.4, -0.7, 0.5]))
    omega = jnp.asarray([0.6, -1.2, 0.8])

    @jax.jit
    def everything(q, omega):
        turn = quaternion_matrix(q)
        rate = acceleration(system, 0.0, turn.ravel(), omega, route="multipliers")
        wanted = acceleration(body, 0.0, q, omega)
        turn_dot = turn @ hat(omega)
        turn_ddot = turn @ (hat(omega) @ hat(omega) + hat(rate))
        _, matrix_rate = jax.jvp(quaternion_matrix, (q,), (SO3().rate(q, omega),))
        return turn, rate, wanted, turn_dot, turn_ddot, matrix_rate

    turn, rate, wanted, turn_dot, turn_ddot, matrix_rate = map(np.asarray, everything(q, omega))
    close(rate, wanted, 1e-12)
    multipliers = turn.T @ turn_ddot @ J  # Λᵀ (d/dt ∂L/∂Λ̇ − ∂L/∂Λ)
    close(multipliers, multipliers.T, 1e-12)
    assert np.max(np.abs(multipliers)) > 0.1
    close(turn.T @ turn_ddot + turn_ddot.T @ turn, -2 * turn_dot.T @ turn_dot, 1e-12)
    assert np.max(np.abs(turn_dot.T @ turn_dot)) > 0.1  # with Λ̈ = 0 the second rate of ΛᵀΛ
    close(matrix_rate, turn_dot, 1e-14)
    inverse_rate = np.linalg.inv(turn) @ matrix_rate
    close(inverse_rate, -inverse_rate.T, 1e-14)  # (A.5)


# --- on a group -----------------------------------------------------------------------------------


def pose(space, t, e):
    """The pose g(t, ε): a normalised quaternion, or an angle and a position."""
    stored = path(4 if isinstance(space, SO3) else 3, t, e)
    return space.normalise(stored)


def families(space):
    """g(t, ε), its velocity ξ and its variation η, both left-trivialised."""
    g = lambda t, e: pose(space, t, e)
    left = lambda i: lambda t, e: space.velocity(g(t, e), by(g, i)(t, e))
    return g, left(0), left(1)


@pytest.mark.parametrize("space", [SO3(), SE2()], ids=["SO3", "SE2"])
def test_variations_of_velocities(space):
    """(A.8): δΩ = Σ̇ + (Ω̂Σ̂ − Σ̂Ω̂)^∨ = Σ̇ + Ω × Σ; (A.23): δξ = η̇ + ad_ξ η, on SE(2), too."""
    _, xi, eta = families(space)

    @of_each
    def sides(t):
        delta, rate = by(xi, 1)(t, 0.0), by(eta, 0)(t, 0.0)
        return delta, rate, xi(t, 0.0), eta(t, 0.0), space.ad(xi(t, 0.0)) @ eta(t, 0.0)

    delta, rate, xi_at, eta_at, bracket = sides(TIMES[:5])
    close(delta, rate + bracket, 1e-12)
    if isinstance(space, SO3):
        commutator = jax.vmap(lambda a, b: hat(a) @ hat(b) - hat(b) @ hat(a))(xi_at, eta_at)
        close(delta - rate, commutator[:, (2, 0, 1), (1, 2, 0)], 1e-12)
        close(delta - rate, np.cross(xi_at, eta_at), 1e-12)
    assert np.max(np.abs(bracket)) > 0.1


def moment(omega):
    return INERTIA @ omega


def reduced_top(omega, gamma):
    return 0.5 * omega @ moment(omega) - MASS * GRAVITY * COM @ gamma


def test_actions_on_rotations():
    """(A.9), (A.13)–(A.15), (A.34), (A.35): δ∫ℓ by parts on a family of rotations, of a free body, a top, and with λ⟨Σ, ξ⟩;
    (A.10), (A.16) at the package's Ω̇."""
    g, Omega, Sigma = families(SO3())
    Gamma = lambda t, e: quaternion_matrix(g(t, e)).T @ jnp.eye(3)[2]
    body, top = FreeRigidBody(INERTIA), HeavyTop(MASS, INERTIA, COM, GRAVITY)
    held, pull = jnp.asarray([0.3, -0.5, 0.8]), lambda t: 1.0 + t**2

    @jax.jit
    def everything():
        p = lambda t: moment(Omega(t, 0.0))
        turning = lambda t: jax.jacfwd(p)(t) + jnp.cross(Omega(t, 0.0), p(t))
        boundary = ends(lambda t: p(t) @ Sigma(t, 0.0))
        weight = lambda t: MASS * GRAVITY * jnp.cross(Gamma(t, 0.0), COM)
        action = lambda of: jax.jacfwd(lambda e: integral(lambda t: of(t, e)))(0.0)
        free = action(lambda t, e: 0.5 * Omega(t, e) @ moment(Omega(t, e)))
        heavy = action(lambda t, e: reduced_top(Omega(t, e), Gamma(t, e)))
        on_sigma = lambda f: integral(lambda t: f(t) @ Sigma(t, 0.0))
        reaction = integral(lambda t: pull(t) * held @ Sigma(t, 0.0))
        at, q = Omega(0.5, 0.0), g(0.5, 0.0)
        rates = [
            acceleration(system, 0.0, q, at, route="boltzmann-hamel") for system in (body, top)
        ]
        return {
            "A.9": (free, -on_sigma(turning) + boundary),
            "A.13": (by(Gamma, 0)(0.5, 0.0), jnp.cross(Gamma(0.5, 0.0), at)),
            "A.14": (by(Gamma, 1)(0.5, 0.0), jnp.cross(Gamma(0.5, 0.0), Sigma(0.5, 0.0))),
            "A.15": (heavy, on_sigma(lambda t: weight(t) - turning(t)) + boundary),
            "A.35": (
                free + reaction,
                on_sigma(lambda t: pull(t) * held - turning(t)) + boundary,
            ),
            "A.10": (moment(rates[0]) + jnp.cross(at, moment(at)), jnp.zeros(3)),
            "A.16": (moment(rates[1]) + jnp.cross(at, moment(at)), weight(0.5)),
        }, boundary

    pairs, boundary = everything()
    for name, (left, right) in pairs.items():
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-10, err_msg=name)
    assert abs(boundary) > 0.1


def test_action_with_an_advected_parameter():
    """(A.22)–(A.24), (A.27)–(A.30) on SE(2): δα = −ηα and δ∫ℓ(ξ, α) = ∫⟨−d/dt ∂ℓ/∂ξ + ad*_ξ ∂ℓ/∂ξ + ∂ℓ/∂α ⋄ α, η⟩ with
    the ends, by `coadjoint` and `diamond`; α = g⁻¹α_0 of two points in the plane."""
    space = SE2()
    g, xi, eta = families(space)
    points = jnp.asarray([[1.0, -0.5], [0.2, 0.8]])
    mix = jnp.asarray(np.random.default_rng(6).normal(size=(3, 3)))

    def advected(g):
        inverse = jnp.linalg.inv(space.matrix(g))
        return (inverse @ jnp.concatenate([points, jnp.ones((2, 1))], axis=1).T).T[:, :2]

    def action_of(xi, a):
        """The rate ξ a of points that the motion carries along."""
        return xi[0] * jnp.stack([-a[:, 1], a[:, 0]], axis=1) + jnp.broadcast_to(xi[1:], a.shape)

    def reduced(xi, a):
        return 0.5 * jnp.sum((mix @ xi) ** 2) + jnp.sum(jnp.sin(a)) + xi[1] * a[0, 0] * a[1, 1]

    @jax.jit
    def everything():
        alpha = lambda t, e: advected(g(t, e))
        value = lambda e: integral(lambda t: reduced(xi(t, e), alpha(t, e)))
        by_xi = lambda t: jax.grad(reduced)(xi(t, 0.0), alpha(t, 0.0))
        by_a = lambda t: jax.grad(reduced, argnums=1)(xi(t, 0.0), alpha(t, 0.0))

        def left(t):
            pulled = coadjoint(space, xi(t, 0.0), by_xi(t))
            by_diamond = diamond(action_of, by_a(t), alpha(t, 0.0), 3)
            return (-jax.jacfwd(by_xi)(t) + pulled + by_diamond) @ eta(t, 0.0)

        at, w, mu = (0.5, 0.0), by_a(0.5), by_xi(0.5)
        return {
            "A.27": (by(alpha, 1)(*at), -action_of(eta(*at), alpha(*at))),
            "A.30": (
                jax.jacfwd(value)(0.0),
                integral(left) + ends(lambda t: by_xi(t) @ eta(t, 0.0)),
            ),
            "A.29": (
                diamond(action_of, w, alpha(*at), 3) @ eta(*at),
                -jnp.sum(w * action_of(eta(*at), alpha(*at))),
            ),
            "A.22": (
                coadjoint(space, xi(*at), mu) @ eta(*at),
                mu @ (space.ad(xi(*at)) @ eta(*at)),
            ),
        }

    for name, (left, right) in everything().items():
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-9, err_msg=name)
