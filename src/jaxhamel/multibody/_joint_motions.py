"""What the joints do: orientations and positions of the links on their parents, as functions of the coordinates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration
from jaxhamel.geometry import SE3, quaternion_matrix
from jaxhamel.multibody._recursion import Rows, rows_cross
from jaxhamel.multibody._structure import WORLD, Structure

Matrices = Float[Array, "j 3 3"]
SPACE = SE3()


class JointConstants(NamedTuple):
    """What the motions of joints need of the parameters alone.

    - `turns`: R_0 of the joints on their parents. `axes`: unit vectors a. `along`: R_0 a.
    - `still`, `crossed`: R_0 a aᵀ and R_0 â.
    """

    turns: Matrices
    axes: Rows
    along: Rows
    still: Matrices
    crossed: Matrices

    @classmethod
    def of(cls, orientations: Float[Array, "j 4"], axes: Rows) -> "JointConstants":
        """The constants of joints with these orientations and axes."""
        turns, axes = jax.vmap(quaternion_matrix)(unit_rows(orientations)), unit_rows(axes)
        along = jnp.einsum("jab,jb->ja", turns, axes)
        crossed = jnp.stack([rows_cross(turns[:, i], axes) for i in range(3)], axis=1)
        return cls(turns, axes, along, along[:, :, None] * axes[:, None, :], crossed)


def motions_of_joints(
    tree: Any, joints: JointConstants, q: Configuration, x: Float[Array, " j"]
) -> tuple[Matrices, Rows]:
    """The orientation R and the position p of each link in the axes of its parent, `(j, 3, 3)` and `(j, 3)`.

    With the joint at (R_0, p_0), its axis a and displacement x, a hinge has R = R_0 exp(x â) and p = p_0, a slide R = R_0
    and p = p_0 + x R_0 a; ball and free joints turn and move the link by their quaternion and position.
    """
    s = tree.structure
    slid = tree.joint_positions + joints.along * x[:, None]
    moves = jnp.where(s.are("slide")[:, None], slid, tree.joint_positions)
    turned = _about_axes(joints, x)
    turns = jnp.where(s.are("hinge")[:, None, None], turned, joints.turns)
    poses = s.poses(q)
    return _with_poses(s, turns, moves, poses) if poses else (turns, moves)


def _about_axes(joints: JointConstants, x: Float[Array, " j"]) -> Matrices:
    """R exp(x â) = R a aᵀ + cos x (R − R a aᵀ) + sin x R â."""
    cosine, sine = jnp.cos(x)[:, None, None], jnp.sin(x)[:, None, None]
    return joints.still + cosine * (joints.turns - joints.still) + sine * joints.crossed


def _with_poses(
    structure: Structure, turns: Matrices, moves: Rows, poses: dict[int, Array]
) -> tuple[Matrices, Rows]:
    """The motions with those of ball and free joints."""
    joints = enumerate(structure.joints)
    unit, zero = jnp.eye(3, dtype=turns.dtype), jnp.zeros(3, turns.dtype)
    own = [poses.get(i) for i, _ in joints]
    inner = [unit if x is None else quaternion_matrix(x[:4]) for x in own]
    shifts = [zero if x is None or x.shape == (4,) else x[4:] for x in own]
    moves = moves + jnp.einsum("jab,jb->ja", turns, jnp.stack(shifts))
    return turns @ jnp.stack(inner), moves


def link_poses(tree: Any, q: Configuration, x: Float[Array, " j"]) -> list[Float[Array, " 7"]]:
    """The poses of the links in space."""
    base = jnp.concatenate([unit_rows(tree.joint_orientations), tree.joint_positions], axis=1)
    axes, given = unit_rows(tree.axes), tree.structure.poses(q)
    found: list[Array] = []
    for i, joint in enumerate(tree.structure.joints):
        own = _pose_of_joint(joint.kind, axes[i], x[i]) if i not in given else _full(given[i])
        pose = SPACE.compose(base[i], own)
        found.append(pose if joint.parent == WORLD else SPACE.compose(found[joint.parent], pose))
    return found


def _pose_of_joint(kind: str, axis: Float[Array, " 3"], x: Float[Array, ""]) -> Array:
    moved = jnp.concatenate([jnp.zeros_like(axis), x * axis])
    return SPACE.exp(moved if kind == "slide" else jnp.roll(moved, 3))


def _full(pose: Array) -> Float[Array, " 7"]:
    """The pose of a ball or free joint, `(7,)`."""
    return pose if pose.shape == (7,) else jnp.concatenate([pose, jnp.zeros(3, pose.dtype)])


def unit_rows(x: Float[Array, "r c"]) -> Float[Array, "r c"]:
    """Each row divided by its length."""
    return x / jnp.sqrt(jnp.sum(x * x, axis=1))[:, None]
