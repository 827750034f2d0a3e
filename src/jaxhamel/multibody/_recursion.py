"""Velocities, inertias and forces of the links of a tree, all in the axes of the link at its root (spatial vectors).

A twist is (ω, v): the angular velocity of a link, and the velocity of the point of it that coincides with the origin of the
root link. With the twist S_i of each joint at unit rate, links i and their parents p, and spatial inertias I_i,

    V_i = V_p + S_i r_i ,     A_i = A_p + S_i ṙ_i + V_p × S_i r_i ,     F_i = I_i A_i + V_i ×* I_i V_i ,
    the force along joint i is S_iᵀ Σ F over all links that joint i carries,
    M_ij = S_iᵀ (Σ I over all links that joint j carries) S_j   if joint i carries joint j.

In common axes the sums need no transformations. Both recursions take time proportional to the number of joints, except that
the mass matrix has one entry for each pair of joints of which one carries the other.

Source: Featherstone, Rigid Body Dynamics Algorithms, sections 5.3 and 6.2 (recursive Newton–Euler, composite rigid bodies).
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.geometry import cross
from jaxhamel.multibody._structure import WORLD, Structure

Rows = Float[Array, "r 3"]
Rates = Float[Array, " r"]
_ROWS, _COLUMNS = np.triu_indices(3)
_ENTRY = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # of a symmetric matrix in its upper triangle


class Twists(NamedTuple):
    """Twists, or spatial accelerations: the angular parts and the linear parts, `(r, 3)` each."""

    omega: Rows
    linear: Rows

    def times(self, rates: Rates) -> "Twists":
        """The twists times one number each."""
        return Twists(self.omega * rates[:, None], self.linear * rates[:, None])

    def cross(self, other: "Twists") -> "Twists":
        """V × W = (ω × ω', ω × v' + v × ω'), row by row."""
        linear = rows_cross(self.omega, other.linear) + rows_cross(self.linear, other.omega)
        return Twists(rows_cross(self.omega, other.omega), linear)


class Wrenches(NamedTuple):
    """Moments about the origin and forces, or angular and linear momenta, `(r, 3)` each."""

    moment: Rows
    force: Rows

    def along(self, twists: Twists) -> Rates:
        """The power of each wrench on its twist."""
        return jnp.sum(self.moment * twists.omega + self.force * twists.linear, axis=1)


class Inertias(NamedTuple):
    """Inertias of r bodies, about a common origin.

    Masses m `(r,)` [kg]; first moments m c `(r, 3)` [kg m], c being the position of the centre of mass; moments of inertia
    about the origin, `(r, 3, 3)` [kg m²].
    """

    mass: Rates
    moment: Rows
    matrix: Float[Array, "r 3 3"]

    def momenta(self, twists: Twists) -> Wrenches:
        """The momenta of the twists: (J ω + m c × v, m v − m c × ω)."""
        moment = jnp.einsum("rij,rj->ri", self.matrix, twists.omega)
        moment = moment + rows_cross(self.moment, twists.linear)
        force = self.mass[:, None] * twists.linear - rows_cross(self.moment, twists.omega)
        return Wrenches(moment, force)

    def moved(self, turns: Float[Array, "r 3 3"], positions: Rows) -> "Inertias":
        """The same inertias in other axes, in which their own axes have the orientations R = `turns` and the origins p:

        m c' = R m c + m p ,   J' = R J Rᵀ + 2 (p·R m c) 1 − p (R m c)ᵀ − (R m c) pᵀ + m (|p|² 1 − p pᵀ) .
        """
        moment = jnp.einsum("rij,rj->ri", turns, self.moment)
        half = jnp.einsum("rik,rkl->ril", turns, self.matrix)
        entries = jnp.sum(half[:, _ROWS] * turns[:, _COLUMNS], axis=2)  # of the upper triangle
        matrix = entries[:, _ENTRY]
        of_mass = self.mass[:, None] * positions
        # the further terms are 2 tr(Z) 1 − Z − Zᵀ with Z = p (R m c + ½ m p)ᵀ
        z = positions[:, :, None] * (moment + 0.5 * of_mass)[:, None, :]
        trace = jnp.trace(z, axis1=1, axis2=2)[:, None, None] * (2.0 * np.eye(3)[None]).astype(
            z.dtype
        )
        matrix = matrix + trace - (z + jnp.swapaxes(z, 1, 2))
        return Inertias(self.mass, moment + of_mass, matrix)


class Links(eqx.Module):
    """The links of a tree in one configuration.

    - `structure`: the tree. `twists`: S, the twists at unit rates, one for each rate. `inertias`: of the links.
    - `gravity`: the acceleration of gravity in the axes of each link's root, `(j, 3)`.
    - `armatures`: further inertias that act along the rates, `(r,)`: those of the rotors of geared motors.
    """

    structure: Structure = eqx.field(static=True)
    twists: Twists
    inertias: Inertias
    gravity: Rows
    armatures: Rates

    def kinetic_energy(self, rates: Rates) -> Scalar:
        """½ Σ V·I V + ½ Σ armature r²."""
        twists = self.velocities(rates)
        of_links = jnp.sum(self.inertias.momenta(twists).along(twists))
        return 0.5 * (of_links + jnp.sum(self.armatures * rates * rates))

    def velocities(self, rates: Rates) -> Twists:
        """V, the twist of each link."""
        return self._from_root(self._of_joints(rates))

    def forces(self, rates: Rates, accelerations: Rates) -> Rates:
        """The forces along the joints that a motion needs, by recursive Newton–Euler."""
        moving = self._of_joints(rates)
        velocities = self._from_root(moving)
        parents = Twists(*(of_parents(self.structure, x) for x in velocities))
        turning, pushing = parents.cross(moving), self._of_joints(accelerations)
        rate = self._from_root(
            Twists(turning.omega + pushing.omega, turning.linear + pushing.linear)
        )
        rate = Twists(rate.omega, rate.linear - self.gravity)
        needed = self.inertias.momenta(rate)
        turned = force_of_momentum(velocities, self.inertias.momenta(velocities))
        both = Wrenches(needed.moment + turned.moment, needed.force + turned.force)
        carried = to_root(self.structure, jnp.concatenate(both, axis=1))
        moment, force = jnp.split(carried[self.structure.rate_joints], 2, axis=1)
        along = Wrenches(moment, force).along(self.twists)
        return along + self.armatures * accelerations + self._turned_armatures(rates)

    def mass_matrix(self) -> Float[Array, "r r"]:
        """The mass matrix of the rates, by composite rigid bodies."""
        joints = self.structure.rate_joints
        carried = self._composites()
        momenta = Inertias(*(x[joints] for x in carried)).momenta(self.twists)
        products = momenta.moment @ self.twists.omega.T + momenta.force @ self.twists.linear.T
        carries = self.structure.carries[np.ix_(joints, joints)] & np.tri(len(joints), dtype=bool)
        products = products + jnp.diag(self.armatures)
        lower = jnp.where(carries, products, 0.0)
        return lower + jnp.where(carries & ~np.eye(len(joints), dtype=bool), products, 0.0).T

    def _composites(self) -> Inertias:
        """For each joint the inertia of all links that it carries, as of one body."""
        mass, moment, matrix = self.inertias
        rows = jnp.concatenate([mass[:, None], moment, matrix.reshape(-1, 9)], axis=1)
        mass, moment, matrix = jnp.split(to_root(self.structure, rows), [1, 4], axis=1)
        return Inertias(mass[:, 0], moment, matrix.reshape(-1, 3, 3))

    def _turned_armatures(self, rates: Rates) -> Rates:
        """The forces a Ω × V of free joints with an armature a: their momentum a V turns with the axes."""
        found, joints = [], self.structure.rate_joints
        for i, joint in enumerate(self.structure.joints):
            first, last = np.searchsorted(joints, [i, i + 1])
            if joint.kind == "free":
                omega, linear = rates[first : first + 3], rates[first + 3 : last]
                found += [jnp.zeros_like(omega), self.armatures[first] * cross(omega, linear)]
            else:
                found.append(jnp.zeros(last - first, rates.dtype))
        return jnp.concatenate(found)

    def _of_joints(self, rates: Rates) -> Twists:
        """For each joint the twist of its link relative to the parent's."""
        twists, joints = self.twists.times(rates), self.structure.rate_joints
        if len(joints) == len(self.structure.joints):
            return twists
        chosen = np.arange(len(self.structure.joints))[:, None] == joints[None]
        choose = jnp.asarray(chosen, twists.omega.dtype)
        return Twists(choose @ twists.omega, choose @ twists.linear)

    def _from_root(self, twists: Twists) -> Twists:
        summed = from_root(self.structure, jnp.concatenate(twists, axis=1))
        return Twists(*jnp.split(summed, 2, axis=1))


def rows_cross(a: Rows, b: Rows) -> Rows:
    """a × b, row by row."""
    (a1, a2, a3), (b1, b2, b3) = jnp.unstack(a, axis=1), jnp.unstack(b, axis=1)
    return jnp.stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1], axis=1)


def force_of_momentum(twists: Twists, momenta: Wrenches) -> Wrenches:
    """V ×* P = (ω × moment + v × force, ω × force), row by row."""
    moment = rows_cross(twists.omega, momenta.moment) + rows_cross(twists.linear, momenta.force)
    return Wrenches(moment, rows_cross(twists.omega, momenta.force))


def from_root(structure: Structure, x: Array) -> Array:
    """For each joint the sum of its row of x and of the rows of all joints that carry it."""
    found: list[Array] = []
    for row, parent in zip(jnp.unstack(x), structure.parents, strict=True):
        found.append(row if parent == WORLD else found[parent] + row)
    return jnp.stack(found)


def to_root(structure: Structure, x: Array) -> Array:
    """For each joint the sum of its row of x and of the rows of all joints that it carries."""
    found = list(jnp.unstack(x))
    for i, parent in reversed([*enumerate(structure.parents)]):
        if parent != WORLD:
            found[parent] = found[parent] + found[i]
    return jnp.stack(found)


def of_parents(structure: Structure, x: Array) -> Array:
    """For each joint the row of its parent; zero at the world."""
    return jnp.concatenate([x, jnp.zeros_like(x[:1])])[structure.parents]  # WORLD is the last row


def in_root_axes(structure: Structure, turns: Float[Array, "j 3 3"]) -> Float[Array, "j 3 3"]:
    """The orientations of the links in the axes of their root links, from those in the axes of their parents."""
    found: list[Array] = []
    for turn, parent in zip(jnp.unstack(turns), structure.parents, strict=True):
        unit = jnp.eye(3, dtype=turn.dtype)
        found.append(unit if parent == WORLD else found[parent] @ turn)
    return jnp.stack(found)
