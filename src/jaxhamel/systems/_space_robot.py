"""A free-floating planar robot: a base and a chain of links with parallel revolute joints."""

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import SE2, AbstractSpace, Euclidean, Product
from jaxhamel.mechanics import Points, Spins, System, symmetric_solve
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape, about_z, box_edges, segment
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.systems._descriptions import POSE
from jaxhamel.systems._own_equations import own_equations


class SpaceRobot(System):
    r"""A base that floats in a plane and carries an arm of n links, joint after joint; no gravity.

        L = ½ I_0 ω² + ½ m_0 |v|² + ½ Σ I_i (ω + ψ̇_i)² + ½ Σ m_i |v + ω × p_i + ṗ_i|²  on SE(2) × R^n
        ψ_i = r_1 + … + r_i ,    p_i = mount + Σ_{j<i} l_j e(ψ_j) + c_i e(ψ_i) ,    e(ψ) = (cos ψ, sin ψ)

    No external force acts, so the momentum is conserved for any motion of the joints; by the mechanical
    connection this motion moves the base.

    **Arguments:**

    - `base_mass`: m_0 [kg]; `base_inertia`: I_0 about the base's centre of mass [kg m²], which is the
        origin of the body frame.
    - `mount`: the first joint, base frame [m], `(2,)`.
    - `lengths`: l_i from joint to joint [m], `(n,)` (the last one is the tip's); `coms`: c_i from a
        link's joint to its centre of mass, along the link [m], `(n,)`.
    - `masses`: m_i [kg], `(n,)`; `inertias`: I_i about the links' centres of mass [kg m²], `(n,)`.

    Configuration `q = ((θ, x, y), r (n,))`: the base's angle and position, the joint angles, zero for
    the arm stretched along the base's first axis; `u = (ω, v_x, v_y, ṙ)`, v in base axes; control:
    joint torques τ `(n,)` [N m], or None.

    **Invariants:** the momentum in space, (angular about the origin, linear) [N m s, N s], under any
    torques; energy, without.

    **Known solution:** at zero momentum the total centre of mass rests. With the mount on the first
    axis and two joints, the curvature of the base's turn is an odd function of r (mirror image), so that
    a loop which r → −r maps to itself, such as a circle about r = 0, turns the base by zero.

    **Raises:** ValueError for parameters that are not physical.

    Source: Müller 2023, section 6(b) (two parallel joints); barycentric vectors, on which
    `closed_form` rests: Papadopoulos and Dubowsky, see his references 74 and 75.
    """

    base_mass: Array = parameter("mass of the base", "kg", (), positive=True, example=10.0)
    base_inertia: Array = parameter(
        "of the base about its centre of mass", "kg m²", (), positive=True, example=1.3
    )
    mount: Array = parameter("the first joint, base frame", "m", (2,), example=(0.4, 0.1))
    lengths: Array = parameter("of the links, joint to joint", "m", ("n",), example=(0.6, 0.5))
    coms: Array = parameter(
        "from a link's joint to its centre of mass, along the link", "m", ("n",), example=(0.3, 0.2)
    )
    masses: Array = parameter("of the links", "kg", ("n",), least=0.0, example=(2.0, 1.0))
    inertias: Array = parameter(
        "of the links about their centres of mass", "kg m²", ("n",), least=0.0, example=(0.06, 0.03)
    )

    state_names: ClassVar[State | None] = State(
        (POSE, Part("angles", "r", "rad", "of the joints")),
        (
            Part("twist", ("omega", "v_x", "v_y"), "rad/s, m/s", "of the base, base axes"),
            Part("rates", "r_dot", "rad/s", "of the joints"),
        ),
        (Part("torques", "torque", "N m", "of the joints"),),
    )

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("base_mass", "base_inertia"))
        _checks.check_shape("mount", self.mount, (2,))
        _checks.check_finite("mount", self.mount)
        _checks.check_shape("masses", self.masses, ("n",), "One entry a link.")
        for name in ("lengths", "coms", "inertias"):
            _checks.check_shape(name, getattr(self, name), self.masses.shape, "As `masses`.")
            _checks.check_finite(name, getattr(self, name))
        _checks.check_not_negative("masses", self.masses)
        _checks.check_not_negative("inertias", self.inertias)

    @property
    def space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """SE(2) × R^n."""
        return Product(SE2(), Euclidean(self.masses.shape[0]))

    @property
    def n_controls(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.masses.shape[0]

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        level = jnp.zeros(1, q[0].dtype)
        at = [(about_z(q[0][0]), jnp.concatenate([q[0][1:], level]))]
        angle, joints = q[0][0], self.joints(q)
        for turn, joint in zip(q[1], joints[:-1], strict=True):
            angle = angle + turn
            at.append((about_z(angle), jnp.concatenate([joint, level])))
        return tuple(at)

    def shapes(self) -> tuple[Shape, ...]:
        lengths, size = np.asarray(self.lengths), 2.0 * float(jnp.linalg.norm(self.mount))
        links = [Shape([segment((0, 0, 0), (x, 0, 0))], np.zeros((1, 3))) for x in lengths]
        tip = np.array([lengths[-1], 0.0, 0.0])
        links[-1] = replace(links[-1], trail=tip, trail_name="tip")
        base = box_edges(np.array([size, size, 0.5 * size]))
        return (Shape(base), *links)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        velocities, rates = self._body_velocities(q[1], v)
        masses, inertias = self._all_masses()
        return 0.5 * jnp.sum(masses[:, None] * velocities**2) + 0.5 * jnp.sum(inertias * rates**2)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " n"]:
        """Q = (0, 0, 0, τ): the torques act on the joint angles."""
        torque = jnp.zeros_like(v[3:]) if control is None else control
        return jnp.concatenate([jnp.zeros_like(v[:3]), torque])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The masses of base and links as points in base axes, and their rotations about the normal of the plane."""
        velocities, rates = self._body_velocities(q[1], v)
        masses, inertias = self._all_masses()
        points = jnp.pad(velocities, ((0, 0), (0, 1)))
        torque = jnp.zeros_like(rates)
        if (
            control is not None
        ):  # a joint turns its link and, with the opposite sign, the one before
            tau = control(t)
            torque = jnp.pad(tau, (1, 0)) - jnp.pad(tau, (0, 1))
        diagonal = jnp.eye(3, dtype=v.dtype)[None] * inertias[:, None, None]
        return (
            Points(masses, points, jnp.zeros_like(points), _normal(v[0])),
            Spins(diagonal, jax.vmap(_normal)(rates), jax.vmap(_normal)(torque)),
        )

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control
    ) -> dict[str, Array]:
        kept = {"momentum": self.momentum(q, u)}
        return kept if control is not None else {**kept, "energy": self.lagrangian(t, q, u)}

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives one torque for each joint, or is None."""
        if control is not None:
            check_control_value(t, control, self.masses.shape, "joint torques [N m]")

    # --- closed forms and other quantities of this system --------------------------------------

    def positions(self, q: Configuration) -> Float[Array, "b 2"]:
        """Centres of mass in space [m], `(n + 1, 2)`: the base's, then the links'."""
        at_base = jnp.concatenate([jnp.zeros((1, 2), q[1].dtype), self._link_centres(q[1])])
        return at_base @ _rotation(q[0][0]).T + q[0][None, 1:]

    def joints(self, q: Configuration) -> Float[Array, "b 2"]:
        """The joints and the tip in space [m], `(n + 1, 2)`."""
        ends = jnp.cumsum(self.lengths[:, None] * _directions(q[1]), axis=0)
        at_base = jnp.concatenate([self.mount[None], self.mount[None] + ends])
        return at_base @ _rotation(q[0][0]).T + q[0][None, 1:]

    def momentum(self, q: Configuration, u: Float[Array, " k"]) -> Float[Array, " 3"]:
        """The momentum in space, (angular about the origin, linear) [N m s, N s], from the bodies' velocities."""
        velocities, rates = self._body_velocities(q[1], u)
        masses, inertias = self._all_masses()
        linear = masses[:, None] * (velocities @ _rotation(q[0][0]).T)
        x = self.positions(q)
        angular = jnp.sum(x[:, 0] * linear[:, 1] - x[:, 1] * linear[:, 0])
        spin = jnp.sum(inertias * rates)
        return jnp.concatenate([(angular + spin)[None], jnp.sum(linear, axis=0)])

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control = None
    ) -> Float[Array, " k"]:
        """(ω̇, v̇, r̈) in the absolute angles φ_i = θ + ψ_i, about the centre of mass (barycentric vectors):

            Σ_j I_ij φ̈_j + h_ij·(cos φ_ij φ̈_j + sin φ_ij φ̇_j²) = τ_i − τ_{i+1} ,    φ_ij = φ_i − φ_j

        `control` is a value here, the torques [N m], or None.
        """
        theta, joint_rates = q[0][0], u[3:]
        angle = theta + jnp.pad(jnp.cumsum(q[1]), (1, 0))
        rate = u[0] + jnp.pad(jnp.cumsum(joint_rates), (1, 0))
        masses, inertias = self._all_masses()
        levers = self._levers()
        total = jnp.sum(masses)
        centred = levers - jnp.tensordot(masses / total, levers, axes=1)[None]  # (body, link, 2)
        turn = jax.vmap(_rotation)(angle)
        arm = jnp.einsum("jxy,bjy->bjx", turn, centred)
        across = jnp.stack([-arm[..., 1], arm[..., 0]], axis=-1)
        mass_matrix = jnp.einsum("b,bix,bjx->ij", masses, across, across) + jnp.diag(inertias)
        centripetal = -jnp.einsum("b,bix,bjx,j->i", masses, across, arm, rate**2)
        tau = jnp.zeros_like(joint_rates) if control is None else control
        torque = jnp.pad(tau, (1, 0)) - jnp.pad(tau, (0, 1))
        spin = symmetric_solve(mass_matrix, torque - centripetal)
        base = jnp.einsum("jx,j->x", across[0], spin) - jnp.einsum("jx,j->x", arm[0], rate**2)
        v = u[1:3]
        in_body = base @ _rotation(theta) - u[0] * jnp.stack([-v[1], v[0]])
        return jnp.concatenate([spin[:1], in_body, jnp.diff(spin)])

    def _all_masses(self) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
        """Masses and inertias, the base's first."""
        masses = jnp.concatenate([self.base_mass[None], self.masses])
        return masses, jnp.concatenate([self.base_inertia[None], self.inertias])

    def _link_centres(self, r: Float[Array, " n"]) -> Float[Array, "n 2"]:
        """p_i, the centres of mass of the links in the base frame [m]."""
        along = _directions(r)
        ends = jnp.cumsum(self.lengths[:, None] * along, axis=0)
        starts = jnp.concatenate([jnp.zeros((1, 2), r.dtype), ends[:-1]])
        return self.mount[None] + starts + self.coms[:, None] * along

    def _body_velocities(
        self, r: Float[Array, " n"], v: Velocity
    ) -> tuple[Float[Array, "b 2"], Float[Array, " b"]]:
        """The velocities of the centres of mass in base axes, and the angular velocities; those of the base come first."""
        centres, moving = jax.jvp(self._link_centres, (r,), (v[3:],))
        turning = v[0] * jnp.stack([-centres[:, 1], centres[:, 0]], axis=1)
        links = v[None, 1:3] + turning + moving
        rates = v[0] + jnp.pad(jnp.cumsum(v[3:]), (1, 0))
        return jnp.concatenate([v[None, 1:3], links]), rates

    def _levers(self) -> Float[Array, "b b 2"]:
        """The levers of x_b = x_0 + Σ_j R(φ_j) lever_bj, the centre of mass of each body b from that of the base, x_0."""
        n = self.masses.shape[0]
        carried = jnp.tril(jnp.ones((n, n), self.masses.dtype), -1) * self.lengths[None]
        along = carried + jnp.diag(self.coms)
        links = jnp.stack([along, jnp.zeros_like(along)], axis=-1)
        mount = jnp.broadcast_to(self.mount[None, None], (n, 1, 2))
        rows = jnp.concatenate([mount, links], axis=1)
        return jnp.concatenate([jnp.zeros((1, n + 1, 2), rows.dtype), rows])


def _directions(r: Float[Array, " n"]) -> Float[Array, "n 2"]:
    """e(ψ_i)."""
    psi = jnp.cumsum(r)
    return jnp.stack([jnp.cos(psi), jnp.sin(psi)], axis=1)


def _rotation(angle: Scalar) -> Float[Array, "2 2"]:
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([jnp.stack([cosine, -sine]), jnp.stack([sine, cosine])])


def _normal(rate: Scalar) -> Float[Array, " 3"]:
    """The angular velocity (0, 0, rate) about the normal of the plane."""
    return jnp.pad(rate[None], (2, 0))
