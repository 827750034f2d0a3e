"""Mechanisms with closed loops, written as systems with holonomic constraints, against published numbers.

Constraints g(q) = 0 enter by their velocities, the one-forms ∂g/∂q; the first coordinate's velocity is independent unless
said otherwise.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ellipj, ellipk

from jaxhamel import Euclidean, System
from jaxhamel.mechanics import velocity

sys.path.insert(0, str(Path(__file__).parents[1] / "systems"))
from systems_motion import states


class Mechanism(System):
    """L = ½ q̇·M(q) q̇ − V(q) with constraints g(q) = 0, and u = q̇_1."""

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, self.mass_matrix(q) @ v) - self.potential(q)

    def frame(self, t, q):
        first = jnp.eye(self.space.dim, dtype=q.dtype)[: self.n_independent]
        return jnp.concatenate([jax.jacfwd(self.constraints)(q), first])


# --- the IFToMM library's pendulum, A01 -----------------------------------------------------------


class Pendulum(Mechanism):
    """A point of 1 kg at 1 m from the origin, in Cartesian coordinates."""

    space = Euclidean(2)
    n_constraints = 1

    def mass_matrix(self, q):
        return jnp.eye(2, dtype=q.dtype)

    def potential(self, q):
        return 9.81 * q[1]

    def constraints(self, q):
        return 0.5 * (jnp.dot(q, q) - 1.0)[None]

    def frame(self, t, q):
        """u across the radius: θ̇, which is independent everywhere."""
        return jnp.stack([q, jnp.stack([-q[1], q[0]])])


def test_pendulum_from_the_horizontal():
    """Let go at (−1, 0): sin(θ/2) = k sn(K − ω t), k² = ½, an elliptic function for 10 s."""
    times = jnp.linspace(0.0, 10.0, 11)
    q, u = states(Pendulum(), jnp.array([-1.0, 0.0]), jnp.zeros(1), times, steps=200)
    omega = np.sqrt(9.81)
    sn, cn, dn, _ = ellipj(ellipk(0.5) - omega * np.asarray(times), 0.5)
    half = np.sqrt(0.5) * sn  # sin θ/2 from the lowest point, −x positive
    wanted = np.stack([-2 * half * dn, -(1 - 2 * half**2)], axis=1)
    np.testing.assert_allclose(q, wanted, rtol=0, atol=1e-10)
    energy = 0.5 * u[:, 0] ** 2 + 9.81 * q[:, 1]
    np.testing.assert_allclose(energy, 0.0, atol=1e-10)
    np.testing.assert_allclose(u[:, 0], 2 * omega * np.sqrt(0.5) * cn, rtol=0, atol=1e-9)


# --- Andrews' squeezing mechanism, IVP test set ---------------------------------------------------

START = (
    -0.0617138900142764496,
    0.0,
    0.455279819163070380,
    0.222668390165885885,
    0.487364979543842550,
    -0.222668390165885885,
    1.23054744454982119,
)
END = (
    15.81077119629904,
    -15.75637105984298,
    0.04082224013073101,
    -0.5347301163226948,
    0.5244099658805304,
    0.5347301163226948,
    1.048080741042263,
)
END_RATE = (
    1139.920302151208,
    -1424.379294994111,
    11.03291221937134,
    19.29337464421385,
    0.5735699284790808,
    -19.29337464421385,
    0.3231791658026955,
)
M = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
J = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
XA, YA, XB, YB, XC, YC = -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072
D, DA, E, EA, RR, RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
SS, SA, SB, SC, SD, TA, TB = 0.035, 0.01874, 0.01043, 0.018, 0.02, 0.02308, 0.00916
U, UA, UB, ZF, ZT, FA = 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
STIFFNESS, LENGTH, TORQUE = 4530.0, 0.07785, 0.033


def unit(angle):
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


class Squeezer(Mechanism):
    """Seven bodies in a plane, q = (β, Θ, γ, Φ, δ, Ω, ε); a spring, and a constant torque on β."""

    space = Euclidean(7)
    n_constraints = 6

    def centres(self, q):
        """Centres of mass of the seven bodies, each from where its chain is fixed."""
        beta, theta, gamma, phi, delta, omega, epsilon = q
        left, right = unit(delta), unit(epsilon)
        return jnp.stack(
            [
                RA * unit(beta),
                RR * unit(beta) - DA * unit(beta + theta),
                SA * unit(gamma) + SB * _quarter(unit(gamma)),
                ZT * left - (E - EA) * _quarter(unit(phi + delta)),
                TA * left - TB * _quarter(left),
                (ZF - FA) * unit(omega + epsilon) - U * _quarter(right),
                UA * right - UB * _quarter(right),
            ]
        )

    def mass_matrix(self, q):
        """By the velocities of the centres and the angular velocities."""
        beta, theta, gamma, phi, delta, omega, epsilon = jnp.eye(7, dtype=q.dtype)
        angles = [beta, beta + theta, gamma, phi + delta, delta, omega + epsilon, epsilon]
        turning = jnp.stack(angles)
        moving = jax.jacfwd(self.centres)(q)
        of_centres = jnp.einsum("b,bxi,bxj->ij", jnp.asarray(M), moving, moving)
        return of_centres + jnp.einsum("b,bi,bj->ij", jnp.asarray(J), turning, turning)

    def potential(self, q):
        sin, cos = jnp.sin(q[2]), jnp.cos(q[2])
        x, y = SD * cos + SC * sin + XB - XC, SD * sin - SC * cos + YB - YC
        stretch = jnp.sqrt(x * x + y * y) - LENGTH
        return 0.5 * STIFFNESS * stretch * stretch

    def force(self, t, q, v, control):
        return TORQUE * jnp.eye(7, dtype=q.dtype)[0]

    def constraints(self, q):
        """The point where all three chains meet the crank's, seen from each."""
        beta, theta, gamma, phi, delta, omega, epsilon = q
        meeting = RR * unit(beta) - D * unit(beta + theta)
        base = jnp.array([XA, YA])
        spring = jnp.array([XB, YB]) - SS * _quarter(unit(gamma))
        left = ZT * unit(delta) - E * _quarter(unit(phi + delta))
        right = ZF * unit(omega + epsilon) - U * _quarter(unit(epsilon))
        return jnp.concatenate([meeting - spring, meeting - left - base, meeting - right - base])


def _quarter(x):
    """Turned by a right angle."""
    return jnp.stack([-x[1], x[0]])


def test_squeezer():
    """All angles and rates at 0.03 s, after two and a half turns of the crank (PSIDE, tolerance 1e-14).

    With 6,000 steps the angles move by 4e-13, the rates by 2e-10: the distance to the published numbers, 1.4e-9 and 5.4e-7,
    is no error of the steps.
    """
    system, start = Squeezer(), jnp.asarray(START)
    np.testing.assert_allclose(system.constraints(start), 0.0, atol=1e-16)
    q, u = states(system, start, jnp.zeros(1), jnp.array([0.0, 0.03]), steps=jnp.asarray(2000))
    rates = velocity(system, 0.03, q[1], u[1])
    np.testing.assert_allclose(q[1], END, rtol=0, atol=2e-9)
    np.testing.assert_allclose(rates, END_RATE, rtol=0, atol=6e-7)
    np.testing.assert_allclose(system.constraints(q[1]), 0.0, atol=1e-12)
