"""Mass matrices, accelerations, poses and energies of MuJoCo, where it is installed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from tests.multibody import by_hand
from tests.multibody.models import MANY_JOINTS, arm, mjcf, urdf

mujoco = pytest.importorskip("mujoco")


def of_arm():
    spec = mujoco.MjSpec.from_string(arm(damping=0.3))
    spec.compiler.fusestatic = False
    spec.bodies[1].add_freejoint().name = "base"
    model = spec.compile()
    model.opt.gravity[:] = [0, 0, -9.81]
    return model


CASES = {
    "MJCF": lambda: (mjcf(MANY_JOINTS), mujoco.MjModel.from_xml_string(MANY_JOINTS)),
    "URDF": lambda: (urdf(arm(damping=0.3)), of_arm()),
}


def translated(tree, model, q, v):
    """MuJoCo's data in the same state, T of its velocities T v, and the rates of T along the motion times v.

    A free body's velocity is (ṗ, Ω) there and (Ω, Rᵀ ṗ) here.
    """
    data, s = mujoco.MjData(model), tree.structure
    scalars, poses = dict(zip(s.scalar_joints, s.scalars(q), strict=True)), s.poses(q)
    T, turning = np.zeros((model.nv, s.space.dim)), np.zeros(s.space.dim)
    for i in s.own:
        theirs = model.joint(s.joints[i].name)
        at, slot, k = (
            theirs.qposadr[0],
            theirs.dofadr[0],
            s.velocities[np.searchsorted(s.rate_joints, i)],
        )
        if i in scalars:
            data.qpos[at], T[slot, k] = scalars[i], 1
        elif s.joints[i].kind == "ball":
            data.qpos[at : at + 4], T[slot : slot + 3, k : k + 3] = poses[i], np.eye(3)
        else:
            data.qpos[at : at + 7] = np.roll(poses[i], 3)
            T[slot : slot + 3, k + 3 : k + 6] = by_hand.rotation(poses[i][:4])
            T[slot + 3 : slot + 6, k : k + 3] = np.eye(3)
            turning[k + 3 : k + 6] = np.cross(v[k : k + 3], v[k + 3 : k + 6])
    data.qvel[:] = T @ v
    return data, T, turning


@pytest.mark.parametrize("case", CASES)
def test_same_mechanics_as_mujoco(case):
    tree, model = CASES[case]()
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
    )
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
    rng = np.random.default_rng(0)
    q = tree.space.retract(tree.initial, jnp.asarray(rng.normal(size=tree.space.dim)))
    v, control = rng.normal(size=tree.space.dim), rng.normal(size=tree.n_controls)
    data, T, turning = translated(tree, model, q, v)
    if model.nu:
        data.ctrl[:] = control
    for name, torque in () if model.nu else zip(tree.control_names, control, strict=True):
        data.qfrc_applied[model.joint(name).dofadr[0]] = torque
    mujoco.mj_forward(model, data)
    columns = np.zeros((model.nv, model.nv, 1))
    for column, unit in zip(columns, np.eye(model.nv)[:, :, None], strict=True):
        mujoco.mj_mulM(model, data, column, unit)
    matrix = columns[:, :, 0]
    np.testing.assert_allclose(tree.mass_matrix(q), T.T @ matrix @ T, atol=1e-12 * np.max(matrix))
    wanted = np.linalg.solve(T, data.qacc) - turning
    got = jaxhamel.acceleration(tree, 0.0, q, jnp.asarray(v), jnp.asarray(control))
    np.testing.assert_allclose(got, wanted, atol=1e-11 * np.max(np.abs(wanted)))
    poses = jax.jit(lambda q: [tree.pose(q, body) for body in tree.body_names])(q)
    for body, pose in zip(tree.body_names, poses, strict=True):
        np.testing.assert_allclose(pose[4:], data.body(body).xpos, atol=1e-13)
        np.testing.assert_allclose(
            by_hand.rotation(pose[:4]).ravel(), data.body(body).xmat, atol=1e-13
        )
