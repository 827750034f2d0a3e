"""Euler–Poincaré equations with advected parameters: the heavy top, three groups, left and right, against other routes."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SE3, SO3, hat, quaternion_matrix, quaternion_rotate
from jaxhamel.mechanics import (
    EulerPoincareSystem,
    acceleration,
    coadjoint,
    diamond,
    euler_poincare,
    infinitesimal_action,
)
from jaxhamel.systems import HeavyTop

INERTIA = jnp.array([[1.2, 0.1, -0.2], [0.1, 0.9, 0.05], [-0.2, 0.05, 1.1]])
COM = jnp.array([0.1, -0.3, 0.6])
MASS, GRAVITY = 2.0, 9.81


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def draw(rng, *shape):
    return jnp.asarray(rng.normal(size=shape))


def top_lagrangian(xi, gamma):
    """ℓ(Ω, Γ) = ½ Ω·IΩ − m g χ·Γ."""
    return 0.5 * xi @ INERTIA @ xi - MASS * GRAVITY * COM @ gamma


def rotated(xi, a):
    """The infinitesimal action ξ a = ξ × a of SO(3) on R³."""
    return jnp.cross(xi, a)


def test_diamond_and_coadjoint_of_so3(rng):
    """w ⋄ Γ = w × Γ and ad*_Ω μ = μ × Ω; ⟨w ⋄ a, ξ⟩ = −⟨w, ξ a⟩ for every ξ."""
    w, a, xi, mu, eta = draw(rng, 5, 3)
    np.testing.assert_allclose(diamond(rotated, w, a, 3), np.cross(w, a), rtol=1e-14)
    np.testing.assert_allclose(coadjoint(SO3(), xi, mu), np.cross(mu, xi), rtol=1e-13)
    np.testing.assert_allclose(coadjoint(SO3(), xi, mu) @ eta, mu @ np.cross(xi, eta), rtol=1e-13)
    np.testing.assert_allclose(diamond(rotated, w, a, 3) @ xi, -w @ np.cross(xi, a), rtol=1e-13)


def test_action_of_a_representation(rng):
    """d/dε of exp(εξ)·a by differences of order 4, on SE(3) acting on points and on planes at once."""
    space = SE3()
    act = lambda g, a: {"point": _moved(g, a["point"]), "plane": _moved_plane(g, a["plane"])}
    xi, point, plane = draw(rng, 6), draw(rng, 3), draw(rng, 4)
    a = {"point": point, "plane": plane}
    found = infinitesimal_action(act, space)(xi, a)
    h = 1e-3
    at = lambda k: act(space.exp(k * h * xi), a)
    fourth = jax.tree.map(
        lambda p2, p1, m1, m2: (m2 - 8 * m1 + 8 * p1 - p2) / (12 * h), at(2), at(1), at(-1), at(-2)
    )
    for name in a:
        np.testing.assert_allclose(found[name], fourth[name], rtol=0, atol=1e-10)


def _moved(g, point):
    return quaternion_rotate(g[:4], point) + g[4:]


def _moved_plane(g, plane):
    """The plane n·x = d: n → R n, d → d + (R n)·p."""
    normal = quaternion_rotate(g[:4], plane[:3])
    return jnp.concatenate([normal, (plane[3] + jnp.dot(normal, g[4:]))[None]])


def test_heavy_top(rng):
    """(A.31) with Γ advected is (A.16): `HeavyTop` by its own routes, and the printed formula."""
    q = draw(rng, 4)
    q = q / jnp.sqrt(q @ q)
    omega, gamma = draw(rng, 3), quaternion_matrix(q)[2]
    xi_dot, gamma_dot = euler_poincare(top_lagrangian, SO3(), omega, gamma, action=rotated)
    top = HeavyTop(MASS, INERTIA, COM, GRAVITY)
    np.testing.assert_allclose(xi_dot, acceleration(top, 0.0, q, omega), rtol=1e-12)
    moment = np.cross(INERTIA @ omega, omega) + MASS * GRAVITY * np.cross(gamma, COM)
    np.testing.assert_allclose(xi_dot, np.linalg.solve(INERTIA, moment), rtol=1e-12)
    np.testing.assert_allclose(gamma_dot, np.cross(gamma, omega), rtol=1e-13)


class Stiff(eqx.Module):
    """ℓ(ξ, (x, n)) = ½ ξ·Mξ + ¼ (b·ξ)⁴ + (n·x)(c·ξ) − k |x|²/2 − w·n: gyroscopic, not quadratic, two parameters."""

    mass: jax.Array
    quartic: jax.Array
    gyro: jax.Array
    weight: jax.Array

    def __call__(self, xi, a):
        x, n = a
        kinetic = 0.5 * xi @ self.mass @ xi + 0.25 * (self.quartic @ xi) ** 4
        return kinetic + jnp.dot(x, n) * (self.gyro @ xi) - 0.7 * jnp.dot(x, x) - self.weight @ n


def random_lagrangian(rng, dim, size):
    root = np.eye(dim) + 0.3 * rng.normal(size=(dim, dim))
    return Stiff(jnp.asarray(root @ root.T), *(draw(rng, n) for n in (dim, dim, size)))


def _planar(g, a):
    """SE(2): a point x and a direction n."""
    x, n = a
    turn = SE2().matrix(g)[:2, :2]
    return turn @ x + g[1:], turn @ n


def _spatial(g, a):
    x, n = a
    return _moved(g, x), quaternion_rotate(g[:4], n)


def _about_a_point(g, a):
    return tuple(quaternion_rotate(g, x) for x in a)


GROUPS = {
    "SO3": (SO3(), _about_a_point, 3),
    "SE3": (SE3(), _spatial, 3),
    "SE2": (SE2(), _planar, 2),
}


@pytest.mark.parametrize("name", GROUPS)
def test_reduction_is_boltzmann_hamel_on_the_group(rng, name):
    """ξ̇ is the acceleration of L(g, v) = ℓ(v, g⁻¹a_0) on the group; ȧ is the rate of g⁻¹ a_0."""
    space, representation, size = GROUPS[name]
    lagrangian = random_lagrangian(rng, space.dim, size)
    a0 = (draw(rng, size), draw(rng, size))
    system = EulerPoincareSystem(space, lagrangian, representation, a0)
    g, xi = space.exp(draw(rng, space.dim)), draw(rng, space.dim)
    action = infinitesimal_action(representation, space)
    a = system.advected(g)
    rates = jax.jit(lambda *at: euler_poincare(lagrangian, space, *at, action=action))
    xi_dot, a_dot = rates(xi, a)
    wanted = acceleration(system, 0.0, g, xi, route="multipliers")
    np.testing.assert_allclose(xi_dot, wanted, rtol=1e-10, atol=1e-11)
    _, rate = jax.jvp(system.advected, (g,), (space.rate(g, xi),))
    for got, want in zip(a_dot, rate, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def congruence(xi, a):
    """The infinitesimal action ξ̂ a − a ξ̂ of SO(3) on inertias, from g a gᵀ."""
    return hat(xi) @ a - a @ hat(xi)


def test_right_invariance_is_the_body_seen_from_space(rng):
    """ℓ = ½ ω·aω with the advected inertia a = Λ I Λᵀ: a torque changes the spatial momentum, and in the body these are
    Euler's equations."""
    q = draw(rng, 4)
    turn = quaternion_matrix(q / jnp.sqrt(q @ q))
    body, inertia = draw(rng, 3), turn @ INERTIA @ turn.T
    omega = turn @ body
    lagrangian = lambda xi, a: 0.5 * xi @ a @ xi
    torque = draw(rng, 3)
    at = (lagrangian, SO3(), omega, inertia)
    omega_dot, inertia_dot = euler_poincare(*at, action=congruence, right=True, force=torque)
    np.testing.assert_allclose(inertia_dot @ omega + inertia @ omega_dot, torque, atol=1e-13)
    euler = np.linalg.solve(INERTIA, np.cross(INERTIA @ body, body) + turn.T @ torque)
    np.testing.assert_allclose(omega_dot, turn @ euler, rtol=1e-12)  # dω/dt = Λ Ω̇


def test_right_on_a_group_that_is_not_rotations(rng):
    """SE(3), right-invariant, without parameters: Ad*-momentum is kept, d/dt (Ad_gᵀ μ) = 0."""
    space, lagrangian = SE3(), random_lagrangian(rng, 6, 3)
    free = lambda xi, a: lagrangian(xi, (jnp.zeros(3), jnp.zeros(3)))
    xi, g = draw(rng, 6), space.exp(draw(rng, 6))
    xi_dot, nothing = euler_poincare(free, space, xi, right=True)
    assert nothing == ()
    body = space.Ad(space.inverse(g)) @ xi  # ġ = ξ g
    momentum = lambda g, xi: space.Ad(g).T @ jax.grad(free)(xi, ())
    push = jax.jit(lambda *at: jax.jvp(momentum, at[:2], at[2:]))
    kept, rate = push(g, xi, space.rate(g, body), xi_dot)
    assert np.max(np.abs(kept)) > 0.1
    np.testing.assert_allclose(rate, 0, atol=1e-11)


def test_without_a_parameter_the_spatial_momentum_stays(rng):
    """(A.25), and (A.26): Ad*_{g⁻¹} ∂ℓ/∂ξ is constant, on SE(3)."""
    space, lagrangian = SE3(), random_lagrangian(rng, 6, 3)
    free = lambda xi, a: lagrangian(xi, (jnp.zeros(3), jnp.zeros(3)))
    xi, g = draw(rng, 6), space.exp(draw(rng, 6))
    xi_dot, _ = euler_poincare(free, space, xi)
    momentum = lambda g, xi: space.Ad(space.inverse(g)).T @ jax.grad(free)(xi, ())
    push = jax.jit(lambda *at: jax.jvp(momentum, at[:2], at[2:]))
    _, rate = push(g, xi, space.rate(g, xi), xi_dot)
    np.testing.assert_allclose(rate, 0, atol=1e-11)


def test_gradients(rng):
    """∂ξ̇/∂I of the top, reverse = forward = that of the printed formula."""
    omega, gamma, weights = draw(rng, 3, 3)

    def by_reduction(inertia):
        lagrangian = lambda xi, a: 0.5 * xi @ inertia @ xi - MASS * GRAVITY * COM @ a
        return weights @ euler_poincare(lagrangian, SO3(), omega, gamma, action=rotated)[0]

    def printed(inertia):
        symmetric = 0.5 * (inertia + inertia.T)
        moment = jnp.cross(symmetric @ omega, omega) + MASS * GRAVITY * jnp.cross(gamma, COM)
        return weights @ jnp.linalg.solve(symmetric, moment)

    derivatives = (jax.grad(by_reduction), jax.jacfwd(by_reduction), jax.grad(printed))
    reverse, forward, wanted = jax.jit(lambda x: [of(x) for of in derivatives])(INERTIA)
    np.testing.assert_allclose(reverse, forward, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(0.5 * (reverse + reverse.T), wanted, rtol=1e-10, atol=1e-11)


def test_any_solver_takes_the_reduced_equations():
    """diffrax integrates the top in (Ω, Γ) alone: energy, Γ·IΩ and |Γ| are conserved."""
    field = lambda t, y, args: euler_poincare(top_lagrangian, SO3(), *y, action=rotated)
    start = (jnp.array([0.4, -0.2, 3.0]), jnp.array([0.6, 0.0, 0.8]))
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8(),
        0.0,
        1.0,
        0.002,
        start,
        saveat=diffrax.SaveAt(ts=jnp.array([0.0, 1.0])),
    )
    assert found.ys is not None
    omega, gamma = found.ys
    energy = 0.5 * np.einsum("ti,ij,tj->t", omega, INERTIA, omega) + MASS * GRAVITY * gamma @ COM
    kept = (energy, np.einsum("ti,ij,tj->t", gamma, INERTIA, omega), np.sum(gamma**2, axis=1))
    assert np.max(np.abs(omega[1] - omega[0])) > 0.5
    for values in kept:
        np.testing.assert_allclose(values[1], values[0], rtol=1e-11)


def test_a_parameter_needs_an_action():
    with pytest.raises(
        TypeError, match=r"`action` is None; it must be a callable .*the rate at which"
    ):
        euler_poincare(top_lagrangian, SO3(), jnp.zeros(3), jnp.zeros(3))


def test_single_precision(float32):
    a = jnp.array([0.6, 0.0, 0.8])
    inertia = jnp.eye(3)
    lagrangian = lambda xi, a: 0.5 * xi @ inertia @ xi - a[2]
    rates = jax.eval_shape(lambda a: euler_poincare(lagrangian, SO3(), a, a, action=rotated), a)
    assert all(rate.dtype == jnp.float32 for rate in rates)
