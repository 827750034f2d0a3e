"""Base class of balls that roll on the plane z = 0 or on any other surface: the rolling constraints and the contact."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._checks._values import inline
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time, Vector3
from jaxhamel.geometry import (
    cross,
    principal_curvatures,
    quaternion_matrix,
    surface_axes,
    surface_point,
)
from jaxhamel.geometry._surface import surface_bend
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._declarations import Output
from jaxhamel.systems._rolling import (
    Contact,
    contact_of,
    rolling_frame,
    rolling_inverse_frame,
)


class AbstractBallOnGround(System):
    """A ball of radius r that rolls on the ground p(x): q = (quaternion, x, …), Ω is the first part of u.

        ċ = ω × r n ,    c = p + r n ,    ω = Λ Ω

    c is the geometric centre, n the normal of the ground, x `(2,)` the coordinates of the contact point on the ground.
    Without `ground` it is the plane z = 0, and x the position (x, y). With t₁, t₂ and n from `geometry.surface_axes` the
    slip along t₁ and t₂ is

        t₁·ċ − r ω·t₂ ,    t₂·ċ + r ω·t₁ ,    t_a·ċ = E_ab ẋ_b ,    E_ab = t_a·∂c/∂x_b .
    """

    radius: eqx.AbstractVar[Array]

    n_constraints: ClassVar[int] = 2
    on_ground: ClassVar[bool] = True

    @property
    def _surface(self) -> Callable[[Array], Array] | None:
        """The field `ground` of a subclass. Declared here, it would be the second argument of the constructors for type
        checkers.
        """
        return getattr(self, "ground", None)

    @abstractmethod
    def contact_force(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
    ) -> Vector3:
        """Force of the ground on the ball along t₁, t₂ and n [N]."""

    def contact(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
    ) -> Contact:
        """Normal force N [N] and the friction coefficient that rolling needs, √(F₁² + F₂²)/N or +inf if N ≤ 0."""
        return contact_of(self.contact_force(t, q, u, control))

    def contact_point(self, q: Configuration) -> Vector3:
        """The point of contact in space, p(x) [m]; on the plane (x, y, 0)."""
        if self._surface is None:
            return jnp.concatenate([q[1], jnp.zeros_like(q[1][:1])])
        return surface_point(self._surface, q[1])

    def centre(self, q: Configuration) -> Vector3:
        """The geometric centre in space, p + r n [m]; on the plane (x, y, r)."""
        if self._surface is None:
            return jnp.concatenate([q[1], jnp.reshape(self.radius, (1,)).astype(q[1].dtype)])
        return (
            surface_point(self._surface, q[1]) + self.radius * surface_axes(self._surface, q[1])[2]
        )

    def ground_axes(self, q: Configuration) -> Float[Array, "3 3"]:
        """The rows t₁, t₂ and n: axes of the ground at the contact point, in space; on the plane those of space."""
        if self._surface is None:
            return jnp.eye(3, dtype=q[1].dtype)
        return surface_axes(self._surface, q[1])

    def check_configuration(self, q: Configuration) -> None:
        """Checks that the ball fits into the ground at its contact point."""
        if self._surface is not None and (fit := float(self.fit(q))) <= 0.0:
            r = float(self.radius)
            raise ValueError(
                f"`q` has the contact point x = {inline(np.asarray(q[1]))}, where the ball does not fit into the ground: "
                f"its radius is {r:.6g} m and the ground's radius of curvature {r / (1.0 - fit):.3g} m. Start elsewhere, "
                "give a smaller `radius`, or a `ground` that is smoother."
            )

    @compiled
    def fit(self, q: Configuration) -> Array:
        """1 − r κ₂, κ₂ the larger principal curvature of the ground: the ball fits into the ground where it is positive.

        At zero the contact point is singular: an infinite velocity of it belongs to a finite one of the centre. Where
        the number is negative, the ball would touch the ground elsewhere, too, and its motion has no meaning.
        """
        if self._surface is None:
            return jnp.ones_like(self.radius)
        return 1.0 - self.radius * principal_curvatures(self._surface, q[1])[1]

    # --- parts of the equations of a ball -------------------------------------------------------

    def _axes_in_body(self, q: Configuration) -> Float[Array, "3 3"]:
        """The axes of the ground at the contact point in body axes: the rows Λᵀ t₁, Λᵀ t₂ and Γ = Λᵀ n."""
        rotation = quaternion_matrix(q[0])
        return rotation if self._surface is None else surface_axes(self._surface, q[1]) @ rotation

    def _footing(self, q: Configuration) -> tuple[Float[Array, "3 3"], Float[Array, "2 2"] | None]:
        """The rows Λᵀ t₁, Λᵀ t₂, Γ; and E, the velocities of the centre along t₁ and t₂ by the rates of x, or None for the
        plane, where E = 1.
        """
        rotation = quaternion_matrix(q[0])
        if self._surface is None:
            return rotation, None
        bend = surface_bend(self._surface, q[1])
        return bend.axes @ rotation, bend.axes[:2] @ (bend.point + self.radius * bend.normal)

    def _centre_velocity(self, q: Configuration, rates: Float[Array, " 2"]) -> Vector3:
        """Λᵀ ċ from the rates of x, by which the centre has no velocity along n."""
        axes, advance = self._footing(q)
        along, across = jnp.unstack(rates if advance is None else advance @ rates)
        return along * axes[0] + across * axes[1]

    def _rolling_frame(self, q: Configuration) -> Float[Array, "5 5"]:
        return rolling_frame(self.radius, *self._footing(q))

    def _rolling_inverse_frame(self, q: Configuration) -> Float[Array, "5 5"]:
        return rolling_inverse_frame(self.radius, *self._footing(q))

    def _acceleration_of_bend(self, q: Configuration, omega: Vector3) -> Vector3 | None:
        """Ω × r Λᵀ ṅ: the part of the centre's acceleration that is due to the bend of the ground, body frame; None on
        the plane.
        """
        if self._surface is None:
            return None
        rates = self._rolling_inverse_frame(q)[3:, 2:] @ omega
        normal_rate = surface_bend(self._surface, q[1]).normal @ rates
        return self.radius * cross(omega, normal_rate @ quaternion_matrix(q[0]))

    def _fit_output(self, q: Configuration) -> tuple[Output, ...]:
        """The output with `fit`; empty on the plane."""
        if self._surface is None:
            return ()
        about = "Fit of the ball into the ground, 1 − r κ"
        return (Output(self.fit(q)[None], "fit", ("fit",), "", about),)
