"""The structure of a tree of bodies: which joint carries which, and where the coordinates of each joint stand in q and v."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._typing import Configuration
from jaxhamel.geometry import SE3, SO3, AbstractSpace, Euclidean, Product
from jaxhamel.mechanics._system import dtype_of

WORLD = -1  # the parent of a joint at the world, and the link of a body that rests
RATES = {"hinge": 1, "slide": 1, "ball": 3, "free": 6}  # degrees of freedom of each kind of joint


@dataclass(frozen=True)
class Joint:
    """A joint, which carries one link.

    - `name`: its name in the file. `kind`: `"hinge"`, `"slide"`, `"ball"` or `"free"`.
    - `parent`: the joint whose link carries it, by its index, or `WORLD`.
    - `follows`: the joint whose coordinate it repeats, times a factor (`<mimic>`), by index; None for its own coordinate.
    """

    name: str
    kind: str
    parent: int
    follows: int | None = None


@dataclass(frozen=True)
class Structure:
    """A tree of joints, each after its parent, and the bodies on their links.

    - `joints`: all joints. Joint i carries link i; a link is all that moves as one rigid body.
    - `bodies`: the names of all bodies. `links`: the index of each body's link, or `WORLD`.
    - `actuators`, `actuated`: the name of each control, and the index of the joint on which it acts.
    """

    joints: tuple[Joint, ...]
    bodies: tuple[str, ...]
    links: tuple[int, ...]
    actuators: tuple[str, ...]
    actuated: tuple[int, ...]

    @cached_property
    def own(self) -> tuple[int, ...]:
        """The joints with coordinates of their own, by index, in the order of q and v."""
        return tuple(i for i, joint in enumerate(self.joints) if joint.follows is None)

    @cached_property
    def space(self) -> AbstractSpace:
        """SE(3) for each free joint, SO(3) for each ball joint, R^k for each row of k hinges and slides."""
        spaces = tuple(_space(kind, len(joints)) for kind, joints in self.factors)
        return spaces[0] if len(spaces) == 1 else Product(*spaces)

    def scalars(self, q: Configuration) -> Array:
        """The coordinates of all hinges and slides in `own`, in their order."""
        parts = [x for x, (kind, _) in self._parts(q) if kind == "scalar"]
        return jnp.concatenate([*parts, jnp.zeros(0, dtype_of(q))])

    def poses(self, q: Configuration) -> dict[int, Array]:
        """The quaternion of each ball joint and the pose `(7,)` of each free joint, by the index of the joint."""
        return {joints[0]: x for x, (kind, joints) in self._parts(q) if kind != "scalar"}

    def configuration(self, coordinates: dict[int, Any]) -> Configuration:
        """q as NumPy arrays, from the coordinates of each joint in `own`."""
        parts = tuple(
            np.concatenate([np.atleast_1d(coordinates[i]) for i in joints])
            for _, joints in self.factors
        )
        return parts[0] if len(parts) == 1 else parts

    @cached_property
    def spread(self) -> np.ndarray | None:
        """The matrix `(r, n)` with 1 where a rate has its velocity, of rates = factors · (spread v); None if no joint
        follows another, so that the rates are v.
        """
        if len(self.own) == len(self.joints):
            return None
        return self.velocities[:, None] == np.arange(self.space.dim)[None]

    @cached_property
    def scalar_joints(self) -> tuple[int, ...]:
        """The hinges and slides in `own`, by index."""
        return tuple(i for i in self.own if RATES[self.joints[i].kind] == 1)

    @cached_property
    def scalar_of(self) -> np.ndarray:
        """For each joint the index in `scalars` of its coordinate, `(j,)`; for ball and free joints, that after the last."""
        place = {i: k for k, i in enumerate(self.scalar_joints)}
        return np.array([place.get(i, len(place)) for i in self.leader])

    @cached_property
    def is_scalar_joint(self) -> np.ndarray:
        """Whether each joint is a hinge or a slide, `(j,)`."""
        return self.are("hinge", "slide")

    @cached_property
    def follows(self) -> np.ndarray:
        """Whether the position of each joint is given by that of another one (a mimic joint), `(j,)`."""
        return np.array([joint.follows is not None for joint in self.joints])

    @cached_property
    def components(self) -> np.ndarray:
        """The index in the rates of each component of the twist of a joint in the axes of its link, `(j, 6)`; the number of
        rates for components that are 0. Hinges turn about the third axis, and slides move along it.
        """
        found = np.full((len(self.joints), 6), len(self.rate_joints))
        turns = np.where(self.is_rotation, 0, 3)
        found[self.rate_joints, turns + self.rate_axes] = np.arange(len(self.rate_joints))
        return found

    @cached_property
    def rate_axes(self) -> np.ndarray:
        """The axis of the link (0, 1 or 2) about or along which each rate moves it, `(r,)`."""
        single = {"hinge": [2], "slide": [2], "ball": [0, 1, 2], "free": [0, 1, 2, 0, 1, 2]}
        return np.array([axis for x in self.joints for axis in single[x.kind]])

    @cached_property
    def turns(self) -> np.ndarray:
        """Whether each joint turns its link, `(j,)`."""
        return self.are("hinge", "ball", "free")

    @cached_property
    def actuated_velocities(self) -> np.ndarray:
        """The index in v of the rate of each actuated joint, `(c,)`."""
        first = np.searchsorted(self.rate_joints, np.array(self.actuated, int))
        return self.velocities[first]

    def are(self, *kinds: str) -> np.ndarray:
        """Whether each joint is of one of these kinds, `(j,)`."""
        return np.array([joint.kind in kinds for joint in self.joints])

    @cached_property
    def leader(self) -> tuple[int, ...]:
        """For each joint the joint whose coordinate it has: itself, or the one that it follows."""
        return tuple(i if x.follows is None else x.follows for i, x in enumerate(self.joints))

    @cached_property
    def rate_joints(self) -> np.ndarray:
        """The joint of each rate, `(r,)`. Each joint has the rates of its kind, also if it follows another one."""
        return np.array([i for i, x in enumerate(self.joints) for _ in range(RATES[x.kind])])

    @cached_property
    def velocities(self) -> np.ndarray:
        """The index in v of each rate, `(r,)`."""
        starts, start = {}, 0
        for i in self.own:
            starts[i], start = start, start + RATES[self.joints[i].kind]
        pairs = zip(self.leader, self.joints, strict=True)
        return np.array([starts[i] + k for i, x in pairs for k in range(RATES[x.kind])])

    @cached_property
    def is_rotation(self) -> np.ndarray:
        """Whether each rate is an angular velocity, `(r,)`."""
        turns = {"hinge": [1], "slide": [0], "ball": [1] * 3, "free": [1] * 3 + [0] * 3}
        return np.array([turn for x in self.joints for turn in turns[x.kind]], bool)

    @cached_property
    def parents(self) -> np.ndarray:
        """The parent of each joint, `(j,)`."""
        return np.array([joint.parent for joint in self.joints])

    @cached_property
    def roots(self) -> np.ndarray:
        """For each joint the joint at the world below it, `(j,)`."""
        found: list[int] = []
        for i, parent in enumerate(self.parents):
            found.append(i if parent == WORLD else found[parent])
        return np.array(found)

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """The joints at the world, those on their links, and so on, by index."""
        depth = np.sum(self.carries, axis=1)
        return [np.flatnonzero(depth == d) for d in range(1, max(depth) + 1)]

    @cached_property
    def carries(self) -> np.ndarray:
        """Whether the joint of the column carries that of the row, or is the same, `(j, j)`."""
        found = np.eye(len(self.joints), dtype=bool)
        for i, parent in enumerate(self.parents):
            if parent != WORLD:
                found[i] |= found[parent]
        return found

    def _parts(self, q: Configuration) -> Iterator[tuple[Array, tuple[str, tuple[int, ...]]]]:
        """The parts of q with the kind and the joints of their factors."""
        return zip(q if isinstance(q, tuple) else (q,), self.factors, strict=True)

    @cached_property
    def factors(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The factors of the space: their kind (`"scalar"`, `"ball"`, `"free"`), and the joints that they belong to."""
        kinds = ((i, self.joints[i].kind) for i in self.own)
        named = ((i, "scalar" if RATES[kind] == 1 else kind) for i, kind in kinds)
        found: list[tuple[str, tuple[int, ...]]] = []
        for kind, run in groupby(named, key=lambda x: x[1]):
            joints = tuple(i for i, _ in run)
            found += [(kind, joints)] if kind == "scalar" else [(kind, (i,)) for i in joints]
        return tuple(found)


def _space(kind: str, joints: int) -> AbstractSpace:
    return SE3() if kind == "free" else SO3() if kind == "ball" else Euclidean(joints)
