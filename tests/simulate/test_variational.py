"""The variational integrator: order, conserved quantities and energy drift, derivatives, single precision, misuse."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import quaternion_rotate
from jaxhamel.mechanics import energy
from jaxhamel.simulate import RESULTS, LieGroup, Variational, simulate
from jaxhamel.simulate._solvers._discrete_hamel import root
from jaxhamel.systems import FreeRigidBody, UnderwaterBody
from tests.simulate.integrator_systems import (
    Oscillators,
    Rod,
    Sway,
    Swing,
    Transmission,
    check_derivatives,
    largest,
    run,
    sleigh,
    slope,
)
from tests.simulate.small_systems import Pendulum

SWAY, SWING = Sway(jnp.array(0.1)), Swing(jnp.array(0.3))
SWAY_AT = (jnp.array([0.3, 0.5, -0.4]), jnp.array([0.6])), jnp.array([0.5, 0.8, -0.3])


def body():
    added = np.diag([0.2, 0.3, 0.1, 0.5, 0.8, 1.1])
    return UnderwaterBody(
        mass=1.0, inertia=jnp.array([0.4, 0.5, 0.6]), com=jnp.array([0.02, -0.03, -0.1]),
        added_mass=added, displaced_mass=1.1, centre_of_buoyancy=jnp.zeros(3), gravity=2.0,
    )  # fmt: skip


BODY_AT = (
    jnp.array([0.6, 0.0, 0.8, 0.0, 0.1, 0.2, 0.3]),
    jnp.array([0.3, -0.5, 0.8, 0.4, 0.1, -0.2]),
)


def by_runge_kutta(system, y0, t1, control=None):
    """The end of the motion by a Lie-group method of order 5 with 800 steps."""
    solver, steps = LieGroup(diffrax.Tsit5(), system.space), 800
    return run(solver, system, y0, 0.0, t1 / steps, steps, control)


def test_order_with_everything():
    """The orders 2 and 4 hold with a moving affine constraint, forces and prescribed motion, on SE(2) × R."""
    exact = by_runge_kutta(SWAY, SWAY_AT, 1.5, SWING)
    for order, counts in ((2, (30, 60)), (4, (8, 16))):
        found, error = slope(Variational(order), SWAY, SWAY_AT, 1.5, counts, exact, SWING)
        assert error > 1e-10
        assert abs(found - order) < 0.2


def test_order_on_rigid_motions():
    """Order 2 for a body in a fluid, on SE(3)."""
    system = body()
    exact = by_runge_kutta(system, BODY_AT, 1.0)
    found, error = slope(Variational(), system, BODY_AT, 1.0, (20, 40), exact)
    assert error > 1e-10
    assert abs(found - 2) < 0.2


# --- without constraints on R^n: the implicit midpoint rule -------------------------------------


def test_on_a_vector_space_it_is_the_implicit_midpoint_rule():
    """Five steps equal the implicit midpoint rule for Hamilton's equations by hand, solved by iteration."""
    mass, h = np.array([[1.0, 0.3], [0.3, 2.0]]), 0.3
    q, u = np.array([0.5, -0.3]), np.array([0.2, 0.4])

    def hamilton(z):
        x, y = z[:2]
        force = -np.array([x + 0.4 * x * y, y + 0.2 * x * x + 0.4 * y**3])
        return np.concatenate([np.linalg.solve(mass, z[2:]), force])

    z = np.concatenate([q, mass @ u])
    for _ in range(5):
        new = z
        for _ in range(60):  # a contraction by about h/2
            new = z + h * hamilton((new + z) / 2)
        z = new
    y = run(Variational(), Oscillators(), (jnp.asarray(q), jnp.asarray(u)), 0.0, h, 5)  # fmt: skip
    np.testing.assert_allclose(y[0], z[:2], atol=1e-12)
    np.testing.assert_allclose(mass @ y[1], z[2:], atol=1e-12)


def test_the_map_is_symplectic():
    mass = jnp.array([[1.0, 0.3], [0.3, 2.0]])
    solver, term = Variational(space=Oscillators.space), diffrax.ODETerm(lambda t, y, args: y)

    @jax.jit
    @jax.jacfwd
    def derivative(z):
        y0 = z[:2], jnp.linalg.solve(mass, z[2:])
        q, u = solver.step(term, 0.0, 0.3, y0, (Oscillators(), None), None, False)[0]
        return jnp.concatenate([q, mass @ u])

    one, none = np.eye(2), np.zeros((2, 2))
    form = np.block([[none, one], [-one, none]])
    jacobian = np.asarray(derivative(jnp.array([0.5, -0.3], jnp.float64).repeat(2)))
    np.testing.assert_allclose(jacobian.T @ form @ jacobian, form, atol=1e-14)
    assert np.max(np.abs(jacobian - np.eye(4))) > 0.1


# --- what it keeps -------------------------------------------------------------------------------


def test_spatial_momentum_of_a_free_body_to_rounding():
    """The spatial momentum is conserved over 500 long steps of about a third of a radian each."""
    system = FreeRigidBody(jnp.array([1.0, 2.0, 2.7]))
    y0 = jnp.array([0.5, -0.5, 0.5, 0.5]), jnp.array([0.2, 1.1, 0.4])
    momentum = lambda y: quaternion_rotate(y[0], system.inertia * y[1])
    y = run(Variational(), system, y0, 0.0, 0.3, 500)
    np.testing.assert_allclose(momentum(y), momentum(y0), atol=2e-13)
    assert float(jnp.max(jnp.abs(y[1] - y0[1]))) > 0.1


def test_momenta_of_a_body_in_a_fluid_to_rounding():
    """With gravity and buoyancy, the horizontal impulse and the vertical angular impulse are conserved, on SE(3)."""
    system = body()
    y = run(Variational(), system, BODY_AT, 0.0, 1.0 / 20, 400)
    before, after = (system.invariants(0.0, *y, None) for y in (BODY_AT, y))
    for name in ("horizontal impulse", "vertical angular impulse"):
        np.testing.assert_allclose(after[name], before[name], atol=1e-12)


ROD_AT = jnp.array([np.sin(2.0), 0.0, np.cos(2.0)]), jnp.array([0.1, 0.4])


def test_a_rod_given_as_one_form_keeps_its_length():
    """q_m·(q₁ − q₀) = 0 implies |q₁|² = |q₀|². The energy stays bounded, since the motion is Hamiltonian and
    reversible."""
    y, energies = ROD_AT, []
    for _ in range(8):
        y = run(Variational(), Rod(), y, 0.0, 0.1, 500)
        assert abs(float(jnp.sum(y[0] ** 2)) - 1) < 5e-14
        energies.append(float(energy(Rod(), 0.0, *y)))
    assert np.max(np.abs(np.array(energies) - float(energy(Rod(), 0.0, *ROD_AT)))) < 2e-3


def test_constraint_at_the_midpoint_and_reversal():
    """A ξ + a = 0 holds at the midpoint q_m of two nodes; steps of −h lead back to the start."""
    h = jnp.array(0.1)
    forth = run(Variational(), SWAY, SWAY_AT, 0.2, h, 1, SWING)
    xi = SWAY.space.local(SWAY_AT[0], forth[0]) / h
    middle = SWAY.space.retract(SWAY_AT[0], h / 2 * xi)
    t = jnp.array(0.25)
    residual = (SWAY.frame(t, middle) @ xi + SWAY.drift(t, middle))[0]
    assert abs(float(residual)) < 1e-13
    assert float(jnp.max(jnp.abs(SWAY.drift(t, middle)[0]))) > 0.1
    there = run(Variational(), SWAY, SWAY_AT, 0.2, h, 20, SWING)
    back = run(Variational(), SWAY, there, 0.2 + 20 * h, -h, 20, SWING)
    assert largest(there, SWAY_AT) > 0.1
    assert largest(back, SWAY_AT) < 2e-12


def test_energy_drifts_where_no_reflection_reverses_the_motion():
    """The energy of a nonholonomic system is bounded only if the motion is reversible (Modin and Verdier 2020); ε > 0
    breaks the reflection."""
    y0 = jnp.array([0.0, 1.0, 0.3]), jnp.array([2.6, 0.4])
    drifts = []
    for asymmetry in (0.0, 0.3):
        system = Transmission(jnp.array(asymmetry))
        y = run(Variational(), system, y0, 0.0, 0.1, 20_000)
        drifts.append(abs(float(energy(system, 0.0, *y) - energy(system, 0.0, *y0))))
    assert drifts[0] < 0.03
    assert drifts[1] > 0.1


# --- derivatives, precision, failure, misuse -----------------------------------------------------


def test_derivatives():
    check_derivatives(Variational())


def test_root_and_its_derivatives():
    """The root of x + x³ = a has x′ = 1/(1 + 3x²) and x″ = −6x/(1 + 3x²)³."""

    @jax.jit
    def solved(a):
        return root(lambda x: x + x**3 - a, a)[0]

    a = jnp.array([0.3, -0.5])
    x = solved(a)
    np.testing.assert_allclose(x + x**3, a, atol=1e-15)
    slopes = 1 / (1 + 3 * x * x)
    np.testing.assert_allclose(jax.jacfwd(solved)(a), jnp.diag(slopes), atol=1e-14)
    np.testing.assert_allclose(jax.jacrev(solved)(a), jnp.diag(slopes), atol=1e-14)
    curved = jax.jacfwd(jax.jacrev(solved))(a)
    np.testing.assert_allclose(curved[0, 0, 0], -6 * x[0] * slopes[0] ** 3, rtol=1e-12)
    assert not bool(root(lambda x: x * x + 1, jnp.array([2.0]))[1])
    assert bool(root(lambda x: x, jnp.zeros(0))[1])


@pytest.mark.usefixtures("float32")
def test_single_precision():
    system, y0 = sleigh()
    _, u = run(Variational(), system, y0, 0.0, 0.01, 100)
    assert u.dtype == jnp.float32
    np.testing.assert_allclose(u, system.solution(1.0, y0[1]), atol=1e-4)


def test_dense_output():
    """q is interpolated by a cubic Hermite polynomial and u linearly, both to the order of the method."""
    system, y0 = sleigh()
    solver, h = Variational(space=system.space), 0.05
    step = eqx.filter_jit(solver.step)
    term, at = diffrax.ODETerm(lambda t, y, args: y), jnp.asarray(0.0)
    (q1, _), _, info, _, _ = step(term, at, at + h, y0, (system, None), None, False)
    inside = solver.interpolation_cls(t0=0.0, t1=h, **info)
    np.testing.assert_allclose(inside.evaluate(h)[0], q1, atol=1e-15)
    np.testing.assert_allclose(inside.evaluate(h / 2)[1], system.solution(h / 2, y0[1]), atol=1e-3)
    half = run(LieGroup(diffrax.Tsit5(), system.space), system, y0, 0.0, h / 2, 1)[0]
    np.testing.assert_allclose(inside.evaluate(h / 2)[0], half, atol=1e-4)


def test_a_step_too_long_ends_the_simulation():
    end = simulate(
        Pendulum(jnp.array(400.0)), [3.0], [60.0], [0.0, 5.0], dt=0.5, solver=Variational()
    )
    assert end.result == RESULTS.nonlinear_divergence
    with pytest.raises(RuntimeError, match="try a smaller `dt`"):
        end.raise_if_failed()


def test_misuse_is_explained():
    system, y0 = sleigh()
    with pytest.raises(ValueError, match=r"`order` is 3; Variational has the orders \(2, 4\)"):
        Variational(3)
    with pytest.raises(
        ValueError, match=r"`dt` is missing: Variational has no error estimate.*dt=0.01"
    ):
        simulate(system, *y0, [0.0, 1.0], solver=Variational())
    field = diffrax.ODETerm(lambda t, y, args: y)
    with pytest.raises(ValueError, match=r"`args` is None.*args=\(system, control\)"):
        diffrax.diffeqsolve(field, Variational(space=system.space), 0.0, 1.0, 0.1, y0)
    with pytest.raises(ValueError, match=r"`space` of Variational is missing"):
        diffrax.diffeqsolve(field, Variational(), 0.0, 1.0, 0.1, y0, (system, None))
