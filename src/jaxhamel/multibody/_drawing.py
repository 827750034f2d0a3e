"""Names of the coordinates of a tree, and the lines that draw its links."""

from itertools import count

import numpy as np
from jaxtyping import Array, Float

from jaxhamel.mechanics import Part, Shape, State
from jaxhamel.mechanics._description._drawing import box_of, segment
from jaxhamel.multibody._recursion import Inertias
from jaxhamel.multibody._structure import Structure

QUATERNION = ("qw", "qx", "qy", "qz")
TWIST = ("Omega_x", "Omega_y", "Omega_z", "V_x", "V_y", "V_z")


def state_of_tree(structure: Structure) -> State:
    """The parts of q and of v: the row of all neighbouring hinges and slides, and each ball and free joint."""
    rows = count(1)
    parts = [_parts(structure, kind, joints, rows) for kind, joints in structure.factors]
    return State(tuple(q for q, _ in parts), tuple(u for _, u in parts))


def _parts(structure: Structure, kind: str, joints: tuple[int, ...], rows) -> tuple[Part, Part]:
    names = tuple(structure.joints[i].name for i in joints)
    if kind == "scalar":
        key = "joints" if (row := next(rows)) == 1 else f"joints_{row}"
        rates = tuple(f"{name}_rate" for name in names)
        of_joints, units = "of the joints", [_UNITS[structure.joints[i].kind] for i in joints]
        return (
            Part(key, names, _joined(units), of_joints),
            Part(f"{key}_rates", rates, _joined([f"{unit}/s" for unit in units]), of_joints),
        )
    of_joint, columns = f"of {names[0]}", (*QUATERNION, "x", "y", "z")
    q, u = (columns, TWIST) if kind == "free" else (QUATERNION, TWIST[:3])
    units = ("1, m", "rad/s, m/s") if kind == "free" else ("1", "rad/s")
    return (
        Part(names[0], _prefixed(names[0], q), units[0], of_joint, chart=False),
        Part(f"{names[0]}_twist", _prefixed(names[0], u), units[1], of_joint),
    )


_UNITS = {"hinge": "rad", "slide": "m"}


def _joined(units: list[str]) -> str:
    """The units of a part's columns: a single one that all have, or one for each."""
    return units[0] if len(set(units)) == 1 else ", ".join(units)


def _prefixed(name: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}_{column}" for column in columns)


def shapes_of(
    structure: Structure, joint_positions: Float[Array, "j 3"], inertias: Inertias
) -> tuple[Shape, ...]:
    """For each link lines from its origin to the joints that it carries, and the box with its inertia."""
    places = np.asarray(joint_positions, float)
    given = inertias.mass, inertias.first, inertias.inertia()
    found = []
    for i in range(len(structure.joints)):
        carried = places[structure.parents == i]
        lines = [segment((0, 0, 0), place) for place in carried if np.any(place)]
        found.append(Shape(lines + _box(*(np.asarray(x[i], float) for x in given))))
    return tuple(found)


def _box(mass: np.ndarray, moment: np.ndarray, matrix: np.ndarray) -> list[np.ndarray]:
    """The edges of the box with a link's mass and inertia, about its centre of mass; none without inertia."""
    if mass <= 0.0:
        return []
    com = moment / mass
    about_com = matrix - mass * (com @ com * np.eye(3) - np.outer(com, com))
    if np.max(np.abs(about_com)) <= 1e-12 * np.max(np.abs(matrix)) or not np.any(matrix):
        return [segment((0, 0, 0), com)] if np.any(com) else []
    return [line + com[None] for line in box_of(about_com, mass)]
