"""What the joints do: orientations and positions of the links on their parents, as functions of the coordinates."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration
from jaxhamel.geometry import SE3, quaternion_matrix
from jaxhamel.multibody._recursion import Rows, rows_cross
from jaxhamel.multibody._structure import WORLD, Structure

Matrices = Float[Array, "j 3 3"]
SPACE = SE3()


def motions_of_joints(tree: Any, q: Configuration, x: Float[Array, " j"]) -> tuple[Matrices, Rows]:
    """The orientation R and the position p of each link in the axes of its parent, `(j, 3, 3)` and `(j, 3)`.

    With the joint at (R_0, p_0), its axis a and displacement x, a hinge has R = R_0 exp(x â) and p = p_0, a slide R = R_0
    and p = p_0 + x R_0 a; ball and free joints turn and move the link by their quaternion and position.
    """
    s = tree.structure
    turns = jax.vmap(quaternion_matrix)(unit_rows(tree.joint_orientations))
    axes = unit_rows(tree.axes)
    along = jnp.einsum("jab,jb->ja", turns, axes)
    slid = tree.joint_positions + along * x[:, None]
    moves = jnp.where(s.are("slide")[:, None], slid, tree.joint_positions)
    turned = _about_axes(turns, axes, along, x)
    turns = jnp.where(s.are("hinge")[:, None, None], turned, turns)
    poses = s.poses(q)
    return _with_poses(s, turns, moves, poses) if poses else (turns, moves)


def _about_axes(turns: Matrices, axes: Rows, along: Rows, x: Float[Array, " j"]) -> Matrices:
    """R exp(x â) = R a aᵀ + cos x (R − R a aᵀ) + sin x R â."""
    crossed = jnp.stack([rows_cross(turns[:, i], axes) for i in range(3)], axis=1)  # R â, by rows
    still = along[:, :, None] * axes[:, None, :]
    cosine, sine = jnp.cos(x)[:, None, None], jnp.sin(x)[:, None, None]
    return still + cosine * (turns - still) + sine * crossed


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
