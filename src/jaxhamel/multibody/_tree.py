"""Rigid bodies in a tree, connected by joints: the system that the file of a robot describes."""

from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Velocity
from jaxhamel.geometry import SE3, AbstractSpace, quaternion_matrix
from jaxhamel.mechanics import Shape, State, System, parameter, parameters_of
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._parameters import as_parameter
from jaxhamel.mechanics._equations._euler_lagrange import mass_matrix
from jaxhamel.multibody._drawing import shapes_of, state_of_tree
from jaxhamel.multibody._grouping import grouped, only_kept
from jaxhamel.multibody._joint_motions import (
    JointConstants,
    link_poses,
    motions_of_joints,
    unit_rows,
)
from jaxhamel.multibody._recursion import (
    Inertias,
    Links,
    Rows,
    from_root,
    in_root_axes,
    of_parents,
)
from jaxhamel.multibody._recursive_body import RecursiveBody
from jaxhamel.multibody._structure import WORLD, Structure

Forces = Float[Array, " n"]


class Constants(NamedTuple):
    """The numbers in the equations of a tree that depend on its parameters alone.

    - `joints`: of its joints. `inertias`: of its links. `moved`: the part of these that the joints move relative to the
      parents (`_grouping.py`), if it is known.
    """

    joints: JointConstants
    inertias: Inertias
    moved: Inertias | None = None


class MultibodyTree(System):
    r"""Rigid bodies in a tree of joints, made by `read_urdf` and `read_mjcf`:

        L = ½ Σ_b (m_b |V_b|² + Ω_b·I_b Ω_b) + ½ Σ_j a_j r_j² + Σ_b m_b g·x_b − ½ Σ_j k_j (x_j − x⁰_j)² ,
        Q = forces of the controls − d_j r_j − f_j r_j / √(r_j² + ε²)  along each joint j

    V_b: velocity of the centre of mass x_b; r_j: rates of joint j. Bodies that no joint moves against one another are one
    link. By default the equations come from recursive Newton–Euler and composite rigid bodies (`bodies`, as one of the
    bodies of Gauss' principle); `route="boltzmann-hamel"` and `"multipliers"` derive them from L.

    Configuration: hinges and slides have one coordinate, ball joints a quaternion, free joints quaternion and position.
    q is an array `(n,)` if all joints are hinges and slides; with a free base and n joints it is `(pose (7,), joints (n,))`.
    v = u has one rate for each coordinate; of a ball joint it is the angular velocity, of a free joint the twist (Ω, V), in
    the axes of the link that the joint carries. So v = (twist of the base (6,), joint rates (n,)) for a free base.

    **Fields** (arrays but for `structure` and `notes`: motions can be differentiated by them, new values compile nothing):

    - `masses` `(b,)` [kg], `coms` `(b, 3)` [m], `inertias` `(b, 3, 3)` about the centres of mass [kg m²]: of the bodies,
      in the order of `body_names`, each in its own axes; `body_positions`, `body_orientations`: their poses on the links.
    - `joint_positions` `(j, 3)` [m], `joint_orientations` `(j, 4)` (quaternions, of any length): the joints on the links
      that carry them; `axes` `(j, 3)`: of hinges and slides, of any length.
    - `offsets` `(j,)`: the displacement of a hinge or slide is x = coordinate + offset; `factors` `(j,)`: of a joint that
      follows another one (`<mimic>`), x = factor · coordinate + offset.
    - `armatures`, `damping`, `friction`, `stiffness`, `rest` `(j,)`: a, d, f, k, x⁰; `friction_rate`: ε [rad/s, m/s].
    - `gears`, `gains` `(c,)`, `biases` `(c, 3)`: of the controls, each of which pulls its joint with
      gear · (gain · control + bias · (1, gear · coordinate, gear · rate)).
    - `gravity` `(3,)` [m/s²]. `initial`: the configuration in which scenarios begin.
    - `limits` `(s, 2)`: lower and upper bounds of `joint_coordinates`; `rate_limits` `(s,)`; `control_limits` `(c, 2)`. They
      are for `control.PathLimit`; no motion stops there.
    - `structure`: the joints, bodies and controls by name. `notes`: elements of the file that this system ignores.

    Controls: one number for each of `control_names`, or None for none.

    **Raises:** `ValueError` for arrays whose shapes do not fit `structure`.
    """

    structure: Structure = eqx.field(static=True)
    initial: Configuration = eqx.field(converter=partial(jax.tree.map, as_parameter))
    masses: Array = parameter("of the bodies", "kg", ("b",), least=0.0)
    coms: Array = parameter("centres of mass, body axes", "m", ("b", 3))
    inertias: Array = parameter("about the centres of mass, body axes", "kg m²", ("b", 3, 3))
    body_positions: Array = parameter("of the bodies on their links", "m", ("b", 3))
    body_orientations: Array = parameter("of the bodies on their links", "", ("b", 4))
    joint_positions: Array = parameter("of the joints on their parents' links", "m", ("j", 3))
    joint_orientations: Array = parameter("of the joints on their parents' links", "", ("j", 4))
    axes: Array = parameter("of the joints, link axes", "", ("j", 3))
    factors: Array = parameter("of the coordinates that joints follow", "", ("j",))
    offsets: Array = parameter("added to the coordinates", "rad, m", ("j",))
    armatures: Array = parameter("inertias of the rotors", "kg m², kg", ("j",))
    damping: Array = parameter("of the joints", "N m s/rad, N s/m", ("j",))
    friction: Array = parameter("of the joints", "N m, N", ("j",))
    friction_rate: Array = parameter("rate below which friction falls", "rad/s, m/s", ())
    stiffness: Array = parameter("of the springs", "N m/rad, N/m", ("j",))
    rest: Array = parameter("displacements at which springs are relaxed", "rad, m", ("j",))
    gears: Array = parameter("of the controls", "", ("c",))
    gains: Array = parameter("of the controls", "", ("c",))
    biases: Array = parameter("of the controls", "", ("c", 3))
    gravity: Array = parameter("acceleration of gravity, space axes", "m/s²", (3,))
    limits: Array = parameter("bounds of the coordinates", "rad, m", ("s", 2))
    rate_limits: Array = parameter("largest rates", "rad/s, m/s", ("s",))
    control_limits: Array = parameter("bounds of the controls", "", ("c", 2))
    notes: tuple[str, ...] = eqx.field(static=True, default=())

    def __check_init__(self) -> None:
        s = self.structure
        sizes = {"b": len(s.bodies), "j": len(s.joints), "c": len(s.actuated)}
        sizes["s"] = len(s.scalar_joints)
        for name, axes in _SHAPES.items():
            shape: tuple[Any, ...] = tuple(sizes.get(axis, axis) for axis in axes)
            _checks.check_shape(name, getattr(self, name), shape, "As the structure has it.")
        _checks.check_not_negative("masses", self.masses)
        _checks.check_positive("friction_rate", self.friction_rate)

    def __str__(self) -> str:
        s = self.structure
        lines = [f"MultibodyTree of {len(s.bodies)} bodies on {len(s.joints)} joints, {self.space}"]
        lines += [f"  joints    {', '.join(self.joint_names)}"]
        lines += [f"  controls  {', '.join(s.actuators) or 'none'}"]
        return "\n".join(lines + [f"  note      {note}" for note in self.notes])

    @property
    def space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """SE(3) for each free joint, SO(3) for each ball joint, R^k for each row of k hinges and slides."""
        return self.structure.space

    @property
    def n_controls(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of controls."""
        return len(self.structure.actuated)

    @property
    def state_names(self) -> State:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names and units of the coordinates and rates, from the names of the joints."""
        return state_of_tree(self.structure)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints in the order of their rates in v, without free ones and without those that follow another."""
        s = self.structure
        return tuple(s.joints[i].name for i in s.own if s.joints[i].kind != "free")

    @property
    def body_names(self) -> tuple[str, ...]:
        """The bodies in the order of `masses`."""
        return self.structure.bodies

    @property
    def control_names(self) -> tuple[str, ...]:
        """The names of the controls, in the order of the entries of a control."""
        return self.structure.actuators

    # --- mechanics ----------------------------------------------------------------------------

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        x = self._displacements(q)
        known = self._constants()
        links, moves = self._links(q, x, known, known.inertias)
        weights = links.inertias.mass[:, None] * moves[self.structure.roots]
        of_roots = jnp.dot(self.gravity, jnp.sum(weights, axis=0))
        falling = of_roots + jnp.sum(links.gravity * links.inertias.first)
        springs = 0.5 * jnp.sum(self.stiffness * (x - self.rest) ** 2)
        return links.kinetic_energy(self._rates(v)) + falling - springs

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Forces:
        """Friction and damping of the joints, and the forces of the controls."""
        s, rates = self.structure, self._rates(v)
        damping, friction = self.damping[s.rate_joints], self.friction[s.rate_joints]
        rubbing = friction * jax.lax.rsqrt(rates * rates + self.friction_rate**2)
        force = self._collected(-(damping + rubbing) * rates)
        return force if not s.actuated else force + self._of_controls(q, v, control)

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """One body for all bodies of the tree; its mass matrix and forces come from recursions along the tree."""
        x = self._displacements(q)
        known = self._constants()
        inertias = known.inertias if known.moved is None else only_kept(self.structure, known.moved)
        links, _ = self._links(q, x, known, inertias)
        force = self.force(t, q, v, None if control is None else control(t))
        springs = -self.stiffness * (x - self.rest)
        force = force + self._collected(springs[self.structure.rate_joints])
        return (RecursiveBody(links, self._spread(), v[None], force),)

    def initial_state(self) -> tuple[Configuration, QuasiVelocity]:
        """The configuration of the file, at rest."""
        return self.initial, jnp.zeros(self.space.dim, self.masses.dtype)

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives one number for each of `control_names`, or is None."""
        if control is not None:
            names = ", ".join(self.control_names) or "this system has no controls"
            check_control_value(t, control, (self.n_controls,), names)

    def prepared(self) -> "MultibodyTree":
        """The same system with everything computed that depends on the parameters alone."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        known = self._constants()
        moved = grouped(self.structure, known.joints, known.inertias)
        return _PreparedTree(**given, known=known._replace(moved=moved))

    # --- further quantities -------------------------------------------------------------------

    def mass_matrix(self, q: Configuration) -> Float[Array, "n n"]:
        """The mass matrix M = ∂²L/∂v∂v, `(n, n)`, over v: for a free base over (Ω, V) of the base in its own axes, and the
        joint rates.

        **Raises:** `ValueError` if q is no configuration of the space.
        """
        self.space.check(q)
        return mass_matrix(self, jnp.zeros(()), jax.tree.map(jnp.asarray, q), None)

    def joint_coordinates(self, q: Configuration) -> Float[Array, " s"]:
        """The coordinates of all hinges and slides [rad, m], in the order of `joint_names`, for limits:
        `PathLimit(lambda t, q, u, control: robot.joint_coordinates(q), *robot.limits.T)`.
        """
        return self.structure.scalars(q)

    def pose(self, q: Configuration, body: str) -> Float[Array, " 7"]:
        """The pose of a body in space: quaternion and position of the origin of its axes [m].

        **Raises:** `ValueError` for a name that is not in `body_names`.
        """
        s = self.structure
        _checks.check_choice("body", body, s.bodies)
        b = s.bodies.index(body)
        turn = self.body_orientations[b] / jnp.linalg.norm(self.body_orientations[b])
        own = jnp.concatenate([turn, self.body_positions[b]])
        if s.links[b] == WORLD:
            return own
        return SE3().compose(link_poses(self, q, self._displacements(q))[s.links[b]], own)

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        poses = link_poses(self, q, self._displacements(q))
        return tuple((pose[:4], pose[4:]) for pose in poses)

    def shapes(self) -> tuple[Shape, ...]:
        """For each link lines to the joints that it carries, and the box with its inertia."""
        return shapes_of(self.structure, self.joint_positions, self._link_inertias())

    # --- parts of the equations ---------------------------------------------------------------

    def _displacements(self, q: Configuration) -> Float[Array, " j"]:
        """The displacement x of each hinge and slide.

        Ball and free joints have none: their entry is `rest`, with which the force of a spring is 0.
        """
        s = self.structure
        scalars = s.scalars(q)
        x = jnp.concatenate([scalars, jnp.zeros(1, scalars.dtype)])[s.scalar_of]
        if s.spread is not None:
            x = jnp.where(s.follows, self.factors, 1.0) * x
        return jnp.where(s.is_scalar_joint, x + self.offsets, self.rest)

    def _constants(self) -> Constants:
        """The numbers in the equations that depend on the parameters alone."""
        given = self.joint_orientations, self.axes, self.joint_positions
        joints = JointConstants.of(self.structure, *given)
        inertias = self._link_inertias()
        own = jnp.swapaxes(joints.axes, 1, 2)
        return Constants(joints, inertias.moved(own, jnp.zeros_like(inertias.first)))

    def _links(
        self, q: Configuration, x: Float[Array, " j"], known: Constants, inertias: Inertias
    ) -> tuple[Links, Rows]:
        """The links in the configuration q, and each link's origin in the axes of its parent link, `(j, 3)`."""
        s = self.structure
        turns, moves = motions_of_joints(s, known.joints, q, x)
        rotations = in_root_axes(s, turns)
        steps = jnp.einsum("jab,jb->ja", of_parents(s, rotations), moves)  # zero at the roots
        places = from_root(s, steps)
        gravity = jnp.einsum("jba,b->ja", turns[s.roots], self.gravity)
        of_links = inertias.moved(rotations, places)
        return Links(s, rotations, places, of_links, gravity, self.armatures[s.rate_joints]), moves

    def _link_inertias(self) -> Inertias:
        """The inertias of the links in their own axes: the sums over their bodies."""
        turns = jax.vmap(quaternion_matrix)(unit_rows(self.body_orientations))
        coms = self.body_positions + jnp.einsum("bij,bj->bi", turns, self.coms)
        centred = Inertias.centred(self.masses, self.inertias)
        on = np.arange(len(self.structure.joints))[:, None] == np.array(self.structure.links)[None]
        on = jnp.asarray(on, self.masses.dtype)
        return Inertias(*(jnp.tensordot(on, x, axes=1) for x in centred.moved(turns, coms)))

    def _spread(self) -> Float[Array, "r n"] | None:
        """The matrix G of rates = G v; None if the rates are v, because no joint follows another."""
        s = self.structure
        if s.spread is None:
            return None
        factors = jnp.where(s.follows, self.factors, 1.0)[s.rate_joints]
        return factors[:, None] * jnp.asarray(s.spread, factors.dtype)

    def _rates(self, v: Velocity) -> Float[Array, " r"]:
        spread = self._spread()
        return v if spread is None else spread @ v

    def _collected(self, forces: Float[Array, " r"]) -> Forces:
        """The generalised forces Gᵀ F of forces along the rates."""
        spread = self._spread()
        return forces if spread is None else spread.T @ forces

    def _of_controls(self, q: Configuration, v: Velocity, control: Control) -> Forces:
        s = self.structure
        value = jnp.zeros_like(self.gears) if control is None else control
        length = self.gears * s.scalars(q)[s.scalar_of[np.array(s.actuated)]]
        rate = self.gears * v[s.actuated_velocities]
        constant, by_length, by_rate = self.biases.T
        pull = self.gains * value + constant + by_length * length + by_rate * rate
        on = s.actuated_velocities[None] == np.arange(s.space.dim)[:, None]
        return jnp.asarray(on, v.dtype) @ (self.gears * pull)


class _PreparedTree(MultibodyTree):
    """A tree with its constants, for the loops of a solver; its parameters must not be changed."""

    known: Any = None

    def prepared(self) -> MultibodyTree:
        return self

    def _constants(self) -> Constants:
        return self.known


_SHAPES: dict[str, Any] = {
    p.name: p.notes.shapes[0] for p in parameters_of(MultibodyTree) if p.notes.shapes
}
