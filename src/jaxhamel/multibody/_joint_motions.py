"""The motions of joints: orientations and positions of the links on their parents, as functions of the coordinates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration
from jaxhamel.geometry import SE3, quaternion_matrix
from jaxhamel.multibody._recursion import Matrices, Rows
from jaxhamel.multibody._structure import WORLD, Structure

SPACE = SE3()


class JointConstants(NamedTuple):
    """The numbers in the motions of joints that depend on the parameters alone.

    The third axis of a link's axes is that of its hinge or slide.

    - `axes`: Q, the orientations of these axes in those of the file; unit matrices for ball and free joints.
    - `turns`, `positions`: R_0 and p_0, orientations and positions of the joints on their parents.
    """

    axes: Matrices
    turns: Matrices
    positions: Rows

    @classmethod
    def of(cls, structure: Structure, orientations: Any, axes: Rows, positions: Rows):
        """The constants of joints with these orientations (quaternions), axes and positions in the axes of the file."""
        unit = jnp.eye(3, dtype=axes.dtype)[None]
        scalar = structure.is_scalar_joint[:, None, None]
        own = jnp.where(scalar, axes_along(unit_rows(axes)), unit)
        parents = jnp.concatenate([own, unit])[structure.parents]  # WORLD is the last row
        turns = jax.vmap(quaternion_matrix)(unit_rows(orientations))
        turns = jnp.einsum("jba,jbc,jcd->jad", parents, turns, own)
        return cls(own, turns, jnp.einsum("jba,jb->ja", parents, positions))


def axes_along(directions: Rows) -> Matrices:
    """For each unit vector a matrix of a rotation with this third column: the shortest rotation to it, from e_3 or −e_3.

    It is a smooth function of the direction but at directions across e_3, where it jumps.
    """
    up = directions[:, 2] >= 0
    x, y, z = jnp.unstack(jnp.where(up[:, None], directions, -directions), axis=1)
    k = 1.0 / (1.0 + z)
    columns = [1.0 - x * x * k, -x * y * k, -x], [-x * y * k, 1.0 - y * y * k, -y]
    first, second = (jnp.stack(column, axis=1) for column in columns)
    second = jnp.where(up[:, None], second, -second)
    return jnp.stack([first, second, directions], axis=2)


def motions_of_joints(
    structure: Structure, joints: JointConstants, q: Configuration, x: Float[Array, " j"]
) -> tuple[Matrices, Rows]:
    """The orientation R and the position p of each link in the axes of its parent, `(j, 3, 3)` and `(j, 3)`.

    With the joint at (R_0, p_0) and displacement x, a hinge has R = R_0 exp(x ê_3) and p = p_0, a slide R = R_0 and
    p = p_0 + x R_0 e_3; ball and free joints turn and move the link by their quaternion and position.
    """
    slid = jnp.where(structure.are("slide"), x, 0.0)
    moves = joints.positions + joints.turns[:, :, 2] * slid[:, None]
    turns = _about_third_axis(joints.turns, jnp.where(structure.are("hinge"), x, 0.0))
    poses = structure.poses(q)
    return _with_poses(structure, turns, moves, poses) if poses else (turns, moves)


def _about_third_axis(turns: Matrices, x: Float[Array, " j"]) -> Matrices:
    """R exp(x ê_3)."""
    cosine, sine = jnp.cos(x)[:, None], jnp.sin(x)[:, None]
    first, second, third = jnp.unstack(turns, axis=2)
    columns = cosine * first + sine * second, cosine * second - sine * first, third
    return jnp.stack(columns, axis=2)


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
    translation = jnp.concatenate([jnp.zeros_like(axis), x * axis])
    return SPACE.exp(translation if kind == "slide" else jnp.roll(translation, 3))


def _full(pose: Array) -> Float[Array, " 7"]:
    """The pose of a ball or free joint, `(7,)`."""
    return pose if pose.shape == (7,) else jnp.concatenate([pose, jnp.zeros(3, pose.dtype)])


def unit_rows(x: Float[Array, "r c"]) -> Float[Array, "r c"]:
    """Each row divided by its length."""
    return x / jnp.sqrt(jnp.sum(x * x, axis=1))[:, None]
