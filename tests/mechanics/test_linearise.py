"""Linearised equations against the derivative of the flow, closed forms and published eigenvalues; modes and their
derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from jaxhamel.geometry import SE2, SO3, Euclidean, Product
from jaxhamel.mechanics import (
    Constant,
    System,
    acceleration,
    levi_civita,
    linearise,
    modes,
    neighbouring_motion,
    velocity,
)
from jaxhamel.systems import BallOnTurntable, HeavyTop, Rattleback, WhippleBicycle
from tests.mechanics.random_systems import random_system


def assert_same_set(found, wanted, atol):
    """Checks that two lists of complex numbers agree in some order."""
    found, rest = np.asarray(found), list(np.asarray(wanted))
    assert len(found) == len(rest)
    for value in found:
        nearest = int(np.argmin(np.abs(np.asarray(rest) - value)))
        assert abs(rest.pop(nearest) - value) < atol


# --- the definition, and the flow -----------------------------------------------------------------

SPACE = Product(SE2(), SO3())


@eqx.filter_jit
def by_definition(system, t, q, u, delta, pushed):
    """A δ + B δc, and the derivative d/dε d/dh of the neighbour's exponential coordinates after both motions have run
    for a time h."""
    space, n, control = system.space, system.space.dim, jnp.zeros(system.space.dim)
    A, B = linearise(system, t, q, u, control)

    def neighbour(epsilon):
        x = space.retract(q, epsilon * delta[:n]), u + epsilon * delta[n:]
        u_dot = acceleration(system, t, *x, control + epsilon * pushed, route="multipliers")
        return x[0], velocity(system, t, *x), u_dot

    def distance(epsilon, h):
        near, v, _ = neighbour(epsilon)
        here = space.retract(q, h * velocity(system, t, q, u))
        return space.local(here, space.retract(near, h * v))

    zero, one = jnp.zeros(()), jnp.ones(())
    along = lambda h: jax.jvp(lambda e: distance(e, h), (zero,), (one,))[1]
    _, q_rate = jax.jvp(along, (zero,), (one,))
    _, u_rate = jax.jvp(lambda e: neighbour(e)[2], (zero,), (one,))
    return A @ delta + B @ pushed, jnp.concatenate([q_rate, u_rate])


def test_definition_for_any_system():
    """Two constraints, drift, quartic kinetic energy, gyroscopic terms and damping, all functions of time and
    configuration."""
    for seed in (1, 2, 3):
        system, t, q, u = random_system(seed, SPACE, 2)
        generator = np.random.default_rng(seed)
        delta, pushed = (jnp.asarray(generator.normal(size=n)) for n in (10, 6))
        found, wanted = by_definition(system, t, q, u, delta, pushed)
        assert np.linalg.norm(wanted) > 1.0
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.linalg.norm(wanted))


MOMENT, TOP = 1.2 * 9.81 * 0.3, HeavyTop(1.2, [1.0, 1.0, 0.5], [0.0, 0.0, 0.3])


def euler(q, u):
    """Ω̇ = I⁻¹((I Ω) × Ω + m g Γ × χ) of this top, Γ = Λᵀ e_3."""
    w, x, y, z = q
    gamma = jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z])
    inertia = jnp.asarray([1.0, 1.0, 0.5])
    pull = MOMENT * jnp.cross(gamma, jnp.asarray([0.0, 0.0, 1.0]))
    return (jnp.cross(inertia * u, u) + pull) / inertia


@jax.jit
def flow_of_top(spin, x):
    """Exponential coordinates of the sleeping top's neighbour about the top after 0.5 s, by RK4 with 500 steps."""

    def rate(q, u):
        return SO3().rate(q, u), euler(q, u)

    def step(state, _):
        def stage(carry, weights):
            k, total = carry
            at = jax.tree.map(lambda s, d: s + weights[0] * d, state, k)
            k = rate(*at)
            return (k, jax.tree.map(lambda a, d: a + weights[1] * d, total, k)), None

        none = jax.tree.map(jnp.zeros_like, state)
        table = 1e-3 * jnp.asarray([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]])
        (_, total), _ = jax.lax.scan(stage, (none, none), table)
        return jax.tree.map(jnp.add, state, total), None

    start = SO3().exp(x[:3]), jnp.zeros(3).at[2].set(spin) + x[3:]
    q, u = jax.lax.scan(step, start, None, 500)[0]
    turned = SO3().exp(0.5 * jnp.zeros(3).at[2].set(spin))
    return jnp.concatenate([SO3().local(turned, q), u - jnp.zeros(3).at[2].set(spin)])


def test_the_exponential_is_the_flow():
    """A is constant for a steadily spinning top, so e^(A t) is the derivative of the flow, found by differences."""
    for spin in (3.0, 15.0):
        push = 1e-4
        columns = [
            (flow_of_top(spin, push * e) - flow_of_top(spin, -push * e)) / (2 * push)
            for e in jnp.eye(6)
        ]
        wanted = np.stack(columns, axis=1)
        assert np.max(np.abs(wanted - np.eye(6))) > 0.5
        np.testing.assert_allclose(expm(0.5 * np.asarray(sleeping(spin))), wanted, atol=3e-7)


# --- oscillators in closed form -------------------------------------------------------------------


class Charge(System):
    """q̈ = −k q − c q̇ + b J q̇ + f, J = ((0, 1), (−1, 0)): a spring, damping, a magnetic field."""

    stiffness: jax.Array
    damping: jax.Array
    field: jax.Array
    space = Euclidean(2)

    def lagrangian(self, t, q, v):
        magnetic = self.field * q[1] * v[0]
        return 0.5 * jnp.dot(v, v) - 0.5 * self.stiffness * jnp.dot(q, q) - magnetic

    def force(self, t, q, v, control):
        return -self.damping * v + (0.0 if control is None else control["push"])


def test_a_damped_charge_in_a_magnetic_field():
    charge = Charge(*jnp.asarray([4.0, 0.3, 3.0]))
    q, u, control = jnp.asarray([0.3, -0.2]), jnp.asarray([1.0, 0.5]), {"push": jnp.zeros(2)}
    A, B = linearise(charge, 0.0, q, u, control)
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    eye, none = np.eye(2), np.zeros((2, 2))
    np.testing.assert_allclose(
        A, np.block([[none, eye], [-4.0 * eye, -0.3 * eye + 3.0 * J]]), atol=1e-13
    )
    np.testing.assert_allclose(B, np.vstack([none, eye]), atol=1e-14)
    assert linearise(charge, 0.0, q, u).B.shape == (4, 0)


def test_modes_of_an_oscillator():
    """ω_0 = √k, ζ = c/(2 ω_0) below, at and above critical damping; growing for c < 0."""
    for damping in (0.4, 4.0, 9.0, -0.4):
        A = jnp.asarray([[0.0, 1.0], [-4.0, -damping]])
        found = modes(A)
        zeta = damping / 4.0
        roots = -damping / 2 + np.sqrt(complex(damping**2 / 4 - 4.0)) * np.array([1, -1])
        assert_same_set(found.eigenvalues, roots, 1e-7)
        np.testing.assert_allclose(np.prod(found.natural_frequencies), 4.0, rtol=1e-12)
        if abs(zeta) < 1:
            np.testing.assert_allclose(found.natural_frequencies, 2.0, rtol=1e-13)
            np.testing.assert_allclose(found.damping_ratios, zeta, rtol=1e-12)
            np.testing.assert_allclose(found.frequencies, 2.0 * np.sqrt(1 - zeta**2), rtol=1e-13)
        assert found.stability == ("stable" if damping > 0 else "unstable")
        x = np.asarray(found.shapes)
        np.testing.assert_allclose(np.asarray(A) @ x, x * np.asarray(found.eigenvalues), atol=1e-12)


def test_marginal_and_zero():
    """Without damping the motion is marginal. A free mass has a defective double eigenvalue 0 and is neither stable nor
    unstable."""
    swing = modes(jnp.asarray([[0.0, 1.0], [-4.0, 0.0]]))
    assert swing.stability == "marginal"
    assert not np.any(swing.zero)
    free = modes(jnp.asarray([[1e-17, 1.0], [1e-17, 0.0]]))  # ±√1e-17, a zero up to rounding
    assert free.stability == "marginal"
    assert np.all(free.zero)
    assert "marginal, 2 zero eigenvalues" in str(free)
    with pytest.raises(ValueError, match=r"`A` has shape \(3, 2\); it must have shape \(2, 2\)"):
        modes(jnp.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"`A` is .*finite"):
        modes(jnp.full((2, 2), jnp.nan))


class OnACart(System):
    """A spring pendulum of stiffness k on a cart that moves as c(t): q̈ + k q = −c̈, in a frame with u = ė^t q̇."""

    stiffness: jax.Array
    space = Euclidean(1)
    prescribed_motion = True

    def lagrangian(self, t, q, v, control):
        c, c_dot = jax.jvp(control, (t,), (jnp.ones_like(t),))
        wind = 0.2 * jnp.sum(c * q)
        return 0.5 * jnp.sum((v + c_dot) ** 2) - 0.5 * self.stiffness * jnp.dot(q, q) - wind


def test_prescribed_motion():
    """δc = (δc, δċ, δc̈): here δq̈ = −k δq − 0.2 δc − δc̈."""
    A, B = linearise(
        OnACart(jnp.asarray(3.0)), 0.4, jnp.ones(1), jnp.ones(1), lambda t: jnp.sin(t)[None]
    )
    np.testing.assert_allclose(A, [[0.0, 1.0], [-3.0, 0.0]], atol=1e-14)
    np.testing.assert_allclose(B, [[0.0, 0.0, 0.0], [-0.2, 0.0, -1.0]], atol=1e-14)


# --- special cases --------------------------------------------------------------------------------


def test_riemannian_form():
    """(7.2) of Müller 2023, x = δ_q and y = δ_u − P x with P = ad_v − Γ(v, ·), on a heavy top."""
    top = HeavyTop(1.2, [1.0, 2.0, 1.5], [0.1, 0.2, 0.3])
    q, v = SO3().exp(jnp.asarray([0.3, -0.5, 0.9])), jnp.asarray([0.4, -0.8, 1.1])

    @jax.jit
    def both(q, v):
        def shift(q, v):
            return SO3().ad(v) - jnp.einsum("cab,a->cb", levi_civita(top, 0.0, q), v)

        P, P_dot = jax.jvp(shift, (q, v), (SO3().rate(q, v), acceleration(top, 0.0, q, v)))

        def rates(delta):
            x, y = delta[:3], delta[3:] - P @ delta[:3]
            x_dot, y_dot = neighbouring_motion(top, 0.0, q, v, x, y)
            return jnp.concatenate([x_dot, y_dot + P_dot @ x + P @ x_dot])

        return linearise(top, 0.0, q, v).A, jax.jacfwd(rates)(jnp.zeros(6))

    found, wanted = both(q, v)
    assert np.max(np.abs(wanted)) > 1.0
    np.testing.assert_allclose(found, wanted, atol=1e-13)


@jax.jit
def sleeping(spin):
    """Matrix A of the top that spins upright."""
    return linearise(TOP, 0.0, SO3().identity(), jnp.zeros(3).at[2].set(spin)).A


def test_sleeping_top():
    """z̈ − i C ω ż − m g l z = 0 in space, seen from the body at rate ω; stable for (C ω)² > 4 A m g l alone."""
    C = 0.5
    critical = 2.0 * np.sqrt(MOMENT) / C
    for spin, stability in (
        (0.0, "unstable"),
        (0.98 * critical, "unstable"),
        (1.02 * critical, "marginal"),
    ):
        found = modes(sleeping(spin))
        roots = np.roots([1.0, -1j * C * spin, -MOMENT]) - 1j * spin
        assert_same_set(found.eigenvalues, [*roots, *roots.conj(), 0.0, 0.0], 1e-7)
        assert found.stability == stability
        assert int(np.sum(found.zero)) == 2  # rotations about the vertical and changes of spin


class DualSpin(System):
    """A satellite with a wheel of angular momentum h along e_2, kept at its rate: L = ½ Ω·I Ω + h·Ω."""

    inertia: jax.Array
    wheel: jax.Array
    space = SO3()

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, self.inertia * v) + self.wheel * v[1]


def test_spinning_satellite():
    """λ² = −((I_3 − I_2) ω − h)((I_1 − I_2) ω − h)/(I_1 I_3): the middle axis is unstable unless the wheel turns enough."""
    I1, I2, I3 = 1.0, 1.5, 2.0
    for wheel, spin in ((0.0, 2.0), (0.5, 2.0), (3.0, 2.0), (-1.2, 2.0), (0.4, 0.0)):
        system = DualSpin(jnp.asarray([I1, I2, I3]), jnp.asarray(wheel))
        A, _ = of_satellite(system, jnp.zeros(3).at[1].set(spin))
        squared = -((I3 - I2) * spin - wheel) * ((I1 - I2) * spin - wheel) / (I1 * I3)
        root = np.sqrt(complex(squared))
        found = np.linalg.eigvals(np.asarray(A)[3:, 3:])
        assert_same_set(found, [root, -root, 0.0], 1e-7)
        assert modes(A).stability == ("unstable" if squared > 0 else "marginal")


@jax.jit
def of_satellite(system, u):
    return linearise(system, 0.0, SO3().identity(), u)


# --- nonholonomic systems -------------------------------------------------------------------------

BICYCLE = WhippleBicycle.benchmark()
# Meijaard et al. 2007, table 2
EIGENVALUES = {
    0.0: (-5.53094371765394, -3.13164324790656, 3.13164324790656, 5.53094371765394),
    4.0: (-12.1586142657644, -1.42944427361326, 0.413253315211239 + 3.07910818603206j),
    5.0: (-14.0783896927982, -0.322866429004087, -0.775341882195845 + 4.46486771378823j),
}


@jax.jit
def of_bicycle(speed):
    q, u = BICYCLE.configuration(0.0, 0.0), jnp.zeros(3).at[2].set(speed / BICYCLE.rear_radius)
    return linearise(BICYCLE, 0.0, q, u, jnp.zeros(3))


def test_bicycle():
    """δ_q on SO(3) × R³ × R³, δ_u = (φ̇, δ̇, θ̇_R): eight zeros; M δü = (T_φ, T_δ) with M of (5.4) there."""
    mass = np.array([[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]])
    for speed, published in EIGENVALUES.items():
        A, B = of_bicycle(speed)
        found = modes(A)
        values = [*published, *(np.conj(x) for x in published if np.iscomplex(x))]
        assert_same_set(found.eigenvalues[~found.zero], values, 1e-9)
        assert int(np.sum(found.zero)) == 8
        assert found.stability == ("stable" if speed == 5.0 else "unstable")
        np.testing.assert_allclose(mass @ B[9:11, :2], np.eye(2), atol=1e-11)
        np.testing.assert_allclose(B[:9], 0.0, atol=1e-15)


INERTIA = np.array([[2, -0.2, 0], [-0.2, 16, 0], [0, 0, 17]])
DOWN = jnp.asarray([0.0, 1.0, 0.0, 0.0])


@jax.jit
def of_rattleback(spin):
    """(A, B), and ∂Ω̇/∂(Γ_1, Γ_2, Ω) by differences of the closed form."""
    stone = Rattleback([20.0, 3, 2], 1.0, INERTIA, [0, 0, 1], None, 980.665)
    q, u = stone.configuration(DOWN, jnp.zeros(2)), jnp.zeros(3).at[2].set(spin)

    def closed(x):
        turned = SO3().retract(q[0], jnp.append(x[:2], 0.0))
        return stone.closed_form(0.0, (turned, q[1]), u + x[2:])

    steps = 1e-6 * jnp.eye(5)
    return linearise(stone, 0.0, q, u).A, jax.vmap(lambda s: (closed(s) - closed(-s)) / 2e-6)(
        steps
    ).T


def test_rattleback():
    """Deviations grow for one sense of spin and decay for the other (Bondi 1986); δ_q1, δ_q2 tilt the vertical in the
    body."""
    growth = {}
    for spin in (5.0, -5.0):
        A, wanted = of_rattleback(spin)
        columns = jnp.asarray([0, 1, 6, 7, 8])
        np.testing.assert_allclose(A[6:, columns], wanted, rtol=1e-7, atol=1e-5)
        growth[spin] = np.asarray(modes(A).eigenvalues.real)
    assert growth[-5.0][0] > 0.5
    np.testing.assert_allclose(growth[5.0], -growth[-5.0][::-1], atol=1e-6)


def test_affine_constraints():
    """A ball on a turntable runs round circles of any size and centre at the rate κ = 2 n/7."""
    ball = BallOnTurntable(0.1, 1.0, 0.004, 3.0)
    A, _ = linearise(ball, 0.0, (SO3().identity(), jnp.zeros(2)), jnp.zeros(3))
    found = modes(A)
    rate = float(ball.orbit_rate())
    np.testing.assert_allclose(np.sort(found.eigenvalues.imag)[[0, -1]], [-rate, rate], rtol=1e-10)
    assert found.stability == "marginal"


# --- transformations ------------------------------------------------------------------------------


def test_along_a_trajectory():
    """`vmap` over times and states gives the same matrices as single calls."""
    top = HeavyTop(1.2, [1.0, 2.0, 1.5], [0.1, 0.2, 0.3])
    qs = jax.vmap(SO3().exp)(jnp.asarray([[0.3, -0.5, 0.9], [0.1, 0.2, 0.3]]))
    us = jnp.asarray([[0.4, -0.8, 1.1], [1.0, 0.0, 0.2]])
    many = jax.vmap(linearise, in_axes=(None, 0, 0, 0, None))(top, jnp.zeros(2), qs, us, None)
    for i in (0, 1):
        np.testing.assert_allclose(many.A[i], linearise(top, 0.0, qs[i], us[i]).A, atol=1e-13)


def test_gradients_of_eigenvalues():
    """dλ/dω of a sleeping top, forward and reverse, from its quadratic; the defective zeros have derivative 0."""
    C, spin = 0.5, 12.0

    def part(spin):
        return modes(sleeping(spin)).eigenvalues.imag

    @jax.jit
    def derivatives(spin):
        return part(spin), jax.jacfwd(part)(spin), jax.jacrev(part)(spin)

    values, forward, reverse = derivatives(spin)
    s = np.roots([1.0, -1j * C * spin, -MOMENT])
    slope = 1j * C * s / (2 * s - 1j * C * spin) - 1j
    for value, wanted in zip((s - 1j * spin).imag, slope.imag, strict=True):
        for sign in (1, -1):
            i = int(np.argmin(np.abs(np.asarray(values) - sign * value)))
            np.testing.assert_allclose([forward[i], reverse[i]], sign * wanted, rtol=1e-9)
    zero = np.abs(np.asarray(values)) < 1e-6
    assert zero.sum() == 2
    np.testing.assert_allclose(np.asarray(forward)[zero], 0.0, atol=1e-6)


@jax.numpy_dtype_promotion("standard")
def of_oscillator(x):
    """Eigenvalue λ and eigenvector of ẍ + b ẋ + k x = 0, underdamped, with the larger entry real, as a row of real
    parts."""
    values = -x[1] / 2 + jnp.array([1j, -1j]) * jnp.sqrt(x[0] - x[1] ** 2 / 4)
    shapes = jnp.stack([values.conj(), jnp.abs(values) ** 2 + 0j])
    shapes = shapes / jnp.linalg.norm(shapes, axis=0)[None]
    return jnp.concatenate([values, *shapes])


def test_second_derivatives_of_modes():
    """Second derivatives of eigenvalues and shapes by stiffness and damping agree in all orders of modes, also around a
    loop."""

    def computed(x):
        of = modes(jnp.stack([jnp.array([0.0, 1.0]), -x]))
        return jnp.concatenate([of.eigenvalues, *of.shapes])

    def in_a_loop(function, x):
        step = lambda y, _: (y + 0.1 * function(y), None)
        return jax.lax.scan(step, x, None, length=2)[0]

    def parts(function):
        weights = jnp.array([[0.3, 0.1, -0.2, 0.5, 0.7, -0.4], [0.2, -0.6, 0.1, 0.3, -0.1, 0.8]])
        real = lambda x: (z := function(x), weights @ z.real + weights[::-1] @ z.imag)[1]
        return lambda x: in_a_loop(real, x)

    x, modes_of_jax = jnp.array([2.0, 0.7]), (jax.jacfwd, jax.jacrev)
    each = lambda x: [a(b(parts(computed)))(x) for a in modes_of_jax for b in modes_of_jax]
    np.testing.assert_allclose(computed(x), of_oscillator(x), atol=1e-15)
    wanted = jax.jit(jax.jacfwd(jax.jacfwd(parts(of_oscillator))))(x)
    for found in jax.jit(each)(x):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_gradient_of_a():
    """The reverse-mode derivative of each entry of A by the parameters of a damped charge."""
    weights = jnp.arange(16.0).reshape(4, 4)
    q = jnp.zeros(2)

    def weighed(charge):
        return jnp.sum(weights * linearise(charge, 0.0, q, q).A)

    gradient = jax.grad(weighed)(Charge(*jnp.asarray([4.0, 0.3, 3.0])))
    np.testing.assert_allclose(gradient.stiffness, -(8.0 + 13.0), atol=1e-12)
    np.testing.assert_allclose(gradient.damping, -(10.0 + 15.0), atol=1e-12)
    np.testing.assert_allclose(gradient.field, 11.0 - 14.0, atol=1e-12)


def test_single_precision(float32):
    A, B = linearise(Charge(*jnp.asarray([4.0, 0.3, 3.0])), 0.0, jnp.zeros(2), jnp.zeros(2))
    assert A.dtype == B.dtype == jnp.float32
    found = modes(A)
    assert found.eigenvalues.dtype == jnp.complex64
    assert found.stability == "stable"


def test_messages():
    top = HeavyTop(1.2, [1.0, 2.0, 1.5], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"`u` has shape \(2,\).*3 independent quasi-velocities"):
        linearise(top, 0.0, SO3().identity(), jnp.zeros(2))
    with pytest.raises(ValueError, match="`control` has values of shape"):
        linearise(
            BICYCLE, 0.0, BICYCLE.configuration(0.0, 0.0), jnp.zeros(3), Constant(jnp.zeros(2))
        )
