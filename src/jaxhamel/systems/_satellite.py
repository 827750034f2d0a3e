"""A satellite with reaction wheels, free in space: on SE(3), and about its centre of mass on SO(3) × R^3."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import (
    SE3,
    SO3,
    AbstractSpace,
    Euclidean,
    Product,
    cross,
    hat,
    quaternion_matrix,
)
from jaxhamel.mechanics import Points
from jaxhamel.mechanics._description._declarations import OMEGA, ORIENTATION, Part, State
from jaxhamel.mechanics._description._drawing import Place, Shape
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._descriptions import IN_SPACE
from jaxhamel.systems._wheeled_satellite import AbstractSatellite


class Satellite(AbstractSatellite):
    r"""A rigid body with n reaction wheels anywhere in it, free in space, in body velocities.

        d/dt Π = ad_Vᵀ Π ,    Π = L_0 V + Σ (J_i a_i, 0) φ̇_i ,    J_i (φ̈_i + a_i·ω̇) = τ_i    on SE(3) × R^n
        L_0 = [[Θ, m d̂], [−m d̂, m 1]] ,    Θ = I − m_b d̂_b² + Σ (I_i − m_i d̂_i²)

    Each wheel spins about its own centre of mass, so its spin adds the momentum (J_i a_i, 0) and no linear
    one, at any position; L_0 contains the masses of the wheels at their positions.

    **Arguments:**

    - `wheel_axes`: a_i, unit vectors, body frame, `(n, 3)`.
    - `wheel_inertias`: J_i about the axes [kg m²], `(n,)`.
    - `mass`: m_b [kg], `inertia`: I [kg m²], `(3,)` principal moments or `(3, 3)`, about its own centre of mass
        d_b = `com` [m] `(3,)`: the body without wheels. The frame's origin may be anywhere on it.
    - `wheel_masses`: m_i [kg], `(n,)`; `wheel_positions`: d_i [m], body frame, `(n, 3)`;
        `wheel_transverse_inertias`: of I_i across its axis [kg m²], `(n,)`, J_i/2 for thin discs.

    Configuration `q = ((quaternion, position) (7,), wheel angles (n,))`; `u = (ω, v, φ̇)`, body twist of the
    frame; control: wheel torques τ `(n,)` [N m], or None.

    **Invariants:** the momentum in space, (angular about the origin, linear) [N m s, N s], under any
    torques; energy, without.

    **Known solution:** at zero momentum ω = −A φ̇, A = Θ_c⁻¹ (J_i a_i) with Θ_c about the centre of mass, which
    rests: one wheel alone turns the body about a fixed axis and back (no phase); a small loop of area S in
    (φ_1, φ_2) turns it by S A_1 × A_2.

    **Raises:** ValueError for parameters that are not physical.

    Source: Müller 2023, section 5(f)(ii). His (5.26)–(5.27) take the wheels' axes through the frame's origin
    and Θ^i about it, which is correct only for a_i × d_i = 0, see docs/ERRATA.md.
    """

    mass: Array = parameter("mass", "kg", (), positive=True, example=5.0, kw_only=True)
    inertia: Array = parameter(
        "about the centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.9, 1.0, 1.1),
        kw_only=True,
    )
    com: Array = parameter(
        "centre of mass of the body without wheels, body frame",
        "m",
        (3,),
        kw_only=True,
        default=(0.0, 0.0, 0.0),
    )
    wheel_masses: Array = parameter(
        "of the wheels", "kg", ("n",), least=0.0, example=(0.4, 0.4), kw_only=True
    )
    wheel_positions: Array = parameter(
        "of the wheels' centres, body frame",
        "m",
        ("n", 3),
        example=((0.2, 0.0, 0.0), (0.0, 0.2, 0.0)),
        kw_only=True,
    )
    wheel_transverse_inertias: Array = parameter(
        "of the wheels across their axes",
        "kg m²",
        ("n",),
        least=0.0,
        example=(0.025, 0.025),
        kw_only=True,
    )

    state_names: ClassVar[State | None] = State(
        (
            Part(
                "pose",
                ("qw", "qx", "qy", "qz", "x", "y", "z"),
                "1, m",
                "quaternion and position",
                chart=False,
            ),
            Part("angles", "wheel_angle", "rad", "of the wheels"),
        ),
        (
            OMEGA,
            Part(
                "velocity", ("v_x", "v_y", "v_z"), "m/s", "of the body frame's origin, body frame"
            ),
            Part("rates", "wheel_rate", "rad/s", "of the wheels"),
        ),
        (Part("torques", "torque", "N m", "of the wheels"),),
    )

    def __check_init__(self) -> None:
        self._check_wheels()
        wheels = self.wheel_inertias.shape
        _checks.check_shape("mass", self.mass, ())
        _checks.check_positive("mass", self.mass)
        check_inertia("inertia", self.inertia)
        _checks.check_shape("com", self.com, (3,))
        _checks.check_finite("com", self.com)
        for name in ("wheel_masses", "wheel_transverse_inertias"):
            _checks.check_shape(name, getattr(self, name), wheels, "One entry a wheel.")
            _checks.check_not_negative(name, getattr(self, name))
        _checks.check_shape("wheel_positions", self.wheel_positions, (*wheels, 3))
        _checks.check_finite("wheel_positions", self.wheel_positions)

    @property
    def space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """SE(3) × R^n."""
        return Product(SE3(), Euclidean(self.wheel_inertias.shape[0]))

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The masses as points in body axes; the rotations of the hull and of each wheel."""
        places = jnp.concatenate([self.com[None], self.wheel_positions])
        masses = jnp.concatenate([self.mass[None], self.wheel_masses])
        velocity = v[None, 3:6] + places @ hat(v[:3]).T
        points = Points(masses, velocity, jnp.zeros_like(velocity), v[:3])
        hull = inertia_matrix(self.inertia)
        return points, self._spins(hull, self.wheel_inertia_matrices(), q, v, control, t)

    # --- closed forms and other quantities of this system --------------------------------------

    def wheel_inertia_matrices(self) -> Float[Array, "n 3 3"]:
        """I_i = J_i a aᵀ + J_⊥ (1 − a aᵀ), each about its own centre, body axes."""
        across = self.wheel_transverse_inertias[:, None, None]
        along = self.wheel_inertias[:, None, None] - across
        axes = self.wheel_axes
        unit = jnp.eye(3, dtype=axes.dtype)[None]
        return along * axes[:, :, None] * axes[:, None, :] + across * unit

    def _hull(self, q: Configuration) -> Place:
        return q[0][:4], q[0][4:]

    def _wheel_centres(self) -> Array:
        return self.wheel_positions

    def shapes(self) -> tuple[Shape, ...]:
        return self._drawn(self.inertia, self.mass, np.asarray(self.com, dtype=float))

    def locked_inertia(self) -> Float[Array, "6 6"]:
        hull = _about_origin(inertia_matrix(self.inertia), self.mass, self.com)
        wheels = jax.vmap(_about_origin)(
            self.wheel_inertia_matrices(), self.wheel_masses, self.wheel_positions
        )
        return hull + jnp.sum(wheels, axis=0)

    def momentum(self, q: Configuration, u: Float[Array, " k"]) -> Float[Array, " 6"]:
        """The momentum in space (Λ π + x × Λ p, Λ p): angular about the origin, and linear [N m s, N s]."""
        rotation = quaternion_matrix(q[0][:4])
        momentum = self.body_momentum(u)
        linear = rotation @ momentum[3:]
        return jnp.concatenate([rotation @ momentum[:3] + cross(q[0][4:], linear), linear])

    def centre_of_mass(self) -> Vector3:
        """d, the centre of mass of the whole satellite, body frame [m]."""
        moment = self.mass * self.com + self.wheel_masses @ self.wheel_positions
        return moment / (self.mass + jnp.sum(self.wheel_masses))

    def mixed(self) -> "SatelliteMixed":
        """The same satellite in mixed velocities about its centre of mass."""
        lever = hat(self.centre_of_mass())
        locked = self.locked_inertia()
        inertia = locked[:3, :3] + locked[5, 5] * lever @ lever
        return SatelliteMixed(
            self.wheel_axes, self.wheel_inertias, mass=locked[5, 5], inertia=inertia
        )

    def _gyroscopic(self, u: Float[Array, " k"]) -> Float[Array, " 6"]:
        angular, linear = jnp.split(self.body_momentum(u), 2)
        turning = cross(angular, u[:3]) + cross(linear, u[3:6])
        return jnp.concatenate([turning, cross(linear, u[:3])])


class SatelliteMixed(AbstractSatellite):
    r"""The satellite in mixed velocities: ω in the body, the centre of mass in space, where they decouple.

        Θ ω̇ + ω × Θ ω + Σ J_i (a_i φ̈_i + ω × a_i φ̇_i) = 0 ,    m ẍ = 0 ,    J_i (φ̈_i + a_i·ω̇) = τ_i    on (SO(3) × R^3) × R^n

    **Arguments:**

    - `wheel_axes`: a_i, unit vectors, body frame, `(n, 3)`; `wheel_inertias`: J_i about the axes [kg m²], `(n,)`.
    - `mass`: of everything [kg]; `inertia`: Θ of everything, wheels locked, about the centre of mass of
        everything [kg m²], `(3,)` or `(3, 3)`.

    Configuration `q = ((quaternion (4,), centre of mass in space (3,)), wheel angles (n,))`;
    `u = (ω, ẋ, φ̇)`; control: wheel torques τ `(n,)` [N m], or None.

    **Invariants:** angular momentum about the centre of mass and linear momentum, in space, under any
    torques; energy, without.

    **Known solution:** as for `Satellite`; A = Θ⁻¹ (J_i a_i) is constant.

    **Raises:** ValueError for parameters that are not physical.

    Source: Müller 2023, section 5(f)(i), eq. (5.18)–(5.21), with the time derivatives whose dots are missing in
    print, and with J_i about the wheel's own centre instead of the centre of mass of the satellite.
    """

    mass: Array = parameter("mass", "kg", (), positive=True, example=5.0, kw_only=True)
    inertia: Array = parameter(
        "about the centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.9, 1.0, 1.1),
        kw_only=True,
    )

    state_names: ClassVar[State | None] = State(
        (ORIENTATION, IN_SPACE, Part("angles", "wheel_angle", "rad", "of the wheels")),
        (
            OMEGA,
            Part("velocity", ("v_x", "v_y", "v_z"), "m/s", "of the centre of mass, space frame"),
            Part("rates", "wheel_rate", "rad/s", "of the wheels"),
        ),
        (Part("torques", "torque", "N m", "of the wheels"),),
    )

    def __check_init__(self) -> None:
        self._check_wheels()
        _checks.check_shape("mass", self.mass, ())
        _checks.check_positive("mass", self.mass)
        check_inertia("inertia", self.inertia)

    @property
    def space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(SO(3) × R^3) × R^n."""
        wheels = self.wheel_inertias.shape[0]
        return Product(Product(SO3(), Euclidean(3)), Euclidean(wheels))

    def _hull(self, q: Configuration) -> Place:
        return q[0]

    def _wheel_centres(self) -> Array:
        return 0.3 * self.wheel_axes

    def shapes(self) -> tuple[Shape, ...]:
        return self._drawn(self.inertia, self.mass, np.zeros(3))

    def locked_inertia(self) -> Float[Array, "6 6"]:
        linear = self.mass * jnp.eye(3, dtype=self.mass.dtype)
        angular = jnp.pad(inertia_matrix(self.inertia), ((0, 3), (0, 3)))
        return angular + jnp.pad(linear, ((3, 0), (3, 0)))

    def momentum(self, q: Configuration, u: Float[Array, " k"]) -> Float[Array, " 6"]:
        """The momentum in space (Λ π, p): angular about the centre of mass, and linear [N m s, N s]."""
        momentum = self.body_momentum(u)
        angular = quaternion_matrix(q[0][0]) @ momentum[:3]
        return jnp.concatenate([angular, momentum[3:]])

    def _gyroscopic(self, u: Float[Array, " k"]) -> Float[Array, " 6"]:
        angular = cross(self.body_momentum(u)[:3], u[:3])
        return jnp.concatenate([angular, jnp.zeros_like(angular)])


def _about_origin(
    inertia: Float[Array, "3 3"], mass: Scalar, place: Vector3
) -> Float[Array, "6 6"]:
    """[[I − m d̂², m d̂], [−m d̂, m 1]] of a body with its centre of mass at d."""
    lever = mass * hat(place)
    linear = mass * jnp.eye(3, dtype=lever.dtype)
    return jnp.block([[inertia - lever @ hat(place), lever], [-lever, linear]])
