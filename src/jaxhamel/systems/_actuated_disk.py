"""The disk of Putkaradze and Rogers (2018): rolls in a plane, driven by point masses inside it."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO2, Euclidean, Product
from jaxhamel.mechanics import Constant, Points, Spins, System, acceleration
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Output, Part, State
from jaxhamel.mechanics._description._drawing import Shape, about_y, wheel
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.systems._checks import check_rails
from jaxhamel.systems._descriptions import ground_force, rail_parameters
from jaxhamel.systems._own_equations import own_equations
from jaxhamel.systems._rails import unit_of_rails


class ActuatedDisk(System):
    r"""A disk that rolls in the vertical plane of e_1, e_3 while point masses move along its rails.

        L = ½ d_2 φ̇² + Σ ½ m_i (ẋ_i² + ḣ_i²) − g Σ m_i h_i ,     i = 0 the disk, i ≥ 1 the masses
        x_i = z_1 + χ_i1 cos φ − χ_i3 sin φ ,   h_i = χ_i1 sin φ + χ_i3 cos φ ,   χ_i = ζ_i(θ_i(t))
        ż_1 = −r φ̇                                                        (constraint one-form)

    **Arguments:**

    - `radius`: r [m].
    - `disk_mass`: m_0 [kg]; `disk_inertia`: d_2 about the disk's own centre of mass [kg m²];
        `disk_com`: χ_0 from the geometric centre, body frame [m], `(3,)`.
    - `masses`: m_i [kg], `(n,)`; zero is allowed. `rails`: θ `(n,)` → body-frame positions `(n, 3)`
        [m], of which the components along e_1 and e_3 count.
    - `gravity`: g [m/s²], along −e_3.
    - `external_force`: F_e,1 on the geometric centre along e_1 [N].

    Configuration `q = (φ (1,) [rad], z_1 (1,) [m])`, `u = φ̇ (1,)`, control θ(t) `(n,)`, a callable
    whose rates come from autodiff; a constant keeps the masses where they are. φ is positive opposite to
    the rotation about e_2: the disk rolls towards −e_1 as φ grows, Γ = (sin φ, 0, cos φ), Ω = −φ̇ e_2.

    **Invariants:** energy, where the masses stand still and no force acts.

    **Known solution:** a single eccentric disk, centre of mass l below its centre, swings about
    its lowest position with ω² = m g l / (d_2 + m (r − l)²) for small angles.

    **Raises:** ValueError for parameters that are not physical.

    Source: Putkaradze and Rogers 2018, eq. (3.39), (C.5), evaluated by `closed_form` as a check.
    """

    radius: Array = parameter("radius of the disk", "m", (), positive=True, example=0.2)
    disk_mass: Array = parameter("mass of the disk", "kg", (), positive=True, example=1.0)
    disk_inertia: Array = parameter(
        "about the disk's centre of mass", "kg m²", (), positive=True, example=0.02
    )
    disk_com: Array = parameter(
        "centre of mass of the disk, body frame", "m", (3,), default=(0.0, 0.0, 0.0)
    )
    masses: Array = parameter("the moving masses, one for each rail", "kg", ("n",), default=())
    rails: Callable[[Array], Array] | None = None
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )
    external_force: Array = parameter("on the geometric centre, along x", "N", (), default=0.0)

    space: ClassVar[Product] = Product(SO2(), Euclidean(1))
    n_constraints = 1
    prescribed_motion = True
    state_names: ClassVar[State | None] = State(
        (
            Part(
                "angle", ("phi",), "rad", "φ; the disk rolls towards −x as it grows", ("φ",), False
            ),
            Part("position", ("x",), "m", "of the centre along x"),
        ),
        (Part("rate", ("phi_dot",), "rad/s", "φ̇", ("φ̇",), False),),
    )
    on_ground = True

    def __check_init__(self) -> None:
        positive, finite = ("radius", "disk_mass", "disk_inertia"), ("gravity", "external_force")
        _checks.check_numbers(self, positive, finite)
        _checks.check_shape("disk_com", self.disk_com, (3,))
        _checks.check_finite("disk_com", self.disk_com)
        _checks.check_shape("masses", self.masses, ("n_masses",))
        _checks.check_not_negative("masses", self.masses)
        check_rails(self.rails, self.n_masses)

    @property
    def n_masses(self) -> int:
        """n, the number of moving masses."""
        return self.masses.shape[0]

    # --- the system, for the general equations ---------------------------------------------

    @property
    def n_controls(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.n_masses

    @property
    def unit_of_parts(self) -> str:
        """The unit of θ, as the rails give it."""
        return unit_of_rails(self.rails)

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        return (
            *rail_parameters(self, t, control),
            ground_force(self, t, q, u, control, self.gravity * jnp.sum(self._all_masses())),
        )

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        centre = jnp.stack([q[1][0], jnp.zeros_like(q[1][0]), self.radius.astype(q[1].dtype)])
        return ((about_y(-q[0][0]), centre),)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(wheel(float(self.radius))),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity, control: Control = None) -> Scalar:
        """The Lagrangian of the disk without its rolling constraint, which is a row of the frame."""
        height, velocity = self._motion_of_masses(t, q, v, control)
        mass = self._all_masses()
        squared = jnp.sum(velocity * velocity, axis=1)
        spin = 0.5 * self.disk_inertia * v[0] * v[0]
        return spin + jnp.dot(mass, 0.5 * squared - self.gravity * height)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "2 2"]:
        """u = A v: the slip ż_1 + r φ̇ of the contact point, then φ̇."""
        one, zero = jnp.ones_like(self.radius), jnp.zeros_like(self.radius)
        return jnp.stack([jnp.stack([self.radius, one]), jnp.stack([one, zero])])

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "2 2"]:
        one, zero = jnp.ones_like(self.radius), jnp.zeros_like(self.radius)
        return jnp.stack([jnp.stack([zero, one]), jnp.stack([one, -self.radius])])

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 2"]:
        """(0, F_e,1): the force acts at the geometric centre."""
        return jnp.stack([jnp.zeros_like(self.external_force), self.external_force])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The disk and the masses as points in space axes, F_e as a point without mass at the geometric centre."""
        _, velocity = self._motion_of_masses(t, q, v, control)
        zero, mass = jnp.zeros_like(v[0]), self._all_masses()
        weights = _spatial(jnp.zeros_like(mass), -self.gravity * mass)
        push = _spatial(self.external_force[None], zero[None])
        at_centre = _spatial(v[1:], zero[None])
        points = Points(
            jnp.append(mass, zero),
            jnp.concatenate([_spatial(velocity[:, 0], velocity[:, 1]), at_centre]),
            jnp.concatenate([weights, push]),
            jnp.zeros(3, v.dtype),
        )
        inertia = self.disk_inertia * jnp.eye(3, dtype=v.dtype)  # only the moment about e_2 is used
        omega = jnp.stack([zero, -v[0], zero])
        return points, Spins(inertia[None], omega[None], jnp.zeros((1, 3), v.dtype))

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 1"], control: Control
    ) -> dict[str, Array]:
        if self.n_masses and not isinstance(control, Constant):
            return {}
        v = self.inverse_frame(t, q)[:, 1:] @ u
        height, velocity = self._motion_of_masses(t, q, v, control)
        squared = jnp.sum(velocity * velocity, axis=1)
        energy = 0.5 * self.disk_inertia * u[0] * u[0] - self.external_force * q[1][0]
        return {
            "energy": energy + jnp.dot(self._all_masses(), 0.5 * squared + self.gravity * height)
        }

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives one θ for each mass."""
        if self.n_masses:
            check_control_value(t, control, (self.n_masses,), "the masses' positions theta")

    # --- closed forms and other quantities of this system --------------------------------------

    @compiled
    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Float[Array, " 1"], control: Control = None
    ) -> Float[Array, " 1"]:
        """φ̈ from Putkaradze and Rogers (3.39), with the denominator (C.5):

            [d_2 + Σ m_i (b_i² + c_i²)] φ̈ = −r F_e,1 + Σ m_i K_i ,
            K_i = (g + r φ̇²)(χ_i3 sin φ − χ_i1 cos φ) + c_i (χ̈_i1 − 2 φ̇ χ̇_i3)
                  − b_i (χ̈_i3 + 2 φ̇ χ̇_i1) ,    b_i = r sin φ + χ_i1 ,  c_i = r cos φ + χ_i3 .

        Arguments as for `jaxhamel.acceleration`, whose value it equals by an independent computation.
        """
        t, q, (u,), control = prepare(q, u, t=t, control=control)
        phi_dot = u[0]
        (chi, first), (_, second) = jax.jvp(
            lambda t: self._positions_and_rates(t, control), (t,), (jnp.ones_like(t),)
        )
        sin, cos = jnp.sin(q[0][0]), jnp.cos(q[0][0])
        b, c = self.radius * sin + chi[:, 0], self.radius * cos + chi[:, 2]
        weight = self.gravity + self.radius * phi_dot * phi_dot
        moment = (
            weight * (chi[:, 2] * sin - chi[:, 0] * cos)
            + c * (second[:, 0] - 2 * phi_dot * first[:, 2])
            - b * (second[:, 2] + 2 * phi_dot * first[:, 0])
        )
        mass = self._all_masses()
        denominator = self.disk_inertia + jnp.dot(mass, b * b + c * c)
        push = -self.radius * self.external_force
        return ((push + jnp.dot(mass, moment)) / denominator)[None]

    @compiled
    @own_equations
    def contact_force(
        self, t: Time, q: Configuration, u: Float[Array, " 1"], control: Control = None
    ) -> Vector3:
        """Force of the ground on the disk, (f, 0, N) in space [N]: Σ m_i (r̈_i + g e_3) − F_e,1 e_1.

        f is the multiplier of the rolling constraint. Arguments as for `jaxhamel.acceleration`.
        """
        t, q, (u,), control = prepare(q, u, t=t, control=control)
        u_dot = acceleration(self, t, q, u, control)
        roll = self.inverse_frame(t, q)[:, 1:]

        def velocity(t, q, u):
            return self._motion_of_masses(t, q, roll @ u, control)[1]

        q_dot = self.space.rate(q, roll @ u)
        _, rate = jax.jvp(velocity, (t, q, u), (jnp.ones_like(t), q_dot, u_dot))
        mass = self._all_masses()
        friction = jnp.dot(mass, rate[:, 0]) - self.external_force
        normal = jnp.dot(mass, rate[:, 1] + self.gravity)
        return jnp.stack([friction, jnp.zeros_like(normal), normal])

    def contact_point(self, q: Configuration) -> Vector3:
        """The contact point (z_1, 0, 0) [m]: below the geometric centre, on the line along which the disk rolls."""
        return jnp.concatenate([q[1], jnp.zeros(2, q[1].dtype)])

    def mass_positions(self, t: Time, control: Control) -> Float[Array, "n 3"]:
        """ζ_i(θ_i(t)): the moving masses in the body frame [m]."""
        if self.rails is None or self.n_masses == 0:
            return jnp.zeros((0, 3), self.radius.dtype)
        return self.rails(control(t))

    def _motion_of_masses(self, t, q, v, control) -> tuple[Array, Array]:
        """The heights h_i above the geometric centre, `(n+1,)`, and the velocities (ẋ_i, ḣ_i) in space, `(n+1, 2)`."""
        chi, chi_dot = self._positions_and_rates(t, control)
        (x, _, z), (dx, _, dz) = jnp.unstack(chi, axis=1), jnp.unstack(chi_dot, axis=1)
        sin, cos = jnp.sin(q[0][0]), jnp.cos(q[0][0])
        height = sin * x + cos * z
        across = cos * x - sin * z
        omega, speed = jnp.unstack(v)
        x_dot = speed - omega * height + cos * dx - sin * dz
        h_dot = omega * across + sin * dx + cos * dz
        return height, jnp.stack([x_dot, h_dot], axis=1)

    def _positions_and_rates(self, t, control) -> tuple[Array, Array]:
        """χ_i and χ̇_i, `(n+1, 3)`, the disk's own centre of mass first."""

        def position(t):
            return self.mass_positions(t, control)

        chi, chi_dot = jax.jvp(position, (t,), (jnp.ones_like(t),))
        disk = self.disk_com[None, :]
        return jnp.concatenate([disk, chi]), jnp.concatenate([jnp.zeros_like(disk), chi_dot])

    def _all_masses(self) -> Float[Array, " n+1"]:
        return jnp.concatenate([self.disk_mass[None], self.masses])


def _spatial(x: Float[Array, " n"], z: Float[Array, " n"]) -> Float[Array, "n 3"]:
    """Vectors (x, 0, z) of the vertical plane."""
    return jnp.stack([x, jnp.zeros_like(x), z], axis=1)
