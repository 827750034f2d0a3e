"""Andrews' squeezing mechanism (IVP test set) as a system with six holonomic constraints, against two references.

`reference_squeezer` is a quadrature with 18 digits. The numbers of the test set are PSIDE's at tolerance 1e-14 in index 3:
their angles lie on the curve of configurations to rounding, 1.0e-12 s further than the mechanism gets in 0.03 s, and their
rates contradict each other in the eighth digit.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import Euclidean
from jaxhamel.mechanics import acceleration, constraint_force, velocity
from tests.reference import squeezer as quadrature
from tests.reference.mechanism import Mechanism, quarter, unit
from tests.systems.motion import states

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
# of the same table: accelerations and multipliers, there algebraic unknowns
END_ACCELERATION = (
    -24631.76316945196,
    51850.37701610329,
    324102.5686413781,
    566749.3645176213,
    16743.62929479361,
    -566749.3645176222,
    9826.520791458422,
)
END_MULTIPLIER = (
    199.1753333731910,
    -29.75531228015052,
    23.06654119098399,
    31.45271365475927,
    22.64249232082739,
    11.61740700019673,
)
M = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
J = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
XA, YA, XB, YB, XC, YC = -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072
D, DA, E, EA, RR, RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
SS, SA, SB, SC, SD, TA, TB = 0.035, 0.01874, 0.01043, 0.018, 0.02, 0.02308, 0.00916
U, UA, UB, ZF, ZT, FA = 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
STIFFNESS, LENGTH, TORQUE = 4530.0, 0.07785, 0.033


class Squeezer(Mechanism):
    """Seven bodies in a plane, q = (β, Θ, γ, Φ, δ, Ω, ε); a spring, and a constant torque on β."""

    space = Euclidean(7)
    n_constraints = 6
    masses, inertias = jnp.array(M), jnp.array(J)

    def centres(self, q):
        """Centres of mass, each from where its chain is fixed."""
        beta, theta, gamma, phi, delta, omega, epsilon = q
        left, right = unit(delta), unit(epsilon)
        return jnp.stack(
            [
                RA * unit(beta),
                RR * unit(beta) - DA * unit(beta + theta),
                SA * unit(gamma) + SB * quarter(unit(gamma)),
                ZT * left - (E - EA) * quarter(unit(phi + delta)),
                TA * left - TB * quarter(left),
                (ZF - FA) * unit(omega + epsilon) - U * quarter(right),
                UA * right - UB * quarter(right),
            ]
        )

    def angles(self, q):
        beta, theta, gamma, phi, delta, omega, epsilon = q
        return jnp.stack([beta, beta + theta, gamma, phi + delta, delta, omega + epsilon, epsilon])

    def potential(self, q):
        sin, cos = jnp.sin(q[2]), jnp.cos(q[2])
        x, y = SD * cos + SC * sin + XB - XC, SD * sin - SC * cos + YB - YC
        stretch = jnp.sqrt(x * x + y * y) - LENGTH
        return 0.5 * STIFFNESS * stretch * stretch

    def force(self, t, q, v, control):
        return TORQUE * jnp.eye(7, dtype=q.dtype)[0]

    def loops(self, q):
        """The point where all three chains meet the crank's, seen from each."""
        beta, theta, gamma, phi, delta, omega, epsilon = q
        meeting = RR * unit(beta) - D * unit(beta + theta)
        base = jnp.array([XA, YA])
        spring = jnp.array([XB, YB]) - SS * quarter(unit(gamma))
        left = ZT * unit(delta) - E * quarter(unit(phi + delta))
        right = ZF * unit(omega + epsilon) - U * quarter(unit(epsilon))
        return jnp.concatenate([meeting - spring, meeting - left - base, meeting - right - base])


@pytest.fixture(scope="module")
def exact():
    return quadrature.state("0.03")


def test_quadrature_has_converged(exact):
    """Twice the panels and half as many nodes more; and at 1e-7 s, β = ½ β̈ t² with the test set's β̈(0)."""
    q, rate = quadrature.state("0.03", panels=400, order=30)
    digits = 100 * np.finfo(q.dtype).eps
    np.testing.assert_allclose(exact[0], q, rtol=digits, atol=0)
    np.testing.assert_allclose(exact[1], rate, rtol=10 * digits, atol=0)
    start, _ = quadrature.state("1e-7", guess=5e-11)
    np.testing.assert_allclose(start[0] - START[0], 0.5e-14 * 14222.443919954114, rtol=1e-5)


def test_squeezer(exact):
    """All angles and rates at 0.03 s, after two and a half turns of the crank: quadrature."""
    system, start = Squeezer(), jnp.asarray(START)
    np.testing.assert_allclose(system.loops(start), 0.0, atol=1e-16)
    q, u = states(system, start, jnp.zeros(1), jnp.array([0.0, 0.03]), steps=jnp.asarray(2000))
    rates = velocity(system, 0.03, q[1], u[1])
    np.testing.assert_allclose(np.asarray(q[1]), exact[0].astype(float), rtol=0, atol=1e-12)
    np.testing.assert_allclose(rates, exact[1].astype(float), rtol=0, atol=2e-10)
    np.testing.assert_allclose(system.loops(q[1]), 0.0, atol=1e-12)


def test_printed_angles_are_of_another_instant(exact):
    """All seven by the same time; crank and rod are on the curve to their last digit."""
    q, rate = exact
    late = ((np.asarray(END) - q) / rate).astype(float)
    np.testing.assert_allclose(late, 1.0047e-12, rtol=0.002)
    on_curve, _ = quadrature.configuration(-np.longdouble(END[1]))
    np.testing.assert_allclose(float(on_curve[0]), END[0], rtol=1e-15)


def test_printed_rates_miss_the_constraints():
    """The equations at the printed state, no integration between: what β̇ there gives for the rest.

    The rates differ by up to 2.9e-8, 2e-8 of their size, the kinetic energy from the work done by 1.5e-10; accelerations and
    multipliers, which follow from the rates, by 1e-6 of their size. Signs of multipliers differ by convention.
    """
    system, q, rate = Squeezer(), jnp.asarray(END), np.asarray(END_RATE)
    at_printed = (system, 0.03, q, jnp.asarray(rate[:1]))
    miss = velocity(*at_printed) - rate
    np.testing.assert_allclose(np.abs(miss[1:4]), [2.74e-8, 1.61e-8, 2.89e-8], rtol=0.01)
    np.testing.assert_allclose(acceleration(*at_printed), END_ACCELERATION[0], rtol=1e-7)
    np.testing.assert_allclose(-constraint_force(*at_printed), END_MULTIPLIER, rtol=2e-6)
    angles, joint = quadrature.configuration(-np.longdouble(END[1]))
    speeds = _of_bodies(rate) / quadrature.turning(
        angles, joint
    )  # one number, were they consistent
    short = (speeds / quadrature.speed(-np.longdouble(END[1])) - 1).astype(float)
    np.testing.assert_allclose([short[0], short[-1]], [-7.3e-11, 2.07e-8], rtol=0.01)
    kinetic = 0.5 * quadrature.inertia(angles, _of_bodies(rate))
    energy = kinetic / quadrature.work(-np.longdouble(END[1])) - 1
    np.testing.assert_allclose(float(energy), -1.47e-10, rtol=0.01)


def _of_bodies(rate):
    beta, theta, gamma, phi, delta, omega, epsilon = rate
    return np.stack([beta, beta + theta, gamma, phi + delta, delta, omega + epsilon, epsilon])
