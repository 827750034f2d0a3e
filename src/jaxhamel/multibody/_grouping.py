"""Gives to the parent link those moments of a link (mass, m c and Σ) that its joint cannot move.

A mass on the axis of a hinge stays where it is on the parent while the hinge turns. So the equations of motion do not change
if the part (m, m c_z, Σ_zz) of a link's moments is counted with its parent; likewise Σ of a link that slides, and m of a
link on a ball joint. The link of a hinge keeps m c_x, m c_y and Σ without Σ_zz, the parameters on which the motion depends.
With their known zeros a right-hand side has 6 % fewer operations (docs/performance.md#mujoco). The kinetic and the potential
energy lose the moments that joints at the world give to it, so that the Lagrangian takes the moments of the file.

Source: Gautier and Khalil 1990, Direct calculation of minimum set of inertial parameters of serial robots.
"""

from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel.multibody._joint_motions import JointConstants
from jaxhamel.multibody._recursion import Inertias
from jaxhamel.multibody._structure import Structure

_NONE, _ALL = np.zeros((3, 3), bool), np.ones((3, 3), bool)
_NOT_ZZ = ~np.diag([False, False, True])
# for each kind of joint: whether the link keeps its mass, which first moments and which second moments
_KEPT = {
    "hinge": (False, _NOT_ZZ[2], _NOT_ZZ),
    "slide": (True, _ALL[0], _NONE),
    "ball": (False, _ALL[0], _ALL),
    "free": (True, _ALL[0], _ALL),
}


class _Kept(NamedTuple):
    """Which moments links keep: masses `(r,)`, first moments `(r, 3)`, second moments `(r, 3, 3)`."""

    mass: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, structure: Structure, joints: np.ndarray) -> "_Kept":
        """The moments that the links of these joints keep."""
        rows = [_KEPT[structure.joints[i].kind] for i in joints]
        return cls(*map(np.array, zip(*rows, strict=True)))


def grouped(structure: Structure, joints: JointConstants, inertias: Inertias) -> Inertias:
    """The moments of the links in their own axes, where those that a joint cannot move are counted with the parent link."""
    found = inertias
    for level in reversed(structure.levels[1:]):
        given = _where([~x for x in _Kept.of(structure, level)], [x[level] for x in found])
        moved = given.moved(joints.turns[level], joints.positions[level])
        parents = structure.parents[level]
        found = Inertias(*(x.at[parents].add(y) for x, y in zip(found, moved, strict=True)))
    return only_kept(structure, found)


def only_kept(structure: Structure, inertias: Inertias) -> Inertias:
    """The moments with zeros, known to compilers, in the place of those that the parents have."""
    return _where(_Kept.of(structure, np.arange(len(structure.joints))), inertias)


def _where(chosen: Iterable[np.ndarray], moments: Iterable[Array]) -> Inertias:
    return Inertias(*(jnp.where(x, y, 0.0) for x, y in zip(chosen, moments, strict=True)))
