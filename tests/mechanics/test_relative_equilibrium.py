"""Steady motions by Newton's method, followed past folds, against closed forms of tops, disks, sleighs and a bead on a
hoop."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SO3, Euclidean, quaternion_matrix, quaternion_multiply
from jaxhamel.mechanics import (
    Symmetry,
    System,
    follow_equilibria,
    linearise,
    modes,
    relative_equilibrium,
)
from jaxhamel.mechanics._stability._relative_equilibrium import _damped, free_mask
from jaxhamel.mechanics._tangent import tangent_size
from jaxhamel.systems import ChaplyginSleigh, HeavyTop, RollingDisk

E3 = jnp.asarray([0.0, 0.0, 1.0])
A, C, MOMENT = 1.0, 0.5, 1.2 * 9.81 * 0.3
TOP = HeavyTop(1.2, [A, A, C], [0.0, 0.0, 0.3])


def turn(angle):
    return SO3().exp(angle * E3)


def turn_top(s, q):
    """Rotates the top by s_0 about the vertical and by s_1 about its own axis."""
    return SO3().compose(turn(s[0]), SO3().compose(q, turn(s[1])))


TURNS = Symmetry(turn_top, 2)


def leaning(lean):
    return SO3().exp(jnp.asarray([1.0, 0.0, 0.0]) * lean)


def height(q):
    """cos β of a top's lean β."""
    return quaternion_matrix(q)[2, 2]


def lean_and_spin(q, u):
    return jnp.stack([height(q) - np.cos(0.7), u[2] - 9.0])


def precessing(rate):
    """A state of the top with lean 0.7 rad and spin 9 rad/s."""
    q = leaning(0.7)
    return q, quaternion_matrix(q)[2] * rate + E3 * (9.0 - rate * np.cos(0.7))


def steady(spin, cosine):
    """Both roots ω_p of A ω_p² cos β − C Ω_3 ω_p + m g l = 0."""
    return np.sort(np.roots([A * cosine, -C * spin, MOMENT]))


def test_precession_of_a_top():
    """Slow and fast precession at a given lean and spin; the rate of each from its quadratic."""
    slow, fast = steady(9.0, np.cos(0.7))
    for guess, wanted in ((1.0, slow), (6.0, fast)):
        q = leaning(0.6)
        u = quaternion_matrix(q)[2] * guess + E3 * (8.0 - guess * np.cos(0.6))
        found = relative_equilibrium(TOP, 0.0, q, u, symmetry=TURNS, conditions=lean_and_spin)
        np.testing.assert_allclose(found.rates[0], wanted, rtol=1e-9)
        np.testing.assert_allclose(found.u[2], 9.0, rtol=1e-10)
        np.testing.assert_allclose(found.rates[1], 9.0 - wanted * np.cos(0.7), rtol=1e-9)


def test_motion_and_its_linearisation():
    """The motion solves the equations; its linearisation has the textbook frequency of nutation and four zeros."""
    slow, _ = steady(9.0, np.cos(0.7))
    q, u = precessing(slow)
    found = relative_equilibrium(TOP, 0.0, q, u, symmetry=TURNS, conditions=lean_and_spin)
    later = found.motion(0.3)
    again = relative_equilibrium(TOP, 0.0, *later, symmetry=TURNS, conditions=lean_and_spin)
    np.testing.assert_allclose(again.u, later[1], atol=1e-9)
    np.testing.assert_allclose(again.rates, found.rates, atol=1e-9)
    spectrum = modes(found.linearisation().A)
    assert spectrum.stability == "marginal"
    assert int(np.sum(spectrum.zero)) == 4
    # θ̈ = −V′(θ)/A, V = (p_φ − p_ψ cos θ)²/(2 A sin² θ) + m g l cos θ: V″/A at the steady lean, p_ψ = C Ω_3
    cosine, momentum = np.cos(0.7), C * 9.0
    squared = (momentum / A) ** 2 - 4 * momentum * cosine * slow / A + slow**2 * (1 + 3 * cosine**2)
    np.testing.assert_allclose(np.max(spectrum.frequencies) ** 2, squared, rtol=1e-8)


def test_followed_past_the_fold():
    """As the spin decreases, slow precession becomes fast precession where (C Ω_3)² = 4 A m g l cos β."""
    cosine = np.cos(0.7)
    start = 9.0
    slow, _ = steady(start, cosine)
    q, u = precessing(slow)
    held = lambda p, q, u: jnp.stack([height(q) - cosine, u[2] - p])
    branch = follow_equilibria(
        TOP, start, 0.0, q, u, symmetry=TURNS, conditions=held, step=-0.7, steps=22
    )
    rates = np.asarray([e.rates[0] for e in branch.equilibria])
    spins = np.asarray(branch.parameters)
    np.testing.assert_allclose(A * rates**2 * cosine - C * spins * rates + MOMENT, 0.0, atol=1e-8)
    fold = 2 * np.sqrt(A * MOMENT * cosine) / C
    assert branch.complete
    assert fold < np.min(spins) < fold + 0.2
    assert spins[-1] > np.min(spins) + 0.5
    assert rates[-1] > C * spins[-1] / (2 * A * cosine) > rates[0]


DISK = RollingDisk(0.3, 2.0)


def move_disk(s, q):
    """Moves the disk by s_0 about the vertical, by s_1 about its own axis and by s_2 along x."""
    orientation = quaternion_multiply(turn(s[0]), quaternion_multiply(q[0], turn(s[1])))
    return orientation, quaternion_matrix(turn(s[0])) @ q[1] + s[2] * jnp.asarray([1.0, 0.0, 0.0])


class Rolling(eqx.Module):
    """On the ground, lean given, a Γ·Ω + b Ω_3 = 0: round a circle of radius R for a = sin β − R/r, b = R/r sin β − 1."""

    lean: jax.Array
    ratio: jax.Array

    def __call__(self, q, u):
        vertical = quaternion_matrix(q[0])[2]
        rates = jnp.stack([jnp.dot(vertical, u), u[2]])
        return jnp.stack(
            [vertical[2] - jnp.sin(self.lean), DISK.contact_point(q)[2], jnp.dot(self.ratio, rates)]
        )


def steady_disk(q, u, lean, ratio):
    held = Rolling(jnp.asarray(lean), jnp.asarray(ratio))
    return relative_equilibrium(DISK, 0.0, q, u, symmetry=MOVES, conditions=held)


MOVES = Symmetry(move_disk, 3)


def test_disk_round_a_circle():
    """For given lean and radius, the rate of Le Saux, Leine and Glocker 2005, (5.10), is found from a guess 20 % off."""
    q, u = DISK.steady_rolling(0.25, 1.1)
    found = steady_disk(q, 1.2 * u, 0.3, [np.sin(0.3) - 4.0, 4.0 * np.sin(0.3) - 1.0])
    rate = float(DISK.steady_rate(0.3, 1.2))
    np.testing.assert_allclose(found.rates[:2], [rate, -rate * 1.2 / 0.3], rtol=1e-8)


def test_a_disk_that_rolls_straight_on():
    """Straight rolling is stable only for Ω² > g/(3 r); the body's axes rotate, so the matrix A of `linearise` is not
    constant."""
    critical = np.sqrt(9.81 / 0.9)
    upright = SO3().exp(jnp.asarray([np.pi / 2, 0.0, 0.0]))
    for spin, stability in ((0.97 * critical, "unstable"), (1.03 * critical, "marginal")):
        q, u = DISK.configuration(upright, jnp.zeros(2)), spin * E3
        found = steady_disk(q, u, 0.0, [1.0, 0.0])
        np.testing.assert_allclose(found.u, u, atol=1e-12)
        np.testing.assert_allclose(np.abs(found.rates), [0.0, spin, spin * 0.3], atol=1e-10)
        assert modes(found.linearisation().A).stability == stability


def test_sleigh():
    """Left translations of SE(2): straight on with the centre of mass ahead is stable at the rate −a v/k²."""
    sleigh = ChaplyginSleigh(2.0, 0.5, 0.3)
    shift = Symmetry(lambda s, q: SE2().compose(SE2().exp(s), q), 3)
    q = jnp.asarray([0.4, 1.0, -2.0])
    u, speed = jnp.asarray([1.4, 0.2]), lambda q, u: u[:1] - 1.5
    found = relative_equilibrium(sleigh, 0.0, q, u, symmetry=shift, conditions=speed)
    np.testing.assert_allclose(found.u, [1.5, 0.0], atol=1e-10)
    linear = found.linearisation()
    np.testing.assert_allclose(linear.A, linearise(sleigh, 0.0, q, found.u).A, atol=1e-9)
    spectrum = modes(linear.A)
    np.testing.assert_allclose(np.min(spectrum.eigenvalues.real), -0.3 * 1.5 / (0.25 + 0.09))
    assert spectrum.stability == "stable"


class Hoop(System):
    """A bead on a hoop that turns at the rate w: θ̈ = sin θ (w² cos θ − g/r); three equilibria beyond w² = g/r."""

    rate: jax.Array
    space = Euclidean(1)

    def lagrangian(self, t, q, v):
        return jnp.sum(0.5 * v**2 + 0.5 * (self.rate * jnp.sin(q)) ** 2 + 9.81 * jnp.cos(q))


@jax.jit
def angle(rate):
    found = relative_equilibrium(Hoop(rate), 0.0, jnp.asarray([0.7]), jnp.zeros(1))
    return found.q[0], found.converged


def test_equilibrium_and_its_derivatives():
    """cos θ = g/(r w²), and dθ/dw by the implicit function theorem, in forward and reverse mode."""
    rate = 4.0
    found, converged = angle(rate)
    assert bool(converged)
    np.testing.assert_allclose(found, np.arccos(9.81 / rate**2), rtol=1e-12)
    wanted = 2 * 9.81 / rate**3 / np.sin(found)
    for derivative in (jax.jacfwd, jax.grad):
        np.testing.assert_allclose(derivative(lambda w: angle(w)[0])(rate), wanted, rtol=1e-10)


def test_single_precision_beside_double():
    rate, start = jnp.asarray(4.0, jnp.float32), jnp.asarray([0.7], jnp.float32)
    found = relative_equilibrium(Hoop(rate), 0.0, start, 0.0 * start)
    assert found.q.dtype == jnp.float32
    np.testing.assert_allclose(found.q, [np.arccos(9.81 / 16.0)], rtol=1e-6)
    spectrum = modes(found.linearisation().A)
    assert spectrum.stability == "marginal"
    np.testing.assert_allclose(spectrum.frequencies, 4.0 * np.sin(found.q[0]), rtol=1e-5)


def test_free_components():
    """If only the second component, the velocity, is free, the bead's angle stays and the residual does not vanish."""
    with pytest.raises(
        RuntimeError, match=r"no relative equilibrium was found in 50 steps.*residual"
    ):
        relative_equilibrium(
            Hoop(jnp.asarray(4.0)), 0.0, jnp.asarray([0.7]), jnp.zeros(1), free=[1]
        )
    with pytest.raises(ValueError, match=r"`free` is \[2\]; .* from 0 to 1"):
        relative_equilibrium(
            Hoop(jnp.asarray(4.0)), 0.0, jnp.asarray([0.7]), jnp.zeros(1), free=[2]
        )


class Shaken(Hoop):
    def force(self, t, q, v, control):
        return jnp.sin(t) * jnp.ones_like(q)


def test_mask_of_free_components():
    """The mask multiplies the steps, so its entries are only 0 and 1."""
    n = tangent_size(TOP)
    np.testing.assert_array_equal(free_mask(TOP, None, float), np.ones(n))
    np.testing.assert_array_equal(free_mask(TOP, [0, n - 1], float), np.eye(n)[0] + np.eye(n)[-1])


def test_messages():
    q, u = leaning(0.7), jnp.asarray([0.0, 1.0, 2.0])
    about_x = Symmetry(lambda s, q: SO3().compose(SO3().exp(s[0] * jnp.asarray([1.0, 0, 0])), q), 1)
    with pytest.raises(ValueError, match="`symmetry` is none of `system` HeavyTop"):
        relative_equilibrium(TOP, 0.0, q, u, symmetry=about_x)
    with pytest.raises(ValueError, match=r"of `system` Shaken depend on time, at a rate of 1"):
        relative_equilibrium(Shaken(jnp.asarray(4.0)), 0.0, jnp.asarray([0.7]), jnp.zeros(1))
    with pytest.raises(ValueError, match=r"family of dimension 2 here.*Add 1 to `conditions`"):
        follow_equilibria(Valley, 4.0, 0.0, jnp.asarray([0.1, 0.2]), jnp.zeros(2), steps=1)


class Valley(System):
    """A system in equilibrium wherever q_1 = 0."""

    stiffness: jax.Array
    space = Euclidean(2)

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v) - 0.5 * self.stiffness * q[0] ** 2


def test_damped_inverse():
    """(JᵀJ + μ)⁻¹ Jᵀ, μ = 1e-6 ‖J‖² |R|²/(1 + |R|²)."""
    J = np.random.default_rng(0).normal(size=(5, 3)) * [1.0, 1e-2, 1e-3]
    mu = 1e-6 * np.linalg.norm(J, 2) ** 2 * 4.0 / 5.0
    wanted = np.linalg.solve(J.T @ J + mu * np.eye(3), J.T)
    np.testing.assert_allclose(_damped(jnp.asarray(J), jnp.asarray(4.0)), wanted, rtol=1e-9)
