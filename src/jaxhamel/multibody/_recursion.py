"""Velocities, inertias and forces of the links of a tree, all in the axes of the link at its root.

A twist is (ω, v): the angular velocity of a link, and the velocity of the point of it that coincides with the origin of the
root link. Joint i turns link i with the angular velocity ω'_i and moves its origin p_i with the velocity w_i relative to the
parent p. S_i are the twists of the joint at unit rates, a_i is the acceleration of the point of link i at the origin of the
root link, and m, m c = ∫ x dm, Σ = ∫ x xᵀ dm are the moments of the masses of a link about that origin:

    ω_i = ω_p + ω'_i ,   α_i = α_p + ω̇'_i + ω_p × ω'_i ,   U_i = α̂_i + ω̂_i ω̂_i ,
    a_i = a_p + (U_p − U_i) p_i + ẇ_i + 2 ω_p × w_i ,
    F_i = m a_i + U_i m c ,   N_i = ∫ x × (a_i + U_i x) dm = m c × a_i + Σ_k e_k × U_i Σ e_k ,
    the force along joint i is S_iᵀ Σ (N, F) over all links that joint i carries,
    M_ij = S_iᵀ (Σ I over all links that joint j carries) S_j   if joint i carries joint j,

where ẇ_i and ω̇'_i are derivatives in the axes of the parent. In common axes the sums need no transformations. Both
recursions take time proportional to the number of joints, except that the mass matrix has one entry for each pair of joints
of which one carries the other. U and Σ take fewer operations than spatial accelerations and moments of inertia
(docs/performance.md#mujoco).

Source: Featherstone, Rigid Body Dynamics Algorithms, sections 5.3 and 6.2 (recursive Newton–Euler, composite rigid bodies);
Khalil and Kleinfinger 1987 (U).
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
Matrices = Float[Array, "r 3 3"]
_ROWS, _COLUMNS = np.triu_indices(3)
_ENTRY = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # of a symmetric matrix in its upper triangle


class Twists(NamedTuple):
    """Twists, or spatial accelerations: the angular parts and the linear parts, `(r, 3)` each."""

    omega: Rows
    linear: Rows


class Wrenches(NamedTuple):
    """Moments about the origin and forces, or angular and linear momenta, `(r, 3)` each."""

    moment: Rows
    force: Rows

    def along(self, twists: Twists) -> Rates:
        """The power of each wrench on its twist."""
        return jnp.sum(self.moment * twists.omega + self.force * twists.linear, axis=1)


class Inertias(NamedTuple):
    """Moments of the masses of r bodies about a common origin.

    Masses m `(r,)` [kg]; first moments m c = ∫ x dm `(r, 3)` [kg m], c being the position of the centre of mass; second
    moments Σ = ∫ x xᵀ dm `(r, 3, 3)` [kg m²], of which the inertia about the origin is J = tr Σ 1 − Σ.
    """

    mass: Rates
    first: Rows
    second: Matrices

    @classmethod
    def centred(cls, mass: Rates, inertia: Matrices) -> "Inertias":
        """The moments of bodies whose origins are their centres of mass: Σ = ½ tr J 1 − J.

        **Arguments:** `mass` `(r,)` [kg]; `inertia`: J about the centres of mass, `(r, 3, 3)` [kg m²].
        """
        half = 0.5 * jnp.trace(inertia, axis1=1, axis2=2)[:, None, None]
        second = half * jnp.eye(3, dtype=inertia.dtype)[None] - inertia
        return cls(mass, jnp.zeros_like(inertia[:, 0]), second)

    def inertia(self) -> Matrices:
        """J about the origin."""
        trace = jnp.trace(self.second, axis1=1, axis2=2)[:, None, None]
        return trace * jnp.eye(3, dtype=self.second.dtype)[None] - self.second

    def momenta(self, twists: Twists) -> Wrenches:
        """The momenta of the twists: (J ω + m c × v, m v + ω × m c)."""
        moment = self._turned(twists.omega) + rows_cross(self.first, twists.linear)
        force = self.mass[:, None] * twists.linear + rows_cross(twists.omega, self.first)
        return Wrenches(moment, force)

    def forces(self, accelerations: Rows, gradients: Matrices) -> Wrenches:
        """The forces that bodies need whose points x have the accelerations a + U x; U: `gradients`.

        F = m a + U m c and N = m c × a + Σ_k e_k × U Σ e_k.
        """
        force = jnp.einsum("rij,rj->ri", gradients, self.first)
        turned = jnp.einsum("rij,rjk->rik", gradients, self.second)
        moment = rows_cross(self.first, accelerations) + _axial(turned)
        return Wrenches(moment, force + self.mass[:, None] * accelerations)

    def _turned(self, omega: Rows) -> Rows:
        """J ω = tr Σ ω − Σ ω, without the moments on the diagonal that cancel."""
        x, y, z = jnp.unstack(omega, axis=1)
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = (
            jnp.unstack(row, axis=1) for row in jnp.unstack(self.second, axis=1)
        )
        rows = (
            (yy + zz) * x - (xy * y + xz * z),
            (xx + zz) * y - (xy * x + yz * z),
            (xx + yy) * z - (xz * x + yz * y),
        )
        return jnp.stack(rows, axis=1)

    def moved(self, turns: Matrices, positions: Rows) -> "Inertias":
        """The same moments in other axes, in which their own axes have the orientations R = `turns` and the origins p:

        m c' = R m c + m p ,   Σ' = R Σ Rᵀ + p (R m c)ᵀ + (R m c) pᵀ + m p pᵀ .
        """
        first = jnp.einsum("rij,rj->ri", turns, self.first)
        half = jnp.einsum("rik,rkl->ril", turns, self.second)
        of_mass = self.mass[:, None] * positions
        # the further terms are Z + Zᵀ with Z = p (R m c + ½ m p)ᵀ
        z = positions[:, :, None] * (first + 0.5 * of_mass)[:, None, :]
        z = z + jnp.swapaxes(z, 1, 2)
        entries = jnp.sum(
            half[:, _ROWS] * turns[:, _COLUMNS], axis=2
        )  # the upper triangle of R Σ Rᵀ
        second = (entries + z[:, _ROWS, _COLUMNS])[:, _ENTRY]
        return Inertias(self.mass, first + of_mass, second)


class Links(eqx.Module):
    """The links of a tree in one configuration.

    - `structure`: the tree. `rotations`, `places`: R and p, the orientations and the origins of the links.
    - `inertias`: of the links. `gravity`: the acceleration of gravity in the axes of each link's root, `(j, 3)`.
    - `armatures`: further inertias that act along the rates, `(r,)`: those of the rotors of geared motors.
    """

    structure: Structure = eqx.field(static=True)
    rotations: Matrices
    places: Rows
    inertias: Inertias
    gravity: Rows
    armatures: Rates

    def kinetic_energy(self, rates: Rates) -> Scalar:
        """½ Σ V·I V + ½ Σ armature r²."""
        turning, moving = self._of_joints(rates)
        linear = from_root(self.structure, moving + rows_cross(self.places, turning))
        twists = Twists(from_root(self.structure, turning), linear)
        of_links = jnp.sum(self.inertias.momenta(twists).along(twists))
        return 0.5 * (of_links + jnp.sum(self.armatures * rates * rates))

    def forces(self, rates: Rates, accelerations: Rates) -> Rates:
        """The forces along the joints that a motion needs, by recursive Newton–Euler."""
        needed = self.inertias.forces(*self._accelerations(rates, accelerations))
        carried = to_root(self.structure, jnp.concatenate(needed, axis=1))
        moment, force = jnp.split(carried[self.structure.rate_joints], 2, axis=1)
        along = Wrenches(moment, force).along(self.twists())
        return along + self.armatures * accelerations + self._turned_armatures(rates)

    def twists(self) -> Twists:
        """S, the twist of each joint at unit rate: (s, p × s) of rotations, (0, s) of translations."""
        joints, turn = self.structure.rate_joints, self.structure.is_rotation[:, None]
        columns = jnp.swapaxes(self.rotations, 1, 2).reshape(-1, 3)
        along = columns[3 * joints + self.structure.rate_axes]
        linear = jnp.where(turn, rows_cross(self.places[joints], along), along)
        return Twists(jnp.where(turn, along, 0.0), linear)

    def mass_matrix(self) -> Float[Array, "r r"]:
        """The mass matrix of the rates, by composite rigid bodies."""
        joints = self.structure.rate_joints
        carried = self._composites()
        twists = self.twists()
        momenta = Inertias(*(x[joints] for x in carried)).momenta(twists)
        products = momenta.moment @ twists.omega.T + momenta.force @ twists.linear.T
        carries = self.structure.carries[np.ix_(joints, joints)] & np.tri(len(joints), dtype=bool)
        products = products + jnp.diag(self.armatures)
        lower = jnp.where(carries, products, 0.0)
        return lower + jnp.where(carries & ~np.eye(len(joints), dtype=bool), products, 0.0).T

    def _composites(self) -> Inertias:
        """For each joint the moments of all links that it carries, as of one body."""
        mass, first, second = self.inertias
        rows = jnp.concatenate([mass[:, None], first, second[:, _ROWS, _COLUMNS]], axis=1)
        mass, first, second = jnp.split(to_root(self.structure, rows), [1, 4], axis=1)
        return Inertias(mass[:, 0], first, second[:, _ENTRY])

    def _accelerations(self, rates: Rates, accelerations: Rates) -> tuple[Rows, Matrices]:
        """a and U of each link: its point x has the acceleration a + U x, less that of gravity."""
        s = self.structure
        (turning, moving), (turned, moved) = map(self._of_joints, (rates, accelerations))
        omega = from_root(s, turning)
        below = of_parents(s, omega)
        alpha = from_root(s, turned + rows_cross(below, turning))
        gradients = acceleration_gradients(omega, alpha)
        steps = moved + rows_cross(turning, moving) + 2.0 * rows_cross(below, moving)
        # the origin of a link that turns belongs to the parent, too
        origins = jnp.where(s.turns[:, None], self.places, 0.0)
        difference = of_parents(s, gradients) - gradients
        steps = steps + jnp.einsum("jab,jb->ja", difference, origins)
        return from_root(s, steps) - self.gravity, gradients

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

    def _of_joints(self, rates: Rates) -> tuple[Rows, Rows]:
        """The angular velocity of each link and the velocity of its origin, relative to the parent's link."""
        own = jnp.concatenate([rates, jnp.zeros(1, rates.dtype)])[self.structure.components]
        turning, moving = jnp.split(own, 2, axis=1)
        turns = self.rotations
        return jnp.einsum("jab,jb->ja", turns, turning), jnp.einsum("jab,jb->ja", turns, moving)


def rows_cross(a: Rows, b: Rows) -> Rows:
    """a × b, row by row."""
    (a1, a2, a3), (b1, b2, b3) = jnp.unstack(a, axis=1), jnp.unstack(b, axis=1)
    return jnp.stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1], axis=1)


def acceleration_gradients(omega: Rows, alpha: Rows) -> Matrices:
    """U = α̂ + ω̂ ω̂ of rigid bodies, row by row; ω × (ω × x) + α × x = U x."""
    (x, y, z), (ax, ay, az) = jnp.unstack(omega, axis=1), jnp.unstack(alpha, axis=1)
    xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
    return _matrices(
        [
            [-(yy + zz), xy - az, xz + ay],
            [xy + az, -(xx + zz), yz - ax],
            [xz - ay, yz + ax, -(xx + yy)],
        ]
    )


def _axial(w: Matrices) -> Rows:
    """Σ_k e_k × W e_k, row by row."""
    parts = w[:, 2, 1] - w[:, 1, 2], w[:, 0, 2] - w[:, 2, 0], w[:, 1, 0] - w[:, 0, 1]
    return jnp.stack(parts, axis=1)


def _matrices(entries: list[list[Rates]]) -> Matrices:
    return jnp.stack([jnp.stack(row, axis=1) for row in entries], axis=1)


def from_root(structure: Structure, x: Array) -> Array:
    """For each joint the sum of its row of x and of the rows of all joints that carry it."""
    found: list[Array] = []
    for row, parent in zip(jnp.unstack(x), structure.parents, strict=True):
        found.append(row if parent == WORLD else found[parent] + row)
    return jnp.stack(found)


def to_root(structure: Structure, x: Array) -> Array:
    """For each joint the sum of the rows of x that belong to it and to all joints further from the root that it carries."""
    found = list(jnp.unstack(x))
    for i, parent in reversed([*enumerate(structure.parents)]):
        if parent != WORLD:
            found[parent] = found[parent] + found[i]
    return jnp.stack(found)


def of_parents(structure: Structure, x: Array) -> Array:
    """For each joint the row of its parent; zero at the world."""
    return jnp.concatenate([x, jnp.zeros_like(x[:1])])[structure.parents]  # WORLD is the last row


def in_root_axes(structure: Structure, turns: Matrices) -> Matrices:
    """The orientations of the links in the axes of their root links, from those in the axes of their parents."""
    found: list[Array] = []
    for turn, parent in zip(jnp.unstack(turns), structure.parents, strict=True):
        unit = jnp.eye(3, dtype=turn.dtype)
        found.append(unit if parent == WORLD else found[parent] @ turn)
    return jnp.stack(found)
