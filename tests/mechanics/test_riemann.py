"""Riemannian geometry of the kinetic energy: Milnor's and Gauss' curvatures, (7.1) and (7.2) against the motion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SO3, Euclidean
from jaxhamel.mechanics import (
    System,
    acceleration,
    levi_civita,
    neighbouring_motion,
    riemann_curvature,
    sectional_curvature,
    stability_matrix,
)
from jaxhamel.systems import ChaplyginSleigh, FreeRigidBody, HeavyTop


class Surface(System):
    """T = (E v_1² + v_2²)/2: the metric of a surface of revolution, E = f(q_2)²."""

    kind: str
    space = Euclidean(2)

    def lagrangian(self, t, q, v):
        if self.kind == "hyperbolic":
            return (v[0] ** 2 + v[1] ** 2) / (2 * q[1] ** 2)
        radius = 3.0 * jnp.cos(q[1] / 3.0) if self.kind == "sphere" else q[1]
        return (radius**2 * v[0] ** 2 + v[1] ** 2) / 2


@pytest.mark.parametrize(
    ("kind", "curvature"), [("hyperbolic", -1.0), ("sphere", 1 / 9), ("plane", 0.0)]
)
def test_surfaces_of_constant_curvature(kind, curvature):
    q, x, y = jnp.asarray([0.3, 1.7]), jnp.asarray([1.0, 2.0]), jnp.asarray([0.3, -2.0])
    found = sectional_curvature(Surface(kind), 0.0, q, x, y)
    np.testing.assert_allclose(found, curvature, atol=1e-13)


def test_rigid_body():
    """Milnor (1976): K(e_1, e_2) = λ_3 μ_3 − μ_1 μ_2, λ_i = I_i/√(I_1 I_2 I_3), μ_i = Σλ/2 − λ_i; a ball has 1/(4 I)."""
    inertia = np.array([1.0, 2.0, 2.5])
    lam = inertia / np.sqrt(np.prod(inertia))
    mu = np.sum(lam) / 2 - lam
    body, e = FreeRigidBody(inertia), jnp.eye(3)
    curvature = jax.jit(lambda b, x, y: sectional_curvature(b, 0.0, SO3().identity(), x, y))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.testing.assert_allclose(
            curvature(body, e[i], e[j]), lam[k] * mu[k] - mu[i] * mu[j], atol=1e-14
        )
    ball = FreeRigidBody([0.5] * 3)
    np.testing.assert_allclose(curvature(ball, e[0] + e[1], e[2] - e[0]), 0.5, atol=1e-14)


TOP = HeavyTop(1.2, [1.0, 2.0, 1.5], [0.1, 0.2, 0.3])
START = (SO3().exp(jnp.asarray([0.3, -0.5, 0.9])), jnp.asarray([0.4, -0.8, 1.1]))


def test_symmetries_and_the_equations_of_motion():
    """(7.1) is the motion; Γ is free of torsion; R has the symmetries of Riemann's tensor and Bianchi's."""
    q, v = START

    @jax.jit
    def found(q, v):
        G, R = levi_civita(TOP, 0.0, q), riemann_curvature(TOP, 0.0, q)
        free = acceleration(FreeRigidBody(TOP.inertia), 0.0, q, v)
        return G, R, free

    G, R, free = found(q, v)
    np.testing.assert_allclose(-np.einsum("cab,a,b->c", G, v, v), free, atol=1e-14)
    c = SO3().structure_constants()
    np.testing.assert_allclose(G - np.swapaxes(G, 1, 2), c, atol=1e-14)
    lowered = np.einsum("de,ecab->dcab", np.diag(TOP.inertia), R)
    np.testing.assert_allclose(lowered, -np.swapaxes(lowered, 2, 3), atol=1e-14)
    np.testing.assert_allclose(lowered, -np.swapaxes(lowered, 0, 1), atol=1e-14)
    np.testing.assert_allclose(lowered, np.transpose(lowered, (2, 3, 0, 1)), atol=1e-14)
    bianchi = R + np.transpose(R, (0, 2, 3, 1)) + np.transpose(R, (0, 3, 1, 2))
    np.testing.assert_allclose(bianchi, 0, atol=1e-14)


METRIC = jnp.asarray(np.random.default_rng(9).normal(size=(3, 3, 3)))


class Riemannian(System):
    """L = ½ g_ab(q) q̇^a q̇^b with any g, and a force."""

    space = Euclidean(3)

    def metric(self, q):
        root = jnp.eye(3) + 0.2 * jnp.tensordot(METRIC, jnp.sin(q), axes=1)
        return root.T @ root

    def lagrangian(self, t, q, v):
        return 0.5 * v @ self.metric(q) @ v

    def force(self, t, q, v, control):
        return control


def test_christoffel_symbols_and_a_force():
    """(7.1) in coordinates: Γ^a_bc = ½ g^ad (∂_b g_dc + ∂_c g_db − ∂_d g_bc), and q̈^a + Γ^a_bc q̇^b q̇^c = g^ab Q_b."""
    system = Riemannian()
    q, v, Q = jnp.asarray(np.random.default_rng(10).normal(size=(3, 3)))
    found = levi_civita(system, 0.0, q)
    slope = np.asarray(jax.jit(jax.jacfwd(system.metric))(q))  # ∂_c g_ab at [a, b, c]
    lowered = np.einsum("dcb->dbc", slope) + slope - np.einsum("bcd->dbc", slope)
    christoffel = 0.5 * np.einsum("ad,dbc->abc", np.linalg.inv(system.metric(q)), lowered)
    np.testing.assert_allclose(found, christoffel, atol=1e-13)
    rate = acceleration(system, 0.0, q, v, Q)
    absolute = rate + np.einsum("abc,b,c->a", christoffel, v, v)
    np.testing.assert_allclose(absolute, np.linalg.solve(system.metric(q), Q), atol=1e-12)
    assert np.max(np.abs(christoffel)) > 0.1


def test_neighbouring_motions():
    """(7.2) beside the motion of a heavy top, against the derivative of the flow by its initial state."""
    steps, h = 200, 0.005
    x0, dv0 = jnp.asarray([0.3, -0.2, 0.5]), jnp.asarray([0.1, 0.4, -0.6])

    def motion(q, v):
        return SO3().rate(q, v), acceleration(TOP, 0.0, q, v, route="multipliers")

    def with_neighbour(q, v, x, y):
        return *motion(q, v), *neighbouring_motion(TOP, 0.0, q, v, x, y)

    def flow(rate, state):
        def step(state, _):
            move = lambda k, a: jax.tree.map(lambda s, d: s + a * h * d, state, k)
            k1 = rate(*state)
            k2 = rate(*move(k1, 0.5))
            k3 = rate(*move(k2, 0.5))
            k4 = rate(*move(k3, 1.0))
            mean = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4)
            return move(mean, 1.0), None

        return jax.lax.scan(step, state, None, steps)[0]

    @jax.jit
    def both(q, v):
        G = levi_civita(TOP, 0.0, q)
        y0 = dv0 - SO3().ad(v) @ x0 + jnp.einsum("cab,a,b->c", G, v, x0)
        *_, x, _ = flow(with_neighbour, (q, v, x0, y0))
        end, tangent = jax.jvp(lambda q, v: flow(motion, (q, v)), (q, v), (SO3().rate(q, x0), dv0))
        return x, SO3().velocity(end[0], tangent[0])

    x, wanted = both(*START)
    np.testing.assert_allclose(x, wanted, atol=1e-8)
    assert np.linalg.norm(x - x0) > 0.3


def test_stability_of_a_hanging_top():
    """At rest K = −∇F: the squared frequencies of small swings about the hanging position, m g l/I about each axis."""
    hanging = HeavyTop(1.2, [1.0, 2.0, 1.5], [0.0, 0.0, -0.3])
    K = stability_matrix(hanging, 0.0, SO3().identity(), jnp.zeros(3))
    moment = 1.2 * 9.81 * 0.3
    np.testing.assert_allclose(K, np.diag([moment / 1.0, moment / 2.0, 0.0]), atol=1e-13)


def test_constraints_are_named():
    sleigh = ChaplyginSleigh(1.0, 1.0, 0.3)
    with pytest.raises(ValueError, match=r"has 1 constraints.*must have 0"):
        stability_matrix(sleigh, 0.0, jnp.zeros(3), jnp.zeros(3))
