"""The rattleback: a convex body that rolls on the plane, its axes of inertia askew to those of its surface."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import (
    Configuration,
    Control,
    QuasiVelocity,
    Quaternion,
    Scalar,
    Time,
    Vector3,
    Velocity,
)
from jaxhamel.geometry import SO3, Euclidean, Product, cross, hat, quaternion_matrix
from jaxhamel.mechanics import Points, Spins, System, constraint_force, symmetric_solve
from jaxhamel.mechanics._description._declarations import Output, State
from jaxhamel.mechanics._description._drawing import Shape, ring
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._descriptions import ROLLING_IN_SPACE, ground_force
from jaxhamel.systems._own_equations import own_equations


class Rattleback(System):
    r"""A smooth convex body, by default an ellipsoid, that rolls without slipping on the plane.

        L = ½ Ω·I Ω + ½ m |ẋ|² − m g x_3 on SO(3) × R³ ,    ẋ = −ω × Λ s ,  ω = Λ Ω ,    u = Ω

    s = ∇h(−Γ) − χ goes from the centre of mass to the point of contact, body frame, Γ = Λᵀ e_3: h is
    the support function of the surface, h(n) = √(a_1² n_1² + a_2² n_2² + a_3² n_3²) for an ellipsoid.

    **Arguments:**

    - `surface`: the semi-axes a of an ellipsoid along the body axes, `(3,)` [m]; or a support function
        h(n) [m] of the outward unit normal n `(3,)`, body frame, a callable pytree, smooth and of a
        surface that is curved everywhere.
    - `mass`: m [kg].
    - `inertia`: I about the centre of mass [kg m²], `(3,)` principal moments or `(3, 3)`. The
        body rattles if I has a product of inertia between the two horizontal axes of its surface.
    - `com`: χ, the centre of mass from the centre of the surface, body frame [m], `(3,)`.
    - `damping`: σ [N m s] of a torque −σ Ω; None for no damping.
    - `gravity`: g [m/s²], along −z.

    Configuration `q = (quaternion (4,), x (3,))`, x the centre of mass; `u = Ω (3,)` [rad/s], body
    frame. `configuration` puts a body onto the ground. All three components of the velocity of the
    contact point are constraints, so the multipliers are the whole force of the ground (F_x, F_y, N) [N].

    **Invariants:** the height of the contact point, zero on the ground; energy, where nothing damps.

    **Known solution:** a spin about the vertical on a principal axis of the surface through the centre
    of mass is steady. With a product of inertia it is stable for one sense of the spin and unstable
    for the other, in which the body reverses: Kane and Levinson's body, spun at −5 rad/s, reverses after
    2.353 s. With a spherical surface the body is the rolling ball without masses, with
    h = r √(n_1² + n_2²) the thin disk.

    **Raises:** ValueError for parameters that are not physical.

    Source: Kane and Levinson 1982, whose third body axis points down, and whose I and σ are divided
    by m; Bondi 1986 for stability.
    """

    surface: Array | Callable[..., Any] = parameter(
        "semi-axes of the ellipsoid, along the body axes",
        "m",
        (3,),
        positive=True,
        example=(0.2, 0.03, 0.02),
    )
    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "about the centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=((0.0002, -0.00002, 0.0), (-0.00002, 0.0016, 0.0), (0.0, 0.0, 0.0017)),
    )
    com: Array = parameter(
        "centre of mass from the centre of the ellipsoid, body frame",
        "m",
        (3,),
        default=(0.0, 0.0, 0.0),
    )
    damping: Array | None = parameter(
        "σ of a torque −σ Ω; none when absent", "N m s", (), least=0.0, default=None
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )

    space: ClassVar[Product] = Product(SO3(), Euclidean(3))
    n_constraints = 3
    state_names: ClassVar[State | None] = ROLLING_IN_SPACE
    on_ground = True

    def __check_init__(self) -> None:
        if not callable(self.surface):
            _checks.check_shape("surface", self.surface, (3,), "It has the three semi-axes.")
            _checks.check_positive("surface", self.surface)
        _checks.check_numbers(self, positive=("mass",), finite=("gravity",))
        check_inertia("inertia", self.inertia)
        _checks.check_shape("com", self.com, (3,))
        _checks.check_finite("com", self.com)
        if self.damping is not None:
            _checks.check_shape("damping", self.damping, ())
            _checks.check_not_negative("damping", self.damping)

    def initial_state(self) -> tuple[Any, ...]:
        """The body at rest on the ground at the origin, with its third axis up."""
        return self.configuration(SO3().identity(), jnp.zeros(2)), jnp.zeros(3)

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        return (ground_force(self, t, q, u, control, self.mass * self.gravity),)

    def shapes(self) -> tuple[Shape, ...]:
        if callable(self.surface):
            return (Shape(triad=True),)
        axes, com = np.asarray(self.surface, dtype=float), np.asarray(self.com, dtype=float)
        rings = [ring(1.0, axis) * axes[None] - com[None] for axis in np.eye(3)]
        return (Shape(rings),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        spin = 0.5 * jnp.dot(v[:3], inertia_matrix(self.inertia) @ v[:3])
        return spin + self.mass * (0.5 * jnp.dot(v[3:], v[3:]) - self.gravity * q[1][2])

    def frame(self, t: Time, q: Configuration) -> Float[Array, "6 6"]:
        """u = (ẋ + Λ (Ω × s), Ω): the velocity of the contact point, then Ω."""
        eye, zero = _eye_and_zero(q)
        return jnp.block([[-self._lever(q), eye], [eye, zero]])

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "6 6"]:
        eye, zero = _eye_and_zero(q)
        return jnp.block([[zero, eye], [eye, self._lever(q)]])

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 6"]:
        """Q = (−σ Ω, 0): the damping torque."""
        return jnp.concatenate([self._torque(v[:3]), jnp.zeros(3, v.dtype)])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point at the centre of mass in space axes, the rotation in body axes."""
        weight = -self.mass * self.gravity * jnp.eye(3, dtype=v.dtype)[2:]
        centre = Points(self.mass[None], v[3:][None], weight, jnp.zeros(3, v.dtype))
        inertia, torque = inertia_matrix(self.inertia), self._torque(v[:3])
        return centre, Spins(inertia[None], v[:3][None], torque[None])

    def invariants(
        self, t: Time, q: Configuration, u: Vector3, control: Control
    ) -> dict[str, Array]:
        height = {"height": self.contact_point(q)[2]}
        if self.damping is not None:
            return height
        v = jnp.concatenate([u, self._lever(q) @ u])
        weight = 2.0 * self.mass * self.gravity * q[1][2]
        return {"energy": self.lagrangian(t, q, v) + weight, **height}

    # --- closed forms and other quantities of this system --------------------------------------

    def support_point(self, normal: Vector3) -> Vector3:
        """The point of the surface whose outward unit normal is n, from its centre, body frame [m]:

            h n + (1 − n nᵀ) ∇h ,

        for which h is needed for unit vectors only; for an ellipsoid a² n/h.
        """
        if not callable(self.surface):
            squared = self.surface * self.surface
            return squared * normal / jnp.sqrt(jnp.sum(squared * normal * normal))
        height, gradient = jax.value_and_grad(self.surface)(normal)
        return gradient + (height - jnp.dot(normal, gradient)) * normal

    def contact_point(self, q: Configuration) -> Vector3:
        """The lowest point of the surface in space [m]."""
        rotation = quaternion_matrix(q[0])
        return q[1] + rotation @ self._arm(rotation[2])

    def configuration(self, q: Quaternion, contact: Float[Array, " 2"]) -> Configuration:
        """The body with this orientation on the ground, its point of contact at `contact` (x, y) [m]."""
        rotation = quaternion_matrix(q)
        ground = jnp.concatenate([contact, jnp.zeros(1, contact.dtype)])
        return q, ground - rotation @ self._arm(rotation[2])

    def contact_force(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """Force of the ground on the body in space, (F_x, F_y, N) [N]: the multipliers."""
        return constraint_force(self, t, q, u, control)

    def centre(self, q: Configuration) -> Vector3:
        """The centre of mass in space [m]."""
        return q[1]

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """Ω̇ from the balance of moments about the centre of mass, the force being m (ẍ + g e_3):

            (I + m (|s|² − s sᵀ)) Ω̇ = (I Ω) × Ω − σ Ω + m s × (g Γ − Ω × ṡ − Ω × (Ω × s)) ,

        ṡ along Γ̇ = Γ × Ω. Arguments as for `jaxhamel.acceleration`, whose value it equals; both computations
        have only s in common.
        """
        gamma = quaternion_matrix(q[0])[2]
        s, s_dot = jax.jvp(self._arm, (gamma,), (cross(gamma, u),))
        inertia = inertia_matrix(self.inertia)
        pull = self.gravity * gamma - cross(u, s_dot) - cross(u, cross(u, s))
        right = cross(inertia @ u, u) + self._torque(u) + self.mass * cross(s, pull)
        across = jnp.dot(s, s) * jnp.eye(3, dtype=s.dtype) - s[:, None] * s[None, :]
        return symmetric_solve(inertia + self.mass * across, right)

    def _arm(self, gamma: Vector3) -> Vector3:
        """s, from the centre of mass to the point of contact, body frame."""
        return self.support_point(-gamma) - self.com

    def _lever(self, q: Configuration) -> Float[Array, "3 3"]:
        """Λ ŝ: the velocity of the centre of mass is Λ ŝ Ω."""
        rotation = quaternion_matrix(q[0])
        return rotation @ hat(self._arm(rotation[2]))

    def _torque(self, omega: Vector3) -> Vector3:
        """−σ Ω."""
        return jnp.zeros_like(omega) if self.damping is None else -self.damping * omega


def _eye_and_zero(q: Configuration) -> tuple[Array, Array]:
    return jnp.eye(3, dtype=q[0].dtype), jnp.zeros((3, 3), q[0].dtype)
