"""Chaplygin's sphere: a ball with unequal moments of inertia, its centre of mass in its centre, that rolls."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO3, Euclidean, Product, cross, quaternion_matrix
from jaxhamel.mechanics import Points, Spins, System, symmetric_solve
from jaxhamel.mechanics._description._declarations import State
from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._descriptions import ROLLING
from jaxhamel.systems._own_equations import own_equations
from jaxhamel.systems._rolling import horizontal, rolling_frame, rolling_inverse_frame


class ChaplyginSphere(System):
    r"""Chaplygin's sphere: (I + m r² (1 − Γ Γᵀ)) Ω̇ = (I Ω) × Ω, Γ = Λᵀ e_3.

        L = ½ Ω·I Ω + ½ m |ż|² on SO(3) × R² ,    ż = ω × r e_3 ,  ω = Λ Ω ,    u = Ω

    **Arguments:**

    - `radius`: r [m].
    - `mass`: m [kg].
    - `inertia`: I about the centre [kg m²], `(3,)` principal moments or `(3, 3)`.

    Configuration `q = (quaternion (4,), position (2,))`; `u = Ω (3,)` [rad/s], body frame. The
    multipliers are the friction force, (F_x, F_y) [N].

    **Invariants:** energy; K = Λ [I Ω + m r² (Ω − Γ Γ·Ω)], the angular momentum about the point of
    contact, in space. K is constant although the contact point moves, since that velocity is parallel to
    the centre's.

    **Known solution:** steady rolling about a horizontal principal axis; in general hyperelliptic
    quadratures (Chaplygin 1903), with the invariant measure `density` dΩ dΓ.

    **Raises:** ValueError for parameters that are not physical.

    Source: Müller 2021, eq. (141), (142), there in space: Θ^P ω̇ + ω × Θ^c ω = 0.
    """

    radius: Array = parameter("radius of the ball", "m", (), positive=True, example=0.2)
    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "about the centre: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.01, 0.013, 0.016),
    )

    space: ClassVar[Product] = Product(SO3(), Euclidean(2))
    n_constraints = 2
    state_names: ClassVar[State | None] = ROLLING
    on_ground = True

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "mass"))
        check_inertia("inertia", self.inertia)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(sphere=float(self.radius)),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        spin = 0.5 * jnp.dot(v[:3], inertia_matrix(self.inertia) @ v[:3])
        return spin + 0.5 * self.mass * jnp.dot(v[3:], v[3:])

    def frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """u = (ẋ − r ω_y, ẏ + r ω_x, Ω): the slip of the contact point, then Ω."""
        return rolling_frame(self.radius, quaternion_matrix(q[0]))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        return rolling_inverse_frame(self.radius, quaternion_matrix(q[0]))

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point at the centre in space axes, the rotation in body axes."""
        none = jnp.zeros((1, 3), v.dtype)
        centre = Points(self.mass[None], horizontal(v[3:])[None], none, none[0])
        return centre, Spins(inertia_matrix(self.inertia)[None], v[:3][None], none)

    def invariants(
        self, t: Time, q: Configuration, u: Vector3, control: Control
    ) -> dict[str, Array]:
        momentum = self._about_contact(q) @ u
        return {
            "energy": 0.5 * jnp.dot(u, momentum),
            "momentum about the contact": quaternion_matrix(q[0]) @ momentum,
        }

    # --- closed forms and other quantities of this system --------------------------------------

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """Ω̇ from (I + m r² (1 − Γ Γᵀ)) Ω̇ = (I Ω) × Ω. Arguments as for `jaxhamel.acceleration`."""
        turning = cross(inertia_matrix(self.inertia) @ u, u)
        return symmetric_solve(self._about_contact(q), turning)

    def density(self, q: Configuration) -> Scalar:
        """√(1 − m r² Γ·(I + m r² 1)⁻¹ Γ): the density of the invariant measure dΩ dΓ on the space of (Ω, Γ)."""
        gamma = quaternion_matrix(q[0])[2]
        roll = self.mass * self.radius * self.radius
        whole = inertia_matrix(self.inertia) + roll * jnp.eye(3, dtype=gamma.dtype)
        return jnp.sqrt(1.0 - roll * jnp.dot(gamma, symmetric_solve(whole, gamma)))

    def centre(self, q: Configuration) -> Vector3:
        """The centre in space, (x, y, r) [m]."""
        return jnp.concatenate([q[1], self.radius[None]])

    def _about_contact(self, q: Configuration) -> Float[Array, "3 3"]:
        """I + m r² (1 − Γ Γᵀ): the inertia about the point of contact, body frame."""
        gamma = quaternion_matrix(q[0])[2]
        across = jnp.eye(3, dtype=gamma.dtype) - gamma[:, None] * gamma[None, :]
        return inertia_matrix(self.inertia) + self.mass * self.radius * self.radius * across
