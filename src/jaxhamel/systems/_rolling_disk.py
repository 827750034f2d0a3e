"""A disk (a coin, a wheel, a hoop) that rolls on the plane and is free to lean."""

from typing import Any, ClassVar

import jax.numpy as jnp
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
from jaxhamel.mechanics._description._drawing import Shape, wheel
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_axisymmetric, check_inertia
from jaxhamel.systems._descriptions import ROLLING_IN_SPACE, ground_force
from jaxhamel.systems._own_equations import own_equations


class RollingDisk(System):
    r"""A thin disk that rolls without slipping and is free to lean.

        L = ½ Ω·I Ω + ½ m |ż|² − m g z_3 on SO(3) × R³ ,    ż = ω × r Λ d ,  ω = Λ Ω ,    u = Ω

    d = (Γ_1, Γ_2, 0)/√(Γ_1² + Γ_2²), Γ = Λᵀ e_3, is the unit vector in the plane of the disk, body
    frame, from the lowest point of the rim to the centre.

    **Arguments:**

    - `radius`: r [m].
    - `mass`: m [kg].
    - `inertia`: I about the centre [kg m²], `(3,)` principal moments or `(3, 3)`, the axis of the
        disk along e_3 of the body; default: that of a thin homogeneous disk, m r² (¼, ¼, ½).
    - `gravity`: g [m/s²], along −z.

    Configuration `q = (quaternion (4,), centre (3,))`; `u = Ω (3,)` [rad/s], body frame.
    `configuration` puts a disk onto the ground. All three components of the velocity of the contact
    point are constraints, including the vertical one, so the multipliers are the whole force of the ground
    on the disk, (F_x, F_y, N) [N]. A disk that lies flat has no single point of contact: Γ = ±e_3 is
    singular.

    **Invariants:** energy; the height z_3 − r √(Γ_1² + Γ_2²), zero on the ground. With I = (A, A, C)
    two more, hypergeometric (Legendre, for a homogeneous disk) functions of the lean.

    **Known solution:** steady rolling round a circle, see `steady_rolling`. A homogeneous disk that
    rolls straight on is stable for Ω² > g/(3 r), one that spins upright for Ω² > 4 g/(5 r).

    **Raises:** ValueError for parameters that are not physical.

    Source: Le Saux, Leine and Glocker 2005; Appell 1900, Korteweg 1899 for the integrals. Books
    differ in the axis: many take e_2 of the body for it.
    """

    radius: Array = parameter("radius of the disk", "m", (), positive=True, example=0.3)
    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array | None = parameter(
        "about the centre, the axis of the disk along e₃: principal moments or matrix; default: a thin homogeneous disk",
        "kg m²",
        INERTIA,
        default=None,
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )

    space: ClassVar[Product] = Product(SO3(), Euclidean(3))
    n_constraints = 3
    state_names: ClassVar[State | None] = ROLLING_IN_SPACE
    on_ground = True

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "mass"), finite=("gravity",))
        if self.inertia is not None:
            check_inertia("inertia", self.inertia)

    def initial_state(self) -> tuple[Any, ...]:
        """The disk at rest and upright on the ground at the origin, with its axis along −y."""
        upright = jnp.sqrt(0.5) * jnp.array([1.0, 1.0, 0.0, 0.0])
        return self.configuration(upright, jnp.zeros(2)), jnp.zeros(3)

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        return (ground_force(self, t, q, u, control, self.mass * self.gravity),)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(wheel(float(self.radius), (0.0, 0.0, 1.0))),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        spin = 0.5 * jnp.dot(v[:3], self.inertia_matrix() @ v[:3])
        return spin + self.mass * (0.5 * jnp.dot(v[3:], v[3:]) - self.gravity * q[1][2])

    def frame(self, t: Time, q: Configuration) -> Float[Array, "6 6"]:
        """u = (ż + Λ (r d × Ω), Ω): the velocity of the contact point, then Ω."""
        eye, zero = _eye_and_zero(q)
        return jnp.block([[self._lever(q), eye], [eye, zero]])

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "6 6"]:
        eye, zero = _eye_and_zero(q)
        return jnp.block([[zero, eye], [eye, -self._lever(q)]])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point at the centre in space axes, the rotation in body axes."""
        none = jnp.zeros((1, 3), v.dtype)
        weight = -self.mass * self.gravity * jnp.eye(3, dtype=v.dtype)[2:]
        centre = Points(self.mass[None], v[3:][None], weight, none[0])
        return centre, Spins(self.inertia_matrix()[None], v[:3][None], none)

    def invariants(
        self, t: Time, q: Configuration, u: Vector3, control: Control
    ) -> dict[str, Array]:
        v = self.inverse_frame(t, q)[:, 3:] @ u
        energy = self.lagrangian(t, q, v) + 2.0 * self.mass * self.gravity * q[1][2]
        return {"energy": energy, "height": q[1][2] - self.radius * _upward(q[0])[1]}

    # --- closed forms and other quantities of this system --------------------------------------

    def inertia_matrix(self) -> Float[Array, "3 3"]:
        """I about the centre, `(3, 3)` [kg m²]."""
        if self.inertia is not None:
            return inertia_matrix(self.inertia)
        unit = jnp.asarray([0.25, 0.25, 0.5], self.mass.dtype)
        return jnp.diag(self.mass * self.radius * self.radius * unit)

    def configuration(self, q: Quaternion, contact: Float[Array, " 2"]) -> Configuration:
        """The disk with this orientation on the ground, its point of contact at `contact` (x, y) [m]."""
        ground = jnp.concatenate([contact, jnp.zeros(1, contact.dtype)])
        return q, ground + self.radius * (quaternion_matrix(q) @ _upward(q)[0])

    def contact_point(self, q: Configuration) -> Vector3:
        """The lowest point of the rim in space [m]."""
        return q[1] - self.radius * (quaternion_matrix(q[0]) @ _upward(q[0])[0])

    def contact_force(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """Force of the ground on the disk in space, (F_x, F_y, N) [N]: the multipliers."""
        return constraint_force(self, t, q, u, control)

    def centre(self, q: Configuration) -> Vector3:
        """The centre in space [m]."""
        return q[1]

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """Ω̇ from the balance of moments about the centre, the force being m (z̈ + g e_3):

            (I + m r² (1 − d dᵀ)) Ω̇ = (I Ω) × Ω − m r d × (r Ω × ḋ + Ω × (Ω × r d) + g Γ)

        with ḋ = (Γ̇_h − d d·Γ̇_h)/√(Γ_1² + Γ_2²), Γ̇ = Γ × Ω. Arguments as for
        `jaxhamel.acceleration`, whose value it equals by an independent computation.
        """
        gamma = quaternion_matrix(q[0])[2]
        d, tall = _upward(q[0])
        gamma_dot = cross(gamma, u).at[2].set(0.0)
        d_dot = (gamma_dot - d * jnp.dot(d, gamma_dot)) / tall
        inertia = self.inertia_matrix()
        rest = self.radius * (cross(u, d_dot) + cross(u, cross(u, d))) + self.gravity * gamma
        right = cross(inertia @ u, u) - self.mass * self.radius * cross(d, rest)
        across = jnp.eye(3, dtype=d.dtype) - d[:, None] * d[None, :]
        return symmetric_solve(inertia + self.mass * self.radius * self.radius * across, right)

    @own_equations
    def steady_rate(self, tilt: Scalar, path_radius: Scalar) -> Scalar:
        """σ > 0 [rad/s], the rate about the vertical of steady rolling round a circle, for I = (A, A, C):

            σ² = m g r sin β / (cos β [(C + m r²)(R/r − sin β) + A sin β]) .

        **Arguments:** `tilt`: β from the vertical, towards the centre of the circle [rad];
        `path_radius`: R, of the contact's circle [m].

        **Raises:** `ValueError` for an inertia that is not (A, A, C).

        Source: for the homogeneous disk Le Saux, Leine and Glocker 2005, eq. (5.10).
        """
        check_axisymmetric("inertia", self.inertia_matrix())
        inertia, roll = self.inertia_matrix(), self.mass * self.radius * self.radius
        sin, cos = jnp.sin(tilt), jnp.cos(tilt)
        arm = (inertia[2, 2] + roll) * (path_radius / self.radius - sin) + inertia[0, 0] * sin
        return jnp.sqrt(self.mass * self.gravity * self.radius * sin / (cos * arm))

    @own_equations
    def steady_rolling(self, tilt: Scalar, path_radius: Scalar) -> tuple[Configuration, Vector3]:
        """A state (q, u) of steady rolling counter-clockwise round the origin, with the contact point at (R, 0).

        Arguments and errors as for `steady_rate`. Relative to the vertical plane through its axis, the disk turns at the
        rate −σ R/r about its axis.
        """
        tilt, path_radius = jnp.asarray(tilt), jnp.asarray(path_radius)
        rate, half = self.steady_rate(tilt, path_radius), jnp.pi / 4 - tilt / 2
        zero = jnp.zeros_like(half)
        q = jnp.stack([zero, jnp.sin(half), zero, jnp.cos(half)])
        spin = jnp.sin(tilt) - path_radius / self.radius
        u = rate * jnp.stack([jnp.cos(tilt), jnp.zeros_like(spin), spin])
        return self.configuration(q, jnp.stack([path_radius, jnp.zeros_like(path_radius)])), u

    def _lever(self, q: Configuration) -> Float[Array, "3 3"]:
        """Λ r d̂, with which −Λ r d̂ Ω is the velocity that rolling gives the centre; d: see `_upward`."""
        return self.radius * (quaternion_matrix(q[0]) @ hat(_upward(q[0])[0]))


def _upward(q: Quaternion) -> tuple[Vector3, Scalar]:
    """d in the body frame, and √(Γ_1² + Γ_2²)."""
    x, y, _ = jnp.unstack(quaternion_matrix(q)[2])
    tall = jnp.sqrt(x * x + y * y)
    return jnp.stack([x, y, jnp.zeros_like(tall)]) / tall, tall


def _eye_and_zero(q: Configuration) -> tuple[Array, Array]:
    return jnp.eye(3, dtype=q[0].dtype), jnp.zeros((3, 3), q[0].dtype)
