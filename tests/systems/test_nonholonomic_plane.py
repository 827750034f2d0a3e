"""Chaplygin's sleigh and the knife edge: exact motions, invariants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.mechanics import constraint_force, energy
from jaxhamel.systems import ChaplyginSleigh, KnifeEdge
from tests.systems.motion import states
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    first,
)

ORIGIN = jnp.zeros(3)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def random_states(rng):
    return rng.normal(size=(STATES, 3)), rng.normal(size=(STATES, 2))


# --- Chaplygin's sleigh ---------------------------------------------------------------------------

SLEIGH = {"mass": 1.0, "inertia": 1.0, "offset": 1.0}
START = jnp.array([0.1, 0.2])


@pytest.fixture(scope="module")
def glide():
    """The sleigh of Bloch's section 1.7 with m = a = I = 1, at t = 0, 1, 4, 10."""
    return states(ChaplyginSleigh(**SLEIGH), ORIGIN, START, jnp.array([0.0, 1, 4, 10]), steps=100)


def test_sleigh_numbers(glide):
    wanted = [
        (0.1378254606398, 0.1884199331273),
        (0.2214683722861, 0.1430939552828),
        (0.2854266613924, 0.0653131723558),
    ]
    np.testing.assert_allclose(glide[1][1:], wanted, rtol=0, atol=1e-12)


def test_sleigh_solution(glide):
    """tanh and sech as printed, written out here; `solution` is the same by the addition theorems."""
    system, width, k = ChaplyginSleigh(**SLEIGH), 0.3, np.sqrt(2)
    for t, u in zip((0.0, 1, 4, 10), glide[1], strict=True):
        phase = width * t / k**2 + np.arctanh(0.1 / width)
        printed = [width * np.tanh(phase), width / k / np.cosh(phase)]
        np.testing.assert_allclose(u, printed, rtol=0, atol=1e-12)
        np.testing.assert_allclose(system.solution(t, START), printed, rtol=0, atol=1e-14)


def test_sleigh_keeps_energy_and_slides_along_its_blade(glide):
    assert_kept(ChaplyginSleigh(**SLEIGH), glide, 1e-13)


def test_sleigh_turns_by_pi_k_over_a():
    """From V t = −∞ to ∞: started at v = −V tanh 20, it has turned by π k/a at v = +V tanh 20."""
    system = ChaplyginSleigh(2.0, 0.3, 0.4)
    k2 = 0.3 / 2 + 0.16
    start = jnp.array([-np.tanh(20.0), 1 / np.cosh(20.0) / np.sqrt(k2)])
    time = 40 * k2 / 0.4
    (q, u) = states(system, ORIGIN, start, jnp.array([0.0, time]), steps=1500)
    np.testing.assert_allclose(q[-1, 0], np.pi * np.sqrt(k2) / 0.4, atol=2e-8)  # cut-off: 4 e^−20
    np.testing.assert_allclose(system.total_turn(), np.pi * np.sqrt(k2) / 0.4, rtol=1e-14)
    np.testing.assert_allclose(u[-1, 0], 1.0, atol=1e-10)


def test_sleigh_with_its_mass_behind_turns_round():
    """A sleigh with a < 0 moves as one with a > 0 backwards: (v, a) → (−v, −a) is a symmetry."""
    ahead, behind = ChaplyginSleigh(1.0, 1.0, 0.7), ChaplyginSleigh(1.0, 1.0, -0.7)
    u = jnp.array([0.3, 0.5])
    mirrored = behind.solution(2.0, u * jnp.array([-1.0, 1.0]))
    np.testing.assert_allclose(
        ahead.solution(2.0, u), mirrored * jnp.array([-1.0, 1.0]), rtol=1e-13
    )


def test_sleigh_blade_force():
    """λ is the rate of the centre's momentum across the blade: m (v ω + a ω̇)."""
    system = ChaplyginSleigh(2.0, 0.3, 0.4)
    u = jnp.array([0.7, -1.1])
    omega_dot = -0.4 * 0.7 * -1.1 / (0.3 / 2 + 0.16)
    wanted = 2.0 * (0.7 * -1.1 + 0.4 * omega_dot)
    np.testing.assert_allclose(constraint_force(system, 0.0, ORIGIN, u), [wanted], rtol=1e-12)


def test_sleigh_parameter_gradients(rng):
    system, at = ChaplyginSleigh(2.0, 0.3, -0.4), random_states(rng)
    assert_parameter_gradients_agree(system, *first(at))


# --- the knife edge -------------------------------------------------------------------------------

EDGE = {"mass": 1.3, "inertia": 0.2, "slope": 0.4}


@pytest.fixture(scope="module")
def slide():
    """The motion of the edge from rest at φ = 0, turning at 1.5 rad/s."""
    times = jnp.array([0.0, 0.5, 2.0, 2 * np.pi / 1.5])
    return times, states(KnifeEdge(**EDGE), ORIGIN, jnp.array([0.0, 1.5]), times, steps=100)


def test_knife_edge_runs_along_a_cycloid(slide):
    """Bloch, section 1.6: after one turn the edge is at its first height, π g sin α/ω² further across."""
    times, (q, _) = slide
    turn = 1.5 * np.asarray(times)
    size = 9.81 * np.sin(0.4) / (2 * 1.5**2)
    np.testing.assert_allclose(q[:, 1], size * np.sin(turn) ** 2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(q[:, 2], size * (turn - np.sin(2 * turn) / 2), rtol=0, atol=1e-12)
    np.testing.assert_allclose(q[-1, 1:], [0, 2 * np.pi * size], rtol=0, atol=1e-12)


def test_knife_edge_from_any_start(rng):
    system = KnifeEdge(**EDGE)
    q0, u0 = jnp.asarray(rng.normal(size=3)), jnp.array([0.8, -1.2])
    q, u = states(system, q0, u0, jnp.array([0.0, 1.0, 3.0]), steps=100)
    for i, t in enumerate((0.0, 1.0, 3.0)):
        wanted_q, wanted_u = system.solution(t, q0, u0)
        np.testing.assert_allclose(q[i], wanted_q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(u[i], wanted_u, rtol=0, atol=1e-12)
    assert_kept(system, (q, u), 1e-11)


def test_knife_edge_energy_is_the_general_one(slide):
    system, (_, path) = KnifeEdge(**EDGE), slide
    assert_kept(system, path, 1e-11)
    own = system.invariants(0.0, path[0][1], path[1][1], None)["energy"]
    np.testing.assert_allclose(own, energy(system, 0.0, path[0][1], path[1][1]), atol=1e-13)


def test_knife_edge_parameter_gradients(rng):
    system, at = KnifeEdge(**EDGE), random_states(rng)
    assert_parameter_gradients_agree(system, *first(at))


# --- both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ChaplyginSleigh(0.0, 1.0, 1.0), "`mass` is 0.*positive"),
        (lambda: ChaplyginSleigh(1.0, -1.0, 1.0), "`inertia` is -1.*positive"),
        (lambda: ChaplyginSleigh(1.0, 1.0, np.nan), "`offset` .*finite"),
        (lambda: ChaplyginSleigh(1.0, 1.0, [1.0]), r"`offset` has shape \(1,\)"),
        (lambda: KnifeEdge(1.0, 0.0, 0.1), "`inertia` is 0.*positive"),
        (lambda: KnifeEdge(1.0, 1.0, np.inf), "`slope` .*finite"),
        (lambda: KnifeEdge([1.0, 2.0], 1.0, 0.1), r"`mass` has shape \(2,\)"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_single_precision(float32):
    q, u = ChaplyginSleigh(**SLEIGH), jnp.array([0.1, 0.2])
    assert q.solution(1.0, u).dtype == jnp.float32
    np.testing.assert_allclose(q.solution(1.0, u), [0.13782546, 0.18841993], rtol=1e-6)
    assert jax.tree.leaves(q)[0].dtype == jnp.float32
