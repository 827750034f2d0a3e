"""Poses and mass matrix of a tree of bodies by NumPy, in space axes, without the package's recursions.

Rotations are finite ones, and a body's Jacobian is the sum over the joints that carry it.
"""

import numpy as np

from jaxhamel.multibody._structure import WORLD


def rotation(q):
    """R of a quaternion, of any length."""
    w, x, y, z = np.asarray(q, float) / np.linalg.norm(q)
    return np.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )


def turned_about(axis, angle):
    """The rotation about a unit axis, by Rodrigues' formula."""
    hat = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + np.sin(angle) * hat + (1 - np.cos(angle)) * hat @ hat


def frames(tree, q):
    """Orientation and position of each link in space, with the directions of its rates and whether they turn."""
    s, scalars, poses = (
        tree.structure,
        np.asarray(tree.structure.scalars(q)),
        tree.structure.poses(q),
    )
    found = []
    for i, joint in enumerate(s.joints):
        R, p = (np.eye(3), np.zeros(3)) if joint.parent == WORLD else found[joint.parent][:2]
        p = p + R @ np.asarray(tree.joint_positions[i])
        R = R @ rotation(tree.joint_orientations[i])
        axis = np.asarray(tree.axes[i]) / np.linalg.norm(tree.axes[i])
        if joint.kind in ("ball", "free"):
            x = np.asarray(poses[i])
            p = p + R @ x[4:] if joint.kind == "free" else p
            R = R @ rotation(x[:4])
            turns = [True] * 3 + [False] * 3 * (joint.kind == "free")
            directions = [R[:, k % 3] for k in range(len(turns))]
        else:
            leader = i if joint.follows is None else joint.follows
            x = scalars[s.scalar_joints.index(leader)]
            x = (1.0 if joint.follows is None else float(tree.factors[i])) * x + float(
                tree.offsets[i]
            )
            p = p + R @ axis * x if joint.kind == "slide" else p
            directions, turns = [R @ axis], [joint.kind == "hinge"]
            R = R @ turned_about(axis, x) if joint.kind == "hinge" else R
        found.append((R, p, directions, turns))
    return found


def mass_matrix(tree, q):
    """Σ_b m Jᵀ J + J_Rᵀ I J_R over the bodies, J of their centres of mass and J_R of their angular velocities."""
    s, links = tree.structure, frames(tree, q)
    total = np.zeros((s.space.dim, s.space.dim))
    for b, link in enumerate(s.links):
        if link == WORLD:
            continue
        R, p = links[link][:2]
        x = p + R @ (
            np.asarray(tree.body_positions[b])
            + rotation(tree.body_orientations[b]) @ np.asarray(tree.coms[b])
        )
        turn = R @ rotation(tree.body_orientations[b])
        J, JR = jacobians(tree, links, link, x)
        inertia = turn @ np.asarray(tree.inertias[b]) @ turn.T
        total += float(tree.masses[b]) * J.T @ J + JR.T @ inertia @ JR
    armature = np.asarray(tree.armatures)[s.rate_joints]
    for r, (k, i) in enumerate(zip(s.velocities, s.rate_joints, strict=True)):
        factor = 1.0 if s.joints[i].follows is None else float(tree.factors[i])
        total[k, k] += armature[r] * factor**2
    return total


def jacobians(tree, links, link, x):
    """∂ẋ/∂v and ∂ω/∂v of a point x of a link."""
    s = tree.structure
    J, JR = np.zeros((3, s.space.dim)), np.zeros((3, s.space.dim))
    while link != WORLD:
        _, p, directions, turns = links[link]
        rates = np.flatnonzero(s.rate_joints == link)
        factor = 1.0 if s.joints[link].follows is None else float(tree.factors[link])
        for r, direction, turn in zip(rates, directions, turns, strict=True):
            k = s.velocities[r]
            J[:, k] += factor * (np.cross(direction, x - p) if turn else direction)
            JR[:, k] += factor * direction * turn
        link = s.joints[link].parent
    return J, JR
