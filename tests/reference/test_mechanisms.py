"""Mechanisms with closed loops of the IFToMM library, written as systems with holonomic constraints."""

import jax.numpy as jnp
import numpy as np
from scipy.special import ellipj, ellipk, ellipkm1

from jaxhamel import Euclidean
from jaxhamel.mechanics import acceleration, energy
from tests.reference.mechanism import Mechanism, unit
from tests.systems.motion import states

G = 9.81

# --- A01, a pendulum in Cartesian coordinates -----------------------------------------------------


class Pendulum(Mechanism):
    """A point of 1 kg, 1 m from the origin."""

    space = Euclidean(2)
    n_constraints = 1
    masses, inertias = jnp.ones(1), jnp.zeros(1)

    def centres(self, q):
        return q[None]

    def angles(self, q):
        return jnp.zeros(1, q.dtype)

    def potential(self, q):
        return G * q[1]

    def frame(self, t, q):
        """The differential of ½(|q|² − 1) = 0, and u = θ̇ across the radius, independent everywhere."""
        return jnp.stack([q, jnp.stack([-q[1], q[0]])])


def test_pendulum_from_the_horizontal():
    """Released at (−1, 0): sin(θ/2) = k sn(K − ω t), k² = ½, an elliptic function, for 10 s."""
    times = jnp.linspace(0.0, 10.0, 11)
    q, u = states(Pendulum(), jnp.array([-1.0, 0.0]), jnp.zeros(1), times, steps=200)
    omega = np.sqrt(G)
    sn, cn, dn, _ = ellipj(ellipk(0.5) - omega * np.asarray(times), 0.5)
    half = np.sqrt(0.5) * sn  # sin θ/2 from the lowest point, −x positive
    wanted = np.stack([-2 * half * dn, -(1 - 2 * half**2)], axis=1)
    np.testing.assert_allclose(q, wanted, rtol=0, atol=1e-10)
    found = 0.5 * u[:, 0] ** 2 + G * q[:, 1]
    np.testing.assert_allclose(found, 0.0, atol=1e-10)
    np.testing.assert_allclose(u[:, 0], 2 * omega * np.sqrt(0.5) * cn, rtol=0, atol=1e-9)


# --- A02, two four-bar linkages in a row ----------------------------------------------------------

# EXUDYN's fourBarMechanismIftomm.py, comments: step, then x, y, v_x, v_y of B0 at 10 s. The sensor is not named
# there; x² + y² = 1 and the speed make it the upper end of the first rod.
EXUDYN = np.array(
    [
        (1e-3, 0.3284112372, 0.9445348375, 1.422958522, -0.4947565894),
        (5e-4, 0.3284465114, 0.9445225721, 1.423028497, -0.494841072),
        (2.5e-4, 0.3284552113, 0.9445195467, 1.423045728, -0.4948619021),
        (1.25e-4, 0.3284573768, 0.9445187937, 1.423050003, -0.4948670827),
    ]
)


class Linkage(Mechanism):
    """Five rods of 1 m and 1 kg; q are their angles: upright, coupler, upright, coupler, upright.

    Where the rods lie in one line both loops lose a rank, and the linkage could go on as an antiparallelogram.
    """

    space = Euclidean(5)
    n_constraints = 4
    masses, inertias = jnp.ones(5), jnp.full(5, 1 / 12)

    def centres(self, q):
        first, coupler, second, other, third = map(unit, q)
        along = jnp.array([1.0, 0.0], q.dtype)
        onward = along + second
        ends = [first, 2 * first + coupler, along + onward, 2 * onward + other, 4 * along + third]
        return 0.5 * jnp.stack(ends)

    def angles(self, q):
        return q

    def potential(self, q):
        return G * jnp.sum(self.centres(q)[:, 1])

    def loops(self, q):
        first, coupler, second, other, third = map(unit, q)
        along = jnp.array([1.0, 0.0], q.dtype)
        return jnp.concatenate([first + coupler - second - along, second + other - third - along])


class Parallelograms(Linkage):
    """The same linkage with the branch chosen: couplers do not turn and uprights turn together, so the constraints have
    full rank everywhere."""

    def frame(self, t, q):
        rows = [
            [0, 1, 0, 0, 0],
            [0, 0, 0, 1, 0],
            [1, 0, -1, 0, 0],
            [0, 0, 1, 0, -1],
            [1, 0, 0, 0, 0],
        ]
        return jnp.array(rows, q.dtype)


UPRIGHT = jnp.array([np.pi / 2, 0, np.pi / 2, 0, np.pi / 2])


def linkage_closed_form(times):
    """θ̇² = 1 + (7g/3)(1 − sin θ): the angle from upright is π + 2 am(Ω t − K), Ω² = ¼ + 7g/6; B0 and its velocity."""
    square = 0.25 + 7 * G / 6
    omega, complement = np.sqrt(square), 0.25 / square
    _, _, dn, amplitude = ellipj(omega * times - ellipkm1(complement), 1 - complement)
    angle, rate = np.pi + 2 * amplitude, 2 * omega * dn
    sin, cos = np.sin(angle), np.cos(angle)
    return np.stack([sin, cos, rate * cos, -rate * sin], axis=-1)


def test_linkage_through_its_singular_configuration():
    """In five turns, ten times through the singular line, the motion follows the elliptic function; loops stay closed
    and energy is conserved."""
    times = jnp.linspace(0.0, 10.0, 11)
    system, u0 = Parallelograms(), jnp.array([-1.0])
    q, u = states(system, UPRIGHT, u0, times, steps=100)
    tip, across = np.asarray([np.cos(q[:, 0]), np.sin(q[:, 0])]), np.asarray(u[:, 0])
    found = np.stack([tip[0], tip[1], -across * tip[1], across * tip[0]], axis=1)
    np.testing.assert_allclose(found, linkage_closed_form(np.asarray(times)), rtol=0, atol=1e-9)
    for x, rate in zip(q, u, strict=True):
        np.testing.assert_allclose(system.loops(x), 0.0, atol=1e-12)
        np.testing.assert_allclose(energy(system, 0.0, x, rate), 1.5 + 3.5 * G, rtol=1e-11)


def test_loops_lose_rank_in_the_line():
    """In the line the frame with the loops' one-forms is singular; elsewhere both forms give the same acceleration."""
    loops, rates = Linkage(), Parallelograms()
    in_line = jnp.zeros(5)
    assert np.linalg.matrix_rank(loops.frame(0.0, in_line)) == 3
    assert np.linalg.matrix_rank(rates.frame(0.0, in_line)) == 5
    slope = 3.5 * G / 3
    for angle in (np.pi / 2, 1.0, -2.5):
        q = jnp.array([angle, 0, angle, 0, angle])
        for system in (loops, rates):
            found = acceleration(system, 0.0, q, jnp.array([-1.0]))
            np.testing.assert_allclose(found, -slope * np.cos(angle), rtol=0, atol=1e-11)


def test_exudyns_linkage_converges_to_the_elliptic_function():
    """EXUDYN's errors fall with h² and extrapolate to the exact state; at the last step its solver's tolerance limits
    them."""
    error = EXUDYN[:, 1:] - linkage_closed_form(10.0)
    ratio = error[:-1] / error[1:]
    np.testing.assert_allclose(ratio[:2], 4.0, rtol=0, atol=0.05)
    np.testing.assert_allclose(ratio[2], 4.0, rtol=0, atol=0.1)
    extrapolated = (4 * EXUDYN[2, 1:] - EXUDYN[1, 1:]) / 3
    np.testing.assert_allclose(extrapolated, linkage_closed_form(10.0), rtol=0, atol=2e-9)
    assert np.abs(error[3]).max() < 1.8e-6
