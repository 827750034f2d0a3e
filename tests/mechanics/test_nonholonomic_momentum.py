"""The nonholonomic momentum equation against the full equations, its two limits, and the published snakeboard."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SO3
from jaxhamel.mechanics import (
    acceleration,
    lagrange_routh,
    nonholonomic_connection,
    nonholonomic_momentum_equations,
    velocity,
)
from jaxhamel.systems import (
    BallOnTurntable,
    ChaplyginSphere,
    CoupledSnakeboard,
    Snakeboard,
)
from tests.mechanics.random_bundles import SHAPE, Bundle, random_bundle

CONTROL = 0.4


class Constrained(Bundle):
    """A random bundle with invariant constraints [A_1(r) A_2(r)], random group velocities, and ṙ as quasi-velocities."""

    rows: jax.Array
    n_constraints: int = eqx.field(static=True)

    def frame(self, t, q):
        n = self.space.dim
        wave = jnp.tensordot(self.rows, jnp.sin(q[1] + jnp.asarray([0.3, 0.8])), axes=1)
        return jnp.eye(n).at[: n - SHAPE].add(0.5 * wave)


def constrained_bundle(seed, group, n_constraints):
    """T(r) and constraints invariant; potential, forces and damping that are not; no terms linear in v."""
    system, t, q, v = random_bundle(seed, group, gyroscopic=0.0)
    generator = np.random.default_rng(seed)
    rows = jnp.asarray(generator.normal(size=(group.dim, group.dim + SHAPE, SHAPE)) / 2)
    mass = {**system.weights["mass"], "in": system.weights["mass"]["in"].at[:, SHAPE].set(0.0)}
    weights = {**system.weights, "mass": mass}
    constrained = Constrained(
        space=system.space,
        weights=weights,
        gyroscopic=system.gyroscopic,
        broken=system.broken,
        rows=rows,
        n_constraints=n_constraints,
    )
    return constrained, t, q, v[n_constraints:]


@eqx.filter_jit
def by_both(system, t, q, u, control):
    """(ṗ, r̈) by the momentum equation and by two routes of the full equations, p = p(q, u) differentiated along them."""
    connection = nonholonomic_connection(system, t=t)
    f = connection.group.dim

    def momentum(q, u):
        v = velocity(system, t, q, u)
        return connection.momentum(q[1], v[:f], v[f:])

    v = velocity(system, t, q, u)
    p = momentum(q, u)
    found = nonholonomic_momentum_equations(system, t, q, p, v[f:], control)
    wanted = []
    for route in ("multipliers", "boltzmann-hamel"):
        u_dot = acceleration(system, t, q, u, control, route=route)
        _, p_dot = jax.jvp(momentum, (q, u), (system.space.rate(q, v), u_dot))
        wanted.append(jnp.concatenate([p_dot, u_dot[p.size :]]))
    return jnp.concatenate(found), wanted, connection.velocity(q[1], v[f:], p) - v[:f]


@pytest.mark.parametrize(("group", "constraints"), [(SE2(), 1), (SO3(), 2), (SO3(), 3)])
def test_equals_the_full_equations(group, constraints):
    for seed in (3, 4):
        system, t, q, u = constrained_bundle(seed, group, constraints)
        found, wanted, error = by_both(system, t, q, u, CONTROL)
        assert np.max(np.abs(found)) > 0.1
        for other in wanted:
            np.testing.assert_allclose(
                found, other, rtol=0, atol=1e-11 * (1 + np.max(np.abs(found)))
            )
        np.testing.assert_allclose(error, 0.0, atol=1e-13)


def test_without_constraints():
    """E = 1: the Lagrange–Poincaré equations at the momentum p."""
    system, t, q, v = constrained_bundle(5, SE2(), 0)
    system = eqx.tree_at(lambda s: s.rows, system, jnp.zeros_like(system.rows))

    @jax.jit
    def both(q, v):
        connection = nonholonomic_connection(system, t=t)
        p = connection.momentum(q[1], v[:3], v[3:])
        mu = SE2().Ad(SE2().inverse(q[0])).T @ p
        found = nonholonomic_momentum_equations(system, t, q, p, v[3:], CONTROL)
        return found.shape, lagrange_routh(system, t, q, v[3:], mu, CONTROL)

    found, wanted = both(q, v)
    np.testing.assert_allclose(found, wanted, atol=1e-11)


# --- snakeboards ----------------------------------------------------------------------------------

M, R, ROTOR, WHEEL = 6.0, 0.2, 0.016, 0.0013
PUBLISHED = CoupledSnakeboard(
    M, M * R**2 - ROTOR - 2 * WHEEL, ROTOR, WHEEL, R
)  # J + J_r + 2 J_w = m r²


@eqx.filter_jit
def at_once(connection, r, rdot, p):
    """A, E I⁻¹ and ṗ: one program."""
    return connection(r), connection.momentum_velocity(r), connection.momentum_rate(r, rdot, p)


def along_the_board(r):
    """Their direction sin 2φ ∂_θ − 2 r cos² φ ∂_x, here (ω, v_x, v_y)."""
    phi = r[1]
    return jnp.stack([jnp.sin(2 * phi), -2 * R * jnp.cos(phi) ** 2, 0.0 * phi])[:, None]


def test_published_snakeboard():
    """Bloch, Krishnaprasad, Marsden and Murray 1996, section 8.4: ξ = −A ṙ + Γ p, ṗ and ψ̈, φ̈ with torques."""
    connection = nonholonomic_connection(PUBLISHED, along_the_board)
    (psi_rate, phi_rate), phi, p, torque = (0.7, -0.4), 0.6, 0.3, (0.02, -0.01)
    r, rdot, momentum = jnp.asarray([1.1, phi]), jnp.asarray([psi_rate, phi_rate]), jnp.asarray([p])
    sin, double = np.sin(phi), np.sin(2 * phi)
    A = [[ROTOR * sin**2 / (M * R**2), 0.0], [-ROTOR * double / (2 * M * R), 0.0], [0.0, 0.0]]
    found_A, found_Gamma, rate = at_once(connection, r, rdot, momentum)
    np.testing.assert_allclose(found_A, A, atol=1e-15)
    Gamma = [[np.tan(phi) / (2 * M * R**2)], [-1 / (2 * M * R)], [0.0]]
    np.testing.assert_allclose(found_Gamma, Gamma, atol=1e-14)
    p_dot = 2 * ROTOR * np.cos(phi) ** 2 * phi_rate * psi_rate - np.tan(phi) * phi_rate * p
    np.testing.assert_allclose(rate, [p_dot], atol=1e-15)
    q = (jnp.asarray([0.4, 1.0, -2.0]), r)
    found = nonholonomic_momentum_equations(
        PUBLISHED, 0.0, q, momentum, rdot, jnp.asarray(torque), basis=along_the_board
    )
    np.testing.assert_allclose(found.momentum, [p_dot], atol=1e-14)
    left = 1 - ROTOR * sin**2 / (M * R**2)
    right = ROTOR * double * psi_rate * phi_rate - phi_rate * p
    psi = (right / (2 * M * R**2) + torque[0] / ROTOR) / left
    np.testing.assert_allclose(found.shape, [psi, torque[1] / (2 * WHEEL)], rtol=1e-12)


def test_any_snakeboard():
    """Of any inertia, with trucks that steer by themselves, and the one of the package with its own formulas."""
    board = Snakeboard(2.0, 0.15, 0.1, 0.02, 0.3)
    q = (jnp.asarray([0.4, 1.0, -2.0]), jnp.asarray([1.1, 0.6, -0.2]))
    u, torques = jnp.asarray([0.9, 0.7, -0.4, 0.5]), jnp.asarray([0.02, -0.01, 0.03])
    found, wanted, error = by_both(board, jnp.asarray(0.0), q, u, torques)
    for other in wanted:
        np.testing.assert_allclose(found, other, atol=1e-12)
    np.testing.assert_allclose(error, 0.0, atol=1e-14)
    board = CoupledSnakeboard(2.0, 0.15, 0.1, 0.02, 0.3)
    connection, r, rdot, p = nonholonomic_connection(board), q[1][:2], u[:2], u[2:3]
    own = eqx.filter_jit(
        lambda board: [
            board.connection(r),
            board.momentum_velocity(r),
            board.momentum_rate(r, rdot, p),
        ]
    )
    found = at_once(connection, r, rdot, p)
    for a, b, atol in zip(found, own(board), (1e-14, 1e-14, 1e-15), strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


def test_single_precision_beside_double():
    """A system of float32 leaves keeps its precision where JAX's default is double."""
    board = CoupledSnakeboard(2.0, 0.15, 0.1, 0.02, 0.3)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), board)
    r = jnp.asarray(np.asarray([1.1, 0.6], np.float32))
    found = eqx.filter_jit(nonholonomic_connection(single))(r)
    assert found.dtype == jnp.float32
    wanted = eqx.filter_jit(lambda board: board.connection(r.astype(float)))(board)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


# --- right-invariant: a ball on the plane (remark 4.4) --------------------------------------------


def about_the_vertical(r):
    return jnp.eye(3, dtype=r.dtype)[:, 2:]


def test_homogeneous_ball():
    """The third component of Θ ω is the momentum, and constant; the ball goes straight on."""
    ball = ChaplyginSphere(0.2, 1.5, [0.03, 0.03, 0.03])
    q = (SO3().exp(jnp.asarray([0.3, -0.5, 0.9])), jnp.asarray([1.0, 2.0]))
    p, rdot = jnp.asarray([0.7]), jnp.asarray([0.4, -0.3])
    connection = nonholonomic_connection(ball, about_the_vertical, right=True)
    omega = eqx.filter_jit(connection.velocity)(q[1], rdot, p)
    np.testing.assert_allclose(
        omega, [0.3 / 0.2, 0.4 / 0.2, 0.7 / 0.03], atol=1e-12
    )  # ż = ω × r e_3
    found = nonholonomic_momentum_equations(
        ball, 0.0, q, p, rdot, basis=about_the_vertical, right=True
    )
    np.testing.assert_allclose(np.concatenate(found), 0.0, atol=1e-12)


def test_what_does_not_fit_is_named():
    uneven = ChaplyginSphere(0.2, 1.5, [0.03, 0.04, 0.05])
    with pytest.raises(
        ValueError, match=r"ChaplyginSphere has a kinetic energy that is not invariant.*Set `right`"
    ):
        nonholonomic_connection(uneven, about_the_vertical, right=True)
    with pytest.raises(ValueError, match="has constraints that are not invariant"):
        nonholonomic_connection(uneven, about_the_vertical)
    ball = ChaplyginSphere(0.2, 1.5, [0.03, 0.03, 0.03])
    with pytest.raises(ValueError, match="constraints that `basis` violates, by up to"):
        nonholonomic_connection(ball, lambda r: jnp.eye(3)[:, :1], right=True)
    with pytest.raises(ValueError, match=r"last rows are not \(0, 1\)"):
        nonholonomic_connection(ball, right=True)
    with pytest.raises(ValueError, match="BallOnTurntable has a drift; the nonholonomic momentum"):
        nonholonomic_connection(BallOnTurntable(0.1, 1.0, 0.004, 3.0))
    zero = jnp.zeros(2)
    with pytest.raises(ValueError, match=r"`momentum` has shape \(2,\)"):
        nonholonomic_momentum_equations(PUBLISHED, 0.0, (jnp.zeros(3), zero), zero, jnp.zeros(1))
