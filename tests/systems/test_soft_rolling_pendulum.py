"""The soft-shelled ball and its stand: frequencies, swings shortened by friction, sticking, energy, gradients at rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipj, ellipk

from jaxhamel.mechanics import acceleration, energy
from jaxhamel.systems import PendulumInStand, SoftRollingPendulum
from tests.systems.motion import states

ROBOT = SoftRollingPendulum.roboball(
    contact_stiffness=21.0, rest_angle=0.06, rolling_coulomb=0.4, rolling_viscous=2.7
)
SMOOTH = {"joint_coulomb": 0.0, "joint_viscous": 0.0}


@pytest.mark.parametrize("kappa", [0.0, np.log(2.0), -0.3])
def test_contact_is_a_spring_about_the_rest_angle(kappa):
    """An empty ball has φ̈ = −k e^κ (φ − φ_0) / (I_s + m_s R²)."""
    bare = SoftRollingPendulum.roboball(
        contact_stiffness=21.0, rest_angle=0.06, centre_mass=0.0, centre_inertia=0.0, **SMOOTH
    )
    bare = SoftRollingPendulum(**{**vars(bare), "pendulum_mass": 0.0})
    rate = acceleration(bare, 0.0, jnp.array([0.26, 0.3, kappa]), jnp.array([0.5, -0.2]))
    wanted = -21.0 * np.exp(kappa) * 0.2 / (1.04 + 16.53649 * 0.3175**2)
    np.testing.assert_allclose(rate, [wanted, -wanted], rtol=1e-12)  # the pendulum does not turn


def test_the_drawn_ball_rolls():
    """The drawn centre moves by angle times radius, towards −y for a rotation about x."""
    (_, ball), (_, pendulum) = ROBOT.places(0.0, jnp.array([0.4, 0.3, 0.0]), None)
    np.testing.assert_allclose(ball, [0.0, -0.4 * 0.3175, 0.3175], rtol=1e-12)
    np.testing.assert_array_equal(pendulum, ball)


def test_rigid_ball_swings_as_published():
    """Small motions of the rigid, frictionless ball: M q̈ = −G q with the published 2 × 2 matrices, in (φ, φ + θ)."""
    rigid = SoftRollingPendulum.roboball(pendulum_com=(0.0, -0.095), **SMOOTH)
    M = np.array(
        [
            [
                1.04
                + 0.01841
                + 2.77934 * 0.05**2
                + 41.34583 * 0.3175**2
                - 2 * 2.77934 * 0.05 * 0.3175,
                0,
            ],
            [0, 0.44235 + 22.03 * 0.095**2],
        ]
    )
    M[0, 1] = M[1, 0] = -22.03 * 0.095 * 0.3175
    G = 9.81 * np.diag([2.77934 * 0.05, 22.03 * 0.095])
    q = 1e-6 * np.array([0.7, -0.4])
    rate = acceleration(rigid, 0.0, jnp.array([q[0], q[1] - q[0], 0.0]), jnp.zeros(2))
    wanted = np.linalg.solve(M, -G @ q)
    np.testing.assert_allclose([rate[0], rate[0] + rate[1]], wanted, rtol=1e-9)


def test_stand_swings_as_a_pendulum():
    """Without friction, released from 2 rad: sin θ/2 = k sn(K − ω t). With viscous friction the eigenvalues at rest are
    −δ ± i √(ω² − δ²)."""
    weight, inertia = 22.03 * 9.81 * 0.095, 0.44235 + 22.03 * 0.095**2
    omega, k = np.sqrt(weight / inertia), np.sin(1.0)
    stand = lambda viscous: PendulumInStand.of(
        SoftRollingPendulum.roboball(
            pendulum_com=(0.0, -0.095), joint_coulomb=0.0, joint_viscous=viscous
        )
    )
    times = jnp.linspace(0.0, 5.0, 6)
    start = jnp.array([0.0, 2.0, 0.0])
    q, u = states(stand(0.0), start, jnp.zeros(1), times, steps=jnp.asarray(100))
    sn, cn, _, _ = ellipj(ellipk(k * k) - omega * np.asarray(times), k * k)
    np.testing.assert_allclose(q[:, 1], 2 * np.arcsin(k * sn), rtol=0, atol=1e-9)
    np.testing.assert_allclose(u[:, 0], -2 * k * omega * cn, rtol=0, atol=1e-9)

    damped, still = stand(0.3), jnp.zeros(3)
    rate = lambda x: acceleration(damped, 0.0, still.at[1].set(x[0]), x[1:])[0]
    roots = np.linalg.eigvals(np.stack([[0.0, 1.0], jax.jacfwd(rate)(jnp.zeros(2))]))
    delta = 0.3 / (2 * inertia)
    wanted = -delta + 1j * np.sqrt(omega**2 - delta**2) * np.array([1, -1])
    np.testing.assert_allclose(np.sort_complex(roots), np.sort_complex(wanted), rtol=1e-12)


def test_coulomb_friction_shortens_each_half_swing_by_as_much():
    """Each turning point of a small swing is nearer to rest than the previous one by 2 F / (m g |c|)."""
    weight = 22.03 * 9.81 * 0.095
    stand = PendulumInStand.of(
        SoftRollingPendulum.roboball(
            pendulum_com=(0.0, -0.095), joint_coulomb=0.01, joint_viscous=0.0, slip_rate=1e-4
        )
    )
    half = np.pi * np.sqrt((0.44235 + 22.03 * 0.095**2) / weight)
    times = jnp.asarray(half) * jnp.arange(4.0)
    q, u = states(stand, jnp.array([0.0, 0.01, 0.0]), jnp.zeros(1), times, steps=400)
    wanted = 0.01 - 2 * 0.01 / weight * np.arange(4)
    np.testing.assert_allclose(np.abs(q[:, 1]), wanted, rtol=1e-3)
    assert np.all(np.abs(u) < 1e-3 * 0.01 * np.pi / half)


def test_joint_sticks():
    """Where its weight pulls with half the friction moment F, the pendulum creeps more slowly than the slip rate ε, in
    the stand and in the rolling ball."""
    still = {"joint_coulomb": 0.5, "slip_rate": 1e-3, "contact_stiffness": 1e4}
    robot = SoftRollingPendulum.roboball(**still, pendulum_com=(0.0, -0.095))
    lean = 0.25 / (22.03 * 9.81 * 0.095)
    times = jnp.array([0.0, 1.0])
    for system, k in ((PendulumInStand.of(robot), 1), (robot, 2)):
        q, u = states(system, jnp.array([0.0, lean, 0.0]), jnp.zeros(k), times, steps=1000)
        assert 0 < lean - q[-1, 1] < 1e-3
        assert abs(u[-1, -1]) < 1e-3


@pytest.mark.parametrize("system", [ROBOT, PendulumInStand.of(ROBOT)], ids=["rolling", "held"])
def test_energy_is_lost_as_friction_says(system):
    """dE/dt = −Σ (F s(w) + c w) w, summed over joint and ground contact."""
    q, u = jnp.array([0.2, -0.5, 0.3]), jnp.array([0.7, -0.04])[-system.n_independent :]
    rate = acceleration(system, 0.0, q, u)
    q_dot = jnp.zeros(3).at[2 - u.size : 2].set(u)
    _, lost = jax.jvp(lambda q, u: energy(system, 0.0, q, u), (q, u), (q_dot, rate))
    rub = lambda w, F, c: (F / np.hypot(w, 0.02) + c) * w * w
    wanted = rub(-0.04, 0.45, 0.204) + (rub(0.7, 0.4, 2.7) if u.size == 2 else 0.0)
    np.testing.assert_allclose(lost, -wanted, rtol=1e-11)


def test_gradients_at_rest():
    """Derivatives are finite at rest; forward mode, reverse mode and differences agree."""
    q, u = jnp.array([0.2, -0.1, 0.1]), jnp.zeros(2)
    rate = lambda system, q, u: acceleration(system, 0.0, q, u)
    forward = jax.jit(jax.jacfwd(rate, argnums=(0, 1, 2)))(ROBOT, q, u)
    reverse = jax.jit(jax.jacrev(rate, argnums=(0, 1, 2)))(ROBOT, q, u)
    for a, b in zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True):
        assert np.all(np.isfinite(a))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    h = 1e-6
    shifted = [rate(ROBOT, q, u.at[1].set(s * h)) for s in (1, -1)]
    np.testing.assert_allclose(forward[2][:, 1], (shifted[0] - shifted[1]) / (2 * h), rtol=1e-6)


def test_a_robot_keeps_its_parameters_in_the_stand():
    stand = PendulumInStand.of(ROBOT)
    assert isinstance(stand, PendulumInStand)
    for a, b in zip(jax.tree.leaves(stand), jax.tree.leaves(ROBOT), strict=True):
        np.testing.assert_array_equal(a, b)
    assert type(SoftRollingPendulum.of(stand)) is SoftRollingPendulum
