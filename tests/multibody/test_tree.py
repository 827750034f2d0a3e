"""Equations of trees of bodies: closed forms, NumPy, invariants, derivatives, other routes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.geometry import quaternion_matrix
from jaxhamel.systems import CartPole
from tests.multibody import by_hand
from tests.multibody.models import MANY_JOINTS, MIMIC, arm, mjcf, urdf

acceleration = jax.jit(lambda tree, q, v, control: jaxhamel.acceleration(tree, 0.0, q, v, control))
TREE = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body pos="0 0 1">
      <freejoint/>
      <inertial pos=".1 0 0" mass="2" diaginertia=".2 .3 .4"/>
      <body pos=".3 0 0">
        <joint name="slide" type="slide" axis="1 2 0"/>
        <inertial pos="0 .1 0" mass=".7" diaginertia=".02 .03 .04"/>
        <body pos="0 .2 .1" euler="20 30 40">
          <joint name="ball" type="ball" pos="0 .1 0"/>
          <inertial pos="0 .1 .2" mass=".5" diaginertia=".02 .03 .04"/>
        </body>
      </body>
      <body pos="-.3 0 0">
        <joint name="hinge" axis="0 1 1"/>
        <inertial pos="0 .1 .1" mass="1" diaginertia=".02 .03 .04"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def state(tree, seed=0, size=0.7):
    rng = np.random.default_rng(seed)
    q0 = jax.tree.map(jnp.asarray, tree.initial)
    q = tree.space.retract(q0, jnp.asarray(size * rng.normal(size=tree.space.dim)))
    return q, jnp.asarray(rng.normal(size=tree.space.dim))


# --- closed forms ---------------------------------------------------------------------------------

DOUBLE_PENDULUM = """
<robot name="pendulum"><link name="world"/>
  <joint name="second" type="continuous"><parent link="one"/><child link="two"/><origin xyz="0 0 -.8"/>
    <axis xyz="0 3 0"/></joint>
  <joint name="first" type="continuous"><parent link="world"/><child link="one"/><axis xyz="0 1 0"/></joint>
  <link name="one"><inertial><origin xyz="0 0 -.3"/><mass value="2"/><inertia ixx=".1" iyy=".1" izz=".01"/></inertial></link>
  <link name="two"><inertial><origin xyz="0 0 -.5"/><mass value="1"/><inertia ixx=".2" iyy=".2" izz=".01"/></inertial></link>
</robot>
"""


def test_double_pendulum():
    """Angles from the vertical, a = q_1 and b = q_1 + q_2:
    (I_1 + m_1 c_1² + m_2 l²) ä + m_2 l c_2 (b̈ cos(a − b) + ḃ² sin(a − b)) + (m_1 c_1 + m_2 l) g sin a = τ_1 − τ_2,
    (I_2 + m_2 c_2²) b̈ + m_2 l c_2 (ä cos(a − b) − ȧ² sin(a − b)) + m_2 c_2 g sin b = τ_2.
    The joints stand in the file after one another, the outer one first.
    """
    tree = urdf(DOUBLE_PENDULUM)
    assert tree.joint_names == ("first", "second")
    q, v, torque = np.array([0.4, -1.1]), np.array([0.7, 1.3]), np.array([0.3, -0.2])
    m1, c1, i1, m2, c2, i2, length, g = 2.0, 0.3, 0.1, 1.0, 0.5, 0.2, 0.8, 9.81
    (a, b), (da, db) = np.cumsum(q), np.cumsum(v)
    k = m2 * length * c2
    matrix = np.array(
        [
            [i1 + m1 * c1**2 + m2 * length**2, k * np.cos(a - b)],
            [k * np.cos(a - b), i2 + m2 * c2**2],
        ]
    )
    force = np.array(
        [
            torque[0]
            - torque[1]
            - k * db**2 * np.sin(a - b)
            - (m1 * c1 + m2 * length) * g * np.sin(a),
            torque[1] + k * da**2 * np.sin(a - b) - m2 * c2 * g * np.sin(b),
        ]
    )
    dda, ddb = np.linalg.solve(matrix, force)
    got = jaxhamel.acceleration(tree, 0.0, jnp.asarray(q), jnp.asarray(v), jnp.asarray(torque))
    np.testing.assert_allclose(got, [dda, ddb - dda], rtol=1e-12)


CART_POLE = """
<robot name="cart-pole"><link name="rail"/>
  <link name="cart"><inertial><mass value="1"/></inertial></link>
  <link name="pole"><inertial><origin xyz="0 0 -.5"/><mass value=".3"/></inertial></link>
  <joint name="cart" type="prismatic"><parent link="rail"/><child link="cart"/></joint>
  <joint name="pole" type="continuous"><parent link="cart"/><child link="pole"/><axis xyz="0 -1 0"/></joint>
</robot>
"""


def test_cart_and_pole_with_a_motor_at_the_cart():
    tree, known = urdf(CART_POLE, floating=False, actuated=("cart",)), CartPole()
    assert tree.control_names == ("cart",)
    at = jnp.array([0.3, 0.8]), jnp.array([0.5, -1.2]), jnp.array([2.0])
    wanted = jaxhamel.acceleration(known, 0.0, *at)
    np.testing.assert_allclose(jaxhamel.acceleration(tree, 0.0, *at), wanted, rtol=1e-12)
    energy = jaxhamel.energy(known, 0.0, *at[:2])
    np.testing.assert_allclose(jaxhamel.energy(tree, 0.0, *at[:2]), energy, rtol=1e-12)


FREE_BODY = """
<robot name="stone"><link name="stone"><inertial><origin xyz=".1 .2 -.1"/><mass value="2"/>
<inertia ixx=".2" iyy=".3" izz=".4" ixy=".02" ixz=".01" iyz="-.03"/></inertial></link></robot>
"""


def test_free_body_obeys_newton_and_euler():
    """I Ω̇ = I Ω × Ω about the centre of mass c, which falls: R (V̇ + Ω × V + Ω̇ × c + Ω × (Ω × c)) = g."""
    tree = urdf(FREE_BODY)
    q, v = state(tree)
    assert jax.tree.map(np.shape, q) == (7,)
    inertia, com = np.asarray(tree.inertias[0]), np.array([0.1, 0.2, -0.1])
    omega, velocity = np.split(np.asarray(v), 2)
    turn = np.linalg.solve(inertia, np.cross(inertia @ omega, omega))
    falling = by_hand.rotation(q[:4]).T @ np.array([0, 0, -9.81])
    push = (
        falling
        - np.cross(omega, velocity)
        - np.cross(turn, com)
        - np.cross(omega, np.cross(omega, com))
    )
    np.testing.assert_allclose(acceleration(tree, q, v, None), [*turn, *push], rtol=1e-11)


# --- all kinds of joints --------------------------------------------------------------------------

numbers = st.integers(0, 2**32 - 1)


def perturbed(tree, seed):
    """The tree with other masses, places, axes (of any length) and orientations (of any length)."""
    rng = np.random.default_rng(seed)
    near = lambda x, size: x + size * rng.normal(size=x.shape)
    return eqx.tree_at(
        lambda x: (
            x.masses,
            x.coms,
            x.body_positions,
            x.joint_positions,
            x.axes,
            x.joint_orientations,
        ),
        tree,
        (
            tree.masses * rng.uniform(0.2, 5.0, tree.masses.shape),
            *(near(x, 0.5) for x in (tree.coms, tree.body_positions, tree.joint_positions)),
            3.0 * near(tree.axes, 0.5),
            near(tree.joint_orientations, 0.5),
        ),
    )


mass_matrix = jax.jit(lambda tree, q: tree.mass_matrix(q))


@settings(deadline=None, max_examples=15)
@given(numbers)
def test_mass_matrix_is_the_sum_over_the_bodies(seed):
    """∂²L/∂v∂v, composite rigid bodies, and Σ m Jᵀ J + Jᵀ I J by NumPy."""
    tree = perturbed(mjcf(MANY_JOINTS), seed)
    q, _ = state(tree, seed)
    wanted = by_hand.mass_matrix(tree, q)
    np.testing.assert_allclose(mass_matrix(tree, q), wanted, atol=1e-11 * np.max(wanted))
    np.testing.assert_allclose(composites(tree, q), wanted, atol=1e-11 * np.max(wanted))


@jax.jit
def composites(tree, q):
    (body,) = tree.bodies(0.0, q, jnp.zeros(tree.space.dim), None)
    return jax.vmap(lambda e: body.weigh(e[None])[0])(jnp.eye(tree.space.dim))


@settings(deadline=None, max_examples=5)
@given(numbers)
def test_mimic_joints_move_with_their_leaders(seed):
    tree = perturbed(urdf(arm(MIMIC), floating=False), seed)
    q, _ = state(tree, seed)
    wanted = by_hand.mass_matrix(tree, q)
    np.testing.assert_allclose(mass_matrix(tree, q), wanted, atol=1e-11 * np.max(wanted))
    np.testing.assert_allclose(composites(tree, q), wanted, atol=1e-11 * np.max(wanted))


@pytest.mark.parametrize(
    "tree", [mjcf(MANY_JOINTS), urdf(arm(MIMIC, 0.3, 0.2), floating=False)], ids=["joints", "mimic"]
)
def test_routes_agree(tree):
    """Recursive Newton–Euler, and the Boltzmann–Hamel equations of the Lagrangian, with forces of all kinds."""
    (q, v), control = state(tree), jnp.linspace(-1.0, 2.0, tree.n_controls)
    wanted = acceleration(tree, q, v, control)
    got = jaxhamel.acceleration(tree, 0.0, q, v, control, route="boltzmann-hamel")
    np.testing.assert_allclose(got, wanted, atol=1e-11 * np.max(np.abs(wanted)))


def test_prepared_trees_move_alike():
    """Moments that joints do not move are given to the parents, which changes neither mass matrix nor forces."""
    tree = perturbed(mjcf(MANY_JOINTS), 3)
    q, v = state(tree)
    (body,), wanted = of_prepared(tree, q, v), acceleration(tree, q, v, None)
    zeros = np.flatnonzero(np.asarray(body.links.inertias.mass) == 0.0)
    assert zeros.tolist() == np.flatnonzero(tree.structure.are("hinge", "ball")).tolist()
    rows = jax.vmap(lambda e: body.weigh(e[None])[0])(jnp.eye(tree.space.dim))
    matrix = by_hand.mass_matrix(tree, q)
    np.testing.assert_allclose(rows, matrix, atol=1e-11 * np.max(matrix))
    left = body.momentum_rate(wanted[None])
    np.testing.assert_allclose(left, 0.0, atol=1e-11 * np.max(np.abs(matrix @ wanted)))


of_prepared = jax.jit(lambda tree, q, v: tree.prepared().bodies(0.0, q, v, None))


@pytest.fixture(scope="module")
def motion():
    """A tree in free flight: base, slide, ball joint and hinge."""
    tree = mjcf(TREE)
    q, v = state(tree)
    return tree, jaxhamel.simulate(tree, q, v, jnp.linspace(0.0, 2.0, 5), rtol=1e-10, atol=1e-10)


def test_free_flight_keeps_energy_and_momentum(motion):
    """The rows of M v for the base are the momentum about its origin, in its axes."""
    tree, path = motion
    kept = []
    for k in range(len(path.ts)):
        q, v = jax.tree.map(lambda x, k=k: x[k], (path.q, path.u))
        matrix = np.asarray(mass_matrix(tree, q))
        moment, linear = np.split((matrix @ v)[:6], 2)
        R = by_hand.rotation(q[0][:4])
        linear, at = R @ linear, np.asarray(q[0][4:])
        kept.append([0.5 * v @ matrix @ v, *linear, *(R @ moment + np.cross(at, linear))])
    assert np.max(np.abs(np.ptp(path.q[1], axis=0))) > 0.1
    np.testing.assert_allclose(kept, np.tile(kept[0], (5, 1)), atol=1e-8)


def test_ensembles_and_single_motions_agree():
    tree, ts = urdf(DOUBLE_PENDULUM), jnp.array([0.0, 0.5])
    q, v = jnp.array([[0.4, -1.1], [0.2, 0.3]]), jnp.array([[0.7, 1.3], [-0.3, 0.2]])
    many = ensemble.simulate(tree, q, v, ts, dt=0.01, in_axes=(None, 0, 0, None))
    one = jaxhamel.simulate(tree, q[1], v[1], ts, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(many.q[1, -1], one.q[-1], atol=1e-6)
    np.testing.assert_allclose(many.u[1, -1], one.u[-1], atol=1e-6)


def test_gradient_by_inertias_and_lengths_is_the_richardson_difference():
    tree = urdf(DOUBLE_PENDULUM)
    q, v = jnp.array([0.4, -1.1]), jnp.array([0.7, 1.3])

    @jax.jit
    def rate(inertias, lengths):
        changed = eqx.tree_at(lambda x: (x.inertias, x.joint_positions), tree, (inertias, lengths))
        return jnp.sum(acceleration(changed, q, v, None) ** 2)

    at = tree.inertias, tree.joint_positions
    rng = np.random.default_rng(1)
    along = tuple(jnp.asarray(rng.normal(size=x.shape)) for x in at)
    gradient = jax.jit(jax.grad(rate, argnums=(0, 1)))(*at)
    slopes = [float(jnp.sum(g * d)) for g, d in zip(gradient, along, strict=True)]

    def difference(k, h):
        moved = lambda s: [x + (i == k) * s * along[i] for i, x in enumerate(at)]
        return float(rate(*moved(h)) - rate(*moved(-h))) / (2 * h)

    for k, slope in enumerate(slopes):
        wanted = (4 * difference(k, 5e-4) - difference(k, 1e-3)) / 3
        assert abs(slope - wanted) < 1e-7 * abs(wanted)


def test_single_precision(motion):
    tree, path = motion
    (q, v), single = jax.tree.map(lambda x: x[1], (path.q, path.u)), lambda x: jnp.float32(x)
    wanted = acceleration(tree, q, v, None)
    got = acceleration(*jax.tree.map(single, (tree, q, v)), None)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


# --- further methods ------------------------------------------------------------------------------


def test_examination_finds_no_problem():
    found = jaxhamel.examine(urdf(DOUBLE_PENDULUM))
    assert found.holds, found.problems
    assert found.quadratic


def test_pose_of_a_body(motion):
    tree, path = motion
    body = tree.body_names[2]
    q = jax.tree.map(lambda x: x[1], path.q)
    pose = jax.jit(lambda q: tree.pose(q, body))
    links = by_hand.frames(tree, q)
    R, p = links[tree.structure.links[2]][:2]
    np.testing.assert_allclose(quaternion_matrix(pose(q)[:4]), R, atol=1e-12)
    np.testing.assert_allclose(pose(q)[4:], p + R @ np.asarray(tree.body_positions[2]), atol=1e-12)
    with pytest.raises(ValueError, match="`body` is 'nothing'; it must be one of"):
        tree.pose(q, "nothing")


def test_names_of_the_coordinates_and_drawing():
    tree = mjcf(MANY_JOINTS)
    assert tree.joint_names == ("door", "j1", "j2", "ball", "grip", "j3")
    names = [name for part in tree.state_names.u for name in part.columns]
    assert len(names) == tree.space.dim
    assert names[:3] == ["door_rate", "root_Omega_x", "root_Omega_y"]
    q, _ = tree.initial_state()
    assert len(tree.shapes()) == len(tree.places(0.0, q, None)) == 7
    assert "controls  j1, j3, grip, door" in str(tree)


def test_wrong_shapes_and_controls_are_named():
    tree = mjcf(TREE)
    with pytest.raises(ValueError, match=r"`masses` has shape \(3,\)"):
        eqx.tree_at(lambda x: x.masses, tree, tree.masses[:3]).__check_init__()
    with pytest.raises(ValueError, match=r"shape \(3,\); it must be .*slide, hinge"):
        jaxhamel.acceleration(tree, 0.0, *state(tree), jnp.zeros(3))
