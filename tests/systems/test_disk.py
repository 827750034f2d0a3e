"""The actuated disk: closed form, reference and Lagrangian agree; energy; small oscillations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.mechanics import ROUTES, acceleration, as_control, constraint_force, energy, velocity
from jaxhamel.systems import ActuatedDisk, CircularRails, RollingBall
from tests.reference import disk as reference_disk
from tests.reference import rails as rr
from tests.reference.ball import moving, waves
from tests.systems.motion import end_state, unit_pairs

STATES, MASSES, TIME = 300, 3, 0.37


@pytest.fixture(scope="module")
def disks():
    """Random disks with circular rails in any plane: parameters, rails, motions of the masses, states."""
    rng = np.random.default_rng(11)
    each = (STATES, MASSES)
    disk = {
        "radius": rng.uniform(0.5, 1.5, STATES),
        "disk_mass": rng.uniform(0.5, 4.0, STATES),
        "disk_inertia": rng.uniform(0.2, 2.0, STATES),
        "disk_com": 0.1 * rng.normal(size=(STATES, 3)),
        "masses": rng.uniform(0.1, 2.0, each),
        "gravity": rng.uniform(1.0, 10.0, STATES),
        "external_force": rng.normal(size=STATES),
    }
    rails = (
        rng.uniform(0.2, 0.9, each),
        *unit_pairs(rng, *each),
        0.2 * rng.normal(size=(*each, 3)),
    )
    motion = tuple(rng.uniform(0.2, 3, each) for _ in range(4))
    state = (
        rng.uniform(-4, 4, (STATES, 1)),
        rng.normal(size=(STATES, 1)),
        rng.normal(size=(STATES, 1)),
    )
    return disk, rails, motion, state


def reference_rate(disk, rails, motion, state):
    """φ̈ of one disk by the NumPy reference."""
    moved = moving(lambda theta: rr.circle(theta, *rails), waves(*motion))(TIME)
    com = (disk["disk_com"], np.zeros(3), np.zeros(3))
    moved = tuple(np.concatenate([x[None], y]) for x, y in zip(com, moved, strict=True))
    return reference_disk.phi_rate(
        disk["radius"],
        disk["disk_inertia"],
        np.append(disk["disk_mass"], disk["masses"]),
        moved,
        disk["gravity"],
        disk["external_force"],
        state[0][0],
        state[2][0],
    )


def wave(offset, amplitude, frequency, phase):
    return lambda t: offset + amplitude * jnp.sin(frequency * t + phase)


def test_all_routes_equal_closed_form_and_reference(disks):
    @jax.jit
    @jax.vmap
    def rates(disk, rails, motion, state):
        system = ActuatedDisk(**disk, rails=CircularRails(*rails))
        at = (TIME, state[:2], state[2], wave(*motion))
        found = {route: acceleration(system, *at, route=route) for route in ROUTES}
        found["closed form"] = system.closed_form(*at)
        return found, system.contact_force(*at), constraint_force(system, *at)

    found, contact, multiplier = rates(*jax.tree.map(jnp.asarray, disks))
    one_by_one = [jax.tree.map(lambda x, i=i: x[i], disks) for i in range(STATES)]
    wanted = np.array([reference_rate(*one) for one in one_by_one])
    size = np.abs(wanted) + 1.0  # rates are of the order of g; some pass through zero
    for route, rate in found.items():
        assert np.max(np.abs(rate[:, 0] - wanted) / size) < 1e-12, route
    np.testing.assert_allclose(multiplier[:, 0], contact[:, 0], atol=1e-11)


@pytest.fixture
def disk():
    """One mass on a circle in the plane of the disk, θ counting from e_1 to e_3."""
    rails = CircularRails([0.7], [[0.0, -1, 0]], [[1.0, 0, 0]])
    return ActuatedDisk(1.0, 4.0, 1.0, [0.0, 0, -0.05], [1.5], rails, gravity=9.81)


def test_is_a_ball_in_a_plane(disk):
    """The ball of the same masses, started in the plane, has Ω = −φ̇ e_2 and the same F_c."""
    ball = RollingBall(1.0, 4.0, [1.0, 1.0, 1.0], disk.disk_com, disk.masses, disk.rails, 9.81)
    phi, phi_dot, control = 0.4, -1.3, lambda t: jnp.sin(3 * t)[None] - 1.0
    flat = ((jnp.array([phi]), jnp.array([0.2])), jnp.array([phi_dot]), control)
    q = jnp.array([jnp.cos(phi / 2), 0.0, -jnp.sin(phi / 2), 0.0])
    round_ = ((q, jnp.array([0.2, 0.0])), jnp.array([0.0, -phi_dot, 0.0]), control)
    rate = acceleration(disk, 0.5, *flat)
    np.testing.assert_allclose(acceleration(ball, 0.5, *round_), [0, -rate[0], 0], atol=1e-13)
    force = disk.contact_force(0.5, *flat)
    np.testing.assert_allclose(force, ball.contact_force(0.5, *round_), atol=1e-12)


def test_rolls_without_slipping(disk):
    q = (jnp.array([0.3]), jnp.array([0.1]))
    np.testing.assert_allclose(velocity(disk, 0.0, q, jnp.array([2.0])), [2.0, -2.0])


def test_energy_stays_where_the_masses_stand_still(disk):
    angle = jnp.array([-1.1])
    start, u = (jnp.array([0.3]), jnp.array([0.1])), jnp.array([1.7])
    q, end = end_state(disk, start, u, 3.0, angle, steps=300)
    np.testing.assert_allclose(q[1] - start[1], -(q[0] - start[0]), rtol=1e-12)
    first, last = (energy(disk, 0.0, *state, angle) for state in ((start, u), (q, end)))
    np.testing.assert_allclose(last, first, rtol=1e-13)
    rails = np.concatenate([disk.disk_com[None], disk.rails(angle)])
    written_out = reference_disk.energy(1.0, 1.0, np.array([4, 1.5]), rails, 9.81, 0.3, 1.7)
    np.testing.assert_allclose(first, written_out, rtol=1e-14)


def test_energy_is_reported_as_invariant_only_where_it_is_one(disk):
    q, u = (jnp.array([0.3]), jnp.array([0.1])), jnp.array([1.7])
    assert disk.invariants(0.0, q, u, lambda t: t[None]) == {}
    still = as_control(jnp.array([-1.1]))
    kept = disk.invariants(0.0, q, u, still)["energy"]
    np.testing.assert_allclose(kept, energy(disk, 0.0, q, u, still), rtol=1e-14)


def test_a_pushed_disk_keeps_energy_and_work():
    """Energy with the potential −F z_1 of a constant force is conserved."""
    disk = ActuatedDisk(1.0, 4.0, 1.0, [0.1, 0, -0.2], external_force=3.0)
    start, u = (jnp.array([0.3]), jnp.array([0.0])), jnp.array([0.0])
    q, end = end_state(disk, start, u, 2.0, steps=200)
    assert abs(q[1][0]) > 0.1
    kept = [disk.invariants(0.0, *s, None)["energy"] for s in ((start, u), (q, end))]
    np.testing.assert_allclose(*kept, rtol=1e-12)


def test_small_oscillation():
    """ω² = m g l/(d_2 + m (r − l)²) with the centre of mass l below the centre."""
    disk = ActuatedDisk(0.5, 2.0, 0.3, [0.0, 0, -0.1])
    omega = np.sqrt(2.0 * 9.81 * 0.1 / (0.3 + 2.0 * 0.4**2))
    small = 1e-5
    q, u = end_state(disk, (jnp.array([small]), jnp.zeros(1)), jnp.zeros(1), 1.0)
    np.testing.assert_allclose(q[0] / small, np.cos(omega), rtol=0, atol=1e-9)
    np.testing.assert_allclose(u / small, -omega * np.sin(omega), rtol=0, atol=1e-9)


def test_disk_alone_at_rest_stays_and_carries_its_weight():
    disk = ActuatedDisk(1.0, 4.0, 1.0)
    at = (0.0, (jnp.zeros(1), jnp.zeros(1)), jnp.zeros(1))
    np.testing.assert_array_equal(acceleration(disk, *at), [0.0])
    np.testing.assert_allclose(disk.contact_force(*at), [0, 0, 4 * 9.81])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": -1.0}, "`radius` .*positive"),
        ({"disk_inertia": 0.0}, "`disk_inertia` .*positive"),
        ({"disk_mass": [1.0]}, r"`disk_mass` has shape \(1,\)"),
        ({"disk_com": [0.0, 0.1]}, r"`disk_com` has shape \(2,\)"),
        ({"masses": [-1.0]}, "`masses` .*negative"),
        ({"masses": [1.0]}, "`rails` is None but `masses` has 1"),
        (
            {"masses": [1.0, 2], "rails": CircularRails([1.0], [[0.0, -1, 0]], [[1.0, 0, 0]])},
            "`rails` carry 1 mass but `masses` has 2",
        ),
        ({"external_force": np.nan}, "`external_force` .*finite"),
    ],
)
def test_messages(changes, message):
    with pytest.raises(ValueError, match=message):
        ActuatedDisk(**({"radius": 1.0, "disk_mass": 4.0, "disk_inertia": 1.0} | changes))


def test_single_precision(float32):
    disk = ActuatedDisk(1.0, 4.0, 1.0, [0.1, 0, -0.2])
    at = (0.0, (jnp.array([0.3]), jnp.zeros(1)), jnp.array([1.0]))
    rate = acceleration(disk, *at)
    assert rate.dtype == jnp.float32
    np.testing.assert_allclose(rate, disk.closed_form(*at), rtol=1e-5)
